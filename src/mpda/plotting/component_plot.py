"""Weights of the features in the components, or their correlations, as bars or images.

Component k maps a sample x to the sum of w_kj (x_j - mean_j) over the features j. The weights w_kj
are the rows of ``components_``. They depend on the units of the features, and of two features that
say the same one may get the whole weight. Correlations of features and components do not have
these problems; they need samples. Where features are pixels, each row is drawn as an image.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import Array, ArrayLike, Floats
from mpda._lib.validation import check_count, check_option
from mpda.plotting import fitted_estimator
from mpda.plotting.axes import Display, get_panels
from mpda.plotting.styles import COLORS, display_name

# Blue through grey to yellow with increasing lightness: zero is in the middle, and the sign of a
# weight is visible in a grey print as well.
_COLORMAP = "cividis"
# Components that are drawn by default: as many as fit on a page.
_MAX_BAR_PANELS, _MAX_IMAGES = 4, 10


class ComponentsDisplay(Display):
    """Weights of features in components, or their correlations, as bars or as images.

    Parameters
    ----------
    weights : array-like of shape (n_components, n_features)
        Rows of ``components_``, or correlations of features and components.
    feature_names : sequence of str, default=None
        Names of the features.
    component_names : sequence of str, default=None
        Names of the components.
    image_shape : tuple of two int, default=None
        Rows and columns, where features are the pixels of an image.
    measure : {"weight", "correlation"}, default="weight"
        Meaning of the weights. Correlations have the same scale in all components.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : list of matplotlib axes
        One for each component.
    """

    def __init__(
        self,
        weights: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        component_names: Sequence[str] | None = None,
        image_shape: Sequence[int] | None = None,
        measure: str = "weight",
    ) -> None:
        check_option("measure", measure, ("weight", "correlation"))
        self.measure = measure
        self.weights: Floats = np.asarray(weights, dtype=np.float64)
        if self.weights.ndim != 2 or self.weights.size == 0:
            raise ValueError(f"weights must be a matrix, got shape {self.weights.shape}.")
        n_components, n_features = self.weights.shape
        self.feature_names = _check_names("feature", feature_names, n_features)
        self.component_names = _check_names("component", component_names, n_components)
        self.image_shape = shape = None if image_shape is None else tuple(image_shape)
        if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != n_features):
            expected = f"(rows, columns) with {n_features} pixels"
            raise ValueError(f"image_shape must be {expected}, got {shape}.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | None = None,
        *,
        components: int | Sequence[int] | None = None,
        feature_names: Sequence[str] | None = None,
        image_shape: Sequence[int] | None = None,
        top: int = 10,
        ax: Any = None,
    ) -> Self:
        """Draw the weights of a fitted estimator, or correlations with its components.

        Parameters
        ----------
        estimator : fitted estimator with ``components_``, or a search or pipeline with one
            Model.
        X : array-like of shape (n_samples, n_features), default=None
            Samples. Correlations of their features with the components are drawn. None draws the
            weights.
        components : int or sequence of int, default=None
            Components to draw, from 0; None takes the first four, or ten images.
        feature_names : sequence of str, default=None
            None takes the names that the estimator has seen.
        image_shape : tuple of two int, default=None
            Rows and columns, where features are pixels.
        top : int, default=10
            Number of bars.
        ax : matplotlib axes, or a sequence of one for each component, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        ComponentsDisplay
            With ``figure_`` and ``ax_``.
        """
        step = fitted_estimator.find_step(estimator, "components_")
        if X is None:
            weights = fitted_estimator.to_numpy(step.components_)
        else:
            Z = fitted_estimator.map_samples(estimator, X)
            weights = correlate_features(fitted_estimator.map_samples(None, X), Z)
        n_components, n_features = weights.shape
        if components is None:
            limit = _MAX_BAR_PANELS if image_shape is None else _MAX_IMAGES
            components = range(min(n_components, limit))
        rows = fitted_estimator.check_components(components, n_components)
        if feature_names is None and X is None:
            feature_names = fitted_estimator.get_feature_names(estimator, step, n_features)
        elif feature_names is None:
            feature_names = getattr(X, "columns", None)
        names = np.take(fitted_estimator.get_component_names(step, n_components), rows).tolist()
        options: dict[str, Any] = {"feature_names": feature_names, "image_shape": image_shape}
        options["measure"] = "weight" if X is None else "correlation"
        return cls(weights[rows], component_names=names, **options).plot(ax, top=top)

    def plot(self, ax: Any = None, *, top: int = 10) -> Self:
        """Draw with matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, or a sequence of one for each component, default=None
            Where to draw; None makes a figure.
        top : int, default=10
            Number of bars.

        Returns
        -------
        ComponentsDisplay
            With ``figure_`` and ``ax_``.
        """
        top, n = min(check_count("top", top), self.weights.shape[1]), len(self.weights)
        if self.image_shape is None:
            panels = get_panels(ax, n, columns=2, width=4.0, height=0.9 + 0.24 * top)
            for axis, weights in zip(panels, self.weights, strict=True):
                self._draw_bars(axis, weights, top)
        else:
            rows, columns = self.image_shape
            # 0.35 inches are for the title; an image is 1.75 inches wide. Without the limit an
            # image of a single column would be longer than any page.
            height = 0.35 + 1.75 * min(rows / columns, 3.0)
            panels = get_panels(ax, n, columns=5, width=1.9, height=height)
            for axis, weights in zip(panels, self.weights, strict=True):
                self._draw_image(axis, weights)
            # Images of weights have their own limits, so one bar without numbers serves them all.
            image = panels[-1].images[0]
            low, high = image.get_clim()
            bar = image.figure.colorbar(image, ax=panels, ticks=[low, 0.0, high], shrink=0.8)
            ends = ["negative", "0", "positive"]
            if self.measure == "correlation":
                ends = [f"{low:.2f}", "0", f"{high:.2f}"]
            bar.ax.set_yticklabels(ends, fontsize=8)
            bar.outline.set_visible(False)
        for axis, name in zip(panels, self.component_names, strict=True):
            axis.set_title(display_name(name), fontsize=9)
        self.ax_, self.figure_ = panels, panels[0].figure.figure
        return self

    def _draw_bars(self, axis: Any, weights: Floats, top: int) -> None:
        """Draw the largest weights of a component, shape (n_features,)."""
        features = np.argsort(-np.abs(weights), kind="stable")[:top]
        weights = weights[features]
        axis.barh(range(top), weights, color=np.where(weights < 0.0, COLORS[1], COLORS[0]))
        axis.set_yticks(range(top), [display_name(self.feature_names[i]) for i in features])
        axis.invert_yaxis()  # the largest weight is at the top
        axis.axvline(0.0, color="0.3", linewidth=0.8)
        axis.tick_params(axis="y", length=0)
        axis.locator_params(axis="x", nbins=4)  # more numbers overlap in a narrow panel
        axis.set_xlabel(self.measure, fontsize=8)
        if self.measure == "correlation":
            axis.set_xlim(-1.0, 1.0)

    def _draw_image(self, axis: Any, weights: Floats) -> None:
        # Limits of weights differ between components, because their scales carry no importance.
        scale = weights if self.measure == "weight" else self.weights
        limit = float(np.abs(scale).max()) or 1.0  # equal limits would make zero dark
        axis.imshow(weights.reshape(self.image_shape), cmap=_COLORMAP, vmin=-limit, vmax=limit)
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)


def correlate_features(X: Array, Z: Array) -> Floats:
    """Return the correlations of features and components.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples.
    Z : array of shape (n_samples, n_components)
        The samples in the components.

    Returns
    -------
    array of shape (n_components, n_features)
        Pearson's correlations. 0 where a feature or component is constant.
    """
    return np.clip(_standardise(Z).T @ _standardise(X), -1.0, 1.0)


def _standardise(X: Array) -> Floats:
    """Return columns of mean 0 and length 1, or 0 where they vary by rounding errors only."""
    centred = X - X.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.norm(centred, axis=0)
    is_constant = np.ptp(X, axis=0) <= 1e-12 * np.abs(X).max(axis=0)
    return np.asarray(centred / np.where(is_constant, np.inf, lengths))


def plot_components(estimator: Any, X: ArrayLike | None = None, **options: Any) -> Any:
    """Draw the weights of features in each component, or their correlations, as bars or images.

    The weights are the entries of ``components_``. They are comparable between features with the
    same unit, such as pixels, or after a ``StandardScaler``. In a pipeline the features are those
    that the step with components sees. With samples X, correlations of the features of X with the
    components are drawn instead, which are comparable in any unit.

    Parameters
    ----------
    estimator : fitted estimator with ``components_``, or a search or pipeline with one
        Model.
    X : array-like of shape (n_samples, n_features), default=None
        Samples for correlations.
    **options : object
        ``components``, ``feature_names``, ``image_shape``, ``top`` and ``ax``, as described for
        `ComponentsDisplay.from_estimator`. Each image has its own limits, with zero in the middle.

    Returns
    -------
    matplotlib.figure.Figure
        Figure with one panel for each component.

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
    return ComponentsDisplay.from_estimator(estimator, X, **options).figure_


def _check_names(kind: str, names: Sequence[str] | None, n: int) -> list[str]:
    if names is None:
        first = 1 if kind == "component" else 0
        return [f"{kind} {i}" for i in range(first, n + first)]
    if len(names) != n:
        raise ValueError(f"{kind}_names must hold {n} names, got {len(names)}.")
    return [str(name) for name in names]
