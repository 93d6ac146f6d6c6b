"""Ways to divide a class into patches: the values of the parameter ``partition``.

A rule takes the samples of a class and their k'-nearest-neighbour lists, and returns a
``Partition``. Named rules are the rule of the paper (``split``) and the principal-axis tree for
large classes (``principal_axis_tree``). Patches may also be given, or come from a clusterer.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.arrays import is_device_array, to_host
from mpda._lib.memory import check_pairwise_memory
from mpda.exceptions import PartitionError
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, find_neighbors
from mpda.partition.geodesics import euclidean_distances, geodesic_distances
from mpda.partition.principal_axis_tree import principal_axis_partition
from mpda.partition.split import known_partition, manifold_partition, mean_tortuosity
from mpda.partition.tree import Partition

PARTITIONS = ("auto", "geodesic", "euclidean", "tree")
# "auto" uses the tree for larger classes. The rule of the paper takes a few tenths of a second and
# 35 MB for this many samples; both grow at least with the square.
MAX_GEODESIC_SIZE = 1000
# Matrices (n, n) of 8 bytes that exist at the same time: paths, tortuosity, blocks of them, masks.
# Measured with tracemalloc for n = 4000: 2.9 with geodesics and 1.7 without.
_N_GEODESIC_MATRICES, _N_EUCLIDEAN_MATRICES = 4, 2
# Smaller classes are not compared with the available memory: they take less than 128 MB.
_UNGUARDED_SIZE = 2000
# Given patches of larger classes, and larger patches, have no linearity: all shortest paths of more
# samples would take longer than the fit, and memory that it does not need.
_MAX_MEASURED_SIZE = _UNGUARDED_SIZE
# Linearity of the tree's patches is measured by geodesics inside nodes of at most this size. Larger
# nodes have longer ways around, smaller ones take less time: 64 takes 0.1 s for 6000 samples.
_MAX_MEASURED_NODE = 64


@dataclass(frozen=True)
class PartitionRule:
    """Rule that divides one class into patches.

    Parameters
    ----------
    partition : {"auto", "geodesic", "euclidean", "tree"}
        "geodesic" is the rule of the paper. "euclidean" is the same rule with straight instead of
        geodesic distances. "tree" is the principal-axis tree. "auto" is "geodesic" for classes of
        up to ``MAX_GEODESIC_SIZE`` samples and "tree" for larger ones.
    max_patch_size : int
        M, the largest number of samples of a patch.
    """

    partition: str
    max_patch_size: int

    def __call__(self, points: ClassPoints, neighbors: NeighborLists) -> Partition:
        """Divide a class into patches.

        Parameters
        ----------
        points : ClassPoints
            Samples of the class, on the host or on a device.
        neighbors : NeighborLists
            Their k' nearest neighbours. The tree does not need them.

        Returns
        -------
        Partition
            Patches, on the host. Classes on a device are copied to the host unless they are cut by
            the tree: the growth of patches consists of many small steps.
        """
        n = points.X.shape[0]
        if self.uses_tree(n):
            return principal_axis_partition(points.X, self.max_patch_size)
        is_geodesic = self.partition != "euclidean"
        if n > _UNGUARDED_SIZE:
            check_pairwise_memory(
                n,
                _N_GEODESIC_MATRICES if is_geodesic else _N_EUCLIDEAN_MATRICES,
                f"partition={self.partition!r} compares all pairs of a class. Use "
                'partition="tree" or "auto", which do not.',
            )
        compute_distances = geodesic_distances if is_geodesic else euclidean_distances
        points, neighbors = _copy_to_host(points, neighbors)
        return manifold_partition(compute_distances(points, neighbors), self.max_patch_size)

    def uses_tree(self, n: int) -> bool:
        """Return True if a class of n samples is cut by the principal-axis tree.

        Parameters
        ----------
        n : int
            Number of samples.

        Returns
        -------
        bool
            Always True for "tree", and for "auto" in large classes.
        """
        return self.partition == "tree" or (self.partition == "auto" and n > MAX_GEODESIC_SIZE)


def known_patches(points: ClassPoints, neighbors: NeighborLists, *, labels: Labels) -> Partition:
    """Describe given patches of a class and measure their linearity.

    Parameters
    ----------
    points : ClassPoints
        Samples of the class, on the host or on a device.
    neighbors : NeighborLists
        Their k' nearest neighbours.
    labels : ndarray of int of shape (n_samples,)
        Patch of each sample; every sample with label -1 is a patch by itself.

    Returns
    -------
    Partition
        Patches without a tree. The linearity is nan in classes of more than 2000 samples.
    """
    if points.X.shape[0] > _MAX_MEASURED_SIZE:
        return known_partition(None, labels)
    return known_partition(geodesic_distances(*_copy_to_host(points, neighbors)), labels)


def _copy_to_host(
    points: ClassPoints, neighbors: NeighborLists
) -> tuple[ClassPoints, NeighborLists]:
    """Copy arrays of a device to the host; return NumPy arrays unchanged."""
    if to_host(points.X) is points.X:
        return points, neighbors
    lists = NeighborLists(to_host(neighbors.indices), to_host(neighbors.distances))
    return ClassPoints(to_host(points.X)), lists


def measure_linearity(partition: Partition, X: Floats, n_neighbors: int) -> Partition:
    """Measure the linearity of the patches of a principal-axis tree.

    Geodesics are computed inside the largest nodes of at most 64 samples, or the size of the
    largest patch, over their own k'-nearest-neighbour graph. All geodesics of the class would take
    the time that the tree saves.

    Parameters
    ----------
    partition : Partition
        Partition of one class with a tree.
    X : ndarray of shape (n_samples, n_features)
        Samples of the class.
    n_neighbors : int
        Number of neighbours k'.

    Returns
    -------
    Partition
        The same patches with their linearity. Larger nodes of the tree keep nan, and so do patches
        of more than 2000 samples.
    """
    tree = partition.tree
    assert tree is not None
    is_leaf = tree.patches >= 0
    # Leaves are measured up to a size at which that takes seconds.
    largest = min(max(_MAX_MEASURED_NODE, int(tree.sizes[is_leaf].max())), _MAX_MEASURED_SIZE)
    linearity = np.full(tree.sizes.size, np.nan)

    def measure(node: int, members: Ints, tortuosity: Floats | None) -> None:
        """Measure a node and its descendants; members are in the order of the leaves."""
        if tortuosity is None and members.size <= largest:
            points = ClassPoints(X[members])
            tortuosity = geodesic_distances(points, find_neighbors(points, n_neighbors)).tortuosity
        if tortuosity is not None:
            linearity[node] = mean_tortuosity(tortuosity)
        if not is_leaf[node]:
            left, right = tree.children[node]
            cut = tree.sizes[left]
            measure(left, members[:cut], None if tortuosity is None else tortuosity[:cut, :cut])
            measure(right, members[cut:], None if tortuosity is None else tortuosity[cut:, cut:])

    measure(0, np.argsort(partition.labels, kind="stable"), None)
    patch_linearity = np.empty_like(partition.linearity)
    patch_linearity[tree.patches[is_leaf]] = linearity[is_leaf]
    return Partition(partition.labels, patch_linearity, replace(tree, linearity=linearity))


def cluster_class(clusterer: Any, X: Floats, subset: str) -> Ints:
    """Divide a class into patches by a scikit-learn clusterer.

    Parameters
    ----------
    clusterer : estimator
        Unfitted, with ``fit_predict``. A clone of it is fitted.
    X : ndarray of shape (n_samples, n_features)
        Samples of the class.
    subset : str
        The samples in words, for error messages: "class 3".

    Returns
    -------
    ndarray of int of shape (n_samples,)
        Cluster of each sample.
    """
    try:
        # With dispatch, KMeans of scikit-learn 1.7 does not accept NumPy arrays.
        with config_context(array_api_dispatch=False):
            labels = np.asarray(clone(clusterer).fit_predict(X.astype(np.float64)))
    except Exception as error:
        raise PartitionError(
            f"partition={clusterer!r} failed on {subset} ({len(X)} samples): {error}"
        ) from error
    if labels.shape != (len(X),) or not np.issubdtype(labels.dtype, np.integer):
        raise PartitionError(
            f"partition={clusterer!r} must give one integer label per sample; on {subset} "
            f"({len(X)} samples) it gave an array of shape {labels.shape} and type {labels.dtype}."
        )
    return labels.astype(np.intp)


def check_patch_labels(patches: Any, y: Labels) -> Ints:
    """Check patches that the user gives.

    Parameters
    ----------
    patches : array-like of int of shape (n_samples,)
        Patch of each sample. No patch may contain samples of two classes.
    y : ndarray of shape (n_samples,)
        Class labels.

    Returns
    -------
    ndarray of int of shape (n_samples,)
        Consecutive patch labels; -1, a patch of one sample, stays -1.
    """
    labels = np.asarray(to_host(patches) if is_device_array(patches) else patches)
    if labels.ndim != 1 or labels.shape[0] != y.shape[0]:
        raise ValueError(
            f"patches must hold one label per sample, shape ({y.shape[0]},), got {labels.shape}."
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(f"patches must hold integers, got an array of {labels.dtype}.")
    alone = labels == -1
    values, codes = np.unique(labels, return_inverse=True)
    classes = np.unique(y, return_inverse=True)[1]
    in_classes = np.unique(np.column_stack([codes, classes])[~alone], axis=0)[:, 0]
    counts = np.bincount(in_classes, minlength=values.size)
    if (counts > 1).any():
        mixed = values[counts > 1][0]
        inside = ", ".join(repr(c) for c in np.unique(y[labels == mixed]).tolist())
        raise ValueError(
            f"patches must not mix classes, but patch {mixed} has samples of classes {inside}. "
            "Number the patches of each class apart."
        )
    return np.where(alone, -1, codes)
