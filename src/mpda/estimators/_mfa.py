"""Marginal Fisher Analysis (Yan et al. 2007)."""

from __future__ import annotations

from typing import Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.validation import check_count, check_option, validate_labelled
from mpda.baselines.graph_methods import PENALTIES, intrinsic_scatter, penalty_scatter
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.solutions import Eigenproblem, Solution, solve_largest
from mpda.estimators import _eigen_fit
from mpda.estimators._base import LinearMap


class MFA(LinearMap):
    """Marginal Fisher Analysis.

    Draws neighbours of a class together and pushes apart the pairs of different classes that are
    closest to each other. The directions t maximise

        t'X'L_p X t / t'(X'L_c X + ridge I) t,

    with L_c the Laplacian of the intrinsic graph, which joins each sample to its k nearest of the
    class (union, weight 1), and L_p that of the penalty graph, which joins for each class the
    closest pairs between it and the rest (union, weight 1).

    Parameters
    ----------
    n_components : int, default=None
        Number of directions. None keeps all with an eigenvalue above 1e-10 of the largest; a
        number is honoured or refused, never cut. There are no more than edges of the penalty graph.
    n_neighbors : int, default=5
        k of the intrinsic graph. Cut, with a warning, in a class of fewer samples.
    n_pairs : int, default=20
        Closest pairs in the penalty graph, for each class or in all.
    penalty : {"class", "global"}, default="class"
        "class" takes the ``n_pairs`` closest pairs of each class (the paper); "global" the
        ``n_pairs`` smallest entries of the whole distance matrix, in which every pair stands twice
        (the program of D. Cai).
    alpha : float, default=0.0
        Ridge on X'L_c X, in units of its mean diagonal. The authors have none; without one X'L_c X
        must not be singular where classes differ, so there must be more samples than features.
    eigenvalue_power : float, default=0.0
        Component r is multiplied by (lambda_r / lambda_1) to this power.
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
        The directions by decreasing eigenvalue, of length 1 before eigenvalue_power; the entry of
        largest magnitude is positive.
    eigenvalues_ : ndarray of shape (n_components,)
    mean_ : ndarray of shape (n_features,)
    classes_ : ndarray of shape (n_classes,)
    units_ : dict
        The absolute ridge that was used, as "alpha".
    residual_ : float
        How well the directions solve the eigenproblem, as in :class:`LFDA`.
    condition_ : float
        That of the matrix in the denominator, as in :class:`LFDA`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    How this differs from the authors: pairs and neighbours at equal distance are taken by index;
    they reduce the features by PCA first, which is left to a pipeline here; and they have no ridge.

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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 5,
        n_pairs: int = 20,
        penalty: str = "class",
        alpha: float = 0.0,
        eigenvalue_power: float = 0.0,
        orthonormal: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_pairs = n_pairs
        self.penalty = penalty
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
        check_count("n_pairs", self.n_pairs)
        check_option("penalty", self.penalty, PENALTIES)

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
            By decreasing eigenvalue, of unit length.
        """
        between = data.cached(penalty_scatter, self.n_pairs, self.penalty)
        problem = Eigenproblem(between, data.cached(intrinsic_scatter, self.n_neighbors))
        options = self.alpha, self.n_components
        return solve_largest(data.samples, problem, *options, unit_length=True)
