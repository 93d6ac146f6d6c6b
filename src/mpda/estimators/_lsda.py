"""Locality Sensitive Discriminant Analysis (Cai et al. 2007)."""

from dataclasses import KW_ONLY, dataclass

from mpda._lib.validation import check_number
from mpda.baselines.graph_methods import lsda_scatters
from mpda.baselines.ridge_eigenproblem import Solution, solve_largest
from mpda.baselines.training_data import TrainingData
from mpda.estimators._graph_embedding import GraphEmbedding


@dataclass(eq=False, repr=False)
class LSDA(GraphEmbedding):
    """Locality Sensitive Discriminant Analysis.

    Near samples of one class stay near, and near samples of different classes come apart. The
    directions t maximise

        t'X'[ b/(1-b) L_b + W_w ]X t / t'(X'D_w X + ridge I) t,

    with X centred by its mean. One graph joins every sample to itself and to its k nearest of all
    samples (union, weight 1); W_w are its edges inside classes, D_w their row sums, and L_b is the
    Laplacian of its edges across classes. The edge of a sample to itself is in the author's program
    but not in the paper. It adds the identity to W_w and to D_w, so that D_w has no zeros.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all directions with an eigenvalue above 1e-10 of the
        largest. More components than there are directions are an error.
    n_neighbors : int, default=5
        Number of neighbours k in the graph, cut to the number of other samples.
    between_share : float, default=0.1
        Weight b of the edges between classes, from 0 to below 1.
    alpha : float, default=0.0
        Ridge on X'D_w X, in units of its mean diagonal. The authors have none.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
    orthonormal : bool, default=False
        If True, the components are orthonormalised in their order, and ``eigenvalue_power`` has no
        effect.
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
    Differences from the authors' program: here X is always centred, so that a fit does not depend
    on the origin. W_w may make the numerator indefinite, and directions with an eigenvalue of 0 or
    below are left out. Neighbours at equal distance are sorted by index. The authors leave k open;
    they have no ridge and reduce the features by PCA first, which a pipeline can do.

    References
    ----------
    D. Cai, X. He, K. Zhou, J. Han and H. Bao, "Locality Sensitive Discriminant Analysis",
    International Joint Conference on Artificial Intelligence, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import LSDA
    >>> X, y = load_iris(return_X_y=True)
    >>> LSDA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 5
    between_share: float = 0.1
    alpha: float = 0.0
    eigenvalue_power: float = 0.0
    orthonormal: bool = False
    verbose: int = 0

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        super().check_parameters()
        check_number("between_share", self.between_share, below=1.0)

    def _solve(self, data: TrainingData) -> Solution:
        """Compute the directions, by decreasing eigenvalue, of unit length."""
        problem = data.cached(lsda_scatters, self.n_neighbors).eigenproblem(self.between_share)
        options = self.alpha, self.n_components
        return solve_largest(data.samples, problem, *options, unit_length=True)
