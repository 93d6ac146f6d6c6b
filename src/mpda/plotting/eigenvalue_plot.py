"""Bar chart of the eigenvalues of a fit.

In a discriminant analysis an eigenvalue is the ratio of between-class to within-class variation
along its component. Where the bars become flat, further components add little.
"""

from typing import Any, Self

import numpy as np

from mpda._lib.array_types import ArrayLike, Floats
from mpda.plotting.axes import Display, get_axes
from mpda.plotting.fitted_estimator import find_step, to_numpy
from mpda.plotting.styles import COLORS

# Ratio of the largest to the smallest eigenvalue above which the axis is logarithmic: below 1 % of
# the highest bar a bar is not visible on a linear axis.
_LOG_RATIO = 100.0


class EigenvalueDisplay(Display):
    """Eigenvalue of each component: large for a discriminant analysis, small for LLTSA and LPFE.

    Parameters
    ----------
    eigenvalues : array-like of shape (n_components,)
        In the order of the components.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : matplotlib axes
        Axes of the last plot.
    """

    def __init__(self, eigenvalues: ArrayLike) -> None:
        self.eigenvalues: Floats = np.asarray(eigenvalues, dtype=np.float64)
        if self.eigenvalues.ndim != 1 or self.eigenvalues.size == 0:
            raise ValueError(
                "eigenvalues must have one dimension and at least one entry, got shape "
                f"{self.eigenvalues.shape}."
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, title: str | None = None) -> Self:
        """Draw the eigenvalues of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with ``eigenvalues_``, or a search or pipeline with one
            Model.
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        EigenvalueDisplay
            With ``figure_`` and ``ax_``.
        """
        step = find_step(estimator, "eigenvalues_")
        return cls(to_numpy(step.eigenvalues_)).plot(ax, title=title)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw with matplotlib, on a logarithmic axis if eigenvalues span two powers of ten.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        EigenvalueDisplay
            With ``figure_`` and ``ax_``.
        """
        axis = get_axes(ax, width=6.0, height=3.2)
        values = self.eigenvalues
        axis.bar(range(1, len(values) + 1), values, color=COLORS[0], width=0.7)
        # Eigenvalues of rounding size may be negative, which a logarithm does not allow.
        if values.min() > 0.0 and values.max() > _LOG_RATIO * values.min():
            axis.set_yscale("log")
            axis.set_ylim(values.min() / 2.0, None)  # the smallest bar keeps a visible height
        axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axis.set(xlabel="component", ylabel="eigenvalue")
        return self._finish(axis, title)
