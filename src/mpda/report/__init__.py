"""A report in one HTML file, and its figures for papers (``pip install 'mpda[report]'``).

Results are collected into a dictionary of JSON types (`mpda.report.collect`), which can be saved as
``results.json``, and rendered from it. The entries "format", "version" and "provenance" are
required; sections that are missing are not shown. matplotlib is imported only when a page or figure
is made.
"""

from mpda.report.page import render, write_figures, write_page
from mpda.report.results_file import read_results, to_json_types, write_results

__all__ = [
    "read_results",
    "render",
    "to_json_types",
    "write_figures",
    "write_page",
    "write_results",
]
