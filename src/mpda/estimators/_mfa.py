"""Marginal Fisher Analysis (Yan et al. 2007)."""

from dataclasses import KW_ONLY, dataclass

from mpda._lib.validation import check_count, check_option
from mpda.baselines.graph_methods import PENALTIES, intrinsic_scatter, penalty_scatter
from mpda.baselines.ridge_eigenproblem import Solution, solve_largest
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Eigenproblem
from mpda.estimators._graph_embedding import GraphEmbedding


@dataclass(eq=False, repr=False)
class MFA(GraphEmbedding):
    """Marginal Fisher Analysis.

    MFA moves neighbours of a class together and the closest pairs of different classes apart. The
    directions t maximise

        t'X'L_p X t / t'(X'L_c X + ridge I) t,

    with L_c the Laplacian of the intrinsic graph, which joins each sample to its k nearest of the
    class (union, weight 1), and L_p that of the penalty graph, which joins for each class the
    closest pairs between it and the rest (union, weight 1).

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all directions with an eigenvalue above 1e-10 of the
        largest. More components than there are directions are an error. There are
        at most as many directions as edges of the penalty graph.
    n_neighbors : int, default=5
        Number of neighbours k in the intrinsic graph. It is cut, with a warning, in a class of
        fewer samples.
    n_pairs : int, default=20
        Number of closest pairs in the penalty graph, for each class or in total.
    penalty : {"class", "global"}, default="class"
        "class" takes the ``n_pairs`` closest pairs of each class (the authors). "global" takes the
        ``n_pairs`` smallest entries of the distance matrix of all samples, which contains every
        pair twice (the program of D. Cai).
    alpha : float, default=0.0
        Ridge on X'L_c X, in units of its mean diagonal. The authors have none. Without a ridge,
        X'L_c X must not be singular where classes differ, so more samples than features are needed.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
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
        Directions by decreasing eigenvalue, of length 1 before ``eigenvalue_power`` applies. The
        entry of largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the components.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    strengths_ : dict
        The ridge in squared units of X, as "alpha".
    residual_ : float
        Relative residual of the eigenproblem, as in :class:`LFDA`.
    condition_ : float
        Condition number of the denominator, as in :class:`LFDA`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    Differences from the authors: here pairs and neighbours at equal distance are sorted by index;
    the authors reduce the features by PCA first, which a pipeline can do; they have no ridge.

    References
    ----------
    S. Yan, D. Xu, B. Zhang, H.-J. Zhang, Q. Yang and S. Lin, "Graph Embedding and Extensions: A
    General Framework for Dimensionality Reduction", IEEE Transactions on Pattern Analysis and
    Machine Intelligence 29(1), 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import MFA
    >>> X, y = load_iris(return_X_y=True)
    >>> MFA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 5
    n_pairs: int = 20
    penalty: str = "class"
    alpha: float = 0.0
    eigenvalue_power: float = 0.0
    orthonormal: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        super().check_parameters()
        check_count("n_pairs", self.n_pairs)
        check_option("penalty", self.penalty, PENALTIES)

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class, None if there are none."""
        return self.n_neighbors

    def _solve(self, data: TrainingData) -> Solution:
        """Compute the directions, by decreasing eigenvalue, of unit length."""
        between = data.cached(penalty_scatter, self.n_pairs, self.penalty)
        problem = Eigenproblem(between, data.cached(intrinsic_scatter, self.n_neighbors))
        options = self.alpha, self.n_components
        return solve_largest(data.samples, problem, *options, unit_length=True)
