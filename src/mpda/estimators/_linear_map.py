"""What every method leaves behind: a linear map, and the checks of what it is learnt from."""

from __future__ import annotations

import warnings
from abc import ABCMeta
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy.linalg import lstsq
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mpda._typing import ArrayLike, Bools, Floats, Ints, Labels
from mpda.engines import dask_engine, in_order, is_on_dask
from mpda.exceptions import SmallClassWarning
from mpda.frames import Frame, frame


class Samples(Protocol):
    """Samples with labels, here (``LabelledSamples``) or on a cluster.

    classes : (C,) the distinct labels
    members : what stands for each class, with its size
    dtype : of the samples
    on_cluster : whether they are not here
    """

    @property
    def classes(self) -> Labels: ...
    @property
    def members(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def on_cluster(self) -> bool: ...
    @property
    def each(self) -> Callable[..., Iterator[Any]]: ...
    def view(self) -> Frame: ...
    def only(self, kept: Bools) -> Samples: ...
    def marks(self, mark: Callable[[Floats], bytes]) -> list[bytes]: ...
    def refuse_beyond(self, needed: Callable[[int], float], advice: str) -> None: ...


@dataclass(frozen=True)
class LabelledSamples:
    """X : (n, d) as given; y : (n,); classes : the distinct labels; members : indices by class."""

    X: Floats
    y: Labels
    classes: Labels
    members: list[Ints]

    on_cluster = False
    each = staticmethod(in_order)

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    def view(self) -> Frame:
        """The frame of the samples."""
        return frame(self.X)

    @classmethod
    def made(cls, X: Floats, y: Labels) -> LabelledSamples:
        classes, codes = distinct_labels(y)
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        return cls(X, y, classes, members)

    def only(self, kept: Bools) -> LabelledSamples:
        """The samples of some classes, given by a mask (C,)."""
        rows = np.isin(self.y, self.classes[kept])
        return LabelledSamples.made(self.X[rows], self.y[rows])

    def marks(self, mark: Callable[[Floats], bytes]) -> list[bytes]:
        """What ``mark`` says of the samples of each class."""
        return [mark(self.X.take(each, axis=0)) for each in self.members]

    def refuse_beyond(self, needed: Callable[[int], float], advice: str) -> None:
        """Here there is no limit for a class."""


class LinearMap(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta
):
    """A linear map learnt from samples: ``components_`` (r, d) after taking off ``mean_`` (d,)."""

    # Whether what a method learns is a sum over classes, so that these may be on a cluster.
    _sum_over_classes = False

    def transform(self, X: ArrayLike) -> Floats:
        """Map samples (n, d) to (n, n_components); those on Dask to a Dask array, lazily."""
        check_is_fitted(self, "components_")
        if is_on_dask(X):
            _refuse_containers(self)
            work = partial(_mapped, mean=self.mean_, components=self.components_)
            engine = dask_engine()
            validate_data(self, engine.described(X).sample(), reset=False)
            return engine.mapped(X, work, len(self.components_))
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return _mapped(X, self.mean_, self.components_)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """The samples (n, d) nearest to the training mean that map to X (n, n_components)."""
        check_is_fitted(self, "components_")
        self._refuse_dask(X)
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

    def _given(self, X: ArrayLike, y: ArrayLike, *, more: bool = False) -> Samples:
        """The samples and labels, here or on a cluster, as ``_labelled`` has them."""
        if is_on_dask(X) and self._sum_over_classes:
            return self._on_cluster(X, y, more=more)
        return self._labelled(X, y, more=more)

    def _labelled(self, X: ArrayLike, y: ArrayLike, *, more: bool = False) -> LabelledSamples:
        """The samples and labels, checked; more to what was learnt before, or all there are."""
        self._refuse_dask(X)
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
        self._refuse_few(samples.classes, least)
        if not more:
            refuse_identical(X.min(axis=0), X.max(axis=0))
        return samples

    def _on_cluster(self, X: Any, y: Any, *, more: bool) -> Samples:
        """The same for samples on Dask; as few as there are features are brought here."""
        engine = dask_engine()
        self._check_before()
        blocks = engine.labelled_blocks(X, y)
        validate_data(self, blocks.kind.sample(), reset=not more)
        parts = engine.block_facts(blocks)
        facts = engine.all_facts(parts)
        if facts.n <= blocks.kind.n_features and not more:
            return self._labelled(*engine.gathered(blocks))
        distinct_labels(np.repeat(facts.labels, np.minimum(facts.counts, 3)))  # for its checks
        self._refuse_few(facts.labels, 1 if more else 2)
        if not more:
            refuse_identical(facts.low, facts.high)
        samples: Samples = engine.by_class(blocks, parts, facts)
        samples.refuse_beyond(
            lambda n: self._class_bytes(n, blocks.kind.n_features),
            "Use workers with more memory or fewer threads, fewer features (GramPCA), or a part of "
            "the samples of this class.",
        )
        return samples

    def _check_before(self) -> None:
        """Refuse parameters before samples on a cluster are looked at."""

    def _class_bytes(self, n: int, d: int) -> float:
        """About the memory that work on a class of n samples with d features takes."""
        return 80.0 * n * d

    def _refuse_dask(self, X: Any) -> None:
        if is_on_dask(X):
            raise TypeError(
                f"{type(self).__name__} needs all samples here and does not take Dask collections, "
                "as fit of MPDA, PMPDA, LFDA and GramPCA does. If X fits into memory, give "
                "X.compute() and y.compute()."
            )

    def _refuse_few(self, classes: Labels, least: int) -> None:
        if classes.size < least:
            raise ValueError(
                f"{type(self).__name__} separates classes, but y has only 1 class: "
                f"{classes.tolist()!r}. Give labels of at least 2 classes."
            )

    def _unlabelled(self, X: ArrayLike) -> Floats:
        self._refuse_dask(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        refuse_identical(X.min(axis=0), X.max(axis=0))
        return X


def _refuse_containers(model: LinearMap) -> None:
    """Other output than arrays would be made by bringing all samples here."""
    own = getattr(model, "_sklearn_output_config", {})
    if own.get("transform", get_config()["transform_output"]) != "default":
        raise ValueError(
            "set_output and transform_output work on samples that are here: for Dask collections "
            'leave them at "default", which gives a Dask array.'
        )


def _mapped(X: Floats, mean: Floats, components: Floats) -> Floats:
    X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
    return ((X - mean) @ components.T).astype(X.dtype, copy=False)


def _lengths(components: Floats) -> Floats:
    """The length of each component (r,), 1 for one of zeros; squares stay in range."""
    largest = np.abs(components).max(axis=1)
    largest = np.where(largest > 0.0, largest, 1.0)
    return largest * np.linalg.norm(components / largest[:, None], axis=1)


def refuse_identical(low: Floats, high: Floats) -> None:
    if (low == high).all():
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


def warn_of_small_classes(samples: Samples, n_neighbors: int) -> None:
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
