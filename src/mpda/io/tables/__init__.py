"""Samples in files: tables of CSV, TSV, Parquet and Arrow, and NumPy's arrays."""

from mpda.io.tables._frames import FRAMES
from mpda.io.tables._reading import KINDS, columns_of, is_frame, read_table
from mpda.io.tables._table import Table
from mpda.io.tables._words import named_in
from mpda.io.tables._writing import OUTPUTS, check_output, write_table

__all__ = [
    "FRAMES",
    "KINDS",
    "OUTPUTS",
    "Table",
    "check_output",
    "columns_of",
    "is_frame",
    "named_in",
    "read_table",
    "write_table",
]
