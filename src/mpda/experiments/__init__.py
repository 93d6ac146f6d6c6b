"""The paper's experiments: its protocol as data, tasks, rows that survive, tables and figures."""

from mpda.experiments._contenders import CONTENDERS
from mpda.experiments._demo import demo
from mpda.experiments._experiments import EXPERIMENTS, Order, Outcome, reproduce
from mpda.experiments._protocol import PROBLEMS, SEEDS, Problem, split
from mpda.experiments._store import read as read_rows

__all__ = [
    "CONTENDERS",
    "EXPERIMENTS",
    "PROBLEMS",
    "SEEDS",
    "Order",
    "Outcome",
    "Problem",
    "demo",
    "read_rows",
    "reproduce",
    "split",
]
