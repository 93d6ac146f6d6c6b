"""Distance metric learning by the Jeffrey divergence (Nguyen, Morell and De Baets 2017)."""

from dataclasses import KW_ONLY, dataclass
from typing import Self

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.validation import check_count, check_number, validate_samples, warn_small_classes
from mpda.baselines.jeffrey_divergence import jeffrey_directions
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Directions
from mpda.estimators._components import scale_directions
from mpda.estimators._pair_metric import PairMetric


@dataclass(eq=False, repr=False)
class DMLMJ(PairMetric):
    """Distance metric learning through the maximisation of the Jeffrey divergence.

    S and D are the mean outer products of the differences of each sample to its k nearest samples
    of its own class and to its k nearest samples of other classes. The divergence between the two
    distributions of differences is largest in the eigenvectors of

        (D + ridge I) t = lambda (S + ridge I) t

    with the largest lambda + 1 / lambda.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all. More components than dimensions of the samples are an
        error.
    n_neighbors : int, default=5
        Number of neighbours k, the authors' value. It is cut, with a warning, in a class of fewer
        samples.
    alpha : float, default=0.0
        Ridge on S and D, in units of the mean diagonal of S. At least 1e-10 is added, so that a
        singular S can be factorised.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_max) to this power.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions by decreasing divergence, with t'(S + ridge I)t = 1 before ``eigenvalue_power``
        applies. The entry of largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues lambda of the components. They are not sorted: large and small ones diverge.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    The authors have no ridge. It lies on both matrices, because a ridge on S alone would give the
    directions without any differences the largest divergence.

    References
    ----------
    B. Nguyen, C. Morell and B. De Baets, "Supervised distance metric learning through maximization
    of the Jeffrey divergence", Pattern Recognition 64, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import DMLMJ
    >>> X, y = load_iris(return_X_y=True)
    >>> DMLMJ(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 5
    alpha: float = 0.0
    eigenvalue_power: float = 0.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the map from labelled samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        self.check_parameters()
        samples = validate_samples(self, X, y)
        warn_small_classes(samples, self.n_neighbors)
        self._fit_samples(samples)
        return self

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        super().check_parameters()
        check_count("n_neighbors", self.n_neighbors)
        check_number("eigenvalue_power", self.eigenvalue_power)

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class."""
        return self.n_neighbors

    def _solve(self, data: TrainingData) -> Directions:
        """Compute the directions, by decreasing divergence."""
        return data.cached(jeffrey_directions, self.n_neighbors, self.alpha)

    def _scale(self, solution: Directions) -> Array:
        return scale_directions(solution, self.eigenvalue_power)
