"""The patches of a class."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mpda._lib.array_types import ArrayLike, Bools, Floats, Ints, Labels
from mpda._lib.arrays import is_device_array, to_host
from mpda.plotting._canvas import axes_for, figure_of, tidy
from mpda.plotting._fitted import before, map_of, mapped
from mpda.plotting.styles import COLORS, display_name, make_styles, neighbor_styles


class PartitionDisplay:
    """Patches in the plane; those side by side differ in colour and marker.

    Parameters
    ----------
    points : array-like of shape (n_samples, 2)
    patches : array-like of int of shape (n_samples,)
        The patch of each sample, 0 to n_patches - 1.
    lines : array-like of shape (n_patches, 2, 2), default=None
        Ends of the tangent line of each patch; None takes the first principal direction of its
        points.
    axis_names : tuple of two str, default=None

    Attributes
    ----------
    figure_, ax_
        The figure and the axes of the last plot.

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
        if self.patches.shape != (len(self.points),) or self.patches.min() < 0:
            raise ValueError(
                f"patches must be numbers from 0, one for each of {len(self.points)} samples, got "
                f"shape {self.patches.shape}."
            )
        self.lines: Floats = tangent_lines(self.points, self.patches) if lines is None else lines
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
        """Draw the patches of a class, as ``plot_partition`` does."""
        step = map_of(estimator, "patch_labels_", "labels_")
        labels = _host(getattr(step, "patch_labels_", getattr(step, "labels_", None)))
        X = mapped(None, before(estimator, step, X))
        if len(X) != len(labels):
            raise ValueError(
                f"X must be the {len(labels)} samples that the estimator was fitted to, in their "
                f"order, got {len(X)}."
            )
        shown, name = _shown(step, labels, label)
        X, labels = X[shown], labels[shown]
        kept, patches = np.unique(labels, return_inverse=True)
        lines = tangent_lines(X, patches)
        names = ("feature 0", "feature 1")
        if X.shape[1] != 2:
            centre, axes = X.mean(axis=0), _plane(X)
            X, lines = (X - centre) @ axes.T, (lines - centre) @ axes.T
            names = ("first principal component", "second principal component")
        if title is None:
            linearity = getattr(step, "patch_linearity_", None)
            title = partition_title(
                name, kept.size, None if linearity is None else _host(linearity)[kept]
            )
        return cls(X, patches, lines=lines, axis_names=names).plot(ax, title=title)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw on the axes, or on those of a new figure."""
        axis = axes_for(ax, width=5.6, height=4.8)
        tidy(axis)
        kept = np.unique(self.patches)
        centres = np.array([self.points[self.patches == p].mean(axis=0) for p in kept])
        looks = make_styles(len(COLORS))
        size = float(np.clip(9000.0 / len(self.points), 8.0, 30.0))
        for patch, line, place in zip(kept, self.lines, neighbor_styles(centres), strict=True):
            points = self.points[self.patches == patch]
            style = looks[place]
            axis.scatter(*points.T, s=size, color=style.color, marker=style.marker, linewidths=0.0)
            axis.plot(*line.T, color=style.color, linewidth=1.0, alpha=0.55)
        # Angles between tangent lines mean nothing unless both axes have one scale.
        axis.set_aspect("equal", adjustable="datalim")
        if self.axis_names is not None:
            axis.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        if title is not None:
            axis.set_title(title, fontsize=11)
        self.ax_, self.figure_ = axis, figure_of(axis)
        return self


def plot_partition(
    estimator: Any, X: ArrayLike, *, label: Any = None, ax: Any = None, title: str | None = None
) -> Any:
    """Draw the patches of a class and the tangent line of each.

    Samples of more than two features are shown in their first two principal components. The line
    of a patch is its first principal direction, taken before that.

    Parameters
    ----------
    estimator : fitted ManifoldPartition or MPDA, or a pipeline that ends in one
    X : array-like of shape (n_samples, n_features)
        The samples it was fitted to.
    label : a class label, default=None
        The class to show; None shows the largest one, or all samples where there were no labels.
    ax : matplotlib axes, default=None
        Where to draw; None makes a figure.
    title : str, default=None
        None names the class, the number of patches and their mean linearity; 1 is flat.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return PartitionDisplay.from_estimator(estimator, X, label=label, ax=ax, title=title).figure_


def _host(values: Any) -> Any:
    return np.asarray(to_host(values) if is_device_array(values) else values)


def _shown(step: Any, patches: Ints, label: Any) -> tuple[Bools, str | None]:
    """Which samples are shown, and the name of their class."""
    if not hasattr(step, "patch_classes_"):
        if label is not None:
            raise ValueError(
                f"label={label!r}: the partition was fitted without y, so leave label out."
            )
        return np.ones(len(patches), dtype=bool), None
    classes: Labels = _host(step.patch_classes_)[patches]
    known, counts = np.unique(classes, return_counts=True)
    if label is None:
        label = known[np.argmax(counts)]
    shown = classes == label
    if not np.any(shown):
        listed = ", ".join(repr(each) for each in known.tolist()[:10])
        raise ValueError(f"label must be one of {listed}, got {label!r}.")
    return shown, str(label)


def partition_title(name: str | None, n_patches: int, linearity: Floats | None) -> str:
    """What a picture of patches says above it; nan where linearity is not known."""
    title = f"{n_patches} patches" if n_patches != 1 else "1 patch"
    if name is not None:
        title = f"class {display_name(name)}: {title}"
    if linearity is not None and np.isfinite(linearity).any():
        title += f", mean linearity {np.nanmean(linearity):.3f}"
    return title


def _plane(X: Floats) -> Floats:
    """The first two principal directions (2, d); zeros where there is no second."""
    axes = np.zeros((2, X.shape[1]))
    found = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:2]
    # The largest entry of each is positive, so that a picture is not flipped by chance.
    signs = np.sign(found[np.arange(len(found)), np.abs(found).argmax(axis=1)])
    axes[: len(found)] = signs[:, None] * found
    return axes


def tangent_lines(X: Floats, patches: Ints) -> Floats:
    """Ends (p, 2, d) of a stretch of each patch's first principal direction through its mean."""
    lines = []
    for patch in np.unique(patches):
        points = X[patches == patch]
        centre = points.mean(axis=0)
        direction = np.linalg.svd(points - centre, full_matrices=False)[2][0]
        half = 1.15 * np.abs((points - centre) @ direction).max()
        lines.append([centre - half * direction, centre + half * direction])
    return np.array(lines)
