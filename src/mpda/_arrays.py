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

from mpda._typing import Array

# NumPy follows the standard by itself since 2.1, without the calls that a wrapper costs.
_NUMPY = np if hasattr(np, "cumulative_sum") else wrapped_numpy
# The rounding of double precision, as a number of Python: other arrays know none of NumPy's.
EPSILON = float(np.finfo(float).eps)
# Entries that are worked on at a time where memory is not that of this machine's caches.
_DEVICE_ENTRIES = 2**26


def on_host(X: Array) -> bool:
    """Whether X is an array of NumPy."""
    return isinstance(X, np.ndarray | np.generic)


def is_foreign(X: Any) -> bool:
    """Whether X is an array of another library that follows the standard."""
    return not on_host(X) and array_api_compat.is_array_api_obj(X)


def on_other_device(X: Array) -> bool:
    """Whether X is not in the memory of this machine."""
    if array_api_compat.is_cupy_array(X):
        return True
    return array_api_compat.is_torch_array(X) and X.device.type != "cpu"


def has_double_precision(X: Array) -> bool:
    """Whether the device of X knows numbers in double precision."""
    return not array_api_compat.is_torch_array(X) or X.device.type != "mps"


def can_be_changed(X: Array) -> bool:
    """Whether X can be changed in place."""
    return not array_api_compat.is_jax_array(X)


def is_complex(X: Array) -> bool:
    """Whether X holds complex numbers."""
    return bool(namespace(X).isdtype(X.dtype, "complex floating"))


def namespace(X: Array) -> Any:
    """The functions of the standard for arrays such as X."""
    return _NUMPY if on_host(X) else array_api_compat.array_namespace(X)


def library(X: Array) -> str:
    """The library and the device of X, in words."""
    if on_host(X):
        return "numpy"
    name = namespace(X).__name__.removeprefix("sklearn.externals.array_api_compat.")
    return f"{name} on {device(X)}"


def to_host(X: Array) -> Any:
    """X as an array of NumPy."""
    if on_host(X):
        return X
    if array_api_compat.is_cupy_array(X):
        return X.get()
    if array_api_compat.is_torch_array(X):
        X = X.detach().cpu()
        return (X.float() if str(X.dtype) == "torch.bfloat16" else X).numpy()
    xp = namespace(X)
    # The standard has no name for this machine; array-api-strict has devices that are not it.
    return np.asarray(X.to_device(xp.Device("CPU_DEVICE")) if hasattr(xp, "Device") else X)


def like(values: Any, X: Array) -> Array:
    """An array of NumPy, where X is."""
    if on_host(X):
        return values
    values = np.ascontiguousarray(values)
    return namespace(X).asarray(values, device=device(X))


def numbers_like(values: Any, X: Array) -> Array:
    """An array of NumPy, where X is if its library has the type; none but NumPy has names."""
    if values.dtype.kind not in "biuf":
        return values
    try:
        return like(values, X)
    except TypeError:
        return values


def detached(X: Array) -> Array:
    """X alone: what is computed from it is not remembered for derivatives."""
    return X.detach() if array_api_compat.is_torch_array(X) else X


def bits(X: Array) -> Array:
    """The bits of X in double precision, as integers."""
    X = contiguous(as_floats(X))
    if array_api_compat.is_torch_array(X):
        return X.view(namespace(X).int64)
    if on_host(X) or array_api_compat.is_cupy_array(X):
        return X.view(np.int64)
    return like(to_host(X).view(np.int64), X)


def moved(values: Array, X: Array) -> Array:
    """Any array, where X is."""
    if on_host(values) and on_host(X):
        return values
    there = type(values) is type(X) and device(values) == device(X)
    return values if there else like(to_host(values), X)


def zeros(shape: tuple[int, ...], X: Array) -> Array:
    """Zeros in double precision, where X is."""
    xp = namespace(X)
    return xp.zeros(shape, dtype=xp.float64, device=device(X))


def eye(n: int, X: Array) -> Array:
    """The identity (n, n) in double precision, where X is."""
    xp = namespace(X)
    return xp.eye(n, dtype=xp.float64, device=device(X))


def count_up(n: int, X: Array) -> Array:
    """0 to n - 1, where X is."""
    return namespace(X).arange(n, device=device(X))


def nbytes(X: Array) -> int:
    """The memory that X takes."""
    if on_host(X):
        return int(X.nbytes)
    return int(array_api_compat.size(X) or 0) * namespace(X).finfo(X.dtype).bits // 8


def contiguous(X: Array) -> Array:
    """X with its rows one after the other in memory, where that can be said."""
    if on_host(X):
        return np.ascontiguousarray(X)
    return X.contiguous() if array_api_compat.is_torch_array(X) else X


def at_a_time(X: Array, here: int) -> int:
    """How many entries to work on at a time: ``here`` on this machine, many elsewhere."""
    return here if on_host(X) else _DEVICE_ENTRIES


