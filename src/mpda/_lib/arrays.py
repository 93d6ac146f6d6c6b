"""Arrays of other libraries: PyTorch, CuPy, and whatever follows the array API standard.

Which library is at work shows only here. Elsewhere a function begins with ``xp = namespace(X)`` and
uses what the standard has; what it lacks, or what NumPy and SciPy do better in a way of their own,
is a function of this file. Labels, counts and the names of classes stay with NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf, dtrtrs
from scipy.spatial.distance import cdist
from sklearn.externals import array_api_compat
from sklearn.externals.array_api_compat import device as device
from sklearn.externals.array_api_compat import numpy as wrapped_numpy

from mpda._lib.array_types import Array

# NumPy follows the standard by itself since 2.1, without the calls that a wrapper costs.
_NUMPY = np if hasattr(np, "cumulative_sum") else wrapped_numpy
# The rounding of double precision, as a number of Python: other arrays know none of NumPy's.
EPSILON = float(np.finfo(float).eps)
# Entries that are worked on at a time where memory is not that of this machine's caches.
_DEVICE_ENTRIES = 2**26


def is_numpy(X: Array) -> bool:
    """Whether X is an array of NumPy."""
    return isinstance(X, np.ndarray | np.generic)


def is_device_array(X: Any) -> bool:
    """Whether X is an array of another library that follows the standard."""
    return not is_numpy(X) and array_api_compat.is_array_api_obj(X)


def is_on_accelerator(X: Any) -> bool:
    """Whether X is not in the memory of this machine."""
    if array_api_compat.is_cupy_array(X):
        return True
    return array_api_compat.is_torch_array(X) and X.device.type != "cpu"


def has_double_precision(X: Any) -> bool:
    """Whether the device of X knows numbers in double precision."""
    return not array_api_compat.is_torch_array(X) or X.device.type != "mps"


def is_mutable(X: Array) -> bool:
    """Whether X can be changed in place."""
    return not array_api_compat.is_jax_array(X)


def is_complex(X: Array) -> bool:
    """Whether X holds complex numbers."""
    return bool(array_namespace(X).isdtype(X.dtype, "complex floating"))


def array_namespace(X: Array) -> Any:
    """The functions of the standard for arrays such as X."""
    return _NUMPY if is_numpy(X) else array_api_compat.array_namespace(X)


def describe_library(X: Array) -> str:
    """The library and the device of X, in words."""
    if is_numpy(X):
        return "numpy"
    name = array_namespace(X).__name__.removeprefix("sklearn.externals.array_api_compat.")
    return f"{name} on {device(X)}"


def to_host(X: Any) -> Any:
    """X as an array of NumPy."""
    if is_numpy(X):
        return X
    if array_api_compat.is_cupy_array(X):
        return X.get()
    if array_api_compat.is_torch_array(X):
        X = X.detach().cpu()
        return (X.float() if str(X.dtype) == "torch.bfloat16" else X).numpy()
    xp = array_namespace(X)
    # The standard has no name for this machine; array-api-strict has devices that are not it.
    return np.asarray(X.to_device(xp.Device("CPU_DEVICE")) if hasattr(xp, "Device") else X)


def to_device(values: Any, X: Array) -> Array:
    """An array of NumPy, where X is."""
    if is_numpy(X):
        return values
    values = np.ascontiguousarray(values)
    return array_namespace(X).asarray(values, device=device(X))


def numbers_to_device(values: Any, X: Array) -> Array:
    """An array of NumPy, where X is if its library has the type; none but NumPy has names."""
    if values.dtype.kind not in "biuf":
        return values
    try:
        return to_device(values, X)
    except TypeError:
        return values


def detach(X: Any) -> Array:
    """X alone: what is computed from it is not remembered for derivatives."""
    return X.detach() if array_api_compat.is_torch_array(X) else X


def bits(X: Array) -> Array:
    """The bits of X in double precision, as integers."""
    X = as_contiguous(as_float(X))
    if array_api_compat.is_torch_array(X):
        return X.view(array_namespace(X).int64)
    if is_numpy(X) or array_api_compat.is_cupy_array(X):
        return X.view(np.int64)
    return to_device(to_host(X).view(np.int64), X)


def move_to(values: Array, X: Array) -> Array:
    """Any array, where X is."""
    if is_numpy(values) and is_numpy(X):
        return values
    there = type(values) is type(X) and device(values) == device(X)
    return values if there else to_device(to_host(values), X)


def zeros(shape: tuple[int, ...], X: Array) -> Array:
    """Zeros in double precision, where X is."""
    xp = array_namespace(X)
    return xp.zeros(shape, dtype=xp.float64, device=device(X))


def eye(n: int, X: Array) -> Array:
    """The identity (n, n) in double precision, where X is."""
    xp = array_namespace(X)
    return xp.eye(n, dtype=xp.float64, device=device(X))


def arange(n: int, X: Array) -> Array:
    """0 to n - 1, where X is."""
    return array_namespace(X).arange(n, device=device(X))


def nbytes(X: Array) -> int:
    """The memory that X takes."""
    if is_numpy(X):
        return int(X.nbytes)
    return int(array_api_compat.size(X) or 0) * array_namespace(X).finfo(X.dtype).bits // 8


def as_contiguous(X: Any) -> Array:
    """X with its rows one after the other in memory, where that can be said."""
    if is_numpy(X):
        return np.ascontiguousarray(X)
    return X.contiguous() if array_api_compat.is_torch_array(X) else X


def block_entries(X: Array, here: int) -> int:
    """How many entries to work on at a time: ``here`` on this machine, many elsewhere."""
    return here if is_numpy(X) else _DEVICE_ENTRIES


def iter_slices(n: int, step: int) -> Iterator[slice]:
    """0 to n in pieces of at most ``step``, none of which goes beyond the end."""
    for start in range(0, n, max(1, step)):
        yield slice(start, min(start + max(1, step), n))


def as_float(X: Array, *, single: bool = False) -> Array:
    """X in double or single precision."""
    if is_numpy(X):
        return X.astype(np.float32 if single else np.float64, copy=False)
    xp = array_namespace(X)
    return xp.astype(X, xp.float32 if single else xp.float64, copy=False)


def astype(values: Array, dtype: Any) -> Array:
    """The values in a type of their library."""
    if is_numpy(values):
        return values.astype(dtype, order="C", copy=False)
    return array_namespace(values).astype(values, dtype, copy=False)


def ldexp(X: Array, exponent: int) -> Array:
    """X times 2^exponent."""
    if is_numpy(X):
        return np.ldexp(X, exponent, order="C")
    # A factor alone may leave the range of floating-point numbers.
    while exponent:
        step = max(-1000, min(1000, exponent))
        X, exponent = X * 2.0**step, exponent - step
    return X


def maximum(X: Array, least: float) -> Array:
    """The larger of X and a number."""
    return np.maximum(X, least) if is_numpy(X) else array_namespace(X).clip(X, least, None)


def safe_divide(X: Array | float, by: Array, otherwise: Array) -> Array:
    """X over what it is divided by where that is above 0; else ``otherwise``, of the same shape.

    May change ``otherwise``.
    """
    if is_numpy(by):
        return np.divide(X, by, out=otherwise, where=by > 0.0)
    xp = array_namespace(by)
    return xp.where(by > 0.0, X / xp.where(by > 0.0, by, 1.0), otherwise)


def _takes_index_arrays(X: Array) -> bool:
    """Whether X is read and changed at arrays of indices as those of NumPy are."""
    return is_numpy(X) or array_api_compat.is_torch_array(X) or array_api_compat.is_cupy_array(X)


def take(X: Array, places: Array) -> Array:
    """X[places] along the first axis, for an array of indices of any shape."""
    if is_numpy(X) and X.flags.c_contiguous:  # of any other it would make a copy first
        return X.take(places, axis=0)
    if _takes_index_arrays(X):
        return X[places]  # one call; the standard's ``take`` looks for negative places first
    xp = array_namespace(X)
    found = xp.take(X, xp.reshape(places, (-1,)), axis=0)
    return xp.reshape(found, (*places.shape, *X.shape[1:]))


def take_nd(X: Array, places: tuple[Any, ...]) -> Array:
    """X[places] for arrays of indices, and slices among them."""
    if _takes_index_arrays(X):
        return X[places]
    return to_device(to_host(X)[tuple(map(_host_index, places))], X)


def set_at(X: Array, places: Any, values: Any) -> Array:
    """X with X[places] = values, changed in place where the library can."""
    if _takes_index_arrays(X):
        X[places] = values
        return X
    changed = to_host(X).copy()
    several = isinstance(places, tuple)
    changed[tuple(map(_host_index, places)) if several else to_host(places)] = _host_index(values)
    return to_device(changed, X)


def _host_index(value: Any) -> Any:
    return to_host(value) if array_api_compat.is_array_api_obj(value) else value


def add_segments(total: Array, owners: Array, blocks: Array) -> Array:
    """total (P, ...) with the blocks (b, ...) added to their owners (b,), which are sorted.

    In an order that does not change from run to run. In place where the library can.
    """
    if array_api_compat.is_torch_array(total):
        import torch

        lengths = torch.bincount(owners, minlength=len(total))
        flat = blocks.reshape(len(blocks), total[0].numel() if len(total) else 1)
        total += torch.segment_reduce(flat, "sum", lengths=lengths).reshape(total.shape)
        return total
    host = to_host(owners)
    if host.size == 0:
        return total
    first = np.concatenate([[0], (host[1:] != host[:-1]).nonzero()[0] + 1])
    if is_numpy(total):
        total[host[first]] += np.add.reduceat(blocks, first, axis=0)
        return total
    if array_api_compat.is_cupy_array(total):
        import cupy

        total[to_device(host[first], total)] += cupy.add.reduceat(
            blocks, to_device(first, total), axis=0
        )
        return total
    sums = to_host(total).copy()
    sums[host[first]] += np.add.reduceat(to_host(blocks), first, axis=0)
    return to_device(sums, total)


def pairwise_distances(A: Array, B: Array) -> Array:
    """The distances (..., a, b) of points A (..., a, d) and B (..., b, d), each from differences.

    Squares are added one feature after the other, as SciPy does it: so that points which are
    equally far by one library are so by another.
    """
    if is_numpy(A) and A.ndim == 2:
        return cdist(A, B)
    squares = zeros((*A.shape[:-1], B.shape[-2]), A)
    for feature in range(A.shape[-1]):
        gaps = A[..., :, None, feature] - B[..., None, :, feature]
        gaps *= gaps
        squares += gaps
    return array_namespace(A).sqrt(squares)


def sum_over_rows(X: Array) -> Array:
    """The sums (p,) of the columns of X (d, p), one row added after the other."""
    if is_numpy(X):
        return X.sum(axis=0)
    total = X[0, :]
    for row in range(1, X.shape[0]):
        total = total + X[row, :]
    return total


def argsmallest(D: Any, k: int) -> Array:
    """The places (r, k) of the k smallest entries in each row of D (r, n), in no order."""
    if is_numpy(D):
        return np.argpartition(D, k - 1, axis=1)[:, :k]
    if array_api_compat.is_torch_array(D):
        return D.topk(k, dim=1, largest=False, sorted=False).indices
    if array_api_compat.is_cupy_array(D):
        return D.argpartition(k - 1, axis=1)[:, :k]
    return array_namespace(D).argsort(D, axis=1)[:, :k]


def argsort_rows(first: Array, second: Array) -> Array:
    """The order (r, n) of each row by its first key, by the second where that is equal."""
    xp = array_namespace(first)
    if is_numpy(first):
        return np.lexsort((second, first), axis=1)
    order = xp.argsort(second, axis=1, stable=True)
    by_first = xp.argsort(xp.take_along_axis(first, order, axis=1), axis=1, stable=True)
    return xp.take_along_axis(order, by_first, axis=1)


def cholesky(S: Array) -> Array | None:
    """L (d, d), lower, with S = L L'; None where there is none."""
    if is_numpy(S):
        L, failed = dpotrf(S, lower=1)
        return None if failed else L
    xp = array_namespace(S)
    if array_api_compat.is_torch_array(S):
        import torch

        L, failed = torch.linalg.cholesky_ex(S)
        return None if bool(failed) else L
    try:
        L = xp.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return None
    # Some libraries say so by numbers that are none.
    return L if bool(xp.all(xp.isfinite(xp.linalg.diagonal(L)))) else None


