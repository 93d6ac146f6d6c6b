"""What every method leaves behind: a linear map, and the checks of what it is learnt from."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mpda._lib.array_types import Array, ArrayLike, Floats, Labels
from mpda._lib.arrays import (
    array_namespace,
    astype,
    describe_library,
    detach,
    is_device_array,
    is_numpy,
    iter_slices,
    least_squares,
    move_to,
    to_host,
)
from mpda._lib.memory import refuse_beyond_memory
from mpda._lib.threads import class_threads
from mpda.estimators._checks import (
    check_array,
    check_X_y,
    validate_data,
)
from mpda.estimators._costs import BLOCKS, frame_bytes, solution_bytes
from mpda.estimators._inputs import (
    float_types,
    is_dispatched,
    limits,
    refuse_conversion,
    refuse_device,
    refuse_identical,
)
from mpda.estimators._samples import LabelledSamples, Samples, distinct_labels
from mpda.parallel import dask_engine, is_dask_collection

# Entries of samples that are mapped at a time.
_MAPPED_ENTRIES = 2_000_000


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
        if is_dask_collection(X):
            _refuse_containers(self)
            work = partial(_mapped, mean=self.mean_, components=self.components_)
            engine = dask_engine()
            validate_data(self, engine.described(X).sample(), reset=False)
            return engine.mapped(X, work, self.components_.shape[0])
        self._refuse_elsewhere(X, "transform")
        refuse_device(self, X, able=True)
        X = validate_data(self, detach(X), reset=False, dtype=float_types(X))
        return _mapped(X, self.mean_, self.components_)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """The samples (n, d) nearest to the training mean that map to X (n, n_components)."""
        check_is_fitted(self, "components_")
        self._refuse_dask(X)
        self._refuse_elsewhere(X, "inverse_transform")
        refuse_device(self, X, able=True)
        X = check_array(detach(X), dtype=float_types(X))
        n_components = self.components_.shape[0]
        if X.shape[1] != n_components:
            raise ValueError(
                f"X has {X.shape[1]} columns, but {type(self).__name__} maps to {n_components} "
                "components: give what transform returned."
            )
        # Components of length one: their lengths say nothing about which of them are independent.
        components, mean = move_to(self.components_, X), move_to(self.mean_, X)
        wide = array_namespace(X).result_type(X, components)
        components = astype(components, wide)
        lengths = _lengths(components)
        offsets = least_squares(components / lengths[:, None], (astype(X, wide) / lengths).T).T
        return astype(offsets + mean, X.dtype)

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
        if is_dask_collection(X) and self._sum_over_classes:
            return self._on_cluster(X, y, more=more)
        return self._labelled(X, y, more=more)

    def _labelled(self, X: ArrayLike, y: ArrayLike, *, more: bool = False) -> LabelledSamples:
        """The samples and labels, checked; more to what was learnt before, or all there are."""
        self._refuse_dask(X)
        refuse_device(self, X, able=self._on_devices)
        least = 1 if more else 2
        options = {
            "reset": not more,
            "dtype": float_types(X),
            "ensure_min_samples": least,
        }
        y = to_host(y) if is_device_array(y) else y
        refuse_conversion(X)
        if is_dispatched(X):
            X = validate_data(self, detach(X), **options)
            y = check_X_y(np.zeros((X.shape[0], 1)), y, estimator=self)[1]
        else:
            X, y = validate_data(self, X, y, **options)
        samples = LabelledSamples.made(X, y)
        self._refuse_few(samples.classes, least)
        if not more:
            refuse_identical(*limits(X))
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
        if not is_numpy(X):
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
        if is_dask_collection(X):
            raise TypeError(
                f"{type(self).__name__} needs all samples here and does not take Dask collections, "
                "as fit of MPDA, PMPDA, LFDA and GramPCA does. If X fits into memory, give "
                "X.compute() and y.compute()."
            )

    def _refuse_elsewhere(self, X: Any, method: str) -> None:
        """With array API dispatch, what is mapped must be where the map is."""
        came = describe_library(X) if is_device_array(X) else "numpy"
        if get_config()["array_api_dispatch"] and came != describe_library(self.components_):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace "
                f"and the same device as those passed to fit(): X is of {came}, the components "
                f"are of {describe_library(self.components_)}. Move X there; or, without "
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
        refuse_conversion(X)
        X = validate_data(self, detach(X), dtype=float_types(X), ensure_min_samples=2)
        refuse_identical(*limits(X))
        return X


def _refuse_containers(model: LinearMap) -> None:
    """Other output than arrays would be made by bringing all samples here."""
    own = getattr(model, "_sklearn_output_config", {})
    if own.get("transform", get_config()["transform_output"]) != "default":
        raise ValueError(
            "set_output and transform_output work on samples that are here: for Dask collections "
            'leave them at "default", which gives a Dask array.'
        )


def _mapped(X: Array, mean: Array, components: Array) -> Array:
    if is_numpy(X) or not is_device_array(X):
        X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
        if X.size > _MAPPED_ENTRIES:
            return _mapped_in_blocks(X, mean, components)
    offsets = X - move_to(mean, X)
    # Not every library multiplies matrices of different precision.
    components = astype(move_to(components, X), offsets.dtype)
    return astype(offsets @ components.T, X.dtype)


def _mapped_in_blocks(X: Array, mean: Array, components: Array) -> Array:
    """The same without a copy of all samples, which may be larger than memory."""
    shape = X.shape[0], components.shape[0]
    refuse_beyond_memory(
        BLOCKS + X.itemsize * float(shape[0]) * shape[1],
        f"Mapping {X.shape[0]} samples to {components.shape[0]} components",
        "Map them in parts, for example X[:100000].",
    )
    found = np.empty(shape, dtype=X.dtype)
    for rows in iter_slices(X.shape[0], _MAPPED_ENTRIES // X.shape[1]):
        found[rows] = (X[rows] - mean) @ components.T
    return found


def _lengths(components: Array) -> Array:
    """The length of each component (r,), 1 for one of zeros; squares stay in range."""
    xp = array_namespace(components)
    largest = xp.max(xp.abs(components), axis=1)
    largest = xp.where(largest > 0.0, largest, 1.0)
    lengths = largest * xp.linalg.vector_norm(components / largest[:, None], axis=1)
    return xp.where(lengths > 0.0, lengths, 1.0)