def slices(n: int, step: int) -> Iterator[slice]:
    """0 to n in pieces of at most ``step``, none of which goes beyond the end."""
    for start in range(0, n, max(1, step)):
        yield slice(start, min(start + max(1, step), n))


def as_floats(X: Array, *, single: bool = False) -> Array:
    """X in double or single precision."""
    if on_host(X):
        return X.astype(np.float32 if single else np.float64, copy=False)
    xp = namespace(X)
    return xp.astype(X, xp.float32 if single else xp.float64, copy=False)


def as_type(values: Array, dtype: Any) -> Array:
    """The values in a type of their library."""
    if on_host(values):
        return values.astype(dtype, order="C", copy=False)
    return namespace(values).astype(values, dtype, copy=False)


def power_of_two(X: Array, exponent: int) -> Array:
    """X times 2^exponent."""
    if on_host(X):
        return np.ldexp(X, exponent, order="C")
    # A factor alone may leave the range of floating-point numbers.
    while exponent:
        step = max(-1000, min(1000, exponent))
        X, exponent = X * 2.0**step, exponent - step
    return X


def at_least(X: Array, least: float) -> Array:
    """The larger of X and a number."""
    return np.maximum(X, least) if on_host(X) else namespace(X).clip(X, least, None)


def divided(X: Array, by: Array, otherwise: Array) -> Array:
    """X over what it is divided by where that is above 0; else ``otherwise``, of the same shape.

    May change ``otherwise``.
    """
    if on_host(by):
        return np.divide(X, by, out=otherwise, where=by > 0.0)
    xp = namespace(by)
    return xp.where(by > 0.0, X / xp.where(by > 0.0, by, 1.0), otherwise)


def _takes_index_arrays(X: Array) -> bool:
    """Whether X is read and changed at arrays of indices as those of NumPy are."""
    return on_host(X) or array_api_compat.is_torch_array(X) or array_api_compat.is_cupy_array(X)


def entries_at(X: Array, places: Array) -> Array:
    """X[places] along the first axis, for an array of indices of any shape."""
    if on_host(X) and X.flags.c_contiguous:  # of any other it would make a copy first
        return X.take(places, axis=0)
    if _takes_index_arrays(X):
        return X[places]  # one call; the standard's ``take`` looks for negative places first
    xp = namespace(X)
    found = xp.take(X, xp.reshape(places, (-1,)), axis=0)
    return xp.reshape(found, (*places.shape, *X.shape[1:]))


def pick(X: Array, places: tuple[Any, ...]) -> Array:
    """X[places] for arrays of indices, and slices among them."""
    if _takes_index_arrays(X):
        return X[places]
    return like(to_host(X)[tuple(map(_host_index, places))], X)


def put(X: Array, places: Any, values: Any) -> Array:
    """X with X[places] = values, changed in place where the library can."""
    if _takes_index_arrays(X):
        X[places] = values
        return X
    changed = to_host(X).copy()
    several = isinstance(places, tuple)
    changed[tuple(map(_host_index, places)) if several else to_host(places)] = _host_index(values)
    return like(changed, X)


def _host_index(value: Any) -> Any:
    return to_host(value) if array_api_compat.is_array_api_obj(value) else value


def add_by_owner(total: Array, owners: Array, blocks: Array) -> Array:
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
    if on_host(total):
        total[host[first]] += np.add.reduceat(blocks, first, axis=0)
        return total
    if array_api_compat.is_cupy_array(total):
        import cupy

        total[like(host[first], total)] += cupy.add.reduceat(blocks, like(first, total), axis=0)
        return total
    sums = to_host(total).copy()
    sums[host[first]] += np.add.reduceat(to_host(blocks), first, axis=0)
    return like(sums, total)


def distances(A: Array, B: Array) -> Array:
    """The distances (..., a, b) of points A (..., a, d) and B (..., b, d), each from differences.

    Squares are added one feature after the other, as SciPy does it: so that points which are
    equally far by one library are so by another.
    """
    if on_host(A) and A.ndim == 2:
        return cdist(A, B)
    squares = zeros((*A.shape[:-1], B.shape[-2]), A)
    for feature in range(A.shape[-1]):
        gaps = A[..., :, None, feature] - B[..., None, :, feature]
        gaps *= gaps
        squares += gaps
    return namespace(A).sqrt(squares)


def column_sums(X: Array) -> Array:
    """The sums (p,) of the columns of X (d, p), one row added after the other."""
    if on_host(X):
        return X.sum(axis=0)
    total = X[0, :]
    for row in range(1, X.shape[0]):
        total = total + X[row, :]
    return total


def smallest(D: Array, k: int) -> Array:
    """The places (r, k) of the k smallest entries in each row of D (r, n), in no order."""
    if on_host(D):
        return np.argpartition(D, k - 1, axis=1)[:, :k]
    if array_api_compat.is_torch_array(D):
        return D.topk(k, dim=1, largest=False, sorted=False).indices
    if array_api_compat.is_cupy_array(D):
        return D.argpartition(k - 1, axis=1)[:, :k]
    return namespace(D).argsort(D, axis=1)[:, :k]


