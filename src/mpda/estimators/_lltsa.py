"""Linear Local Tangent Space Alignment."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import check_count, validate_unlabelled
from mpda.baselines.alignment import alignment_problem, energy_dimension
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import numerical_rank
from mpda.discriminant.solutions import Eigenproblem, Solution, solve_smallest
from mpda.estimators._base import ComponentPath
from mpda.estimators._eigen_method import EigenMethod, Memo
from mpda.neighbors.graph import center

_ENERGY = 0.95


class LLTSA(EigenMethod):
    """Linear Local Tangent Space Alignment, which does not look at labels.

    Finds the linear map in which every neighbourhood is, as nearly as possible, an affine image of
    its own tangent coordinates. The directions t minimise

        t'(X'BX + ridge I)t / t'X'X t,   B = sum_i S_i (I - G_i G_i') S_i',

    with X centred by its mean, S_i picking the k nearest samples of x_i, G_i = [1/sqrt(k), V_i] and
    V_i the r leading left singular vectors of these samples about their mean.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions. None keeps one for every dimension of the samples; a number is
        honoured or refused, never cut.
    n_neighbors : int, default=12
        k, at least 3 and cut to the number of other samples.
    tangent_dimension : int, default=None
        r, at least 1, below k - 1 and below the number of dimensions that the samples span (as many
        would describe any neighbourhood completely). None takes ``n_components`` (the authors) or,
        where that is None, the fewest directions with which neighbourhoods keep 95 % of their
        variance on average; either is cut to what is allowed.
    alpha : float, default=0.0
        Ridge on X'BX, in units of its mean diagonal. The authors have none.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_1 / lambda_r) to this power; eigenvalues increase here,
        and those below 1e-10 count as that.
    orthonormal : bool, default=False
        Whether the components are made orthonormal, in their order; eigenvalue_power has then no
        part in their scale.
    n_jobs : int, default=None
        Groups of 1000 neighbourhoods worked on at the same time, by joblib.
    verbose : int, default=0
        With 1, progress goes to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions by increasing eigenvalue, with t'X'X t = 1; the entry of largest magnitude
        is positive.
    eigenvalues_ : ndarray of shape (n_components,)
    tangent_dimension_ : int
        The r that was used.
    mean_ : ndarray of shape (n_features,)
    units_ : dict
        The absolute ridge that was used, as "alpha".
    residual_ : float
        Largest |S t - lambda M t| / ((|S| + lambda |M|) |t|) over the directions, S = X'BX with its
        ridge and M = X'X.
    condition_ : float
        That of M, as in :class:`LFDA`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    How this differs from the authors: a neighbourhood is the k nearest other samples, ties by
    index; r may differ from the number of components, which with r = n_components would have to
    stay below k; features without variance need no PCA first.

    References
    ----------
    T. Zhang, J. Yang, D. Zhao and X. Ge, "Linear Local Tangent Space Alignment and Application to
    Face Recognition", Neurocomputing 70, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import LLTSA
    >>> X, y = load_iris(return_X_y=True)
    >>> LLTSA(n_components=2).fit_transform(X).shape
    (150, 2)
    """

    _increasing = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 12,
        tangent_dimension: int | None = None,
        alpha: float = 0.0,
        eigenvalue_power: float = 0.0,
        orthonormal: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.tangent_dimension = tangent_dimension
        self.alpha = alpha
        self.eigenvalue_power = eigenvalue_power
        self.orthonormal = orthonormal
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the map from the samples X (n_samples, n_features); y is not used."""
        self._check()
        samples = validate_unlabelled(self, X)
        with one_blas_thread(samples.coordinates.dimension <= SMALL):
            forms = self._forms(samples, {})
            solution = self._solution(samples, forms)
        self.tangent_dimension_ = forms.dimension
        self._keep(samples, solution)
        return self

    def _paths(
        self, index: int, samples: LabelledSamples, memo: Memo, n_rows: int | None
    ) -> Iterator[ComponentPath]:
        """Yield the components for every number of them.

        If the dimension of the tangent spaces follows the number of components, each number has an
        eigenproblem of its own, up to the largest dimension that is allowed.
        """
        if self.tangent_dimension is not None:
            yield from super()._paths(index, samples, memo, n_rows)
            return
        r = 0
        while n_rows is None or r < n_rows:
            r += 1
            forms = copy(self).set_params(n_components=r)._forms(samples, memo)
            directions = self._solution(samples, forms).directions
            is_last = forms.dimension < r
            rows = directions.first(n_rows or directions.eigenvalues.size if is_last else r)
            yield ComponentPath(index, self._scale_directions(rows), first=r)
            if is_last or r >= directions.eigenvalues.size:
                return

    def _check(self) -> None:
        check_count("n_neighbors", self.n_neighbors, least=3)
        if self.tangent_dimension is not None:
            check_count("tangent_dimension", self.tangent_dimension)
        super()._check()

    def _forms(self, samples: LabelledSamples, memo: Memo) -> _Forms:
        data = self._training_data(samples, memo)
        r = self._dimension(data)
        return _Forms(data.cached(alignment_problem, self.n_neighbors, r), r)

    def _solution(self, samples: LabelledSamples, forms: _Forms) -> Solution:
        return solve_smallest(samples, forms.pencil, self.alpha, self.n_components)

    def _dimension(self, data: TrainingData) -> int:
        """r, the dimension of the tangent spaces of neighbourhoods."""
        Z, lists = data.local_samples.all_coordinates, data.neighbors(self.n_neighbors).indices
        offsets = center(Z)
        n_dimensions = numerical_rank(offsets.T @ offsets)
        most = max(1, min(lists.shape[1] - 2, n_dimensions - 1))
        if self.tangent_dimension is None:
            return min(self.n_components or energy_dimension(Z, lists, _ENERGY), most)
        r = self.tangent_dimension
        if r > most:
            raise ValueError(
                f"tangent_dimension must be below n_neighbors - 1, here {lists.shape[1] - 1}, and "
                f"below the dimensions that the samples span, here {n_dimensions}, got {r}."
            )
        return r

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@dataclass(frozen=True)
class _Forms:
    """The pencil and r, the dimension of the tangent spaces that it is made with."""

    pencil: Eigenproblem
    dimension: int
