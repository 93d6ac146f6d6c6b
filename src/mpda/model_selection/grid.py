"""The points of a grid and the numbers of components that a search tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from mpda._lib.array_types import Floats, Ints
from mpda._lib.validation import check_count, check_option
from mpda.estimators._linear_map import LinearMap
from mpda.model_selection.methods import METHODS, Method


@dataclass(frozen=True)
class SearchGrid:
    """The points of a grid.

    points : parameters of the method, by their own names
    prefix : what the estimator puts before these names
    axes : the places of the values of each parameter, for each grid of a list
    ridges : (points,) alpha, 0 where it is not searched
    steps : (points,) how many values of the grid each point is away from the usual parameters of
        the method, where ``mpda.model_selection.methods`` names any
    """

    points: list[dict[str, Any]]
    prefix: str
    axes: list[tuple[Ints, ...]]
    ridges: Floats
    steps: Ints

    @classmethod
    def of(cls, estimator: Any, param_grid: Any) -> SearchGrid:
        method = last_step(estimator)
        prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
        listed = _listed(method)
        if param_grid is None:
            param_grid = dict(listed.grid) if listed else {"alpha": [0.0, 1e-3, 1e-2, 1e-1, 1.0]}
        given = param_grid if isinstance(param_grid, list | tuple) else [param_grid]
        if not given:
            raise ValueError("param_grid must have at least one grid, got an empty list.")
        grids = [_values(each, method, prefix) for each in given]
        every = {name: _ordered(name, grids) for grid in grids for name in grid}
        usual = listed.usual if listed else {}
        points: list[dict[str, Any]] = []
        axes = []
        steps = []
        for grid in grids:
            # Names in alphabetical order, the last varying fastest, as ParameterGrid has them.
            points += list(ParameterGrid(grid))
            names = sorted(grid)
            axes.append(tuple(_places(grid[name], every[name]) for name in names))
            away = [_away(grid[name], every[name], usual.get(name)) for name in names]
            # The sum over parameters for every point.
            steps.append(reduce(np.add.outer, away, np.zeros((), dtype=np.intp)).ravel())
        ridges = [_ridge(point.get("alpha", getattr(method, "alpha", 0.0))) for point in points]
        return cls(points, prefix, axes, np.array(ridges), np.concatenate(steps))


def last_step(estimator: Any) -> LinearMap:
    method = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(method, LinearMap):
        raise TypeError(
            "estimator must be a method of mpda, or a Pipeline that ends in one, got "
            f"{type(method).__name__}. GridSearchCV searches other estimators."
        )
    return method


def _listed(method: LinearMap) -> Method | None:
    """The method's entry in the list of methods."""
    return next((m for m in METHODS if m.is_ours and isinstance(method, m.estimator)), None)


def _values(grid: Any, method: LinearMap, prefix: str) -> dict[str, list[Any]]:
    """The values of each parameter, by the method's own names."""
    if not isinstance(grid, Mapping):
        raise TypeError(f"param_grid must be a dict or a list of dicts, got {type(grid).__name__}.")
    found: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(f"param_grid[{name!r}] must be a list of values, got {values!r}.")
        own = str(name).removeprefix(prefix)
        if own in found:
            raise ValueError(f"param_grid names {own} twice, as {own!r} and {prefix + own!r}.")
        found[own] = list(values)
        if not found[own]:
            raise ValueError(f"param_grid[{name!r}] must have at least one value, got none.")
    _refuse_unknown(found, method, prefix)
    return found


def _ordered(name: str, grids: Sequence[Mapping[str, Sequence[Any]]]) -> list[float]:
    """All numbers that the grids have for a parameter, increasing; none if not all are numbers."""
    values = [value for grid in grids for value in grid.get(name, ())]
    return sorted(set(map(float, values))) if all(map(_is_number, values)) else []


def _places(values: Sequence[Any], ordered: Sequence[float]) -> Ints:
    """The place of each value: of a number among all, of others so that none is next to another."""
    if not ordered:
        return 2 * np.arange(len(values))
    return np.array([ordered.index(float(value)) for value in values], dtype=np.intp)


def _away(values: Sequence[Any], ordered: Sequence[float], usual: Any) -> Ints:
    """How many steps each value is from the number nearest to the usual one; 0 without one."""
    if usual is None or not ordered:
        return np.zeros(len(values), dtype=np.intp)
    # Grids are mostly geometric: the nearest by ratio where there is one.
    scaled = np.log([*ordered, usual]) if min(*ordered, usual) > 0 else np.array([*ordered, usual])
    home = int(np.argmin(np.abs(scaled[:-1] - scaled[-1])))
    return np.abs(_places(values, ordered) - home)


def _ridge(alpha: Any) -> float:
    """alpha as a number for ties; what is none is refused by the method."""
    return float(alpha) if _is_number(alpha) else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _refuse_unknown(values: Mapping[str, Any], method: LinearMap, prefix: str) -> None:
    known = method.get_params(deep=False)
    for name in values:
        if name == "n_components":
            raise ValueError(
                "param_grid must not have n_components: every number of components is tried for "
                "every point; the parameter n_components of the search says which."
            )
        if name not in known:
            step = " (only the last step of a pipeline is searched)" if prefix else ""
            raise ValueError(
                f"param_grid has {name!r}, which is no parameter of {type(method).__name__}{step}. "
                f"It has {', '.join(sorted(set(known) - {'n_components'}))}."
            )


@dataclass(frozen=True)
class Dimensions:
    """Which numbers of components are tried: those given, or all up to ``most``."""

    given: tuple[int, ...] | None
    most: int | None


def wanted_dimensions(n_components: Any) -> Dimensions:
    if isinstance(n_components, str):
        check_option("n_components", n_components, ("all",), also=", an int or a list of ints")
        return Dimensions(None, None)
    if np.iterable(n_components):
        given = tuple(sorted({check_count("n_components", r) for r in n_components}))
        if not given:
            raise ValueError("n_components must have at least one number, got none.")
        return Dimensions(given, given[-1])
    return Dimensions(None, check_count("n_components", n_components))