def solve_triangular(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L^-1 B, or L'^-1 B, for a lower triangular L."""
    if is_numpy(L):
        return dtrtrs(L, B, lower=1, trans=int(transposed))[0]
    xp = array_namespace(L)
    side = xp.matrix_transpose(L) if transposed else L
    if array_api_compat.is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(side, B, upper=transposed)
    if array_api_compat.is_cupy_array(L):
        from cupyx.scipy.linalg import solve_triangular as solved

        return solved(L, B, trans=int(transposed), lower=True)
    return xp.linalg.solve(side, B)


def least_squares(A: Array, B: Array) -> Array:
    """The shortest X (d, q) with the least |A X - B|."""
    return lstsq(A, B)[0] if is_numpy(A) else array_namespace(A).linalg.pinv(A) @ B


def condition_number(S: Array, L: Array, size: float = 0.0) -> float:
    """An estimate of that of S = L L', taken for as large as ``size`` if it is smaller."""
    if is_numpy(S):
        reciprocal, _ = dpocon(L, max(np.abs(S).sum(axis=0).max(), size), uplo="L")
        return 1.0 / reciprocal if reciprocal > 0.0 else np.inf
    values = array_namespace(S).linalg.eigvalsh(S)
    least, largest = float(values[0]), max(float(values[-1]), size)
    return largest / least if least > 0.0 else np.inf


def gram(half: Array) -> Array:
    """half' half, symmetric to the last bit."""
    if not is_numpy(half):
        product = array_namespace(half).matrix_transpose(half) @ half
        return 0.5 * (product + array_namespace(half).matrix_transpose(product))
    # SciPy's product, not NumPy's: each may carry a BLAS of its own, and two pools of threads
    # that take turns on small matrices wait for each other (10 times slower on 2 cores).
    lower = dsyrk(1.0, half, trans=1, lower=1)  # zero above the diagonal
    product = lower + lower.T
    np.fill_diagonal(product, np.diagonal(lower))
    return product


def multiply_into(X: Array, by: Array, room: Array) -> Array:
    """X times a factor, in the room of another array where the library can."""
    return np.multiply(X, by, out=room) if is_numpy(X) else X * by


def column_dots(A: Array, B: Array) -> Array:
    """The inner products (r,) of the columns of A and B (n, r)."""
    if is_numpy(A):
        return np.asarray(np.einsum("ij,ij->j", A, B))
    return array_namespace(A).sum(A * B, axis=0)


def rounds_between_checks(X: Array) -> int:
    """How many rounds of a loop may go by before it is asked whether it is over.

    On a device the question waits for all that was ordered before, so it is asked seldom there;
    rounds after the end must change nothing.
    """
    return 1 if is_numpy(X) else 4


def full(shape: int | tuple[int, ...], value: bool | int | float, X: Array) -> Array:
    """An array of one value, where X is."""
    xp = array_namespace(X)
    types = {bool: xp.bool, int: xp.int64, float: xp.float64}
    return xp.full(shape, value, dtype=types[type(value)], device=device(X))


def worthwhile(mask: Array) -> Array | None:
    """The places (p,) where a mask (n,) is true, or None for all n.

    On a device it takes longer to find them than to do the work for all.
    """
    return mask.nonzero()[0] if is_numpy(mask) else None


def chosen(X: Array, places: Array | None) -> Array:
    """X[places] along the first axis, all of X for None."""
    return X if places is None else take(X, places)


def replaced(X: Array, places: Array | None, values: Array) -> Array:
    """X with X[places] = values along the first axis, in place if the library can."""
    return values if places is None else set_at(X, places, values)


def places_where(mask: Array) -> Array:
    """The places (p,) where a mask (n,) is true."""
    return mask.nonzero()[0] if is_numpy(mask) else array_namespace(mask).nonzero(mask)[0]


def segment_sum(values: Any, owners: Array, n: int) -> Array:
    """The sums (n, c) of the rows of values (v, c) that have one owner (v,)."""
    if array_api_compat.is_torch_array(values):
        return values.new_zeros((n, values.shape[1])).index_add_(0, owners, values)
    if array_api_compat.is_cupy_array(values):
        xp = array_namespace(values)
        sums = xp.zeros((n, values.shape[1]), dtype=values.dtype)
        xp.add.at(sums, owners, values)
        return sums
    owners = to_host(owners)
    sums = [np.bincount(owners, column, n) for column in to_host(values).T]
    return to_device(np.stack(sums, axis=1), values)


def put_smaller(X: Any, places: Array, values: Array) -> Array:
    """X[places] = minimum of itself and of all values for that place, in place if it can be."""
    if array_api_compat.is_torch_array(X):
        return X.scatter_reduce_(0, places, values, "amin")
    if array_api_compat.is_cupy_array(X):
        array_namespace(X).minimum.at(X, places, values)
        return X
    host = X if is_numpy(X) else to_host(X).copy()
    np.minimum.at(host, to_host(places), to_host(values))
    return to_device(host, X)
