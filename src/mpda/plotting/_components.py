"""Which features weigh in each component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import ArrayLike, Floats, Ints
from mpda._lib.validation import check_count
from mpda.plotting import _fitted
from mpda.plotting._canvas import figure_of, panels_for, tidy
from mpda.plotting.styles import COLORS, display_name

# Blue through grey to yellow: two hues around the middle, and ever brighter, so that below and
# above zero differ in a grey print as well.
DIVERGING = "cividis"


class ComponentsDisplay:
    """The weights of features in components, as bars or as images.

    Parameters
    ----------
    weights : array-like of shape (n_components, n_features)
    feature_names : sequence of str, default=None
    component_names : sequence of str, default=None
    image_shape : tuple of two int, default=None
        Features are the pixels of an image of so many rows and columns.

    Attributes
    ----------
    figure_
        The figure of the last plot.
    ax_ : list of axes
        One for each component.
    """

    def __init__(
        self,
        weights: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        component_names: Sequence[str] | None = None,
        image_shape: Sequence[int] | None = None,
    ) -> None:
        self.weights: Floats = np.asarray(weights, dtype=np.float64)
        if self.weights.ndim != 2 or self.weights.size == 0:
            raise ValueError(
                f"weights must have shape (n_components, n_features), got {self.weights.shape}."
            )
        n_components, n_features = self.weights.shape
        self.feature_names = _names("feature_names", feature_names, "feature", n_features)
        self.component_names = _names("component_names", component_names, "component", n_components)
        self.image_shape = None if image_shape is None else _shape(image_shape, n_features)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        components: int | Sequence[int] | None = None,
        feature_names: Sequence[str] | None = None,
        image_shape: Sequence[int] | None = None,
        top: int = 10,
        ax: Any = None,
    ) -> Self:
        """Draw the weights of a fitted estimator, as ``plot_components`` does."""
        step = _fitted.map_of(estimator, "components_")
        weights = _fitted.host_array(step.components_)
        n_components, n_features = weights.shape
        chosen = _chosen(components, n_components, 10 if image_shape is not None else 4)
        if feature_names is None:
            feature_names = _fitted.feature_names(estimator, step, n_features).tolist()
        names = _fitted.component_names(step, n_components)
        display = cls(
            weights[chosen],
            feature_names=feature_names,
            component_names=[names[i] for i in chosen],
            image_shape=image_shape,
        )
        return display.plot(ax, top=top)

    def plot(self, ax: Any = None, *, top: int = 10) -> Self:
        """Draw on the axes, one for each component, or on those of a new figure."""
        top = min(check_count("top", top), self.weights.shape[1])
        if self.image_shape is None:
            panels = panels_for(
                ax, len(self.weights), columns=2, width=4.0, height=0.9 + 0.24 * top
            )
        else:
            rows, columns = self.image_shape
            height = 0.35 + 1.75 * min(rows / columns, 3.0)
            panels = panels_for(ax, len(self.weights), columns=5, width=1.9, height=height)
        for axis, weights, name in zip(panels, self.weights, self.component_names, strict=True):
            axis.set_title(display_name(name), fontsize=9)
            if self.image_shape is None:
                self._draw_bars(axis, weights, top)
            else:
                # Each has limits of its own: components are no longer or shorter by importance.
                limit = float(np.abs(weights).max()) or 1.0
                picture = weights.reshape(self.image_shape)
                drawn = axis.imshow(picture, cmap=DIVERGING, vmin=-limit, vmax=limit)
                axis.set(xticks=[], yticks=[])
                axis.spines[:].set_visible(False)
        self.ax_, self.figure_ = panels, figure_of(panels[0])
        if self.image_shape is not None:
            bar = self.figure_.colorbar(drawn, ax=panels, ticks=[-limit, 0.0, limit], shrink=0.8)
            bar.ax.set_yticklabels(["negative", "0", "positive"], fontsize=8)
            bar.outline.set_visible(False)
        return self

    def _draw_bars(self, axis: Any, weights: Floats, top: int) -> None:
        tidy(axis)
        largest = np.argsort(-np.abs(weights), kind="stable")[:top]
        values = weights[largest]
        colors = np.where(values < 0.0, COLORS[1], COLORS[0])
        axis.barh(np.arange(top), values, color=colors, height=0.7)
        axis.set_yticks(np.arange(top), [display_name(self.feature_names[i]) for i in largest])
        axis.invert_yaxis()
        axis.axvline(0.0, color="0.3", linewidth=0.8)
        axis.tick_params(axis="y", length=0)
        axis.locator_params(axis="x", nbins=4)
        axis.set_xlabel("weight", fontsize=8)


def plot_components(
    estimator: Any,
    *,
    components: int | Sequence[int] | None = None,
    feature_names: Sequence[str] | None = None,
    image_shape: Sequence[int] | None = None,
    top: int = 10,
    ax: Any = None,
) -> Any:
    """Draw what each component is made of: bars of its largest weights, or images.

    The weights are the entries of ``components_``. They compare between features where these have
    one unit, as pixels have, or are scaled before, as by a ``StandardScaler``; in a pipeline the
    features are those that the step with components sees.

    Parameters
    ----------
    estimator : fitted estimator with ``components_``, or a search or pipeline with one
    components : int or sequence of int, default=None
        Which components, from 0; None takes the first four, or ten images.
    feature_names : sequence of str, default=None
        None takes those that the estimator has seen.
    image_shape : tuple of two int, default=None
        Rows and columns, where features are pixels: components are drawn as images then, each
        with limits of its own, zero in the middle.
    top : int, default=10
        Number of bars.
    ax : matplotlib axes, or a sequence of one for each component, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import LFDA
    >>> from mpda.plotting import plot_components
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plot_components(LFDA(n_components=2).fit(X, y), top=3)
    >>> [len(axis.patches) for axis in figure.axes]
    [3, 3]
    """
    display = ComponentsDisplay.from_estimator(
        estimator,
        components=components,
        feature_names=feature_names,
        image_shape=image_shape,
        top=top,
        ax=ax,
    )
    return display.figure_


def _names(parameter: str, names: Sequence[str] | None, kind: str, n: int) -> list[str]:
    if names is None:
        return [f"{kind} {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"{parameter} must hold {n} names, got {len(names)}.")
    return [str(name) for name in names]


def _shape(image_shape: Sequence[int], n_features: int) -> tuple[int, int]:
    shape = tuple(image_shape)
    if len(shape) != 2 or shape[0] * shape[1] != n_features:
        raise ValueError(
            f"image_shape must be (rows, columns) with {n_features} pixels in all, the features "
            f"of the components, got {shape}."
        )
    return int(shape[0]), int(shape[1])


def _chosen(components: int | Sequence[int] | None, n: int, most: int) -> Ints:
    if components is None:
        return np.arange(min(n, most))
    chosen = np.atleast_1d(np.asarray(components))
    if chosen.ndim != 1 or not chosen.size or not np.issubdtype(chosen.dtype, np.integer):
        raise ValueError(f"components must be int, one or several, got {components!r}.")
    if chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(f"components must be from 0 to {n - 1}, got {components!r}.")
    return chosen
