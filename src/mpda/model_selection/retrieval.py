"""Measures of retrieval: how many of a query's neighbours in a database have its class.

With rel(i) = 1 if the i-th nearest database sample has the class of the query, else 0, and R the
number of database samples of this class, a query has

    recall@k    = max_{i<=k} rel(i)
    precision@k = 1/k sum_{i<=k} rel(i)
    R-precision = 1/R sum_{i<=R} rel(i)
    MAP@R       = 1/R sum_{i<=R} rel(i) P(i),    P(i) = precision@i,

and a measure is the mean over the queries. R-precision and MAP@R are those of Musgrave, Belongie
and Lim (2020). Neighbours come from `mpda.neighbors.ordered_search`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d

from mpda._lib.array_types import ArrayLike, Bools, Floats, Ints, Labels
from mpda._lib.validation import check_count, distinct_labels
from mpda.neighbors.ordered_search import OrderedSearch

_NUMBERED = re.compile(r"(recall|precision)_at_([1-9][0-9]*)")


@dataclass(frozen=True)
class RetrievalMeasure:
    """Measure of retrieval; larger is better, 1 is the best.

    Attributes
    ----------
    name : str
        Name, as `find_measure` takes it.
    k : int or None
        Number of neighbours; None stands for R.
    compute : callable
        Function of ``is_relevant`` (b, c), whose entries beyond k or R are False, and of the
        numbers k or R (b,); it returns the value of each query (b,).
    """

    name: str
    k: int | None
    compute: Callable[[Bools, Ints], Floats]


@dataclass(frozen=True)
class RetrievalScores:
    """Measures of retrieval by query.

    Parameters
    ----------
    values : dict of str to ndarray of shape (n_queries,)
        Values of each measure, from 0 to 1; nan for queries whose class has no sample in the
        database.
    n_relevant : ndarray of int of shape (n_queries,)
        Number R of database samples of the query's class, the query itself not counted.
    """

    values: dict[str, Floats]
    n_relevant: Ints

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure over the queries that count."""
        counts = self.n_relevant > 0
        return {name: float(values[counts].mean()) for name, values in self.values.items()}


def find_measure(name: str) -> RetrievalMeasure:
    """Return the measure of a name.

    Parameters
    ----------
    name : str
        "recall_at_<k>" or "precision_at_<k>" with a positive integer, as "recall_at_10",
        "r_precision" or "map_at_r".

    Returns
    -------
    RetrievalMeasure

    Raises
    ------
    ValueError
        If there is no such measure.
    """
    if name == "r_precision":
        return RetrievalMeasure(name, None, _compute_precision)
    if name == "map_at_r":
        return RetrievalMeasure(name, None, _compute_average_precision)
    numbered = _NUMBERED.fullmatch(name) if isinstance(name, str) else None
    if numbered is None:
        raise ValueError(
            "A measure of retrieval must be 'recall_at_<k>' or 'precision_at_<k>' with a positive "
            f"integer k, 'r_precision' or 'map_at_r', got {name!r}."
        )
    compute = _compute_recall if numbered[1] == "recall" else _compute_precision
    return RetrievalMeasure(name, int(numbered[2]), compute)


def _compute_recall(is_relevant: Bools, depths: Ints) -> Floats:
    return np.asarray(is_relevant.any(axis=1), dtype=np.float64)


def _compute_precision(is_relevant: Bools, depths: Ints) -> Floats:
    return np.asarray(np.count_nonzero(is_relevant, axis=1) / depths)


def _compute_average_precision(is_relevant: Bools, depths: Ints) -> Floats:
    precision = np.cumsum(is_relevant, axis=1) / np.arange(1, is_relevant.shape[1] + 1)
    # Summed from left to right: the sum must not depend on the columns that a block has behind R.
    return np.asarray(np.cumsum(precision * is_relevant, axis=1)[:, -1] / depths)


