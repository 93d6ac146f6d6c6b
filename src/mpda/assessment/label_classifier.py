"""Logistic regression on all numbers, the reference where only the label counts.

A map with 1-NN is often less accurate than a linear classifier on the vectors themselves. Tables of
errors of vectors have a row of it. It has no neighbours, so it has no measures of retrieval.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda._lib.array_types import Labels
from mpda.model_selection.folds import Folds, stratified_folds, stratified_order

CLASSIFIER = "logistic regression"
CLASSIFIER_NOTE = "all numbers, label only, no map"
MAP_ADVANTAGE = (
    "A classifier gives a label only; a map gives neighbours and their order, takes new classes "
    "without training again, makes vectors smaller, and is one matrix in a vector store."
)
# Inverse strengths of the penalty, on standardised features. Embeddings of 384 numbers select 0.01
# to 1, tables of a few features the largest.
INVERSE_PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)
# Samples and folds that select one of them, and the tolerance of these fits, which is ten times the
# usual one: some seconds with 384 numbers and 150 classes. On all 18,000 training texts of CLINC150
# the three largest values differ by 0.1 points; the tolerance raises their errors by up to 0.4.
_MAX_CHOOSING, _N_FOLDS, _TOLERANCE = 2000, 3, 1e-3
# scikit-learn's default, where classes are too small for folds.
_DEFAULT = 1.0
# Iterations of a fit; 20 to 60 are usual. Features that are nearly dependent need more, for digits
# of the coefficients that change no label.
_MAX_ITER = 200
# Coefficients times samples up to which a fit takes about a minute: each of some 50 iterations
# multiplies the samples by the coefficients twice.
_MAX_PRODUCTS = 10_000_000_000


def fit_label_classifier(
    X: Any,
    y: Labels,
    *,
    groups: Labels | None = None,
    seed: int = 0,
    scoring: str = "accuracy",
) -> Pipeline:
    """Fit logistic regression to standardised features, with a penalty by cross-validation.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
        Training samples. Features of a sparse matrix are scaled and not centred.
    y : array of shape (n_samples,)
        Labels.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample. No fold divides a group.
    seed : int, default=0
        Seed of the draw and of the folds.
    scoring : {"accuracy", "balanced_accuracy"}, default="accuracy"
        Score that selects the penalty. Equal scores select the strongest penalty.

    Returns
    -------
    Pipeline
        Scaler and classifier, fitted to all samples. Those of float32 give coefficients of float32.

    Raises
    ------
    ValueError
        If the fit would take minutes.
    """
    n_products = X.shape[0] * X.shape[1] * len(np.unique(y))
    if n_products > _MAX_PRODUCTS:
        size = f"{X.shape[0]:,} samples x {X.shape[1]:,} numbers x {len(np.unique(y)):,} classes"
        raise ValueError(f"a fit to {size} would take minutes")
    pipeline = make_pipeline(
        StandardScaler(with_mean=not issparse(X)), LogisticRegression(max_iter=_MAX_ITER)
    )
    with warnings.catch_warnings():
        # The labels no longer change when the iterations end (_MAX_ITER).
        warnings.simplefilter("ignore", ConvergenceWarning)
        value = _select_penalty(pipeline, X, y, groups, seed, scoring)
        return pipeline.set_params(logisticregression__C=value).fit(X, y)


def _select_penalty(
    pipeline: Pipeline, X: Any, y: Labels, groups: Labels | None, seed: int, scoring: str
) -> float:
    """Return the inverse penalty with the best mean score over folds of some samples."""
    # Two samples of each class first, so that a class is in training and test parts.
    drawn = np.sort(stratified_order(y, 2, np.random.default_rng(seed))[:_MAX_CHOOSING])
    X, y, groups = X[drawn], y[drawn], None if groups is None else groups[drawn]
    folds = _draw_folds(y, groups, seed)
    if not folds:
        return _DEFAULT
    pipeline = clone(pipeline).set_params(logisticregression__tol=_TOLERANCE)
    grid = {"logisticregression__C": INVERSE_PENALTIES}
    search = GridSearchCV(pipeline, grid, cv=folds, scoring=scoring, refit=False).fit(X, y)
    return float(search.best_params_["logisticregression__C"])


def _draw_folds(y: Labels, groups: Labels | None, seed: int) -> Folds:
    """Return folds whose training parts have two classes; none where classes are too small."""
    largest = int(np.unique(y, return_counts=True)[1].max())
    n_groups = len(y) if groups is None else len(np.unique(groups))
    n_folds = min(_N_FOLDS, largest, n_groups)
    if n_folds < 2:
        return []
    folds = stratified_folds(y, n_folds, seed, groups)
    return [(train, test) for train, test in folds if len(np.unique(y[train])) > 1]
