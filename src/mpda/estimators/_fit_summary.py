"""The sums of a fit over whole classes, as an object that can be sent and merged.

A fit of MPDA or PMPDA needs of its samples only sums over classes (``ClassSums``): four matrices of
features by features, and the mean of each class. ``summarize`` computes them for some classes,
``+`` merges them, and ``from_summary`` solves the eigenproblem. A fit in memory, ``partial_fit``
and a fit on a Dask cluster add up the same sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mpda._lib.array_types import Array, ArrayLike, Floats, Labels
from mpda._lib.arrays import ldexp, nbytes
from mpda._lib.samples import Coordinates, LabelledSamples
from mpda._lib.validation import (
    feature_range,
    is_dask_collection,
    validate_samples,
    warn_small_classes,
)
from mpda.discriminant.class_pool import build_class_pool, sum_contributions
from mpda.discriminant.class_sums import ClassSummary
from mpda.discriminant.fit import FitState, absolute_strengths, resolve_strengths, solve_fit
from mpda.discriminant.settings import DiscriminantSettings, Strengths
from mpda.estimators._tangent_fit import (
    gather_classes,
    label_kind,
    refuse_class_weight,
    set_fit_attributes,
)


@dataclass(frozen=True, eq=False)
class FitSummary:
    """Sums of a fit over whole classes.

    Its size is about 8 (4 d^2 + C d + 2 P) bytes for d features, C classes and P patches
    (``nbytes``). It can be pickled. :meth:`MPDA.summarize` makes it.

    Parameters
    ----------
    method : str
        Name of the estimator.
    parameters : dict
        Parameters of the estimator.
    settings : DiscriminantSettings
        Checked parameters, which summaries must share.
    classes : ndarray of shape (n_classes,)
        Labels in the order of the sums.
    state : FitState
        Sums and coordinates.
    reports : list of ClassSummary
        Facts about each class.
    low, high : ndarray of shape (n_features,)
        Range of each feature.
    dtype : dtype
        Precision of the samples.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features.
    """

    method: str
    parameters: dict[str, Any]
    settings: DiscriminantSettings
    classes: Labels
    state: FitState
    reports: list[ClassSummary]
    low: Floats
    high: Floats
    dtype: Any
    feature_names: Labels | None = None

    def __repr__(self) -> str:
        shape = f"{len(self.classes)} classes, {len(self.low)} features"
        return f"<FitSummary of {self.method}: {shape}, {self.nbytes} bytes>"

    @property
    def nbytes(self) -> int:
        """Memory of the matrices, of the means and of the facts about patches in bytes."""
        sums = self.state.sums
        between = sums.between
        arrays = between.means, between.distant_scatter, between.mean_distant_scatter
        of_patches = sum(c.tangent_dimensions.nbytes + c.linearity.nbytes for c in self.reports)
        eliminated = [] if sums.eliminated is None else [sums.eliminated]
        return of_patches + sum(map(nbytes, (*arrays, sums.within, *eliminated)))

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates of the sums."""
        return self.state.coordinates

    @property
    def mean(self) -> Array:
        """Mean of all samples (n_features,)."""
        return self.state.mean

    @property
    def n_varying(self) -> int:
        """Number of features that are not constant."""
        return int(np.count_nonzero(self.low != self.high))

    def absolute_parameters(self) -> dict[str, Any]:
        """Return the parameters of absolute units with which all classes give the same fit.

        With relative units gamma and the ridges follow from the sums over all classes, and tangent
        vectors can be eliminated only then. So summaries of relative units are a first pass: merge
        them, set these parameters, and summarize all samples again.

        Returns
        -------
        dict
            Values of "units", "gamma", "alpha" and "tangent_alpha" for ``set_params``.
        """
        strengths = resolve_strengths(self.settings.penalties, self.state.sums, self)
        convert = self.coordinates.to_squared_units
        beta = None if self.settings.penalties.tangent_alpha is None else convert(strengths.beta)
        return {
            "units": "absolute",
            "gamma": convert(strengths.gamma),
            "alpha": convert(strengths.alpha),
            "tangent_alpha": beta,
        }

    def __add__(self, other: object) -> FitSummary:
        if not isinstance(other, FitSummary):
            return NotImplemented
        self._check_same(other)
        repeated = np.intersect1d(self.classes, other.classes).tolist()
        if repeated:
            raise ValueError(
                f"Classes {repeated[:5]!r} are in both summaries. A class cannot be summarized in "
                "pieces, because its neighbours and patches depend on all its samples: group the "
                "samples by label first."
            )
        # The larger scale, so that nothing overflows.
        first, second = self.state.without_rotation(), other.state
        exponent = max(first.coordinates.exponent, second.coordinates.exponent)
        origin = ldexp(first.coordinates.origin, first.coordinates.exponent - exponent)
        coordinates = Coordinates(exponent, origin)
        first, second = first.move(coordinates), second.move(coordinates)
        return replace(
            self,
            classes=np.concatenate([self.classes, other.classes]),
            state=FitState(first.sums + second.sums, first.strengths, coordinates),
            reports=[*self.reports, *other.reports],
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            dtype=np.result_type(self.dtype, other.dtype),
            feature_names=other.feature_names if self.feature_names is None else self.feature_names,
        )

    def __radd__(self, other: object) -> FitSummary:
        # sum() begins with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _check_same(self, other: FitSummary) -> None:
        if self.method != other.method or self.low.shape != other.low.shape:
            raise ValueError(
                f"Summaries of {self.method} with {self.low.size} features and of {other.method} "
                f"with {other.low.size} features cannot be merged."
            )
        if label_kind(self.classes) != label_kind(other.classes):
            raise ValueError(
                f"Summaries with labels of different kinds cannot be merged: "
                f"{self.classes[:1].tolist()} and {other.classes[:1].tolist()}."
            )
        if not self.settings.has_compatible_sums(other.settings):
            raise ValueError(
                "Summaries with different parameters cannot be merged: "
                f"{self.parameters} and {other.parameters}."
            )
        names, others = self.feature_names, other.feature_names
        if names is not None and others is not None and not np.array_equal(names, others):
            raise ValueError("Summaries of features with different names cannot be merged.")


