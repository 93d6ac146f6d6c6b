"""Linearised Parallel Field Embedding on a supervised graph (Lin et al. 2013)."""

from dataclasses import KW_ONLY, dataclass

from mpda._lib.validation import check_number
from mpda.baselines.ridge_eigenproblem import Solution
from mpda.baselines.training_data import TrainingData
from mpda.baselines.vector_fields import follow_fields
from mpda.estimators._graph_embedding import GraphEmbedding


@dataclass(eq=False, repr=False)
class LPFE(GraphEmbedding):
    """Linearised Parallel Field Embedding on the within-class graph.

    LPFE first computes the smoothest vector fields on the classes, the unit vectors v with the
    smallest energy

        E(v) = sum_ij W_ij |v_i - T_i' T_j v_j|^2.

    W is the neighbour graph inside classes and T_i the tangent basis of x_i, from PCA of x_i and
    its k nearest neighbours in the class, both as in :class:`PMPDA`. Each field then gives the
    direction t that follows it best,

        min_t sum_ij W_ij (t'd_ij - v_j' T_j' d_ij)^2 + ridge |t|^2.

    Parameters
    ----------
    n_components : int, default=None
        Number of components, one for each field. None keeps all that are linearly independent of
        earlier ones, at most one for every dimension of the samples. More components than that are
        an error.
    n_neighbors : int, default=12
        Number of neighbours k in W and for the tangent spaces. It is cut, with a warning, in a
        class of fewer samples.
    tangent_energy : float, default=0.95
        Share of the variance of a neighbourhood that its tangent space holds.
    alpha : float, default=0.0
        Ridge of the least squares, in units of the mean diagonal of its matrix.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_1 / lambda_r) to this power, because the smallest
        eigenvalues come first. Eigenvalues below 1e-10 count as 1e-10.
    orthonormal : bool, default=False
        If True, the components are orthonormalised in their order, and ``eigenvalue_power`` has no
        effect.
    n_jobs : int, default=None
        Number of classes that joblib processes at the same time.
    verbose : int, default=0
        If 1, progress is printed to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions by increasing energy of their fields, with the length of the least-squares
        solution. The entry of largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Energies E(v) of the fields, increasing.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    strengths_ : dict
        The ridge in squared units of X, as "alpha".
    residual_ : float
        Relative residual |M t - r| / (|M| |t| + |r|) of the normal equations M t = r.
    condition_ : float
        Condition number of M, as in :class:`LFDA`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    There is no public program of this method. The paper on MPDA names it, as the linear form of PFE
    on the graph of MPDA, without a formula; this is our reading. W never joins two classes, so
    every field lives on one class, unless several fields have equal energy, as on flat pieces. Of
    their mixtures, those that a direction follows furthest come first. Fields whose direction is
    a linear combination of earlier directions are left out.

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

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 12
    tangent_energy: float = 0.95
    alpha: float = 0.0
    eigenvalue_power: float = 0.0
    orthonormal: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        super().check_parameters()
        check_number("tangent_energy", self.tangent_energy, most=1.0)

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class, None if there are none."""
        return self.n_neighbors

    def _solve(self, data: TrainingData) -> Solution:
        """Compute the directions, by increasing energy of the vector fields."""
        options = self.n_neighbors, self.tangent_energy, self.alpha, self.n_components
        return follow_fields(data, *options)
