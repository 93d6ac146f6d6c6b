"""Local Fisher Discriminant Analysis (Sugiyama 2007)."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.validation import (
    check_option,
    is_dask_collection,
    refuse_cluster_weights,
    validate_samples,
)
from mpda.baselines.graph_methods import AFFINITIES, local_fisher_problem
from mpda.baselines.ridge_eigenproblem import Solution, solve_largest
from mpda.baselines.training_data import TrainingData
from mpda.estimators._graph_embedding import GraphEmbedding
from mpda.parallel import import_dask_cluster


@dataclass(eq=False, repr=False)
class LFDA(GraphEmbedding):
    """Local Fisher Discriminant Analysis.

    Fisher's discriminant analysis in which distant samples of a class count less, so that a class
    may consist of several groups. The directions t maximise

        t'S_lb t / t'(S_lw + ridge I) t,
        S_lb = 1/2 sum_ij W_lb,ij d_ij d_ij',  S_lw = 1/2 sum_ij W_lw,ij d_ij d_ij',

    with d_ij = x_i - x_j, W_lw = A_ij / n_c and W_lb = A_ij (1/n - 1/n_c) inside class c, and
    W_lw = 0 and W_lb = 1/n across classes. A_ij = exp(-|d_ij|^2 / (s_i s_j)) is the affinity and
    s_i the distance of x_i to its k-th neighbour in the class.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all directions with an eigenvalue above 1e-10 of the
        largest. More components than there are directions are an error. There may
        be more of them than classes.
    n_neighbors : int, default=7
        Number of neighbours k for the local scale s_i. It is cut, with a warning, in a class of
        fewer samples.
    affinity : {"full", "knn", "ones"}, default="full"
        "full": A joins all pairs of a class (the author). "knn": A joins k-nearest neighbours only,
        which is fast for large classes. "ones": A is 1 for all pairs, which is Fisher's
        discriminant analysis.
    alpha : float, default=0.0
        Ridge on S_lw, in units of its mean diagonal. The author has none. Without a ridge, S_lw
        must not be singular where classes differ, so more samples than features are needed.
    eigenvalue_power : float, default=0.5
        Component r is multiplied by (lambda_r / lambda_1) to this power; 0.5 is the author's
        weighting.
    orthonormal : bool, default=False
        If True, the components are orthonormalised in their order, and ``eigenvalue_power`` has no
        effect.
    class_weight : {"balanced"} or dict, default=None
        Weights of the classes, as in :class:`MPDA`.
    n_jobs : int, default=None
        Number of classes that joblib processes at the same time. It has no effect on a device.
    verbose : int, default=0
        If 1, progress is printed to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions by decreasing eigenvalue, with t'(S_lw + ridge I)t = 1 before
        ``eigenvalue_power`` applies. The entry of largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the components.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    strengths_ : dict
        The ridge in squared units of X, as "alpha".
    residual_ : float
        Largest |S_lb t - lambda B t| / (|S_lb t| + |lambda| |B t|) over the directions, with
        B = S_lw + ridge I.
    condition_ : float
        Condition number of B on its range, after scaling its diagonal to ones. Above 1e12, or
        with a residual above 1e-6, a fit gives a ``NumericalWarning``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    Differences from the author's program: its components are larger by the factor sqrt(lambda_1);
    here neighbours at equal distance are sorted by index; where s_i s_j = 0, A is 1 for identical
    samples and 0 for others; the author has no ridge.

    References
    ----------
    M. Sugiyama, "Dimensionality Reduction of Multimodal Labeled Data by Local Fisher Discriminant
    Analysis", Journal of Machine Learning Research 8, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import LFDA
    >>> X, y = load_iris(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    _computes_on_devices = True
    _takes_sparse = True

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 7
    affinity: str = "full"
    alpha: float = 0.0
    eigenvalue_power: float = 0.5
    orthonormal: bool = False
    class_weight: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map from labelled samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, as an array, device array or Dask collection.
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
        if is_dask_collection(X):
            refuse_cluster_weights(sample_weight, self.class_weight)
            self._fit_samples(import_dask_cluster().gather_by_class(self, X, y))
        else:
            samples = validate_samples(self, X, y, sample_weight=sample_weight, devices=True)
            self._fit_samples(samples)
        return self

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        super().check_parameters()
        check_option("affinity", self.affinity, AFFINITIES)

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class, None if there are none."""
        return None if self.affinity == "ones" else self.n_neighbors

    def _solve(self, data: TrainingData) -> Solution:
        """Compute the directions, by decreasing eigenvalue."""
        problem = data.cached(local_fisher_problem, self.n_neighbors, self.affinity)
        return solve_largest(data.samples, problem, self.alpha, self.n_components)
