"""Confusion matrix of classes, from counts that `mpda.report.collect` or a user made.

Differs from ``sklearn.metrics.ConfusionMatrixDisplay`` in colours that show rare errors and in
limits on names and numbers for many classes.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import ArrayLike
from mpda.plotting.axes import Display, get_axes
from mpda.plotting.fitted_estimator import check_shape
from mpda.plotting.styles import display_name

# Classes up to which counts and names fit into the cells and on the axes.
_MAX_COUNTS, _MAX_NAMES = 30, 40


class ConfusionDisplay(Display):
    """Confusion matrix: true classes in rows, predicted classes in columns.

    The colour is the square root of the share of the row, which makes rare errors visible.

    Parameters
    ----------
    counts : array-like of int of shape (n_classes, n_classes)
        Numbers of samples.
    labels : sequence of str
        Names of the classes.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : matplotlib axes
        Axes of the last plot.
    """

    def __init__(self, counts: ArrayLike, labels: Sequence[str]) -> None:
        self.counts = np.asarray(counts)
        self.labels = [str(label) for label in labels]
        check_shape("counts", self.counts, (len(self.labels), len(self.labels)))
        if not np.issubdtype(self.counts.dtype, np.integer) or self.counts.min(initial=0) < 0:
            raise ValueError("counts must be integers from 0.")

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw with matplotlib, with numbers for up to 30 classes.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        ConfusionDisplay
            With ``figure_`` and ``ax_``.
        """
        n = len(self.labels)
        # A class may be predicted and never be the true one; its row stays zero.
        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        side = float(np.clip(2.0 + 0.3 * n, 3.6, 12.0))
        axis = get_axes(ax, width=side + 0.6, height=side)
        axis.imshow(np.sqrt(shares), cmap="Blues", vmin=0.0, vmax=1.0)
        names = [display_name(label) for label in self.labels] if n <= _MAX_NAMES else []
        rotation = 90 if max(map(len, names), default=0) > 3 else 0
        axis.set_xticks(range(len(names)), names, rotation=rotation)
        axis.set_yticks(range(len(names)), names)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        for i, j in np.argwhere(self.counts) if n <= _MAX_COUNTS else []:
            # The square root of 0.3 is 0.55: white text on the darker half of the colours.
            ink = "white" if shares[i, j] > 0.3 else "black"
            look = {"ha": "center", "va": "center", "fontsize": 8.5, "color": ink}
            axis.text(j, i, f"{self.counts[i, j]:d}", **look)
        axis.set(xlabel="predicted class", ylabel="true class")
        return self._finish(axis, title)
