"""Manifold partition by the rule of the paper (sec:Part, steps 2 to 6): patches are cut in two.

A patch with more than M samples is split. Two sides grow from the two samples that are farthest
apart along the class, each round by the nearest neighbours of their members. Neighbours that both
sides reach go to the side with the smaller R^p N_p (linearity times size). Step 2 of the paper
splits the patch of largest R^p N_p first. Here every patch above M is split and no other, so the
order does not matter (docs/theory/partition.md).
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Bools, Floats, Ints, Labels
from mpda._lib.arrays import iter_slices
from mpda.partition.geodesics import ClassDistances
from mpda.partition.tree import Partition, build_partition

# Rows of a patch that are copied at a time. All at once would hold s rows of the class.
_BLOCK_ROWS = 256


def manifold_partition(distances: ClassDistances, max_patch_size: int) -> Partition:
    """Split one class until no patch has more than ``max_patch_size`` samples (sec:Part).

    Parameters
    ----------
    distances : ClassDistances
        All pairs of the class.
    max_patch_size : int
        M, the largest number of samples of a patch.

    Returns
    -------
    Partition
        Patches, their linearity and the tree of splits.
    """
    n = len(distances.lengths)
    order = np.empty(n, dtype=np.intp)
    children, sizes, starts, linearity = [], [], [], []
    queue = deque([_Node(0, np.arange(n))])
    while queue:
        node = queue.popleft()
        size = node.members.size
        tortuosity = None if node.is_identical else _block(distances.tortuosity, node.members)
        sizes.append(size)
        starts.append(node.start)
        linearity.append(mean_tortuosity(tortuosity))
        if size <= max_patch_size:
            order[node.start : node.start + size] = node.members
            children.append((-1, -1))
            continue
        # Nodes are visited in the order of the queue, so the children have the next two numbers.
        n_nodes = len(children) + len(queue) + 1
        children.append((n_nodes, n_nodes + 1))
        queue.extend(_split_node(node, distances, tortuosity))
    return build_partition(
        np.array(children), np.array(sizes), np.array(starts), np.array(linearity), order
    )


def known_partition(distances: ClassDistances | None, labels: Labels) -> Partition:
    """Describe patches that are given by labels.

    Parameters
    ----------
    distances : ClassDistances or None
        All pairs of the class; None leaves the linearity out (nan).
    labels : ndarray of int of shape (n_samples,)
        Patch of each sample. Every sample with label -1 is a patch by itself.

    Returns
    -------
    Partition
        Patches numbered from 0, without a tree.
    """
    n = labels.size
    distinct = np.where(labels == -1, labels.max(initial=0) + 1 + np.arange(n), labels)
    patches = np.unique(distinct, return_inverse=True)[1]
    sizes = np.bincount(patches)
    if distances is None:
        return Partition(patches, np.full(sizes.size, np.nan), None)
    members = np.split(np.argsort(patches, kind="stable"), np.cumsum(sizes)[:-1])
    linearity = [mean_tortuosity(_block(distances.tortuosity, rows)) for rows in members]
    return Partition(patches, np.array(linearity), None)


def mean_tortuosity(tortuosity: Floats | None) -> float:
    """Average R_ij over all ordered pairs of a patch (linearScore).

    Parameters
    ----------
    tortuosity : ndarray of shape (s, s) or None
        R of the patch; None stands for 1.

    Returns
    -------
    float
        Linearity R^p of the patch.
    """
    if tortuosity is None:
        return 1.0
    return float(np.add.reduce(tortuosity, axis=None)) / tortuosity.size


@dataclass(frozen=True)
class _Node:
    """A part of the class that is to be measured and perhaps split.

    start : position of its first sample when samples are ordered by leaf
    members : (s,) indices of its samples, ascending
    is_identical : True if the samples are known to be copies of one point
    """

    start: int
    members: Ints
    is_identical: bool = False


def _split_node(
    node: _Node, distances: ClassDistances, tortuosity: Floats | None
) -> tuple[_Node, _Node]:
    """Split a node, given the distances of the class and the tortuosity (s, s) of the node."""
    members = node.members
    if not node.is_identical:
        lengths = _block(distances.lengths, members)
        # Seeds: the two samples that are farthest apart. argmax finds the lowest indices at a tie.
        seeds = divmod(int(lengths.argmax()), len(lengths))
        if lengths[seeds] > 0.0:
            # Equal R^p N_p are decided for the left seed. It is the one nearer to the patch, so
            # that the order of the samples decides nothing. (The paper leaves both open.)
            to_first, to_second = lengths[list(seeds)].sum(axis=1)
            seeds = seeds[::-1] if to_second < to_first else seeds
            is_neighbor = _block(distances.is_neighbor, members)
            is_right = _grow_sides(ClassDistances(is_neighbor, lengths, tortuosity), seeds)
            left, right = members[~is_right], members[is_right]
            return _Node(node.start, left), _Node(node.start + left.size, right)
    # Copies of one point: the seeds are the first two, and the left one reaches all others. No
    # distances are needed, which would take O(s^3) time for s copies.
    rest, second = np.delete(members, 1), members[1:2]
    return _Node(node.start, rest, True), _Node(node.start + rest.size, second, True)


def _block(D: Any, members: Ints) -> Any:
    """Select the rows and columns of the members from D (n, n); None stays None."""
    if D is None or members.size == len(D):
        return D
    if members.size <= _BLOCK_ROWS:
        # Half the time of D[members][:, members].
        return D.take(members, axis=0).take(members, axis=1)
    block = np.empty((members.size, members.size), dtype=D.dtype)
    for rows in iter_slices(members.size, _BLOCK_ROWS):
        block[rows] = D.take(members[rows], axis=0).take(members, axis=1)
    return block


def _grow_sides(patch: ClassDistances, seeds: tuple[int, int]) -> Bools:
    """Grow two sides from their seeds until no sample is free; True (s,) on the right side."""
    left, right = _Side(patch, seeds[0]), _Side(patch, seeds[1])
    free = ~(left.members | right.members)
    n_free = free.size - 2
    while n_free:
        # Steps 3 and 4: each side takes the free neighbours of its members.
        near_left = left.reach & free
        near_right = right.reach & free
        joint = near_left & near_right
        if joint.nonzero()[0].size:  # faster than any() on small arrays
            # Neighbours of both sides go to the one with the smaller R^p N_p.
            near_left ^= joint
            near_right ^= joint
            # Equal priorities go to the left side, whose seed has the smaller sum of distances.
            if left.priority(near_left) > right.priority(near_right):
                near_right |= joint
            else:
                near_left |= joint
        new_left = near_left.nonzero()[0]
        new_right = near_right.nonzero()[0]
        if new_left.size + new_right.size == 0:  # step 5: no side has a free neighbour
            new_left, new_right = _nearest_free(patch.is_neighbor, left, right, free)
        left.add(new_left)
        right.add(new_right)
        free[new_left] = free[new_right] = False
        n_free -= new_left.size + new_right.size
    return right.members


class _Side:
    """One side of a split while it grows.

    members : (s,) mask of its samples
    reach : (s,) mask of the neighbours of the samples that joined in the last round. The neighbours
        of earlier samples are on one of the sides already.
    """

    def __init__(self, patch: ClassDistances, seed: int) -> None:
        self._patch = patch
        self.members = np.zeros(len(patch.lengths), dtype=bool)
        self.members[seed] = True
        self.reach = patch.is_neighbor[seed]
        self._gaps = patch.lengths[seed]
        self._pending: list[Ints] = []  # samples that joined since the gaps were updated

    def add(self, samples: Ints) -> None:
        self.members[samples] = True
        self.reach = np.logical_or.reduce(self._patch.is_neighbor.take(samples, axis=0))
        self._pending.append(samples)

    def priority(self, joining: Bools) -> float:
        """Compute R^p N_p of the side with the samples that are about to join."""
        members = (self.members | joining).nonzero()[0]
        return mean_tortuosity(_block(self._patch.tortuosity, members)) * members.size

    def gaps(self) -> Floats:
        """Return the distance of every sample of the patch to the side (s,)."""
        if self._pending:
            rows = self._patch.lengths.take(np.concatenate(self._pending), axis=0)
            self._gaps = np.minimum(self._gaps, rows.min(axis=0, initial=np.inf))
            self._pending = []
        return self._gaps


def _nearest_free(is_neighbor: Bools, left: _Side, right: _Side, free: Bools) -> tuple[Ints, Ints]:
    """Select the samples that join the left and the right side when no side reaches a free one.

    It is the free sample nearest to a member of either side, and it joins that side. Copies of
    members would join one after the other; they join together, up to the first from which growth
    can go on.
    """
    to_left, to_right = left.gaps(), right.gaps()
    gaps = np.where(free, np.minimum(to_left, to_right), np.inf)
    nearest = gaps.argmin()
    samples = np.array([nearest])
    if gaps[nearest] == 0.0:
        samples = (gaps == 0.0).nonzero()[0]
        goes_on = (is_neighbor[samples] & free).any(axis=1)
        if goes_on.any():
            samples = samples[: 1 + int(goes_on.argmax())]
    is_left = to_left[samples] <= to_right[samples]
    return samples[is_left], samples[~is_left]