def ordered(first: Array, second: Array) -> Array:
    """The order (r, n) of each row by its first key, by the second where that is equal."""
    xp = namespace(first)
    if on_host(first):
        return np.lexsort((second, first), axis=1)
    order = xp.argsort(second, axis=1, stable=True)
    by_first = xp.argsort(xp.take_along_axis(first, order, axis=1), axis=1, stable=True)
    return xp.take_along_axis(order, by_first, axis=1)


def cholesky(S: Array) -> Array | None:
    """L (d, d), lower, with S = L L'; None where there is none."""
    if on_host(S):
        L, failed = dpotrf(S, lower=1)
        return None if failed else L
    xp = namespace(S)
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
    if on_host(L):
        return dtrtrs(L, B, lower=1, trans=int(transposed))[0]
    xp = namespace(L)
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
    return lstsq(A, B)[0] if on_host(A) else namespace(A).linalg.pinv(A) @ B


def condition_number(S: Array, L: Array, size: float = 0.0) -> float:
    """An estimate of that of S = L L', taken for as large as ``size`` if it is smaller."""
    if on_host(S):
        reciprocal, _ = dpocon(L, max(np.abs(S).sum(axis=0).max(), size), uplo="L")
        return 1.0 / reciprocal if reciprocal > 0.0 else np.inf
    values = namespace(S).linalg.eigvalsh(S)
    least, largest = float(values[0]), max(float(values[-1]), size)
    return largest / least if least > 0.0 else np.inf


def gram(half: Array) -> Array:
    """half' half, symmetric to the last bit."""
    if not on_host(half):
        product = namespace(half).matrix_transpose(half) @ half
        return 0.5 * (product + namespace(half).matrix_transpose(product))
    # SciPy's product, not NumPy's: each may carry a BLAS of its own, and two pools of threads
    # that take turns on small matrices wait for each other (10 times slower on 2 cores).
    lower = dsyrk(1.0, half, trans=1, lower=1)  # zero above the diagonal
    product = lower + lower.T
    np.fill_diagonal(product, np.diagonal(lower))
    return product


def multiplied(X: Array, by: Array, room: Array) -> Array:
    """X times a factor, in the room of another array where the library can."""
    return np.multiply(X, by, out=room) if on_host(X) else X * by


def column_dots(A: Array, B: Array) -> Array:
    """The inner products (r,) of the columns of A and B (n, r)."""
    if on_host(A):
        return np.asarray(np.einsum("ij,ij->j", A, B))
    return namespace(A).sum(A * B, axis=0)


def rounds_between_checks(X: Array) -> int:
    """How many rounds of a loop may go by before it is asked whether it is over.

    On a device the question waits for all that was ordered before, so it is asked seldom there;
    rounds after the end must change nothing.
    """
    return 1 if on_host(X) else 4


def filled(shape: int | tuple[int, ...], value: bool | int | float, X: Array) -> Array:
    """An array of one value, where X is."""
    xp = namespace(X)
    types = {bool: xp.bool, int: xp.int64, float: xp.float64}
    return xp.full(shape, value, dtype=types[type(value)], device=device(X))


def worthwhile(mask: Array) -> Array | None:
    """The places (p,) where a mask (n,) is true, or None for all n.

    On a device it takes longer to find them than to do the work for all.
    """
    return mask.nonzero()[0] if on_host(mask) else None


def chosen(X: Array, places: Array | None) -> Array:
    """X[places] along the first axis, all of X for None."""
    return X if places is None else entries_at(X, places)


def replaced(X: Array, places: Array | None, values: Array) -> Array:
    """X with X[places] = values along the first axis, in place if the library can."""
    return values if places is None else put(X, places, values)


def places_where(mask: Array) -> Array:
    """The places (p,) where a mask (n,) is true."""
    return mask.nonzero()[0] if on_host(mask) else namespace(mask).nonzero(mask)[0]


def segment_sum(values: Array, owners: Array, n: int) -> Array:
    """The sums (n, c) of the rows of values (v, c) that have one owner (v,)."""
    if array_api_compat.is_torch_array(values):
        return values.new_zeros((n, values.shape[1])).index_add_(0, owners, values)
    if array_api_compat.is_cupy_array(values):
        xp = namespace(values)
        sums = xp.zeros((n, values.shape[1]), dtype=values.dtype)
        xp.add.at(sums, owners, values)
        return sums
    owners = to_host(owners)
    sums = [np.bincount(owners, column, n) for column in to_host(values).T]
    return like(np.stack(sums, axis=1), values)


def put_smaller(X: Array, places: Array, values: Array) -> Array:
    """X[places] = minimum of itself and of all values for that place, in place if it can be."""
    if array_api_compat.is_torch_array(X):
        return X.scatter_reduce_(0, places, values, "amin")
    if array_api_compat.is_cupy_array(X):
        namespace(X).minimum.at(X, places, values)
        return X
    host = X if on_host(X) else to_host(X).copy()
    np.minimum.at(host, to_host(places), to_host(values))
    return like(host, X)
