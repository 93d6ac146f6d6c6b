"""Array libraries: NumPy, PyTorch, CuPy and others that follow the array API standard.

No other module knows which library is at work. Functions begin with ``xp = array_namespace(X)`` and
use the functions of the standard; this module has what the standard lacks, and what NumPy, SciPy or
a device library does much faster in a way of its own. "Device of X" means the library and the
device of the array X. Labels, counts and names of classes stay on the host, as NumPy arrays.

NumPy (2.1 or later) is its own namespace. array-api-compat, a dependency of the extras ``torch``
and ``cupy``, is imported when the first device array comes. array-api-strict, by which scikit-learn
checks estimators, lacks a few operations; it goes through the host for them.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf, dtrtrs
from scipy.sparse import issparse
from scipy.spatial.distance import cdist

from mpda._lib.array_types import Array

# Rounding unit of double precision, as a Python number: device arrays refuse NumPy scalars.
EPSILON = float(np.finfo(float).eps)
# Entries in a block on a device: 512 MB. Small blocks, as a CPU cache needs them, would leave a GPU
# waiting for orders.
_DEVICE_ENTRIES = 2**26
# Factors beyond 2^1000 would overflow, so a larger power of two is multiplied in steps.
_LARGEST_EXPONENT = 1000


def is_numpy(X: Any) -> bool:
    """Return True if X is a NumPy array or scalar."""
    return isinstance(X, np.ndarray | np.generic)


def is_host(X: Any) -> bool:
    """Return True if X is a NumPy array, or a sparse matrix of SciPy."""
    return is_numpy(X) or is_sparse(X)


def is_sparse(X: Any) -> bool:
    """Return True if X is a sparse matrix of SciPy."""
    return bool(issparse(X))


def is_torch(X: Any) -> bool:
    """Return True if X is a PyTorch tensor."""
    # A tensor exists only where PyTorch is imported already, so the check need not import it.
    return "torch" in sys.modules and isinstance(X, sys.modules["torch"].Tensor)


def is_cupy(X: Any) -> bool:
    """Return True if X is a CuPy array."""
    return "cupy" in sys.modules and isinstance(X, sys.modules["cupy"].ndarray)


def is_device_array(X: Any) -> bool:
    """Return True if X is an array of a library other than NumPy."""
    return not is_numpy(X) and (is_torch(X) or is_cupy(X) or hasattr(X, "__array_namespace__"))


def is_on_accelerator(X: Any) -> bool:
    """Return True if X is not in the memory of the host."""
    return is_cupy(X) or (is_torch(X) and X.device.type != "cpu")


def has_double_precision(X: Any) -> bool:
    """Return True if the device of X supports double precision."""
    # Apple's GPUs have none.
    return not is_torch(X) or X.device.type != "mps"


def is_mutable(X: Any) -> bool:
    """Return True if X can be changed in place; JAX arrays cannot."""
    return not type(X).__module__.startswith("jax")


def is_complex(X: Any) -> bool:
    """Return True if X holds complex numbers."""
    return bool(array_namespace(X).isdtype(X.dtype, "complex floating"))


def array_namespace(X: Any) -> Any:
    """Return the namespace of array API functions for X."""
    if is_host(X):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(X)


def describe_library(X: Any) -> str:
    """Return the library and the device of X in words."""
    return "numpy" if is_host(X) else f"{type(X).__module__.split('.')[0]} on {X.device}"


def to_host(X: Any) -> Any:
    """Return X as a NumPy array."""
    if is_numpy(X):
        return X
    if is_cupy(X):
        return X.get()
    if is_torch(X):
        X = X.detach().cpu()
        # NumPy has no bfloat16; single precision holds its values exactly.
        return (X.float() if str(X.dtype) == "torch.bfloat16" else X).numpy()
    xp = array_namespace(X)
    # The standard has no name for the host; array-api-strict has further devices.
    return np.asarray(X.to_device(xp.Device("CPU_DEVICE")) if hasattr(xp, "Device") else X)


def to_device(values: Any, X: Array) -> Array:
    """Return a NumPy array as an array on the device of X."""
    if is_host(X):
        return values
    return array_namespace(X).asarray(np.ascontiguousarray(values), device=X.device)


def numbers_to_device(values: Any, X: Array) -> Array:
    """Return a NumPy array on the device of X, unless its library lacks the type (strings)."""
    if values.dtype.kind not in "biuf":
        return values
    try:
        return to_device(values, X)
    except TypeError:
        return values


def move_to(values: Array, X: Array) -> Array:
    """Return an array of any library on the device of X."""
    if type(values) is type(X) and values.device == X.device:
        return values
    return to_device(to_host(values), X)


def detach(X: Any) -> Array:
    """Return X without the graph that PyTorch records for derivatives."""
    return X.detach() if is_torch(X) else X


def zeros(shape: tuple[int, ...], X: Array) -> Array:
    """Return zeros in double precision on the device of X."""
    xp = array_namespace(X)
    return xp.zeros(shape, dtype=xp.float64, device=X.device)


def eye(n: int, X: Array) -> Array:
    """Return the identity (n, n) in double precision on the device of X."""
    xp = array_namespace(X)
    return xp.eye(n, dtype=xp.float64, device=X.device)


def arange(n: int, X: Array) -> Array:
    """Return 0 to n - 1 on the device of X."""
    return array_namespace(X).arange(n, device=X.device)


def nbytes(X: Array) -> int:
    """Return the memory of an array of floating-point numbers in bytes."""
    # From shape and dtype: the standard has no ``nbytes``.
    return math.prod(X.shape) * array_namespace(X).finfo(X.dtype).bits // 8


def as_contiguous(X: Any) -> Array:
    """Return X in row-major order, if its library has orders."""
    if is_numpy(X) or is_cupy(X):
        return array_namespace(X).ascontiguousarray(X)
    return X.contiguous() if is_torch(X) else X


def block_entries(X: Array, host: int) -> int:
    """Return the number of entries in a block: ``host`` on the host, many on a device."""
    return host if is_host(X) else _DEVICE_ENTRIES


def iter_slices(n: int, step: int) -> Iterator[slice]:
    """Yield slices of at most ``step`` that cover 0 to n; none goes beyond n."""
    for start in range(0, n, max(1, step)):
        yield slice(start, min(start + max(1, step), n))


def as_float(X: Array, *, single: bool = False) -> Array:
    """Return X in double or single precision, without a copy if it is so already."""
    if is_sparse(X):
        return X.astype(np.float32 if single else np.float64, copy=False)
    xp = array_namespace(X)
    return xp.astype(X, xp.float32 if single else xp.float64, copy=False)


def densify(X: Any) -> Array:
    """Return a sparse matrix as a NumPy array, any other array as it is."""
    return np.asarray(X.todense()) if is_sparse(X) else X


def astype(values: Array, dtype: Any) -> Array:
    """Return values in a dtype of their library, in row-major order with NumPy."""
    if is_numpy(values):
        return values.astype(dtype, order="C", copy=False)
    return array_namespace(values).astype(values, dtype, copy=False)


def ldexp(X: Array, exponent: int) -> Array:
    """Return X times 2^exponent."""
    if is_sparse(X):
        return _scale_sparse(X, exponent)
    if is_numpy(X):
        return np.ldexp(X, exponent, order="C")
    while exponent:
        step = max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, exponent))
        X, exponent = X * 2.0**step, exponent - step
    return X


def _scale_sparse(X: Any, exponent: int) -> Any:
    scaled = X.copy()
    scaled.data = np.ldexp(X.data, exponent)
    return scaled


def maximum(X: Array, bound: float) -> Array:
    """Return the elementwise maximum of X and a number."""
    if is_numpy(X) or is_cupy(X):  # ``clip`` launches many kernels with CuPy
        return array_namespace(X).maximum(X, bound)
    # The standard's ``maximum`` takes no Python numbers before its version of 2024.
    return array_namespace(X).clip(X, bound, None)


def safe_divide(X: Array | float, divisor: Array, otherwise: Array) -> Array:
    """Return X / divisor where the divisor is positive, else ``otherwise``, which may change."""
    if is_numpy(divisor):
        return np.divide(X, divisor, out=otherwise, where=divisor > 0.0)
    xp = array_namespace(divisor)
    # Both sides of ``where`` are computed, so the divisor is made harmless first.
    return xp.where(divisor > 0.0, X / xp.where(divisor > 0.0, divisor, 1.0), otherwise)


def take(X: Array, indices: Array) -> Array:
    """Return X[indices] along the first axis, for integer indices of any shape."""
    if is_numpy(X) and X.flags.c_contiguous:  # take would copy any other array first
        return X.take(indices, axis=0)
    if is_host(X) or is_torch(X) or is_cupy(X):
        return X[indices]  # the standard's ``take`` looks for negative indices first
    xp = array_namespace(X)
    rows = xp.take(X, xp.reshape(indices, (-1,)), axis=0)
    return xp.reshape(rows, (*indices.shape, *X.shape[1:]))


def set_at(X: Array, key: Any, values: Any) -> Array:
    """Return X with X[key] = values, changed in place if the library can.

    The key is a mask, or a tuple of index arrays and slices. The array API standard assigns to no
    index arrays, so array-api-strict goes through the host.
    """
    if is_numpy(X) or is_torch(X) or is_cupy(X):
        X[key] = values
        return X
    keys = key if isinstance(key, tuple) else (key,)
    host_keys = tuple(to_host(k) if is_device_array(k) else k for k in keys)
    result = to_host(X).copy()
    result[host_keys] = to_host(values) if is_device_array(values) else values
    return to_device(result, X)


def add_segments(total: Array, segments: Array, blocks: Array) -> Array:
    """Return total (P, ...) with blocks (b, ...) added to the rows given by ``segments`` (b,).

    Segments are sorted. Sums are in a fixed order, so results repeat bit for bit. In place if the
    library can.
    """
    if is_torch(total):
        import torch

        # Not ``index_add_``: on a GPU its atomic additions come in any order.
        lengths = torch.bincount(segments, minlength=len(total))
        flat = blocks.reshape(len(blocks), math.prod(total.shape[1:]))
        total += torch.segment_reduce(flat, "sum", lengths=lengths).reshape(total.shape)
        return total
    if not (is_numpy(total) or is_cupy(total)):
        result = add_segments(to_host(total).copy(), to_host(segments), to_host(blocks))
        return to_device(result, total)
    if segments.size == 0:
        return total
    xp = array_namespace(total)
    # Segments are sorted, so each one begins where its number differs from the one before.
    later = xp.flatnonzero(segments[1:] != segments[:-1]) + 1
    first = xp.concatenate([xp.zeros(1, dtype=later.dtype), later])
    total[segments[first]] += xp.add.reduceat(blocks, first, axis=0)
    return total


def pairwise_distances(A: Array, B: Array) -> Array:
    """Return the distances (..., a, b) of points A (..., a, d) and B (..., b, d) from differences.

    Squares are added feature by feature, in the order of SciPy, so that ties in one library are
    ties in another.
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
    """Return the column sums (p,) of X (d, p), added row by row, as NumPy does."""
    if is_numpy(X):
        return X.sum(axis=0)
    total = X[0, :]
    for row in range(1, X.shape[0]):
        total = total + X[row, :]
    return total


