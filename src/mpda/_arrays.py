"""Arrays of other libraries: PyTorch, CuPy, and whatever follows the array API standard.

What is at work shows only here. Elsewhere a function takes ``xp = namespace(X)`` and uses what the
standard has; what it lacks, or what NumPy does much faster in a way of its own, is a function of
this file. Counts, names and the bookkeeping of classes stay with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from sklearn.externals import array_api_compat
from sklearn.externals.array_api_compat import numpy as numpy_namespace

from mpda._typing import Array


def on_host(X: Any) -> bool:
    """Whether X is an array of NumPy."""
    return isinstance(X, np.ndarray | np.generic)


def namespace(X: Array) -> Any:
    """The functions of the standard for arrays such as X."""
    return numpy_namespace if on_host(X) else array_api_compat.array_namespace(X)


def to_host(X: Array) -> Any:
    """X as an array of NumPy."""
    if on_host(X):
        return X
    if array_api_compat.is_cupy_array(X):
        return X.get()
    if array_api_compat.is_torch_array(X):
        return X.detach().cpu().numpy()
    return np.asarray(X)


def like(values: Any, X: Array) -> Array:
    """An array of NumPy, where X is."""
    if on_host(X):
        return values
    xp = namespace(X)
    return xp.asarray(np.ascontiguousarray(values), device=array_api_compat.device(X))


def _natively(X: Array) -> bool:
    """Whether X can be indexed and changed by arrays of indices, as those of NumPy can."""
    return on_host(X) or array_api_compat.is_torch_array(X) or array_api_compat.is_cupy_array(X)


def put(X: Array, places: Any, values: Any) -> Array:
    """X[places] = values, in place if the library can; the result counts."""
    if _natively(X):
        X[places] = values
        return X
    host = to_host(X).copy()
    if isinstance(places, tuple):
        host[tuple(_host_index(each) for each in places)] = _host_index(values)
    else:
        host[_host_index(places)] = _host_index(values)
    return like(host, X)


def pick(X: Array, places: tuple[Any, ...]) -> Array:
    """X[places] for several arrays of indices, with slices among them."""
    if _natively(X):
        return X[places]
    return like(to_host(X)[tuple(_host_index(each) for each in places)], X)


def _host_index(value: Any) -> Any:
    return to_host(value) if array_api_compat.is_array_api_obj(value) else value


def rounds_between_checks(X: Array) -> int:
    """How many rounds of a loop may go by before it is asked whether it is over.

    On a device the question waits for all that was ordered before, so it is asked seldom there;
    rounds after the end must change nothing.
    """
    return 1 if on_host(X) else 4


def squares_at_a_time(X: Array) -> int:
    """How many entries of squares to work on at a time, on this machine or on a device."""
    return 400_000 if on_host(X) else 50_000_000


def count_up(n: int, X: Array) -> Array:
    """0 to n - 1, where X is."""
    return namespace(X).arange(n, device=array_api_compat.device(X))


def filled(shape: int | tuple[int, ...], value: bool | int | float, X: Array) -> Array:
    """An array of one value, where X is."""
    xp = namespace(X)
    types = {bool: xp.bool, int: xp.int64, float: xp.float64}
    return xp.full(shape, value, dtype=types[type(value)], device=array_api_compat.device(X))


def worthwhile(mask: Array) -> Array | None:
    """The places (p,) where a mask (n,) is true, or None for all n.

    On a device it takes longer to find them than to do the work for all.
    """
    return mask.nonzero()[0] if on_host(mask) else None


def chosen(X: Array, places: Array | None) -> Array:
    """X[places] along the first axis, all of X for None."""
    return X if places is None else entries(X, places)


def replaced(X: Array, places: Array | None, values: Array) -> Array:
    """X with X[places] = values along the first axis, in place if the library can."""
    return values if places is None else put(X, places, values)


def entries(values: Array, places: Array) -> Array:
    """values[places] along the first axis, for places of any shape."""
    if on_host(values):
        return values.take(places, axis=0)
    if array_api_compat.is_torch_array(values) or array_api_compat.is_cupy_array(values):
        return values[places]  # one call; ``take`` looks for negative places first
    xp = namespace(values)
    found = xp.take(values, xp.reshape(places, (-1,)), axis=0)
    return xp.reshape(found, (*places.shape, *values.shape[1:]))


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


def path_sweeps(tails: Array, heads: Array, lengths: Array, n: int) -> Callable[[Array], Array]:
    """A function from sources (r,) to the lengths (n,) of the shortest paths from any of them.

    Links run from tails to heads, all (e,) and sorted by tail. Both ways add up the lengths of a
    path from its source onwards, so they give the same numbers.
    """
    if on_host(lengths):
        starts = np.searchsorted(tails, np.arange(n + 1))
        # csgraph of SciPy 1.13 takes 32-bit indices only.
        indices = heads.astype(np.int32), starts.astype(np.int32)
        links = csr_array((lengths, *indices), shape=(n, n))
        return lambda sources: np.asarray(dijkstra(links, indices=sources, min_only=True))
    return lambda sources: _relaxed(tails, heads, lengths, n, sources)


def _relaxed(tails: Array, heads: Array, lengths: Array, n: int, sources: Array) -> Array:
    """Paths grow by one link a step, until a step changes nothing."""
    xp = namespace(lengths)
    paths = put(filled(n, float("inf"), lengths), sources, 0.0)
    while True:
        for _ in range(rounds_between_checks(lengths)):
            paths = put_smaller(paths, heads, entries(paths, tails) + lengths)
        before = xp.asarray(paths, copy=True)
        paths = put_smaller(paths, heads, entries(paths, tails) + lengths)
        if not bool(xp.any(paths != before)):
            return paths
