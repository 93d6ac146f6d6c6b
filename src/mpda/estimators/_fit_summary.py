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

from mpda._lib.array_types import Array, Floats, Labels
from mpda._lib.arrays import ldexp, nbytes
from mpda._lib.samples import Coordinates
from mpda._lib.validation import label_kind
from mpda.discriminant.class_sums import ClassSummary
from mpda.discriminant.fit import FitState, resolve_strengths
from mpda.discriminant.settings import DiscriminantSettings


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