def argsmallest(D: Any, k: int) -> Array:
    """Return the column indices (r, k) of the k smallest entries of each row, in no order."""
    if is_torch(D):
        return D.topk(k, dim=1, largest=False, sorted=False).indices
    xp = array_namespace(D)
    if is_numpy(D) or is_cupy(D):
        return xp.argpartition(D, k - 1, axis=1)[:, :k]
    return xp.argsort(D, axis=1)[:, :k]


def argsort_rows(first: Array, second: Array) -> Array:
    """Return the order (r, n) of each row by the first key, ties by the second."""
    if is_numpy(first):
        return np.lexsort((second, first), axis=1)
    xp = array_namespace(first)
    # A stable sort by the second key, then by the first, is a sort by both.
    order = xp.argsort(second, axis=1, stable=True)
    by_first = xp.argsort(xp.take_along_axis(first, order, axis=1), axis=1, stable=True)
    return xp.take_along_axis(order, by_first, axis=1)


def cholesky(S: Array, *, overwrite: bool = False) -> Array | None:
    """Return the lower factor L (d, d) of S = L L', or None if S is not positive definite.

    With ``overwrite`` the diagonal of a NumPy array and the entries above it are lost, and the
    factor has entries of S above its diagonal.
    """
    if is_numpy(S):
        # S' is S in the order of LAPACK.
        L, failed = dpotrf(S.T, lower=1, overwrite_a=int(overwrite), clean=int(not overwrite))
        return None if failed else L
    if is_torch(S):
        import torch

        # Unlike ``cholesky``, it reports a failure without an exception.
        L, failed = torch.linalg.cholesky_ex(S)
        return None if bool(failed) else L
    xp = array_namespace(S)
    try:
        L = xp.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return None
    # CuPy returns NaN instead of raising an error.
    return L if bool(xp.all(xp.isfinite(xp.linalg.diagonal(L)))) else None


