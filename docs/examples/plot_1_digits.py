"""
Ten digits in two dimensions
============================

*What do ten classes look like if there is only room for two numbers?*

The digits that come with scikit-learn are 1797 images of 8 by 8 pixels. Three linear maps bring
them from 64 dimensions to two: PCA, which does not use labels, linear discriminant analysis, and
MPDA. Each is fitted to one half of the images; the figures show the other half.
"""

# %%
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split

from mpda import MPDA
from mpda.model_selection import classification_curve
from mpda.plotting import plot_components, plot_embedding

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.5, stratify=y, random_state=0
)
maps = {
    "PCA": PCA(n_components=20),
    "LDA": LinearDiscriminantAnalysis(),
    "MPDA": MPDA(n_components=20),
}
for model in maps.values():
    model.fit(X_train, y_train)

# %%
# The first two components of each, on test images:

figure, axes = plt.subplots(1, 3, figsize=(12.5, 4.3), layout="constrained")
for ax, (name, model) in zip(axes, maps.items(), strict=True):
    plot_embedding(model, X_test, y_test, ax=ax, title=name)

# %%
# The 1-NN error on the test images with two, nine and twenty components. LDA has at most nine, one
# fewer than classes.

for name, model in maps.items():
    error = 100 * classification_curve(model, X_train, y_train, X_test, y_test)
    values = [f"{r:2d}: {error[r - 1]:5.1f} %" for r in (2, 9, 20) if r <= len(error)]
    print(f"{name:5s} {'   '.join(values)}")

# %%
# Two components make a picture, not a classifier: with every map more than a third of the images
# have a nearest neighbour of another digit. Nine components are much better, and with twenty MPDA
# has the lowest error of the three. The picture shows which digits are close to each other.
#
# Each component is a weight for every pixel, so it can be drawn as an image. Yellow and blue pixels
# have weights of opposite sign:

figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
plot_components(maps["MPDA"], components=range(4), image_shape=(8, 8), ax=axes)
