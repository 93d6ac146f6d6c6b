"""Scatter plot of classes in one, two or three components.

`EmbeddingDisplay` holds mapped samples and their classes. `EmbeddingDisplay.plot` draws them with
matplotlib; the report page draws the same samples with its own script.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import ArrayLike, Floats, Ints, Labels
from mpda.plotting import fitted_estimator
from mpda.plotting.axes import OUTSIDE, Display, get_axes
from mpda.plotting.styles import LEGEND_LIMIT, display_name, letter_markers, make_styles

# Classes whose names do not reach from a corner into a three-dimensional view.
_MAX_CORNER_ENTRIES = 8


class EmbeddingDisplay(Display):
    """Samples in one, two or three components, with a colour and a marker for each class.

    Parameters
    ----------
    points : array-like of shape (n_samples, 1), (n_samples, 2) or (n_samples, 3)
        Mapped samples.
    codes : array-like of int of shape (n_samples,)
        Class of each sample, as an index into ``labels``.
    labels : sequence or array of str
        Names of the classes.
    component_names : sequence of str, default=None
        Titles of the axes.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : matplotlib axes
        Axes of the last plot.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import MPDA
    >>> from mpda.plotting import EmbeddingDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = EmbeddingDisplay.from_estimator(MPDA(n_components=2).fit(X, y), X, y)
    >>> display.ax_.get_xlabel()
    'MPDA 1'
    """

    def __init__(
        self,
        points: ArrayLike,
        codes: ArrayLike,
        labels: Sequence[str] | Labels,
        *,
        component_names: Sequence[str] | None = None,
    ) -> None:
        self.points: Floats = np.asarray(points, dtype=np.float64)
        self.codes: Ints = np.asarray(codes, dtype=np.intp)
        self.labels = [str(label) for label in labels]
        width = self.points.shape[1] if self.points.ndim == 2 else 0
        if not 1 <= width <= 3:
            raise ValueError(f"points must have 1, 2 or 3 columns, got shape {self.points.shape}.")
        fitted_estimator.check_shape("codes", self.codes, (len(self.points),))
        if self.codes.size and not 0 <= self.codes.min() <= self.codes.max() < len(self.labels):
            raise ValueError(f"codes must be indices of the {len(self.labels)} labels.")
        # A report may name more components than the plot has.
        names = list(component_names or [])
        self.component_names = names + [f"component {i + 1}" for i in range(len(names), width)]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        components: int | Sequence[int] | None = None,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Map samples and draw them.

        Parameters
        ----------
        estimator : fitted transformer, search or pipeline, or None
            None takes X as mapped already.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels.
        components : int or sequence of one to three int, default=None
            Components to draw, from 0. None draws the first two, or the only one.
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        EmbeddingDisplay
            With ``figure_`` and ``ax_``.
        """
        Z = fitted_estimator.map_samples(estimator, X)
        y = fitted_estimator.to_numpy(y)
        fitted_estimator.check_shape("y", y, (len(Z),))
        first_two = list(range(min(2, Z.shape[1])))
        components = first_two if components is None else components
        columns = fitted_estimator.check_components(components, Z.shape[1])
        if len(columns) > 3:
            raise ValueError(f"components must be one, two or three int, got {components!r}.")
        names = np.take(fitted_estimator.get_component_names(estimator, Z.shape[1]), columns)
        classes, codes = np.unique(y, return_inverse=True)
        display = cls(Z[:, columns], codes, classes, component_names=names.tolist())
        return display.plot(ax, title=title)

    def coordinates(self) -> Floats:
        """Return the points to draw, with a random second coordinate for a single component.

        Returns
        -------
        array of shape (n_samples, 2) or (n_samples, 3)
            The random coordinate only keeps points from hiding each other.
        """
        if self.points.shape[1] > 1:
            return self.points
        # A fixed seed: equal calls draw equal plots, and files do not change without a reason.
        offsets = np.random.default_rng(0).uniform(-1.0, 1.0, len(self.points))
        return np.column_stack([self.points[:, 0], offsets])

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
        EmbeddingDisplay
            With ``figure_`` and ``ax_``.
        """
        width = self.points.shape[1]
        axis = get_axes(ax, width=6.4, height=4.8, projection="3d" if width == 3 else None)
        points, markers = self.coordinates(), letter_markers(self.labels)
        # Area of a marker in points squared: small for many samples, but visible.
        size = float(np.clip(20_000.0 / max(len(points), 1), 10.0, 34.0))
        look: dict[str, Any] = {"s": size, "linewidths": 0.3, "edgecolors": "white", "alpha": 0.85}
        if markers is not None:
            look = {"s": 2.2 * size, "linewidths": 0.0}  # letters need more area than dots
        for code, style in enumerate(make_styles(len(self.labels))):
            look["marker"] = style.marker if markers is None else markers[code]
            name, columns = display_name(self.labels[code]), points[self.codes == code].T
            axis.scatter(*columns, color=style.color, label=name, **look)
        names = map(display_name, self.component_names[:width])
        axis.set(**dict(zip(("xlabel", "ylabel", "zlabel"), names, strict=False)))
        if width == 1:
            # Wider than the random offsets, so that the points look like one strip.
            axis.set(yticks=[], ylim=(-1.6, 1.6))
            axis.spines["left"].set_visible(False)
        elif width == 3:
            axis.tick_params(labelsize=7)
        if markers is None and len(self.labels) > 1:
            _add_legend(axis, len(self.labels), size)
        return self._finish(axis, title)


def _add_legend(axis: Any, n_classes: int, size: float) -> None:
    entries = [values[:LEGEND_LIMIT] for values in axis.get_legend_handles_labels()]
    # A corner of a three-dimensional view has room for a few; other plots have it on the right.
    is_short = len(entries[0]) <= _MAX_CORNER_ENTRIES
    position = {"loc": "upper left"} if axis.name == "3d" and is_short else OUTSIDE
    # The scale is one of length: marks in the legend have the area 34 however small the points are.
    look = {"frameon": False, "fontsize": 8, "markerscale": (34.0 / size) ** 0.5}
    legend = axis.legend(*entries, **look, **position)
    if n_classes > LEGEND_LIMIT:
        legend.set_title(f"{LEGEND_LIMIT} of {n_classes} classes")


def plot_embedding(estimator: Any, X: ArrayLike, y: ArrayLike, **options: Any) -> Any:
    """Draw the classes in one, two or three components of a fitted estimator.

    Classes differ in colour and marker. Up to ten classes whose names are one letter or digit are
    drawn by their names.

    Parameters
    ----------
    estimator : fitted transformer, search or pipeline, or None
        None takes X as mapped already.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Class labels.
    **options : object
        ``components``, ``ax`` and ``title``, as described for `EmbeddingDisplay.from_estimator`.
        One component is drawn as a strip of points, three in space.

    Returns
    -------
    matplotlib.figure.Figure
        Figure with the plot.
    """
    return EmbeddingDisplay.from_estimator(estimator, X, y, **options).figure_
