"""The rows of the comparison: each method as its authors ran it, and beyond the paper."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from mpda.assessment import Contender
from mpda.model_selection.methods import method


def _as_published(name: str, **more: Any) -> Contender:
    chosen = method(name)
    fixed = {**chosen.always, **chosen.published, **more.pop("fixed", {})}
    return Contender(name, chosen, fixed, chosen.published_grid(), **more)


def _beyond(title: str, name: str, *fixed: str, **more: Any) -> Contender:
    """A method with its whole grid but for the parameters that stay as published."""
    chosen = method(name)
    kept = {key: chosen.published[key] for key in fixed}
    grid = {key: values for key, values in chosen.grid.items() if key not in kept}
    grid |= more.pop("grid", {})
    kept |= more.pop("extra", {})
    return Contender(title, chosen, {**chosen.always, **kept}, grid, published=False, **more)


_LSDR = _as_published(
    "LSDR",
    fixed={"max_time": 2.0},
    dimensions=(10, 30, 90),
    skipped=("coil100", "optdigits"),
    note="has two seconds for a fit, and 10, 30 and 90 components are tried; like the paper, it is "
    "not run on COIL100 and OptDigits, for want of time",
)
_NCA = _beyond(
    "NCA",
    "NCA",
    extra={"random_state": 0},
    dimensions=(5, 10, 20, 40),
    note="is fitted anew for 5, 10, 20 and 40 components, with scikit-learn's defaults",
)
_NEW = {
    "grid": {"tangent_alpha": (None, 0.1)},
    "max_components": 60,
    "note": "has tangent_alpha and eigenvalue_power in the search, and up to 60 components",
}

_RIDGE = "has a ridge, tuned as MPDA's alpha is"

_ALL = (
    Contender("1-NN", note="sees the samples as they are, before PCA"),
    _as_published("PCA"),
    _as_published("LDA"),
    _as_published("MFA"),
    _as_published("LSDA"),
    _as_published("LFDA"),
    _as_published("LLTSA"),
    _LSDR,
    _as_published("LPFE"),
    _as_published("PMPDA"),
    _as_published("MPDA"),
    _NCA,
    _beyond("shrinkage LDA", "shrinkage LDA"),
    _beyond("MFA ridge", "MFA", "eigenvalue_power", note=_RIDGE),
    _beyond("LFDA ridge", "LFDA", "eigenvalue_power", note=_RIDGE),
    _beyond("PMPDA tuned", "PMPDA", **_NEW),
    _beyond("MPDA tuned", "MPDA", **_NEW),
)
CONTENDERS = MappingProxyType({contender.name: contender for contender in _ALL})
