"""Plots for notebooks and papers, drawn with matplotlib (``pip install 'mpda[plot]'``).

``plot_embedding``, ``plot_curve``, ``plot_bytes``, ``plot_partition`` and ``plot_components``
return a figure. The ``Display`` classes follow scikit-learn's: the constructor and
``from_estimator`` hold the data, ``plot`` draws them, and ``figure_`` and ``ax_`` are available
afterwards. The report page draws two of the displays with its own scripts.

Without ``ax`` a new figure is made that pyplot does not manage: a notebook shows it as the value of
a cell, ``figure.savefig`` writes it, and no figure stays open. For ``pyplot.show`` pass axes of
pyplot: ``plot_embedding(model, X, y, ax=pyplot.gca())``.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. Markers or line
styles differ as well, so every plot is readable in grey.
"""

from mpda.assessment import ErrorCurve
from mpda.plotting.bytes_plot import BytesDisplay, plot_bytes
from mpda.plotting.component_plot import ComponentsDisplay, plot_components
from mpda.plotting.confusion_plot import ConfusionDisplay
from mpda.plotting.curve_plot import CurveDisplay, plot_curve
from mpda.plotting.eigenvalue_plot import EigenvalueDisplay
from mpda.plotting.embedding_plot import EmbeddingDisplay, plot_embedding
from mpda.plotting.partition_plot import PartitionDisplay, plot_partition
from mpda.plotting.rank_plot import RankDisplay

__all__ = [
    "BytesDisplay",
    "ComponentsDisplay",
    "ConfusionDisplay",
    "CurveDisplay",
    "EigenvalueDisplay",
    "EmbeddingDisplay",
    "ErrorCurve",
    "PartitionDisplay",
    "RankDisplay",
    "plot_bytes",
    "plot_components",
    "plot_curve",
    "plot_embedding",
    "plot_partition",
]
