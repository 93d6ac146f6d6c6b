"""The points of a parameter grid and the numbers of components of a search.

Besides the points, a grid has the facts that the selection rules need: which points are neighbours,
how strong their ridge is, and how far they are from the usual parameters. Depends on
``estimators.methods``, which has the default grid of each method.
"""

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
from mpda.estimators._neighborhood_refinement import NeighborhoodRefinement
from mpda.estimators.methods import START_PREFIX, Method, find_method

# Parameters of a refinement in the order in which they are searched; others come after them.
_ORDER = (
    "radius",
    "objective",
    "n_candidates",
    "temperature",
    "penalty_per_coefficient",
    "penalty",
)
# The start as it is, without a sphere.
_NO_REFINEMENT = {"n_rounds": [0], "radius": [None]}
# Radii for which a single output is no constant.
_WITHOUT_CONSTANT = (None, np.inf, 0, "auto")


@dataclass(frozen=True)
class SearchGrid:
    """The points of a grid of parameters.

    Attributes
    ----------
    points : list of dict
        Parameters of the method, by their own names.
    prefix : str
        Prefix of these names in a pipeline, such as "mpda__"; else empty.
    axes : list of tuple of ndarray
        For each grid of a list and each of its parameters the positions of the values: numbers that
        are next to each other are 1 apart, values without an order 2.
    ridges : ndarray of shape (n_points,)
        alpha, 0 where it is not searched.
    steps : ndarray of shape (n_points,)
        Number of grid values between each point and the usual parameters of the method, where
        ``methods`` names any.
    """

    points: list[dict[str, Any]]
    prefix: str
    axes: list[tuple[Ints, ...]]
    ridges: Floats
    steps: Ints


def build_grid(estimator: Any, param_grid: Any) -> SearchGrid:
    """Build the grid of a search.

    Parameters
    ----------
    estimator : linear method, or a Pipeline that ends in one
        Method that is searched over.
    param_grid : dict, list of dict or None
        None is the default grid of the method.
    """
    method, entry = last_step(estimator), describe_method(estimator)
    prefix, usual = find_prefix(estimator), entry.usual
    if param_grid is None:
        param_grid = default_grid(estimator)
    grid_list = param_grid if isinstance(param_grid, list | tuple) else [param_grid]
    if not grid_list:
        raise ValueError("param_grid must have at least one grid, got an empty list.")
    grids = [_check_values(grid, method, prefix) for grid in grid_list]
    if entry.is_identity and any(grids):
        raise ValueError(f'"passthrough" has no parameters to search, got {param_grid!r}.')
    # Over all grids of a list, so that a value has one position wherever it stands.
    numbers = {name: _sorted_numbers(name, grids) for grid in grids for name in grid}
    points: list[dict[str, Any]] = []
    axes, steps = [], []
    for grid in grids:
        # Names in alphabetical order, the last varying fastest, as ParameterGrid has them.
        points += list(ParameterGrid(grid))
        names = sorted(grid)
        axes.append(tuple(_positions(grid[name], numbers[name]) for name in names))
        distances = [_distances_to_usual(grid[name], numbers[name], name, usual) for name in names]
        # The sum over parameters, for every point.
        steps.append(reduce(np.add.outer, distances, np.zeros((), dtype=np.intp)).ravel())
    # The ridge of a refinement is that of its first method.
    name = f"{START_PREFIX}alpha" if isinstance(method, NeighborhoodRefinement) else "alpha"
    usual_alpha = method.get_params().get(name, 0.0)
    alphas = [point.get(name, usual_alpha) for point in points]
    # Only for ties, so a wrong alpha is no error here: the fit refuses it with a better message.
    ridges = [float(alpha) if _is_number(alpha) else 0.0 for alpha in alphas]
    return SearchGrid(points, prefix, axes, np.array(ridges), np.concatenate(steps))


