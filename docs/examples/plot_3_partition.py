"""
Cutting a curved sheet into flat patches
========================================

*What are the patches on which MPDA rests, and how flat are they?*

MPDA cuts each class into patches that a plane describes well. ``ManifoldPartition`` is that step on
its own: a clusterer with a bound on the size of a patch. A rolled-up sheet shows what it does, for
there one knows where on the sheet a sample lies.
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
# A patch is split as long as it has more than ``max_patch_size`` samples. Its linearity is the mean
# over all pairs of the length of the path along the sheet over the straight distance, so 1 is flat.

partitions = {size: ManifoldPartition(max_patch_size=size).fit(X) for size in (150, 40, 10)}
print(f"the whole roll: linearity {partitions[10].tree_.linearity[0]:.2f}")
for size, partition in partitions.items():
    flat = partition.patch_linearity_
    print(
        f"at most {size:3d} samples: {flat.size:3d} patches, "
        f"linearity {flat.mean():.2f} on average, {flat.max():.2f} at worst"
    )

# %%
# k-means cuts by straight distance. With as many clusters as there are patches of at most 150
# samples, does it keep the turns of the roll apart? A full turn is an angle of 6.3.

coarse = partitions[150]
clusters = KMeans(coarse.patch_sizes_.size, n_init=4, random_state=0).fit_predict(X)


def widest(labels):
    """The largest range of angles in a patch."""
    return max(np.ptp(along[labels == patch]) for patch in np.unique(labels))


def distance_to_planes(labels):
    """Root mean square distance of the samples to the best plane of their patch."""
    squares = 0.0
    for patch in np.unique(labels):
        offsets = X[labels == patch] - X[labels == patch].mean(axis=0)
        squares += np.sum(np.linalg.svd(offsets, compute_uv=False)[2:] ** 2)
    return np.sqrt(squares / len(X))


for name, labels in {"ManifoldPartition": coarse.labels_, "k-means": clusters}.items():
    print(
        f"{name:18s} widest patch {widest(labels):.1f}, "
        f"distance to the planes {distance_to_planes(labels):.2f}"
    )

# %%

figure, axes = plt.subplots(2, 2, figsize=(10, 7), height_ratios=(3, 2), layout="constrained")
for column, (name, labels) in enumerate(
    {"ManifoldPartition": coarse.labels_, "k-means": clusters}.items()
):
    rolled, unrolled = axes[:, column]
    for patch in np.unique(labels):
        mine, marker = labels == patch, "os^Dv"[patch % 5]
        rolled.scatter(X[mine, 0], X[mine, 2], s=12, marker=marker)
        unrolled.scatter(along[mine], X[mine, 1], s=12, marker=marker)
    rolled.set(title=name, aspect="equal")
    rolled.set_axis_off()
    unrolled.set(xlabel="angle", ylabel="along the axis")

# %%
# Above, the roll seen along its axis; below, the same samples on the sheet as it was before it was
# rolled up. The patches of the partition are pieces of the sheet. Some clusters of k-means are two
# pieces that lie a turn apart: they reach across the gap.
#
# Small patches are another matter. Where they are smaller than the gap, straight distance does no
# harm any more, and k-means, which makes rounder pieces, is even a little closer to its planes:

fine = partitions[10]
clusters = KMeans(fine.patch_sizes_.size, n_init=4, random_state=0).fit_predict(X)
for name, labels in {"ManifoldPartition": fine.labels_, "k-means": clusters}.items():
    print(f"{name:18s} distance to the planes {distance_to_planes(labels):.3f}")

# %%
# So any clusterer may take the place of the rule: ``MPDA(partition=KMeans(20))`` runs it on every
# class. For a curve in the plane, patches and their tangents can be drawn as they are:

rng = np.random.default_rng(0)
angle = rng.uniform(0.3, 2.9 * np.pi, 300)
spiral = np.column_stack([angle * np.cos(angle), angle * np.sin(angle)])
spiral += rng.normal(scale=0.15, size=spiral.shape)
figure, ax = plt.subplots(figsize=(6, 5.5), layout="constrained")
plot_partition(ManifoldPartition(max_patch_size=20).fit(spiral), spiral, ax=ax)
