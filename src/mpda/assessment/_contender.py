"""A method as it enters a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpda.model_selection.methods import Method


@dataclass(frozen=True)
class Contender:
    """A method with what is fixed and what cross-validation chooses.

    method : None for 1-NN on the samples as they are
    most : the largest number of components that is tried, None for all
    dimensions : those that are tried where every one needs a fit of its own
    skipped : problems on which it is not run
    published : whether it is a row of the paper's table
    note : what a reader of the table should know
    """

    name: str
    method: Method | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    most: int | None = None
    dimensions: tuple[int, ...] | None = None
    skipped: tuple[str, ...] = ()
    published: bool = True
    note: str = ""

    def estimator(self, point: Mapping[str, Any], dimension: int | None = None) -> Any:
        """The method with the parameters of a grid point, not fitted."""
        assert self.method is not None
        made = self.method.estimator(**self.fixed, **point)
        return made if dimension is None else made.set_params(n_components=dimension)
