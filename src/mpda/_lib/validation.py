"""Validation of parameters and samples: the first step of every fit.

Parameters are checked one by one; every message names the parameter, what is allowed and what came.
Samples are checked by scikit-learn, grouped by class, and scaled by a power of two where their
squares could leave the range of floating-point numbers. ``samples`` defines what comes out.
"""

import math
import numbers
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y, validate_data

from mpda._lib import arrays
from mpda._lib.array_types import Array, ArrayLike, Floats, Ints, Labels
from mpda._lib.device_inputs import is_dispatched, refuse_accelerator, validate_device_array
from mpda._lib.sample_weights import resolve_weights
from mpda._lib.samples import ClassSamples, Coordinates, LabelledSamples, rotate_into_span
from mpda.exceptions import FeatureScaleWarning, SmallClassWarning

# Samples with magnitudes between 2^-100 and 2^100 (1e-30 and 1e30) are not scaled: fourth powers of
# them, the highest that a fit computes, stay finite and above the smallest normal number.
_UNSCALED_EXPONENTS = 100
# The square of 1 in the units of X must stay finite in scaled units, so X below 2^-500 is scaled by
# no more than 2^500.
_SMALLEST_EXPONENT = -500
# Samples of weight 0 may be larger than the others by 2^250 at most: fourth powers of the others
# must not vanish.
_LARGEST_RATIO = 250
_FLOATS = [np.float64, np.float32]
# Features of sparse samples: with 5000 each of the half a dozen matrices of features by features of
# a fit has 200 MB, and the eigenproblem takes a minute.
MAX_SPARSE_FEATURES = 5000
# Ratio of the ranges of features above which a fit warns.
_SCALE_RATIO = 1000.0


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """Return ``value`` as an int, or raise an error unless it is an integer >= ``least``."""
    # True is an Integral to Python, but n_components=True is a mistake.
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an int of at least {least}, got {_describe(value)}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}.")
    return int(value)


def check_number(
    name: str,
    value: Any,
    *,
    least: float = 0.0,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    also: str = "",
) -> float:
    """Return ``value`` as a float, or raise an error unless it is finite and within the bounds.

    The bounds ``least`` and ``most`` are inclusive, ``above`` and ``below`` are exclusive. ``also``
    is added to the message: alternatives that the caller has handled before.
    """
    if above > -math.inf:
        limit = f" and less than {below:g}" if below < math.inf else ""
        allowed = f"a finite number greater than {above:g}{limit}"
    elif below < math.inf:
        allowed = f"a number from {least:g} to less than {below:g}"
    elif most < math.inf:
        allowed = f"a number from {least:g} to {most:g}"
    else:
        allowed = f"a finite number of at least {least:g}"
    allowed += also
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {allowed}, got {_describe(value)}.")
    number = float(value)
    if not (math.isfinite(number) and least <= number <= most and above < number < below):
        raise ValueError(f"{name} must be {allowed}, got {value!r}.")
    return number


def resolve_seed(random_state: Any) -> Any:
    """Return ``random_state``, or a fresh integer seed if it is None.

    NumPy's global generator is neither read nor changed.
    """
    return int(np.random.default_rng().integers(2**31)) if random_state is None else random_state


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool, or raise an error unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {_describe(value)}.")
    return bool(value)


def check_option(name: str, value: Any, options: Sequence[str], *, also: str = "") -> str:
    """Return ``value``, or raise an error unless it is one of the strings in ``options``.

    ``also`` is added to the list in the message: alternatives that the caller has handled before.
    """
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}{also}, got {_describe(value)}.")
    return value


def check_jobs(n_jobs: Any) -> int | None:
    """Return ``n_jobs``, or raise an error unless it is None or an integer other than 0."""
    is_integer = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not is_integer or n_jobs == 0):
        raise ValueError(
            "n_jobs must be None or an int other than 0 (-1 for all cores), got "
            f"{_describe(n_jobs)}."
        )
    return None if n_jobs is None else int(n_jobs)


