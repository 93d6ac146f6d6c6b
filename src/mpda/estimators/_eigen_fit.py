"""The fit that LFDA, MFA, LSDA, LLTSA, LPFE and GraphDiscriminant share.

An estimator checks its parameters in ``check_parameters()`` and computes the directions of its
eigenproblem in ``solve(data)``. The functions below do the rest: they compute the stages of the
training data, set the attributes, and share stages between the parameter sets of a search.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.arrays import astype, numbers_to_device
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import (
    check_count,
    check_flag,
    check_jobs,
    check_number,
    validate_samples,
    warn_small_classes,
)
from mpda.baselines.ridge_eigenproblem import Solution
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.settings import parameter_key
from mpda.estimators._base import ComponentPath, split_by_class_weight, vary
from mpda.estimators._components import cast_components, scale_directions, warn_inaccurate
from mpda.exceptions import SingularFormError

# Parameters that only change the scale of the components, after the eigenproblem is solved.
_SCALE_PARAMETERS = ("eigenvalue_power", "orthonormal")

PathSolver = Callable[[Any, TrainingData, int | None], list[tuple[int, Solution]]]
"""Returns solutions with the smallest number of components for which each holds."""


def check_parameters(estimator: Any, min_neighbors: int = 1) -> None:
    """Check the parameters that all estimators of this module have.

    Parameters
    ----------
    estimator : estimator
        Its parameters are checked.
    min_neighbors : int, default=1
        Smallest allowed ``n_neighbors``.
    """
    if estimator.n_components is not None:
        check_count("n_components", estimator.n_components)
    check_count("n_neighbors", estimator.n_neighbors, least=min_neighbors)
    check_number("alpha", estimator.alpha)
    check_number("eigenvalue_power", estimator.eigenvalue_power)
    check_flag("orthonormal", estimator.orthonormal)
    check_jobs(getattr(estimator, "n_jobs", None))


def fit(estimator: Any, samples: Any) -> TrainingData:
    """Fit an estimator whose parameters were checked, and set its attributes.

    Parameters
    ----------
    estimator : estimator
        Has ``solve(data)`` and ``class_neighbors``.
    samples : LabelledSamples or ClusterSamples
        The validated samples.

    Returns
    -------
    TrainingData
        The samples with the stages that were computed.
    """
    if estimator.class_neighbors is not None:
        warn_small_classes(samples, estimator.class_neighbors, stacklevel=4)
    data = _training_data(estimator, samples)
    with one_blas_thread(samples.coordinates.dimension <= SMALL):
        solution = estimator.solve(data)
    if samples.classes.size > 0:
        estimator.classes_ = numbers_to_device(samples.classes, samples.coordinates.origin)
    components = _scale_solution(estimator, solution)
    estimator.components_ = cast_components(components, samples.dtype)
    estimator.eigenvalues_ = solution.directions.eigenvalues
    estimator.mean_ = astype(samples.mean, samples.dtype)
    estimator.units_ = {"alpha": solution.ridge}
    estimator.residual_ = solution.residual
    estimator.condition_ = solution.directions.condition
    warn_inaccurate(estimator.residual_, estimator.condition_, stacklevel=4)
    return data


def fit_many(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    parameter_sets: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] | None = None,
    solve_path: PathSolver | None = None,
) -> Iterator[ComponentPath]:
    """Fit an estimator with each of several parameter sets and share their work.

    Neighbour lists and scatter matrices are computed once for the parameters that they depend on;
    parameter sets that differ in the scale of the components only share their directions.

    Parameters
    ----------
    estimator : estimator
        Has ``check_parameters()``, ``solve(data)`` and the parameters of the module. It is not
        changed.
    X : array-like of shape (n_samples, n_features)
        Training samples.
    y : array-like of shape (n_samples,)
        Class labels.
    parameter_sets : sequence of dict
        Parameters and their values.
    n_components : sequence of int, default=None
        Numbers of components that are needed. None stands for all.
    solve_path : callable, default=None
        Replaces ``solve_nested`` for methods whose directions are not nested.

    Yields
    ------
    ComponentPath
        One or several for each parameter set.
    """
    for method, indices in split_by_class_weight(estimator, parameter_sets):
        sets = [parameter_sets[index] for index in indices]
        for path in _fit_group(method, X, y, sets, n_components, solve_path or solve_nested):
            yield replace(path, index=indices[path.index])


def _fit_group(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    parameter_sets: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] | None,
    solve_path: PathSolver,
) -> Iterator[ComponentPath]:
    """Yield the paths of parameter sets with one class weight, that of the estimator."""
    samples = validate_samples(estimator, X, y)
    groups: dict[Any, list[tuple[int, Any]]] = {}
    for index, method in enumerate(vary(estimator, parameter_sets)):
        method.set_params(n_components=None).check_parameters()
        shared = {k: v for k, v in method.get_params(False).items() if k not in _SCALE_PARAMETERS}
        key = tuple((name, parameter_key(value)) for name, value in shared.items())
        groups.setdefault(key, []).append((index, method))
    max_neighbors = max(methods[0][1].n_neighbors for methods in groups.values())
    data = _training_data(estimator, samples, max_neighbors)
    max_components = None if n_components is None else max(n_components)
    for methods in groups.values():
        try:
            solutions = solve_path(methods[0][1], data, max_components)
        except SingularFormError as error:
            for index, _ in methods:
                yield ComponentPath(index, None, failure=str(error))
            continue
        for first, solution in solutions:
            for index, method in methods:
                yield ComponentPath(index, _scale_solution(method, solution), first)


def solve_nested(
    method: Any, data: TrainingData, max_components: int | None
) -> list[tuple[int, Solution]]:
    """Solve one eigenproblem for all numbers of components.

    Parameters
    ----------
    method : estimator
        Has ``solve(data)``; its ``n_components`` is None.
    data : TrainingData
        The samples.
    max_components : int or None
        Largest number of components that is needed.

    Returns
    -------
    list of (int, Solution)
        The solution, from 1 component on.
    """
    solution = method.solve(data)
    return [(1, solution if max_components is None else solution.first(max_components))]


def _training_data(estimator: Any, samples: Any, max_neighbors: int = 0) -> TrainingData:
    title = type(estimator).__name__ if estimator.verbose else None
    return TrainingData(samples, getattr(estimator, "n_jobs", None), title, max_neighbors)


def _scale_solution(estimator: Any, solution: Solution) -> Array:
    """Return the directions of a solution as components (r, d)."""
    return scale_directions(
        solution.directions,
        estimator.eigenvalue_power,
        orthonormal=estimator.orthonormal,
        increasing=solution.increasing,
    )
