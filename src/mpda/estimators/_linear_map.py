"""What every method leaves behind: a linear map, and the checks of what it is learnt from."""

from __future__ import annotations

import warnings
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mpda._arrays import (
    as_type,
    can_be_changed,
    detached,
    entries_at,
    has_double_precision,
    is_complex,
    is_foreign,
    least_squares,
    library,
    like,
    moved,
    namespace,
    on_host,
    on_other_device,
    slices,
    to_host,
)
from mpda._memory import refuse_beyond_memory
from mpda._threads import class_threads
from mpda._typing import Array, ArrayLike, Bools, Floats, Ints, Labels
from mpda.engines import dask_engine, in_order, is_on_dask, one_by_one
from mpda.estimators._checks import (
    check_array,
    check_classification_targets,
    check_X_y,
    validate_data,
)
from mpda.estimators._costs import BLOCKS, frame_bytes, solution_bytes
from mpda.exceptions import SmallClassWarning
from mpda.frames import Frame, frame

# Entries of samples that are mapped at a time.
_MAPPED_ENTRIES = 2_000_000


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
    def marks(self, mark: Callable[[Array], bytes]) -> list[bytes]: ...
    def refuse_beyond(self, needed: Callable[[int], float], advice: str) -> None: ...


@dataclass(frozen=True)
class LabelledSamples:
    """X : (n, d) as given; y : (n,); classes : the distinct labels; members : indices by class.

    X may be of another array library; labels and indices are always NumPy's.
    """

    X: Array
    y: Labels
    classes: Labels
    members: list[Ints]

    on_cluster = False

    @property
    def each(self) -> Callable[..., Iterator[Any]]:
        """How work on classes is carried out: a device has its own way to do things at once."""
        return in_order if on_host(self.X) else one_by_one

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    def view(self) -> Frame:
        """The frame of the samples."""
        return frame(self.X)

    @property
    def sizes(self) -> list[int]:
        """Those of the classes."""
        return [each.size for each in self.members]

    @classmethod
    def made(cls, X: Array, y: Labels) -> LabelledSamples:
        classes, codes = distinct_labels(y)
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        return cls(X, y, classes, members)

    def only(self, kept: Bools) -> LabelledSamples:
        """The samples of some classes, given by a mask (C,)."""
        chosen = np.flatnonzero(np.isin(self.y, self.classes[kept]))
        return LabelledSamples.made(entries_at(self.X, like(chosen, self.X)), self.y[chosen])

    def marks(self, mark: Callable[[Array], bytes]) -> list[bytes]:
        """What ``mark`` says of the samples of each class."""
        return [mark(entries_at(self.X, like(each, self.X))) for each in self.members]

    def refuse_beyond(self, needed: Callable[[int], float], advice: str) -> None:
        """Refuse the largest class if what it needs, in bytes from its size, is not there."""
        largest = max(self.sizes)
        label = self.classes.tolist()[self.sizes.index(largest)]
        what = f"Class {label!r} with {largest} samples"
        refuse_beyond_memory(needed(largest), what, advice)


