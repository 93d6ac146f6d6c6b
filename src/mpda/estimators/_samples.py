"""Samples with labels: what is learnt from, in classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mpda._lib.array_types import Array, Bools, Ints, Labels
from mpda._lib.arrays import is_numpy, take, to_device
from mpda._lib.coordinates import Coordinates, build_coordinates
from mpda._lib.memory import refuse_beyond_memory
from mpda.estimators._checks import check_classification_targets
from mpda.exceptions import SmallClassWarning
from mpda.parallel import map_ordered, map_serial


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
    def view(self) -> Coordinates: ...
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
        return map_ordered if is_numpy(self.X) else map_serial

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    def view(self) -> Coordinates:
        """The frame of the samples."""
        return build_coordinates(self.X)

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
        return LabelledSamples.made(take(self.X, to_device(chosen, self.X)), self.y[chosen])

    def marks(self, mark: Callable[[Array], bytes]) -> list[bytes]:
        """What ``mark`` says of the samples of each class."""
        return [mark(take(self.X, to_device(each, self.X))) for each in self.members]

    def refuse_beyond(self, needed: Callable[[int], float], advice: str) -> None:
        """Refuse the largest class if what it needs, in bytes from its size, is not there."""
        largest = max(self.sizes)
        label = self.classes.tolist()[self.sizes.index(largest)]
        what = f"Class {label!r} with {largest} samples"
        refuse_beyond_memory(needed(largest), what, advice)


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
