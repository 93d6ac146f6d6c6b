"""Measures of retrieval of methods and of raw vectors, with 95 % intervals.

A measure is the mean m of the values v_q of n queries, between 0 and 1 (`score_queries`). Its
interval is Wilson's with an effective number N of queries (Kott and Carr, 1997),

    [m + t^2 / 2N +- t sqrt(m (1 - m) / N + t^2 / 4N^2)] / (1 + t^2 / N),    N = m (1 - m) / V,

where V estimates the variance of the mean. Queries count as independent, with

    V = sum_q (v_q - m)^2 / n^2,

or come in C clusters: those of a group, or those of a class where the classes themselves are a
sample of the classes to come. Then

    V = C / (C - 1) sum_c (sum_{q in c} (v_q - m))^2 / n^2.

t is the quantile of the normal distribution, with clusters of Student's with C - 1 degrees of
freedom. For recall at 1 without clusters, V = m (1 - m) / n and N = n: the interval is that of the
1-NN error. The fits are taken as they are; fits to other samples vary, too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.assessment.contender import BASELINE
from mpda.model_selection.retrieval import find_measure, score_queries

MEASURES = ("recall_at_1", "recall_at_5", "recall_at_10", "precision_at_10", "map_at_r")
"""Measures of retrieval that the commands and the report have."""
# Queries of a fold, as many as test a method; pairs of queries and vectors of a database; and the
# fewest queries. 40 million pairs of 384 numbers take two to three seconds. A hundred queries know
# a recall to ten points.
_MAX_QUERIES, _MAX_PAIRS, _MIN_QUERIES = 4000, 40_000_000, 100


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over queries with its 95 % interval.

    Parameters
    ----------
    value : float
        The mean, nan if no query counts.
    low, high : float
        Ends of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class RetrievalEstimate:
    """Measures of retrieval of one kind of vectors.

    Parameters
    ----------
    n_queries : int
        Number of queries whose class has another sample in the database.
    measures : dict of str to MeanEstimate
        For each of ``MEASURES``. A measure at k is nan where the database has fewer samples.
    differences : dict of str to MeanEstimate
        Differences from the raw vectors over the same queries; empty for these themselves.
    """

    n_queries: int
    measures: dict[str, MeanEstimate]
    differences: dict[str, MeanEstimate]


@dataclass(frozen=True, eq=False)
class QueryValues:
    """Values of single queries.

    Parameters
    ----------
    values : dict of str to ndarray of shape (n_queries,)
        For each of ``MEASURES``; nan where a query does not count.
    clusters : ndarray of shape (n_queries,) or None, default=None
        Cluster of each query.
    """

    values: Mapping[str, Floats]
    clusters: Labels | None = None


def draw_queries(n_queries: int, n_samples: int, seed: int) -> Ints:
    """Draw the queries that measure a search.

    Parameters
    ----------
    n_queries : int
        Number of samples that may be queries.
    n_samples : int
        Number of samples in the database.
    seed : int
        Seed of the draw.

    Returns
    -------
    ndarray of int of shape (n_drawn,)
        Indices, increasing: all, or at most 4000 at random, fewer in databases of more than 10,000
        samples, but not fewer than 100.
    """
    n_drawn = max(min(_MAX_QUERIES, _MAX_PAIRS // max(n_samples, 1)), _MIN_QUERIES)
    if n_queries <= n_drawn:
        return np.arange(n_queries)
    return np.sort(np.random.default_rng(seed).choice(n_queries, n_drawn, replace=False))


def measure_search(
    Z: Floats,
    y: Labels,
    Z_query: Floats | None = None,
    y_query: Labels | None = None,
    *,
    rows: Ints | None = None,
) -> dict[str, Floats]:
    """Compute the values of ``MEASURES`` for each query.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Vectors of the database.
    y : ndarray of shape (n_samples,)
        Their labels.
    Z_query : ndarray of shape (n_queries, n_components), default=None
        Vectors of the queries. None takes ``rows`` of the database, which do not find themselves.
    y_query : ndarray of shape (n_queries,), default=None
        Their labels.
    rows : ndarray of int of shape (n_queries,), default=None
        Indices of the queries. None takes all.

    Returns
    -------
    dict of str to ndarray of shape (n_queries,)
        nan for queries whose class has no (other) sample in the database, and for measures at a k
        larger than the database.
    """
    queried = y_query if y_query is not None else y if rows is None else y[rows]
    values = {name: np.full(len(queried), np.nan) for name in MEASURES}
    n_others = len(y) - int(y_query is None)
    known = [name for name in MEASURES if (find_measure(name).k or 1) <= n_others]
    labels, sizes = np.unique(y, return_counts=True)
    # Alone among the others, a sample of the database has none of its class.
    labels = labels[sizes > int(y_query is None)]
    if known and np.isin(queried, labels).any():
        values |= score_queries(Z, y, Z_query, y_query, known, rows=rows).values
    return values


def estimate_rows(
    rows: Sequence[Mapping[str, Any]], clusters: Labels | None, key: str = "retrieval"
) -> dict[str, RetrievalEstimate]:
    """Estimate the measures of each method over the queries of all folds.

    Parameters
    ----------
    rows : sequence of FoldResult
        One row for each method and fold.
    clusters : ndarray of shape (n_samples,) or None
        Cluster of each sample.
    key : str, default="retrieval"
        Entry of the rows with the values.

    Returns
    -------
    dict of str to RetrievalEstimate
        By method; those without a map are left out. Differences are those from plain 1-NN, if it
        has rows.
    """
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if key in row:
            by_method.setdefault(row["method"], []).append(row)
    joined = {name: _join_folds(folds, clusters, key) for name, folds in by_method.items()}
    raw = joined.get(BASELINE)
    return {
        name: estimate_retrieval(queries, None if name == BASELINE else raw)
        for name, queries in joined.items()
    }


def _join_folds(
    rows: Sequence[Mapping[str, Any]], clusters: Labels | None, key: str
) -> QueryValues:
    values = {name: np.concatenate([row[key][name] for row in rows]) for name in MEASURES}
    queries = np.concatenate([row["queries"] for row in rows])
    return QueryValues(values, None if clusters is None else clusters[queries])


def estimate_retrieval(queries: QueryValues, raw: QueryValues | None = None) -> RetrievalEstimate:
    """Estimate the measures, and their differences from those of the raw vectors.

    Parameters
    ----------
    queries : QueryValues
        Values of each query.
    raw : QueryValues, default=None
        Values of the same queries with raw vectors.

    Returns
    -------
    RetrievalEstimate
        Means and intervals.
    """
    clusters = queries.clusters
    measures = {name: estimate_mean(values, clusters) for name, values in queries.values.items()}
    differences = {}
    if raw is not None:
        gaps = {name: values - raw.values[name] for name, values in queries.values.items()}
        differences = {name: _estimate_difference(gap, clusters) for name, gap in gaps.items()}
    counted = np.isfinite(queries.values[MEASURES[0]])
    return RetrievalEstimate(int(np.count_nonzero(counted)), measures, differences)


def estimate_mean(values: Floats, clusters: Labels | None = None) -> MeanEstimate:
    """Estimate the mean of values between 0 and 1.

    Parameters
    ----------
    values : ndarray of shape (n_queries,)
        Values; nan does not count.
    clusters : ndarray of shape (n_queries,) or None, default=None
        Cluster of each value.

    Returns
    -------
    MeanEstimate
        Mean and interval, from 0 to 1 for a single cluster.
    """
    found = _describe_spread(values, clusters)
    mean, t = found.mean, found.quantile
    if math.isnan(mean) or math.isinf(t):
        return MeanEstimate(mean, *((0.0, 1.0) if math.isinf(t) else (math.nan, math.nan)))
    # Equal values have no variance. As many others would then be as different as they can be.
    product = mean * (1.0 - mean)
    n = product / found.variance if found.variance > 0.0 else float(found.n)
    half = t * math.sqrt(max(product, 0.0) / n + t * t / (4.0 * n * n))
    centre, width = mean + t * t / (2.0 * n), 1.0 + t * t / n
    # Rounding must not put the mean outside.
    low, high = (centre - half) / width, (centre + half) / width
    return MeanEstimate(mean, max(min(low, mean), 0.0), min(max(high, mean), 1.0))


def _estimate_difference(gaps: Floats, clusters: Labels | None) -> MeanEstimate:
    """Estimate the mean of differences by the normal or Student's distribution."""
    found = _describe_spread(gaps, clusters)
    half = found.quantile * math.sqrt(found.variance)
    return MeanEstimate(found.mean, max(found.mean - half, -1.0), min(found.mean + half, 1.0))


@dataclass(frozen=True)
class _Spread:
    """Mean of n values, its variance, and the quantile t of an interval.

    The quantile is infinite for a single cluster, and all but n are nan where no value counts.
    """

    n: int
    mean: float
    variance: float
    quantile: float


def _describe_spread(values: Floats, clusters: Labels | None) -> _Spread:
    is_counted = np.isfinite(values)
    counted = values[is_counted]
    n = counted.size
    if not n:
        return _Spread(0, math.nan, math.nan, math.nan)
    # The mean of equal values may be rounded.
    mean = float(counted.mean() if np.ptp(counted) else counted[0])
    residuals = counted - mean
    if clusters is None:
        return _Spread(n, mean, float(residuals @ residuals) / n**2, float(ndtri(0.975)))
    codes = np.unique(clusters[is_counted], return_inverse=True)[1]
    sums = np.bincount(codes, weights=residuals)
    if sums.size < 2:
        return _Spread(n, mean, 1.0, math.inf)
    variance = sums.size / (sums.size - 1) * float(sums @ sums) / n**2
    return _Spread(n, mean, variance, float(stdtrit(sums.size - 1, 0.975)))