def _describe(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"


def validate_samples(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    reset: bool = True,
    devices: bool = False,
    compare_scales: bool = False,
    single_class: bool = False,
    rotates: bool = True,
    labelled: bool | None = None,
) -> LabelledSamples:
    """Check samples, class labels and weights.

    Parameters
    ----------
    estimator : estimator
        It gets ``n_features_in_`` and ``feature_names_in_``, or is compared with them. Its tags say
        whether it needs labels and takes sparse samples.
    X : array-like of shape (n_samples, n_features)
        Samples of the user.
    y : array-like of shape (n_samples,), default=None
        Their class labels. Not used for an estimator that needs none; the result has no classes.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, which are multiplied by the ``class_weight`` of the estimator.
    reset : bool, default=True
        Set to False for samples that are added to an earlier fit: they must have its features, and
        may be of one class.
    devices : bool, default=False
        Set to True if the estimator computes on device arrays.
    compare_scales : bool, default=False
        Set to True to warn of features whose scales differ a thousandfold.
    single_class : bool, default=False
        Set to True if samples of one class, or a single one, are enough.
    rotates : bool, default=True
        Set to False if the estimator does not need the span of fewer samples than features.
    labelled : bool, default=None
        Set to False for samples without labels. None follows the tags of the estimator.

    Returns
    -------
    LabelledSamples
    """
    refuse_dask(estimator, X)
    labels: Any = arrays.to_host(y) if arrays.is_device_array(y) else y
    tags = estimator.__sklearn_tags__()
    is_labelled = tags.target_tags.required if labelled is None else labelled
    single_class = single_class or not reset
    n_classes = 1 if single_class else 2
    if is_dispatched(X):
        X = validate_device_array(estimator, X, devices, reset, n_classes)
        if is_labelled:
            # Labels stay on the host; a column of zeros stands for X in their checks.
            labels = check_X_y(np.zeros((X.shape[0], 1)), labels, estimator=estimator)[1]
    else:
        refuse_accelerator(X)
        checked = validate_data(
            estimator,
            X,
            labels if is_labelled else "no_validation",
            accept_sparse="csr" if tags.input_tags.sparse else False,
            dtype=_FLOATS,
            reset=reset,
            ensure_min_samples=n_classes,
        )
        X, labels = checked if is_labelled else (checked, None)
        if arrays.is_sparse(X):
            X = _check_sparse(estimator, X)
    if is_labelled:
        classes, members = group_by_class(labels)
        check_number_of_classes(estimator, classes, n_classes)
    else:
        labels, classes, members = np.empty(0), np.empty(0), []
    low, high = feature_range(X)
    if not single_class:
        check_not_constant(low, high)
    if compare_scales:
        _warn_of_scales(estimator, X, low, high)
    class_weight, weights = getattr(estimator, "class_weight", None), None
    if sample_weight is not None or class_weight is not None:
        groups = members if is_labelled else [np.arange(X.shape[0])]
        weights = resolve_weights(sample_weight, class_weight, classes, groups)
    samples = _put_into_coordinates(X, labels, classes, members, low, high, rotates, weights)
    return _add_weights(samples, weights)


def _add_weights(samples: LabelledSamples, weights: Floats | None) -> LabelledSamples:
    """Return the samples with weights (n,); those of weight 0 do not make a feature vary."""
    if weights is None:
        return samples
    X, positive = samples.X, np.flatnonzero(weights)
    if positive.size < weights.size:
        low, high = feature_range(arrays.take(X, arrays.to_device(positive, X)))
        check_not_constant(low, high)
        if scale_exponent(low, high) < -_LARGEST_RATIO:  # X is scaled by its largest value
            raise ValueError(
                "X has values in samples of weight 0 that are larger than all others by more than "
                "a factor of 1e75: leave these samples out of X."
            )
        n_varying = int(arrays.array_namespace(low).count_nonzero(low != high))
        samples = replace(samples, n_varying=n_varying)
    return replace(samples, weights=weights)


def _check_sparse(estimator: BaseEstimator, X: Any) -> Any:
    """Return a sparse X as a ``csr_array``, or raise an error if it has too many features."""
    d = X.shape[1]
    if d > MAX_SPARSE_FEATURES:
        raise ValueError(
            f"X has {d:,} sparse features, and {type(estimator).__name__} computes with matrices "
            f"of features by features: {8.0 * d * d / 1e9:.1f} GB each. At most "
            f"{MAX_SPARSE_FEATURES:,} are allowed. Reduce them first: "
            f"make_pipeline(TruncatedSVD(300), {type(estimator).__name__}())."
        )
    X = csr_array(X)
    if not X.has_canonical_format:  # an entry may be stored in several summands
        X = X.copy()
        X.sum_duplicates()
    return X


def _put_into_coordinates(
    X: Array,
    y: Labels,
    classes: Labels,
    members: list[Ints],
    low: Array,
    high: Array,
    rotates: bool,
    weights: Floats | None,
) -> LabelledSamples:
    """Scale X if it is extreme; rotate it, if asked to, where n <= d.

    Samples of weight 0 may be far from the others, so that they decide neither origin nor span.
    """
    dtype = X.dtype
    exponent = scale_exponent(low, high)
    if exponent:
        X = arrays.ldexp(arrays.as_float(X), -exponent)
    n_varying = int(arrays.array_namespace(low).count_nonzero(low != high))
    # Samples without extent, as a class of one sample for a sum, have no span.
    is_rotated = rotates and X.shape[0] <= X.shape[1] and n_varying > 0
    # A copy: a view of the first row would keep all of X alive in a fitted model.
    # Sparse samples lie about zero. Not shifted, the coordinates of a class are its points.
    first = 0 if weights is None else int(np.flatnonzero(weights)[0])
    origin = (
        np.zeros(X.shape[1]) if arrays.is_sparse(X) and not is_rotated else _dense_row(X, first)
    )
    basis = rotated = None
    if is_rotated:
        basis, rotated = rotate_into_span(arrays.as_float(arrays.densify(X)), origin, weights)
    coordinates = Coordinates(exponent, origin, basis)
    return LabelledSamples(X, y, classes, members, n_varying, dtype, coordinates, rotated)


def _dense_row(X: Array, index: int) -> Array:
    """Return a copy of one sample (d,), dense and in double precision."""
    row = arrays.densify(X[index : index + 1, :])
    xp = arrays.array_namespace(row)
    return xp.astype(row[0, :], xp.float64, copy=True)


def group_by_class(y: Labels) -> tuple[Labels, list[Ints]]:
    """Return the sorted distinct labels, and the indices of the samples of each class."""
    classes, codes = distinct_labels(y)
    check_classification_targets(y)
    # One sort instead of a comparison with every class; stable, so that members stay in order.
    order = np.argsort(codes, kind="stable")
    return classes, np.split(order, np.cumsum(np.bincount(codes))[:-1])


def distinct_labels(y: Labels) -> tuple[Labels, Ints]:
    """Return the sorted distinct labels (n_classes,), and the number of the label of each sample.

    Raises a TypeError that names the kinds if labels of several kinds cannot be sorted.
    """
    try:
        return np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise TypeError(f"y must hold labels of one kind, got {', '.join(kinds)}.") from error


def label_kind(labels: Labels) -> str:
    """Return the kind of labels; small unsigned integers count as signed, objects as strings.

    Unsigned integers of 64 bits are a kind of their own: with signed ones they become floats.
    """
    if labels.dtype.kind == "u" and labels.dtype.itemsize < 8:
        return "i"
    return labels.dtype.kind.replace("O", "U")


def check_number_of_classes(estimator: BaseEstimator, classes: Labels, n_classes: int) -> None:
    """Raise an error if there are fewer than ``n_classes`` classes."""
    if classes.size < n_classes:
        raise ValueError(
            f"{type(estimator).__name__} separates classes, but y has only {classes.size} "
            f"class{'' if classes.size == 1 else 'es'}: {classes.tolist()!r}. Give labels of at "
            "least 2 classes."
        )


def feature_range(X: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest value of each feature (n_features,)."""
    if arrays.is_sparse(X):
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    xp = arrays.array_namespace(X)
    return xp.min(X, axis=0), xp.max(X, axis=0)


def _warn_of_scales(estimator: BaseEstimator, X: Array, low: Array, high: Array) -> None:
    """Warn if the range of one feature is a thousand times that of another that varies."""
    # Halves, because the difference of two large numbers may be infinite.
    spread = arrays.to_host(0.5 * high - 0.5 * low)
    varying = np.flatnonzero(spread > 0.0)
    widest, narrowest = (varying[pick(spread[varying])] for pick in (np.argmax, np.argmin))
    if spread[widest] < _SCALE_RATIO * spread[narrowest] or _is_centred(X, spread):
        return
    names = getattr(estimator, "feature_names_in_", np.arange(spread.size))
    warnings.warn(
        f"The values of feature {names[widest]} spread more than {_SCALE_RATIO:.0f} times as wide "
        f"as those of feature {names[narrowest]}, so distances see the first one only. If features "
        "have different units, put scikit-learn's StandardScaler before the method.",
        FeatureScaleWarning,
        stacklevel=5,
    )


def _is_centred(X: Array, spread: Floats) -> bool:
    """Return True if all means are zero, as after PCA, whose components differ in scale."""
    if arrays.is_sparse(X):
        return False
    X = arrays.to_host(X)
    rounding = 100.0 * np.finfo(X.dtype).eps
    with np.errstate(over="ignore"):
        return bool(np.all(np.abs(X.mean(axis=0)) <= rounding * (np.abs(X).max(axis=0) + spread)))


def check_not_constant(low: Array, high: Array) -> None:
    """Raise an error if all samples are identical, given the range of each feature."""
    if bool(arrays.array_namespace(low).all(low == high)):
        raise ValueError("All samples of X are identical, so nothing can be learnt from them.")


def scale_exponent(low: Array, high: Array) -> int:
    """Return the binary exponent by which samples within these bounds are scaled."""
    xp = arrays.array_namespace(low)
    magnitude = max(abs(float(xp.min(low))), abs(float(xp.max(high))))
    if magnitude == 0.0:
        return _SMALLEST_EXPONENT
    exponent = int(np.frexp(magnitude)[1])
    return 0 if abs(exponent) <= _UNSCALED_EXPONENTS else max(exponent, _SMALLEST_EXPONENT)


def refuse_dask(estimator: BaseEstimator, X: Any) -> None:
    """Raise an error if X is a Dask collection."""
    if is_dask_collection(X):
        raise TypeError(
            f"{type(estimator).__name__} needs all samples in memory and does not take Dask "
            "collections, as fit of MPDA, PMPDA, LFDA, GramPCA, WithinClassWhitening and "
            "NeighborhoodRefinement does. If X fits into memory, give X.compute() and y.compute()."
        )


def refuse_cluster_weights(sample_weight: Any, class_weight: Any) -> None:
    """Raise an error if weights are given for Dask collections."""
    for name, value in (("sample_weight", sample_weight), ("class_weight", class_weight)):
        if value is not None:
            raise TypeError(
                f"{name} must be None for Dask collections: weights need samples in memory."
            )


def is_dask_collection(X: Any) -> bool:
    """Return True if X is a Dask collection; Dask is not imported."""
    return hasattr(X, "__dask_graph__") and X.__dask_graph__() is not None


def load_class(samples: LabelledSamples, index: int) -> ClassSamples:
    """Gather the samples of one class, in double precision and shifted to the origin.

    Parameters
    ----------
    samples : LabelledSamples
        Samples of all classes.
    index : int
        Number of the class.
    """
    X, members = samples.X, samples.members[index]
    points = arrays.take(X, arrays.to_device(members, X))
    points = arrays.as_float(arrays.densify(points))
    weights = None
    if samples.weights is not None:
        weights = arrays.to_device(samples.weights[members], points)
    origin = samples.coordinates.origin
    if samples.rotated is None:
        if arrays.is_sparse(X) and not origin.any():
            return ClassSamples(points, points, weights, arrays.as_float(X[members]))
        return ClassSamples(points, points - origin, weights)
    coordinates = arrays.take(samples.rotated, arrays.to_device(members, X))
    return ClassSamples(points, coordinates, weights)


def warn_small_classes(samples: Any, n_neighbors: int, stacklevel: int = 3) -> None:
    """Warn of classes with too few samples for ``n_neighbors``.

    The default ``stacklevel`` points at the caller of the function that calls this one.

    Parameters
    ----------
    samples : LabelledSamples or ClusterSamples
        Samples by class.
    n_neighbors : int
        Number of neighbours inside a class.
    stacklevel : int, default=3
        As in ``warnings.warn``.
    """
    sizes = [members.size for members in samples.members]
    # A sample is not its own neighbour, so a class of n_neighbors samples is too small as well.
    small = [
        f"{label!r} ({size} in all)"
        for label, size in zip(samples.classes.tolist(), sizes, strict=True)
        if size <= n_neighbors
    ]
    if small:
        names = ", ".join(small[:5])
        rest = f" and {len(small) - 5} more" if len(small) > 5 else ""
        warnings.warn(
            f"n_neighbors={n_neighbors} is cut to the number of other samples in class {names}"
            f"{rest}. A smaller n_neighbors or more samples of these classes avoids this.",
            SmallClassWarning,
            stacklevel=stacklevel,
        )
