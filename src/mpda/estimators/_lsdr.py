"""Least-Squares Dimension Reduction (Suzuki and Sugiyama 2013)."""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from mpda._lib.array_types import ArrayLike
from mpda._lib.validation import check_count, check_number, resolve_seed, validate_samples
from mpda.baselines.lsdr.subspace_search import SearchOptions, maximize_smi
from mpda.estimators._base import LinearMap

# Candidates of the cross-validation: a factor of two in width and of ten in ridge changes little.
_WIDTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# Gaussians of other widths, relative to the median distance, are constant or vanish at all samples.
_WIDTH_RANGE = (1e-3, 1e3)
# A smaller ridge leaves the weights of nearly equal basis functions to rounding, a larger one makes
# all weights vanish.
_RIDGE_RANGE = (1e-10, 1e10)


@dataclass(eq=False, repr=False)
class LSDR(LinearMap):
    """Least-Squares Dimension Reduction: the subspace with most information on the classes.

    LSDR maximises, over orthonormal W, an estimate of the squared-loss mutual information between
    z = W x and the class y,

        SMI(W) = h'a / 2 - 1/2,    a = (H + ridge I)^-1 h,
        H = (1/n^2) sum_ij phi(z_i, y_j) phi(z_i, y_j)',    h = (1/n) sum_i phi(z_i, y_i),
        phi_l(z, y) = exp(-|z - W c_l|^2 / (2 width^2)) [y = class of c_l],

    where the centres c_l are samples. Classes may have any shape: they may be multimodal or lie
    around each other. The optimiser is natural gradient ascent on the Grassmann manifold with a
    line search, and it finds a local maximum. A fit is much slower than that of methods that solve
    an eigenproblem; use ``verbose`` and ``max_time``. Distances have one width in all directions,
    so features in different units should be scaled first.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. None means the number of classes minus one, or the rank of the
        centred samples if that is lower. A number above the rank is an error.
    n_centers : int, default=200
        Number of centres c_l. If there are no more samples, each sample is a centre. Otherwise
        centres are drawn, at least one for each class.
    widths : sequence of float, default=None
        Candidates of the cross-validation, as multiples of the median distance of the mapped
        samples. None means 0.25, 0.5, 0.75, 1, 1.5 and 2.
    ridges : sequence of float, default=None
        Candidates of the cross-validation, at least 1e-10. None means the decades from 1e-5 to 1.
    n_folds : int, default=5
        Number of folds of the cross-validation, cut to the number of samples.
    init : {"best", "pca", "random"} or array of shape (n_components, n_features), default="best"
        Initial subspace. "best" tries PCA, Fisher's directions completed by PCA, and three random
        subspaces, and continues with the one that has the best cross-validation criterion after
        short ascents.
    max_iter : int, default=100
        Largest number of iterations of the ascent.
    tol : float, default=1e-4
        The ascent ends when the norm of the gradient, or the gain of five iterations, is below
        ``tol`` times the objective (``tol`` if the objective is below 1).
    max_time : float, default=None
        Seconds after which the fit ends with the best subspace so far; None means no limit. It is
        checked between iterations, so a fit may exceed it by one cross-validation.
    random_state : int, RandomState or None, default=0
        Seed for the centres, the folds and the random subspaces. None makes fits differ.
    verbose : int, default=0
        If 1, progress is printed to stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows: principal axes of the mapped training samples, by decreasing variance.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted.
    smi_ : float
        Squared-loss mutual information at the end of the ascent.
    width_ : float
        Selected width, in the units of X.
    ridge_ : float
        Selected ridge.
    history_ : dict of ndarray
        "objective", "gradient_norm", "step" and "seconds" of the start and of every iteration. The
        objective never decreases.
    n_iter_ : int
        Number of iterations of the final ascent, at least 1.
    stop_reason_ : str
        "gradient" or "gain" (below ``tol``), "no ascent" (rounding allows no further gain),
        "max_iter" or "max_time"; the last two give a ``ConvergenceWarning``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    The authors select width and ridge again during the ascent, which changes the objective. Here an
    initial subspace has up to four short ascents of at most 40 iterations, with a new selection
    after each, until the selection stays the same. Then width and ridge are fixed, and ``history_``
    describes the ascent of one function. The authors restart from random subspaces; "best" adds PCA
    and Fisher's directions. Draws use the samples sorted by value, so a fit depends neither on the
    order of the samples nor on the names of the classes.

    References
    ----------
    T. Suzuki and M. Sugiyama, "Sufficient Dimension Reduction via Squared-loss Mutual Information
    Estimation", Neural Computation 25(3), 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import LSDR
    >>> X, y = load_iris(return_X_y=True)
    >>> LSDR(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_components: int | None = None
    _: KW_ONLY
    n_centers: int = 200
    widths: Sequence[float] | None = None
    ridges: Sequence[float] | None = None
    n_folds: int = 5
    init: str | ArrayLike = "best"
    max_iter: int = 100
    tol: float = 1e-4
    max_time: float | None = None
    random_state: Any = 0
    verbose: int = 0

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
        LinearMap
            The fitted estimator itself.
        """
        begin = time.monotonic()
        samples = validate_samples(self, X, y)
        options = self._search_options(begin)
        rng = np.random.default_rng(_seed(self.random_state))
        subspace = maximize_smi(samples, self.n_components, self.init, options, rng)
        self.classes_ = samples.classes
        self.mean_ = samples.mean.astype(samples.dtype, copy=False)
        self.components_ = subspace.components.astype(samples.dtype, order="C")
        self.width_ = subspace.smoothing.width
        self.ridge_ = subspace.smoothing.ridge
        history = subspace.ascent.history
        self.history_ = {name: np.array(values) for name, values in history.items()}
        self.smi_ = history["objective"][-1]
        # scikit-learn requires at least 1: a start that cannot be improved counts as an iteration.
        self.n_iter_ = max(len(history["step"]) - 1, 1)
        self.stop_reason_ = subspace.ascent.stop_reason
        self._warn_unconverged()
        return self

    def _search_options(self, begin: float) -> SearchOptions:
        unlimited = self.max_time is None or self.max_time == math.inf
        seconds = math.inf if unlimited else check_number("max_time", self.max_time)
        return SearchOptions(
            n_centers=check_count("n_centers", self.n_centers),
            widths=_check_candidates("widths", self.widths, _WIDTHS, _WIDTH_RANGE),
            ridges=_check_candidates("ridges", self.ridges, _RIDGES, _RIDGE_RANGE),
            n_folds=check_count("n_folds", self.n_folds, least=2),
            max_iter=check_count("max_iter", self.max_iter),
            tol=check_number("tol", self.tol),
            deadline=begin + seconds,
            verbose=bool(self.verbose),
        )

    def _warn_unconverged(self) -> None:
        advice = {
            "max_iter": f"max_iter={self.max_iter} iterations. Set a larger max_iter or tol",
            "max_time": f"max_time={self.max_time} seconds. Set a larger max_time",
        }
        if self.stop_reason_ in advice:
            warnings.warn(
                f"LSDR stopped after {advice[self.stop_reason_]}, or use the subspace as it is: "
                f"the norm of the gradient was {self.history_['gradient_norm'][-1]:.2g}.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _seed(random_state: Any) -> int:
    try:
        return int(check_random_state(resolve_seed(random_state)).randint(2**31 - 1))
    except ValueError as error:
        raise ValueError(f"random_state cannot be a seed: {error}.") from error


def _check_candidates(
    name: str, values: Any, default: tuple[float, ...], limits: tuple[float, float]
) -> tuple[float, ...]:
    """Return the candidates as a tuple, ``default`` for None."""
    if values is None:
        return default
    if np.ndim(values) != 1 or len(values) == 0:
        raise ValueError(f"{name} must be None or a sequence of numbers, got {values!r}.")
    least, most = limits
    return tuple(check_number(f"each of {name}", v, least=least, most=most) for v in values)