class LinearMap(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta
):
    """A linear map learnt from samples: ``components_`` (r, d) after taking off ``mean_`` (d,)."""

    # Whether what a method learns is a sum over classes, so that these may be on a cluster.
    _sum_over_classes = False
    # Whether a fit takes arrays of other libraries, and works where they are.
    _on_devices = False
    # What helps where there is not enough memory for a fit.
    _memory_advice = (
        "Use fewer features (GramPCA), a part of the samples, a smaller n_neighbors or n_jobs, or "
        "a machine with more memory."
    )

    def transform(self, X: ArrayLike) -> Array:
        """Map samples (n, d) to (n, n_components); those on Dask to a Dask array, lazily.

        Arrays of another library are mapped where they are.
        """
        check_is_fitted(self, "components_")
        if is_on_dask(X):
            _refuse_containers(self)
            work = partial(_mapped, mean=self.mean_, components=self.components_)
            engine = dask_engine()
            validate_data(self, engine.described(X).sample(), reset=False)
            return engine.mapped(X, work, self.components_.shape[0])
        self._refuse_elsewhere(X, "transform")
        refuse_device(self, X, able=True)
        X = validate_data(self, detached(X), reset=False, dtype=_float_types(X))
        return _mapped(X, self.mean_, self.components_)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """The samples (n, d) nearest to the training mean that map to X (n, n_components)."""
        check_is_fitted(self, "components_")
        self._refuse_dask(X)
        self._refuse_elsewhere(X, "inverse_transform")
        refuse_device(self, X, able=True)
        X = check_array(detached(X), dtype=_float_types(X))
        n_components = self.components_.shape[0]
        if X.shape[1] != n_components:
            raise ValueError(
                f"X has {X.shape[1]} columns, but {type(self).__name__} maps to {n_components} "
                "components: give what transform returned."
            )
        # Components of length one: their lengths say nothing about which of them are independent.
        components, mean = moved(self.components_, X), moved(self.mean_, X)
        wide = namespace(X).result_type(X, components)
        components = as_type(components, wide)
        lengths = _lengths(components)
        offsets = least_squares(components / lengths[:, None], (as_type(X, wide) / lengths).T).T
        return as_type(offsets + mean, X.dtype)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = self._on_devices
        return tags

    def _given(self, X: ArrayLike, y: ArrayLike, *, more: bool = False) -> Samples:
        """The samples and labels, here or on a cluster, as ``_labelled`` has them."""
        if is_on_dask(X) and self._sum_over_classes:
            return self._on_cluster(X, y, more=more)
        return self._labelled(X, y, more=more)

    def _labelled(self, X: ArrayLike, y: ArrayLike, *, more: bool = False) -> LabelledSamples:
        """The samples and labels, checked; more to what was learnt before, or all there are."""
        self._refuse_dask(X)
        refuse_device(self, X, able=self._on_devices)
        least = 1 if more else 2
        options = {
            "reset": not more,
            "dtype": _float_types(X),
            "ensure_min_samples": least,
        }
        y = to_host(y) if is_foreign(y) else y
        _refuse_conversion(X)
        if _dispatched(X):
            X = validate_data(self, detached(X), **options)
            y = check_X_y(np.zeros((X.shape[0], 1)), y, estimator=self)[1]
        else:
            X, y = validate_data(self, X, y, **options)
        samples = LabelledSamples.made(X, y)
        self._refuse_few(samples.classes, least)
        if not more:
            refuse_identical(*_limits(X))
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

    def _shared_bytes(self, sizes: Sequence[int], d: int) -> float:
        """The same for what is done on all samples at once, in classes of these sizes."""
        return 0.0

    def _fit_bytes(self, sizes: Sequence[int], d: int, at_once: int) -> float:
        """The same for a fit that works on so many classes at once, beside the samples given."""
        n = sum(sizes)
        return (
            BLOCKS * min(at_once, effective_n_jobs(-1))
            + frame_bytes(n, d)
            + solution_bytes(min(n, d))
            + self._shared_bytes(sizes, d)
            + sum(self._class_bytes(size, d) for size in sorted(sizes)[-at_once:])
        )

    def _refuse_beyond_memory(
        self, X: Array, sizes: Sequence[int], at_once: int | None = None
    ) -> None:
        """Refuse a fit to samples X in classes of these sizes, if there is no memory for it."""
        if not on_host(X):
            return  # a device has its own limits
        n, d = X.shape
        if at_once is None:
            at_once = max(effective_n_jobs(getattr(self, "n_jobs", None)), class_threads(sizes))
        refuse_beyond_memory(
            self._fit_bytes(sizes, d, at_once),
            f"{type(self).__name__} on {n} samples with {d} features, up to {max(sizes)} in a "
            "class,",
            self._memory_advice,
        )

    def _refuse_dask(self, X: Any) -> None:
        if is_on_dask(X):
            raise TypeError(
                f"{type(self).__name__} needs all samples here and does not take Dask collections, "
                "as fit of MPDA, PMPDA, LFDA and GramPCA does. If X fits into memory, give "
                "X.compute() and y.compute()."
            )

    def _refuse_elsewhere(self, X: Any, method: str) -> None:
        """With array API dispatch, what is mapped must be where the map is."""
        came = library(X) if is_foreign(X) else "numpy"
        if get_config()["array_api_dispatch"] and came != library(self.components_):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace "
                f"and the same device as those passed to fit(): X is of {came}, the components "
                f"are of {library(self.components_)}. Move X there; or, without "
                "array_api_dispatch, everything is brought to NumPy."
            )

    def _refuse_few(self, classes: Labels, least: int) -> None:
        if classes.size < least:
            raise ValueError(
                f"{type(self).__name__} separates classes, but y has only 1 class: "
                f"{classes.tolist()!r}. Give labels of at least 2 classes."
            )

    def _unlabelled(self, X: ArrayLike) -> Floats:
        self._refuse_dask(X)
        refuse_device(self, X, able=self._on_devices)
        _refuse_conversion(X)
        X = validate_data(self, detached(X), dtype=_float_types(X), ensure_min_samples=2)
        refuse_identical(*_limits(X))
        return X


