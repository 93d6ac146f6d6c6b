"""Pairwise-variate Manifold Partition Discriminant Analysis."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from mpda._lib.array_types import ArrayLike
from mpda.discriminant.settings import DiscriminantSettings
from mpda.estimators._base import LinearMap
from mpda.estimators._mpda import check_tangent_parameters, fit_tangent_method
from mpda.estimators._tangent_fit import add_classes, fit_many_settings


@dataclass(eq=False, repr=False)
class PMPDA(LinearMap):
    """Pairwise-variate MPDA: every sample has a tangent space of its own.

    The objective is that of :class:`MPDA` with one patch per sample: the tangent space of a sample
    comes from PCA of the sample and its ``n_neighbors`` nearest in the class, and

        S(t, v) = sum_ij W_ij [ (t'd_ij - v_j' T_j' d_ij)^2 + gamma |v_i - T_i' T_j v_j|^2 ].

    No partition is needed, and the manifold is followed more closely, at the price of about ten
    times as many tangent vectors. As in MPDA they are eliminated exactly, class by class.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions. None keeps all with an eigenvalue above 1e-10 of the largest; a
        number is honoured or refused, never cut.
    n_neighbors : int, default=20
        Number k of neighbours inside the class, for W, the tangent spaces and the affinity. It is
        cut, with a warning, in a class of fewer samples. A class of one sample is allowed.
    gamma : float, default=0.1
        Weight of the agreement between tangent vectors of neighbours.
    alpha : float, default=0.2
        Ridge on the directions t.
    tangent_alpha : float or None, default=None
        Ridge beta on the tangent vectors v; None sets beta = alpha, which is the paper and did best
        untuned.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
    units : {"relative", "absolute"}, default="relative"
        Units of gamma, alpha and tangent_alpha, as in :class:`MPDA`.
    tangent_energy : float, default=0.95
        Share of the variance of a neighbourhood that its tangent space keeps.
    affinity : {"knn", "full"}, default="knn"
        Whether the affinity joins neighbours (the paper) or all pairs of a class.
    neighbor_search : {"auto", "exact", "faiss"} or transformer, default="auto"
        How neighbours inside a class are found, as in :class:`MPDA`.
    solver : {"reduced", "two-stage"}, default="reduced"
        "two-stage" seeks t in the range of the between-class form only.
    n_jobs : int, default=None
        Number of classes that are worked on at a time, in threads. None uses as many threads for
        large classes as BLAS would. Without effect on a device.
    verbose : int, default=0
        With 1, progress goes to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    eigenvalues_ : ndarray of shape (n_components,)
    mean_ : ndarray of shape (n_features,)
    classes_ : ndarray of shape (n_classes,)
    units_ : dict
        The absolute gamma, alpha and beta that were used.
    residual_ : float
        How well the directions solve the reduced eigenproblem, as in :class:`MPDA`.
    condition_ : float
        That of the reduced within-class matrix, as in :class:`MPDA`.
    class_residuals_ : ndarray of shape (n_classes,)
        How well the tangent vectors of each class were found, as in :class:`MPDA`.
    class_solvers_ : list of str, one for each class
        What eliminated the tangent vectors of each class, as in :class:`MPDA`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    Y. Zhou and S. Sun, "Manifold Partition Discriminant Analysis", IEEE Transactions on
    Cybernetics 47(4), 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import PMPDA
    >>> X, y = load_iris(return_X_y=True)
    >>> PMPDA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    _computes_on_devices = True

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 20
    gamma: float = 0.1
    alpha: float = 0.2
    tangent_alpha: float | None = None
    eigenvalue_power: float = 0.0
    units: str = "relative"
    tangent_energy: float = 0.95
    affinity: str = "knn"
    neighbor_search: Any = "auto"
    solver: str = "reduced"
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples. A Dask collection is fitted on its cluster; a device array, with
            scikit-learn's array API dispatch, on its device.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        PMPDA
            The fitted estimator.
        """
        fit_tangent_method(self, X, y)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add classes to a fit.

        The first call is :meth:`fit`. Later calls add other classes, each with all its samples, and
        the map is that of a fit to all samples, because what a class contributes does not depend on
        the others. So data may be larger than memory. With relative units, gamma, alpha and beta
        keep the absolute values of the first call (``units_``): the map is that of a fit to all
        samples with ``units="absolute"`` and these values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of new classes.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes in the first call. A class of an earlier call is an
            error.

        Returns
        -------
        PMPDA
            The fitted estimator.
        """
        fit = add_classes if hasattr(self, "components_") else fit_tangent_method
        fit(self, X, y)
        return self

    fit_many = fit_many_settings

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class."""
        return self.n_neighbors

    def check_parameters(self) -> DiscriminantSettings:
        """Check the parameters.

        Returns
        -------
        DiscriminantSettings
            The parameters that the directions depend on.
        """
        return check_tangent_parameters(self)
