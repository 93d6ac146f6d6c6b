"""The cut of a patch in two by growing from its farthest samples, for many patches at a time.

Patches stand in squares that are padded to one size. All of them grow in the same rounds; those
that are done wait for the others and change no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpda._lib.array_types import Array
from mpda._lib.arrays import arange, array_namespace, rounds_between_checks

# In larger patches it is asked whether growth is stuck, rather than always provided for.
_LARGE = 512


@dataclass(frozen=True)
class PatchSquares:
    """Patches to be cut, padded to s samples; what stands in the padding does not matter.

    listed : (b, s, s) whether j is among the k' nearest neighbours of i
    lengths : (b, s, s) distance along the class
    tortuosity : (b, s, s) R_ij, or None where it is 1 by definition
    inside : (b, s) where there is a sample and no padding
    """

    listed: Array
    lengths: Array
    tortuosity: Array | None
    inside: Array


@dataclass(frozen=True)
class Cuts:
    """What patches were cut into.

    sides : (b, 2, s) the samples of the left and of the right part
    identical : (b,) whether all samples of the patch are one point; such a patch is not cut
    """

    sides: Array
    identical: Array


def cuts(patches: PatchSquares) -> Cuts:
    """Grow two parts of each patch from its farthest samples until no sample is free."""
    xp = array_namespace(patches.lengths)
    n_patches, s = patches.inside.shape
    pairs = patches.inside[:, :, None] & patches.inside[:, None, :]
    lengths = xp.reshape(xp.where(pairs, patches.lengths, -1.0), (n_patches, s * s))
    farthest = xp.argmax(lengths, axis=1)  # lowest indices first at a tie
    identical = xp.max(lengths, axis=1) == 0.0
    seeds = xp.stack([farthest // s, farthest % s], axis=1)
    slots = arange(s, patches.lengths)
    growth = _Growth(patches, seeds[:, :, None] == slots, ~identical[:, None] & patches.inside)
    between = rounds_between_checks(patches.lengths)
    while bool(xp.any(growth.free)):
        for _ in range(between):
            growth.step()
    return Cuts(growth.sides, identical)


def total_tortuosity(tortuosity: Array | None, masks: Array) -> Array:
    """The sum of R_ij (b, m) over the ordered pairs of each mask (b, m, s) of ones and zeros."""
    xp = array_namespace(masks)
    if tortuosity is None:
        counts = xp.sum(masks, axis=2)
        return counts * counts
    return xp.sum(xp.matmul(masks, tortuosity) * masks, axis=2)


class _Growth:
    """Both sides of patches while they grow.

    sides : (b, 2, s) what the left and the right part hold
    free : (b, s) what neither of them holds
    """

    def __init__(self, patches: PatchSquares, seeds: Array, growing: Array) -> None:
        self._patches = patches
        self.sides = seeds
        self.free = growing
        self._join(seeds)

    def step(self) -> None:
        """One round. Where growth is stuck, the free sample nearest to a placed one joins."""
        xp = array_namespace(self.free)
        near = self._reach & self.free[:, None, :]
        joint = xp.all(near, axis=1)
        sole = near & ~joint[:, None, :]
        to_right = self._joint_go_right(sole)[:, None]
        joining = sole | xp.stack([joint & ~to_right, joint & to_right], axis=1)
        stuck = ~xp.any(xp.any(joining, axis=1), axis=1) & xp.any(self.free, axis=1)
        if self.free.shape[1] < _LARGE or bool(xp.any(stuck)):
            joining = joining | (stuck[:, None, None] & self._nearest_free())
        self._join(joining)

    def _join(self, joining: Array) -> None:
        xp = array_namespace(joining)
        self.sides = self.sides | joining
        self.free = self.free & ~xp.any(joining, axis=1)
        # What is in the list of a sample that joined in the last round. Older samples reach
        # nothing more: what was in their lists has been placed.
        self._reach = xp.any(joining[..., None] & self._patches.listed[:, None, :, :], axis=2)

    def _joint_go_right(self, sole: Array) -> Array:
        """Whether joint neighbours go to the right (b,): to the side whose R^p N_p, with the
        neighbours (b, 2, s) that are its own, is smaller."""
        xp = array_namespace(sole)
        masks = xp.astype(self.sides | sole, xp.float64)
        weights = total_tortuosity(self._patches.tortuosity, masks) / xp.sum(masks, axis=2)
        return weights[:, 0] > weights[:, 1]

    def _nearest_free(self) -> Array:
        """The free sample nearest to a placed one, on the side of that one (b, 2, s).

        Copies of placed samples would come one after the other; they come together, up to the
        first from which growth can go on.
        """
        xp = array_namespace(self.free)
        to_members = xp.where(self.sides[..., None], self._patches.lengths[:, None, :, :], xp.inf)
        gaps = xp.min(to_members, axis=2)
        gap = xp.where(self.free, xp.min(gaps, axis=1), xp.inf)
        smallest = xp.min(gap, axis=1)[:, None]
        nearest = self.free & (gap == smallest)
        onward = nearest & xp.any(self._patches.listed & self.free[:, None, :], axis=2)
        # Only the first of all where there is a gap.
        last = xp.astype(xp.where(smallest > 0.0, nearest, onward), xp.int64)
        joins = nearest & (xp.cumulative_sum(last, axis=1) == last)
        leftward = gaps[:, 0, :] <= gaps[:, 1, :]
        return xp.stack([joins & leftward, joins & ~leftward], axis=1)
