"""Neighbours in a very large class, by cells: not all pairs are compared, and few are missed.

The class is cut into cells around centres found by k-means on a part of it. A sample is compared
with the members of the cells whose centres are nearest to it, and what is found is ranked by exact
distances. On some samples the lists are compared with the exact ones: more cells are probed until
few neighbours are missed, and where that takes too many of them, all pairs are compared after all.
Nothing is random: the same samples give the same lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda._lib.arrays import is_numpy
from mpda.neighbors.graph import (
    ClassPoints,
    NeighborLists,
    direct_lists,
    find_neighbors,
    find_neighbors_blockwise,
    ranked_lists,
)

SEARCHES = ("auto", "exact", "cells")
# Classes of more samples are searched by cells: through all pairs of this many it takes seconds.
EXACT_SIZE = 50_000
# Members of a cell on average, and at most.
_CELL_SIZE, _LARGEST_CELL = 256, 1024
# The cells that are probed at first, the share of neighbours they have to find, and the share of
# all cells beyond which a search through all pairs is faster.
_PROBES, _LEAST_RECALL, _LARGEST_SHARE = 12, 0.97, 0.25
# For k-means: samples for each centre, and rounds.
_DRAWN, _ROUNDS = 40, 6
# Candidates beyond k, for what single precision may confuse.
_SPARE = 4
# Samples on which the recall is measured.
_MEASURED = 200
_BLOCK_ENTRIES = 4_000_000

Singles = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class FoundLists:
    """Neighbour lists, and how they were found.

    search : "exact" or "cells"
    recall : the share of the true neighbours in the lists, 1 where the search is exact
    """

    lists: NeighborLists
    search: str = "exact"
    recall: float = 1.0


def class_lists(points: ClassPoints, n_neighbors: int, search: str = "auto") -> FoundLists:
    """The neighbour lists of a class; "auto" is exact up to ``EXACT_SIZE`` samples."""
    many = search == "cells" or (search == "auto" and points.X.shape[0] > EXACT_SIZE)
    if many and is_numpy(points.X):  # elsewhere all pairs are compared fast enough
        return cell_lists(points.X, n_neighbors)
    return FoundLists(find_neighbors(points, n_neighbors))


def cell_lists(X: Floats, n_neighbors: int) -> FoundLists:
    """Lists of k = min(n_neighbors, n - 1) near samples."""
    n = len(X)
    k = min(n_neighbors, n - 1)
    if _LARGEST_SHARE * (n // _CELL_SIZE) < _PROBES:  # too few cells to leave any out
        return FoundLists(find_neighbors(ClassPoints(X), k))
    n_candidates = k + 1 + _SPARE
    cells = _Cells((X - X.mean(axis=0)).astype(np.float32), n // _CELL_SIZE)
    rows = np.unique(np.linspace(0, n - 1, _MEASURED).astype(np.intp))
    farthest = direct_lists(X, rows, k).distances[:, -1:]
    n_probes = max(_PROBES, cells.holding(n_candidates))
    while n_probes <= _LARGEST_SHARE * cells.count:
        found = ranked_lists(X, rows, cells.nearest(rows, n_candidates, n_probes), k)
        recall = float((found.distances <= farthest).mean())
        if recall >= _LEAST_RECALL:
            candidates = cells.nearest(np.arange(n), n_candidates, n_probes)
            return FoundLists(ranked_lists(X, np.arange(n), candidates, k), "cells", recall)
        n_probes *= 2
    return FoundLists(find_neighbors_blockwise(X, k))


class _Cells:
    """Samples Z (n, d) in cells around centres."""

    def __init__(self, Z: Singles, n_cells: int) -> None:
        self._Z = Z
        self._squares = np.einsum("ij,ij->i", Z, Z)
        centres = _centres(Z, n_cells)
        own = _nearest_centres(Z, centres, 1)[:, 0]
        sizes = np.bincount(own, minlength=len(centres))
        # A cell that is too large becomes several with the same centre.
        n_pieces = -(-sizes // _LARGEST_CELL)
        self._centres = np.repeat(centres, n_pieces, axis=0)
        self._members = [
            piece
            for cell, pieces in zip(_grouped(own, len(centres)), n_pieces, strict=True)
            if cell.size
            for piece in np.array_split(cell, pieces)
        ]

    @property
    def count(self) -> int:
        return len(self._members)

    def holding(self, k: int) -> int:
        """How many cells hold k samples in any case."""
        sizes = np.sort([members.size for members in self._members])
        return int(np.searchsorted(np.cumsum(sizes), k)) + 1

    def nearest(self, rows: Ints, k: int, n_probes: int) -> Ints:
        """The k nearest samples (r, k) of some rows in the cells that are probed, in no order."""
        Z = self._Z[rows]
        probed = _nearest_centres(Z, self._centres, n_probes)
        gaps = np.full((rows.size, k), np.inf, dtype=np.float32)
        indices = np.zeros((rows.size, k), dtype=np.intp)
        for members, places in zip(
            self._members, _grouped(probed.ravel(), self.count), strict=True
        ):
            asking = places // n_probes
            for start in range(0, asking.size, _LARGEST_CELL):
                places = asking[start : start + _LARGEST_CELL]
                best = gaps[places], indices[places]
                gaps[places], indices[places] = self._compared(Z[places], members, *best)
        return indices

    def _compared(
        self, Z: Singles, members: Ints, gaps: Singles, indices: Ints
    ) -> tuple[Singles, Ints]:
        """The best so far of some samples, brought up to date with the members of a cell."""
        k = gaps.shape[1]
        new = self._squares[members] - 2.0 * (Z @ self._Z[members].T)
        best = _smallest(new, k)
        new = np.concatenate([gaps, np.take_along_axis(new, best, axis=1)], axis=1)
        near = np.concatenate([indices, members[best]], axis=1)
        best = _smallest(new, k)
        return np.take_along_axis(new, best, axis=1), np.take_along_axis(near, best, axis=1)


def _centres(Z: Singles, n_cells: int) -> Singles:
    """Centres (n_cells, d) by k-means on some of the samples; those without samples stay."""
    order = np.random.default_rng(0).permutation(len(Z))
    drawn = Z[order[: _DRAWN * n_cells]]
    centres = drawn[:n_cells].copy()
    for _ in range(_ROUNDS):
        own = _nearest_centres(drawn, centres, 1)[:, 0]
        for cell, members in enumerate(_grouped(own, n_cells)):
            if members.size:
                centres[cell] = drawn[members].mean(axis=0)
    return centres


def _nearest_centres(Z: Singles, centres: Singles, count: int) -> Ints:
    """The nearest centres of each sample (n, count), in no order."""
    squares = np.einsum("ij,ij->i", centres, centres)
    found = np.empty((len(Z), count), dtype=np.intp)
    step = max(1, _BLOCK_ENTRIES // len(centres))
    for start in range(0, len(Z), step):
        block = slice(start, start + step)
        found[block] = _smallest(squares - 2.0 * (Z[block] @ centres.T), count)
    return found


def _smallest(values: Singles, k: int) -> Ints:
    """The places of the k smallest of each row (r, k), all where there are fewer."""
    if k == 1:
        return values.argmin(axis=1)[:, None]
    if k >= values.shape[1]:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(values, k - 1, axis=1)[:, :k]


def _grouped(owners: Ints, n: int) -> list[Ints]:
    """The places at which each of n owners stands."""
    counts = np.bincount(owners, minlength=n)
    return np.split(np.argsort(owners, kind="stable"), np.cumsum(counts)[:-1])
