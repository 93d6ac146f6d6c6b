"""Pairwise-variate Manifold Partition Discriminant Analysis (equations 21 and 22 of the paper).

PMPDA is the fit of MPDA with ``partition=None`` in its ``ClassSettings``:
``ClassStages`` then computes a tangent space for every sample instead of every patch.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from mpda._lib.array_types import ArrayLike
from mpda.estimators._tangent_discriminant import TangentDiscriminant


@dataclass(eq=False, repr=False)
class PMPDA(TangentDiscriminant):
    """Pairwise-variate MPDA: every sample has a tangent space of its own.

    The objective is that of :class:`MPDA` with one patch per sample: the tangent space of a sample
    comes from PCA of the sample and its ``n_neighbors`` nearest in the class, and

        S(t, v) = sum_ij W_ij [ (t'd_ij - v_j' T_j' d_ij)^2 + gamma |v_i - T_i' T_j v_j|^2 ].

    There is no partition. Tangent spaces follow the manifold more closely, and there are about ten
    times as many tangent vectors. As in MPDA they are eliminated exactly, class by class.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all directions with an eigenvalue above 1e-10 of the
        largest. More components than there are directions are an error.
    n_neighbors : int, default=20
        Number of neighbours k inside a class, for W, the tangent spaces and the affinity. It is
        cut, with a warning, in a class of fewer samples. A class of one sample is allowed.
    gamma : float, default=0.1
        Weight of the agreement between tangent vectors of neighbours.
    alpha : float, default=0.2
        Ridge on the directions t.
    tangent_alpha : float or None, default=None
        Ridge beta on the tangent vectors v. None sets beta = alpha in absolute units, as in the
        paper.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
    units : {"relative", "absolute"}, default="relative"
        Units of gamma, alpha and tangent_alpha, as in :class:`MPDA`.
    tangent_energy : float, default=0.95
        Share of the variance of a neighbourhood that its tangent space keeps.
    affinity : {"knn", "full"}, default="knn"
        Pairs with an affinity: neighbours, as in the paper, or all pairs of a class.
    neighbor_search : {"auto", "exact", "faiss"} or transformer, default="auto"
        Search for neighbours inside a class, as in :class:`MPDA`.
    class_weight : {"balanced"} or dict, default=None
        Weights of the classes, as in :class:`MPDA`.
    solver : {"reduced", "two-stage"}, default="reduced"
        "reduced" solves the reduced eigenproblem. "two-stage" restricts t to the range of the
        between-class form, as the paper's solver does.
    n_jobs : int, default=None
        Number of classes that are processed at a time, in threads. With None, large classes use as
        many threads as BLAS would. It has no effect on a device.
    verbose : int, default=0
        If 1, progress is printed to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions t by decreasing eigenvalue, scaled as in :class:`MPDA`.
    eigenvalues_ : ndarray of shape (n_components,)
        Ratios of between-class to within-class variation.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    strengths_ : dict
        Values of "gamma", "alpha" and "beta" in squared units of X.
    residual_ : float
        Relative residual of the reduced eigenproblem, as in :class:`MPDA`.
    condition_ : float
        Condition number of the reduced within-class matrix, as in :class:`MPDA`.
    class_residuals_ : ndarray of shape (n_classes,)
        Relative residual norm of the tangent vectors of each class, as in :class:`MPDA`.
    class_solvers_ : list of str, one for each class
        Solver that eliminated the tangent vectors of each class, as in :class:`MPDA`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

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
    class_weight: Any = None
    solver: str = "reduced"
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples. A Dask collection is fitted on its cluster; a device array, with
            scikit-learn's array API dispatch, on its device.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, as in :meth:`MPDA.fit`.

        Returns
        -------
        PMPDA
            The fitted estimator.
        """
        self._fit(X, y, sample_weight)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add classes to a fit.

        The first call is :meth:`fit`. Later calls add other classes, each with all its samples, and
        the map is that of a fit to all samples, because what a class contributes does not depend on
        the others. So data may be larger than memory. With relative units, gamma, alpha and beta
        keep the absolute values of the first call (``strengths_``): the map is that of a fit to all
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
        self._refuse_class_weight()
        add = self._add_classes if hasattr(self, "components_") else self._fit
        add(X, y)
        return self
