"""The cut of a patch in two by growing from its farthest samples, for many patches at a time.

Patches stand in squares that are padded to one size. All of them grow in the same rounds; those
that are done wait for the others and change no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpda._arrays import (
    any_of_rows,
    chosen,
    count_up,
    filled,
    least_of_rows,
    namespace,
    replaced,
    rounds_between_checks,
    worthwhile,
)
from mpda._typing import Array


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
    xp = namespace(patches.lengths)
    n_patches, s = patches.inside.shape
    pairs = patches.inside[:, :, None] & patches.inside[:, None, :]
    lengths = xp.reshape(xp.where(pairs, patches.lengths, -1.0), (n_patches, s * s))
    farthest = xp.argmax(lengths, axis=1)  # lowest indices first at a tie
    identical = xp.max(lengths, axis=1) == 0.0
    seeds = xp.stack([farthest // s, farthest % s], axis=1)
    slots = count_up(s, patches.lengths)
    growth = _Growth(patches, seeds[:, :, None] == slots, ~identical[:, None] & patches.inside)
    between = rounds_between_checks(patches.lengths)
    while bool(xp.any(growth.free)):
        for _ in range(between):
            growth.step()
    return Cuts(growth.sides, identical)


def total_tortuosity(tortuosity: Array | None, sides: Array) -> Array:
    """The sum of R_ij (b, m) over the ordered pairs of each mask sides (b, m, s)."""
    xp = namespace(sides)
    masks = xp.astype(sides, xp.float64)
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
        xp = namespace(patches.lengths)
        self._patches = patches
        self.sides = seeds
        self.free = growing & ~xp.any(seeds, axis=1)
        # What is in the list of a sample that joined in the last round. Older samples reach
        # nothing more: what was in their lists has been placed.
        self._reach = any_of_rows(seeds, patches.listed)
        self._gaps = filled(seeds.shape, float("inf"), patches.lengths)
        # What joined since the gaps were last brought up to date.
        self._pending = xp.asarray(seeds, copy=True)

    def step(self) -> None:
        """One round. Where growth is stuck, the free sample nearest to a placed one joins."""
        xp = namespace(self.free)
        near = self._reach & self.free[:, None, :]
        joint = xp.all(near, axis=1)
        sole = near & ~joint[:, None, :]
        to_right = self._joint_go_right(sole, joint)[:, None]
        joining = sole | xp.stack([joint & ~to_right, joint & to_right], axis=1)
        stuck = xp.any(self.free, axis=1) & ~xp.any(xp.any(joining, axis=2), axis=1)
        joining = self._with_nearest(joining, stuck)
        self.sides = self.sides | joining
        self._pending = self._pending | joining
        self.free = self.free & ~xp.any(joining, axis=1)
        self._reach = any_of_rows(joining, self._patches.listed)

    def _joint_go_right(self, sole: Array, joint: Array) -> Array:
        """Whether joint neighbours (b, s) go to the right (b,): to the side whose R^p N_p, with
        the neighbours that are its own, is smaller."""
        xp = namespace(sole)
        places = worthwhile(xp.any(joint, axis=1))
        sides = chosen(self.sides | sole, places)
        tortuosity = self._patches.tortuosity
        R = None if tortuosity is None else chosen(tortuosity, places)
        counts = xp.sum(xp.astype(sides, xp.float64), axis=2)
        weights = total_tortuosity(R, sides) / (counts * counts) * counts
        return replaced(filled(joint.shape[0], False, joint), places, weights[:, 0] > weights[:, 1])

    def _with_nearest(self, joining: Array, stuck: Array) -> Array:
        """What joins, with the nearest free samples of the patches that are stuck (b,).

        Copies of placed samples would come one after the other; they come together, up to the
        first from which growth can go on.
        """
        xp = namespace(stuck)
        places = worthwhile(stuck)
        pending = chosen(self._pending, places)
        closer = least_of_rows(pending, self._patches.lengths, places)
        gaps = xp.minimum(chosen(self._gaps, places), closer)
        self._gaps = replaced(self._gaps, places, gaps)
        self._pending = replaced(self._pending, places, xp.zeros_like(pending))
        free = chosen(self.free, places)
        gap = xp.where(free, xp.min(gaps, axis=1), xp.inf)
        smallest = xp.min(gap, axis=1)
        last = xp.argmin(gap, axis=1)
        last = self._last_copy(smallest, last, gap, places)
        slots = count_up(gap.shape[1], gap)
        joins = free & (gap == smallest[:, None]) & (slots <= last[:, None])
        joins = joins & chosen(stuck, places)[:, None]
        leftward = gaps[:, 0, :] <= gaps[:, 1, :]
        nearest = xp.stack([joins & leftward, joins & ~leftward], axis=1)
        return replaced(joining, places, chosen(joining, places) | nearest)

    def _last_copy(self, smallest: Array, last: Array, gap: Array, places: Array | None) -> Array:
        """The last sample (p,) that may join: where the smallest gap is 0, the first copy from
        which growth can go on, or any."""
        xp = namespace(gap)
        copied = worthwhile(smallest == 0.0)
        both = places if copied is None else chosen(places, copied)
        free = chosen(self.free, both)
        onward = xp.any(chosen(self._patches.listed, both) & free[:, None, :], axis=2)
        onward = xp.astype(onward & (chosen(gap, copied) == 0.0), xp.int64)
        first = xp.where(xp.any(onward == 1, axis=1), xp.argmax(onward, axis=1), gap.shape[1])
        without = chosen(last, copied)
        return replaced(last, copied, xp.where(chosen(smallest, copied) == 0.0, first, without))
