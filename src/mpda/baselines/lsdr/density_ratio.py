"""Dependence between mapped samples and their classes, by a kernel estimate of a density ratio.

The squared-loss mutual information (SMI) of z = W x and the class y is, up to constants, the mean
of the density ratio p(z, y) / (p(z) p(y)). With the bases

    phi_l(z, y) = exp(-|z - u_l|^2 / (2 width^2)) [y = class of centre l],    u_l = W c_l,

the ratio is fitted by least squares, a = (H + ridge I)^-1 h, and SMI = h'a / 2 - 1/2, where H is
the mean of phi phi' over all pairs of a sample and a label, and h the mean of phi over the samples
with their own labels. A basis vanishes on all labels but its own, so H has one block a class.

Reference: T. Suzuki and M. Sugiyama, "Sufficient Dimension Reduction via Squared-loss Mutual
Information Estimation", Neural Computation 25(3), 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.spatial.distance import cdist

from mpda._lib.array_types import Floats, Ints


@dataclass(frozen=True)
class CentredSamples:
    """Samples of k classes, and which of them are centres of the bases.

    points : (n, d), centred by their mean
    codes : (n,) the class of each sample, 0 to k - 1
    centres : for each class, the indices of its samples that are centres, at least one
    """

    points: Floats
    codes: Ints
    centres: list[Ints]


@dataclass(frozen=True)
class Smoothing:
    """The width of the Gaussians, in the units of the points, and the ridge on the weights a."""

    width: float
    ridge: float


@dataclass(frozen=True)
class Choice:
    """A smoothing and the cross-validated criterion it had, which is the better the smaller."""

    smoothing: Smoothing
    criterion: float


def drawn_centres(codes: Ints, n_centers: int, rng: np.random.Generator) -> list[Ints]:
    """Centres by class: all samples if there are no more than ``n_centers``, else a draw.

    The draw has one sample of each class before it has a second of any.
    """
    n, k = codes.size, int(codes.max()) + 1
    drawn = rng.permutation(n)
    _, firsts = np.unique(codes[drawn], return_index=True)
    ahead = np.concatenate([drawn[firsts], np.delete(drawn, firsts)])
    chosen = np.sort(ahead[: max(n_centers, k)])
    return [chosen[codes[chosen] == c] for c in range(k)]


def drawn_folds(codes: Ints, n_folds: int, rng: np.random.Generator) -> list[Ints]:
    """Indices by fold; the samples of a class are dealt out in turn, so folds have all classes."""
    drawn = rng.permutation(codes.size)
    dealt = drawn[np.argsort(codes[drawn], kind="stable")]
    n_folds = min(n_folds, codes.size)
    return [np.sort(dealt[f::n_folds]) for f in range(n_folds)]


def smi_with_gradient(
    samples: CentredSamples, smoothing: Smoothing, W: Floats
) -> tuple[float, Floats]:
    """SMI between the samples mapped by W (r, d) and their classes, and its gradient (r, d).

    The gradient is exact for the given smoothing: the weights a are where they minimise, so

        d SMI = a'dh - a'dH a / 2 = sum_il G_il dK_il,
        G_il = a_l ( [y_i = c_l] / n - (n_c / n^2) (K_c a_c)_i ),
        dK_il = -(K_il / width^2) (z_i - u_l)' dW (x_i - c_l).
    """
    X, n = samples.points, samples.codes.size
    C = X[np.concatenate(samples.centres)]
    Z, U = X @ W.T, C @ W.T
    K = gaussians(Z, U, smoothing.width)
    G = np.empty_like(K)
    product = 0.0
    begin = 0
    for c, centres in enumerate(samples.centres):
        part = slice(begin, begin + centres.size)
        inside = samples.codes == c
        share = np.count_nonzero(inside) / n**2
        h = K[inside, part].sum(axis=0) / n
        a = _weights(share * (K[:, part].T @ K[:, part]), h, smoothing.ridge)
        G[:, part] = (inside / n - share * (K[:, part] @ a))[:, None] * a
        product += float(h @ a)
        begin += centres.size
    G *= K
    G *= -1.0 / smoothing.width**2
    on_samples = (Z * G.sum(axis=1)[:, None] - G @ U).T  # (r, n)
    on_centres = (U * G.sum(axis=0)[:, None] - G.T @ Z).T  # (r, b)
    return 0.5 * product - 0.5, on_samples @ X + on_centres @ C


def gaussians(Z: Floats, U: Floats, width: float) -> Floats:
    """exp(-|z_i - u_l|^2 / (2 width^2)) for Z (n, r) and U (b, r)."""
    exponents = squared_distances(Z, U)
    exponents *= -0.5 / width**2
    return np.exp(exponents, out=exponents)


def squared_distances(Z: Floats, U: Floats) -> Floats:
    """|z_i - u_l|^2 for Z (n, r) and U (b, r)."""
    squares = Z @ (-2.0 * U.T)
    squares += np.einsum("ij,ij->i", Z, Z)[:, None]
    squares += np.einsum("ij,ij->i", U, U)
    return np.maximum(squares, 0.0, out=squares)


def _weights(H: Floats, h: Floats, ridge: float) -> Floats:
    """(H + ridge I)^-1 h by a Cholesky factor."""
    with_ridge = np.array(H, order="F")
    with_ridge.ravel(order="K")[:: len(H) + 1] += ridge
    _, a, failed = dposv(with_ridge, h, overwrite_a=True)
    if failed:
        raise ValueError(f"ridge={ridge:g} is too small for the bases to be told apart.")
    return a


def chosen_smoothing(
    samples: CentredSamples,
    W: Floats,
    widths: Sequence[float],
    ridges: Sequence[float],
    folds: Sequence[Ints],
) -> Choice:
    """The best width and ridge at W (r, d); widths are multiples of the median distance there."""
    unit = median_distance(samples, W)
    scores = np.array(
        [held_out_criterion(samples, W, width * unit, ridges, folds) for width in widths]
    )
    at_width, at_ridge = np.unravel_index(scores.argmin(), scores.shape)
    best = Smoothing(widths[int(at_width)] * unit, ridges[int(at_ridge)])
    return Choice(best, float(scores.min()))


def median_distance(samples: CentredSamples, W: Floats) -> float:
    """The median distance of the mapped samples from the mapped centres, coincident pairs apart."""
    Z = samples.points @ W.T
    distances = cdist(Z, Z[np.concatenate(samples.centres)])
    return float(np.median(distances[distances > 0.0]))


def held_out_criterion(
    samples: CentredSamples,
    W: Floats,
    width: float,
    ridges: Sequence[float],
    folds: Sequence[Ints],
) -> Floats:
    """The mean over the folds of a'H a / 2 - h'a for each ridge (q,).

    The weights a come from the samples outside a fold, H and h from those in it.
    """
    order = np.concatenate(folds)
    ends = np.cumsum([fold.size for fold in folds])
    rows = [slice(end - fold.size, end) for fold, end in zip(folds, ends, strict=True)]
    codes = samples.codes[order]
    Z = samples.points @ W.T
    K = gaussians(Z[order], Z[np.concatenate(samples.centres)], width)
    scores = np.zeros(len(ridges))
    begin = 0
    for c, centres in enumerate(samples.centres):
        part = K[:, begin : begin + centres.size]
        sums = [_sums(part[row], codes[row] == c) for row in rows]
        scores += _class_scores(sums, ridges)
        begin += centres.size
    return scores / len(folds)


@dataclass(frozen=True)
class _Sums:
    """Of one class and some samples.

    gram : (b, b) K'K over the samples; own : (b,) sum of the rows of K in the class
    n : number of samples; n_own : number in the class
    """

    gram: Floats
    own: Floats
    n: int
    n_own: int

    def without(self, part: _Sums) -> _Sums:
        return _Sums(
            self.gram - part.gram, self.own - part.own, self.n - part.n, self.n_own - part.n_own
        )

    @property
    def H(self) -> Floats:
        return (self.n_own / self.n**2) * self.gram

    @property
    def h(self) -> Floats:
        return self.own / self.n


def _sums(K: Floats, inside: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> _Sums:
    return _Sums(K.T @ K, K[inside].sum(axis=0), len(K), int(np.count_nonzero(inside)))


def _class_scores(by_fold: list[_Sums], ridges: Sequence[float]) -> Floats:
    """What one class adds to the criterion, summed over the folds, for each ridge (q,)."""
    total = _Sums(
        gram=np.sum([s.gram for s in by_fold], axis=0),
        own=np.sum([s.own for s in by_fold], axis=0),
        n=sum(s.n for s in by_fold),
        n_own=sum(s.n_own for s in by_fold),
    )
    scores = np.zeros(len(ridges))
    for held_out in by_fold:
        rest = total.without(held_out)
        H, h = rest.H, rest.h
        a = np.array([_weights(H, h, ridge) for ridge in ridges])  # (q, b)
        scores += 0.5 * np.einsum("qi,qi->q", a @ held_out.H, a) - a @ held_out.h
    return scores
