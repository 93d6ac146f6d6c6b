"""Parameter checks and their messages: the parameter, what is allowed, what came, what to do."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from mpda._lib.array_types import Ints, Labels


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """A whole number that is at least ``least``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an int of at least {least}, got {_shown(value)}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}.")
    return int(value)


def check_number(
    name: str,
    value: Any,
    *,
    least: float = 0.0,
    most: float = math.inf,
    below: float = math.inf,
) -> float:
    """A finite number from ``least`` to ``most``, and less than ``below``."""
    if below < math.inf:
        allowed = f"a number from {least:g} to less than {below:g}"
    elif most < math.inf:
        allowed = f"a number from {least:g} to {most:g}"
    else:
        allowed = f"a finite number of at least {least:g}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {allowed}, got {_shown(value)}.")
    if not (math.isfinite(value) and least <= float(value) <= most and float(value) < below):
        raise ValueError(f"{name} must be {allowed}, got {value!r}.")
    return float(value)


def resolve_seed(random_state: Any) -> Any:
    """The same, and a new seed for None: NumPy's global generator is left alone."""
    return int(np.random.default_rng().integers(2**31)) if random_state is None else random_state


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {_shown(value)}.")
    return bool(value)


def check_option(name: str, value: Any, options: Sequence[str], *, also: str = "") -> str:
    """One of the options; ``also`` names in words what else the caller has handled before."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}{also}, got {_shown(value)}.")
    return value


def check_patches(patches: Any, y: Labels) -> Ints:
    """Integer patch labels, one per sample, that stay inside classes; -1 is a patch of its own."""
    labels = np.asarray(patches)
    if labels.ndim != 1 or labels.shape[0] != y.shape[0]:
        raise ValueError(
            f"patches must hold one label per sample, shape ({y.shape[0]},), got {labels.shape}."
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(f"patches must hold integers, got an array of {labels.dtype}.")
    alone = labels == -1
    values, codes = np.unique(labels, return_inverse=True)
    classes = np.unique(y, return_inverse=True)[1]
    in_classes = np.unique(np.column_stack([codes, classes])[~alone], axis=0)[:, 0]
    counts = np.bincount(in_classes, minlength=values.size)
    if (counts > 1).any():
        mixed = values[counts > 1][0]
        inside = ", ".join(repr(c) for c in np.unique(y[labels == mixed]).tolist())
        raise ValueError(
            f"patches must not mix classes, but patch {mixed} has samples of classes {inside}. "
            "Number the patches of each class apart."
        )
    return np.where(alone, -1, codes)


def check_jobs(n_jobs: Any) -> int | None:
    """None or a whole number other than 0, as joblib reads it."""
    whole = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool | np.bool_)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None or an int other than 0 (-1 for all cores), got {_shown(n_jobs)}."
        )
    return None if n_jobs is None else int(n_jobs)


def _shown(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"
