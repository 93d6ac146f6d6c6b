"""
Classes that no linear map separates
====================================

*Three concentric shells overlap in every projection. Can MPDA separate them?*

Not alone, because it is a linear map. It can if nonlinear features come first. ``Nystroem``
computes such features from a kernel, and a pipeline of the two is a kernel version of MPDA.
"""

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from mpda import MPDA
from mpda.plotting import plot_embedding

rng = np.random.default_rng(0)
y = np.repeat(["inner", "middle", "outer"], 300)
directions = rng.normal(size=(900, 6))
directions /= np.linalg.norm(directions, axis=1, keepdims=True)
radii = np.repeat([1.0, 1.6, 2.2], 300) + rng.normal(scale=0.12, size=900)
X = radii[:, None] * directions
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.5, stratify=y, random_state=0
)

# %%
# MPDA on the six coordinates, and on 200 features of a Gaussian kernel:

linear = MPDA(n_components=2).fit(X_train, y_train)
kernel = make_pipeline(
    Nystroem(gamma=0.5, n_components=200, random_state=0), MPDA(n_components=2)
).fit(X_train, y_train)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
plot_embedding(linear, X_test, y_test, ax=axes[0], title="MPDA")
plot_embedding(kernel, X_test, y_test, ax=axes[1], title="Nystroem, then MPDA")

# %%


def error(train, test):
    """Return the 1-NN error in per cent."""
    return 100 * (1 - KNeighborsClassifier(1).fit(train, y_train).score(test, y_test))


print(f"the six coordinates:       {error(X_train, X_test):4.1f} % wrong")
for name, model in {"MPDA": linear, "Nystroem, then MPDA": kernel}.items():
    mapped = model.transform(X_train), model.transform(X_test)
    print(f"{name:20s} in 2-D: {error(*mapped):4.1f} %")

# %%
# In the plane of the linear map the shells overlap. With two components of the kernel version, 1-NN
# is far better than with all six coordinates, in which neighbours on a shell are far apart.
#
# The cost: the map is no longer one matrix. A sample is compared with 200 training samples, which
# must be deployed too. ``gamma`` of the kernel is one more parameter to select;
# ``DiscriminantSearchCV`` searches over the parameters of the last step only.
