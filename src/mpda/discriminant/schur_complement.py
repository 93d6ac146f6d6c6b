"""From a form over (t, v) to one over t: v is eliminated exactly, class by class.

The solver follows the block at hand. A small one is factored as it is. In a larger one the diagonal
blocks become identities, and it is solved in single precision, again and again for what is left of
the right sides in double precision: by conjugate gradients, as long as they cost no more than a
dense factor would, and then by that factor. What neither brings below the tolerance goes to a
factor in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg.lapack import spotrf, spotrs
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.linalg import splu

from mpda._lib.array_types import Array, Floats
from mpda._lib.arrays import (
    EPSILON,
    array_namespace,
    as_contiguous,
    as_float,
    cholesky,
    column_dots,
    gram,
    is_numpy,
    maximum,
    multiply_into,
    nbytes,
    safe_divide,
    set_at,
    solve_triangular,
    take,
    to_device,
    to_host,
    zeros,
)
from mpda._lib.memory import refuse_beyond_memory
from mpda.discriminant.scatter import symmetrize
from mpda.discriminant.within_form import WithinForm

# Up to this many unknowns a dense factor in double precision is fastest; on another device it takes
# 2 GB then.
_DENSE_LIMIT, _DEVICE_DENSE_LIMIT = 2000, 16384
# Up to this many unknowns there may be a dense factor in single precision; it takes 256 MB then.
_FACTOR_LIMIT = 8192
# An operation in a product with a sparse matrix takes about six times as long as in a dense factor.
_SPARSE_PRICE = 6.0
# Conjugate gradients are not begun for fewer steps than this, after which their speed is known.
_FEWEST_STEPS = 4
_MAX_STEPS = 300
# The residual of the solution beside the right side; the reduction has the square of its error.
# With a ridge below the given share of the diagonal what is left of S_tt may be small too.
_TOLERANCE, _TIGHT_TOLERANCE, _SMALL_RIDGE = 1e-4, 1e-9, 1e-3
_MAX_CORRECTIONS = 5
# A right side of nothing is divided by this.
_TINY = np.finfo(float).tiny
# Patches whose rows are multiplied at a time.
_GROUP, _DEVICE_GROUP = 8, 4096
# Right sides at a time.
_BLOCK_COLUMNS = 80


@dataclass(frozen=True)
class EliminationResult:
    """What minimising over v takes off S_tt in one class, and how it was found.

    taken : (d, d)
    solver : "dense", a factor in double precision; "range", the same where the block is singular;
        "single", a factor in single precision, corrected; "iterative", conjugate gradients,
        corrected; "sparse", a sparse factor; "none", where there is no v
    residual : the largest residual of a solution beside its right side, 0 for a dense factor; the
        square of it is the error of what was taken
    """

    taken: Array
    solver: str
    residual: float = 0.0


Solve = Callable[[Array], Array | None]
"""Approximate solutions for right sides in single precision; None where there are none."""


def eliminate_tangents(form: WithinForm, gamma: float, beta: float) -> EliminationResult:
    """S_tv (S_vv + beta I)^-1 S_tv' (d, d): what minimising over v takes off S_tt.

    Where S_vv + beta I is singular (beta = 0) its pseudo-inverse takes the place of the inverse;
    S_tv' lies in its range because S is positive semi-definite.
    """
    here = is_numpy(form.cross)
    if form.size <= (_DENSE_LIMIT if here else _DEVICE_DENSE_LIMIT):
        B = form.cross_columns()
        if form.size == 0:
            return EliminationResult(zeros((B.shape[0], B.shape[0]), B), "none")
        return _eliminated_dense(form.tangent_block(gamma, beta), B)
    xp, size = array_namespace(form.cross), form.size
    trace = float(xp.sum(xp.linalg.diagonal(form.first_order + gamma * form.turning)))
    tolerance = _TIGHT_TOLERANCE if beta * size < _SMALL_RIDGE * trace else _TOLERANCE
    # With ones on the diagonal no scale is too large or too small for single precision.
    form = form.balanced(gamma, beta)
    B, C = form.cross_columns(), row_blocks(form, 1.0)
    del form  # what is no longer needed of a large class makes room
    for solver, max_steps in _attempts(C, B.shape[0]):
        if solver == "single":
            solve = _factored(C)
        else:
            solve = partial(_conjugate_gradients, C.single(), max_steps)
        found = None if solve is None else _corrected(C, B, solve, solver, tolerance)
        if found is not None:
            return found
    # What comes so far is rare: it is settled on this machine.
    sides = to_host(B)
    if beta * size <= EPSILON * trace:  # perhaps singular, where a sparse factor means nothing
        refuse_beyond_memory(
            24.0 * size**2,
            f"The range of a singular block of {size} tangent coordinates",
            "Set a larger tangent_alpha (or alpha, which stands for it), which needs no range.",
        )
        found = _eliminated_dense(C.toarray(), sides)
        return replace(found, taken=to_device(found.taken, B))
    matrix = C.tocsr()
    X = splu(csc_array(matrix)).solve(np.ascontiguousarray(sides.T))
    left = sides.T - matrix @ X
    residual = np.sqrt(column_dots(left, left) / maximum(column_dots(sides.T, sides.T), _TINY))
    return EliminationResult(
        to_device(symmetrize(sides @ X + X.T @ left), B), "sparse", float(residual.max())
    )


def _eliminated_dense(C: Array, B: Array) -> EliminationResult:
    """B C^-1 B' by Cholesky, or on the range of C where it is singular."""
    xp = array_namespace(C)
    rounding = C.shape[0] * EPSILON
    factor = cholesky(C)
    if factor is not None:
        pivots = xp.linalg.diagonal(factor)
        if bool(xp.min(pivots) ** 2 > rounding * xp.max(pivots) ** 2):
            return EliminationResult(gram(solve_triangular(factor, B.T)), "dense")
    values, vectors = xp.linalg.eigh(C)
    kept = int(xp.count_nonzero(values > rounding * values[-1]))  # the last ones
    if kept == 0:
        return EliminationResult(zeros((B.shape[0], B.shape[0]), B), "range")
    values, vectors = values[values.shape[0] - kept :], vectors[:, values.shape[0] - kept :]
    return EliminationResult(gram(vectors.T @ B.T / xp.sqrt(values)[:, None]), "range")


