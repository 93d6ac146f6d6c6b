"""S_vv as an operator by tangent bases instead of their products, for searches over parameters.

With w_pq the number of edges between patches p and q, the rows of patch p are

    (S_vv v)_p = S_vv[p, p] v_p - 2 gamma T_p' sum_q w_pq T_q v_q.

All v_q are lifted to T_q v_q, summed by one product with the matrix of all w_pq, and projected.
That takes fewer operations than products with the blocks T_p'T_q where patches have many neighbours
and tangent dimensions are large: PMPDA with many neighbours.
"""

import numpy as np

from mpda._lib.array_types import Floats
from mpda.discriminant.within_form import WithinForm

# Singular values of the tangent bases, relative to the largest, that are rounding.
_RANK_TOLERANCE = 1e-13


class BasisProducts:
    """Tangent block S_vv of a class, for products with many columns.

    Parameters
    ----------
    form : WithinForm
        Blocks of one class, NumPy arrays, with tangent bases.
    gamma : float
        Weight of the second term of S.
    """

    def __init__(self, form: WithinForm, gamma: float) -> None:
        assert form.bases is not None
        assert form.weights is not None
        self._mask = form.mask
        self._diagonal = form.first_order + gamma * form.coupling_diagonal
        self._bases = _rotate_into_span(form.bases)
        self._transposed = np.ascontiguousarray(self._bases.transpose(0, 2, 1))
        n_patches = len(form.mask)
        self._weights = np.zeros((n_patches, n_patches))
        low, high = form.pairs.T
        self._weights[low, high] = self._weights[high, low] = 2.0 * gamma * form.weights

    def __matmul__(self, V: Floats) -> Floats:
        (n_patches, m), c = self._mask.shape, V.shape[1]
        padded = np.zeros((n_patches, m, c))
        padded[self._mask] = V
        lifted = (self._bases @ padded).reshape(n_patches, -1)
        sums = (self._weights @ lifted).reshape(n_patches, -1, c)
        product = self._diagonal @ padded
        product -= self._transposed @ sums
        return np.asarray(product[self._mask])


def count_operations(form: WithinForm, n_columns: int) -> float:
    """Count the multiplications of a product by tangent bases.

    Parameters
    ----------
    form : WithinForm
        Blocks of one class.
    n_columns : int
        Number of columns of the other factor, at least the dimension of the span of the bases.

    Returns
    -------
    float
        Multiplications.
    """
    n_patches, m = form.mask.shape
    return n_columns * n_patches * (n_columns * (n_patches + 2.0 * m) + m * m)


def _rotate_into_span(bases: Floats) -> Floats:
    """Return bases (P, r, m) with the same products, in coordinates of the span of all bases.

    A class of n samples spans n - 1 dimensions, fewer than there are features if it is small.
    """
    d = bases.shape[1]
    stacked = bases.transpose(0, 2, 1).reshape(-1, d)
    _, values, axes = np.linalg.svd(np.linalg.qr(stacked, mode="r"))
    rank = int(np.count_nonzero(values > _RANK_TOLERANCE * values[0]))
    return bases if rank == d else axes[:rank] @ bases
