"""Patches of a class in the plane, with their tangent lines.

The partition step divides each class into nearly flat patches. The tangent line of a patch is the
first principal direction of its samples, the leading direction of its tangent space.
"""

from typing import Any, Self

import numpy as np
from sklearn.utils.extmath import svd_flip

from mpda._lib.array_types import ArrayLike, Bools, Floats, Ints
from mpda.plotting import fitted_estimator
from mpda.plotting.axes import Display, get_axes
from mpda.plotting.styles import display_name, make_styles

# Characters of a title that fit above the axes.
_TITLE_WIDTH = 56


class PartitionDisplay(Display):
    """Patches in the plane, with a colour and a marker for each patch.

    Parameters
    ----------
    points : array-like of shape (n_samples, 2)
        Samples.
    patches : array-like of int of shape (n_samples,)
        Patch of each sample, 0 to n_patches - 1.
    lines : array-like of shape (n_patches, 2, 2), default=None
        Ends of the tangent line of each patch; None takes the first principal direction of its
        points.
    axis_names : tuple of two str, default=None
        Titles of the axes.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : matplotlib axes
        Axes of the last plot.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mpda import ManifoldPartition
    >>> from mpda.plotting import PartitionDisplay
    >>> X, y = make_moons(80, random_state=0)
    >>> display = PartitionDisplay.from_estimator(ManifoldPartition().fit(X, y), X, label=1)
    >>> display.ax_.get_title().split(":")[0]
    'class 1'
    """

    def __init__(
        self,
        points: ArrayLike,
        patches: ArrayLike,
        *,
        lines: ArrayLike | None = None,
        axis_names: tuple[str, str] | None = None,
    ) -> None:
        self.points: Floats = np.asarray(points, dtype=np.float64)
        self.patches: Ints = np.asarray(patches, dtype=np.intp)
        if self.points.ndim != 2 or self.points.shape[1] != 2 or not len(self.points):
            raise ValueError(f"points must have shape (n_samples, 2), got {self.points.shape}.")
        fitted_estimator.check_shape("patches", self.patches, (len(self.points),))
        if lines is None:
            lines = compute_tangent_lines(self.points, self.patches)
        self.lines: Floats = np.asarray(lines)
        self.axis_names = axis_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        label: Any = None,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw the patches of a class.

        Parameters
        ----------
        estimator : fitted ManifoldPartition or MPDA, or a pipeline with one
            Model with patches.
        X : array-like of shape (n_samples, n_features)
            Training samples of the estimator.
        label : class label, default=None
            Class to draw; None takes the largest one, or all samples where there were no labels.
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            None names the class, the number of patches and their mean linearity; 1 is flat.

        Returns
        -------
        PartitionDisplay
            With ``figure_`` and ``ax_``.
        """
        step = fitted_estimator.find_step(estimator, "patch_labels_", "labels_", first_methods=True)
        attribute = "patch_labels_" if hasattr(step, "patch_labels_") else "labels_"
        labels = fitted_estimator.to_numpy(getattr(step, attribute))
        for transformer in fitted_estimator.steps_before(estimator, step):
            X = transformer.transform(X)
        X = fitted_estimator.map_samples(None, X)
        if len(X) != len(labels):
            raise ValueError(f"X must be the {len(labels)} training samples, got {len(X)} samples.")
        mask, name = _select_class(step, labels, label)
        X = X[mask]
        numbers, patches = np.unique(labels[mask], return_inverse=True)
        # Tangents are taken before the projection: a direction that is principal in the space of
        # the partition need not be principal in the plane of the plot.
        lines = compute_tangent_lines(X, patches)
        names = ("feature 0", "feature 1")
        if X.shape[1] != 2:
            mean, axes = X.mean(axis=0), compute_principal_axes(X)
            X, lines = (X - mean) @ axes.T, (lines - mean) @ axes.T
            names = ("first principal component", "second principal component")
        if title is None:
            linearity = fitted_estimator.to_numpy(step.patch_linearity_)[numbers]
            title = describe_partition(name, numbers.size, linearity)
        return cls(X, patches, lines=lines, axis_names=names).plot(ax, title=title)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw with matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        PartitionDisplay
            With ``figure_`` and ``ax_``.
        """
        axis = get_axes(ax, width=5.6, height=4.8)
        # Area of a marker in points squared: small for many samples, but visible.
        size = float(np.clip(9000.0 / len(self.points), 8.0, 30.0))
        styles = make_styles(len(self.lines))
        for patch, line, style in zip(np.unique(self.patches), self.lines, styles, strict=True):
            points = self.points[self.patches == patch]
            axis.scatter(*points.T, s=size, color=style.color, marker=style.marker, linewidths=0.0)
            axis.plot(*line.T, color=style.color, linewidth=1.0, alpha=0.55)
        # Angles between tangent lines are meaningful only if both axes have the same scale.
        axis.set_aspect("equal", adjustable="datalim")
        if self.axis_names is not None:
            axis.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        return self._finish(axis, title)