def _attempts(C: RowBlocks, d: int) -> Iterator[tuple[str, int]]:
    """The solvers to try in turn for d right sides, with the steps that an iteration may take."""
    if C.size <= _FACTOR_LIMIT and C.here:
        steps = int(C.size**3 / 3.0 / (_SPARSE_PRICE * 2.0 * C.nnz * d))
        if steps >= _FEWEST_STEPS:
            yield "iterative", min(steps, _MAX_STEPS)
        yield "single", 0
    yield "iterative", _MAX_STEPS


def _corrected(
    C: RowBlocks, B: Array, solve: Solve, solver: str, tolerance: float
) -> EliminationResult | None:
    """B C^-1 B' from rough solutions for what is left of the right sides; None if they fail.

    With solutions X that leave residuals r = B' - C X it is B X + X'r, up to r'C^-1 r: the square
    of their error. Right sides are taken in blocks, for memory; and because r is small, single
    precision is enough for the second term.
    """
    xp = array_namespace(B)
    d, n = B.shape
    lengths = xp.sqrt(column_dots(B.T, B.T))
    lengths = xp.where(lengths == 0.0, 1.0, lengths)
    solutions, residuals = (as_float(zeros((n, d), B), single=True) for _ in range(2))
    product = zeros((d, d), B)
    largest = 0.0
    for columns in np.array_split(np.arange(d), -(-d // _BLOCK_COLUMNS)):
        block = slice(int(columns[0]), int(columns[-1]) + 1)
        found = _solved(C, B[block, :].T / lengths[block], solve, tolerance)
        if found is None:
            return None
        X, residual, left = found
        product[:, block] = B @ (X * lengths[block])
        solutions[:, block] = as_float(X, single=True)
        residuals[:, block] = as_float(residual, single=True)
        largest = max(largest, left)
    second = as_float(solutions.T @ residuals) * (lengths[:, None] * lengths)
    return EliminationResult(symmetrize(product + second), solver, largest)


def _solved(
    C: RowBlocks, rhs: Array, solve: Solve, tolerance: float
) -> tuple[Array, Array, float] | None:
    """Solutions (n, r) for right sides (n, r) of length one, their residuals, and the longest."""
    xp = array_namespace(rhs)
    X = xp.zeros_like(rhs)
    residual = rhs
    for _ in range(_MAX_CORRECTIONS):
        step = solve(as_float(residual, single=True))
        if step is None:
            return None
        X += step
        residual = rhs - C @ X
        left = float(xp.sqrt(xp.max(column_dots(residual, residual))))
        if left <= tolerance:
            return X, residual, left
    return None


def _factored(C: RowBlocks) -> Solve | None:
    """Solutions by a dense factor; None where the block is singular in single precision."""
    dense = C.single().toarray().T  # symmetric, and in the order of LAPACK
    factor, failed = spotrf(dense, lower=1, clean=0, overwrite_a=1)
    if failed:
        return None
    return lambda rhs: spotrs(factor, rhs, lower=1)[0]


def _conjugate_gradients(C: RowBlocks, max_steps: int, rhs: Array) -> Array | None:
    """C^-1 rhs for all columns at once; None if it would take more steps."""
    xp = array_namespace(rhs)
    X = xp.zeros_like(rhs)
    residual, direction = xp.asarray(rhs, copy=True), xp.asarray(rhs, copy=True)
    squares = column_dots(rhs, rhs)
    target = (0.5 * _TOLERANCE) ** 2 * maximum(squares, _TIGHT_TOLERANCE**2)
    change = xp.empty_like(rhs)  # memory that is warm
    begin = 1.0
    for taken in range(max_steps + 1):
        left = float(xp.max(squares / target))  # to be brought to 1
        if left <= 1.0:
            return X
        begin = begin if taken else left
        if taken >= _FEWEST_STEPS and max_steps < _MAX_STEPS:  # there is another way
            # At the mean pace so far; conjugate gradients become faster rather than slower.
            needed = taken * np.log(left) / np.log(begin / left) if left < begin else np.inf
            if needed > 1.5 * (max_steps - taken):
                return None
        image = C @ direction
        curvature = column_dots(direction, image)
        length = safe_divide(squares, curvature, xp.zeros_like(squares))
        X += multiply_into(direction, length, change)
        image *= length
        residual -= image
        last, squares = squares, column_dots(residual, residual)
        direction *= safe_divide(squares, last, xp.zeros_like(squares))
        direction += residual
    return None


@dataclass(frozen=True)
class RowBlocks:
    """A tangent block for products with many columns: the rows of patches as dense blocks.

    size : the number of rows
    groups : for some patches of one dimension m, their rows (g, m), the columns (g, w) in which
        there are entries, and these (g, m, w); what a patch has less than w columns stands as
        column 0 times 0
    """

    size: int
    groups: list[tuple[Array, Array, Array]]

    @property
    def here(self) -> bool:
        """Whether it is in the memory of this machine."""
        return is_numpy(self.groups[0][2])

    @property
    def nnz(self) -> int:
        return sum(nbytes(blocks) for *_, blocks in self.groups) // 8

    def __matmul__(self, X: Array) -> Array:
        product = array_namespace(X).empty_like(X)
        for numbers, columns, blocks in self.groups:
            product = set_at(product, numbers, blocks @ take(X, columns))
        return product

    def single(self) -> RowBlocks:
        """The same in single precision."""
        groups = [(rows, columns, as_float(C, single=True)) for rows, columns, C in self.groups]
        return RowBlocks(self.size, groups)

    def toarray(self) -> Floats:
        """The same as a dense matrix on this machine."""
        groups = [tuple(map(to_host, group)) for group in self.groups]
        dense = np.zeros((self.size, self.size), dtype=groups[0][2].dtype)
        for numbers, columns, blocks in groups:
            dense[numbers[:, :, None], columns[:, None, :]] = blocks
            # What fills up the columns has put 0 into column 0, which if used is the first.
            dense[numbers, columns[:, :1]] = blocks[:, :, 0]
        return dense

    def tocsr(self) -> csr_array:
        """The same as a sparse matrix."""
        entries = []
        for group in self.groups:
            numbers, columns, blocks = map(to_host, group)
            places = np.broadcast_arrays(numbers[:, :, None], columns[:, None])
            entries.append([each.ravel() for each in (blocks, *places)])
        data, row, column = (np.concatenate(each) for each in zip(*entries, strict=True))
        return coo_array((data, (row, column)), shape=(self.size, self.size)).tocsr()


def row_blocks(form: WithinForm, gamma: float) -> RowBlocks:
    """S_vv, patches of one dimension and a like number of columns together."""
    xp = array_namespace(form.cross)
    layout, dimensions = form.layout(), form.dimensions
    diagonal = form.diagonal_blocks(gamma, 0.0)
    first = np.cumsum(dimensions) - dimensions
    widths = np.add.reduceat(dimensions[layout.columns], layout.starts[:-1])
    numbers = first[:, None] + np.arange(form.used.shape[1])  # of the entries of v
    order = np.lexsort((widths, dimensions))
    order = order[dimensions[order] > 0]
    step = _GROUP if is_numpy(diagonal) else _DEVICE_GROUP
    groups = []
    for alike in np.split(order, np.flatnonzero(np.diff(dimensions[order])) + 1):
        m = dimensions[alike[0]]
        for start in range(0, alike.size, step):
            patches = alike[start : start + step]
            ranges = [np.arange(*layout.starts[p : p + 2]) for p in patches]
            entries = np.concatenate(ranges)
            others = layout.columns[entries]
            used = form.used[others]
            present = np.arange(widths[patches].max()) < widths[patches, None]
            columns = np.zeros(present.shape, dtype=np.intp)
            columns[present] = numbers[others][used]
            blocks = form.blocks_at(layout.blocks[entries], diagonal, gamma)
            # The blocks of the rows, columns first.
            across = xp.permute_dims(blocks[:, :m, :], (0, 2, 1))[to_device(used, blocks)]
            whole = set_at(zeros((*present.shape, m), blocks), to_device(present, blocks), across)
            groups.append(
                (
                    to_device(numbers[patches, :m], blocks),
                    to_device(columns, blocks),
                    as_contiguous(xp.permute_dims(whole, (0, 2, 1))),
                )
            )
    return RowBlocks(form.size, groups)
