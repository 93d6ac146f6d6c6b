"""What MPDA and PMPDA share: the checks, the fit, and what it leaves."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, ArrayLike, Floats, Labels
from mpda._lib.arrays import (
    array_namespace,
    astype,
    bits,
    describe_library,
    is_numpy,
    iter_slices,
    numbers_to_device,
    to_device,
    to_host,
)
from mpda._lib.validation import check_count, check_jobs, check_number, check_option
from mpda.discriminant.class_contribution import PatchRule, Plan
from mpda.discriminant.fit import (
    Discriminant,
    Penalties,
    Sums,
    Wanted,
    extended_discriminant,
    fit_discriminant,
)
from mpda.discriminant.passes import ClassWork
from mpda.discriminant.sharing import Setting
from mpda.estimators._costs import graph_bytes
from mpda.estimators._health import narrowed, warn_of_trouble
from mpda.estimators._linear_map import LinearMap
from mpda.estimators._samples import LabelledSamples, Samples, warn_of_small_classes
from mpda.estimators._scale import Scale
from mpda.neighbors.approximate_search import check_neighbor_search

# Rows of a class that are marked at a time.
_MARKED_ROWS = 1000


class TangentDiscriminant(LinearMap):
    """A linear map learnt from labelled samples and their tangent spaces."""

    _sum_over_classes = _on_devices = True

    # Set by the constructors of the subclasses.
    n_components: int | None
    n_neighbors: int
    gamma: float
    alpha: float
    tangent_alpha: float | None
    eigenvalue_power: float
    units: str
    tangent_energy: float
    affinity: str
    neighbor_search: Any
    solver: str
    n_jobs: int | None
    verbose: int

    # Set by a fit, for the classes that may be added to it.
    classes_: Array
    class_solvers_: list[str]
    class_residuals_: Array
    components_: Floats
    _sums: Sums
    _fixed: tuple[Any, ...]
    _marks: dict[Any, bytes]

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike) -> TangentDiscriminant:
        """Learn the map from the samples X (n, d) and their labels y (n,)."""

    @abstractmethod
    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> TangentDiscriminant:
        """Add the classes of the samples X (n, d) with labels y (n,) to what was learnt."""

    @abstractmethod
    def _plan(self) -> Plan:
        """How the contribution of a class is made."""

    def _cut(self) -> Hashable:
        """What the patch rules depend on."""
        return None

    def _patch_rules(self, samples: Samples) -> Sequence[PatchRule | None]:
        """The patch rule of each class."""
        return [None] * len(samples.members)

    def _setting(self, rules: Sequence[PatchRule | None]) -> Setting:
        """The parameters, checked."""
        beta = self.tangent_alpha
        penalties = Penalties(
            gamma=check_number("gamma", self.gamma),
            alpha=check_number("alpha", self.alpha),
            tangent_alpha=None if beta is None else check_number("tangent_alpha", beta),
            relative=check_option("units", self.units, ("relative", "absolute")) == "relative",
        )
        solver = check_option("solver", self.solver, ("reduced", "two-stage"))
        return Setting(self._cut(), rules, self._plan(), penalties, solver == "two-stage")

    def _made_plan(self, partition_neighbors: int = 0, *, anchors: bool = False) -> Plan:
        return Plan(
            n_neighbors=check_count("n_neighbors", self.n_neighbors),
            partition_neighbors=partition_neighbors,
            tangent_energy=check_number("tangent_energy", self.tangent_energy, most=1.0),
            full_affinity=check_option("affinity", self.affinity, ("knn", "full")) == "full",
            anchors=anchors,
            neighbor_search=check_neighbor_search(self.neighbor_search),
        )

    def _more(self, X: ArrayLike, y: ArrayLike) -> tuple[Samples | None, Labels]:
        """Samples of classes that come after those of a fit, or None, and the labels of these.

        A class that comes a second time with the very same samples is passed over, so that a call
        of which one does not know whether it was carried out can be repeated.
        """
        if self._parameters() != self._fixed:
            raise ValueError(
                "partial_fit adds to what was summed up with other parameters. Only n_components, "
                "solver, eigenvalue_power, n_jobs and verbose may change between calls; call fit "
                "to begin anew."
            )
        samples = self._given(X, y, more=True)
        self._refuse_other_library(samples)
        known = to_host(self.classes_)
        if _kind(samples.classes) != _kind(known):
            raise TypeError(
                f"y must hold labels of one kind in all calls, got {samples.classes[:1].tolist()} "
                f"after {known[:1].tolist()}."
            )
        marks = _marks(samples)
        split = [label for label in marks if marks[label] != self._marks.get(label, marks[label])]
        if split:
            raise ValueError(
                f"y holds classes of an earlier call: {split[:5]}. A class cannot be learnt in "
                "pieces, because its neighbours and patches depend on all its samples: give all "
                "samples of a class in one call, or call fit with everything. (To repeat a call, "
                "give the same samples in the same order.)"
            )
        new = ~np.isin(samples.classes, known)
        if not new.any():
            return None, samples.classes[new]
        return samples if new.all() else samples.only(new), samples.classes[new]

    def _refuse_other_library(self, samples: Samples) -> None:
        came = describe_library(samples.X) if isinstance(samples, LabelledSamples) else "numpy"
        before = describe_library(self.components_)
        if came != before:
            raise TypeError(
                f"X must be of the array library of earlier calls, {before}, got {came}: the sums "
                "over classes are kept there."
            )

    def _check_before(self) -> None:
        self._parameters()

    def _class_bytes(self, n: int, d: int) -> float:
        return graph_bytes(n, d, self.n_neighbors)

    def _parameters(self) -> tuple[Any, ...]:
        """What the sums over classes depend on."""
        setting = self._setting([])
        return setting.plan, setting.penalties, repr(setting.cut)

    def _learn(
        self,
        samples: Samples,
        rules: Sequence[PatchRule | None],
        *,
        more: bool = False,
    ) -> Discriminant:
        """Fit, or add classes to a fit, and set the attributes that all discriminants have."""
        n_components = self.n_components
        if n_components is not None:
            n_components = check_count("n_components", n_components)
        setting = self._setting(rules)
        power = check_number("eigenvalue_power", self.eigenvalue_power)
        n_jobs = check_jobs(self.n_jobs)
        if isinstance(samples, LabelledSamples):
            self._refuse_beyond_memory(samples.X, samples.sizes)
        warn_of_small_classes(samples, setting.plan.n_neighbors)
        report = type(self).__name__ if self.verbose else None
        cluster = samples if samples.on_cluster else None
        work = ClassWork(samples.members, rules, setting.plan, n_jobs, report, cluster)
        wanted = Wanted(n_components, setting.two_stage)
        if more:
            found = extended_discriminant(self._sums, samples.view(), work, wanted)
        else:
            found = fit_discriminant(samples.view(), work, setting.penalties, wanted)
        if report is not None:
            _say_fallbacks(report, samples.classes.tolist(), found.solvers)
        classes, dtype = samples.classes, samples.dtype
        solvers = found.solvers
        residuals = np.array(found.residuals)
        if more:
            classes = np.concatenate([to_host(self.classes_), classes])
            solvers = self.class_solvers_ + solvers
            residuals = np.concatenate([to_host(self.class_residuals_), residuals])
            dtype = array_namespace(self.components_).result_type(self.components_, dtype)
        order = np.argsort(classes, kind="stable")
        scale = Scale(power, unit=False, orthonormal=False)
        self.classes_ = numbers_to_device(classes[order], found.mean)
        self.class_solvers_ = [solvers[c] for c in order]
        self.class_residuals_ = to_device(residuals[order], found.mean)
        self.mean_ = astype(found.mean, dtype)
        self.components_ = narrowed(scale.applied(found.directions).T, dtype)
        self.eigenvalues_ = found.directions.eigenvalues
        self.residual_ = found.residual
        self.condition_ = found.directions.condition
        self.units_ = {
            "gamma": found.strengths.gamma,
            "alpha": found.strengths.alpha,
            "beta": found.strengths.beta,
        }
        self._sums = found.sums
        self._marks = {**(self._marks if more else {}), **_marks(samples)}
        self._fixed = self._parameters()
        warn_of_trouble(max(self.residual_, residuals.max() ** 2), self.condition_)
        return found


def _say_fallbacks(title: str, labels: list[Any], solvers: list[str]) -> None:
    """Name the classes whose tangent vectors were not found by the solver that was meant to."""
    for solver, why in (
        ("sparse", "corrections did not converge, so a sparse factor was used"),
        ("range", "the block is singular, so it was solved on its range"),
    ):
        named = [label for label, used in zip(labels, solvers, strict=True) if used == solver]
        if named:
            shown = ", ".join(map(repr, named[:5])) + (" and more" if len(named) > 5 else "")
            print(f"{title}, class {shown}: {why}", file=sys.stderr)


def _marks(samples: Samples) -> dict[Any, bytes]:
    """What tells the samples of each class from any others."""
    return dict(zip(samples.classes.tolist(), samples.marks(_mark), strict=True))


def _mark(samples: Array) -> bytes:
    if not is_numpy(samples):
        return blake2b(to_host(_mixed(samples)).data, digest_size=16).digest()
    mark = blake2b(digest_size=16)
    for rows in iter_slices(len(samples), _MARKED_ROWS):
        mark.update(np.ascontiguousarray(samples[rows], dtype=np.float64).data)
    return mark.digest()


def _mixed(samples: Array) -> Array:
    """Two integers (n, 2) for each sample, sums modulo 2^64 in which every bit of it counts.

    So that not all samples travel from a device.
    """
    xp = array_namespace(samples)
    limits = np.iinfo(np.int64)
    factors = np.random.default_rng(0).integers(limits.min, limits.max, (2, samples.shape[1])) | 1
    numbers = bits(samples)
    return xp.stack(
        [xp.sum(numbers * to_device(each, samples), axis=1) for each in factors], axis=1
    )


def _kind(labels: Labels) -> str:
    """Whether labels are integers, truth values and so on; strings may be objects too.

    Unsigned integers of 64 bits are a kind of their own: with signed ones they make floats.
    """
    if labels.dtype.kind == "u" and labels.dtype.itemsize < 8:
        return "i"
    return labels.dtype.kind.replace("O", "U")
