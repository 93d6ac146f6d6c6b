"""Linearised Parallel Field Embedding on a supervised graph (Lin et al. 2013)."""

from __future__ import annotations

from typing import Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.validation import check_number, validate_labelled
from mpda.baselines.training_data import TrainingData
from mpda.baselines.vector_fields import follow_fields
from mpda.discriminant.solutions import Solution
from mpda.estimators import _eigen_fit
from mpda.estimators._base import LinearMap


class LPFE(LinearMap):
    """Linearised Parallel Field Embedding on the within-class graph.

    First the vector fields along the classes that turn least from sample to sample: the unit
    vectors v of smallest

        E(v) = sum_ij W_ij |v_i - T_i' T_j v_j|^2,

    with W the neighbour graph inside classes and T_i the tangent basis of x_i, from PCA of x_i and
    its k nearest of the class, both as in :class:`PMPDA`. Then for each field the direction t that
    follows it best,

        min_t sum_ij W_ij (t'd_ij - v_j' T_j' d_ij)^2 + ridge |t|^2.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions, one for each field. None keeps all that do not depend on those before
        them, at most one for every dimension of the samples; a number is honoured or refused,
        never cut.
    n_neighbors : int, default=12
        k of W and of the tangent spaces. Cut, with a warning, in a class of fewer samples.
    tangent_energy : float, default=0.95
        Share of the variance of a neighbourhood that its tangent space keeps.
    alpha : float, default=0.0
        Ridge of the least squares, in units of the mean diagonal of its matrix.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_1 / lambda_r) to this power; eigenvalues increase here,
        and those below 1e-10 count as that.
    orthonormal : bool, default=False
        Whether the components are made orthonormal, in their order; eigenvalue_power has then no
        part in their scale.
    n_jobs : int, default=None
        Classes worked on at the same time, by joblib.
    verbose : int, default=0
        With 1, progress goes to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions in the order of their fields, as least squares gives them; the entry of
        largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        E(v) of the fields, increasing.
    mean_ : ndarray of shape (n_features,)
    classes_ : ndarray of shape (n_classes,)
    units_ : dict
        The absolute ridge that was used, as "alpha".
    residual_ : float
        |M t - r| / (|M| |t| + |r|) of the least squares M t = r for all directions.
    condition_ : float
        That of M, as in :class:`LFDA`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    No program of this method is public: the paper on MPDA names it, the linear form of PFE on the
    graph G of MPDA, without a formula, and this is our reading. W never joins two classes, so every
    field lives on one class, unless several have the same E(v), as all have 0 on flat pieces: of
    their mixtures those come first whose pull on t can be followed furthest. A field whose
    direction depends on those before it is left out.

    References
    ----------
    B. Lin, X. He, C. Zhang and M. Ji, "Parallel Vector Field Embedding", Journal of Machine
    Learning Research 14, 2013.

    Y. Zhou and S. Sun, "Manifold Partition Discriminant Analysis", IEEE Transactions on
    Cybernetics 47(4), 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import LPFE
    >>> X, y = load_iris(return_X_y=True)
    >>> LPFE(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 12,
        tangent_energy: float = 0.95,
        alpha: float = 0.0,
        eigenvalue_power: float = 0.0,
        orthonormal: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.tangent_energy = tangent_energy
        self.alpha = alpha
        self.eigenvalue_power = eigenvalue_power
        self.orthonormal = orthonormal
        self.n_jobs = n_jobs
        self.verbose = verbose

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
        self : object
            The fitted estimator.
        """
        self.check_parameters()
        _eigen_fit.fit(self, validate_labelled(self, X, y))
        return self

    fit_many = _eigen_fit.fit_many

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        _eigen_fit.check_parameters(self)
        check_number("tangent_energy", self.tangent_energy, most=1.0)

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class, None if there are none."""
        return self.n_neighbors

    def solve(self, data: TrainingData) -> Solution:
        """Compute the directions.

        Parameters
        ----------
        data : TrainingData
            The samples, with the stages that were computed before.

        Returns
        -------
        Solution
            By increasing energy of the vector fields.
        """
        options = self.n_neighbors, self.tangent_energy, self.alpha, self.n_components
        return follow_fields(data, *options)
