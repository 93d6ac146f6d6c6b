"""From a form over (t, v) to one over t: v is eliminated exactly, class by class."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dtrtrs
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

from mpda._typing import Floats
from mpda.forms import TangentForm
from mpda.scatter import symmetric

# Up to this many unknowns a dense factor is fastest and takes at most 32 MB; above, iterations.
_DENSE_LIMIT = 2000
_MAX_STEPS = 300
# The residual of the solution beside the right side; the reduction has the square of its error.
_TOLERANCE = 1e-5
_MAX_CORRECTIONS = 5


def eliminated(form: TangentForm, gamma: float, beta: float) -> Floats:
    """S_tv (S_vv + beta I)^-1 S_tv' (d, d): what minimising over v takes off S_tt.

    Where S_vv + beta I is singular (beta = 0) its pseudo-inverse takes the place of the inverse;
    S_tv' lies in its range because S is positive semi-definite.
    """
    B = form.cross_columns()
    if form.size == 0:
        return np.zeros((len(B), len(B)))
    if form.size <= _DENSE_LIMIT:
        return _eliminated_dense(form.tangent_block(gamma, beta), B)
    C = form.sparse_tangent_block(gamma, beta)
    found = _iterated(C, B, form, form.diagonal_blocks(gamma, beta))
    if found is not None:
        return found
    if beta == 0.0:  # perhaps singular, where a sparse factor means nothing
        return _eliminated_dense(C.toarray(), B)
    X = splu(csc_array(C)).solve(np.ascontiguousarray(B.T))
    return _corrected(B, X, C @ X)


def _eliminated_dense(C: Floats, B: Floats) -> Floats:
    """B C^-1 B' by Cholesky, or on the range of C where it is singular."""
    factor, failed = dpotrf(C, lower=1)
    pivots = np.diagonal(factor)
    rounding = C.shape[0] * np.finfo(float).eps
    if failed or pivots.min() ** 2 <= rounding * pivots.max() ** 2:
        values, vectors = eigh(C, check_finite=False)
        kept = values > rounding * values[-1]
        if not kept.any():
            return np.zeros((len(B), len(B)))
        half = vectors[:, kept].T @ B.T / np.sqrt(values[kept])[:, None]
    else:
        half, _ = dtrtrs(factor, B.T, lower=1)
    # SciPy's product, not NumPy's: each may carry a BLAS of its own, and two pools of threads
    # that take turns on small matrices wait for each other (10 times slower on 2 cores).
    lower = dsyrk(1.0, half, trans=1, lower=1)  # zero above the diagonal
    product = lower + lower.T
    np.fill_diagonal(product, np.diagonal(lower))
    return product


def _iterated(C: csr_array, B: Floats, form: TangentForm, blocks: Floats) -> Floats | None:
    """B C^-1 B' by conjugate gradients in single precision; None if they are too slow.

    Residuals are taken in double precision, and what is left of them is solved for again, so the
    precision of the iterations only decides how often.
    """
    rhs = np.ascontiguousarray(B.T)
    scale = np.linalg.norm(rhs, axis=0)
    scale[scale == 0.0] = 1.0
    smooth = _BlockJacobi(blocks.astype(np.float32), form)
    single = C.astype(np.float32)
    X = np.zeros_like(rhs)
    residual, image = rhs, X
    for _ in range(_MAX_CORRECTIONS):
        step = _conjugate_gradients(single, (residual / scale).astype(np.float32), smooth)
        if step is None:
            return None
        X += step * scale
        image = C @ X
        residual = rhs - image
        if (np.linalg.norm(residual, axis=0) <= _TOLERANCE * scale).all():
            return _corrected(B, X, image)
    return None


def _corrected(B: Floats, X: Floats, image: Floats) -> Floats:
    """B C^-1 B' from X close to C^-1 B' and its image C X.

    X'B' + B X - X'C X has the square of the error of X.
    """
    product = B @ X
    return symmetric(product + product.T - X.T @ image)


def _conjugate_gradients(C: csr_array, rhs: Floats, smooth: _BlockJacobi) -> Floats | None:
    """C^-1 rhs for all columns at once, preconditioned; None if too slow."""
    X = np.zeros_like(rhs)
    residual = rhs.copy()
    target = 0.5 * _TOLERANCE * np.maximum(np.linalg.norm(rhs, axis=0), _TOLERANCE)
    step = smooth(residual)
    direction = step
    energy = np.einsum("ij,ij->j", residual, step)
    for _ in range(_MAX_STEPS):
        if (np.linalg.norm(residual, axis=0) <= target).all():
            return X
        image = C @ direction
        curvature = np.einsum("ij,ij->j", direction, image)
        length = np.divide(energy, curvature, out=np.zeros_like(energy), where=curvature > 0.0)
        X += length * direction
        residual -= length * image
        step = smooth(residual)
        new_energy = np.einsum("ij,ij->j", residual, step)
        growth = np.divide(new_energy, energy, out=np.zeros_like(energy), where=energy > 0.0)
        direction = step + growth * direction
        energy = new_energy
    return None


class _BlockJacobi:
    """Solves with the diagonal blocks of S_vv + beta I, each on its own range."""

    def __init__(self, blocks: Floats, form: TangentForm) -> None:
        self._used = form.used
        values, vectors = np.linalg.eigh(blocks)
        floor = values[:, -1:] * blocks.shape[1] * np.finfo(blocks.dtype).eps
        inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), 0.0)
        self._inverses = (vectors * inverse[:, None, :]) @ vectors.transpose(0, 2, 1)

    def __call__(self, residual: Floats) -> Floats:
        n_patches, m = self._used.shape
        padded = np.zeros((n_patches * m, residual.shape[1]), dtype=residual.dtype)
        padded[self._used.ravel()] = residual
        solved = self._inverses @ padded.reshape(n_patches, m, -1)
        return solved.reshape(n_patches * m, -1)[self._used.ravel()]
