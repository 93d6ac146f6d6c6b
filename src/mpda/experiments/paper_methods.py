"""Methods of the comparison: those of the paper as their authors ran them, and extensions.

A contender is a method of ``mpda.estimators.methods`` with fixed parameters and a grid from
which cross-validation on the training samples selects. The paper's methods keep their published
form (no ridge for the baselines, one ridge for MPDA and PMPDA). Everything beyond the paper is a
contender of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mpda.assessment import Contender
from mpda.estimators.methods import START_PREFIX, Method, method
from mpda.experiments.protocol import PROBLEMS


def _published(name: str, **options: Any) -> Contender:
    """Return a method of the paper, as published; its grid has the remaining parameters."""
    entry = method(name)
    fixed = {**entry.always, **entry.published, **options.pop("fixed", {})}
    return Contender(name, entry, fixed, entry.published_grid(), **options)


def _extended(title: str, name: str, *unchanged: str, **options: Any) -> Contender:
    """Return a method with its full grid; parameters in ``unchanged`` stay as published."""
    entry = method(name)
    fixed = {key: entry.published[key] for key in unchanged}
    grid = {key: values for key, values in entry.grid.items() if key not in fixed}
    grid |= options.pop("grid", {})
    fixed = {**entry.always, **fixed, **options.pop("fixed", {})}
    return Contender(title, entry, fixed, grid, published=False, **options)


_SHARED_NOTE = "its inner folds share the PCA of all training samples"
_RIDGE_NOTE = "has a ridge, tuned as MPDA's alpha is"
# Every tuned method has these ridges, these powers and this many components, so that a comparison
# of tuned methods is not one of searches.
_TUNED_GRID = {name: method("MPDA").grid[name] for name in ("alpha", "eigenvalue_power")}
_MAX_TUNED = 60
_TUNED_NOTE = f"has MPDA's ridges and powers in the search, and up to {_MAX_TUNED} components"
_TUNED: dict[str, Any] = {
    "grid": {**_TUNED_GRID, "tangent_alpha": (None, 0.1)},
    # The error curves of all problems are flat well below 60 components.
    "max_components": _MAX_TUNED,
    "note": f"{_TUNED_NOTE}; tangent_alpha is in the search too",
}


# The first defaults of the refinement, with which that on a sphere is compared.
EUCLIDEAN = {"radius": None, "temperature": 4.0}
# Refined maps are not nested, so every number needs a fit.
_REFINED_COUNTS = (5, 10, 20, 40)


def _list(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _refined(title: str, start: str, start_grid: Mapping[str, tuple[Any, ...]]) -> Contender:
    """Return the refinement of a method: its start is searched first, then the refinement."""
    entry = method(f"{start} refined")
    grid = {f"{START_PREFIX}{name}": values for name, values in start_grid.items()}
    own = {name: v for name, v in entry.grid.items() if not name.startswith(START_PREFIX)}
    note = "searches the start first, then the refinement (radius, temperature, penalty), or none"
    return Contender(
        title,
        entry,
        grid={**grid, **own},
        max_components=_MAX_TUNED,
        published=False,
        note=note,
    )


def _rival(title: str, name: str, grid: Mapping[str, tuple[Any, ...]]) -> Contender:
    """Return a method of the metric-learning literature, tuned like the others."""
    entry = Method(name, f"mpda.experiments.rivals:{name}", "its own")
    return Contender(
        title, entry, grid=grid, max_components=_MAX_TUNED, published=False, note=_TUNED_NOTE
    )


_CONTENDERS = (
    # The level that every reduction of the dimension has to beat.
    Contender("1-NN", note="sees the samples as they are, before PCA"),
    *map(_published, ("PCA", "LDA", "MFA", "LSDA", "LFDA")),
    _published("LLTSA"),
    _published(
        "LSDR",
        # Seconds a fit. Without a limit one split of MNIST would take hours.
        fixed={"max_time": 2.0},
        component_counts=(10, 30, 90),
        skipped=("coil100", "optdigits"),
        note="has two seconds for a fit, and 10, 30 and 90 components are tried; like the paper, "
        "it is not run on COIL100 and OptDigits, for want of time; "
        f"{_SHARED_NOTE}",
    ),
    _published("LPFE"),
    _published("PMPDA"),
    _published("MPDA"),
    _extended(
        "NCA",
        "NCA",
        fixed={"random_state": 0},
        # Its components are not nested, so every number needs a fit: four for each split and fold.
        component_counts=(5, 10, 20, 40),
        note="is fitted anew for 5, 10, 20 and 40 components, with scikit-learn's defaults",
    ),
    _extended("shrinkage LDA", "shrinkage LDA"),
    _extended("MFA ridge", "MFA", "eigenvalue_power", note=_RIDGE_NOTE),
    _extended("LFDA ridge", "LFDA", "eigenvalue_power", note=_RIDGE_NOTE),
    _extended("MFA tuned", "MFA", grid=_TUNED_GRID, max_components=_MAX_TUNED, note=_TUNED_NOTE),
    _extended("LFDA tuned", "LFDA", grid=_TUNED_GRID, max_components=_MAX_TUNED, note=_TUNED_NOTE),
    _rival("ridge LDA tuned", "RidgeLDA", _TUNED_GRID),
    # The position on the geodesic takes the place of the power.
    _rival(
        "GMML tuned",
        "GMML",
        {"alpha": _TUNED_GRID["alpha"], "geodesic": (0.1, 0.3, 0.5, 0.7, 0.9)},
    ),
    _rival("DMLMJ tuned", "DMLMJ", {**_TUNED_GRID, "n_neighbors": (5, 10, 20)}),
    _extended(
        "PMPDA tuned",
        "PMPDA",
        **{**_TUNED, "note": f"{_TUNED['note']}; {_SHARED_NOTE}"},
    ),
    _extended("MPDA tuned", "MPDA", **_TUNED),
    Contender(
        "MPDA refined",
        method("MPDA refined"),
        component_counts=_REFINED_COUNTS,
        published=False,
        note=f"has the defaults of MPDA and of the refinement, with {_list(_REFINED_COUNTS)} "
        "numbers, of which one is the constant of the sphere",
    ),
    Contender(
        "MPDA refined Euclidean",
        method("MPDA refined"),
        fixed=EUCLIDEAN,
        component_counts=_REFINED_COUNTS,
        published=False,
        note="is the same without a sphere, with temperature 4",
    ),
    _refined("PCA refined", "PCA", {}),
    _refined("LFDA tuned refined", "LFDA", {**method("LFDA").grid, **_TUNED_GRID}),
    _refined("MPDA tuned refined", "MPDA", {**method("MPDA").grid, **_TUNED["grid"]}),
    Contender(
        "NCA from MPDA",
        Method("NCA from MPDA", "mpda.experiments.rivals:StartedNCA", "its own", is_nested=False),
        component_counts=_REFINED_COUNTS,
        published=False,
        note=f"is scikit-learn's NCA with MPDA as its start, with {_list(_REFINED_COUNTS)} "
        "components",
    ),
)
# Methods that are run on USPS without PCA. With 256 features the others take minutes for a draw.
_WITHOUT_PCA = (
    "1-NN",
    "PCA",
    "LDA",
    "shrinkage LDA",
    "MFA",
    "MFA ridge",
    "LSDA",
    "LFDA",
    "LFDA ridge",
    "LLTSA",
    "MPDA",
)
_RAW_PROBLEMS = tuple(problem.name for problem in PROBLEMS.values() if not problem.reduced)
_CONTENDERS = tuple(
    c if c.name in _WITHOUT_PCA else replace(c, skipped=(*c.skipped, *_RAW_PROBLEMS))
    for c in _CONTENDERS
)
# A smaller grid where the full one would take hours for a split: large classes of USPS.
_USPS_GRIDS = {
    "PMPDA": {"n_neighbors": (10, 20), "gamma": (0.1, 1.0), "alpha": method("PMPDA").grid["alpha"]}
}


def select_contenders(names: Sequence[str], problems: Sequence[str]) -> list[Contender]:
    """Return contenders with the grids that they have on these problems.

    Parameters
    ----------
    names : sequence of str
        Keys of ``CONTENDERS``.
    problems : sequence of str
        Names of problems.

    Returns
    -------
    list of Contender
        With a smaller grid for PMPDA if all problems are those of USPS.
    """
    chosen = [CONTENDERS[name] for name in names]
    if not all(problem.startswith("usps") for problem in problems):
        return chosen
    return [replace(c, grid=_USPS_GRIDS.get(c.name, c.grid)) for c in chosen]


# Methods whose inner folds share the PCA of all training samples.
SHARED_PCA = ("LSDR", "PMPDA tuned")
# Methods that refine the map of another one.
SECOND_STAGE = (
    *(c.name for c in _CONTENDERS if c.method is not None and c.method.start),
    "NCA from MPDA",
)
# Methods whose search has the same ridges, powers and numbers of components.
SAME_SEARCH = tuple(
    c.name for c in _CONTENDERS if c.max_components == _MAX_TUNED and c.name not in SECOND_STAGE
)
CONTENDERS = MappingProxyType({contender.name: contender for contender in _CONTENDERS})
