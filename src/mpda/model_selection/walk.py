"""The directions of every grid point on the same samples, with their work shared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from mpda._lib.coordinates import Coordinates, build_coordinates
from mpda._lib.threads import SMALL, one_blas_thread
from mpda.discriminant.eigenproblem import Directions
from mpda.discriminant.sharing import shared_directions
from mpda.estimators._discriminant import TangentDiscriminant
from mpda.estimators._eigen_method import MOST_NEIGHBORS, EigenMethod, Memo
from mpda.estimators._linear_map import LinearMap
from mpda.estimators._lltsa import LLTSA
from mpda.estimators._samples import LabelledSamples
from mpda.estimators._scale import Scale
from mpda.exceptions import SingularFormError
from mpda.model_selection.grid import Dimensions

# Parameters that only change the scale of the components: they cost no new solution.
_SCALE = ("eigenvalue_power", "orthonormal")


@dataclass(frozen=True)
class Solved:
    """Directions that serve some grid points, each with its scale.

    places : the numbers of components that they are for, counted from 0; None for all
    failure : why there are none
    """

    points: list[int]
    scales: list[Scale]
    directions: Directions | None
    places: slice | None = None
    failure: str | None = None


@dataclass(frozen=True)
class _Variant:
    """The method with the parameters of some grid points, which differ in scale only."""

    method: Any
    points: list[int]
    scales: list[Scale]

    def solved(self, directions: Directions, places: slice | None = None) -> Solved:
        return Solved(self.points, self.scales, directions, places)

    def failed(self, error: Exception) -> Solved:
        return Solved(self.points, self.scales, None, failure=str(error))


def _variants(method: LinearMap, points: list[dict[str, Any]]) -> list[_Variant]:
    together: dict[str, _Variant] = {}
    for i, point in enumerate(points):
        plain = {name: value for name, value in point.items() if name not in _SCALE}
        key = repr(sorted(plain.items()))
        if key not in together:
            together[key] = _Variant(clone(method).set_params(**plain), [], [])
        own = clone(method).set_params(**point)
        if isinstance(own, EigenMethod):
            own._check()
        together[key].points.append(i)
        together[key].scales.append(_scale(own))
    return list(together.values())


def _scale(method: Any) -> Scale:
    return Scale(
        getattr(method, "eigenvalue_power", 0.0),
        getattr(method, "_unit_rows", False),
        getattr(method, "orthonormal", False),
        getattr(method, "_increasing", False),
    )


def walk(
    method: LinearMap, samples: LabelledSamples, points: list[dict[str, Any]], wanted: Dimensions
) -> Iterator[Solved]:
    """The directions of every grid point, in the order in which their work is shared best."""
    variants = _variants(method, points)
    if isinstance(method, TangentDiscriminant):
        yield from _tangent_walk(variants, samples)
    elif isinstance(method, EigenMethod):
        yield from _eigen_walk(variants, samples)
    else:
        yield from _plain_walk(variants, samples, wanted)


def _tangent_walk(variants: list[_Variant], samples: LabelledSamples) -> Iterator[Solved]:
    view = build_coordinates(samples.X)
    rules: dict[Any, Any] = {}
    settings = []
    for variant in variants:
        cut = variant.method._cut()
        if cut not in rules:
            rules[cut] = variant.method._patch_rules(samples)
        settings.append(variant.method._setting(rules[cut]))
    _refuse_beyond_memory(variants, samples)
    with one_blas_thread(view.dimension <= SMALL):
        for i, found in shared_directions(view, samples.members, settings):
            if isinstance(found, Directions):
                yield variants[i].solved(found)
            else:
                yield variants[i].failed(found)


def _refuse_beyond_memory(variants: list[_Variant], samples: LabelledSamples) -> None:
    """What is found out about a class is kept for other variants, so all classes count."""
    (_, d), sizes = samples.X.shape, samples.sizes
    neediest = max(
        (variant.method for variant in variants),
        key=lambda method: method._fit_bytes(sizes, d, len(sizes)),
    )
    neediest._refuse_beyond_memory(samples.X, sizes, len(sizes))


def _eigen_walk(variants: list[_Variant], samples: LabelledSamples) -> Iterator[Solved]:
    _refuse_beyond_memory(variants, samples)
    view = build_coordinates(samples.X)
    most = max(getattr(variant.method, "n_neighbors", 0) for variant in variants)
    memo: Memo = {MOST_NEIGHBORS: most}
    with one_blas_thread(view.dimension <= SMALL):
        for variant in variants:
            method = variant.method
            try:
                forms = method._forms(view, samples, memo)
                if isinstance(method, LLTSA) and method.tangent_dimension is None:
                    yield from _by_tangent_dimension(variant, view, samples, memo)
                else:
                    yield variant.solved(method._solution(view, forms).directions)
            except SingularFormError as error:
                yield variant.failed(error)


def _by_tangent_dimension(
    variant: _Variant, view: Coordinates, samples: LabelledSamples, memo: Memo
) -> Iterator[Solved]:
    """LLTSA, where the dimension of tangent spaces follows the number of components."""
    r = 1
    while True:
        chosen = clone(variant.method).set_params(n_components=r)
        forms = chosen._forms(view, samples, memo)
        last = forms.dimension < r  # the dimension has reached what is allowed
        solution = chosen.set_params(n_components=None)._solution(view, forms)
        n_found = solution.directions.eigenvalues.size
        yield variant.solved(solution.directions, slice(r - 1, None if last else r))
        if last or r >= n_found:
            return
        r += 1


def _plain_walk(
    variants: list[_Variant], samples: LabelledSamples, wanted: Dimensions
) -> Iterator[Solved]:
    """Methods whose directions are not nested: one fit for every number of components."""
    rank = int(np.linalg.matrix_rank(samples.X - samples.X.mean(axis=0, dtype=np.float64)))
    tried = wanted.given or range(1, (wanted.most or rank) + 1)
    for variant in variants:
        for r in (r for r in tried if r <= rank):
            fitted = clone(variant.method).set_params(n_components=r).fit(samples.X, samples.y)
            found = Directions(np.ones(r), fitted.components_.T)
            yield variant.solved(found, slice(r - 1, r))
