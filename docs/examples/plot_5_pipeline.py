"""
A pipeline, GridSearchCV, and a faster search
=============================================

*How is MPDA tuned inside a pipeline, and how much faster is DiscriminantSearchCV?*

The features of the wine data have different units, so they are scaled first. All estimators follow
scikit-learn's conventions and work in its pipelines and searches.
"""

# %%
import time

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from mpda import MPDA
from mpda.model_selection import DiscriminantSearchCV
from mpda.plotting import plot_curve

X, y = load_wine(return_X_y=True)
folds = StratifiedKFold(4, shuffle=True, random_state=0)
steps = [("scale", StandardScaler()), ("map", MPDA())]
neighbors, ridges, components = [5, 10, 20], [0.01, 0.1, 1.0], [1, 2, 3, 4, 5]

# %%
# scikit-learn's search fits every point of the grid in every fold:

start = time.perf_counter()
grid_search = GridSearchCV(
    Pipeline([*steps, ("classifier", KNeighborsClassifier(1))]),
    {"map__alpha": ridges, "map__n_neighbors": neighbors, "map__n_components": components},
    cv=folds,
).fit(X, y)
grid_seconds = time.perf_counter() - start

# %%
# ``DiscriminantSearchCV`` includes 1-NN, evaluates every number of components, and does shared work
# once. The rule "minimum" is that of GridSearchCV.

start = time.perf_counter()
search = DiscriminantSearchCV(
    Pipeline(steps),
    {"alpha": ridges, "n_neighbors": neighbors},
    n_components=components,
    cv=folds,
    selection="minimum",
).fit(X, y)
seconds = time.perf_counter() - start

# %%
# Are the scores the same, point by point?


def scores(fitted):
    """Return the mean score of each grid point."""
    means = fitted.cv_results_["mean_test_score"]
    points = [tuple(sorted(point.items())) for point in fitted.cv_results_["params"]]
    return dict(zip(points, means, strict=True))


expected, actual = scores(grid_search), scores(search)
print(f"{len(expected)} points, the same: {expected.keys() == actual.keys()}")
print(f"largest difference of a score: {max(abs(expected[p] - actual[p]) for p in expected):.0e}")
print(f"best mean accuracy: {grid_search.best_score_:.4f} and {search.best_score_:.4f}")
print(f"GridSearchCV took {grid_seconds / seconds:.0f} times as long")
print("selected:", search.best_params_)

# %%
# Several points have the best score. ``DiscriminantSearchCV`` then selects the fewest components
# and the strongest ridge. The error for every number of components:

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
plot_curve(search, ax=ax, title="wine: error in the folds of the search")
# %%
# The best of 45 scores is too optimistic, because it was selected. Nested cross-validation measures
# the error on folds that took no part in the selection:

outer = cross_val_score(search, X, y, cv=StratifiedKFold(10, shuffle=True, random_state=1))
print(f"in the search: {100 * (1 - search.best_score_):.1f} % wrong")
print(f"nested:        {100 * (1 - np.mean(outer)):.1f} % ± {100 * np.std(outer, ddof=1):.1f}")
