"""The paper's experiments: its protocol as data, tasks, rows that survive, tables and figures."""

from mpda.reproduction._contenders import CONTENDERS
from mpda.reproduction._demo import demo
from mpda.reproduction._experiments import EXPERIMENTS, Order, Outcome, reproduce
from mpda.reproduction._protocol import PROBLEMS, SEEDS, Problem, split
from mpda.reproduction._store import read as read_rows

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