def score_queries(
    Z: ArrayLike,
    y: ArrayLike,
    Z_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
    measures: str | Sequence[str] = ("recall_at_1", "r_precision", "map_at_r"),
    *,
    rows: ArrayLike | None = None,
) -> RetrievalScores:
    """Compute measures of retrieval for each query, from one search of neighbours.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_components)
        Vectors of the database. Neighbours have the smallest Euclidean distance; vectors of length
        1 are compared by cosine similarity then. Equal distances go to the lower index.
    y : array-like of shape (n_samples,)
        Their labels.
    Z_query : array-like of shape (n_queries, n_components), default=None
        Vectors of the queries. None takes every vector of the database as a query. It does not find
        itself then, but its copies.
    y_query : array-like of shape (n_queries,), default=None
        Labels of the queries; given if and only if ``Z_query`` is.
    measures : str or sequence of str, default=("recall_at_1", "r_precision", "map_at_r")
        Names of measures: "recall_at_<k>" and "precision_at_<k>" with a positive integer, as
        "recall_at_10", "r_precision" and "map_at_r".
    rows : array-like of int of shape (n_queries,), default=None
        Indices of the vectors of the database that are the queries, in place of ``Z_query``. None
        takes every vector.

    Returns
    -------
    RetrievalScores
        Values of each query, and their means. Queries whose class has no sample in the database,
        besides the query itself, do not count: their values are nan.

    Raises
    ------
    ValueError
        If no query counts, or if the database has fewer than k samples.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda.assessment import score_queries
    >>> X, y = load_iris(return_X_y=True)
    >>> scores = score_queries(X[::2], y[::2], X[1::2], y[1::2], ["recall_at_1", "map_at_r"])
    >>> {name: round(mean, 3) for name, mean in scores.means.items()}
    {'recall_at_1': 0.96, 'map_at_r': 0.783}
    >>> scores.values["map_at_r"].shape
    (75,)
    """
    names = [measures] if isinstance(measures, str) else list(measures)
    chosen = [find_measure(name) for name in names]
    if not chosen:
        raise ValueError("measures must name at least one measure, got none.")
    Z, y = _check_vectors(Z, y, "")
    is_self_search = Z_query is None
    if (y_query is None) != is_self_search:
        raise ValueError("Z_query and y_query must be given together.")
    if rows is not None and not is_self_search:
        raise ValueError("rows are queries of the database and exclude Z_query and y_query.")
    if is_self_search:
        codes = distinct_labels(y)[1]
        indices = np.arange(len(Z)) if rows is None else column_or_1d(rows)
        query_codes = codes[indices]
    else:
        Z_query, y_query = _check_vectors(Z_query, y_query, "_query")
        if Z_query.shape[1] != Z.shape[1]:
            raise ValueError(
                f"Z_query has {Z_query.shape[1]} features, but Z has {Z.shape[1]} features."
            )
        codes, query_codes = _encode_labels(y, y_query)
        indices = np.arange(len(Z_query))
    n_others = len(Z) - int(is_self_search)
    for measure in chosen:
        if measure.k is not None and measure.k > n_others:
            besides = " besides a query" if is_self_search else ""
            raise ValueError(
                f"{measure.name} needs at least {measure.k} samples in the database, but there are "
                f"{n_others}{besides}. Use a smaller k or a larger database."
            )
    n_classes = int(max(codes.max(), query_codes.max())) + 1
    n_relevant = np.bincount(codes, minlength=n_classes)[query_codes] - int(is_self_search)
    counted = np.flatnonzero(n_relevant)
    if counted.size == 0:
        raise ValueError(
            f"None of the {len(query_codes)} queries has another sample of its class in the "
            f"database ({len(Z)} samples), so no query counts."
        )
    values = {measure.name: np.full(len(query_codes), np.nan) for measure in chosen}
    depths = [n_relevant[counted] if m.k is None else np.full(counted.size, m.k) for m in chosen]
    search = OrderedSearch(Z, Z_query)
    for block, k in search.iter_blocks(counted, np.max(depths, axis=0)):
        is_relevant = codes[search.find(indices[block], k)] == query_codes[block, None]
        for measure in chosen:
            numbers = n_relevant[block] if measure.k is None else np.full(block.size, measure.k)
            first = is_relevant[:, : numbers.max()]
            first = first & (np.arange(first.shape[1]) < numbers[:, None])
            values[measure.name][block] = measure.compute(first, numbers)
    return RetrievalScores(values, n_relevant)


def _check_vectors(Z: ArrayLike, y: ArrayLike, suffix: str) -> tuple[Floats, Labels]:
    """Return vectors and their labels as arrays, or raise an error that names them."""
    Z = check_array(Z, dtype=[np.float64, np.float32], input_name=f"Z{suffix}")
    y = column_or_1d(y)
    assert_all_finite(y, input_name=f"y{suffix}")
    check_consistent_length(Z, y)
    return Z, y


def _encode_labels(y: Labels, y_query: Labels) -> tuple[Ints, Ints]:
    """Return the numbers of the labels of database and queries; equal labels have equal ones."""
    # NumPy would turn numbers into strings, and integers of 64 bits into rounded ones.
    if y.dtype.kind != y_query.dtype.kind:
        y, y_query = y.astype(object), y_query.astype(object)
    labels = np.concatenate([y, y_query])
    try:
        codes = distinct_labels(labels)[1]
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise TypeError(
            f"y and y_query must hold labels of one kind, got {', '.join(kinds)}."
        ) from None
    return codes[: len(y)], codes[len(y) :]


