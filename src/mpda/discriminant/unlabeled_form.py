"""The tangent form over all samples, labelled or not, which joins the within-class form.

    S(t, v) + w S_all(t, u)

S_all has the formula of the within-class form (withinPatchObj), but its graph, patches and tangent
vectors u are those of all samples as one class: neighbours are searched regardless of labels. The
idea is that of semi-supervised tangent space discriminant analysis (Zhou and Sun 2015): t'x should
vary along the manifold of all samples as a linear function of their tangent coordinates does. u is
eliminated like v, so S_all adds a matrix of features by features. Depends on ``class_pool``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mpda._lib.array_types import Array, Labels
from mpda._lib.arrays import array_namespace, take, to_device
from mpda._lib.samples import LabelledSamples
from mpda._lib.validation import check_number_of_classes, feature_range
from mpda.discriminant.class_pool import build_class_pool, sum_contributions
from mpda.discriminant.class_stages import ClassStages
from mpda.discriminant.class_sums import ClassSums, add_matrices
from mpda.discriminant.fit import resolve_strengths
from mpda.discriminant.settings import DiscriminantSettings


@dataclass(frozen=True)
class FormOfAll:
    """The form S_all, with u eliminated.

    Attributes
    ----------
    within : array of shape (r, r)
        Block of t with t.
    eliminated : array of shape (r, r)
        Term that the elimination of u subtracts.
    weight : float
        Weight w.
    unit : float or None
        With relative units w is in units of trace(S_tt) / trace of the block of S_all, and this
        number takes the place of trace(S_tt) if no class has two samples. None is absolute units.
    """

    within: Array
    eliminated: Array
    weight: float
    unit: float | None

    def add_to(self, sums: ClassSums) -> ClassSums:
        """Return the sums over classes with the weighted form.

        Parameters
        ----------
        sums : ClassSums
            Sums over the classes of the labelled samples.

        Returns
        -------
        ClassSums
            With the two matrices added.
        """
        trace = array_namespace(self.within).linalg.trace
        own = float(trace(self.within))
        factor = self.weight
        if self.unit is not None and own > 0.0:
            factor *= (float(trace(sums.within)) or self.unit) / own
        return replace(
            sums,
            within=sums.within + factor * self.within,
            eliminated=add_matrices(sums.eliminated, factor * self.eliminated),
        )


def compute_form_of_all(
    samples: LabelledSamples, settings: DiscriminantSettings, weight: float, n_jobs: int | None
) -> FormOfAll:
    """Compute S_all with the parameters of a fit.

    Parameters
    ----------
    samples : LabelledSamples
        Labelled and unlabelled samples.
    settings : DiscriminantSettings
        Checked parameters. Relative units are those of S_all.
    weight : float
        Weight w.
    n_jobs : int or None
        As in the fit.

    Returns
    -------
    FormOfAll
        In the coordinates of the samples.
    """
    everything = replace(samples, classes=np.zeros(1), members=[np.arange(samples.X.shape[0])])
    classes = build_class_pool(everything, None, n_jobs, None)
    sums = sum_contributions(classes, settings.classes).sums
    strengths = resolve_strengths(settings.penalties, sums, everything)
    work = partial(ClassStages.eliminate, settings=settings.classes, strengths=strengths)
    (result,) = classes.map("Schur complement of all samples", work)
    # The ridge of S_tt has the same unit where S_tt is 0, so w compares S_all with it.
    one = samples.coordinates.from_squared_units(1.0)
    unit = one * samples.n_varying if settings.penalties.relative else None
    return FormOfAll(sums.within, result.matrix, weight, unit)


def remove_label(estimator: BaseEstimator, samples: LabelledSamples, label: Any) -> LabelledSamples:
    """Return the samples without the class of unlabelled ones, whose rows stay in X.

    Parameters
    ----------
    estimator : estimator
        Named in messages.
    samples : LabelledSamples
        Samples in which this label is a class.
    label : object
        Label of the unlabelled samples, of the kind of the others. It may be absent.

    Returns
    -------
    LabelledSamples
        Classes, members and the number of varying features are those of labelled samples.
    """
    check_marker(label, samples.classes)
    labels = samples.classes.tolist()
    labelled = [index for index, value in enumerate(labels) if value != label]
    members = [samples.members[index] for index in labelled]
    classes = samples.classes[labelled]
    check_number_of_classes(estimator, classes, 2)
    rows = np.concatenate(members)
    low, high = feature_range(take(samples.X, to_device(rows, samples.X)))
    n_varying = int(array_namespace(low).count_nonzero(low != high))
    return replace(samples, classes=classes, members=members, n_varying=n_varying)


def check_marker(label: Any, classes: Labels) -> None:
    """Raise an error if the label of unlabelled samples cannot be one of y.

    Parameters
    ----------
    label : object
        Parameter ``unlabeled`` of an estimator.
    classes : ndarray of shape (n_classes,)
        Distinct labels of y.
    """
    value, kind = np.asarray(label), classes.dtype.kind
    if value.ndim:
        raise ValueError(f"unlabeled must be one label, got {label!r}.")
    numbers = "iuf"
    same_kind = value.dtype.kind in (numbers if kind in numbers else {"O": "OUS"}.get(kind, kind))
    if not same_kind or (kind == "u" and value < 0):
        raise ValueError(
            f"unlabeled={label!r} cannot be a label of y, which has labels such as "
            f"{classes.tolist()[0]!r} ({classes.dtype}): samples without a class need a label of "
            "this type."
        )
