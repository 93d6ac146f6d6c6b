"""Checked parameters of a fit, and the units of gamma, alpha and beta.

A user sets penalties. Units follow from the samples, or are 1. Strengths = penalties x units enter
the formulas: gamma weights the second term of S, alpha and beta are the ridges on t and v.
"""

import pickle
from dataclasses import dataclass, fields
from numbers import Number
from typing import Any

import numpy as np

from mpda.partition.rules import PartitionRule


@dataclass(frozen=True, eq=False)
class UserObject:
    """An object of the user, equal to itself only.

    Two clusterers or callables that print alike, or that compare as equal, may still differ. Work
    is shared only where the same object is given.

    Attributes
    ----------
    value : object
        Clusterer, neighbours transformer or callable.
    """

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserObject) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def works_like(self, other: object) -> bool:
        """Return whether another object does the same: itself, or an estimator of equal parameters.

        Sums that were computed elsewhere, or loaded from a file, have copies of the object.
        """
        if self == other:
            return True
        has_parameters = hasattr(self.value, "get_params")
        return (
            isinstance(other, UserObject) and has_parameters and _is_alike(self.value, other.value)
        )

    def copy_parameters(self) -> "UserObject":
        """Return a copy that keeps the parameters that the object has now."""
        return UserObject(_copy_estimators(self.value))


def _is_alike(first: Any, second: Any) -> bool:
    """Return whether two parameter values are the same, or copies of each other."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if hasattr(first, "get_params") and not isinstance(first, type):
        return _is_alike(first.get_params(deep=False), second.get_params(deep=False))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            _is_alike(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_is_alike, first, second))
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    # A random generator has other states after a fit.
    if isinstance(first, np.random.RandomState | np.random.Generator):
        return True
    try:
        return bool(first == second) or pickle.dumps(first) == pickle.dumps(second)
    except Exception:  # a comparison without a truth value, or no pickle: not known to be alike
        return False


def _copy_estimators(value: Any) -> Any:
    """Return a value in which every estimator is a new one with the same parameter values."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        parameters = value.get_params(deep=False)
        return type(value)(**{name: _copy_estimators(v) for name, v in parameters.items()})
    if type(value) in (list, tuple):
        return type(value)(map(_copy_estimators, value))
    return value


def parameter_key(value: Any) -> tuple[type, Any]:
    """Return the key under which parameter values share work.

    Parameters
    ----------
    value : object
        Value of a parameter.

    Returns
    -------
    tuple of (type, object)
        Numbers, text and None are equal by value and type, everything else by identity.
    """
    is_plain = value is None or isinstance(value, str | Number)
    return type(value), value if is_plain else UserObject(value)


@dataclass(frozen=True)
class ClassSettings:
    """Parameters of a fit that the stages of a class depend on.

    Attributes
    ----------
    n_neighbors : int
        k of the within-class graph W and of the affinity A.
    tangent_energy : float
        Share of the variance that a tangent space keeps.
    full_affinity : bool
        True if A joins all pairs of a class, False if only neighbours.
    neighbor_search : {"auto", "exact", "faiss"} or UserObject
        Search for neighbours; see ``neighbors.approximate_search.search_neighbors``.
    partition : PartitionRule, UserObject (a clusterer) or None
        Rule that divides a class into patches. None computes a tangent space for every sample
        (PMPDA).
    partition_neighbors : int
        k' of the neighbour lists that the partition uses.
    anchors : bool
        True if W joins samples to the means of their patches, and these means to each other.
    """

    n_neighbors: int
    tangent_energy: float
    full_affinity: bool
    neighbor_search: str | UserObject = "auto"
    partition: PartitionRule | UserObject | None = None
    partition_neighbors: int = 0
    anchors: bool = False


@dataclass(frozen=True)
class Strengths:
    """The weight gamma and the ridges alpha on t and beta on v, in squared units of the points."""

    gamma: float
    alpha: float
    beta: float


@dataclass(frozen=True)
class Units:
    """Units of gamma, alpha and beta, in squared units of the points.

    Attributes
    ----------
    gamma : float
        Mean squared length of the edges of W.
    alpha : float
        trace(S_tt) / d, where d counts the features that vary.
    beta : float
        Mean diagonal of the first-order part of S_vv.
    """

    gamma: float
    alpha: float
    beta: float


@dataclass(frozen=True)
class Penalties:
    """Weight and ridges as the user sets them.

    Attributes
    ----------
    gamma : float
        Weight of the second term of S.
    alpha : float
        Ridge on t.
    tangent_alpha : float or None
        Ridge on v. None sets beta = alpha.
    relative : bool
        True if they are multiples of units that follow from the samples, False if they are in
        squared units of X.
    """

    gamma: float
    alpha: float
    tangent_alpha: float | None
    relative: bool


@dataclass(frozen=True)
class DiscriminantSettings:
    """All parameters that the directions of MPDA or PMPDA depend on.

    Attributes
    ----------
    classes : ClassSettings
        Parameters of the stages of a class.
    penalties : Penalties
        Weight and ridges.
    two_stage : bool
        True if t is restricted to the range of S'.
    has_unlabeled : bool, default=False
        True if the form over all samples, labelled or not, is added.
    """

    classes: ClassSettings
    penalties: Penalties
    two_stage: bool
    has_unlabeled: bool = False

    def has_compatible_sums(self, other: "DiscriminantSettings") -> bool:
        """Return whether sums over classes that were computed with either can be added."""
        for field in fields(self.classes):
            mine, theirs = (getattr(settings.classes, field.name) for settings in (self, other))
            is_equal = mine.works_like(theirs) if isinstance(mine, UserObject) else mine == theirs
            if not is_equal:
                return False
        same_form = self.has_unlabeled == other.has_unlabeled
        return same_form and self.penalties == other.penalties
