"""Closed-form rivals from the metric-learning literature, as rows of the comparison.

GMML, DMLMJ and ridge LDA with more than C - 1 components, written from their definitions. They have
the ridge, the scale of components and the numbers of components of the other tuned methods, so that
objectives are compared and not searches. They are rows of tables, not public estimators.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from sklearn.neighbors import NearestNeighbors, NeighborhoodComponentsAnalysis
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import ArrayLike, Floats, Ints
from mpda.estimators._base import LinearMap, SolutionPath
from mpda.estimators._mpda import MPDA


class _Rival(LinearMap):
    """A linear map; subclasses solve for ``components_`` (r, d), most important first."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the map from samples X (n, d) and labels y (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.mean_ = X.mean(axis=0)
        components = self._solve(X - self.mean_, np.unique(y, return_inverse=True)[1])
        self.components_ = components[: self.get_params()["n_components"]]
        return self

    def _solve_many(
        self,
        methods: Sequence[Any],
        X: ArrayLike,
        y: ArrayLike,
        n_components: Sequence[int] | None,
    ) -> Iterator[SolutionPath]:
        """Yield the components of one fit for each method: they are nested."""
        for index, method in enumerate(methods):
            yield SolutionPath(index, method.fit(X, y).components_)

    def _solve(self, X: Floats, codes: Ints) -> Floats:
        raise NotImplementedError


class GMML(_Rival):
    """Geometric mean metric learning.

    With the mean outer products S and D of the differences of samples of one class and of different
    classes, the metric is the weighted geometric mean

        A = S^-1 #_t D = S^-1/2 (S^1/2 D S^1/2)^t S^-1/2,

    the point at t on the geodesic from S^-1 to D. The authors draw pairs at random; here are all of
    them, which is what the draw estimates. Components are the axes of A times the root of their
    eigenvalue.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all.
    geodesic : float, default=0.5
        Position t from 0 (only S) to 1 (only D).
    alpha : float, default=0.0
        Ridge on S, in units of its mean diagonal.

    References
    ----------
    P. H. Zadeh, R. Hosseini and S. Sra, "Geometric Mean Metric Learning", International Conference
    on Machine Learning, 2016.
    """

    def __init__(
        self, n_components: int | None = None, *, geodesic: float = 0.5, alpha: float = 0.0
    ) -> None:
        self.n_components = n_components
        self.geodesic = geodesic
        self.alpha = alpha

    def _solve(self, X: Floats, codes: Ints) -> Floats:
        similar, dissimilar = pair_scatters(X, codes)
        L = cholesky(add_ridge(similar, self.alpha), lower=True)
        # With S = L L' the congruence by L' turns S^-1 into I and D into L'DL, of which the power
        # is taken: A = L^-T (L'DL)^t L^-1 = G G'.
        values, vectors = eigh(L.T @ dissimilar @ L)
        powers = np.clip(values, 0.0, None) ** (0.5 * self.geodesic)
        G = solve_triangular(L, vectors * powers, lower=True, trans="T")
        axes, lengths, _ = np.linalg.svd(G)
        return np.asarray((axes * lengths).T)


class StartedNCA(_Rival):
    """NCA of scikit-learn that starts from the map of MPDA.

    NCA depends on the scale of its start. It is scaled to a median squared distance of 1/2 to the
    nearest sample of the own class, which is a temperature of 2 of the refinement.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all.

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton and R. Salakhutdinov, "Neighbourhood Components Analysis",
    Advances in Neural Information Processing Systems 17, 2005.
    """

    _solve_many = LinearMap._solve_many  # a fit for each number

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def _solve(self, X: Floats, codes: Ints) -> Floats:
        start = MPDA(self.n_components).fit(X, codes).components_
        Z = X @ start.T
        squares = np.concatenate(
            [
                NearestNeighbors(n_neighbors=1).fit(Z[codes == c]).kneighbors()[0][:, 0] ** 2
                for c in range(codes.max() + 1)
                if np.count_nonzero(codes == c) > 1
            ]
        )
        start = start / np.sqrt(2.0 * np.median(squares))
        return NeighborhoodComponentsAnalysis(len(start), init=start).fit(X, codes).components_