def solve_triangular(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return L^-1 B, or L'^-1 B if transposed, for a lower triangular L."""
    if is_numpy(L):
        return dtrtrs(L, B, lower=1, trans=int(transposed))[0]
    if is_cupy(L):
        from cupyx.scipy.linalg import solve_triangular as cupy_solve_triangular

        return cupy_solve_triangular(L, B, trans=int(transposed), lower=True)
    xp = array_namespace(L)
    matrix = xp.matrix_transpose(L) if transposed else L
    if is_torch(L):
        return xp.linalg.solve_triangular(matrix, B, upper=transposed)
    return xp.linalg.solve(matrix, B)


def least_squares(A: Array, B: Array) -> Array:
    """Return the shortest X (d, q) that minimises |A X - B|."""
    return lstsq(A, B)[0] if is_numpy(A) else array_namespace(A).linalg.pinv(A) @ B


def condition_number(S: Array, L: Array, size: float = 0.0) -> float:
    """Estimate the condition number of S = L L', whose norm is taken as at least ``size``."""
    if is_numpy(S):
        # From the factor that exists, in d^2 operations and up to a small factor.
        reciprocal, _ = dpocon(L, max(np.abs(S).sum(axis=0).max(), size), uplo="L")
        return 1.0 / reciprocal if reciprocal > 0.0 else np.inf
    values = array_namespace(S).linalg.eigvalsh(S)
    smallest, largest = float(values[0]), max(float(values[-1]), size)
    return largest / smallest if smallest > 0.0 else np.inf


def gram(A: Array) -> Array:
    """Return A'A, symmetric to the last bit."""
    if not is_numpy(A):
        product = array_namespace(A).matrix_transpose(A) @ A
        return 0.5 * (product + array_namespace(A).matrix_transpose(product))
    # SciPy's BLAS, not NumPy's: each may have its own thread pool, and two pools that take turns on
    # small matrices wait for each other (10 times slower on 2 cores).
    lower = dsyrk(1.0, A, trans=1, lower=1)  # zero above the diagonal
    product = lower + lower.T
    np.fill_diagonal(product, np.diagonal(lower))
    return product


def column_dots(A: Array, B: Array) -> Array:
    """Return the inner products (r,) of the columns of A and B (n, r)."""
    if is_numpy(A):
        return np.asarray(np.einsum("ij,ij->j", A, B))
    # Sums over the rows of a large matrix are slow with CuPy; a product with ones is not.
    return array_namespace(A).ones_like(A[:, 0]) @ (A * B)
