"""Critical-difference diagram: average ranks of methods over data sets (Demsar, 2006)."""

from typing import Any, Self

import numpy as np

from mpda._lib.array_types import Ints
from mpda.assessment.significance import RankComparison
from mpda.plotting.axes import Display, get_axes
from mpda.plotting.styles import COLORS, display_name

# Distances in lines of text: of the bar of the critical difference above the axis, and between the
# bars of groups below it.
_CD_HEIGHT, _GROUP_GAP = 1.7, 0.45
_LINE_INCHES, _LETTER_INCHES, _WIDTH = 0.26, 0.085, 7.0


class RankDisplay(Display):
    """Average ranks of methods, with bars over methods that do not differ significantly.

    Parameters
    ----------
    comparison : RankComparison
        Made by `mpda.assessment.compare_ranks`.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : matplotlib axes
        Axes of the last plot.

    References
    ----------
    .. [1] Demsar, J. (2006). Statistical comparisons of classifiers over multiple data sets.
           Journal of Machine Learning Research, 7, 1-30.
    """

    def __init__(self, comparison: RankComparison) -> None:
        self.comparison = comparison

    def groups(self) -> list[Ints]:
        """Return the largest groups of methods that do not differ significantly.

        Returns
        -------
        list of ndarray of int
            Indices of the methods of each group, lowest rank first. The ranks of a group differ by
            less than the critical difference. Groups may overlap; one of a single method is left
            out.
        """
        order = np.argsort(self.comparison.ranks, kind="stable")
        ranks = self.comparison.ranks[order]
        ends = np.searchsorted(ranks, ranks + self.comparison.critical_difference)
        # A group that ends where the one before ends is part of it.
        is_largest = np.diff(ends, prepend=0) > 0
        spans = [(start, end) for start, end in enumerate(ends) if is_largest[start]]
        return [order[start:end] for start, end in spans if end - start > 1]

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
        RankDisplay
            With ``figure_`` and ``ax_``.
        """
        comparison, groups = self.comparison, self.groups()
        k = len(comparison.methods)
        n_left = (k + 1) // 2
        first_line = 0.8 + _GROUP_GAP * len(groups)
        bottom, top = -first_line - n_left + 0.5, _CD_HEIGHT + 1.0
        axis = get_axes(ax, width=_WIDTH, height=0.5 + _LINE_INCHES * (top - bottom))
        axis.set_axis_off()
        low, high = 1, k
        # Share of the width for the names and ranks on either side.
        share = _LETTER_INCHES * (8 + max(len(name) for name in comparison.methods)) / _WIDTH
        space = share / max(1.0 - 2.0 * share, 0.2) * (high - low)
        axis.set(xlim=(low - space, high + space), ylim=(bottom, top))
        margin = 0.02 * (high - low)
        axis.hlines(0.0, low, high, color="0.25", linewidth=1.0)
        for rank in range(low, high + 1):
            axis.vlines(rank, 0.0, 0.18, color="0.25", linewidth=1.0)
            axis.text(rank, 0.3, str(rank), ha="center", va="bottom", fontsize=8, color="0.25")
        difference = comparison.critical_difference
        if difference < high - low:
            axis.hlines(_CD_HEIGHT, low, low + difference, color="0.25", linewidth=1.6)
            text = f"critical difference {difference:.2f}"
            axis.text(low, _CD_HEIGHT + 0.15, text, va="bottom", fontsize=8, color="0.25")
        for i, group in enumerate(groups):
            ranks = comparison.ranks[group]
            y = -_GROUP_GAP * (i + 1)
            ends = ranks.min() - margin, ranks.max() + margin
            axis.hlines(y, *ends, color=COLORS[0], linewidth=3.0)
        # The better half is named on the left, best on top; the worse half on the right, worst on
        # top: the lines from the ranks to the names do not cross.
        order = np.argsort(comparison.ranks, kind="stable")
        lines = [*range(n_left), *reversed(range(k - n_left))]
        for place, (method, line) in enumerate(zip(order, lines, strict=True)):
            rank, y = comparison.ranks[method], -first_line - line
            is_left = place < n_left
            end = low - margin if is_left else high + margin
            axis.plot([rank, rank, end], [0.0, y, y], color="0.6", linewidth=0.8)
            name = display_name(comparison.methods[method])
            text = f"{name}  {rank:.2f}" if is_left else f"{rank:.2f}  {name}"
            side = "right" if is_left else "left"
            axis.text(end, y, f" {text} ", ha=side, va="center", fontsize=9)
        return self._finish(axis, title)