def summarize(estimator: Any, X: ArrayLike, y: ArrayLike) -> FitSummary:
    """Compute the sums of a fit over the classes of some samples.

    Parameters
    ----------
    estimator : MPDA or PMPDA
        Its parameters are used; it is not changed.
    X : array-like of shape (n_samples, n_features)
        All samples of some classes. A single class is enough. The classes of a Dask collection are
        summarized on its cluster.
    y : array-like of shape (n_samples,)
        Class labels.

    Returns
    -------
    FitSummary
        With ``units="relative"`` without the Schur complements, see
        :meth:`FitSummary.absolute_parameters`.
    """
    refuse_class_weight(estimator)
    settings = estimator.check_parameters()
    helper = type(estimator)()  # takes the attributes that validation sets
    if is_dask_collection(X):
        samples = gather_classes(helper, X, y, None, settings, single_class=True)
    else:
        samples = validate_samples(helper, X, y, single_class=True)
    warn_small_classes(samples, settings.classes.n_neighbors)
    penalties, coordinates = settings.penalties, samples.coordinates
    strengths = None if penalties.relative else absolute_strengths(penalties, coordinates)
    classes = build_class_pool(samples, None, estimator.n_jobs, None)
    added = sum_contributions(classes, settings.classes, strengths)
    state = FitState(added.sums, strengths or Strengths(0.0, 0.0, 0.0), coordinates)
    if isinstance(samples, LabelledSamples):
        low, high = (ldexp(v, coordinates.exponent) for v in feature_range(samples.X))
    else:
        low, high = samples.low, samples.high
    return FitSummary(
        type(estimator).__name__,
        clone(estimator).get_params(deep=False),
        settings,
        samples.classes,
        state.without_rotation(),
        added.summaries,
        np.asarray(low, dtype=np.float64),
        np.asarray(high, dtype=np.float64),
        samples.dtype,
        getattr(helper, "feature_names_in_", None),
    )


def from_summary(cls: Any, /, summary: FitSummary, **parameters: Any) -> Any:
    """Fit to the sums over classes that ``summarize`` made.

    Parameters
    ----------
    cls : type
        MPDA or PMPDA.
    summary : FitSummary
        Merged sums over all classes, with ``units="absolute"``.
    **parameters : object
        Parameters that the sums do not depend on: ``n_components``, ``solver``,
        ``eigenvalue_power``, ``n_jobs`` and ``verbose``.

    Returns
    -------
    MPDA or PMPDA
        The fitted estimator, without ``patch_labels_``. ``partial_fit`` can add classes.
    """
    if not isinstance(summary, FitSummary):
        raise TypeError(f"summary must be what summarize returns, merged by +, got {summary!r}.")
    if summary.method != cls.__name__:
        raise ValueError(f"The summary is one of {summary.method}, not of {cls.__name__}.")
    estimator = cls(**{**summary.parameters, **parameters})
    settings = estimator.check_parameters()
    unused = {"class_weight", "unlabeled", "unlabeled_weight"} & parameters.keys()
    if unused or not settings.has_compatible_sums(summary.settings):
        raise ValueError(
            "Only n_components, solver, eigenvalue_power, n_jobs and verbose may differ from the "
            f"parameters of the summary, {summary.parameters}."
        )
    if settings.penalties.relative:
        raise ValueError(
            "The summary has relative units, which follow from the sums over all classes: it is a "
            "first pass. Set the parameters of summary.absolute_parameters() and summarize all "
            "samples again."
        )
    if summary.classes.size < 2:
        raise ValueError(f"A fit needs at least 2 classes, got {summary.classes.tolist()!r}.")
    estimator.n_features_in_ = summary.low.size
    if summary.feature_names is not None:
        estimator.feature_names_in_ = summary.feature_names
    strengths = absolute_strengths(settings.penalties, summary.coordinates)
    state = replace(summary.state, strengths=strengths)
    fit = solve_fit(state, summary.reports, settings.two_stage, estimator.n_components)
    set_fit_attributes(estimator, summary, None, settings, fit)
    return estimator
