"""Discriminant analysis by the Laplacians of any two graphs (section 2 of the paper)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import coo_array, issparse

from mpda._lib.array_types import ArrayLike, Floats
from mpda._lib.validation import (
    check_count,
    check_flag,
    check_number,
    check_option,
    validate_samples,
)
from mpda.baselines.graph_methods import (
    BETWEEN_GRAPHS,
    PENALTIES,
    WITHIN_GRAPHS,
    NamedGraph,
    weighted_scatter,
)
from mpda.baselines.ridge_eigenproblem import Solution, solve_exponential, solve_largest
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Eigenproblem
from mpda.estimators._graph_embedding import GraphEmbedding

# Larger weights could overflow in sums over all pairs of samples with squared distances up to 1e60.
_MAX_WEIGHT = 1e100
# Weights of a symmetric graph may differ by rounding, relative to the largest.
_SYMMETRY_TOLERANCE = 1e-10
# An eigenvalue of the within scatter is negative below this share of the largest, else rounding.
_NEGATIVE_TOLERANCE = 1e-8


@dataclass(eq=False, repr=False)
class GraphDiscriminant(GraphEmbedding):
    """Discriminant analysis by the Laplacians of two graphs.

    This is the framework of section 2 of the paper. One graph joins samples that should be near
    each other, another graph samples that should be apart. The directions t maximise

        t'X'L_b X t / t'(X'L_w X + ridge I) t,   X'LX = 1/2 sum_ij W_ij d_ij d_ij',

    with L = D - W the Laplacian of the weights W of a graph and d_ij = x_i - x_j. Fisher's
    discriminant analysis, LFDA and MFA are instances. Two functions define another one.

    Parameters
    ----------
    within : {"fisher", "local", "neighbors"} or callable, default="fisher"
        Graph of samples that should be near. "fisher": weight 1/n_c for all pairs of class c;
        "local": A_ij / n_c with LFDA's affinity A; "neighbors": 1 between k-nearest neighbours of a
        class, MFA's intrinsic graph. A callable receives copies of X, as float64, and of y. It
        returns symmetric weights (n_samples, n_samples) as a SciPy sparse array or an ndarray; the
        diagonal has no effect. Weights may be negative if X'L_w X has no negative eigenvalue.
    between : {"fisher", "local", "pairs"} or callable, default="fisher"
        Graph of samples that should be apart. "fisher": weight 1/n between classes and 1/n - 1/n_c
        inside class c; "local": the latter times A_ij; "pairs": 1 for the closest pairs of
        different classes, MFA's penalty graph. Weights of a callable may be negative.
    n_components : int, default=None
        Number of components. None keeps all directions with an eigenvalue above 1e-10 of the
        largest, or with ``exponential`` above rounding. More components than there are directions
        are an error.
    n_neighbors : int, default=7
        Number of neighbours k for "local" and "neighbors". It is cut, with a warning, in a class of
        fewer samples.
    n_pairs : int, default=20
        Number of closest pairs for "pairs".
    penalty : {"class", "global"}, default="class"
        Count these pairs for each class or in total, as in :class:`MFA`.
    alpha : float, default=0.0
        Ridge on X'L_w X, in units of its mean diagonal.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
    orthonormal : bool, default=False
        If True, the components are orthonormalised in their order, and ``eigenvalue_power`` has no
        effect.
    exponential : bool, default=False
        If True, exp(X'L_b X / s) t = lambda exp(X'L_w X / s) t is solved, the exponential framework
        of Wang et al., with t in the span of the centred samples. Its denominator is never
        singular, so ``alpha`` has no effect.
    exponential_scale : float, default=1.0
        The scale s in units of the mean diagonal of X'L_w X. A large one gives the directions of
        X'(L_b - L_w)X.
    class_weight : {"balanced"} or dict, default=None
        Weights of the classes, as in :class:`MPDA`.
    n_jobs : int, default=None
        Number of classes that joblib processes at the same time, for the named graphs.
    verbose : int, default=0
        If 1, progress is printed to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions by decreasing eigenvalue, with t'(X'L_w X + ridge I)t = 1 before
        ``eigenvalue_power`` applies; with ``exponential`` t'exp(X'L_w X / s)t is one number for all
        of them. The entry of largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the components; with ``exponential`` relative to the largest.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    strengths_ : dict
        The ridge in squared units of X, as "alpha".
    residual_ : float
        Relative residual of the eigenproblem, as in :class:`LFDA`.
    condition_ : float
        Condition number of the denominator, as in :class:`LFDA`; with ``exponential`` that of
        exp(X'L_w X / s) in the span of the centred samples, at most 1e304. A larger
        ``exponential_scale`` makes it smaller.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    References
    ----------
    S. Yan, D. Xu, B. Zhang, H.-J. Zhang, Q. Yang and S. Lin, "Graph Embedding and Extensions: A
    General Framework for Dimensionality Reduction", IEEE Transactions on Pattern Analysis and
    Machine Intelligence 29(1), 2007.

    S.-J. Wang, S. Yan, J. Yang, C.-G. Zhou and X. Fu, "A General Exponential Framework for
    Dimensionality Reduction", IEEE Transactions on Image Processing 23(2), 2014.

    Y. Zhou and S. Sun, "Manifold Partition Discriminant Analysis", IEEE Transactions on
    Cybernetics 47(4), 2017.

    Examples
    --------
    Neighbours of one class should be near, neighbours of different classes apart:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import kneighbors_graph
    >>> from mpda import GraphDiscriminant
    >>> def other_class(X, y):
    ...     adjacency = kneighbors_graph(X, 30)
    ...     adjacency = adjacency.maximum(adjacency.T).tocoo()
    ...     adjacency.data *= y[adjacency.row] != y[adjacency.col]
    ...     return adjacency
    >>> X, y = load_iris(return_X_y=True)
    >>> method = GraphDiscriminant("neighbors", other_class, n_components=2)
    >>> method.fit(X, y).transform(X).shape
    (150, 2)
    """

    within: str | Callable[..., Any] = "fisher"
    between: str | Callable[..., Any] = "fisher"
    _: KW_ONLY
    n_components: int | None = None
    n_neighbors: int = 7
    n_pairs: int = 20
    penalty: str = "class"
    alpha: float = 0.0
    eigenvalue_power: float = 0.0
    orthonormal: bool = False
    exponential: bool = False
    exponential_scale: float = 1.0
    class_weight: Any = None
    n_jobs: int | None = None
    verbose: int = 0

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
        if not callable(self.within):
            check_option("within", self.within, tuple(WITHIN_GRAPHS), also=", or a callable")
        if not callable(self.between):
            check_option("between", self.between, tuple(BETWEEN_GRAPHS), also=", or a callable")
        check_count("n_pairs", self.n_pairs)
        check_option("penalty", self.penalty, PENALTIES)
        check_flag("exponential", self.exponential)
        check_number("exponential_scale", self.exponential_scale, above=0.0)

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class, None if there are none."""
        named = [graph for graph in self._graphs() if isinstance(graph, NamedGraph)]
        return self.n_neighbors if any(graph.uses_neighbors for graph in named) else None

    def _graphs(self) -> list[NamedGraph | Callable[..., Any]]:
        """Return the within graph and the between graph."""
        pairs = ((self.within, WITHIN_GRAPHS), (self.between, BETWEEN_GRAPHS))
        return [name if callable(name) else graphs[name] for name, graphs in pairs]

    def _solve(self, data: TrainingData) -> Solution:
        """Compute the directions, by decreasing eigenvalue."""
        within, between = (
            graph.compute(data, self)
            if isinstance(graph, NamedGraph)
            else _custom_scatter(data, graph, name)
            for name, graph in zip(("within", "between"), self._graphs(), strict=True)
        )
        if callable(self.within):
            _check_semidefinite(within)
        problem = Eigenproblem(between, within)
        if self.exponential:
            scale, r = self.exponential_scale, self.n_components
            return solve_exponential(data.local_samples, problem, scale, r)
        return solve_largest(data.samples, problem, self.alpha, self.n_components)


def _custom_scatter(data: TrainingData, graph: Callable[..., Any], name: str) -> Floats:
    """Return the scatter (d, d) of the weights of a callable, which are checked."""
    samples = data.local_samples
    X = np.ldexp(samples.points, samples.coordinates.exponent)  # a copy in the units of the user
    weights = graph(X, samples.y.copy())
    if not issparse(weights):
        try:
            weights = np.asarray(weights)
        except ValueError as error:
            raise ValueError(f"{name} must return weights as one matrix: {error}.") from error
    n = len(X)
    if weights.shape != (n, n):
        raise ValueError(
            f"{name} must return weights of shape ({n}, {n}), one row and column per sample, got "
            f"{weights.shape}."
        )
    if weights.dtype.kind not in "buif":
        raise TypeError(f"{name} must return weights that are numbers, got {weights.dtype}.")
    adjacency = coo_array(weights, dtype=float)
    adjacency.sum_duplicates()
    largest = np.abs(adjacency.data).max(initial=0.0)
    if not largest < _MAX_WEIGHT:
        raise ValueError(
            f"{name} must return finite weights below {_MAX_WEIGHT:g}, got up to {largest:g}."
        )
    asymmetry = abs(adjacency - adjacency.T).max()
    if asymmetry > _SYMMETRY_TOLERANCE * largest:
        raise ValueError(
            f"{name} must return symmetric weights, but W and its transpose differ by up to "
            f"{asymmetry:g}. Return for example W.maximum(W.T) or (W + W.T) / 2."
        )
    return weighted_scatter(data, adjacency)


def _check_semidefinite(within: Floats) -> None:
    values = np.linalg.eigvalsh(within)
    if values[0] < -_NEGATIVE_TOLERANCE * np.abs(values).max():
        raise ValueError(
            "within must return weights whose scatter X'L_w X has no negative eigenvalue, but it "
            f"has {values[0]:g}, with {values[-1]:g} as the largest: larger distances between some "
            "samples would count as better. Put pairs that should be apart into between."
        )
