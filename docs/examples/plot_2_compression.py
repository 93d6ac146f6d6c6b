"""
Shorter vectors for nearest-neighbour search
============================================

*How many bytes does a vector need so that the nearest neighbour still has the right class?*

A search index stores one vector for each item, so its size and the time of a query grow with the
length of the vectors. Here a digit of 64 numbers is stored as the first r components of a linear
map. The question is how much the error of the nearest neighbour increases.
"""

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier

from mpda import LFDA, MPDA
from mpda.model_selection import classification_curve
from mpda.plotting import plot_curve

X, y = load_digits(return_X_y=True)
maps = {
    "PCA": PCA(n_components=32),
    "LFDA ridge": LFDA(n_components=32, alpha=0.1),
    "MPDA": MPDA(n_components=32),
}

# %%
# Five random halves are used for training, the other halves for testing. ``classification_curve``
# returns the error for every number of components, because the first r of 32 components are the map
# to r dimensions.

curves = {name: [] for name in maps}
raw = []
for train, test in StratifiedShuffleSplit(5, train_size=0.5, random_state=0).split(X, y):
    split = X[train], y[train], X[test], y[test]
    for name, model in maps.items():
        curves[name].append(classification_curve(model.fit(*split[:2]), *split))
    raw.append(1 - KNeighborsClassifier(1).fit(*split[:2]).score(*split[2:]))
curves = {name: np.array(errors) for name, errors in curves.items()}

# %%
# The mean error over the five splits. A number takes four bytes in single precision.

print(f"{'numbers':>8}{'bytes':>7}" + "".join(f"{name:>13}" for name in curves))
for r in (2, 4, 8, 12, 16, 24, 32):
    errors = "".join(f"{100 * curve.mean(axis=0)[r - 1]:11.2f} %" for curve in curves.values())
    print(f"{r:8d}{4 * r:7d}{errors}")
print(f"{64:8d}{256:7d}{100 * np.mean(raw):11.2f} %  (all pixels)")

# %%

figure, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
plot_curve(curves, ax=ax, title="1-NN error of digits against the length of the vector")
ax.axhline(100 * np.mean(raw), color="0.3", linewidth=1, linestyle=":")
ax.text(0, 100 * np.mean(raw) - 0.15, "all 64 pixels", va="top")
ax.set_ylim(0, 12)

# %%
# The smallest number of components at which each map is as good as all 64 pixels:

for name, curve in curves.items():
    enough = np.flatnonzero(curve.mean(axis=0) <= np.mean(raw))
    if enough.size:
        r = enough[0] + 1
        print(f"{name}: {r} numbers, {4 * r} bytes, {64 / r:.1f} times shorter")
    else:
        print(f"{name}: not with 32 numbers")

# %%
# MPDA reaches the error of the pixels with about a quarter of the bytes. PCA, which does not use
# labels, needs nearly twice as many components. LFDA with a ridge is better than PCA for very short
# vectors only. The bands are 95 % intervals over five splits; smaller differences are not
# significant.
#
# Deployment needs one matrix and a mean: :doc:`/guide/deploying`.
