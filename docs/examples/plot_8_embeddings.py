"""
Sentence embeddings in an eighth of the numbers
===============================================

*How short can embeddings be for a nearest-neighbour search by intent?*

Banking77 has 13,083 questions of bank customers with 77 intents (Casanueva et al., 2020). Each is a
vector of 256 numbers, the mean of its word vectors (WordLlama). The data are not part of mpda: this
page is built where the environment variable MPDA_DATA names a directory with
``banking77_wordllama256.npz``.
"""

# %%
import os
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from mpda import MPDA, NeighborhoodRefinement
from mpda.assessment import fit_label_classifier

data = np.load(Path(os.environ["MPDA_DATA"]) / "banking77_wordllama256.npz")
X, y = data["X"].astype(np.float32), data["y"]
X /= np.linalg.norm(X, axis=1, keepdims=True)
train, test = data["split"] == 0, data["split"] != 0
print(f"{train.sum()} training and {test.sum()} test questions, {len(data['names'])} intents")

# %%
# A search by cosine similarity is one by distance after scaling all vectors to length 1. PCA keeps
# the directions of the largest variance, whatever the intents. The other maps see the intents.


def error(model, lengths):
    """Return the 1-NN errors in per cent with the first components, for several lengths."""
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    neighbors = (KNeighborsClassifier(1).fit(Z[:, :r], y[train]) for r in lengths)
    scores = (n.score(Z_test[:, :r], y[test]) for n, r in zip(neighbors, lengths, strict=True))
    return [100 * (1 - score) for score in scores]


lengths = [8, 16, 32, 64]
curves = {
    "PCA": error(PCA(64, random_state=0).fit(X[train]), lengths),
    "shrinkage LDA": error(
        LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X[train], y[train]),
        lengths,
    ),
    "MPDA": error(MPDA(n_components=64).fit(X[train], y[train]), lengths),
    # The maps of a refinement are not nested: each length is a fit of its own.
    "MPDA refined": [
        error(NeighborhoodRefinement(MPDA(), n_components=r).fit(X[train], y[train]), [r])[0]
        for r in lengths
    ],
}
plain = KNeighborsClassifier(1).fit(X[train], y[train])
raw = 100 * (1 - plain.score(X[test], y[test]))
print(f"all 256 numbers: {raw:.1f} % wrong")
for name, values in curves.items():
    print(
        f"{name:14s}" + "".join(f"{r:5d}: {v:4.1f} %" for r, v in zip(lengths, values, strict=True))
    )

# %%
# A classifier gives a label only; a map gives neighbours and their order, takes new classes without
# training again, makes vectors smaller, and is one matrix in a vector store. Where only the label
# counts, the errors to compare with are those of logistic regression on all numbers.

classifier = fit_label_classifier(X[train], y[train])
classified = 100 * (1 - classifier.score(X[test], y[test]))
print(f"logistic regression, all 256 numbers, label only, no map: {classified:.1f} % wrong")

# %%
figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in curves.items():
    panel.plot(lengths, values, marker="o", label=name)
panel.axhline(raw, color="0.5", linestyle="--", label="all 256 numbers")
panel.axhline(classified, color="0.5", linestyle=":", label="logistic regression, no map")
panel.set(xscale="log", xticks=lengths, xticklabels=lengths, ylim=(0, None))
panel.set(xlabel="numbers in a vector", ylabel="1-NN error (%)")
panel.legend()
