"""One task: one contender on one split of one problem, from samples to a row of results."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import StratifiedKFold

from mpda._lib.array_types import Floats, Labels
from mpda.assessment import (
    Contender,
    Selection,
    assess_baseline,
    assess_split,
    compute_scores,
    reduce_by_pca,
)
from mpda.exceptions import SmallClassWarning
from mpda.experiments._cost import cost
from mpda.experiments._protocol import N_FOLDS, Problem, split

Row = dict[str, Any]


def errors(problem: Problem, contender: Contender, seed: int, directory: Path | None) -> Row:
    """Errors of 1-NN on the test part by number of components, and what cross-validation chose."""
    # Classes of COIL have 18 samples; no-ridge forms may be singular at some grid points; NCA and
    # LSDR end by their budgets. All of it is part of the protocol.
    with warnings.catch_warnings():
        for category in (SmallClassWarning, FitFailedWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        part = split(problem, directory, seed)
        if contender.method is None:
            return {**assess_baseline(part)}
        part = reduce_by_pca(part)
        row = assess_split(contender, part, partial(_least_error, seed=seed))
        fitted = contender.estimator(row["parameters"], row["cv_dimension"])
        seconds, mib = cost(lambda: fitted.fit(part.X, part.y))
        return {**row, "fit_seconds": round(seconds, 4), "fit_mib": round(mib, 2)}


def _least_error(contender: Contender, X: Floats, y: Labels, *, seed: int) -> Selection:
    """As the paper chooses: the best mean over the folds of the training part."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y)
    return compute_scores(contender, dict(contender.grid), X, y, list(folds)).select_best()
