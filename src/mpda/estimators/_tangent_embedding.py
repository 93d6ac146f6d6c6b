"""Nonlinear embeddings of samples without labels by tangent spaces: TSIMR and PFE."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import block_array, csc_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh, splu
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted, validate_data

from mpda._lib.array_types import ArrayLike, Floats, Ints
from mpda._lib.arrays import iter_slices
from mpda._lib.device_inputs import is_dispatched, refuse_accelerator
from mpda._lib.validation import (
    check_count,
    check_not_constant,
    check_number,
    check_option,
    feature_range,
    refuse_dask,
    scale_exponent,
)
from mpda.discriminant.block_rows import build_block_rows
from mpda.discriminant.eigenproblem import fix_signs
from mpda.discriminant.tangents import TangentBases, neighborhood_tangents, patch_tangents
from mpda.discriminant.within_form import WithinForm, build_within_form, sample_block
from mpda.estimators._manifold_partition import ManifoldPartition
from mpda.neighbors.graph import EmbeddedGraph, graph_laplacian, symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, find_neighbors
from mpda.partition.rules import cluster_class
from mpda.partition.split import known_partition

# Eigenvalues are those nearest to a number below 0, this small relative to the mean diagonal, so
# that the shifted matrix is positive definite.
_SHIFT = 1e-9
# Up to this many unknowns a dense eigensolver is as fast, and needs no starting vector.
_DENSE_LIMIT = 400
# Entries of the tangent spaces that are gathered at a time for new samples: 32 MB.
_LARGEST_BATCH = 4_000_000
# A larger gamma hides the first term in rounding: on flat data the residual of coordinates is 1e-6
# at 1e14 and 0.9 at 1e17. On a Swiss roll nothing changes from 1e6 on.
_MAX_GAMMA = 1e12


@dataclass(eq=False, repr=False)
class _TangentEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Common steps: graph, patches, tangent spaces, and the expansion at new samples."""

    n_components: int = 2
    _: KW_ONLY
    n_neighbors: int = 10
    tangent_dimension: int | None = None
    partition: Any = None

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Embed the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : object, default=None
            Not used.

        Returns
        -------
        estimator
            The fitted estimator itself.
        """
        r, k = (check_count(name, getattr(self, name)) for name in ("n_components", "n_neighbors"))
        dimension = r if self.tangent_dimension is None else self.tangent_dimension
        m = check_count("tangent_dimension", dimension)
        refuse_dask(self, X)
        if is_dispatched(X):
            name = type(self).__name__
            raise TypeError(f"{name} works on NumPy arrays: give X as a NumPy array.")
        refuse_accelerator(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=3)
        low, high = feature_range(X)
        check_not_constant(low, high)
        # Scaled by a power of two: squares of the largest floats would overflow.
        exponent = scale_exponent(low, high)
        points = ClassPoints(np.ldexp(X.astype(np.float64), -exponent))
        n, d = points.X.shape
        if m > min(k, d, n - 1):
            raise ValueError(
                f"tangent_dimension={m} is more than the tangent spaces can have: there are {k} "
                f"neighbours, {d} features and {n} samples. It is n_components unless it is given."
            )
        neighbors = find_neighbors(points, k)
        graph = symmetric_graph(neighbors)
        _check_connected(graph.edges, n, k)
        # Lengths are measured in edges, so that gamma has the same effect on samples of any scale.
        unit = float(np.sqrt(np.mean(graph.lengths**2)))
        embedded = EmbeddedGraph(points.X / unit, graph)
        # X is not scaled: a clusterer may have lengths as parameters (eps of DBSCAN).
        self.patch_labels_ = patches = self._find_patches(X, graph.edges)
        tangents = _find_tangents(points.X, patches, neighbors, m)
        if not tangents.mask.any():
            raise ValueError(
                "There is no tangent vector: all samples and their neighbours are copies of each "
                "other."
            )
        if r > np.count_nonzero(tangents.mask):
            raise ValueError(
                f"n_components={r} is more than the tangent vectors of all patches have entries: "
                "use fewer components, or smaller patches."
            )
        form = build_within_form(embedded, patches, tangents)
        K = sample_block(embedded, patches, tangents)
        edges = graph.edges
        L = csr_array(graph_laplacian(edges, np.ones(len(edges)), n))
        embedding, fields, self.eigenvalues_ = self._solve(L, K, form)
        self.embedding_ = np.ldexp(unit * embedding, exponent).astype(X.dtype)
        self.tangent_bases_, self.fields_ = tangents.bases, fields
        self._X, self._exponent = X, exponent
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Floats:
        """Embed the samples and return their coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : object, default=None
            Not used.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``embedding_``.
        """
        return self.fit(X, y).embedding_

    def transform(self, X: ArrayLike) -> Floats:
        """Embed samples by the tangent expansion at their nearest training sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Coordinates f_i + v_i'T_i'(x - x_i), i being the nearest training sample.
        """
        check_is_fitted(self, "embedding_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        points, queries = (
            np.ldexp(values.astype(np.float64), -self._exponent) for values in (self._X, X)
        )
        # The search may compute distances from products, whose rounding grows with the mean.
        mean = points.mean(axis=0)
        search = NearestNeighbors(n_neighbors=1).fit(points - mean)
        nearest = search.kneighbors(queries - mean, return_distance=False)[:, 0]
        mapped = self.embedding_[nearest].astype(np.float64)
        for block in iter_slices(len(X), _LARGEST_BATCH // self.tangent_bases_[0].size):
            patches = self.patch_labels_[nearest[block]]
            offsets = X[block].astype(np.float64) - self._X[nearest[block]]
            local = np.einsum("nd,ndm->nm", offsets, self.tangent_bases_[patches])
            mapped[block] += np.einsum("nm,nmr->nr", local, self.fields_[patches])
        return mapped.astype(X.dtype)

    def _find_patches(self, X: Floats, edges: Ints) -> Ints:
        """Return the patch of each sample (n,)."""
        if self.partition is None:
            return np.arange(len(X))
        if hasattr(self.partition, "fit_predict"):
            labels = cluster_class(self.partition, X, "all samples")
            return known_partition(None, labels).labels
        alternatives = ", None, or a clusterer with fit_predict"
        name = check_option("partition", self.partition, ("auto", "geodesic"), also=alternatives)
        labels = ManifoldPartition(partition=name).fit(X).labels_
        # Cuts of the principal-axis tree are straight: a patch may have samples of two sheets that
        # lie near each other. On a Swiss roll of 6000 samples the affine residual of TSIMR is 0.06
        # with such patches and 0.001 without.
        inside = labels[edges[:, 0]] == labels[edges[:, 1]]
        return _label_components(edges[inside], len(X))

    def _solve(self, L: csr_array, K: csr_array, form: WithinForm) -> tuple[Floats, Floats, Floats]:
        """Return the embedding (n, r), the fields (P, m, r) and the eigenvalues (r,)."""
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(eq=False, repr=False)
class TSIMR(_TangentEmbedding):
    """Tangent space intrinsic manifold regularisation, as a representation of samples.

    A function f on the samples and a tangent vector v_j at every sample minimise

        sum_ij W_ij [ (f_i - f_j - v_j'T_j'(x_i - x_j))^2 + gamma |v_i - T_i'T_j v_j|^2 ]

    for a graph W of nearest neighbours and tangent spaces T_j. The first functions after the
    constant are the coordinates. They are linear along the manifold where it is flat. With
    ``partition`` all samples of a patch share a tangent space and a tangent vector, as in MPDA.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    n_neighbors : int, default=10
        Number of neighbours of each sample in the graph.
    tangent_dimension : int, default=None
        Dimension of the tangent spaces. None stands for ``n_components``.
    partition : {"auto", "geodesic"}, clusterer or None, default=None
        None gives every sample a tangent space of its own. The others are those of `MPDA`; a patch
        of a named rule that the graph does not connect is divided. The tangent space of a patch
        comes from its samples and their neighbours.
    gamma : float, default=1.0
        Weight of the second term, in units of the mean squared length of the edges of the graph, at
        most 1e12.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates of the training samples. They are mixed so that the mean of v v' is the
        identity, which keeps distances along the manifold; the functions of the definition have
        length 1 instead.
    eigenvalues_ : ndarray of shape (n_components,)
        Energies of the functions, increasing, with lengths in units of the r.m.s. length of the
        edges.
    patch_labels_ : ndarray of shape (n_samples,)
        Patch of each sample.
    tangent_bases_ : ndarray of shape (n_patches, n_features, tangent_dimension)
        Tangent spaces.
    fields_ : ndarray of shape (n_patches, tangent_dimension, n_components)
        Tangent vectors of the coordinates.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    References
    ----------
    .. [1] Sun, S. (2013). Tangent space intrinsic manifold regularization for data representation.
           IEEE China Summit and International Conference on Signal and Information Processing.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from mpda import TSIMR
    >>> X, _ = make_swiss_roll(500, random_state=0)
    >>> TSIMR(2).fit_transform(X).shape
    (500, 2)
    """

    _: KW_ONLY
    gamma: float = 1.0

    def _solve(self, L: csr_array, K: csr_array, form: WithinForm) -> tuple[Floats, Floats, Floats]:
        gamma = check_number("gamma", self.gamma, least=0.0, most=_MAX_GAMMA)
        n, r = L.shape[0], self.n_components
        blocks: list[list[Any]] = [[2.0 * L, -K.T], [-K, build_block_rows(form, gamma).to_csr()]]
        S: Any = block_array(blocks)
        values, vectors = _smallest_eigenpairs(S, r + 1)
        # The constant has energy 0. Where other functions have so too, it is mixed with them and is
        # removed from their span.
        constant = vectors[:n].sum(axis=0)
        others = np.linalg.svd(constant[None, :])[2][1:].T
        values, rotation = eigh(others.T @ (values[:, None] * others))
        vectors = fix_signs(vectors @ (others @ rotation))
        fields = _by_patch(vectors[n:], form)
        gram = np.mean(np.einsum("pmr,pms->prs", fields, fields), axis=0)
        variances, axes = eigh(gram)
        roots = np.sqrt(np.maximum(variances, np.finfo(float).eps * variances.max()))
        mixing = (axes / roots) @ axes.T
        return vectors[:n] @ mixing, fields @ mixing, np.maximum(values, 0.0)


@dataclass(eq=False, repr=False)
class PFE(_TangentEmbedding):
    """Parallel vector field embedding.

    Vector fields v that change as little as possible from sample to sample minimise

        sum_ij W_ij |v_i - T_i'T_j v_j|^2

    for a graph W of nearest neighbours and tangent spaces T_j. They are scaled to length 1 at every
    sample. A coordinate is the function whose differences along the graph are nearest to such a
    field. Where the manifold is flat, coordinates keep distances. With ``partition`` all samples of
    a patch share a tangent space and a tangent vector, as in MPDA.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    n_neighbors : int, default=10
        Number of neighbours of each sample in the graph.
    tangent_dimension : int, default=None
        Dimension of the tangent spaces. None stands for ``n_components``.
    partition : {"auto", "geodesic"}, clusterer or None, default=None
        None gives every sample a tangent space of its own. The others are those of `MPDA`; a patch
        of a named rule that the graph does not connect is divided. The tangent space of a patch
        comes from its samples and their neighbours.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates of the training samples, with mean 0.
    eigenvalues_ : ndarray of shape (n_components,)
        Energies of the fields before they were scaled, increasing. They are near 0 where parallel
        fields exist, and not near 0 on a sphere, which has none.
    patch_labels_ : ndarray of shape (n_samples,)
        Patch of each sample.
    tangent_bases_ : ndarray of shape (n_patches, n_features, tangent_dimension)
        Tangent spaces.
    fields_ : ndarray of shape (n_patches, tangent_dimension, n_components)
        Fields of length 1.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    References
    ----------
    .. [1] Lin, B., He, X., Zhang, C. and Ji, M. (2013). Parallel vector field embedding. Journal of
           Machine Learning Research, 14, 2945-2977.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from mpda import PFE
    >>> X, _ = make_swiss_roll(500, random_state=0)
    >>> PFE(2).fit_transform(X).shape
    (500, 2)
    """

    def _solve(self, L: csr_array, K: csr_array, form: WithinForm) -> tuple[Floats, Floats, Floats]:
        r = self.n_components
        coupling = replace(form, first_order=np.zeros_like(form.first_order))
        C = build_block_rows(coupling, 1.0).to_csr()
        values, vectors = _smallest_eigenpairs(C, r)
        fields = _by_patch(fix_signs(vectors), form)
        lengths = np.linalg.norm(fields, axis=1, keepdims=True)
        fields = fields / np.where(lengths > 0.0, lengths, 1.0)
        # 2 L f = K'v. L has the constants as its null space: the first sample gets 0, then the mean
        # is subtracted.
        targets = K.T @ fields[form.mask]
        embedding = np.zeros((L.shape[0], r))
        embedding[1:] = splu(csc_array(2.0 * L[1:, 1:])).solve(targets[1:])
        return embedding - embedding.mean(axis=0), fields, np.maximum(values, 0.0)


def _label_components(edges: Ints, n: int) -> Ints:
    """Return the connected component of each of n samples."""
    adjacency = csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    return np.asarray(connected_components(adjacency, directed=False)[1], dtype=np.intp)


def _check_connected(edges: Ints, n: int, n_neighbors: int) -> None:
    n_parts = _label_components(edges, n).max() + 1
    if n_parts > 1:
        raise ValueError(
            f"The graph of {n_neighbors} nearest neighbours has {n_parts} parts that no edge "
            "joins. Their position to each other is not determined: use a larger n_neighbors, or "
            "embed the parts one by one."
        )


def _find_tangents(X: Floats, patches: Ints, neighbors: NeighborLists, m: int) -> TangentBases:
    """Return tangent spaces of at most m dimensions from patches and neighbours of their samples.

    Patches of one or two samples alone have fewer dimensions than the manifold, and would punish
    every linear function.
    """
    n, k = neighbors.indices.shape
    if patches.max() == n - 1:  # every sample is a patch
        tangents, order = neighborhood_tangents(X, neighbors, 1.0, m), np.argsort(patches)
        return TangentBases(tangents.bases[order], tangents.dimensions[order])
    members = np.concatenate([np.arange(n), neighbors.indices.ravel()])
    labels = np.concatenate([patches, np.repeat(patches, k)])
    labels, members = np.unique(np.stack([labels, members]), axis=1)
    return patch_tangents(X, labels, 1.0, members, m)


def _smallest_eigenpairs(matrix: Any, k: int) -> tuple[Floats, Floats]:
    """Return the k smallest eigenvalues of a sparse matrix (N, N) >= 0 and their eigenvectors."""
    size = matrix.shape[0]
    if size <= max(_DENSE_LIMIT, 2 * k):
        values, vectors = eigh(matrix.toarray(), subset_by_index=(0, k - 1))
        return values, vectors
    shift = _SHIFT * matrix.diagonal().mean()
    start = np.random.default_rng(0).normal(size=size)
    values, vectors = eigsh(csc_array(matrix), k, sigma=-shift, which="LM", v0=start)
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _by_patch(vectors: Floats, form: WithinForm) -> Floats:
    """Return tangent vectors (sum m_p, r) as (P, m, r), padded by zeros."""
    fields = np.zeros((*form.mask.shape, vectors.shape[1]))
    fields[form.mask] = vectors
    return fields
