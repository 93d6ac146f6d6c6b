"""Balanced errors: the mean over classes of their errors, with intervals and a test.

A class counts as much as any other, however few samples it has. Always guessing one class has the
balanced error 1 - 1 / C for C classes.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from mpda._lib.array_types import Labels
from mpda.assessment import significance
from mpda.assessment.label_classifier import CLASSIFIER


@dataclass(frozen=True)
class BalancedError:
    """Mean over classes of their errors, from all tested samples.

    Parameters
    ----------
    error : float
        Per cent.
    interval : tuple of float or None
        Confidence interval (95 %); None where samples come in groups.
    """

    error: float
    interval: tuple[float, float] | None


def balanced_errors(rows: Iterable[Mapping[str, Any]], y: Labels) -> dict[str, BalancedError]:
    """Compute the balanced error of each method.

    Parameters
    ----------
    rows : iterable of FoldResult
        Rows of one problem with ``tested`` and ``misclassified``.
    y : array of shape (n_samples,)
        Labels of all samples.

    Returns
    -------
    dict of str to BalancedError
        By method, in the order of the rows. The interval is that of a normal distribution; each
        class has the variance of its error with one right and one wrong sample added.
    """
    groups = defaultdict(list)
    for row in rows:
        groups[row["method"]].append(row)
    results = {}
    for method, folds in groups.items():
        labels = y[np.concatenate([row["tested"] for row in folds])]
        wrong = np.concatenate([row["misclassified"] for row in folds])
        codes = np.unique(labels, return_inverse=True)[1]
        sizes, counts = np.bincount(codes), np.bincount(codes, wrong)
        error, share = 100.0 * float(np.mean(counts / sizes)), (counts + 1.0) / (sizes + 2.0)
        half = 196.0 * math.sqrt(np.sum(share * (1.0 - share) / (sizes + 2.0))) / sizes.size
        interval = max(0.0, error - half), min(100.0, error + half)
        results[method] = BalancedError(error, None if "groups" in folds[0] else interval)
    return results


def find_better_balanced(errors: Mapping[str, BalancedError], n_classes: int) -> list[str]:
    """Return the methods whose balanced error is significantly below that of guessing one class.

    Parameters
    ----------
    errors : mapping of str to BalancedError
        Errors by method, as `balanced_errors` computes them.
    n_classes : int
        Number of classes.

    Returns
    -------
    list of str
        Methods for which the upper end of a one-sided interval is lower. Its level is adjusted for
        the number of methods. The classifier is none of them, so that conclusions about maps do not
        depend on it.
    """
    errors = {name: value for name, value in errors.items() if name != CLASSIFIER}
    guess = 100.0 * (1.0 - 1.0 / n_classes)
    normal = NormalDist()
    # The interval is that of a normal distribution with 2.5 % on each side.
    ratio = normal.inv_cdf(1.0 - significance.LEVEL / len(errors)) / normal.inv_cdf(0.975)
    return [
        name
        for name, value in errors.items()
        if value.interval is not None
        and value.error + ratio * (value.interval[1] - value.error) < guess
    ]
