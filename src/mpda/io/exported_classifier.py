"""The 1-NN classifier at the end of a model, for exports that contain it.

Training samples are kept mapped only, in private attributes of scikit-learn's classifier. They also
tell whether single precision is enough for the samples of a model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import iter_slices, to_host
from mpda._lib.sphere import scale_to_unit_length
from mpda.io.affine_maps import AffineMap

# Largest share of training samples whose label rounding may change; of ties it changes some.
_CHANGED_SHARE = 1e-3
# Numbers that float32 must have in the range of a feature, where no samples can be tried: rounding
# then moves a sample by less than a thousandth of that range.
_MIN_STEPS = 1000
# Entries of the samples that are tried at a time: 16 MB.
_BLOCK_ENTRIES = 2_000_000
_ADVICE = (
    "Subtract a constant from these columns before the fit, or export to ONNX with "
    'precision="double" (--precision double).'
)


def find_classifier(model: Any) -> Any:
    """Return the nearest-neighbour classifier of a model.

    Parameters
    ----------
    model : estimator
        Fitted model.

    Returns
    -------
    KNeighborsClassifier
        Fitted classifier: the last step of a Pipeline, or that of a DiscriminantSearchCV.

    Raises
    ------
    TypeError
        If there is none, or if it has other settings than one neighbour by Euclidean distance.
    """
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import Pipeline

    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    classifier = getattr(last, "classifier_", last)
    options = ("n_neighbors", "effective_metric_", "outputs_2d_")
    is_nearest = isinstance(classifier, KNeighborsClassifier) and classifier is not model
    if not is_nearest or [getattr(classifier, n) for n in options] != [1, "euclidean", False]:
        raise TypeError(
            "neighbors=True needs a DiscriminantSearchCV with classifier_neighbors=1, or a "
            "Pipeline that ends in a KNeighborsClassifier with one neighbour, Euclidean distances "
            f"and one label for a sample, got {classifier!r:.200}: fit "
            "make_pipeline(.., KNeighborsClassifier(1))."
        )
    return classifier


# Squared distance of vectors of length 1 below which inner products in float32, rounded by 6e-8, do
# not tell neighbours: digits had 0.3 points more errors at 1e-7, 20 at 1e-8.
_LEAST_SQUARE = 1e-6


def check_single_inputs(model: Any, linear: AffineMap) -> None:
    """Refuse float32 for inputs where it changes the labels of the training samples.

    A model keeps its training samples mapped only. Of all samples with the same map those nearest
    to the mean are tried, with features scaled by their weights, so that every feature varies.
    On a sphere the constant tells their lengths. Where a model keeps none, or only their
    directions, nothing is checked.

    Parameters
    ----------
    model : estimator
        Fitted model.
    linear : AffineMap
        Its map.

    Raises
    ------
    ValueError
        If rounding changes more than 0.1 % of the labels; the columns at fault are named. If the
        radius of a sphere is so large that single precision does not tell neighbours.
    """
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    classifier = getattr(last, "classifier_", last)
    is_direction = linear.unit_length and not linear.constant
    if is_direction or not hasattr(classifier, "_fit_X") or not hasattr(classifier, "_y"):
        return
    Z, codes = np.asarray(classifier._fit_X, dtype=np.float64), np.asarray(classifier._y)
    if codes.ndim > 1:  # several labels a sample, which the graph does not have
        return
    if linear.constant:
        Z = linear.constant * Z / Z[:, -1:]
    weights = np.linalg.norm(linear.matrix, axis=0)
    weights[weights == 0.0] = 1.0
    inverse = np.linalg.pinv(linear.matrix / weights).T / weights
    rounded, shifts = np.empty_like(Z), np.zeros_like(weights)
    # Block by block: of sparse samples a dense copy may not fit into memory.
    for rows in iter_slices(len(Z), _BLOCK_ENTRIES // weights.size):
        X = linear.mean + (Z[rows] - linear.offset) @ inverse
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the range of float32
            errors = X.astype(np.float32) - X
            rounded[rows] = Z[rows] + errors @ linear.matrix.T
            shifts += np.abs(errors).sum(axis=0) * weights
    is_finite = np.isfinite(rounded).all(axis=1)
    if linear.constant:
        rounded[is_finite] = scale_to_unit_length(rounded[is_finite])
        distances = classifier.kneighbors(n_neighbors=1)[0]  # leaving each sample out
        apart = distances[distances > 0.0]
        if apart.size and np.median(apart) ** 2 < _LEAST_SQUARE:
            raise ValueError(
                "radius is too large for products in float32: neighbours on the sphere are at a "
                f"distance of {np.median(apart):.1g}, and products of vectors of length 1 do not "
                "tell them apart. Fit with a smaller radius, or with radius=None."
            )
    nearest = np.full(len(Z), -1)
    if is_finite.any():
        indices = classifier.kneighbors(rounded[is_finite], n_neighbors=1, return_distance=False)
        nearest[is_finite] = indices[:, 0]
    is_changed = (nearest < 0) | (codes[nearest] != codes)
    if is_changed.mean() <= _CHANGED_SHARE:
        return
    shifts = np.where(np.isfinite(shifts), shifts, np.inf)
    columns = np.flatnonzero(shifts >= 0.1 * shifts.max())
    raise ValueError(
        f"float32 does not hold {_name_columns(model, columns)} precisely enough: it changes the "
        f"labels of {100.0 * is_changed.mean():.1f} % of the training samples. {_ADVICE}"
    )


def check_single_range(model: Any, feature_range: Sequence[Sequence[float | None]]) -> None:
    """Refuse float32 for inputs whose values it cannot tell apart.

    For models that keep no samples; `check_single_inputs` tests the samples of others.

    Parameters
    ----------
    model : estimator
        Fitted model.
    feature_range : array-like of shape (2, n_features)
        Least and largest value of each feature in the fit. None for features of text.

    Raises
    ------
    ValueError
        If float32 has few numbers in the range of a feature; the columns are named.
    """
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if hasattr(getattr(last, "classifier_", last), "_fit_X"):
        return
    low, high = np.array(feature_range, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the range of float32
        spacing = np.spacing(np.maximum(np.abs(low), np.abs(high)).astype(np.float32))
    is_coarse = (high > low) & ~(_MIN_STEPS * spacing <= high - low)
    if is_coarse.any():
        named = _name_columns(model, np.flatnonzero(is_coarse))
        reason = f"it has fewer than {_MIN_STEPS} numbers in the range of the fit."
        raise ValueError(f"float32 does not hold {named} precisely enough: {reason} {_ADVICE}")


def _name_columns(model: Any, columns: Ints) -> str:
    """Return the names of up to five columns."""
    names = getattr(model, "feature_names_in_", None)
    listed = [f"column {i}" if names is None else repr(str(names[i])) for i in columns[:5]]
    return ", ".join(listed)


def plain_labels(classes: Array) -> Array:
    """Return labels in a type that files of other programs have.

    Parameters
    ----------
    classes : array of shape (n_classes,)
        Labels of a fitted model.

    Returns
    -------
    ndarray of shape (n_classes,)
        Array of bool, int64, float64 or str.
    """
    values = np.array(to_host(classes).tolist())
    if values.dtype.kind not in "bifU":
        raise TypeError(
            "labels must be strings, booleans or numbers of at most 64 bits to be exported, got "
            f"{values[:1].tolist()!r} and others of {classes.dtype}."
        )
    return values
