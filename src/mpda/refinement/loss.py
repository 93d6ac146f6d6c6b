"""Loss of the refinement: neighbourhood components analysis restricted to near candidates.

    L(T) = 1/q sum_i [ log sum_{j in N_i} exp(-D_ij / tau)
                       - log sum_{j in N_i, y_j = y_i} exp(-D_ij / tau) ]
           + (mu / q) |T - T0|_F^2 / |T0|_F^2,          D_ij = |T (x_i - x_j)|^2,

summed over q query samples; usually all samples are queries. With weights w the term of query i is
multiplied by w_i, exp(-D_ij / tau) by w_j, and q is the sum of the weights of the queries.

With p_ij the softmax of -D_ij / tau over N_i, q_ij the softmax over the samples of the own class in
N_i, V = Q - P and W = V + V', the gradient of the first term is 2/(q tau) Z' Lap(W) X: a graph
Laplacian with weights of both signs.

The objective "class" has the mean of log exp(-D_ij / tau) over the own candidates in place of the
logarithm of their sum (supervised contrastive loss): q_ij is uniform over them. On a sphere D_ij is
the squared distance of the points of ``sphere``, and the gradient is pulled back to T.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.sparse import csr_array

from mpda._lib.array_types import Array
from mpda._lib.arrays import (
    add_segments,
    array_namespace,
    astype,
    block_entries,
    is_numpy,
    iter_slices,
    take,
    zeros,
)
from mpda._lib.threads import BlockMap, map_serially
from mpda.refinement.sphere import place_on_sphere

# Names of the objectives.
OBJECTIVES = ("nearest", "class")
# Coordinates of candidates that are compared at a time: 2 MB, which stay in the cache.
_BLOCK_ENTRIES = 250_000
# Differences of mapped coordinates below this many roundings of the largest are those of copies.
_COPY_ROUNDING = 64.0
# Parts of the columns of a product with a sparse matrix, which SciPy computes in one thread.
_N_COLUMN_PARTS = 4
# Below this share of the own class the exponentials of its candidates lose digits.
_SMALLEST_SHARE = 1e-30


@dataclass(frozen=True, eq=False)
class CandidateSets:
    """Query samples with their candidates.

    Parameters
    ----------
    queries : array of int of shape (q,)
        Query samples.
    candidates : array of int of shape (q, K)
        Candidates of each query, each once, filled with the query itself.
    is_own : array of bool of shape (q, K)
        True where the candidate has the class of the query; False for filling.
    """

    queries: Array
    candidates: Array
    is_own: Array

    @cached_property
    def is_filling(self) -> Array:
        """True (q, K) where a row is filled."""
        return self.candidates == self.queries[:, None]

    @cached_property
    def by_candidate(self) -> tuple[Array, Array]:
        """Order (q K,) of all entries by candidate, and the candidates in that order."""
        xp = array_namespace(self.candidates)
        flat = xp.reshape(self.candidates, (-1,))
        order = xp.argsort(flat, stable=True)
        return order, take(flat, order)


@dataclass(frozen=True, eq=False)
class RefinementLoss:
    """Loss and gradient for fixed candidates.

    Parameters
    ----------
    X : array of shape (n, d)
        Centred samples.
    sets : CandidateSets
        Queries and their candidates.
    start : array of shape (r, d)
        T0, the map that the penalty keeps near.
    temperature : float
        tau, in the units of squared distances.
    penalty : float
        mu.
    weights : array of shape (n,), default=None
        Weights of the samples, in the precision of X.
    map_blocks : callable, default=map_serially
        Applies a function to blocks of queries, perhaps in threads.
    objective : {"nearest", "class"}, default="nearest"
        "nearest" compares the sums over candidates, "class" takes the mean over own candidates.
    radius : float, default=None
        The constant k of the sphere. None is the Euclidean geometry.
    centre : array of shape (d,), default=None
        Vector that a sphere subtracts from X, where X could not be centred.
    """

    X: Array
    sets: CandidateSets
    start: Array
    temperature: float
    penalty: float
    weights: Array | None = None
    map_blocks: BlockMap = map_serially
    objective: str = "nearest"
    radius: float | None = None
    centre: Array | None = None

    @cached_property
    def query_weights(self) -> Array | None:
        """Weights of the queries (q,)."""
        return None if self.weights is None else take(self.weights, self.sets.queries)

    @cached_property
    def n_queries(self) -> float:
        """Number of queries, or the sum of their weights."""
        if self.query_weights is None:
            return float(self.sets.queries.shape[0])
        return float(array_namespace(self.X).sum(self.query_weights))

    def __call__(self, T: Array) -> tuple[float, Array]:
        """Evaluate the loss.

        Parameters
        ----------
        T : array of shape (r, d)
            Map.

        Returns
        -------
        loss : float
            L(T).
        gradient : array of shape (r, d)
            Its derivative.
        """
        xp, n_queries = array_namespace(self.X), self.n_queries
        Z = map_centred(self.X, T, self.centre)
        if self.radius is None:
            total, forces = self._evaluate_neighbors(Z)
        else:
            placed = place_on_sphere(Z, self.radius)
            total, forces = self._evaluate_neighbors(placed.points)
            forces = placed.pull_back(forces)
        shift = T - self.start
        weight = self.penalty / (n_queries * float(xp.sum(self.start * self.start)))
        loss = total / n_queries + weight * float(xp.sum(shift * shift))
        factor = 2.0 / (n_queries * self.temperature)
        gradient = xp.matrix_transpose(forces) @ self.X
        if self.centre is not None:
            gradient = gradient - xp.sum(forces, axis=0)[:, None] * self.centre
        return loss, factor * gradient + 2.0 * weight * shift

    def _evaluate_neighbors(self, Z: Array) -> tuple[float, Array]:
        """Return the sum of the first term over queries, and Lap(W) Z (n, r)."""
        xp, sets = array_namespace(Z), self.sets
        blocks = _iter_blocks(Z, sets)
        results = self.map_blocks(partial(self._evaluate_block, Z), blocks)
        losses, weights, own_forces = zip(*results, strict=True)
        forces = self._sum_by_candidate(xp.concat(weights), Z)
        # Summed in the order of the blocks, so that the number of threads changes nothing.
        return sum(losses), _add_rows(forces, sets.queries, xp.concat(own_forces))

    def _evaluate_block(self, Z: Array, block: slice) -> tuple[float, Array, Array]:
        """Return the loss of a block of queries, V (b, K), and sum_j V_ij (z_i - z_j) (b, r)."""
        xp, sets = array_namespace(Z), self.sets
        gaps = _gaps(Z, sets, block)
        exponents = _squares(gaps) * (-1.0 / self.temperature)
        logits, is_own, counts = exponents, sets.is_own[block, :], None
        if self.weights is not None:
            counts = take(self.weights, sets.candidates[block, :])
            logits = exponents + _logarithm(counts)
        logits = xp.where(sets.is_filling[block, :], -xp.inf, logits)
        if self.objective == "class":
            losses, v = _compare_class(logits, exponents, is_own, counts)
        else:
            losses, v = _compare(logits, is_own)
        if self.query_weights is not None:
            losses = losses * self.query_weights[block]
            v = v * self.query_weights[block][:, None]
        return float(xp.sum(losses)), v, (v[:, None, :] @ gaps)[:, 0, :]

    def _sum_by_candidate(self, V: Array, Z: Array) -> Array:
        """Return sum_i V_ij (z_j - z_i) for every sample j (n, r)."""
        xp, sets = array_namespace(Z), self.sets
        n, width = Z.shape[0], V.shape[1]
        Z_queries = take(Z, sets.queries)
        if is_numpy(Z):
            starts = np.arange(0, V.size + 1, width)
            matrix = csr_array((V.ravel(), sets.candidates.ravel(), starts), shape=(len(V), n)).T
            degrees = matrix @ np.ones(len(V), dtype=Z.dtype)
            parts = iter_slices(Z.shape[1], -(-Z.shape[1] // _N_COLUMN_PARTS))
            columns = self.map_blocks(lambda part: matrix @ Z_queries[:, part], parts)
            return degrees[:, None] * Z - np.concatenate(columns, axis=1)
        order, segments = sets.by_candidate
        values = take(xp.reshape(V, (-1,)), order)
        # A column of ones gives the degrees along with the sums.
        Z_queries = xp.concat([Z_queries, xp.ones_like(Z_queries[:, :1])], axis=1)
        sums = astype(zeros((n, Z_queries.shape[1]), Z), Z.dtype)
        for block in iter_slices(order.shape[0], block_entries(Z, _BLOCK_ENTRIES) // Z.shape[1]):
            points = take(Z_queries, order[block] // width)
            sums = add_segments(sums, segments[block], values[block][:, None] * points)
        return sums[:, -1:] * Z - sums[:, :-1]


def map_centred(X: Array, T: Array, centre: Array | None) -> Array:
    """Map samples that may not be centred.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, perhaps sparse.
    T : array of shape (r, d)
        Map.
    centre : array of shape (d,) or None
        Vector that is subtracted.

    Returns
    -------
    array of shape (n, r)
        (X - centre) T'.
    """
    Z = X @ array_namespace(X).matrix_transpose(T)
    return Z if centre is None else Z - T @ centre


def nearest_own_squares(Z: Array, sets: CandidateSets, weights: Array | None = None) -> Array:
    """Return the squared distance of each query to its nearest candidate of the own class.

    Copies of a query are not its candidates here. Their mapped coordinates may differ by rounding.

    Parameters
    ----------
    Z : array of shape (n, r)
        Mapped samples.
    sets : CandidateSets
        Queries and their candidates.
    weights : array of shape (n,), default=None
        Weights of the samples. The length of a sample of weight 0 is no measure of rounding.

    Returns
    -------
    array of shape (q,)
        inf for a query without such a candidate.
    """
    xp = array_namespace(Z)
    rounding = _COPY_ROUNDING * float(xp.finfo(Z.dtype).eps)
    lengths = xp.sum(Z * Z, axis=1)
    if weights is not None:
        lengths = xp.where(weights > 0.0, lengths, 0.0)
    least = rounding**2 * float(xp.max(lengths))
    squares = []
    for block in _iter_blocks(Z, sets):
        distances = _squares(_gaps(Z, sets, block))
        is_apart = sets.is_own[block, :] & (distances > least)
        squares.append(xp.min(xp.where(is_apart, distances, xp.inf), axis=1))
    return xp.concat(squares)


def _iter_blocks(Z: Array, sets: CandidateSets) -> Iterator[slice]:
    """Yield blocks of queries."""
    n_queries, width = sets.candidates.shape
    return iter_slices(n_queries, block_entries(Z, _BLOCK_ENTRIES) // (width * Z.shape[1]))


def _gaps(Z: Array, sets: CandidateSets, block: slice) -> Array:
    """Return z_i - z_j for the candidates j of a block of queries i (b, K, r)."""
    points, gaps = take(Z, sets.queries[block])[:, None, :], take(Z, sets.candidates[block, :])
    return np.subtract(points, gaps, out=gaps) if is_numpy(Z) else points - gaps


def _squares(gaps: Array) -> Array:
    """Return the squared lengths (b, K) of gaps (b, K, r)."""
    if is_numpy(gaps):  # in a third of the time, without a copy
        return np.asarray(np.einsum("bkr,bkr->bk", gaps, gaps))
    return array_namespace(gaps).sum(gaps * gaps, axis=2)


def _compare(logits: Array, is_own: Array) -> tuple[Array, Array]:
    """Return log sum over all - log sum over the own class (b,), and V = Q - P (b, K).

    A sample that is alone in its class adds nothing.
    """
    xp = array_namespace(logits)
    log_all, p = _log_sum(logits)
    own = xp.where(is_own, p, 0.0)
    shares = xp.sum(own, axis=1)
    has_own = xp.any(is_own, axis=1)
    if bool(xp.any(has_own & (shares < _SMALLEST_SHARE))):
        log_own, q = _log_sum(xp.where(is_own, logits, -xp.inf))
        losses = log_all - log_own
    else:
        shares = xp.where(has_own, shares, 1.0)
        losses, q = -xp.log(shares), own / shares[:, None]
    v = xp.where(has_own[:, None], q - p, 0.0)
    return xp.where(has_own, losses, 0.0), v


def _compare_class(
    logits: Array, exponents: Array, is_own: Array, counts: Array | None
) -> tuple[Array, Array]:
    """Return log sum over all - mean over the own class (b,), and V = Q - P (b, K).

    The mean is that of -D_ij / tau (``exponents``), in which candidate j counts ``counts`` times.
    A sample without an own candidate adds nothing.
    """
    xp = array_namespace(logits)
    log_all, p = _log_sum(logits)
    counts = xp.ones_like(exponents) if counts is None else counts
    q = xp.where(is_own, counts, 0.0)
    totals = xp.sum(q, axis=1)
    has_own = totals > 0.0
    q = q / xp.where(has_own, totals, 1.0)[:, None]
    losses = log_all - xp.sum(q * exponents, axis=1)
    return xp.where(has_own, losses, 0.0), xp.where(has_own[:, None], q - p, 0.0)


def _logarithm(weights: Array) -> Array:
    """Return log w, -inf for w = 0."""
    xp = array_namespace(weights)
    return xp.where(weights > 0.0, xp.log(xp.where(weights > 0.0, weights, 1.0)), -xp.inf)


def _log_sum(logits: Array) -> tuple[Array, Array]:
    """Return log sum exp (q,) and softmax (q, K) of the rows; 0 for a row of -inf."""
    xp = array_namespace(logits)
    largest = xp.max(logits, axis=1)
    largest = xp.where(xp.isfinite(largest), largest, 0.0)
    exponentials = xp.exp(logits - largest[:, None])
    sums = xp.sum(exponentials, axis=1)
    sums = xp.where(sums > 0.0, sums, 1.0)
    return xp.log(sums) + largest, exponentials / sums[:, None]


def _add_rows(total: Array, rows: Array, values: Array) -> Array:
    """Return total (n, r) with values (q, r) added to distinct rows."""
    xp = array_namespace(total)
    order = xp.argsort(rows)
    if rows.shape[0] == total.shape[0]:
        return total + take(values, order)
    return add_segments(total, take(rows, order), take(values, order))
