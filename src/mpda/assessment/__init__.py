"""What a method is worth on given samples: choices on the training part, errors on the test part,
and the statistics of a table."""

from mpda.assessment._cells import (
    ErrorEstimate,
    ErrorEstimates,
    FoldResult,
    compute_error_curves,
    compute_fit_costs,
    differ_significantly,
    estimate_errors,
    find_best_methods,
)
from mpda.assessment._contender import Contender
from mpda.assessment._evaluation import Evaluation, evaluate_model
from mpda.assessment._nested import (
    BASELINE,
    Assessment,
    AssessmentProtocol,
    SelectedModel,
    assess_methods,
    count_steps,
    make_contender,
    select_model,
)
from mpda.assessment._scores import Selection, assess_baseline, assess_split, compute_scores
from mpda.assessment._split import (
    PCA_ENERGY,
    PCA_MIN_FEATURES,
    Preprocessing,
    Split,
    default_pca_energy,
    reduce_by_pca,
)
from mpda.assessment._text import format_error_table

__all__ = [
    "BASELINE",
    "PCA_ENERGY",
    "PCA_MIN_FEATURES",
    "Assessment",
    "AssessmentProtocol",
    "Contender",
    "ErrorEstimate",
    "ErrorEstimates",
    "Evaluation",
    "FoldResult",
    "Preprocessing",
    "SelectedModel",
    "Selection",
    "Split",
    "assess_baseline",
    "assess_methods",
    "assess_split",
    "compute_error_curves",
    "compute_fit_costs",
    "compute_scores",
    "count_steps",
    "default_pca_energy",
    "differ_significantly",
    "estimate_errors",
    "evaluate_model",
    "find_best_methods",
    "format_error_table",
    "make_contender",
    "reduce_by_pca",
    "select_model",
]
