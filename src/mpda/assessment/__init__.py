"""Assessment of methods: errors by nested cross-validation, their uncertainty, and tests.

A `Contender` is a method with its parameter grid. `assess_methods` measures the errors of
contenders by nested cross-validation. `estimate_errors`, `compare_errors` and `compare_ranks` turn
them into means, intervals and significance. `select_model` fits the model to keep, and
`evaluate_model` measures it on other samples. The parts of one fold are in
`mpda.assessment.outer_fold`. `score_queries` measures how well vectors are retrieved.
"""

from mpda.assessment.assessment_protocol import AssessmentProtocol
from mpda.assessment.balanced_error import balanced_errors, find_better_balanced
from mpda.assessment.byte_budget import StorageCandidate, StorageChoice, choose_storage
from mpda.assessment.contender import AUTOMATIC, BASELINE, Contender, make_contender
from mpda.assessment.data_split import Split, default_pca_energy
from mpda.assessment.error_statistics import (
    ErrorComparison,
    ErrorCurve,
    ErrorEstimate,
    compare_errors,
    compare_methods,
    compute_error_curves,
    compute_fit_costs,
    estimate_errors,
    find_best_methods,
    find_best_unpaired,
    find_better_than_guess,
    name_deciding_test,
)
from mpda.assessment.evaluation import Classification, Evaluation, classify_samples, evaluate_model
from mpda.assessment.label_classifier import (
    CLASSIFIER,
    CLASSIFIER_NOTE,
    MAP_ADVANTAGE,
    fit_label_classifier,
)
from mpda.assessment.model_choice import SelectedModel, select_model, time_selection
from mpda.assessment.nested_cv import Assessment, assess_methods, assess_unseen_classes
from mpda.assessment.outer_fold import FoldResult
from mpda.assessment.significance import RankComparison, compare_ranks
from mpda.assessment.stored_vectors import StoredScore, measure_stored_vectors, score_stored
from mpda.assessment.text_table import format_error_table
from mpda.model_selection.retrieval import (
    RetrievalScores,
    map_at_r,
    precision_at_k,
    r_precision,
    recall_at_k,
    score_queries,
)

__all__ = [
    "AUTOMATIC",
    "BASELINE",
    "CLASSIFIER",
    "CLASSIFIER_NOTE",
    "MAP_ADVANTAGE",
    "Assessment",
    "AssessmentProtocol",
    "Classification",
    "Contender",
    "ErrorComparison",
    "ErrorCurve",
    "ErrorEstimate",
    "Evaluation",
    "FoldResult",
    "RankComparison",
    "RetrievalScores",
    "SelectedModel",
    "Split",
    "StorageCandidate",
    "StorageChoice",
    "StoredScore",
    "assess_methods",
    "assess_unseen_classes",
    "balanced_errors",
    "choose_storage",
    "classify_samples",
    "compare_errors",
    "compare_methods",
    "compare_ranks",
    "compute_error_curves",
    "compute_fit_costs",
    "default_pca_energy",
    "estimate_errors",
    "evaluate_model",
    "find_best_methods",
    "find_best_unpaired",
    "find_better_balanced",
    "find_better_than_guess",
    "fit_label_classifier",
    "format_error_table",
    "make_contender",
    "map_at_r",
    "measure_stored_vectors",
    "name_deciding_test",
    "precision_at_k",
    "r_precision",
    "recall_at_k",
    "score_queries",
    "score_stored",
    "select_model",
    "time_selection",
]