class DMLMJ(_Rival):
    """Distance metric learning through the maximisation of the Jeffrey divergence.

    S and D are the mean outer products of the differences of each sample to its k nearest samples
    of its own class and to its k nearest samples of other classes. The divergence between the two
    distributions of differences is largest in the eigenvectors of D t = lambda S t with the largest
    lambda + 1 / lambda.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all.
    n_neighbors : int, default=5
        Number of neighbours k, the authors' value.
    alpha : float, default=0.0
        Ridge on S and D, in units of the mean diagonal of S.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.

    References
    ----------
    B. Nguyen, C. Morell and B. De Baets, "Supervised distance metric learning through maximization
    of the Jeffrey divergence", Pattern Recognition 64, 2017.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 5,
        alpha: float = 0.0,
        eigenvalue_power: float = 0.0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.eigenvalue_power = eigenvalue_power

    def _solve(self, X: Floats, codes: Ints) -> Floats:
        codes = codes.astype(np.int64)
        similar, dissimilar = _difference_scatters(
            X.tobytes(), X.shape, codes.tobytes(), self.n_neighbors
        )
        # The same ridge on both: without differences of either kind a direction has lambda = 1, the
        # least divergence. A ridge on S alone would make its 1 / lambda the largest.
        similar, ridge = add_ridge(similar, self.alpha), add_ridge(similar, self.alpha) - similar
        values, vectors = eigh(dissimilar + ridge, similar)
        order = np.argsort(-(values + 1.0 / values), kind="stable")
        return _scale(values[order], vectors[:, order], self.eigenvalue_power)


class RidgeLDA(_Rival):
    """Fisher's discriminant analysis with a ridge and up to d components.

    The eigenproblem S_t t = lambda (S_w + ridge I) t with the total scatter S_t has the directions
    of LDA first; S_b, of rank C - 1, has no further ones.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all.
    alpha : float, default=0.1
        Ridge on S_w, in units of its mean diagonal.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 0.1,
        eigenvalue_power: float = 0.0,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.eigenvalue_power = eigenvalue_power

    def _solve(self, X: Floats, codes: Ints) -> Floats:
        means = np.stack([X[codes == code].mean(axis=0) for code in np.unique(codes)])
        residuals = X - means[codes]
        values, vectors = eigh(X.T @ X, add_ridge(residuals.T @ residuals, self.alpha))
        return _scale(values[::-1], vectors[:, ::-1], self.eigenvalue_power)


# A search fits the same folds with many ridges and powers: 4 folds, 3 numbers of neighbours.
@lru_cache(maxsize=12)
def _difference_scatters(
    values: bytes, shape: tuple[int, int], labels: bytes, k: int
) -> tuple[Floats, Floats]:
    """Return the mean outer products of differences to k neighbours of the own and other classes.

    Samples (n, d) and codes (n,) come as bytes, which have a hash.
    """
    X, codes = np.frombuffer(values).reshape(shape), np.frombuffer(labels, dtype=np.int64)
    near, far = [], []
    for code in np.unique(codes):
        inside, outside = X[codes == code], X[codes != code]
        near.append(_neighbor_differences(inside, inside, k, skip_self=True))
        far.append(_neighbor_differences(inside, outside, k, skip_self=False))
    similar, dissimilar = (np.concatenate(differences) for differences in (near, far))
    return similar.T @ similar / len(similar), dissimilar.T @ dissimilar / len(dissimilar)


def pair_scatters(X: Floats, codes: Ints) -> tuple[Floats, Floats]:
    """Return the mean outer products of differences within and between classes.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples.
    codes : array of int of shape (n_samples,)
        Classes from 0 on.

    Returns
    -------
    similar, dissimilar : array of shape (n_features, n_features)
        Means over all pairs of one class and over all pairs of different classes.
    """
    n, total = len(X), 2.0 * len(X) * np.cov(X.T, bias=True).reshape(2 * (X.shape[1],)) * len(X)
    similar, n_similar = np.zeros_like(total), 0
    for code in np.unique(codes):
        members = X[codes == code]
        # sum_ij (x_i - x_j)(x_i - x_j)' = 2 n sum_i (x_i - m)(x_i - m)', over ordered pairs.
        residuals = members - members.mean(axis=0)
        similar += 2.0 * len(members) * residuals.T @ residuals
        n_similar += len(members) * (len(members) - 1)
    n_dissimilar = n * (n - 1) - n_similar
    return similar / max(n_similar, 1), (total - similar) / max(n_dissimilar, 1)


def add_ridge(matrix: Floats, alpha: float) -> Floats:
    """Return a symmetric matrix (d, d) with ``alpha`` times its mean diagonal added.

    The factor is at least 1e-10, so that a singular matrix can be factorised.
    """
    unit = np.trace(matrix) / len(matrix) or 1.0
    return np.asarray(matrix + max(alpha, 1e-10) * unit * np.eye(len(matrix)))


def _neighbor_differences(queries: Floats, points: Floats, k: int, *, skip_self: bool) -> Floats:
    """Return the differences (q k, d) of queries (q, d) to their k nearest points."""
    k = min(k, len(points) - skip_self)
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(points)
    nearest = search.kneighbors(None if skip_self else queries, return_distance=False)
    return np.asarray((queries[:, None, :] - points[nearest]).reshape(-1, queries.shape[1]))


def _scale(values: Floats, vectors: Floats, power: float) -> Floats:
    """Return eigenvectors (d, r) as rows, times a power of the eigenvalues over the largest."""
    ratios = np.clip(values, 0.0, None) / values.max()
    return np.asarray((vectors * ratios**power).T)
