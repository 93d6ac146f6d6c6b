"""Data sets of the paper's experiments: catalogue, loading and download.

No data set is part of the package. :func:`load` looks for ``<name>.npz`` in a directory, then in a
cache, and then downloads the data set from its public source.
"""

from mpda.experiments.datasets.catalogue import DATASETS, Dataset, dataset
from mpda.experiments.datasets.loading import column_names, load

__all__ = ["DATASETS", "Dataset", "column_names", "dataset", "load"]