def recall_at_k(
    Z: ArrayLike,
    y: ArrayLike,
    Z_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
    *,
    k: int = 10,
) -> float:
    """Compute the share of queries that find a sample of their class among k neighbours.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_components)
        Vectors of the database, compared by Euclidean distance.
    y : array-like of shape (n_samples,)
        Their labels.
    Z_query : array-like of shape (n_queries, n_components), default=None
        Vectors of the queries. None searches the vectors of the database among themselves.
    y_query : array-like of shape (n_queries,), default=None
        Labels of the queries.
    k : int, default=10
        Number of neighbours, at most the size of the database.

    Returns
    -------
    float
        Mean over the queries, from 0 to 1. `score_queries` says which queries count.

    Notes
    -----
    recall@k of a query is max_{i<=k} rel(i), where rel(i) is 1 if the i-th nearest sample has the
    class of the query, else 0. This is the recall of papers on metric learning, elsewhere called
    success or hit rate. With k = 1 it is the accuracy of a nearest-neighbour classifier. Papers on
    approximate search call something else recall: the share of true neighbours that an index finds.

    References
    ----------
    Jégou, Douze and Schmid (2011). "Product quantization for nearest neighbor search."

    Examples
    --------
    >>> from mpda.assessment import recall_at_k
    >>> recall_at_k([[0.0], [1.0], [3.0], [4.5]], ["a", "b", "b", "a"], k=2)
    0.5
    """
    return _mean(Z, y, Z_query, y_query, f"recall_at_{check_count('k', k)}")


def precision_at_k(
    Z: ArrayLike,
    y: ArrayLike,
    Z_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
    *,
    k: int = 10,
) -> float:
    """Compute the mean share of k neighbours that have the class of the query.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_components)
        Vectors of the database, compared by Euclidean distance.
    y : array-like of shape (n_samples,)
        Their labels.
    Z_query : array-like of shape (n_queries, n_components), default=None
        Vectors of the queries. None searches the vectors of the database among themselves.
    y_query : array-like of shape (n_queries,), default=None
        Labels of the queries.
    k : int, default=10
        Number of neighbours, at most the size of the database.

    Returns
    -------
    float
        Mean over the queries, from 0 to 1. `score_queries` says which queries count.

    Notes
    -----
    precision@k of a query is 1/k sum_{i<=k} rel(i), where rel(i) is 1 if the i-th nearest sample
    has the class of the query, else 0. It is below 1 where a class has fewer than k samples.

    References
    ----------
    Manning, Raghavan and Schütze (2008). "Introduction to Information Retrieval", section 8.4.

    Examples
    --------
    >>> from mpda.assessment import precision_at_k
    >>> precision_at_k([[0.0], [1.0], [3.0], [4.5]], ["a", "b", "b", "a"], k=2)
    0.25
    """
    return _mean(Z, y, Z_query, y_query, f"precision_at_{check_count('k', k)}")


def r_precision(
    Z: ArrayLike,
    y: ArrayLike,
    Z_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
) -> float:
    """Compute the mean share of R neighbours that have the class of the query.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_components)
        Vectors of the database, compared by Euclidean distance.
    y : array-like of shape (n_samples,)
        Their labels.
    Z_query : array-like of shape (n_queries, n_components), default=None
        Vectors of the queries. None searches the vectors of the database among themselves.
    y_query : array-like of shape (n_queries,), default=None
        Labels of the queries.

    Returns
    -------
    float
        Mean over the queries, from 0 to 1. `score_queries` says which queries count.

    Notes
    -----
    R is the number of database samples of the query's class, the query itself not counted.
    R-precision of a query is 1/R sum_{i<=R} rel(i), where rel(i) is 1 if the i-th nearest sample
    has the class of the query, else 0.

    References
    ----------
    Musgrave, Belongie and Lim (2020). "A metric learning reality check." ECCV.

    Examples
    --------
    >>> from mpda.assessment import r_precision
    >>> r_precision([[0.0], [1.0], [3.0], [4.5], [5.5]], ["a", "a", "a", "b", "b"])
    0.9
    """
    return _mean(Z, y, Z_query, y_query, "r_precision")


def map_at_r(
    Z: ArrayLike,
    y: ArrayLike,
    Z_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
) -> float:
    """Compute the mean average precision at R.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_components)
        Vectors of the database, compared by Euclidean distance.
    y : array-like of shape (n_samples,)
        Their labels.
    Z_query : array-like of shape (n_queries, n_components), default=None
        Vectors of the queries. None searches the vectors of the database among themselves.
    y_query : array-like of shape (n_queries,), default=None
        Labels of the queries.

    Returns
    -------
    float
        Mean over the queries, from 0 to 1. `score_queries` says which queries count.

    Notes
    -----
    R is the number of database samples of the query's class, the query itself not counted. MAP@R of
    a query is 1/R sum_{i<=R} rel(i) P(i), where rel(i) is 1 if the i-th nearest sample has the
    class of the query, else 0, and P(i) is its precision at i. It is 1 only if the R nearest
    samples are all those of the class, and unlike R-precision it depends on their order.

    References
    ----------
    Musgrave, Belongie and Lim (2020). "A metric learning reality check." ECCV.

    Examples
    --------
    >>> from mpda.assessment import map_at_r
    >>> map_at_r([[0.0], [1.0], [3.0], [4.5], [5.5]], ["a", "a", "a", "b", "b"])
    0.85
    """
    return _mean(Z, y, Z_query, y_query, "map_at_r")


def _mean(
    Z: ArrayLike, y: ArrayLike, Z_query: ArrayLike | None, y_query: ArrayLike | None, name: str
) -> float:
    return score_queries(Z, y, Z_query, y_query, name).means[name]
