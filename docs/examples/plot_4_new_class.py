"""
Adding a class later
====================

*A model knows eight digits. What does it take to teach it two more?*

What a class contributes to MPDA does not depend on the other classes: a fit is a sum over classes
and one small eigenproblem. So classes may come later, without the samples of the earlier ones.
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
known = y_train < 8


def error(model):
    """1-NN error in per cent, among the test images of all ten digits."""
    classifier = KNeighborsClassifier(1).fit(model.transform(X_train), y_train)
    return 100 * (1 - classifier.score(model.transform(X_test), y_test))


# %%
# First the digits 0 to 7, then 8 and 9:

model = MPDA(n_components=10).fit(X_train[known], y_train[known])
before = model.transform(X_test)
error_before = error(model)
model.partial_fit(X_train[~known], y_train[~known])
after = model.transform(X_test)
print("classes:", *model.classes_)

# %%
# Is that the map of a fit to everything? In relative units the first call fixes gamma and the
# ridges in absolute terms (``units_``), so the fit to compare with has these:

whole = MPDA(
    n_components=10,
    units="absolute",
    gamma=model.units_["gamma"],
    alpha=model.units_["alpha"],
    tangent_alpha=model.units_["beta"],
).fit(X_train, y_train)
difference = np.abs(model.components_ - whole.components_).max()
print(f"largest difference {difference / np.abs(whole.components_).max():.0e} of the largest entry")

# %%
# And is it as good as a fit to everything that chooses its own units?

print(f"map of eight digits, all ten to be told apart: {error_before:.2f} % wrong")
print(f"after partial_fit:                             {error(model):.2f} %")
anew = MPDA(n_components=10).fit(X_train, y_train)
print(f"fitted anew to all ten:                        {error(anew):.2f} %")

# %%

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
plot_embedding(None, before, y_test, ax=axes[0], title="the map of 0 to 7")
plot_embedding(None, after, y_test, ax=axes[1], title="8 and 9 added")

# %%
# A class has to come whole, since its neighbours and patches depend on all its samples; a second
# part of it is refused with a line that says so. The same class with the same samples is passed
# over, so a call of which one does not know whether it went through can be repeated.
