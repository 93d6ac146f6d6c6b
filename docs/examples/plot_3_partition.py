"""
Dividing a curved sheet into flat patches
=========================================

*What are the patches that MPDA uses, and how flat are they?*

MPDA divides each class into patches that are nearly flat. ``ManifoldPartition`` is that step alone:
a clusterer with a bound on the size of a patch. A rolled-up sheet shows what it does, because the
position of each sample on the sheet is known.
"""

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import make_swiss_roll

from mpda import ManifoldPartition
from mpda.plotting import plot_partition

X, along = make_swiss_roll(900, random_state=0)  # along: the angle of the roll

# %%
# A patch is split if it has more than ``max_patch_size`` samples. Its linearity is the mean ratio
# of geodesic to straight distance over all pairs; 1 is flat.

partitions = {size: ManifoldPartition(max_patch_size=size).fit(X) for size in (150, 40, 10)}
print(f"the whole roll: linearity {partitions[10].tree_.linearity[0]:.2f}")
for size, partition in partitions.items():
    linearity = partition.patch_linearity_
    print(
        f"at most {size:3d} samples: {linearity.size:3d} patches, "
        f"linearity {linearity.mean():.2f} on average, {linearity.max():.2f} at worst"
    )

# %%
# k-means uses straight distances. With as many clusters as there are patches of at most 150
# samples, does it separate the turns of the roll? A full turn is an angle of 6.3.

coarse = partitions[150]
clusters = KMeans(coarse.patch_sizes_.size, n_init=4, random_state=0).fit_predict(X)


def largest_range(labels):
    """Return the largest range of angles in a patch."""
    return max(np.ptp(along[labels == patch]) for patch in np.unique(labels))


def distance_to_planes(labels):
    """Return the root mean square distance of the samples to the best plane of their patch."""
    squares = 0.0
    for patch in np.unique(labels):
        offsets = X[labels == patch] - X[labels == patch].mean(axis=0)
        squares += np.sum(np.linalg.svd(offsets, compute_uv=False)[2:] ** 2)
    return np.sqrt(squares / len(X))


for name, labels in {"ManifoldPartition": coarse.labels_, "k-means": clusters}.items():
    print(
        f"{name:18s} widest patch {largest_range(labels):.1f}, "
        f"distance to the planes {distance_to_planes(labels):.2f}"
    )

# %%

figure, axes = plt.subplots(2, 2, figsize=(10, 7), height_ratios=(3, 2), layout="constrained")
for column, (name, labels) in enumerate(
    {"ManifoldPartition": coarse.labels_, "k-means": clusters}.items()
):
    rolled, unrolled = axes[:, column]
    for patch in np.unique(labels):
        members, marker = labels == patch, "os^Dv"[patch % 5]
        rolled.scatter(X[members, 0], X[members, 2], s=12, marker=marker)
        unrolled.scatter(along[members], X[members, 1], s=12, marker=marker)
    rolled.set(title=name, aspect="equal")
    rolled.set_axis_off()
    unrolled.set(xlabel="angle", ylabel="along the axis")

# %%
# Above is the roll seen along its axis, below are the same samples on the unrolled sheet. The
# patches of the partition are connected pieces of the sheet. Some clusters of k-means are two
# pieces that are one turn apart: they cross the gap.
#
# With patches smaller than the gap, straight distances are sufficient. k-means, whose clusters are
# rounder, is even a little closer to its planes:

fine = partitions[10]
clusters = KMeans(fine.patch_sizes_.size, n_init=4, random_state=0).fit_predict(X)
for name, labels in {"ManifoldPartition": fine.labels_, "k-means": clusters}.items():
    print(f"{name:18s} distance to the planes {distance_to_planes(labels):.3f}")

# %%
# Any clusterer may replace the rule: ``MPDA(partition=KMeans(20))`` runs it on every class. For a
# curve in the plane, patches and their tangents can be drawn directly:

rng = np.random.default_rng(0)
angle = rng.uniform(0.3, 2.9 * np.pi, 300)
spiral = np.column_stack([angle * np.cos(angle), angle * np.sin(angle)])
spiral += rng.normal(scale=0.15, size=spiral.shape)
figure, ax = plt.subplots(figsize=(6, 5.5), layout="constrained")
plot_partition(ManifoldPartition(max_patch_size=20).fit(spiral), spiral, ax=ax)
