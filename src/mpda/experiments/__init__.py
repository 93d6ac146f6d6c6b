"""The paper's experiments: protocol, data sets, tasks, result tables, figures and a demonstration.

Reading order: ``protocol`` (problems, seeds, splits), ``paper_methods`` (methods and their grids),
``task`` (one method on one split), ``row_store`` and ``runner`` (rows on disk, parallel runs),
``error_tables`` and ``paper_figures``, and ``experiment`` and ``paper_experiments``, which put
them together.
"""

from mpda.experiments.experiment import ExperimentOptions, ExperimentResult
from mpda.experiments.intents_demo import Demonstration, demo
from mpda.experiments.paper_experiments import EXPERIMENTS, find_choices, reproduce
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import PROBLEMS, SEEDS, Problem, split
from mpda.experiments.row_store import read_rows

__all__ = [
    "CONTENDERS",
    "EXPERIMENTS",
    "PROBLEMS",
    "SEEDS",
    "Demonstration",
    "ExperimentOptions",
    "ExperimentResult",
    "Problem",
    "demo",
    "find_choices",
    "read_rows",
    "reproduce",
    "split",
]
