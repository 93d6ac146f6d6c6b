"""Parallel vector fields and the linear map that follows them (LPFE).

A vector field v has a tangent vector v_i in the tangent basis T_i of every sample. The smoothest
fields are the unit vectors v of smallest energy

    E(v) = sum_ij W_ij |v_i - T_i'T_j v_j|^2

over the within-class graph W, the coupling term of the within-class form. The direction t of a
field minimises sum_ij W_ij (t'd_ij - v_j'T_j'd_ij)^2 + ridge |t|^2. Depends on the graph, the
tangent bases and the within-class form of PMPDA.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csc_array
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from mpda._lib.array_types import Floats
from mpda._lib.samples import ClassSamples, FitSamples
from mpda.baselines.ridge_eigenproblem import Solution, add_ridge
from mpda.baselines.training_data import TrainingData
from mpda.discriminant import eigenproblem
from mpda.discriminant.block_rows import build_block_rows
from mpda.discriminant.scatter import graph_scatter, symmetrize
from mpda.discriminant.tangents import neighborhood_tangents
from mpda.discriminant.within_form import WithinForm, build_within_form
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph
from mpda.neighbors.neighbor_lists import ClassPoints

# A dense eigenproblem is fastest up to _DENSE_SIZE unknowns, and up to _DENSE_RATIO unknowns for
# each eigenvector, because Lanczos orthogonalises every step against all earlier ones. Matrices of
# more than _MAX_DENSE_SIZE unknowns (300 MB) are never dense.
_DENSE_SIZE, _DENSE_RATIO, _MAX_DENSE_SIZE = 400, 20, 6000
# Energies of unit fields that differ by less are equal up to rounding.
_ENERGY_TOLERANCE = 1e-9
# Shift of the inverse iteration below 0, relative to the mean diagonal, where C - sigma I is
# positive definite: smaller shifts converge faster but factorise a nearly singular matrix.
_RELATIVE_SHIFT = -1e-6
# A direction is zero below the first, dependent on earlier ones below the second relative length.
_MIN_LENGTH, _MIN_INDEPENDENT = 1e-10, 1e-8


@dataclass(frozen=True)
class VectorFields:
    """The smoothest vector fields of one class or of all, and their least-squares problems.

    Parameters
    ----------
    energies : ndarray of shape (q,)
        E(v) of the fields, increasing, with |v| = 1.
    right_hand_sides : ndarray of shape (d, q)
        Sums over pairs of W_ij d_ij (v_j'T_j'd_ij), one column for each field.
    normal_matrix : ndarray of shape (d, d)
        Matrix of the normal equations for t, the sum of W_ij d_ij d_ij' over pairs.
    n_total : int
        Number of fields that exist, sum of the tangent dimensions.
    """

    energies: Floats
    right_hand_sides: Floats
    normal_matrix: Floats
    n_total: int


def follow_fields(
    data: TrainingData,
    n_neighbors: int,
    tangent_energy: float,
    alpha: float,
    n_components: int | None,
) -> Solution:
    """Compute the directions that follow the smoothest fields, without dependent ones.

    Parameters
    ----------
    data : TrainingData
        The samples by class.
    n_neighbors : int
        Number of neighbours in the graph W and for the tangent spaces.
    tangent_energy : float
        Share of the variance of a neighbourhood that its tangent space holds.
    alpha : float
        Ridge in units of the mean diagonal of the normal matrix.
    n_components : int or None
        Number of directions; None keeps all, at most one for each dimension of the samples.

    Returns
    -------
    Solution
        The directions by increasing energy of their fields.
    """
    # As many fields as directions, at first. Directions of several fields may coincide, and then
    # more fields are needed: twice as many, so that few eigenproblems are solved in all.
    n_max = n_components or data.samples.coordinates.dimension
    n_fields = n_max
    while True:
        fields = data.cached(smoothest_fields, n_neighbors, tangent_energy, n_fields)
        solution = _solve_normal_equations(data.samples, fields, alpha)
        n_found = solution.directions.eigenvalues.size
        complete = n_found >= min(n_max, eigenproblem.numerical_rank(fields.normal_matrix))
        if complete or n_fields >= fields.n_total:
            n_directions = eigenproblem.check_n_directions(n_found, n_components)
            return solution.first(min(n_directions, n_max))
        n_fields *= 2


def _solve_normal_equations(samples: FitSamples, fields: VectorFields, alpha: float) -> Solution:
    """Solve (M + ridge I) t = r for all fields, shortest where M is singular.

    The length of t has no unit. Dependent directions are left out.
    """
    ridge, M = add_ridge(fields.normal_matrix, alpha, samples)
    t, condition = eigenproblem.solve_least_squares(M, fields.right_hand_sides)
    unit = np.abs(M).max() or 1.0  # a ridge may make M as large as a float can be
    M, r = M / unit, fields.right_hand_sides / unit
    scale = np.linalg.norm(M) * np.linalg.norm(t) + np.linalg.norm(r)
    residual = float(np.linalg.norm(M @ t - r) / scale) if scale > 0.0 else 0.0
    # From the smoothest field on, so that of dependent directions the smoothest one stays.
    columns = _independent_columns(t)
    vectors = eigenproblem.fix_signs(samples.coordinates.rotate_back(t[:, columns]))
    directions = eigenproblem.Directions(fields.energies[columns], vectors, condition)
    ridge = samples.coordinates.to_squared_units(ridge)
    return Solution(directions, ridge, residual, increasing=True)


def _independent_columns(vectors: Floats) -> list[int]:
    """Return the columns of (d, r) that are no combination of earlier ones, up to rounding."""
    lengths = np.linalg.norm(vectors, axis=0)
    columns: list[int] = []
    basis = np.empty((len(vectors), 0))
    for i in np.flatnonzero(lengths > _MIN_LENGTH * lengths.max(initial=0.0)).tolist():
        residual = vectors[:, i] / lengths[i]
        for _ in range(2):  # Gram-Schmidt twice, against rounding
            residual = residual - basis @ (basis.T @ residual)
        if np.linalg.norm(residual) > _MIN_INDEPENDENT:
            columns.append(i)
            basis = np.column_stack([basis, residual / np.linalg.norm(residual)])
    return columns


def smoothest_fields(
    data: TrainingData, n_neighbors: int, tangent_energy: float, n_fields: int
) -> VectorFields:
    """Compute the smoothest vector fields of all classes.

    Parameters
    ----------
    data : TrainingData
        The samples by class.
    n_neighbors : int
        Number of neighbours in the graph W and for the tangent spaces.
    tangent_energy : float
        Share of the variance of a neighbourhood that its tangent space holds.
    n_fields : int
        Number of fields; all of the last eigenspace are added.

    Returns
    -------
    VectorFields
        By increasing energy.
    """
    options = n_neighbors, tangent_energy, n_fields
    fields = list(data.map_classes("vector fields", class_fields, *options))
    energies = np.concatenate([field.energies for field in fields])
    order = np.argsort(energies, kind="stable")
    order = order[: _complete_eigenspace(energies[order], n_fields)]
    sides = np.concatenate([field.right_hand_sides for field in fields], axis=1)
    normal_matrix = symmetrize(np.sum([field.normal_matrix for field in fields], axis=0))
    n_total = sum(field.n_total for field in fields)
    merged = VectorFields(energies[order], sides[:, order], normal_matrix, n_total)
    return _order_within_eigenspaces(merged)


def class_fields(
    samples: ClassSamples, n_neighbors: int, tangent_energy: float, n_fields: int
) -> VectorFields:
    """Compute the smoothest vector fields of one class.

    Parameters
    ----------
    samples : ClassSamples
        Samples of the class, without weights.
    n_neighbors : int
        Number of neighbours in the graph W and for the tangent spaces.
    tangent_energy : float
        Share of the variance of a neighbourhood that its tangent space holds.
    n_fields : int
        Number of fields; all of the last eigenspace are added.

    Returns
    -------
    VectorFields
        By increasing energy.
    """
    points, Z = samples.points, samples.coordinates
    graph = EmbeddedGraph(Z, build_class_graph(ClassPoints(points), n_neighbors))
    bases = neighborhood_tangents(Z, graph.graph.neighbors, tangent_energy)
    form = build_within_form(graph, np.arange(len(points)), bases)
    # E(v) is the coupling term alone: fields come first, and the directions that follow them later.
    coupling = replace(form, first_order=np.zeros_like(form.first_order))
    # One energy more than needed shows whether the last eigenspace is complete.
    q = min(n_fields + 1, form.size)
    energies, fields = _smallest_eigenvectors(coupling, q)
    while q < form.size and energies[-1] - energies[n_fields - 1] <= _ENERGY_TOLERANCE:
        q = min(2 * q, form.size)
        energies, fields = _smallest_eigenvectors(coupling, q)
    q = _complete_eigenspace(energies, n_fields)
    return VectorFields(
        energies=np.maximum(energies[:q], 0.0),  # rounding makes 0 negative
        right_hand_sides=form.off_diagonal_matrix() @ fields[:, :q],
        normal_matrix=graph_scatter(graph),
        n_total=form.size,
    )


def _complete_eigenspace(energies: Floats, n: int) -> int:
    """Count the increasing energies up to the end of the eigenspace of the n-th."""
    if energies.size <= n:
        return energies.size
    return int(np.searchsorted(energies, energies[n - 1] + _ENERGY_TOLERANCE, side="right"))


def _order_within_eigenspaces(fields: VectorFields) -> VectorFields:
    """Choose a basis of every eigenspace: first the fields that a direction follows furthest.

    Any mixture of fields of equal energy is as smooth; otherwise rounding would choose the basis.
    """
    ends = np.flatnonzero(np.diff(fields.energies) > _ENERGY_TOLERANCE) + 1
    spaces = np.split(fields.right_hand_sides, ends, axis=1)
    for i, sides in enumerate(spaces):
        if sides.shape[1] > 1:
            followed = sides.T @ eigenproblem.solve_least_squares(fields.normal_matrix, sides)[0]
            spaces[i] = sides @ np.linalg.eigh(symmetrize(followed))[1][:, ::-1]
    return replace(fields, right_hand_sides=np.concatenate(spaces, axis=1))


def _smallest_eigenvectors(form: WithinForm, q: int) -> tuple[Floats, Floats]:
    """Return the q smallest eigenvalues of S_vv at gamma = 1 and their vectors (sum m_p, q)."""
    size = form.size
    if q == 0:
        return np.empty(0), np.empty((size, 0))
    if size <= max(_DENSE_SIZE, min(_DENSE_RATIO * q, _MAX_DENSE_SIZE)):
        block = form.tangent_block(1.0, 0.0)
        return eigh(block, subset_by_index=[0, q - 1], check_finite=False)
    C = build_block_rows(form, 1.0).to_csr()
    # A fixed start: ARPACK's own is random, and results would not repeat.
    start = np.random.default_rng(0).normal(size=size)
    try:
        values, vectors = eigsh(C, k=q, which="SA", v0=start, ncv=min(size, max(2 * q + 20, 60)))
    except ArpackNoConvergence:
        # Shift-invert always converges, but its factor fills in and grows with the square of n.
        sigma = _RELATIVE_SHIFT * float(C.diagonal().mean())
        values, vectors = eigsh(csc_array(C), k=q, sigma=sigma, v0=start)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]