@dataclass(frozen=True)
class StagedGrid:
    """Grids of the stages in which a refinement is searched.

    First comes the start without a refinement, then the refinement of the selected start, and at
    last the number of components.

    Attributes
    ----------
    start : list of dict
        Grids of the first stage: parameters of the start, without a refinement or a sphere.
    refined : list of list of dict
        Grids of each stage that searches parameters of the refinement.
    waiting : dict
        Values of these parameters in the stages before their own.
    own_radius : float, str or None
        Radius of the estimator, where it is not searched.
    prefix : str
        Prefix of all names in a pipeline.
    """

    start: list[dict[str, Any]]
    refined: list[list[dict[str, Any]]]
    waiting: dict[str, Any]
    own_radius: float | str | None
    prefix: str

    def refined_stage(
        self, number: int, start: Mapping[str, Any], chosen: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the grids of a stage that searches parameters of the refinement.

        Parameters
        ----------
        number : int
            Number of the stage among those of the refinement, from 0.
        start : mapping
            Parameters that the first stage selected, with "no refinement" (``n_rounds=0``) among
            them. The last stage has them as a choice of its own.
        chosen : mapping
            Parameters that the stage before selected.

        Returns
        -------
        list of dict
            Empty if one output leaves no number for the constant of a sphere.
        """
        n_outputs = start[f"{self.prefix}n_components"]
        plain = {self.prefix + name for name in _NO_REFINEMENT}
        fixed = {name: v for name, v in self._fix(start).items() if name not in plain}
        fixed |= {self.prefix + name: [value] for name, value in self.waiting.items()}
        fixed |= self._fix(chosen)
        grids = []
        for grid in self.refined[number]:
            full = {**fixed, **{self.prefix + name: values for name, values in grid.items()}}
            radii = full.get(f"{self.prefix}radius", [self.own_radius])
            fitting = [r for r in radii if n_outputs > 1 or r in _WITHOUT_CONSTANT]
            if len(fitting) < len(radii):
                full[f"{self.prefix}radius"] = fitting
            if fitting:
                grids.append(full)
        is_last = number == len(self.refined) - 1
        return [self._fix(start), *grids] if is_last and grids else grids

    def last_stage(
        self, start: Mapping[str, Any], refined: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the grids of the last stage, which searches the number of components.

        Parameters
        ----------
        start : mapping
            Parameters that the first stage selected.
        refined : mapping
            Parameters that the stages of the refinement selected.
        """
        return [self._fix(start), self._fix(refined)]

    def is_start(self, parameters: Mapping[str, Any]) -> bool:
        """Whether parameters stand for the start without a refinement.

        Parameters
        ----------
        parameters : mapping
            Parameters of a row of the search.
        """
        return bool(parameters.get(f"{self.prefix}n_rounds") == 0)

    def _fix(self, parameters: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return a grid with one point; the number of components is left out."""
        number = f"{self.prefix}n_components"
        return {name: [value] for name, value in parameters.items() if name != number}


def build_stages(estimator: Any, param_grid: Any, *, retrieval: bool = False) -> StagedGrid | None:
    """Split the grid of a refinement into the grids of its stages.

    Of one grid the parameters of the refinement are searched one after another; the grids of a list
    are searched together.

    Parameters
    ----------
    estimator : linear method, or a Pipeline that ends in one
    param_grid : dict, list of dict or None
        None is the default grid.
    retrieval : bool, default=False
        True for the default grid of a search that scores retrieval.

    Returns
    -------
    StagedGrid or None
        None if the search has one stage: the method is no refinement, or a grid says itself by
        ``n_rounds`` whether "no refinement" is among the choices.
    """
    method, prefix = last_step(estimator), find_prefix(estimator)
    if not isinstance(method, NeighborhoodRefinement):
        return None
    grids = default_grid(estimator, retrieval=retrieval) if param_grid is None else param_grid
    start, refined = [], []
    for grid in grids if isinstance(grids, list | tuple) else [grids]:
        values = _check_values(grid, method, prefix)
        if "n_rounds" in values:
            return None
        of_start = {k: v for k, v in values.items() if k.startswith(START_PREFIX)}
        start.append({**of_start, **_NO_REFINEMENT})
        refined.append({k: v for k, v in values.items() if k not in of_start})
    if isinstance(grids, list | tuple):
        return StagedGrid(start, [refined], {}, method.radius, prefix)
    values = refined[0]
    usual = {**method.get_params(deep=False), **describe_method(estimator).usual}
    waiting = {name: v[_find_usual(v, usual[name])] for name, v in values.items()}
    names = [name for name in (*_ORDER, *sorted(values.keys() - set(_ORDER))) if name in values]
    stages = [[{name: values[name]}] for name in names if len(values[name]) > 1]
    return StagedGrid(start, stages or [[{}]], waiting, method.radius, prefix)


def default_grid(estimator: Any, *, retrieval: bool = False) -> dict[str, Any]:
    """Return the grid of a method that none is given for.

    Parameters
    ----------
    estimator : linear method, or a Pipeline that ends in one
        Method that is searched over. A refinement with a penalty of its own keeps it.
    retrieval : bool, default=False
        True for a search that scores retrieval.
    """
    grid = dict(describe_method(estimator, retrieval=retrieval).grid)
    if getattr(last_step(estimator), "penalty", None) is not None:
        grid.pop("penalty_per_coefficient", None)
    return grid


def last_step(estimator: Any) -> Any:
    """Return the method that a search varies: the estimator, or the last step of a pipeline."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def find_prefix(estimator: Any) -> str:
    """Return the prefix of the method's parameters in a pipeline, such as "mpda__"; else ""."""
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""


def describe_method(estimator: Any, *, retrieval: bool = False) -> Method:
    """Return the facts about the method that a search varies.

    Parameters
    ----------
    estimator : linear method, or a Pipeline that ends in one
    retrieval : bool, default=False
        As in `find_method`.

    Raises
    ------
    TypeError
        If it is not linear.
    """
    method = last_step(estimator)
    entry = find_method(method, retrieval=retrieval)
    if entry is None:
        is_class = isinstance(method, type)
        name = f"the class {method.__name__}" if is_class else type(method).__name__
        if isinstance(method, Pipeline):
            name = "a Pipeline inside a Pipeline (make one of all steps)"
        raise TypeError(
            "estimator must be a linear method, or a Pipeline that ends in one, got "
            f"{name}. Linear methods are those of mpda, a "
            "NeighborhoodRefinement of one, PCA, TruncatedSVD, LinearDiscriminantAnalysis (with "
            'solver "svd" or "eigen") and NeighborhoodComponentsAnalysis of scikit-learn, and '
            '"passthrough" for the features as they are. GridSearchCV searches other estimators.'
        )
    return entry


def _check_values(grid: Any, method: Any, prefix: str) -> dict[str, list[Any]]:
    """Return the values of each parameter, by the method's own names.

    In a pipeline a name may come with or without the name of the last step.
    """
    if not isinstance(grid, Mapping):
        raise TypeError(f"param_grid must be a dict or a list of dicts, got {type(grid).__name__}.")
    checked: dict[str, list[Any]] = {}
    for full_name, values in grid.items():
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(f"param_grid[{full_name!r}] must be a list of values, got {values!r}.")
        name = str(full_name).removeprefix(prefix)
        if name in checked:
            raise ValueError(f"param_grid names {name} twice, as {name!r} and {prefix + name!r}.")
        checked[name] = list(values)
        if not checked[name]:
            raise ValueError(f"param_grid[{full_name!r}] must have at least one value, got none.")
    _refuse_unknown(checked, method, prefix)
    return checked


def _find_usual(values: Sequence[Any], usual: Any) -> int:
    """Return the index of the usual value, or of the first one where it is not among the values."""
    return next((i for i, value in enumerate(values) if value == usual), 0)


def _sorted_numbers(name: str, grids: Sequence[Mapping[str, Sequence[Any]]]) -> list[float]:
    """Return the distinct numbers that the grids have for a parameter, or [] if some are none."""
    values = [value for grid in grids for value in grid.get(name, ())]
    return sorted(set(map(float, values))) if all(map(_is_number, values)) else []


def _positions(values: Sequence[Any], numbers: Sequence[float]) -> Ints:
    """Return the position of each value among all numbers; values without an order are 2 apart."""
    if not numbers:
        return 2 * np.arange(len(values))
    return np.array([numbers.index(float(value)) for value in values], dtype=np.intp)


def _distances_to_usual(
    values: Sequence[Any], numbers: Sequence[float], name: str, usual: Mapping[str, Any]
) -> Ints:
    """Return how many steps each value is from the usual one, or from the number nearest to it."""
    if name not in usual or (usual[name] is None and None not in values):
        return np.zeros(len(values), dtype=np.intp)
    if not numbers:  # without an order all other values are one step away
        return np.array([value != usual[name] for value in values], dtype=np.intp)
    # Grids are mostly geometric: nearest by ratio if all numbers are positive.
    scaled = np.array([*numbers, usual[name]])
    scaled = np.log(scaled) if scaled.min() > 0 else scaled
    nearest = int(np.argmin(np.abs(scaled[:-1] - scaled[-1])))
    return np.abs(_positions(values, numbers) - nearest)


def _is_number(value: Any) -> bool:
    # Booleans are numbers to Python, but True is not a step away from False.
    return isinstance(value, Real) and not isinstance(value, bool)


def _refuse_unknown(values: Mapping[str, Any], method: Any, prefix: str) -> None:
    """Raise an error for names that are no parameters of the method."""
    # Only a refinement has an estimator inside, whose parameters may be searched too.
    names = set(method.get_params()) - {"n_components", f"{START_PREFIX}n_components"}
    for name in values:
        if name == "n_components":
            raise ValueError(
                "param_grid must not have n_components: every number of components is tried for "
                "every point; the parameter n_components of the search says which."
            )
        if name == START_PREFIX.removesuffix("__") and name in names:
            raise ValueError(
                f"param_grid must not have {name!r}: parameters of the first method are searched "
                "before those of the refinement. Run a search for each method and compare their "
                "best_score_."
            )
        if name not in names:
            step = " (only the last step of a pipeline is searched)" if prefix else ""
            raise ValueError(
                f"param_grid has {name!r}, which is no parameter of {type(method).__name__}{step}. "
                f"It has {', '.join(sorted(names))}."
            )


def check_n_components(n_components: Any) -> tuple[int, ...] | int | None:
    """Check the numbers of components of a search.

    Returns
    -------
    tuple of int, int or None
        The numbers that the user listed, the largest number, or None for all.
    """
    if isinstance(n_components, str):
        check_option("n_components", n_components, ("all",), also=", an int or a list of ints")
        return None
    if np.iterable(n_components):
        numbers = tuple(sorted({check_count("n_components", r) for r in n_components}))
        if not numbers:
            raise ValueError("n_components must have at least one number, got none.")
        return numbers
    return check_count("n_components", n_components)
