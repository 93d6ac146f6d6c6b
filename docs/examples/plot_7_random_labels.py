"""
Labels without meaning
======================

*Does a picture of separate classes show that the features separate them?*

With many features and few samples, a supervised map separates any labels on the samples that it was
fitted to, even random ones. New samples show whether there is anything to see. The same holds for
every supervised method, and for nonlinear ones even more.
"""

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from mpda import LFDA, MPDA

rng = np.random.default_rng(0)
X, y = rng.normal(size=(200, 60)), np.arange(200) % 3
train, test = np.arange(200) < 120, np.arange(200) >= 120
model = MPDA(n_components=2, alpha=0.01).fit(X[train], y[train])

figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
for panel, part, title in zip(
    panels, (train, test), ("samples of the fit", "new samples"), strict=True
):
    Z = model.transform(X[part])
    for label in range(3):
        panel.scatter(*Z[y[part] == label].T, s=18, label=f"class {label}")
    panel.set(title=title, xlabel="MPDA 1")
panels[0].set_ylabel("MPDA 2")
panels[1].legend()

# %%
# The left picture says nothing, because the labels are random. The page of ``mpda fit`` therefore
# shows every sample by a map that was fitted without it, and the error is measured on such samples:

folds = StratifiedKFold(5, shuffle=True, random_state=0)
maps = {
    "1-NN": [],
    "LDA": [LinearDiscriminantAnalysis()],
    "LFDA": [LFDA(n_components=10, alpha=0.1)],
    "MPDA": [MPDA(n_components=10)],
}
for name, steps in maps.items():
    predicted = cross_val_predict(make_pipeline(*steps, KNeighborsClassifier(1)), X, y, cv=folds)
    print(f"{name:5s} {100 * np.mean(predicted != y):.1f} % wrong")
print("guess 66.7 % wrong")

# %%
# No method is better than a guess, and ``mpda fit`` says so: "No method is significantly better
# than always guessing the most frequent class".
