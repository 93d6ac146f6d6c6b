"""A report in one HTML file, and its figures for papers (``pip install 'mpda[report]'``).

What is to be shown is collected into a dictionary first, which can be kept as ``results.json``, and
then rendered. Every part but "format", "version" and "made" may be missing.
"""

from mpda.report._drawings import write_figures
from mpda.report._page import render, write_page
from mpda.report._results import read_results, to_json_types, write_results

__all__ = [
    "read_results",
    "render",
    "to_json_types",
    "write_figures",
    "write_page",
    "write_results",
]
