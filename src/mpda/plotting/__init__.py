"""Plots for notebooks and papers, drawn with matplotlib (``pip install 'mpda[plot]'``).

``plot_embedding``, ``plot_curve``, ``plot_partition`` and ``plot_components`` return the figure.
The ``Display`` classes beside them follow scikit-learn's: ``from_estimator`` or the constructor
keep what is drawn, ``plot`` draws it, and ``figure_`` and ``ax_`` are there afterwards.

Without ``ax`` a figure of its own is made that pyplot does not know: a notebook shows it where it
is the value of a cell, it is written by ``figure.savefig``, and nothing is left open. For
``pyplot.show`` give axes of pyplot: ``plot_embedding(model, X, y, ax=pyplot.gca())``.

Colours are those of Okabe and Ito, which colour-blind readers tell apart; markers or lines differ
as well, so that every plot can be read in grey.
"""

from mpda.assessment import ErrorCurve
from mpda.plotting._components import ComponentsDisplay, plot_components
from mpda.plotting._curve import CurveDisplay, plot_curve
from mpda.plotting._embedding import EmbeddingDisplay, plot_embedding
from mpda.plotting._partition import PartitionDisplay, plot_partition
from mpda.plotting._tallies import ConfusionDisplay, EigenvalueDisplay

__all__ = [
    "ComponentsDisplay",
    "ConfusionDisplay",
    "CurveDisplay",
    "EigenvalueDisplay",
    "EmbeddingDisplay",
    "ErrorCurve",
    "PartitionDisplay",
    "plot_components",
    "plot_curve",
    "plot_embedding",
    "plot_partition",
]
