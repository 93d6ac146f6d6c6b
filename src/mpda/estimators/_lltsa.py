"""Linear Local Tangent Space Alignment (Zhang et al. 2007)."""

from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.validation import check_count, validate_samples
from mpda.baselines.alignment import alignment_problem, energy_dimension
from mpda.baselines.ridge_eigenproblem import Solution, solve_smallest
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import numerical_rank
from mpda.estimators._graph_embedding import GraphEmbedding
from mpda.neighbors.graph import center

# Share of the variance of neighbourhoods in their tangent spaces, as tangent_energy of MPDA.
_ENERGY = 0.95


@dataclass(eq=False, repr=False)
class LLTSA(GraphEmbedding):
    """Linear Local Tangent Space Alignment, which does not use labels.

    LLTSA finds the linear map in which every neighbourhood is, as nearly as possible, an affine
    image of its tangent coordinates. The directions t minimise

        t'(X'BX + ridge I)t / t'X'X t,   B = sum_i S_i (I - G_i G_i') S_i',

    with X centred by its mean, S_i picking the k nearest samples of x_i, G_i = [1/sqrt(k), V_i] and
    V_i the r leading left singular vectors of these samples about their mean.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps one for every dimension of the samples. More components
        than dimensions are an error.
    n_neighbors : int, default=12
        Number of neighbours k, at least 3 and cut to the number of other samples.
    tangent_dimension : int, default=None
        Dimension r of the tangent spaces: at least 1, below k - 1 and below the number of
        dimensions that the samples span, because otherwise tangent spaces would explain every
        neighbourhood completely. None takes ``n_components`` (the authors). If that is None too, r
        is the fewest dimensions that hold 95 % of the variance of neighbourhoods on average. Either
        is cut to the allowed range.
    alpha : float, default=0.0
        Ridge on X'BX, in units of its mean diagonal. The authors have none.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_1 / lambda_r) to this power, because the smallest
        eigenvalues come first. Eigenvalues below 1e-10 count as 1e-10.
    orthonormal : bool, default=False
        If True, the components are orthonormalised in their order, and ``eigenvalue_power`` has no
        effect.
    n_jobs : int, default=None
        Number of groups of 1000 neighbourhoods that joblib processes at the same time.
    verbose : int, default=0
        If 1, progress is printed to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions by increasing eigenvalue, with t'X'X t = 1 before ``eigenvalue_power`` applies.
        The entry of largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the components.
    tangent_dimension_ : int
        Dimension r of the tangent spaces.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    strengths_ : dict
        The ridge in squared units of X, as "alpha".
    residual_ : float
        Largest |S t - lambda X'X t| / ((|S| + lambda |X'X|) |t|) over the directions, with
        S = X'BX + ridge I.
    condition_ : float
        Condition number of X'X, as in :class:`LFDA`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    Differences from the authors: here a neighbourhood consists of the k nearest other samples, with
    ties by index. r may differ from the number of components, so that there may be more components
    than neighbours. Features without variance need no PCA first.

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

    _min_neighbors = 3

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 12
    tangent_dimension: int | None = None
    alpha: float = 0.0
    eigenvalue_power: float = 0.0
    orthonormal: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the map from samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : object, default=None
            Not used.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        self.check_parameters()
        data = self._fit_samples(validate_samples(self, X))
        self.tangent_dimension_ = self._tangent_dimension(data)
        return self

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        super().check_parameters()
        if self.tangent_dimension is not None:
            check_count("tangent_dimension", self.tangent_dimension)

    def _solve(self, data: TrainingData) -> Solution:
        """Compute the directions, by increasing eigenvalue."""
        problem = data.cached(alignment_problem, self.n_neighbors, self._tangent_dimension(data))
        return solve_smallest(data.samples, problem, self.alpha, self.n_components)

    def _solve_path(
        self, data: TrainingData, max_components: int | None
    ) -> list[tuple[int, Solution]]:
        """Return solutions with the smallest number of components for which each holds.

        If the dimension of the tangent spaces follows the number of components, each number has an
        eigenproblem of its own, up to the largest dimension that is allowed.
        """
        if self.tangent_dimension is not None:
            return super()._solve_path(data, max_components)
        limit = max_components or data.samples.coordinates.dimension
        largest = copy(self).set_params(n_components=limit)._tangent_dimension(data)
        solutions = [
            (r, copy(self).set_params(n_components=r)._solve(data)) for r in range(1, largest)
        ]
        # From the largest dimension on, all numbers of components have the same eigenproblem.
        last = copy(self).set_params(tangent_dimension=largest)
        return [*solutions, (largest, last._solve_path(data, max_components)[0][1])]

    def _tangent_dimension(self, data: TrainingData) -> int:
        """Return r, the dimension of the tangent spaces."""
        k = data.neighbors(self.n_neighbors).indices.shape[1]
        if k < 2:
            raise ValueError(
                "LLTSA needs 3 samples or more, because a tangent space is that of a sample and at "
                f"least two neighbours, got {k + 1}."
            )
        rank = data.cached(_samples_rank)
        largest = max(1, min(k - 2, rank - 1))
        r = self.tangent_dimension
        if r is None:
            r = self.n_components or data.cached(energy_dimension, self.n_neighbors, _ENERGY)
            return min(r, largest)
        if r > largest:
            raise ValueError(
                f"tangent_dimension must be below n_neighbors - 1, here {k - 1}, and below the "
                f"dimensions that the samples span, here {rank}, got {r}."
            )
        return r

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def _samples_rank(data: TrainingData) -> int:
    """Return the number of dimensions that the samples span."""
    offsets = center(data.local_samples.all_coordinates)
    return numerical_rank(offsets.T @ offsets)
