"""What every method leaves behind: a linear map, and the checks of what it is learnt from."""

from __future__ import annotations

import warnings
from abc import ABCMeta
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mpda._typing import ArrayLike, Bools, Floats, Ints, Labels
from mpda.exceptions import SmallClassWarning


@dataclass(frozen=True)
class LabelledSamples:
    """X : (n, d) as given; y : (n,); classes : the distinct labels; members : indices by class."""

    X: Floats
    y: Labels
    classes: Labels
    members: list[Ints]

    @classmethod
    def made(cls, X: Floats, y: Labels) -> LabelledSamples:
        classes, codes = distinct_labels(y)
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        return cls(X, y, classes, members)

    def part(self, rows: Bools) -> LabelledSamples:
        """Some of the samples, given by a mask (n,)."""
        return LabelledSamples.made(self.X[rows], self.y[rows])


class LinearMap(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta
):
    """A linear map learnt from samples: ``components_`` (r, d) after taking off ``mean_`` (d,)."""

    def transform(self, X: ArrayLike) -> Floats:
        """Map samples (n, d) to (n, n_components)."""
        check_is_fitted(self, "components_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        mapped = (X - self.mean_) @ self.components_.T
        return mapped.astype(X.dtype, copy=False)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """The samples (n, d) nearest to the training mean that map to X (n, n_components)."""
        check_is_fitted(self, "components_")
        X = check_array(X, dtype=[np.float64, np.float32])
        n_components = len(self.components_)
        if X.shape[1] != n_components:
            raise ValueError(
                f"X has {X.shape[1]} columns, but {type(self).__name__} maps to {n_components} "
                "components: give what transform returned."
            )
        # Components of length one: their lengths say nothing about which of them are independent.
        lengths = _lengths(self.components_)
        offsets = lstsq(self.components_ / lengths[:, None], (X / lengths).T)[0].T
        return (offsets + self.mean_).astype(X.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _labelled(self, X: ArrayLike, y: ArrayLike, *, more: bool = False) -> LabelledSamples:
        """The samples and labels, checked; more to what was learnt before, or all there are."""
        least = 1 if more else 2
        X, y = validate_data(
            self,
            X,
            y,
            reset=not more,
            dtype=[np.float64, np.float32],
            ensure_min_samples=least,
        )
        samples = LabelledSamples.made(X, y)
        if samples.classes.size < least:
            raise ValueError(
                f"{type(self).__name__} separates classes, but y has only 1 class: "
                f"{samples.classes.tolist()!r}. Give labels of at least 2 classes."
            )
        if not more:
            _refuse_identical(X)
        return samples

    def _unlabelled(self, X: ArrayLike) -> Floats:
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        _refuse_identical(X)
        return X


def _lengths(components: Floats) -> Floats:
    """The length of each component (r,), 1 for one of zeros; squares stay in range."""
    largest = np.abs(components).max(axis=1)
    largest = np.where(largest > 0.0, largest, 1.0)
    return largest * np.linalg.norm(components / largest[:, None], axis=1)


def _refuse_identical(X: Floats) -> None:
    if (X.max(axis=0) == X.min(axis=0)).all():
        raise ValueError("All samples of X are identical, so nothing can be learnt from them.")


def distinct_labels(y: Labels) -> tuple[Labels, Ints]:
    """The distinct class labels, sorted, and the place of each label among them."""
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise TypeError(f"y must hold labels of one kind, got {', '.join(kinds)}.") from error
    check_classification_targets(y)
    return classes, codes


def warn_of_small_classes(samples: LabelledSamples, n_neighbors: int) -> None:
    """Say which classes are too small, on the line that called fit; called by what fit calls."""
    sizes = [members.size for members in samples.members]
    small = [i for i, size in enumerate(sizes) if size <= n_neighbors]
    if small:
        labels = samples.classes.tolist()
        named = ", ".join(f"{labels[i]!r} ({sizes[i]} in all)" for i in small[:5])
        rest = f" and {len(small) - 5} more" if len(small) > 5 else ""
        warnings.warn(
            f"n_neighbors={n_neighbors} is cut to the number of other samples in class {named}"
            f"{rest}. A smaller n_neighbors or more samples of these classes avoids this.",
            SmallClassWarning,
            stacklevel=4,
        )
