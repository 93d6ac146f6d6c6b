"""About how much memory the steps of the methods take, in bytes.

Rather too much than too little: robustness/memory.py holds them against what fits take.
"""

from __future__ import annotations

# What is scaled, compared or multiplied at a time by one worker, and room for the threads of BLAS.
BLOCKS = 64e6
# From reduction.py: up to so many unknowns a factor is dense, in double or in single precision.
_DENSE, _SINGLE = 2000, 8192


def frame_bytes(n: int, d: int) -> float:
    """The span of centred samples, which is sought where there are no more samples than features;
    copies of all samples, their singular vectors and the workspace for these."""
    return 80.0 * n * d if n <= d else 0.0


def solution_bytes(r: int) -> float:
    """The forms (r, r), their factors, and the eigenproblem."""
    return 130.0 * r * r


def samples_bytes(n: int, d: int) -> float:
    """All samples in double precision, scaled and centred."""
    return 32.0 * n * d


def graph_bytes(n: int, d: int, k: int) -> float:
    """Copies of n samples, their neighbour lists and the edges of their graph."""
    return n * (80.0 * d + 150.0 * min(k, n))


def all_pairs_bytes(n: int) -> float:
    """What the partitions by all pairs take for a class of n samples: distances, paths, R."""
    return 50.0 * n * n


def tangent_bytes(n_bases: float, m: float, d: int, n_near: float) -> float:
    """Tangent bases (d, m), and blocks (m, m) between each and those near it, in some copies."""
    return 8.0 * n_bases * (2.0 * m * d + 7.0 * m * m * min(n_bases, n_near))


def elimination_bytes(u: float, d: int) -> float:
    """The solution for u unknowns with d right sides."""
    factor = 24.0 * u * u if u <= _DENSE else 12.0 * u * u if u <= _SINGLE else 0.0
    return factor + 40.0 * u * d


def fields_bytes(u: float, n_fields: int) -> float:
    """The n_fields smoothest of fields with u entries, by Lanczos or, if these are few, densely."""
    found = min(u, 2.0 * n_fields)
    dense = max(400.0, min(20.0 * found, 6000.0))
    return 24.0 * u * u if u <= dense else 8.0 * u * (60.0 + 5.0 * found)


def neighborhoods_bytes(n: int, d: int, k: int) -> float:
    """Neighbourhoods of k samples that are worked on at a time, three copies and their axes."""
    return 8.0 * min(n, 1000) * k * (3.0 * min(n, d) + 2.0 * k)


def pairs_bytes(n: int, n_pairs: int) -> float:
    """The closest pairs of samples of different classes, and the edges between them."""
    return 100.0 * min(float(n_pairs) * 2.0, 0.5 * n * n)


def kernels_bytes(n: int, n_centers: int) -> float:
    """Kernels of samples and centres, for the estimate, its folds and its gradient."""
    b = min(n_centers, n)
    return 8.0 * b * (10.0 * n + 6.0 * b)
