"""Parts of a fit that MPDA and PMPDA share: clusters, added classes, searches, attributes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
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
from mpda._lib.samples import LabelledSamples, SampleFacts
from mpda._lib.validation import (
    is_dask_collection,
    load_class,
    validate_samples,
    warn_small_classes,
)
from mpda.discriminant.class_pool import (
    ClassPool,
    LocalClasses,
    build_class_pool,
    sum_contributions,
)
from mpda.discriminant.class_stages import ClassStages
from mpda.discriminant.eigenproblem import Directions
from mpda.discriminant.fit import DiscriminantFit, FitState, solve_all_settings, solve_fit
from mpda.discriminant.settings import DiscriminantSettings, UserObject
from mpda.estimators._base import ComponentPath, split_by_class_weight, vary
from mpda.estimators._components import cast_components, scale_directions, warn_inaccurate
from mpda.parallel import import_dask_cluster

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

# Samples that are added to a fit may be larger than those of the first call by 2^400 at most:
# fourth powers of them must stay finite.
_LARGEST_EXPONENT = 400
# Class means that differ by less, relative to the largest, are equal up to rounding.
_EQUAL_MEANS = 1e-9
# Solvers that take over where the planned one fails, and the reason that is printed.
_FALLBACKS = {
    "sparse": "iterative refinement did not converge, so a sparse factorization was used",
    "range": "the tangent block is singular, so it was solved on its range",
}


def gather_classes(
    estimator: Any,
    X: Any,
    y: Any,
    patches: ArrayLike | None,
    settings: DiscriminantSettings,
    *,
    reset: bool = True,
    single_class: bool = False,
) -> LabelledSamples | ClusterSamples:
    """Bring the rows of Dask collections together by class, on their cluster.

    Parameters
    ----------
    estimator : MPDA or PMPDA
        The estimator.
    X : Dask array or dataframe of shape (n_samples, n_features)
        Training samples.
    y : array-like of shape (n_samples,), or the name of a column of X
        Class labels.
    patches : array-like or None
        An error if it is not None.
    settings : DiscriminantSettings
        Checked parameters.
    reset : bool, default=True
        Set to False for samples that are added to an earlier fit.
    single_class : bool, default=False
        Set to True if samples of one class are enough.

    Returns
    -------
    LabelledSamples or ClusterSamples
        The former, in memory, if there are no more samples than features.
    """
    if patches is not None:
        raise TypeError("patches cannot be given for Dask collections: leave them to partition.")
    if isinstance(settings.classes.partition, UserObject):
        raise TypeError(
            "partition cannot be a clusterer for Dask collections: give the name of a partition, "
            'such as "auto".'
        )
    gather = import_dask_cluster().gather_by_class
    return gather(estimator, X, y, reset=reset, single_class=single_class)


def add_classes(
    estimator: Any, X: ArrayLike, y: ArrayLike, patches: ArrayLike | None = None
) -> None:
    """Add the classes of X, y to a fitted MPDA or PMPDA and update its attributes.

    Parameters
    ----------
    estimator : MPDA or PMPDA
        The fitted estimator. Parameters that the sums depend on must not have changed.
    X : array-like of shape (n_samples, n_features)
        Samples of new classes.
    y : array-like of shape (n_samples,)
        Class labels.
    patches : array-like of int of shape (n_samples,), default=None
        Patches given by the user.
    """
    settings, fitted = estimator.check_parameters(), estimator._settings
    if not settings.has_compatible_sums(fitted):
        raise ValueError(
            "partial_fit adds to sums over classes that were computed with other parameters. Only "
            "n_components, solver, eigenvalue_power, n_jobs and verbose may change between calls; "
            "call fit to start again."
        )
    if is_dask_collection(X):
        samples = gather_classes(estimator, X, y, patches, settings, reset=False)
    else:
        samples = validate_samples(estimator, X, y, reset=False, devices=True)
    _check_addition(estimator, samples)
    # New samples may leave the span of the first ones, in whose basis the sums may be.
    state = estimator._state.without_rotation()
    samples = samples.in_coordinates(state.coordinates)
    if _is_repeated_call(estimator, samples, state):
        return
    warn_small_classes(samples, settings.classes.n_neighbors, stacklevel=4)
    progress = type(estimator).__name__ if estimator.verbose else None
    classes = build_class_pool(samples, patches, estimator.n_jobs, progress)
    added = sum_contributions(classes, settings.classes, state.strengths, state.sums)
    state = FitState(added.sums, state.strengths, state.coordinates)
    fit = solve_fit(state, added.summaries, settings.two_stage, estimator.n_components)
    set_fit_attributes(estimator, samples, classes, settings, fit, is_first=False)


def fit_many_settings(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    parameter_sets: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] | None = None,
) -> Iterator[ComponentPath]:
    """Fit an estimator with each of several parameter sets and share their work.

    Neighbours, patches, tangent bases and within-class forms are computed once for the parameters
    that they depend on, and the ridges of one gamma share their work.

    Parameters
    ----------
    estimator : MPDA or PMPDA
        It is not changed.
    X : array-like of shape (n_samples, n_features)
        Training samples.
    y : array-like of shape (n_samples,)
        Class labels.
    parameter_sets : sequence of dict
        Parameters and their values. They must not contain ``n_components``.
    n_components : sequence of int, default=None
        Numbers of components that are needed. None stands for all.

    Yields
    ------
    ComponentPath
        One for each parameter set, in the order in which work is shared best.
    """
    for method, indices in split_by_class_weight(estimator, parameter_sets):
        sets = [parameter_sets[index] for index in indices]
        for path in _fit_group(method, X, y, sets, n_components):
            yield replace(path, index=indices[path.index])


def _fit_group(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    parameter_sets: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] | None,
) -> Iterator[ComponentPath]:
    """Yield the paths of parameter sets with one class weight, that of the estimator."""
    methods = vary(estimator, parameter_sets)
    for method in methods:
        refuse_unlabeled(method, "a search")
    samples = validate_samples(estimator, X, y)
    # Parameter sets that differ in the scale of the components only have equal settings.
    groups: dict[DiscriminantSettings, list[int]] = {}
    for index, method in enumerate(methods):
        groups.setdefault(method.check_parameters(), []).append(index)
    settings = list(groups)
    max_neighbors: dict[Any, int] = {}
    for item in (item.classes for item in settings):
        k = max(item.n_neighbors, item.partition_neighbors)
        max_neighbors[item.neighbor_search] = max(k, max_neighbors.get(item.neighbor_search, 0))
    classes = LocalClasses(samples, max_neighbors=max_neighbors, keep_all=True)
    n_rows = None if n_components is None else max(n_components)
    for number, result in solve_all_settings(classes, samples, settings):
        for index in groups[settings[number]]:
            if isinstance(result, Directions):
                directions = result.first(n_rows or result.eigenvalues.shape[0])
                components = scale_directions(directions, methods[index].eigenvalue_power)
                yield ComponentPath(index, components)
            else:
                yield ComponentPath(index, None, failure=str(result))


def refuse_unlabeled(estimator: Any, where: str) -> None:
    """Raise an error if an estimator should use unlabelled samples where it cannot."""
    if getattr(estimator, "unlabeled", None) is not None:
        raise ValueError(
            f"unlabeled must be None in {where}, got {estimator.unlabeled!r}: unlabelled samples "
            "are for fit."
        )


def refuse_class_weight(estimator: Any) -> None:
    """Raise an error if classes that are added to a fit should have weights."""
    refuse_unlabeled(estimator, "partial_fit and summarize")
    if estimator.class_weight is not None:
        raise ValueError(
            "class_weight must be None in partial_fit and summarize, which do not see all classes "
            "at once: give sample_weight to fit."
        )


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
    if label_kind(samples.classes) != label_kind(fitted):
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


def label_kind(labels: Labels) -> str:
    """Return the kind of labels; small unsigned integers count as signed, objects as strings.

    Unsigned integers of 64 bits are a kind of their own: with signed ones they become floats.
    """
    if labels.dtype.kind == "u" and labels.dtype.itemsize < 8:
        return "i"
    return labels.dtype.kind.replace("O", "U")


def set_fit_attributes(
    estimator: Any,
    samples: SampleFacts,
    classes: ClassPool | None,
    settings: DiscriminantSettings,
    fit: DiscriminantFit,
    is_first: bool = True,
) -> None:
    """Set the attributes of a fit.

    Parameters
    ----------
    estimator : MPDA or PMPDA
        The estimator.
    samples : SampleFacts
        Samples of the call, in memory or on a cluster, or a summary of them.
    classes : ClassPool or None
        Stages of the classes of the call, if the samples are in memory.
    settings : DiscriminantSettings
        Checked parameters.
    fit : DiscriminantFit
        Result for all classes, with summaries of those of the call.
    is_first : bool, default=True
        Set to False to extend the attributes of an earlier call. Those of classes are in the order
        of ``classes_``, those of patches and samples in the order of the calls.
    """
    origin, dtype, mean = fit.state.coordinates.origin, samples.dtype, samples.mean
    if getattr(estimator, "unlabeled", None) is not None:
        mean = fit.state.mean  # of the labelled samples
    labels, solvers = samples.classes, [summary.solver for summary in fit.summaries]
    residuals = np.array([summary.residual for summary in fit.summaries])
    if settings.classes.partition is not None:
        _set_patch_attributes(estimator, samples, classes, settings, fit, is_first)
    class_order = labels.tolist()
    if not is_first:
        class_order = [*estimator._class_order, *class_order]
        labels = np.concatenate([to_host(estimator.classes_), labels])
        solvers = estimator.class_solvers_ + solvers
        residuals = np.concatenate([to_host(estimator.class_residuals_), residuals])
        dtype = array_namespace(origin).result_type(estimator.components_, dtype)
        mean = fit.state.mean
    # classes_ is sorted, as scikit-learn expects; patches and samples keep the order of the calls.
    order = np.argsort(labels, kind="stable")
    estimator.classes_ = numbers_to_device(labels[order], origin)
    estimator.class_solvers_ = [solvers[index] for index in order]
    estimator.class_residuals_ = to_device(residuals[order], origin)
    components = scale_directions(fit.directions, estimator.eigenvalue_power)
    estimator.components_ = cast_components(components, dtype)
    estimator.mean_ = astype(mean, dtype)
    estimator.eigenvalues_ = fit.directions.eigenvalues
    estimator.residual_ = fit.residual
    estimator.condition_ = fit.directions.condition
    estimator.units_ = asdict(fit.strengths)
    estimator._state, estimator._settings = fit.state, settings
    estimator._class_order = class_order
    if estimator.verbose:
        _report_fallbacks(type(estimator).__name__, samples.classes.tolist(), fit)
    # The Schur complement has the square of the residual as relative error.
    residual = max(fit.residual, residuals.max() ** 2)
    warn_inaccurate(residual, fit.directions.condition)


def _set_patch_attributes(
    estimator: Any,
    samples: SampleFacts,
    classes: ClassPool | None,
    settings: DiscriminantSettings,
    fit: DiscriminantFit,
    is_first: bool,
) -> None:
    """Set ``patch_labels_`` and the attributes with an entry for each patch."""
    n_patches = [summary.linearity.size for summary in fit.summaries]
    values = {
        "patch_classes_": np.repeat(samples.classes, n_patches),
        "patch_linearity_": np.concatenate([s.linearity for s in fit.summaries]),
        "tangent_dimensions_": np.concatenate([s.tangent_dimensions for s in fit.summaries]),
    }
    n_before = 0 if is_first else estimator.patch_linearity_.shape[0]
    if isinstance(samples, LabelledSamples) and (is_first or hasattr(estimator, "patch_labels_")):
        labels = np.full(samples.y.size, -1, dtype=np.intp)  # unlabelled samples have no patch
        offsets = n_before + np.cumsum(n_patches) - n_patches
        work = partial(ClassStages.patch_labels, settings=settings.classes)
        assert classes is not None
        class_labels = classes.map("patches", work)
        for members, patch_of, offset in zip(samples.members, class_labels, offsets, strict=True):
            labels[members] = patch_of + offset
        values["patch_labels_"] = labels
    else:  # the samples of a cluster stay there, so not every sample has a label
        vars(estimator).pop("patch_labels_", None)
    for name, array in values.items():
        if not is_first:
            array = np.concatenate([to_host(getattr(estimator, name)), array])
        setattr(estimator, name, numbers_to_device(array, fit.state.coordinates.origin))


def _report_fallbacks(title: str, labels: list[Any], fit: DiscriminantFit) -> None:
    """Name the classes whose tangent vectors needed another solver than planned."""
    for label, summary in zip(labels, fit.summaries, strict=True):
        if summary.solver in _FALLBACKS:
            print(f"{title}, class {label!r}: {_FALLBACKS[summary.solver]}", file=sys.stderr)
