"""Checked parameters of a fit, and the units of gamma, alpha and beta.

A user sets penalties. Units follow from the samples, or are 1. Strengths = penalties x units enter
the formulas: gamma weights the second term of S, alpha and beta are the ridges on t and v.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

import joblib
from sklearn.base import clone

from mpda.partition.rules import PartitionRule


@dataclass(frozen=True)
class UserObject:
    """An object of the user: a clusterer, a neighbours transformer or a callable.

    Two of them are equal if the objects are of one class and have equal parameters, also in another
    process or after the original object changed. :func:`copy_object` makes it.

    Attributes
    ----------
    value : object
        Copy of the object, not fitted.
    fingerprint : str
        Hash of its class and its parameters.
    """

    value: Any = field(compare=False)
    fingerprint: str


def copy_object(value: Any) -> UserObject:
    """Return a copy of an object that does not change when the user sets its parameters.

    Parameters
    ----------
    value : object
        Clusterer, neighbours transformer, callable or container.

    Returns
    -------
    UserObject
        The copy and its fingerprint.
    """
    try:
        return UserObject(clone(value, safe=False), _hash_object(value))
    except Exception:  # it cannot be cloned or has no parameters: its use gives the error
        return UserObject(value, _hash_identity(value))


def _hash_object(value: Any) -> str:
    """Return a hash that objects of equal parameters have in common."""
    try:
        return str(joblib.hash(clone(value, safe=False)))
    except Exception:  # there is no pickle of a lambda, for example, nor of what holds one
        if not hasattr(value, "get_params") or isinstance(value, type):
            return _hash_identity(value)
    # A clone has new containers (the steps of a pipeline), whose content is listed by get_params.
    parts = [
        (name, type(item).__name__ if isinstance(item, list | tuple) else _hash_object(item))
        for name, item in sorted(value.get_params().items())
    ]
    return str(joblib.hash([_hash_object(type(value)), *parts]))


def _hash_identity(value: Any) -> str:
    return f"{type(value).__qualname__} {id(value)}"


def parameter_key(value: Any) -> tuple[type, Any]:
    """Return the key under which parameter values share work.

    Parameters
    ----------
    value : object
        Value of a parameter.

    Returns
    -------
    tuple of (type, object)
        Numbers, text and None are equal by value and type, other objects by their fingerprint.
    """
    is_plain = value is None or isinstance(value, str | Number)
    return type(value), value if is_plain else copy_object(value)


def group_equal(keys: Iterable[Hashable]) -> list[list[int]]:
    """Return the positions of equal keys, a list for each distinct key in order of occurrence."""
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return list(groups.values())


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
        same_form = self.has_unlabeled == other.has_unlabeled
        return same_form and self.classes == other.classes and self.penalties == other.penalties
