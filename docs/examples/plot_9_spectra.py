"""
Spectra, next to PLS-DA
=======================

*Which band of a spectrum tells coffees apart, and is the map better than PLS-DA?*

Sixty mid-infrared spectra of coffee from three countries, with 1841 wavenumbers. Chemometrics uses
partial least squares discriminant analysis (PLS-DA): regression of class indicators on latent
components.
The data are not part of mpda: this page is built where the environment variable MPDA_DATA names a
directory with ``coffee_mir.npz``.
"""

# %%
import os
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from mpda import MPDA

data = np.load(Path(os.environ["MPDA_DATA"]) / "coffee_mir.npz")
X, y, names = data["X"].astype(float), data["y"], data["names"].tolist()
# Standard normal variate: every spectrum has mean 0 and standard deviation 1, against scatter.
X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
indicators = np.eye(len(names))[y]

# %%
# Ten repetitions of five folds. Both maps have the same number of components; PLS-DA predicts the
# largest indicator, MPDA the class of the nearest sample.

folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=10, random_state=0)
lengths = (2, 4, 8)
wrong = {"PLS-DA": np.zeros(len(lengths)), "MPDA": np.zeros(len(lengths))}
n_tested = 0
for train, test in folds.split(X, y):
    n_tested += test.size
    for i, r in enumerate(lengths):
        pls = PLSRegression(r).fit(X[train], indicators[train])
        wrong["PLS-DA"][i] += np.sum(pls.predict(X[test]).argmax(axis=1) != y[test])
    short = make_pipeline(PCA(0.999), MPDA(max(lengths), n_neighbors=10)).fit(X[train], y[train])
    Z, Z_test = short.transform(X[train]), short.transform(X[test])
    for i, r in enumerate(lengths):
        nearest = KNeighborsClassifier(1).fit(Z[:, :r], y[train]).predict(Z_test[:, :r])
        wrong["MPDA"][i] += np.sum(nearest != y[test])
for name, errors in wrong.items():
    shares = (
        f"{r} components: {100 * e / n_tested:4.1f} %" for r, e in zip(lengths, errors, strict=True)
    )
    print(f"{name:7s}", ",  ".join(shares))

# %%
# The weights of a component are a spectrum too: they show which bands it uses.

model = make_pipeline(PCA(0.999), MPDA(2, n_neighbors=10)).fit(X, y)
weights = model["mpda"].components_ @ model["pca"].components_
pls = PLSRegression(2).fit(X, indicators)
figure, panels = plt.subplots(3, 1, figsize=(8, 6), sharex=True, layout="constrained")
for label, name in enumerate(names):
    panels[0].plot(X[y == label].mean(axis=0), label=name, linewidth=1)
panels[0].set_ylabel("mean spectrum")
panels[0].legend()
for panel, name, values in zip(
    panels[1:], ("PLS-DA", "MPDA"), (pls.x_rotations_.T, weights), strict=True
):
    for i, row in enumerate(values, start=1):
        panel.plot(row / np.abs(row).max(), label=f"{name} {i}", linewidth=1)
    panel.set_ylabel("weight")
    panel.legend()
panels[2].set_xlabel("number of the wavenumber")
