"""The command line ``mpda``: fit, apply, compare and export models of tables in files.

Commands parse their options, call the library and print. Each group of commands is one module;
``program`` holds them together. Needs ``pip install 'mpda[cli]'``.
"""

from mpda.cli.program import app, run

__all__ = ["app", "run"]
