"""Manifold Partition Discriminant Analysis."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.validation import (
    check_count,
    check_flag,
    check_number,
    check_option,
    is_dask_collection,
)
from mpda.discriminant.settings import DiscriminantSettings, UserObject, copy_object
from mpda.estimators._tangent_discriminant import TangentDiscriminant
from mpda.partition.rules import PARTITIONS, PartitionRule


@dataclass(eq=False, repr=False)
class MPDA(TangentDiscriminant):
    """Manifold Partition Discriminant Analysis.

    MPDA learns a linear map to a few dimensions. It keeps samples close that are neighbours on the
    manifold of their class, and separates the classes. Each class is divided into patches that are
    nearly flat. Variation along the tangent space of a patch is explained by a tangent vector v and
    does not count as within-class variation. The directions t maximise

        sum_ij W'_ij (t'd_ij)^2  /  ( S(t, v) + alpha |t|^2 + beta |v|^2 ),

        S(t, v) = sum_ij W_ij [ (t'd_ij - v_pi(j)' T_pi(j)' d_ij)^2
                                + gamma |v_pi(i) - T_pi(i)' T_pi(j) v_pi(j)|^2 ]

    with d_ij = x_i - x_j, W the neighbour graph inside classes, pi(i) the patch of sample i, T_p
    the tangent basis of patch p, and W' = 1/n across classes and A_ij (1/n - 1/n_c) inside class
    c, A the local affinity. The tangent vectors are eliminated exactly, class by class (Schur
    complement), which leaves an eigenproblem of size d x d.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all directions with an eigenvalue above 1e-10 of the
        largest. There may be more components than classes. More components than there are
        directions are an error.
    n_neighbors : int, default=20
        Number of neighbours k inside a class, for W and for the local scale of the affinity. It is
        cut, with a warning, in a class of fewer samples. A class of one sample is allowed and
        contributes to the between-class form only.
    gamma : float, default=0.1
        Weight of the agreement between tangent vectors of neighbouring patches.
    alpha : float, default=0.2
        Ridge on the directions t.
    tangent_alpha : float or None, default=None
        Ridge beta on the tangent vectors v. None sets beta = alpha in absolute units, as in the
        paper; this beta grows with the number of samples. A number is a multiple of the unit of
        beta and does not grow; 3.0 is nearly as good as None on most data. For large beta the
        method becomes discriminant analysis with the graph Laplacian of W.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
    units : {"relative", "absolute"}, default="relative"
        Units of gamma, alpha and tangent_alpha. "relative": multiples of the mean squared edge
        length of W, of trace(S_tt) / d and of the mean diagonal of the first-order part of S_vv.
        The fit then does not depend on the scale of X. "absolute": squared units of X, as in the
        paper.
    partition : {"auto", "geodesic", "euclidean", "tree"} or clusterer, default="auto"
        Rule that divides a class into patches. "geodesic": the manifold partition of the paper,
        with matrices of all pairs of a class. "euclidean": the same rule with straight distances.
        "tree": a patch is halved along its first principal axis until it is small enough; time and
        memory are nearly linear in the size of the class. "auto": "geodesic" for classes of up to
        1000 samples, "tree" for larger ones. A scikit-learn clusterer is cloned and fitted to each
        class; every sample with its label -1 becomes a patch.
    partition_neighbors : int, default=6
        Number of neighbours k' for the geodesics and for growing patches.
    max_patch_size : int, default=10
        Largest number of samples M of a patch.
    tangent_energy : float, default=0.95
        Share of the variance of a patch that its tangent space keeps; 0 leaves tangents out.
    affinity : {"knn", "full"}, default="knn"
        Pairs with an affinity: neighbours, as in the paper, or all pairs of a class, as in the
        authors' program.
    anchors : bool, default=False
        If True, W joins each sample to the mean of its patch, and these means to their nearest
        ones, instead of samples to samples.
    neighbor_search : {"auto", "exact", "faiss"} or transformer, default="auto"
        Search for neighbours inside a class. "auto" and "exact" compare all pairs. "faiss" (the
        extra ``mpda[faiss]``) is approximate in classes of more than 20,000 samples. A neighbours
        transformer of scikit-learn, such as ``KNeighborsTransformer``, is cloned and fitted to each
        class; its ``n_neighbors`` must be at least the larger of ``n_neighbors`` and
        ``partition_neighbors``. The share of missed neighbours is not measured.
    class_weight : {"balanced"} or dict, default=None
        Factors of the weights of samples, by class. "balanced" gives all classes the same sum of
        weights; a dict has a positive number for each label, 1 for labels that are not in it.
    unlabeled : object, default=None
        Label of samples without a class, for example -1. The within-class form then gains the
        tangent form of all samples, labelled or not, with neighbours regardless of class. None:
        every label is a class.
    unlabeled_weight : float, default=0.1
        Weight of that form. In relative units 1 gives it the trace of the within-class form; 0 is
        the fit to the labelled samples.
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
        Directions t by decreasing eigenvalue, with t'M t = 1 before ``eigenvalue_power`` applies; M
        is the within-class matrix of the reduced eigenproblem. The entry of largest magnitude is
        positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Ratios of between-class to within-class variation.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    strengths_ : dict
        Values of "gamma", "alpha" and "beta" in squared units of X.
    residual_ : float
        Largest relative residual |S't - lambda M t| / (|S't| + |lambda| |M t|) of a direction.
    condition_ : float
        Condition number of M on its range, with features scaled by the diagonal that M has before
        the elimination. A fit warns (``NumericalWarning``) above 1e12, or if the residual is above
        1e-6.
    class_residuals_ : ndarray of shape (n_classes,)
        Largest residual norm of the tangent vectors of each class, relative to the right-hand side.
        The relative error of M is about its square. 0 for a factor in double precision.
    class_solvers_ : list of str, one for each class
        Solver that eliminated the tangent vectors of each class: "dense" (Cholesky factor),
        "single" (Cholesky factor in single precision with iterative refinement), "iterative"
        (conjugate gradients with iterative refinement), "range" (eigenvectors of a singular block),
        "sparse" (sparse LU factor, where the others do not converge) or "none" (no tangent
        vectors).
    patch_labels_ : ndarray of shape (n_samples,)
        Patch of each training sample, from 0 on, in the order of all calls. It does not exist after
        a fit to Dask collections.
    patch_classes_ : ndarray of shape (n_patches,)
        Class of each patch.
    patch_linearity_ : ndarray of shape (n_patches,)
        R^p, the mean ratio of geodesic to straight distance over the pairs of a patch; 1 is flat,
        larger values are more curved. It is 1 by definition for "euclidean". It is nan for "tree"
        (``ManifoldPartition`` measures it) and for given patches in a class of more than 2000
        samples.
    tangent_dimensions_ : ndarray of shape (n_patches,)
        Dimension of the tangent space of each patch.
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
    >>> from sklearn.datasets import load_digits
    >>> from mpda import MPDA
    >>> X, y = load_digits(return_X_y=True)
    >>> MPDA(n_components=10).fit(X, y).transform(X).shape
    (1797, 10)
    """

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 20
    gamma: float = 0.1
    alpha: float = 0.2
    tangent_alpha: float | None = None
    eigenvalue_power: float = 0.0
    units: str = "relative"
    partition: Any = "auto"
    partition_neighbors: int = 6
    max_patch_size: int = 10
    tangent_energy: float = 0.95
    affinity: str = "knn"
    anchors: bool = False
    neighbor_search: Any = "auto"
    class_weight: Any = None
    unlabeled: Any = None
    unlabeled_weight: float = 0.1
    solver: str = "reduced"
    n_jobs: int | None = None
    verbose: int = 0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        patches: ArrayLike | None = None,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples. A Dask collection is fitted on its cluster; a device array, with
            scikit-learn's array API dispatch, on its device.
        y : array-like of shape (n_samples,)
            Class labels, or the value of ``unlabeled``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, at least 0: multiplicities in sums, but not in neighbour lists
            and patches. Only their ratios matter.
        patches : array-like of int of shape (n_samples,), default=None
            Patches to use in place of ``partition``; -1 makes a patch of one sample.

        Returns
        -------
        MPDA
            The fitted estimator.
        """
        if self.unlabeled is not None:
            self._refuse_with_unlabeled(X, patches, sample_weight)
        self._fit(X, y, sample_weight, patches)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, *, patches: ArrayLike | None = None) -> Self:
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
        patches : array-like of int of shape (n_samples,), default=None
            Patches to use, as in :meth:`fit`.

        Returns
        -------
        MPDA
            The fitted estimator.
        """
        self._refuse_class_weight()
        add = self._add_classes if hasattr(self, "components_") else self._fit
        add(X, y, patches=patches)
        return self

    def check_parameters(self) -> DiscriminantSettings:
        """Check the parameters.

        Returns
        -------
        DiscriminantSettings
            The parameters that the directions depend on.
        """
        settings = super().check_parameters()
        max_patch_size = check_count("max_patch_size", self.max_patch_size)
        check_number("unlabeled_weight", self.unlabeled_weight)
        partition: PartitionRule | UserObject
        if hasattr(self.partition, "fit_predict"):
            partition = copy_object(self.partition)
        else:
            alternative = ", or a clusterer with fit_predict"
            name = check_option("partition", self.partition, PARTITIONS, also=alternative)
            partition = PartitionRule(name, max_patch_size)
        classes = replace(
            settings.classes,
            partition=partition,
            partition_neighbors=check_count("partition_neighbors", self.partition_neighbors),
            anchors=check_flag("anchors", self.anchors),
        )
        return replace(settings, classes=classes, has_unlabeled=self.unlabeled is not None)

    def _refuse_with_unlabeled(
        self, X: Any, patches: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> None:
        """Raise an error for what unlabelled samples do not go together with."""
        others = {
            "Dask collections": is_dask_collection(X),
            "patches": patches is not None,
            "sample_weight": sample_weight is not None,
            "class_weight": self.class_weight is not None,
        }
        names = [name for name, is_given in others.items() if is_given]
        if names:
            raise ValueError(
                f"unlabeled={self.unlabeled!r} cannot be combined with {' and '.join(names)}."
            )
