"""Estimator for the manifold partition alone: patches of the samples that are nearly flat."""

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import ArrayLike, Floats, Ints
from mpda._lib.device_inputs import is_dispatched, refuse_accelerator
from mpda._lib.validation import (
    check_count,
    check_jobs,
    check_option,
    feature_range,
    group_by_class,
    refuse_dask,
    scale_exponent,
)
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors
from mpda.parallel import map_ordered
from mpda.partition.principal_axis_tree import principal_axis_partition
from mpda.partition.rules import PARTITIONS, PartitionRule, measure_linearity
from mpda.partition.tree import Partition, join_partitions


@dataclass(eq=False, repr=False)
class ManifoldPartition(ClusterMixin, BaseEstimator):
    """Partition of samples into patches of bounded size that are nearly flat.

    A patch with more than ``max_patch_size`` samples is split. Two sides grow from the two samples
    that are farthest apart along the data, each round by the nearest neighbours of their members.
    Neighbours that both sides reach go to the side that is smaller and flatter. The linearity R^p
    of a patch is the mean ratio of geodesic to straight distance over its pairs of samples.

    Large classes are cut by a principal-axis tree instead, which needs no distances.

    Parameters
    ----------
    partition : {"auto", "geodesic", "euclidean", "tree"}, default="auto"
        "geodesic" is the rule above; it needs matrices of all pairs of a class. "euclidean" is the
        same rule with straight instead of geodesic distances and R^p = 1. "tree" cuts every patch
        at the median along its first principal axis. "auto" is "geodesic" for classes of up to
        1000 samples and "tree" for larger ones.
    partition_neighbors : int, default=6
        Number of neighbours for the geodesics and for the growth of patches.
    max_patch_size : int, default=10
        Patches with more samples are split.
    n_jobs : int, default=None
        Number of classes that are worked on at the same time, by joblib.
    verbose : int, default=0
        With 1, progress is written to stderr.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Patch of each sample, 0 to n_patches - 1; the patches of a class have consecutive labels.
    patch_linearity_ : ndarray of shape (n_patches,)
        R^p; 1 is flat. Geodesics are those of the whole class. In classes that are cut by the tree
        they are those inside nodes of the tree with at most 64 samples.
    patch_sizes_ : ndarray of shape (n_patches,)
        Number of samples of each patch.
    patch_classes_ : ndarray of shape (n_patches,)
        Class of each patch; only if y was given.
    classes_ : ndarray of shape (n_classes,)
        Distinct labels; only if y was given.
    tree_ : SplitTree
        Every split: ``roots`` (one for each class), ``children``, ``sizes`` and ``linearity`` of
        the nodes and, at the leaves, ``patches``. The linearity is nan in larger nodes of classes
        that are cut by "tree".
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names that are all strings.

    Notes
    -----
    Equal distances go to the lower index. Of two sides whose size times linearity is equal, samples
    go to the one whose seed has the smaller sum of distances. Patches therefore depend on the order
    of the samples only where distances are equal.

    Examples
    --------
    >>> from sklearn.datasets import make_s_curve
    >>> from mpda import ManifoldPartition
    >>> X, _ = make_s_curve(300, random_state=0)
    >>> int(ManifoldPartition(max_patch_size=20).fit(X).patch_sizes_.max()) <= 20
    True
    """

    partition: str = "auto"
    _: KW_ONLY
    partition_neighbors: int = 6
    max_patch_size: int = 10
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Divide the samples into patches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Class labels. A patch contains samples of one class only.

        Returns
        -------
        ManifoldPartition
            The fitted estimator.
        """
        n_neighbors = check_count("partition_neighbors", self.partition_neighbors)
        name = check_option("partition", self.partition, PARTITIONS)
        rule = PartitionRule(name, check_count("max_patch_size", self.max_patch_size))
        n_jobs = check_jobs(self.n_jobs)
        refuse_dask(self, X)
        if is_dispatched(X):
            raise TypeError("ManifoldPartition works on NumPy arrays: give X as a NumPy array.")
        refuse_accelerator(X)
        if y is None:
            X = validate_data(self, X, dtype=np.float64)
            members = [np.arange(len(X))]
            for name in ("classes_", "patch_classes_"):
                self.__dict__.pop(name, None)  # of an earlier fit with y
        else:
            X, y = validate_data(self, X, y, dtype=np.float64)
            self.classes_, members = group_by_class(y)
        X = np.ldexp(X, -scale_exponent(*feature_range(X)))
        arguments = ((X[indices], n_neighbors, rule) for indices in members)
        report = type(self).__name__ if self.verbose else None
        partitions = list(
            map_ordered(_partition_class, arguments, len(members), n_jobs=n_jobs, report=report)
        )
        partition = join_partitions(partitions, members)
        self.labels_ = partition.labels
        self.patch_linearity_ = partition.linearity
        self.patch_sizes_ = np.bincount(partition.labels)
        self.tree_ = partition.tree
        if y is not None:
            n_patches = [class_partition.linearity.size for class_partition in partitions]
            self.patch_classes_ = np.repeat(self.classes_, n_patches)
        return self

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None) -> Ints:
        """Divide the samples into patches and return the patch of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Class labels.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``labels_``.
        """
        return self.fit(X, y).labels_


def _partition_class(X: Floats, n_neighbors: int, rule: PartitionRule) -> Partition:
    """Divide one class into patches, with their linearity."""
    if rule.uses_tree(len(X)):
        partition = principal_axis_partition(X, rule.max_patch_size)
        return measure_linearity(partition, X, n_neighbors)
    points = ClassPoints(X)
    return rule(points, find_neighbors(points, n_neighbors))
