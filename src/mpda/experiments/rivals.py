"""Rivals that are rows of the comparison only: ridge LDA with more components, and NCA from MPDA.

They have the ridge, the scale of components and the numbers of components of the other tuned
methods, so that objectives are compared and not searches. GMML and DMLMJ are public estimators;
committed rows name them by this module.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh
from sklearn.neighbors import NearestNeighbors, NeighborhoodComponentsAnalysis
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import ArrayLike, Floats, Ints
from mpda.estimators._base import LinearMap, SolutionPath
from mpda.estimators._dmlmj import DMLMJ as DMLMJ
from mpda.estimators._gmml import GMML as GMML
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
        values, vectors = eigh(X.T @ X, _add_ridge(residuals.T @ residuals, self.alpha))
        return _scale(values[::-1], vectors[:, ::-1], self.eigenvalue_power)


def _add_ridge(matrix: Floats, alpha: float) -> Floats:
    """Return a symmetric matrix (d, d) with ``alpha`` times its mean diagonal added.

    The factor is at least 1e-10, so that a singular matrix can be factorised.
    """
    unit = np.trace(matrix) / len(matrix) or 1.0
    return np.asarray(matrix + max(alpha, 1e-10) * unit * np.eye(len(matrix)))


def _scale(values: Floats, vectors: Floats, power: float) -> Floats:
    """Return eigenvectors (d, r) as rows, times a power of the eigenvalues over the largest."""
    ratios = np.clip(values, 0.0, None) / values.max()
    return np.asarray((vectors * ratios**power).T)
