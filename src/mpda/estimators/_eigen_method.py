"""What the methods share that end in one eigenproblem: its options, and the scale of its rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mpda._typing import Floats
from mpda._validation import check_count, check_flag, check_jobs, check_number
from mpda.engines import in_order
from mpda.estimators._linear_map import LinearMap
from mpda.frames import Frame
from mpda.pencils import Directions, signed
from mpda.recipes import Each
from mpda.solutions import Solution


@dataclass(frozen=True)
class Scale:
    """How the directions of a method become its components.

    power : of the eigenvalues relative to the first, by which directions are multiplied
    unit : whether they are first brought to length 1
    orthonormal : whether they are made orthonormal instead
    """

    power: float
    unit: bool
    orthonormal: bool

    def applied(self, directions: Directions) -> Floats:
        """The columns (d, r)."""
        if self.orthonormal:
            return signed(np.linalg.qr(_unit(directions.vectors))[0])
        vectors = _unit(directions.vectors) if self.unit else directions.vectors
        if self.power == 0.0:
            return vectors
        return vectors * (directions.eigenvalues / directions.eigenvalues[:1]) ** self.power


def _unit(vectors: Floats) -> Floats:
    """Columns of length 1; no square leaves the range of floating-point numbers."""
    largest = np.abs(vectors).max(axis=0)
    vectors = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0.0)
    lengths = np.linalg.norm(vectors, axis=0)
    return np.divide(vectors, lengths, out=vectors, where=lengths > 0.0)


class EigenMethod(LinearMap):
    """A linear map whose rows come from one eigenproblem."""

    # Set by the constructors of the subclasses.
    n_components: int | None
    alpha: float
    eigenvalue_power: float = 0.0  # of the methods that maximise
    orthonormal: bool
    verbose: int

    def _wanted(self) -> int | None:
        return None if self.n_components is None else check_count("n_components", self.n_components)

    def _scale(self, *, unit: bool = False) -> Scale:
        power = check_number("eigenvalue_power", self.eigenvalue_power)
        return Scale(power, unit, check_flag("orthonormal", self.orthonormal))

    def _each(self, work: str, n_jobs: int | None, unit: str = "classes") -> Each:
        """How the pieces of this work are carried out."""
        title = f"{type(self).__name__}, {work}" if self.verbose else None
        return partial(in_order, n_jobs=check_jobs(n_jobs), report=title, unit=unit)

    def _say(self, what: str) -> None:
        if self.verbose:
            print(f"{type(self).__name__}, {what}", file=sys.stderr)

    def _keep(self, view: Frame, dtype: np.dtype[Any], solution: Solution, scale: Scale) -> None:
        """Set the attributes that all these methods have."""
        self.components_ = scale.applied(solution.directions).T.astype(dtype, order="C")
        self.eigenvalues_ = solution.directions.eigenvalues
        self.mean_ = view.mean.astype(dtype, copy=False)
        self.units_ = {"alpha": solution.ridge}
        self.residual_ = solution.residual