def _refuse_containers(model: LinearMap) -> None:
    """Other output than arrays would be made by bringing all samples here."""
    own = getattr(model, "_sklearn_output_config", {})
    if own.get("transform", get_config()["transform_output"]) != "default":
        raise ValueError(
            "set_output and transform_output work on samples that are here: for Dask collections "
            'leave them at "default", which gives a Dask array.'
        )


def _dispatched(X: Any) -> bool:
    """Whether X is of another array library, and work on it is to be done there."""
    return bool(get_config()["array_api_dispatch"]) and is_foreign(X)


def refuse_device(estimator: Any, X: Any, *, able: bool) -> None:
    """Refuse arrays of another library where they cannot be worked on, or it was not asked for."""
    name = type(estimator).__name__
    if _dispatched(X) and not able:
        raise TypeError(
            f"{name} works on NumPy arrays, and X is of {library(X)}. MPDA, PMPDA, LFDA and "
            f"GramPCA work on such arrays where they are; for {name} give X as a NumPy array."
        )
    if is_foreign(X) and is_complex(X):
        raise ValueError(f"Complex data not supported: X is of {X.dtype}.")
    if _dispatched(X) and not can_be_changed(X):
        raise TypeError(
            f"{name} changes arrays in place, which those of {library(X)} do not allow: give X as "
            "a NumPy array, or of PyTorch or CuPy."
        )
    if _dispatched(X) and not has_double_precision(X):
        raise TypeError(
            f"{name} works in double precision, which {library(X)} does not have: move X to "
            "another device, or give it as a NumPy array."
        )
    if is_foreign(X) and not _dispatched(X) and on_other_device(X):
        raise TypeError(
            f"X is an array of {library(X)}. To have the work done there, set the environment "
            "variable SCIPY_ARRAY_API=1 before the first import of SciPy and call "
            "sklearn.set_config(array_api_dispatch=True); or give X as a NumPy array."
        )


def _refuse_conversion(X: Any) -> None:
    """Refuse integers, half precision and the like that do not fit into memory as doubles."""
    if isinstance(X, np.ndarray) and X.dtype not in (np.float64, np.float32):
        refuse_beyond_memory(
            8.0 * X.size,
            f"X of {X.shape} {X.dtype} in double precision",
            "Give a part of the samples or of the features, or X in single precision.",
        )


def _float_types(X: Any) -> list[Any]:
    """The types that are taken as they are; others become the first."""
    xp = namespace(X) if _dispatched(X) else np
    return [xp.float64, xp.float32]


def _mapped(X: Array, mean: Array, components: Array) -> Array:
    if on_host(X) or not is_foreign(X):
        X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
        if X.size > _MAPPED_ENTRIES:
            return _mapped_in_blocks(X, mean, components)
    offsets = X - moved(mean, X)
    # Not every library multiplies matrices of different precision.
    components = as_type(moved(components, X), offsets.dtype)
    return as_type(offsets @ components.T, X.dtype)


def _mapped_in_blocks(X: Array, mean: Array, components: Array) -> Array:
    """The same without a copy of all samples, which may be larger than memory."""
    shape = X.shape[0], components.shape[0]
    refuse_beyond_memory(
        BLOCKS + X.itemsize * float(shape[0]) * shape[1],
        f"Mapping {X.shape[0]} samples to {components.shape[0]} components",
        "Map them in parts, for example X[:100000].",
    )
    found = np.empty(shape, dtype=X.dtype)
    for rows in slices(X.shape[0], _MAPPED_ENTRIES // X.shape[1]):
        found[rows] = (X[rows] - mean) @ components.T
    return found


def _lengths(components: Array) -> Array:
    """The length of each component (r,), 1 for one of zeros; squares stay in range."""
    xp = namespace(components)
    largest = xp.max(xp.abs(components), axis=1)
    largest = xp.where(largest > 0.0, largest, 1.0)
    lengths = largest * xp.linalg.vector_norm(components / largest[:, None], axis=1)
    return xp.where(lengths > 0.0, lengths, 1.0)


def _limits(X: Array) -> tuple[Array, Array]:
    """The least and the largest value of each feature (d,)."""
    xp = namespace(X)
    return xp.min(X, axis=0), xp.max(X, axis=0)


def refuse_identical(low: Array, high: Array) -> None:
    if bool(namespace(low).all(low == high)):
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
