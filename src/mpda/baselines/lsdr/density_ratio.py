"""Squared-loss mutual information between mapped samples and their classes (LSDR).

The squared-loss mutual information (SMI) of z = W x and the class y is, up to constants, the mean
of the density ratio p(z, y) / (p(z) p(y)). With the basis functions

    phi_l(z, y) = exp(-|z - u_l|^2 / (2 width^2)) [y = class of centre l],    u_l = W c_l,

the ratio is fitted by least squares, a = (H + ridge I)^-1 h, and SMI = h'a / 2 - 1/2. H is the mean
of phi phi' over all pairs of a sample and a label, h the mean of phi over the samples with their
labels. A basis function vanishes on all labels but its own, so H has one block for each class.
Reference: T. Suzuki and M. Sugiyama, "Sufficient Dimension Reduction via Squared-loss Mutual
Information Estimation", Neural Computation 25(3), 2013. Depends on NumPy and SciPy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.spatial.distance import cdist

from mpda._lib.array_types import Floats, Ints


@dataclass(frozen=True)
class KernelSamples:
    """Samples of k classes, the centres of the basis functions and the folds of cross-validation.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        The samples, centred by their mean.
    codes : ndarray of shape (n,)
        Class of each sample, 0 to k - 1.
    centers : list of k ndarrays
        For each class, the indices of its samples that are centres; at least one.
    folds : list of ndarrays
        Indices of the samples of each fold.
    """

    points: Floats
    codes: Ints
    centers: list[Ints]
    folds: list[Ints]

    @property
    def center_indices(self) -> Ints:
        """Indices (b,) of all centres, class after class."""
        return np.concatenate(self.centers)

    @property
    def center_slices(self) -> list[slice]:
        """For each class, the slice of its centres among all centres."""
        ends = np.cumsum([indices.size for indices in self.centers]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True)
class Smoothing:
    """Regularization of the density ratio.

    Parameters
    ----------
    width : float
        Standard deviation of the Gaussians, in the units of the points.
    ridge : float
        Ridge on the weights a.
    """

    width: float
    ridge: float


def draw_centers(codes: Ints, n_centers: int, rng: np.random.Generator) -> list[Ints]:
    """Draw samples as centres; every class has one before any class has a second.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Class of each sample, 0 to k - 1.
    n_centers : int
        Number of centres, raised to k and cut to n.
    rng : numpy.random.Generator
        Source of the draw.

    Returns
    -------
    list of k ndarrays
        Indices of the centres of each class, increasing.
    """
    order = rng.permutation(codes.size)
    # The first sample of each class in random order comes before all others: a class without a
    # centre would have no basis function.
    labels, first = np.unique(codes[order], return_index=True)
    order = np.concatenate([order[first], np.delete(order, first)])
    indices = np.sort(order[: max(n_centers, labels.size)])
    return [indices[codes[indices] == label] for label in labels]


def draw_folds(codes: Ints, n_folds: int, rng: np.random.Generator) -> list[Ints]:
    """Draw stratified folds: the samples of a class are dealt to the folds in turn.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Class of each sample.
    n_folds : int
        Number of folds, cut to n.
    rng : numpy.random.Generator
        Source of the draw.

    Returns
    -------
    list of ndarrays
        Indices of the samples of each fold, increasing.
    """
    # Sorted by class, at random within: every n_folds-th sample then has its share of each class.
    order = rng.permutation(codes.size)
    order = order[np.argsort(codes[order], kind="stable")]
    n_folds = min(n_folds, codes.size)
    return [np.sort(order[fold::n_folds]) for fold in range(n_folds)]


def compute_smi(samples: KernelSamples, smoothing: Smoothing, W: Floats) -> tuple[float, Floats]:
    """Compute the SMI of the mapped samples and their classes, and its gradient.

    Parameters
    ----------
    samples : KernelSamples
        Samples and centres.
    smoothing : Smoothing
        Width of the Gaussians and ridge of the weights.
    W : ndarray of shape (r, d)
        The map.

    Returns
    -------
    smi : float
        Squared-loss mutual information h'a / 2 - 1/2.
    gradient : ndarray of shape (r, d)
        Euclidean gradient with respect to W at fixed smoothing.

    Notes
    -----
    The weights a maximise h'a - a'(H + ridge I)a / 2, so their own change has no first-order
    effect, and with K_il = exp(-|z_i - u_l|^2 / (2 width^2))

        d SMI = a'dh - a'dH a / 2 = sum_il G_il dK_il,
        G_il = a_l ( [y_i = c_l] / n - (n_c / n^2) (K_c a_c)_i ),
        dK_il = -(K_il / width^2) (z_i - u_l)' dW (x_i - c_l).
    """
    X, n = samples.points, samples.codes.size
    C = X[samples.center_indices]
    Z, U = X @ W.T, C @ W.T
    K = _gaussian_kernel(Z, U, smoothing.width)
    G = np.empty_like(K)
    product = 0.0
    for label, columns in enumerate(samples.center_slices):
        in_class = samples.codes == label
        # H averages over all n^2 pairs of a sample and a label, of which n n_c have this label.
        weight = np.count_nonzero(in_class) / n**2
        h = K[in_class, columns].sum(axis=0) / n
        a = _solve_weights(weight * (K[:, columns].T @ K[:, columns]), h, smoothing.ridge)
        G[:, columns] = (in_class / n - weight * (K[:, columns] @ a))[:, None] * a
        product += float(h @ a)
    G *= K
    G *= -1.0 / smoothing.width**2
    # sum_il G_il (z_i - u_l) (x_i - c_l)', expanded so that no array of all pairs times d appears.
    sample_terms = (Z * G.sum(axis=1)[:, None] - G @ U).T  # (r, n)
    center_terms = (U * G.sum(axis=0)[:, None] - G.T @ Z).T  # (r, b)
    return 0.5 * product - 0.5, sample_terms @ X + center_terms @ C


def _gaussian_kernel(Z: Floats, U: Floats, width: float) -> Floats:
    """exp(-|z_i - u_l|^2 / (2 width^2)) for Z (n, r) and U (b, r), by a matrix product."""
    squares = Z @ (-2.0 * U.T)
    squares += np.einsum("ij,ij->i", Z, Z)[:, None]
    squares += np.einsum("ij,ij->i", U, U)
    np.maximum(squares, 0.0, out=squares)  # a centre is a sample, where rounding gives -1e-16
    squares *= -0.5 / width**2
    return np.exp(squares, out=squares)


def _solve_weights(H: Floats, h: Floats, ridge: float) -> Floats:
    """Solve (H + ridge I) a = h by a Cholesky factor."""
    # LAPACK directly: the checks of scipy.linalg.solve take longer than a few hundred unknowns.
    _, a, failed = dposv(H + ridge * np.eye(len(H)), h)
    if failed:
        raise ValueError(f"ridge={ridge:g} is too small to tell the basis functions apart.")
    return a


def select_smoothing(
    samples: KernelSamples, W: Floats, widths: Sequence[float], ridges: Sequence[float]
) -> tuple[Smoothing, float]:
    """Select width and ridge by cross-validation.

    Parameters
    ----------
    samples : KernelSamples
        Samples, centres and folds.
    W : ndarray of shape (r, d)
        The map.
    widths : sequence of float
        Candidates, as multiples of the median distance of the mapped samples.
    ridges : sequence of float
        Candidates.

    Returns
    -------
    smoothing : Smoothing
        The candidates with the smallest criterion.
    criterion : float
        Their cross-validation criterion; smaller is better.
    """
    # Candidates are relative, because distances depend on the map.
    unit = median_distance(samples, W)
    scores = np.array([cv_criterion(samples, W, unit * width, ridges) for width in widths])
    row, column = np.unravel_index(scores.argmin(), scores.shape)
    return Smoothing(unit * widths[int(row)], ridges[int(column)]), float(scores.min())


def median_distance(samples: KernelSamples, W: Floats) -> float:
    """Compute the median distance of mapped samples from mapped centres, without coinciding pairs.

    Parameters
    ----------
    samples : KernelSamples
        Samples and centres.
    W : ndarray of shape (r, d)
        The map.

    Returns
    -------
    float
        The median, in the units of the points.
    """
    Z = samples.points @ W.T
    distances = cdist(Z, Z[samples.center_indices])
    return float(np.median(distances[distances > 0.0]))


def cv_criterion(
    samples: KernelSamples, W: Floats, width: float, ridges: Sequence[float]
) -> Floats:
    """Compute the cross-validation criterion of the density ratio for every ridge.

    Parameters
    ----------
    samples : KernelSamples
        Samples, centres and folds.
    W : ndarray of shape (r, d)
        The map.
    width : float
        Width of the Gaussians.
    ridges : sequence of q floats
        Candidates.

    Returns
    -------
    ndarray of shape (q,)
        Mean over the folds of a'H a / 2 - h'a, with the weights a from the samples outside a fold
        and H and h from those in it.
    """
    Z = samples.points @ W.T
    U = Z[samples.center_indices]
    kernels = [_gaussian_kernel(Z[fold], U, width) for fold in samples.folds]
    sizes = np.array([len(K) for K in kernels])
    scores = np.zeros(len(ridges))
    for label, columns in enumerate(samples.center_slices):
        blocks = [K[:, columns] for K in kernels]
        masks = [samples.codes[fold] == label for fold in samples.folds]
        counts = np.array([mask.sum() for mask in masks])
        # Sums over the samples outside a fold are the totals minus the fold: one product for each.
        grams = np.stack([K.T @ K for K in blocks])  # (folds, b, b)
        sums = np.stack([mask @ K for K, mask in zip(blocks, masks, strict=True)])
        n_train, n_class = sizes.sum() - sizes, counts.sum() - counts
        H_train = (n_class / n_train**2)[:, None, None] * (grams.sum(axis=0) - grams)
        h_train = (sums.sum(axis=0) - sums) / n_train[:, None]
        for fold, n in enumerate(sizes):
            a = np.array([_solve_weights(H_train[fold], h_train[fold], q) for q in ridges])
            H, h = (counts[fold] / n**2) * grams[fold], sums[fold] / n
            scores += 0.5 * np.einsum("qi,qi->q", a @ H, a) - a @ h
    return scores / len(sizes)
