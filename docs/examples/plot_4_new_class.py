"""
Adding a class later
====================

*A model was fitted to eight digits. How can two more be added?*

The contribution of a class to MPDA does not depend on the other classes: a fit is a sum over
classes and one small eigenproblem. So classes can be added later, without the earlier samples.
"""

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from mpda import MPDA
from mpda.plotting import plot_embedding

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.5, stratify=y, random_state=0
)
is_early = y_train < 8


def error(model):
    """Return the 1-NN error in per cent on the test images of all ten digits."""
    classifier = KNeighborsClassifier(1).fit(model.transform(X_train), y_train)
    return 100 * (1 - classifier.score(model.transform(X_test), y_test))


# %%
# First the digits 0 to 7, then 8 and 9:

model = MPDA(n_components=10).fit(X_train[is_early], y_train[is_early])
before = model.transform(X_test)
error_before = error(model)
model.partial_fit(X_train[~is_early], y_train[~is_early])
after = model.transform(X_test)
print("classes:", *model.classes_)

# %%
# Is that the map of a fit to all samples? In relative units the first call fixes the absolute
# values of gamma and the ridges (``strengths_``), so the other fit uses these:

single_fit = MPDA(
    n_components=10,
    units="absolute",
    gamma=model.strengths_["gamma"],
    alpha=model.strengths_["alpha"],
    tangent_alpha=model.strengths_["beta"],
).fit(X_train, y_train)
difference = np.abs(model.components_ - single_fit.components_).max()
largest = np.abs(single_fit.components_).max()
print(f"largest difference {difference / largest:.0e} of the largest entry")

# %%
# The error on all ten digits, compared with a new fit in its own units:

print(f"map of eight digits:   {error_before:.2f} % wrong")
print(f"after partial_fit:     {error(model):.2f} %")
refit = MPDA(n_components=10).fit(X_train, y_train)
print(f"new fit to all digits: {error(refit):.2f} %")

# %%

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
plot_embedding(None, before, y_test, ax=axes[0], title="the map of 0 to 7")
plot_embedding(None, after, y_test, ax=axes[1], title="8 and 9 added")

# %%
# A class must be complete, because its neighbours and patches depend on all its samples. A class of
# an earlier call is an error. A call that repeats classes with equal samples changes nothing.
