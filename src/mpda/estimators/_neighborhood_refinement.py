"""Refinement of a linear map for nearest neighbours, a second stage after any method."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mpda._lib.array_types import Array, ArrayLike, Floats, Ints
from mpda._lib.arrays import astype, ldexp, to_device
from mpda._lib.samples import LabelledSamples
from mpda._lib.validation import check_count, check_number, resolve_seed, validate_labelled
from mpda.estimators._base import LinearMap, apply_map
from mpda.estimators._mpda import MPDA
from mpda.refinement.optimize import RefinementSettings, refine_map


@dataclass(eq=False, repr=False)
class NeighborhoodRefinement(LinearMap):
    """Refine a linear map so that nearest neighbours share a class more often.

    A method such as MPDA ends with an eigenproblem, which optimises scatter matrices and not the
    errors of nearest neighbours. Starting from its components T0, a few steps of L-BFGS minimise

        1/n sum_i [ log sum_{j in N_i} exp(-D_ij / tau) - log sum_{j in N_i, own class} exp(..) ]
        + (penalty / n) |T - T0|^2 / |T0|^2,      D_ij = |T (x_i - x_j)|^2,

    where N_i holds the samples nearest to sample i. This is neighbourhood components analysis
    restricted to near candidates, with a penalty that keeps the map near its start.

    Parameters
    ----------
    estimator : estimator, default=None
        Method that makes the first map: a method of this package, PCA, LinearDiscriminantAnalysis
        or NeighborhoodComponentsAnalysis of scikit-learn, a pipeline that ends in one of them, or
        a fitted model in a ``FrozenEstimator``. None stands for ``MPDA()``.
    n_own_neighbors : int, default=5
        Number of nearest samples of the own class among the candidates N_i.
    n_candidates : int, default=40
        Number of nearest samples of all classes among the candidates N_i.
    penalty : float, default=300.0
        Weight mu of the distance from the first map. It is divided by the number of samples.
    temperature : float, default=2.0
        tau in units of the median squared distance to the nearest sample of the own class, in the
        first map.
    n_rounds : int, default=5
        Number of times that candidates are searched. New ones join the earlier ones.
    max_iter : int, default=5
        Number of L-BFGS steps in a round.
    tol : float, default=1e-5
        A round ends where no entry of the gradient is larger, for a map of length 1.
    max_queries : int, default=60000
        Largest number of samples i in the sum. Of more samples as many are drawn; all samples stay
        candidates.
    random_state : int, RandomState or None, default=0
        Seed of the draw.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Refined map; for a pipeline, of the features that its last step gets.
    mean_ : ndarray of shape (n_features,)
        Mean of the first map.
    start_components_ : ndarray of shape (n_components, n_features)
        First map T0.
    estimator_ : estimator
        Fitted method that made it. The steps of a pipeline before the last are applied first.
    loss_curve_ : list of ndarray
        Loss at the start and after every step, for each round. Candidates differ between rounds.
    n_iter_ : int
        Number of steps in all rounds.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    References
    ----------
    .. [1] Goldberger, J., Roweis, S., Hinton, G. and Salakhutdinov, R. (2005). Neighbourhood
           components analysis. Advances in Neural Information Processing Systems, 17, 513-520.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mpda import MPDA, NeighborhoodRefinement
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NeighborhoodRefinement(MPDA(n_components=10)).fit(X[::2], y[::2])
    >>> model.transform(X).shape
    (1797, 10)
    """

    _computes_on_devices = True

    estimator: Any = None
    _: KW_ONLY
    n_own_neighbors: int = 5
    n_candidates: int = 40
    penalty: float = 300.0
    temperature: float = 2.0
    n_rounds: int = 5
    max_iter: int = 5
    tol: float = 1e-5
    max_queries: int = 60_000
    random_state: Any = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the first map and refine it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, as an array or device array.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        settings = self._check_parameters()
        self.estimator_ = (MPDA() if self.estimator is None else clone(self.estimator)).fit(X, y)
        earlier, last = self._steps()
        features = X if earlier is None else earlier.transform(X)
        samples = validate_labelled(self, features, y, devices=True)
        validate_data(self, X, skip_check_array=True)  # the number and names of the user's features
        matrix, mean = _read_map(last)
        largest = np.abs(matrix).max()
        size = float(largest * np.linalg.norm(matrix / largest))  # squares stay in range
        # A start of length 1 and scaled samples: the loss does not depend on either.
        start = astype(to_device(matrix / size, samples.X), samples.X.dtype)
        refined = refine_map(
            _centre(samples),
            np.searchsorted(samples.classes, samples.y),
            self._draw_queries(len(samples.y)),
            start,
            settings,
        )
        if not refined.is_usable:
            warnings.warn(
                "The refinement did not reach a finite map, and the map of the first method is "
                "kept. Look for features with extreme values.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.components_ = astype(size * refined.components, samples.dtype)
        self.start_components_ = astype(to_device(matrix, samples.X), samples.dtype)
        self.mean_ = astype(to_device(mean, samples.X), samples.dtype)
        self.loss_curve_ = refined.losses
        self.n_iter_ = sum(curve.size - 1 for curve in refined.losses)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Map samples to the refined space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_components)
            Mapped samples, in the precision of X.
        """
        check_is_fitted(self, "components_")
        earlier, _ = self._steps()
        if earlier is None:
            return super().transform(X)
        return apply_map(np.asarray(earlier.transform(X)), self.mean_, self.components_)

    def _check_parameters(self) -> RefinementSettings:
        check_count("max_queries", self.max_queries)
        return RefinementSettings(
            check_count("n_own_neighbors", self.n_own_neighbors),
            check_count("n_candidates", self.n_candidates),
            check_number("penalty", self.penalty, least=0.0),
            check_number("temperature", self.temperature, least=math.ulp(0.0)),
            check_count("n_rounds", self.n_rounds, least=0),
            check_count("max_iter", self.max_iter),
            check_number("tol", self.tol, least=0.0),
        )

    def _steps(self) -> tuple[Any, Any]:
        """Return the fitted steps before the last, None if there are none, and the last."""
        model = self.estimator_
        while isinstance(model, FrozenEstimator):
            model = model.estimator
        if isinstance(model, Pipeline):
            return (model[:-1] if len(model) > 1 else None), model[-1]
        return None, model

    def _draw_queries(self, n: int) -> Ints:
        if n <= self.max_queries:
            return np.arange(n)
        rng = check_random_state(resolve_seed(self.random_state))
        return np.sort(rng.choice(n, self.max_queries, replace=False))


def _read_map(model: Any) -> tuple[Floats, Floats]:
    """Return matrix (r, d) and mean (d,) of a fitted linear method, in double precision."""
    from mpda.io.affine_maps import affine_map

    linear = affine_map(model)
    return linear.matrix, linear.mean


def _centre(samples: LabelledSamples) -> Array:
    """Return the scaled samples minus their mean, in their precision."""
    mean = ldexp(samples.mean, -samples.coordinates.exponent)
    return samples.X - astype(mean, samples.X.dtype)