def plot_partition(estimator: Any, X: ArrayLike, **options: Any) -> Any:
    """Draw the patches of a class with their tangent lines.

    Samples with more than two features are drawn in their first two principal components. The
    tangent line of a patch is its first principal direction in the original space.

    Parameters
    ----------
    estimator : fitted ManifoldPartition or MPDA, or a pipeline with one
        Model with patches.
    X : array-like of shape (n_samples, n_features)
        Training samples of the estimator.
    **options : object
        ``label``, ``ax`` and ``title``, as described for `PartitionDisplay.from_estimator`.

    Returns
    -------
    matplotlib.figure.Figure
        Figure with the plot.
    """
    return PartitionDisplay.from_estimator(estimator, X, **options).figure_


def _select_class(step: Any, patches: Ints, label: Any) -> tuple[Bools, str | None]:
    """Return the mask of the samples to draw and the name of their class."""
    if not hasattr(step, "patch_classes_"):
        if label is not None:
            raise ValueError(f"label must be None for a partition without y, got {label!r}.")
        return np.ones(len(patches), dtype=bool), None
    y = fitted_estimator.to_numpy(step.patch_classes_)[patches]
    classes, counts = np.unique(y, return_counts=True)
    if label is None:
        label = classes[np.argmax(counts)]
    if label not in classes:
        names = ", ".join(map(repr, classes.tolist()[:10]))
        raise ValueError(f"label must be one of {names}, got {label!r}.")
    return y == label, str(label)


def describe_partition(name: str | None, n_patches: int, linearity: Floats) -> str:
    """Return the title of a plot of patches.

    Parameters
    ----------
    name : str or None
        Name of the class.
    n_patches : int
        Number of patches.
    linearity : array of shape (n_patches,) or (0,)
        Linearities, nan where unknown.

    Returns
    -------
    str
        Class, number of patches and, where any is known, mean linearity.
    """
    title = f"{n_patches} patches" if n_patches != 1 else "1 patch"
    if name is not None:
        title = f"class {display_name(name)}: {title}"
    if np.isfinite(linearity).any():
        linear = f"mean linearity {np.nanmean(linearity):.3f}"
        separator = ",\n" if len(title) + len(linear) > _TITLE_WIDTH else ", "
        title += separator + linear
    return title


def compute_principal_axes(X: Floats) -> Floats:
    """Return the first two principal directions.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    array of shape (2, n_features)
        Orthonormal rows. The second is zero where there is one sample or feature only.
    """
    directions = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:2]
    # The largest entry becomes positive. The sign of a plot would otherwise depend on LAPACK.
    directions = svd_flip(None, directions, u_based_decision=False)[1]
    return np.pad(directions, ((0, 2 - len(directions)), (0, 0)))


def compute_tangent_lines(X: Floats, patches: Ints) -> Floats:
    """Return segments along the first principal direction of each patch.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples.
    patches : array of int of shape (n_samples,)
        Patch of each sample.

    Returns
    -------
    array of shape (n_patches, 2, n_features)
        Ends of a segment through the mean, 15 % longer than the patch so that it is visible.
    """
    lines = []
    for patch in np.unique(patches):
        points = X[patches == patch]
        centre = points.mean(axis=0)
        direction = compute_principal_axes(points)[0]
        half = 1.15 * np.abs((points - centre) @ direction).max() * direction
        lines.append([centre - half, centre + half])
    return np.array(lines)
