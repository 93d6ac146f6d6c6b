"""What a method is worth on given samples: choices on the training part, errors on the test part,
and the statistics of a table."""

from mpda.assessment._cells import (
    Cell,
    Cells,
    Row,
    best_and_ties,
    cells,
    costs,
    differs,
    error_curves,
)
from mpda.assessment._contender import Contender
from mpda.assessment._evaluation import Evaluation, evaluated
from mpda.assessment._nested import (
    BASELINE,
    Assessment,
    Chosen,
    Protocol,
    assessed,
    chosen_model,
    contender,
    n_steps,
)
from mpda.assessment._scores import Choice, compared, one_nn_row, score_table
from mpda.assessment._split import ENERGY, MOST_FEATURES, Preparation, Split, reduced, usual_energy
from mpda.assessment._text import error_lines

__all__ = [
    "BASELINE",
    "ENERGY",
    "MOST_FEATURES",
    "Assessment",
    "Cell",
    "Cells",
    "Choice",
    "Chosen",
    "Contender",
    "Evaluation",
    "Preparation",
    "Protocol",
    "Row",
    "Split",
    "assessed",
    "best_and_ties",
    "cells",
    "chosen_model",
    "compared",
    "contender",
    "costs",
    "differs",
    "error_curves",
    "error_lines",
    "evaluated",
    "n_steps",
    "one_nn_row",
    "reduced",
    "score_table",
    "usual_energy",
]
