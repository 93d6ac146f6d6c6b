"""Eigenvalues as bars, and the confusion of classes as a table of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import ArrayLike, Floats
from mpda.plotting._canvas import axes_for, figure_of, tidy
from mpda.plotting._fitted import host_array, map_of
from mpda.plotting.styles import COLORS, display_name


class EigenvalueDisplay:
    """The eigenvalue of each component: how well it separates classes.

    Parameters
    ----------
    eigenvalues : array-like of shape (n_components,)

    Attributes
    ----------
    figure_, ax_
        The figure and the axes of the last plot.
    """

    def __init__(self, eigenvalues: ArrayLike) -> None:
        self.eigenvalues: Floats = np.asarray(eigenvalues, dtype=np.float64)
        if self.eigenvalues.ndim != 1 or self.eigenvalues.size == 0:
            raise ValueError(
                f"eigenvalues must have shape (n_components,), got {self.eigenvalues.shape}."
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, title: str | None = None) -> Self:
        """Draw the eigenvalues of a fitted estimator, or of one in a search or pipeline."""
        step = map_of(estimator, "eigenvalues_")
        return cls(host_array(step.eigenvalues_)).plot(ax, title=title)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw on the axes, or on those of a new figure; over a wide range by powers of ten."""
        axis = axes_for(ax, width=6.0, height=3.2)
        tidy(axis)
        places = np.arange(len(self.eigenvalues))
        if wide(self.eigenvalues):
            axis.set_yscale("log")
            low = self.eigenvalues.min() / 2.0
            axis.bar(places, self.eigenvalues - low, bottom=low, color=COLORS[0], width=0.7)
            axis.set_ylim(low, None)
        else:
            axis.bar(places, self.eigenvalues, color=COLORS[0], width=0.7)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set(xlabel="component", ylabel="eigenvalue")
        if title is not None:
            axis.set_title(title, fontsize=11)
        self.ax_, self.figure_ = axis, figure_of(axis)
        return self


def wide(values: Floats) -> bool:
    """Whether values are all positive and span more than two powers of ten."""
    return bool(values.min() > 0.0 and values.max() > 100.0 * values.min())


class ConfusionDisplay:
    """How often samples of each class (rows) were taken for each class (columns).

    The colour is the square root of the share of the row, so that rare errors can be seen.

    Parameters
    ----------
    counts : array-like of int of shape (n_classes, n_classes)
    labels : sequence of str

    Attributes
    ----------
    figure_, ax_
        The figure and the axes of the last plot.
    """

    def __init__(self, counts: ArrayLike, labels: Sequence[str]) -> None:
        self.counts = np.asarray(counts)
        self.labels = [str(label) for label in labels]
        if self.counts.shape != (len(self.labels), len(self.labels)):
            raise ValueError(
                f"counts must have one row and column for each of {len(self.labels)} labels, got "
                f"shape {self.counts.shape}."
            )

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw on the axes, or on those of a new figure; up to 30 classes with numbers."""
        n = len(self.labels)
        side = float(np.clip(2.2 + 0.36 * n, 3.6, 12.0))
        axis = axes_for(ax, width=side + 0.6, height=side)
        shares = row_shares(self.counts)
        axis.imshow(np.sqrt(shares), cmap="Blues", vmin=0.0, vmax=1.0)
        names = [display_name(label) for label in self.labels]
        if n <= 40:  # names of more would run into each other
            turned = 90 if max(map(len, names)) > 3 else 0
            axis.set_xticks(np.arange(n), names, rotation=turned, fontsize=8)
            axis.set_yticks(np.arange(n), names, fontsize=8)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        for (i, j), count in np.ndenumerate(self.counts):
            if n <= 30 and count:
                ink = "white" if shares[i, j] > 0.3 else "black"
                axis.text(j, i, f"{count:d}", ha="center", va="center", fontsize=7.5, color=ink)
        axis.set(xlabel="taken for", ylabel="true class")
        if title is not None:
            axis.set_title(title, fontsize=11)
        self.ax_, self.figure_ = axis, figure_of(axis)
        return self


def row_shares(counts: ArrayLike) -> Floats:
    """Each count over the sum of its row; a row of zeros stays one."""
    counts = np.asarray(counts, dtype=np.float64)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
