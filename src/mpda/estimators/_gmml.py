"""Geometric mean metric learning (Zadeh, Hosseini and Sra 2016)."""

from dataclasses import KW_ONLY, dataclass
from typing import Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.validation import check_number, validate_samples
from mpda.baselines.geometric_mean import geodesic_axes
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Directions
from mpda.estimators._pair_metric import PairMetric


@dataclass(eq=False, repr=False)
class GMML(PairMetric):
    """Geometric mean metric learning.

    With the mean outer products S and D of the differences of samples of one class and of different
    classes, the metric is the weighted geometric mean

        A = S^-1 #_t D = S^-1/2 (S^1/2 D S^1/2)^t S^-1/2,

    the point at t on the geodesic from S^-1 to D. For t = 1/2 it is the positive solution of
    A S A = D. The components are the axes of A times the root of their eigenvalue, so that
    distances after ``transform`` are those of A.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all. More components than dimensions of the samples are an
        error.
    geodesic : float, default=0.5
        Position t from 0 (only S) to 1 (only D).
    alpha : float, default=0.0
        Ridge on S, in units of its mean diagonal. At least 1e-10 is added, so that a singular S can
        be factorised.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthogonal axes of the metric by decreasing eigenvalue, with the root of the eigenvalue as
        length. The entry of largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of A.
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
    The authors draw pairs of samples at random. Here S and D are means over all pairs, which the
    draw estimates; they come from class scatters, without a list of pairs. The authors' ridge pulls
    S and D to a given matrix; here S gets a multiple of the identity.

    References
    ----------
    P. H. Zadeh, R. Hosseini and S. Sra, "Geometric Mean Metric Learning", International Conference
    on Machine Learning, 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import GMML
    >>> X, y = load_iris(return_X_y=True)
    >>> GMML(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_components: int | None = None
    _: KW_ONLY
    geodesic: float = 0.5
    alpha: float = 0.0

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map from labelled samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, at least 0: a pair of samples counts w_i w_j times.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        self.check_parameters()
        self._fit_samples(validate_samples(self, X, y, sample_weight=sample_weight))
        return self

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        super().check_parameters()
        check_number("geodesic", self.geodesic, most=1.0)

    def _solve(self, data: TrainingData) -> Directions:
        """Compute the axes of the metric, by decreasing eigenvalue."""
        return geodesic_axes(data, self.alpha, self.geodesic)
