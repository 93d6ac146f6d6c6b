"""What MPDA and PMPDA share: the checks, the fit, and what it leaves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from mpda._typing import ArrayLike
from mpda._validation import check_count, check_jobs, check_number, check_option
from mpda.contributions import PatchRule, Plan
from mpda.discriminant import Discriminant, Penalties, fit_discriminant
from mpda.estimators._linear_map import LabelledSamples, LinearMap, warn_of_small_classes
from mpda.estimators._scale import Scale
from mpda.sharing import Setting


class TangentDiscriminant(LinearMap):
    """A linear map learnt from labelled samples and their tangent spaces."""

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
    solver: str
    n_jobs: int | None
    verbose: int

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike) -> TangentDiscriminant:
        """Learn the map from the samples X (n, d) and their labels y (n,)."""

    @abstractmethod
    def _plan(self) -> Plan:
        """How the contribution of a class is made."""

    def _cut(self) -> Hashable:
        """What the patch rules depend on."""
        return None

    def _patch_rules(self, samples: LabelledSamples) -> Sequence[PatchRule | None]:
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
        )

    def _learn(self, samples: LabelledSamples, rules: Sequence[PatchRule | None]) -> Discriminant:
        """Fit, and set the attributes that all discriminants have."""
        n_components = self.n_components
        if n_components is not None:
            n_components = check_count("n_components", n_components)
        setting = self._setting(rules)
        power = check_number("eigenvalue_power", self.eigenvalue_power)
        warn_of_small_classes(samples, setting.plan.n_neighbors)
        found = fit_discriminant(
            samples.X,
            samples.members,
            rules,
            setting.plan,
            setting.penalties,
            two_stage=setting.two_stage,
            n_components=n_components,
            n_jobs=check_jobs(self.n_jobs),
            report=type(self).__name__ if self.verbose else None,
        )
        scale = Scale(power, unit=False, orthonormal=False)
        self.classes_ = samples.classes
        self.mean_ = found.mean.astype(samples.X.dtype, copy=False)
        self.components_ = scale.applied(found.directions).T.astype(samples.X.dtype, order="C")
        self.eigenvalues_ = found.directions.eigenvalues
        self.residual_ = found.residual
        self.class_solvers_ = np.array(found.solvers)
        self.units_ = {
            "gamma": found.strengths.gamma,
            "alpha": found.strengths.alpha,
            "beta": found.strengths.beta,
        }
        return found
