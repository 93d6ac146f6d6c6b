"""The manifold partition on its own."""

from __future__ import annotations

from typing import Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClusterMixin

from mpda._lib.array_types import ArrayLike, Floats, Ints
from mpda._lib.coordinates import scale_exponent
from mpda._lib.memory import refuse_beyond_memory
from mpda._lib.validation import check_count, check_jobs
from mpda.discriminant.class_contribution import PatchRule
from mpda.estimators._checks import validate_data
from mpda.estimators._costs import BLOCKS, all_pairs_bytes, graph_bytes, samples_bytes
from mpda.estimators._inputs import refuse_device
from mpda.estimators._partition_options import partition_rule
from mpda.estimators._samples import distinct_labels
from mpda.neighbors.graph import ClassPoints, find_neighbors
from mpda.parallel import is_dask_collection, map_ordered
from mpda.partition.coarse import CLASS_SIZE
from mpda.partition.split import Partition, joined


class ManifoldPartition(ClusterMixin, BaseEstimator):
    """Cuts samples into patches of bounded size that are as flat as possible.

    A patch with more than ``max_patch_size`` samples is split: two parts grow from its two samples
    that are farthest apart along the data, each round by the nearest neighbours of what they have;
    neighbours that both reach go to the part that is smaller and flatter. How flat a patch is says
    its linearity R^p, the mean over all pairs of geodesic over straight distance.

    Ties go to the lower index: of distances, and of parts whose size times linearity is equal. The
    latter happens on any data, rarely with geodesics and often without, so the patches may depend
    on the order of the samples.

    Parameters
    ----------
    partition : {"auto", "geodesic", "euclidean"}, default="auto"
        "geodesic" measures along the neighbour graph. "auto" is the same for classes of up to 1000
        samples; larger ones are first cut into parts of at most 64 along a few shortest paths.
        "euclidean" takes straight distances for geodesic ones, and 1 for every ratio.
    partition_neighbors : int, default=6
        Neighbours for the geodesics and for growing patches.
    max_patch_size : int, default=10
        Patches with more samples are split.
    n_jobs : int, default=None
        Classes worked on at the same time, by joblib.
    verbose : int, default=0
        With 1, progress goes to stderr.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Patch of each sample, 0 to n_patches - 1; patches of one class follow each other.
    patch_linearity_ : ndarray of shape (n_patches,)
        R^p; 1 is flat.
    patch_sizes_ : ndarray of shape (n_patches,)
    patch_classes_ : ndarray of shape (n_patches,)
        Class of each patch; only if y was given.
    classes_ : ndarray of shape (n_classes,)
        Only if y was given.
    tree_ : SplitTree
        Every split: ``roots`` (one a class), ``children``, ``sizes`` and ``linearity`` of the nodes
        and, at the leaves, ``patches``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> from sklearn.datasets import make_s_curve
    >>> from mpda import ManifoldPartition
    >>> X, _ = make_s_curve(300, random_state=0)
    >>> int(ManifoldPartition(max_patch_size=20).fit(X).patch_sizes_.max()) <= 20
    True
    """

    def __init__(
        self,
        partition: str = "auto",
        *,
        partition_neighbors: int = 6,
        max_patch_size: int = 10,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.partition = partition
        self.partition_neighbors = partition_neighbors
        self.max_patch_size = max_patch_size
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Cut the samples X (n_samples, n_features) into patches, each inside one class of y."""
        neighbors = check_count("partition_neighbors", self.partition_neighbors)
        rule = partition_rule(self.partition, check_count("max_patch_size", self.max_patch_size))
        n_jobs = check_jobs(self.n_jobs)
        if is_dask_collection(X):
            raise TypeError(
                "ManifoldPartition needs all samples here and does not take Dask collections. If X "
                "fits into memory, give X.compute()."
            )
        refuse_device(self, X, able=False)
        if y is None:
            X = validate_data(self, X, dtype=np.float64)
            codes = np.zeros(len(X), dtype=np.intp)
            for name in ("classes_", "patch_classes_"):
                self.__dict__.pop(name, None)  # of a fit with y
        else:
            X, y = validate_data(self, X, y, dtype=np.float64)
            self.classes_, codes = distinct_labels(y)
        points = np.ldexp(X, -scale_exponent(X))
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        self._refuse_beyond_memory(X, max(each.size for each in members))
        parts = list(
            map_ordered(
                _class_partition,
                ((points[each], neighbors, rule) for each in members),
                len(members),
                n_jobs=n_jobs,
                report=type(self).__name__ if self.verbose else None,
            )
        )
        whole = joined(parts, members)
        self.labels_ = whole.labels
        self.patch_linearity_ = whole.linearity
        self.patch_sizes_ = np.bincount(whole.labels)
        self.tree_ = whole.tree
        if y is not None:
            self.patch_classes_ = np.repeat(self.classes_, [part.linearity.size for part in parts])
        return self

    def _refuse_beyond_memory(self, X: Floats, largest: int) -> None:
        n, d = X.shape
        pairs = all_pairs_bytes(min(largest, CLASS_SIZE) if self.partition == "auto" else largest)
        graph = graph_bytes(largest, d, self.partition_neighbors)
        refuse_beyond_memory(
            samples_bytes(n, d) + effective_n_jobs(self.n_jobs) * (BLOCKS + pairs + graph),
            f"ManifoldPartition on {n} samples with {d} features, up to {largest} in a class,",
            'Use partition="auto", which looks at all pairs in small parts only, fewer features '
            "(GramPCA), or a part of the samples.",
        )

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None) -> Ints:
        """Cut the samples into patches and return the patch of each."""
        return self.fit(X, y).labels_


def _class_partition(points: Floats, n_neighbors: int, rule: PatchRule) -> Partition:
    samples = ClassPoints(points)
    return rule(samples, find_neighbors(samples, n_neighbors))
