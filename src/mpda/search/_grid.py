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

from mpda._typing import Floats, Ints
from mpda._validation import check_count, check_option
from mpda.estimators._linear_map import LinearMap
from mpda.methods import METHODS, Method


@dataclass(frozen=True)
class SearchGrid:
    """The points of a grid.

    points : parameters of the method, by their own names
    prefix : what the estimator puts before these names
    shapes : the numbers of values of each grid of a list
    ridges : (points,) alpha, 0 where it is not searched
    steps : (points,) how many values of the grid each point is away from the usual parameters of
        the method: those of ``mpda.methods``, else those that the estimator was given
    """

    points: list[dict[str, Any]]
    prefix: str
    shapes: list[tuple[int, ...]]
    ridges: Floats
    steps: Ints

    @classmethod
    def of(cls, estimator: Any, param_grid: Any) -> SearchGrid:
        method = last_step(estimator)
        prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
        listed = _listed(method)
        if param_grid is None:
            param_grid = dict(listed.grid) if listed else {"alpha": [0.0, 1e-3, 1e-2, 1e-1, 1.0]}
        usual = {**method.get_params(deep=False), **(listed.usual if listed else {})}
        grids = param_grid if isinstance(param_grid, list | tuple) else [param_grid]
        points: list[dict[str, Any]] = []
        shapes = []
        steps: list[Ints] = []
        for each in grids:
            values = {name.removeprefix(prefix): list(v) for name, v in _checked(each).items()}
            _refuse_unknown(values, method, prefix)
            # Names in alphabetical order, the last varying fastest, as ParameterGrid has them.
            points += list(ParameterGrid(values))
            shapes.append(tuple(len(values[name]) for name in sorted(values)))
            away = [_away(values[name], usual[name]) for name in sorted(values)]
            # The sum over parameters for every point, the last parameter varying fastest.
            steps.append(reduce(np.add.outer, away, np.zeros((), dtype=np.intp)).ravel())
        default = float(getattr(method, "alpha", 0.0))
        ridges = np.array([float(point.get("alpha", default)) for point in points])
        return cls(points, prefix, shapes, ridges, np.concatenate(steps))


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


def _away(values: Sequence[Any], usual: Any) -> Ints:
    """How many of the values lie between each and the one nearest to the usual value.

    Values that are not numbers are one step away unless they are the usual one. Where the usual
    value is no number and not among them, none is nearer than another.
    """
    if usual in values and not all(map(_is_number, values)):
        return np.array([value != usual for value in values], dtype=np.intp)
    if not (_is_number(usual) and all(map(_is_number, values))):
        return np.zeros(len(values), dtype=np.intp)
    numbers = np.array(values, dtype=float)
    ranks = np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
    # Grids are mostly geometric: the nearest by ratio where there is one.
    scaled = np.log(np.append(numbers, usual)) if min(*values, usual) > 0 else [*numbers, usual]
    gaps = np.abs(np.subtract(scaled[:-1], scaled[-1]))
    return np.abs(ranks - ranks[np.argmin(gaps)])


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _checked(grid: Any) -> Mapping[str, Sequence[Any]]:
    if not isinstance(grid, Mapping):
        raise TypeError(f"param_grid must be a dict or a list of dicts, got {type(grid).__name__}.")
    for name, values in grid.items():
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(f"param_grid[{name!r}] must be a list of values, got {values!r}.")
        if len(list(values)) == 0:
            raise ValueError(f"param_grid[{name!r}] must have at least one value, got none.")
    return grid


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
