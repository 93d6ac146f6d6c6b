"""The fit that MPDA and PMPDA share: from X, y to the attributes of the estimator."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from mpda._lib.array_types import ArrayLike, Labels
from mpda._lib.arrays import (
    array_namespace,
    astype,
    describe_library,
    numbers_to_device,
    to_device,
    to_host,
)
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, THREADS
from mpda._lib.validation import (
    check_count,
    check_jobs,
    check_number,
    check_option,
    is_dask_collection,
    load_class,
    validate_labelled,
    warn_small_classes,
)
from mpda.discriminant.class_stages import (
    ClassPool,
    ClassStages,
    LocalClasses,
    sum_contributions,
)
from mpda.discriminant.eigenproblem import Directions
from mpda.discriminant.fit import (
    DiscriminantFit,
    FitState,
    absolute_units,
    fit_discriminant,
    fit_many_settings,
    solve_fit,
)
from mpda.discriminant.settings import ClassSettings, DiscriminantSettings, Penalties
from mpda.estimators._base import ComponentPath
from mpda.estimators._components import cast_components, scale_directions, warn_inaccurate
from mpda.parallel import import_dask_cluster
from mpda.partition.rules import check_patch_labels

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

# Samples that are added to a fit may be larger than those of the first call by 2^400 at most:
# fourth powers of them must stay finite.
_LARGEST_EXPONENT = 400
# Class means that differ by less, relative to the largest, are equal up to rounding.
_EQUAL_MEANS = 1e-9


def check_settings(estimator: Any, classes: ClassSettings) -> DiscriminantSettings:
    """Check the parameters that MPDA and PMPDA share."""
    if estimator.n_components is not None:
        check_count("n_components", estimator.n_components)
    check_number("eigenvalue_power", estimator.eigenvalue_power)
    check_jobs(estimator.n_jobs)
    beta = estimator.tangent_alpha
    penalties = Penalties(
        gamma=check_number("gamma", estimator.gamma),
        alpha=check_number("alpha", estimator.alpha),
        tangent_alpha=None if beta is None else check_number("tangent_alpha", beta),
        relative=check_option("units", estimator.units, ("relative", "absolute")) == "relative",
    )
    solver = check_option("solver", estimator.solver, ("reduced", "two-stage"))
    return DiscriminantSettings(classes, penalties, solver == "two-stage")


def fit_tangent_method(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    settings: DiscriminantSettings,
    patches: ArrayLike | None = None,
) -> None:
    """Fit MPDA or PMPDA and set its attributes.

    Parameters
    ----------
    estimator : MPDA or PMPDA
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    settings : DiscriminantSettings
    patches : array-like of shape (n_samples,), default=None
        Patches given by the user.
    """
    samples: LabelledSamples | ClusterSamples
    if is_dask_collection(X):
        samples = _gather_by_class(estimator, X, y, patches, settings)
    else:
        samples = validate_labelled(estimator, X, y, devices=True)
    classes = _build_classes(estimator, samples, patches)
    sizes = [members.size for members in samples.members]
    warn_small_classes(samples.classes, sizes, settings.classes.n_neighbors, stacklevel=4)
    strengths = None
    if not settings.penalties.relative:
        strengths = settings.penalties.resolve(absolute_units(samples.coordinates))
    # One limit for the whole fit: changing it costs more than a small class.
    limit = 1 if samples.coordinates.origin.shape[0] <= SMALL else None
    with THREADS.limit(limits=limit, user_api="blas"):
        sums, summaries = sum_contributions(classes, settings.classes, strengths)
        fit = fit_discriminant(classes, sums, summaries, samples, settings, estimator.n_components)
    for name in _CLASS_ATTRIBUTES:
        vars(estimator).pop(name, None)
    _set_attributes(estimator, samples, classes, settings, fit)
    estimator.mean_ = astype(samples.mean, samples.dtype)


def add_to_tangent_method(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    settings: DiscriminantSettings,
    patches: ArrayLike | None = None,
) -> None:
    """Add the classes of X, y to a fitted MPDA or PMPDA and update its attributes.

    The parameters are those of ``fit_tangent_method``. Every class must be new.
    """
    if settings.classes != estimator._settings.classes or (
        settings.penalties != estimator._settings.penalties
    ):
        raise ValueError(
            "partial_fit adds to sums over classes that were computed with other parameters. Only "
            "n_components, solver, eigenvalue_power, n_jobs and verbose may change between calls; "
            "call fit to start again."
        )
    samples: LabelledSamples | ClusterSamples
    if is_dask_collection(X):
        samples = _gather_by_class(estimator, X, y, patches, settings, reset=False)
    else:
        samples = validate_labelled(estimator, X, y, reset=False, devices=True)
    _check_addition(estimator, samples)
    state = estimator._state.without_rotation()
    samples = samples.in_coordinates(state.coordinates)
    if _is_repeated_call(estimator, samples, state):
        return
    classes = _build_classes(estimator, samples, patches)
    sizes = [members.size for members in samples.members]
    warn_small_classes(samples.classes, sizes, settings.classes.n_neighbors, stacklevel=4)
    limit = 1 if state.coordinates.dimension <= SMALL else None
    with THREADS.limit(limits=limit, user_api="blas"):
        sums, summaries = sum_contributions(classes, settings.classes, state.strengths, state.sums)
        state = FitState(sums, state.strengths, state.coordinates)
        fit = solve_fit(state, summaries, settings.two_stage, estimator.n_components)
    _set_attributes(estimator, samples, classes, settings, fit)
    estimator.mean_ = astype(state.mean, estimator.components_.dtype)


def fit_many_tangent_methods(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    parameter_sets: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] | None,
) -> Iterator[ComponentPath]:
    """Fit MPDA or PMPDA with many parameter sets; see ``LinearMap.fit_many``."""
    samples = validate_labelled(estimator, X, y)
    methods = [copy(estimator).set_params(**parameters) for parameters in parameter_sets]
    # Parameter sets that differ in the scale of the components only have equal settings.
    groups: dict[DiscriminantSettings, list[int]] = {}
    for index, method in enumerate(methods):
        groups.setdefault(method.check_parameters(), []).append(index)
    settings = list(groups)
    k = max(max(s.classes.n_neighbors, s.classes.partition_neighbors) for s in settings)
    classes = LocalClasses(samples, max_neighbors=k, keep_all=True, n_jobs=1)
    n_rows = None if n_components is None else max(n_components)
    limit = 1 if samples.coordinates.dimension <= SMALL else None
    with THREADS.limit(limits=limit, user_api="blas"):
        for number, result in fit_many_settings(classes, samples, settings):
            for index in groups[settings[number]]:
                if isinstance(result, Directions):
                    directions = result.first(n_rows or result.eigenvalues.shape[0])
                    components = scale_directions(directions, methods[index].eigenvalue_power)
                    yield ComponentPath(index, components)
                else:
                    yield ComponentPath(index, None, failure=str(result))


def _build_classes(
    estimator: Any, samples: LabelledSamples | ClusterSamples, patches: ArrayLike | None
) -> ClassPool:
    progress = type(estimator).__name__ if estimator.verbose else None
    if not isinstance(samples, LabelledSamples):
        return samples.class_pool(ClassStages, progress)
    patch_labels = None if patches is None else check_patch_labels(patches, samples.y)
    return LocalClasses(
        samples, patch_labels=patch_labels, n_jobs=estimator.n_jobs, progress=progress
    )


def _gather_by_class(
    estimator: Any,
    X: Any,
    y: Any,
    patches: ArrayLike | None,
    settings: DiscriminantSettings,
    *,
    reset: bool = True,
) -> LabelledSamples | ClusterSamples:
    """Bring the rows of Dask collections together by class, on their cluster."""
    if patches is not None:
        raise TypeError("patches cannot be given for Dask collections: leave them to partition.")
    if hasattr(settings.classes.partition, "fit_predict"):
        raise TypeError(
            "partition cannot be a clusterer for Dask collections: give the name of a partition, "
            'such as "auto".'
        )
    return import_dask_cluster().gather_by_class(estimator, X, y, reset=reset)


def _check_addition(estimator: Any, samples: LabelledSamples | ClusterSamples) -> None:
    """Raise an error if samples do not fit those of earlier calls."""
    library = describe_library(samples.X) if isinstance(samples, LabelledSamples) else "numpy"
    expected = describe_library(estimator.components_)
    if library != expected:
        raise TypeError(
            f"X must be of the array library of earlier calls, {expected}, got {library}: the sums "
            "over classes are kept there."
        )
    fitted = to_host(estimator.classes_)
    if _label_kind(samples.classes) != _label_kind(fitted):
        raise TypeError(
            f"y must hold labels of one kind in all calls, got {samples.classes[:1].tolist()} "
            f"after {fitted[:1].tolist()}."
        )
    if samples.coordinates.exponent > estimator._state.coordinates.exponent + _LARGEST_EXPONENT:
        raise ValueError(
            "X is larger than the samples of earlier calls by more than a factor of 1e120: call "
            "fit with all samples."
        )


def _is_repeated_call(
    estimator: Any, samples: LabelledSamples | ClusterSamples, state: FitState
) -> bool:
    """Return True if all classes were added before with the same samples.

    Any other class of an earlier call is an error. Samples are compared by the size and the mean of
    their class, which the state has. (scikit-learn's checks call partial_fit after fit with the
    same samples, so that must not be an error.)
    """
    labels = estimator._class_order
    positions = [labels.index(label) for label in samples.classes.tolist() if label in labels]
    if not positions:
        return False
    if len(positions) == samples.classes.size and isinstance(samples, LabelledSamples):
        counts, means = state.sums.between.counts, to_host(state.sums.between.means)
        coordinates = [load_class(samples, c).coordinates for c in range(len(positions))]
        new_means = np.stack([to_host(array_namespace(Z).mean(Z, axis=0)) for Z in coordinates])
        scale = np.abs(means).max() + np.abs(new_means).max()
        same_sizes = samples.sizes == counts[positions].tolist()
        if same_sizes and np.abs(new_means - means[positions]).max() <= _EQUAL_MEANS * scale:
            return True
    repeated = [labels[position] for position in positions]
    raise ValueError(
        f"y holds classes of an earlier call: {repeated[:5]}. A class cannot be learnt in pieces, "
        "because its neighbours and patches depend on all its samples: give all samples of a "
        "class in one call, or call fit with everything."
    )


def _label_kind(labels: Labels) -> str:
    """Return the kind of labels; small unsigned integers count as signed, objects as strings.

    Unsigned integers of 64 bits are a kind of their own: with signed ones they become floats.
    """
    if labels.dtype.kind == "u" and labels.dtype.itemsize < 8:
        return "i"
    return labels.dtype.kind.replace("O", "U")


# Attributes with an entry for each class, in the order of ``classes_``, and for each patch or
# sample, in the order of the calls. A call of partial_fit extends them.
_CLASS_ATTRIBUTES = ("classes_", "class_solvers_", "class_residuals_")
_PATCH_ATTRIBUTES = ("patch_classes_", "patch_linearity_", "tangent_dimensions_")


def _set_attributes(
    estimator: Any,
    samples: LabelledSamples | ClusterSamples,
    classes: ClassPool,
    settings: DiscriminantSettings,
    fit: DiscriminantFit,
) -> None:
    """Set the attributes of a fit; those of single classes are added to what is there."""
    origin, dtype = fit.state.coordinates.origin, samples.dtype
    labels, solvers = samples.classes, [summary.solver for summary in fit.summaries]
    residuals = np.array([summary.residual for summary in fit.summaries])
    is_first = not hasattr(estimator, "classes_")
    if settings.classes.partition is not None:
        _set_patch_attributes(estimator, samples, classes, settings, fit)
    earlier_labels = [] if is_first else estimator._class_order
    estimator._class_order = [*earlier_labels, *labels.tolist()]
    if not is_first:
        labels = np.concatenate([to_host(estimator.classes_), labels])
        solvers = estimator.class_solvers_ + solvers
        residuals = np.concatenate([to_host(estimator.class_residuals_), residuals])
        dtype = array_namespace(origin).result_type(estimator.components_, dtype)
    order = np.argsort(labels, kind="stable")
    estimator.classes_ = numbers_to_device(labels[order], origin)
    estimator.class_solvers_ = [solvers[index] for index in order]
    estimator.class_residuals_ = to_device(residuals[order], origin)
    components = scale_directions(fit.directions, estimator.eigenvalue_power)
    estimator.components_ = cast_components(components, dtype)
    estimator.eigenvalues_ = fit.directions.eigenvalues
    estimator.residual_ = fit.residual
    estimator.condition_ = fit.directions.condition
    strengths = fit.strengths
    estimator.units_ = {
        "gamma": strengths.gamma,
        "alpha": strengths.alpha,
        "beta": strengths.beta,
    }
    estimator._state, estimator._settings = fit.state, settings
    if estimator.verbose:
        _report_fallbacks(type(estimator).__name__, samples.classes.tolist(), fit)
    # The Schur complement has the square of the residual as relative error.
    residual = max(fit.residual, residuals.max() ** 2)
    warn_inaccurate(residual, fit.directions.condition)


def _set_patch_attributes(
    estimator: Any,
    samples: LabelledSamples | ClusterSamples,
    classes: ClassPool,
    settings: DiscriminantSettings,
    fit: DiscriminantFit,
) -> None:
    origin = fit.state.coordinates.origin
    linearity = [summary.linearity for summary in fit.summaries]
    n_patches = [values.size for values in linearity]
    values = {
        "patch_classes_": np.repeat(samples.classes, n_patches),
        "patch_linearity_": np.concatenate(linearity),
        "tangent_dimensions_": np.concatenate([s.tangent_dimensions for s in fit.summaries]),
    }
    is_first = not hasattr(estimator, "classes_")
    n_before = 0 if is_first else estimator.patch_linearity_.shape[0]
    if isinstance(samples, LabelledSamples) and (is_first or hasattr(estimator, "patch_labels_")):
        labels = np.empty(samples.y.size, dtype=np.intp)
        offsets = n_before + np.cumsum(n_patches) - n_patches
        class_labels = classes.map("patches", ClassStages.patch_labels, settings.classes)
        for members, patch_of, offset in zip(samples.members, class_labels, offsets, strict=True):
            labels[members] = patch_of + offset
        values["patch_labels_"] = labels
    else:  # the samples of a cluster stay there, so not every sample has a label
        vars(estimator).pop("patch_labels_", None)
    for name, array in values.items():
        if not is_first:
            array = np.concatenate([to_host(getattr(estimator, name)), array])
        setattr(estimator, name, numbers_to_device(array, origin))


def _report_fallbacks(title: str, labels: list[Any], fit: DiscriminantFit) -> None:
    """Name the classes whose tangent vectors needed another solver than planned."""
    for solver, reason in (
        ("sparse", "iterative refinement did not converge, so a sparse factorization was used"),
        ("range", "the tangent block is singular, so it was solved on its range"),
    ):
        names = [
            repr(label)
            for label, summary in zip(labels, fit.summaries, strict=True)
            if summary.solver == solver
        ]
        if names:
            rest = " and more" if len(names) > 5 else ""
            print(f"{title}, class {', '.join(names[:5])}{rest}: {reason}", file=sys.stderr)
