"""
Classes of several groups, in channels half of which are noise
==============================================================

*When does a map lower the error of the nearest neighbour?*

A nearest neighbour sees all features alike. Here half of 128 channels are noise, and each of two
classes, even and odd digits, consists of five groups. PCA keeps the noise. LDA removes it, but has
one direction for two classes. LFDA and MPDA keep the groups apart.
"""

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from mpda import LFDA, MPDA
from mpda.model_selection import classification_curve

X, digit = load_digits(return_X_y=True)
X = np.hstack([X, np.random.default_rng(0).normal(scale=6, size=X.shape)])
y = digit % 2
maps = {
    "PCA": PCA(30, random_state=0),
    "LDA": LinearDiscriminantAnalysis(),
    "LFDA ridge": LFDA(30, alpha=0.1),
    "MPDA": MPDA(30),
}
curves, plain = {name: [] for name in maps}, []
for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
    split = X[train], y[train], X[test], y[test]
    for name, model in maps.items():
        curves[name].append(classification_curve(model.fit(*split[:2]), *split))
    plain.append(1 - KNeighborsClassifier(1).fit(*split[:2]).score(*split[2:]))
means = {name: 100 * np.mean(errors, axis=0) for name, errors in curves.items()}
print(f"1-NN on all 128 channels: {100 * np.mean(plain):.1f} % wrong")
for name, errors in means.items():
    r = min(20, errors.size)
    print(f"{name + ',':11s} {r:2d} numbers: {errors[r - 1]:.1f} % wrong")

# %%
figure, panel = plt.subplots(figsize=(7, 4), layout="constrained")
panel.axhline(100 * np.mean(plain), color="0.4", linestyle="--", label="1-NN on 128 channels")
for name, errors in means.items():
    panel.plot(np.arange(1, errors.size + 1), errors, marker="o", markersize=3, label=name)
panel.set(xlabel="numbers in a vector", ylabel="1-NN error (%)", ylim=(0, 30))
panel.set_title("Even and odd digits, 64 pixels and 64 channels of noise, 5 folds")
panel.legend()
