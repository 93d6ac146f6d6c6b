"""Classes in one, two or three components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import ArrayLike, Floats, Ints
from mpda.plotting._canvas import axes_for, figure_of, tidy
from mpda.plotting._fitted import component_names, host_array, mapped
from mpda.plotting.styles import LEGEND_LIMIT, display_name, letters, make_styles


class EmbeddingDisplay:
    """Samples in one, two or three components, the classes told apart by colour and marker.

    Parameters
    ----------
    points : array-like of shape (n_samples, 1), (n_samples, 2) or (n_samples, 3)
    codes : array-like of int of shape (n_samples,)
        The class of each sample, as its place in ``labels``.
    labels : sequence of str
        Names of the classes.
    component_names : sequence of str, default=None
        What stands at the axes.

    Attributes
    ----------
    figure_, ax_
        The figure and the axes of the last plot.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import MPDA
    >>> from mpda.plotting import EmbeddingDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = EmbeddingDisplay.from_estimator(MPDA(n_components=2).fit(X, y), X, y)
    >>> display.ax_.get_xlabel()
    'mpda0'
    """

    def __init__(
        self,
        points: ArrayLike,
        codes: ArrayLike,
        labels: Sequence[str],
        *,
        component_names: Sequence[str] | None = None,
    ) -> None:
        self.points: Floats = np.asarray(points, dtype=np.float64)
        self.codes: Ints = np.asarray(codes, dtype=np.intp)
        self.labels = [str(label) for label in labels]
        width = self.points.shape[1] if self.points.ndim == 2 else 0
        if not 1 <= width <= 3:
            raise ValueError(f"points must have 1, 2 or 3 columns, got shape {self.points.shape}.")
        if self.codes.shape != (len(self.points),):
            raise ValueError(
                f"codes must have one entry for each of {len(self.points)} samples, got shape "
                f"{self.codes.shape}."
            )
        if component_names is None:
            component_names = [f"component {i}" for i in range(width)]
        self.component_names = list(component_names)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        components: int | Sequence[int] = (0, 1),
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Map the samples and draw them, as ``plot_embedding`` does."""
        Z = mapped(estimator, X)
        labels = host_array(y)
        if labels.shape != (len(Z),):
            raise ValueError(
                f"y must hold one label for each of {len(Z)} samples, got shape {labels.shape}."
            )
        chosen = _chosen(components, Z.shape[1])
        names = component_names(estimator, Z.shape[1])
        classes, codes = np.unique(labels, return_inverse=True)
        display = cls(
            Z[:, chosen],
            codes,
            classes.astype(str).tolist(),
            component_names=[names[i] for i in chosen],
        )
        return display.plot(ax, title=title)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw on the axes, or on those of a new figure."""
        width = self.points.shape[1]
        axis = axes_for(ax, width=6.4, height=4.8, projection="3d" if width == 3 else None)
        tidy(axis) if width < 3 else axis.tick_params(labelsize=7)
        points = spread(self.points) if width == 1 else self.points
        markers = letters(self.labels)
        size = float(np.clip(20_000.0 / max(len(points), 1), 10.0, 34.0))
        for code, style in enumerate(make_styles(len(self.labels))):
            shape: dict[str, Any] = {"marker": style.marker, "s": size, "linewidths": 0.3}
            if markers is None:
                shape["edgecolors"] = "white"
            else:
                shape |= {"marker": markers[code], "s": 2.2 * size, "linewidths": 0.0}
            axis.scatter(
                *points[self.codes == code].T,
                color=style.color,
                alpha=0.85 if markers is None else 1.0,
                label=display_name(self.labels[code]),
                **shape,
            )
        names = [display_name(name) for name in self.component_names]
        axis.set_xlabel(names[0])
        if width == 1:
            axis.set(yticks=[], ylim=(-1.6, 1.6))
            axis.spines["left"].set_visible(False)
        else:
            axis.set_ylabel(names[1])
        if width == 3:
            axis.set_zlabel(names[2])
        if title is not None:
            axis.set_title(title, fontsize=11)
        # Where the markers are the names there is nothing left to explain.
        if markers is None and len(self.labels) > 1:
            _add_legend(axis, len(self.labels), size)
        self.ax_, self.figure_ = axis, figure_of(axis)
        return self


def plot_embedding(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    components: int | Sequence[int] = (0, 1),
    ax: Any = None,
    title: str | None = None,
) -> Any:
    """Draw the classes in one, two or three components of a fitted estimator.

    Classes differ in colour and marker; up to ten classes named by one letter or digit are drawn
    by their names.

    Parameters
    ----------
    estimator : fitted transformer, search or pipeline, or None
        None takes X as mapped already.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Class labels.
    components : int or sequence of one to three int, default=(0, 1)
        Which components, from 0. One is drawn as a strip of points, three in space.
    ax : matplotlib axes, default=None
        Where to draw; None makes a figure.
    title : str, default=None

    Returns
    -------
    matplotlib.figure.Figure
    """
    display = EmbeddingDisplay.from_estimator(
        estimator, X, y, components=components, ax=ax, title=title
    )
    return display.figure_


def _chosen(components: int | Sequence[int], n: int) -> list[int]:
    chosen = np.atleast_1d(np.asarray(components))
    if chosen.ndim != 1 or not 1 <= chosen.size <= 3 or not np.issubdtype(chosen.dtype, np.integer):
        raise ValueError(f"components must be one, two or three int, got {components!r}.")
    if chosen.min() < 0 or chosen.max() >= n:
        few = "(0,)" if n == 1 else "(0, 1)"
        raise ValueError(
            f"components must be from 0 to {n - 1}, the components that X is mapped to, got "
            f"{components!r}. Give, for example, components={few}."
        )
    return [int(i) for i in chosen]


def spread(points: Floats) -> Floats:
    """Points (n, 1) with a second column that keeps them from hiding each other."""
    offsets = np.random.default_rng(0).uniform(-1.0, 1.0, len(points))
    return np.column_stack([points[:, 0], offsets])


def _add_legend(axis: Any, n_classes: int, size: float) -> None:
    handles, names = axis.get_legend_handles_labels()
    title = f"{LEGEND_LIMIT} of {n_classes} classes" if n_classes > LEGEND_LIMIT else None
    axis.legend(
        handles[:LEGEND_LIMIT],
        names[:LEGEND_LIMIT],
        loc="upper left",
        # Corners of a view in space are empty; beside it there is no room that counts.
        bbox_to_anchor=(0.0, 1.0) if axis.name == "3d" else (1.02, 1.0),
        frameon=False,
        fontsize=8,
        markerscale=(34.0 / size) ** 0.5,
        borderaxespad=0.0,
        title=title,
        title_fontsize=8,
    )
