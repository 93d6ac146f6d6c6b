"""The command line: parse, call, print."""

from mpda.cli._app import app, joined, run
from mpda.cli._compare import compare, partition
from mpda.cli._experiments import datasets, demo, report, reproduce
from mpda.cli._fit import fit
from mpda.cli._models import evaluate, export, transform

__all__ = [
    "app",
    "compare",
    "datasets",
    "demo",
    "evaluate",
    "export",
    "fit",
    "joined",
    "partition",
    "report",
    "reproduce",
    "run",
    "transform",
]
