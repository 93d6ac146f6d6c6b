"""Data sets of the paper's experiments: catalogue, loading and download.

:func:`load` looks for ``<name>.npz`` in a directory, then in a cache, and then downloads the data
set from its public source. Two small tables come with scikit-learn, and sentences with their
embeddings with mpda (:func:`load_intents`).
"""

from mpda.experiments.datasets.catalogue import DATASETS, Dataset, dataset
from mpda.experiments.datasets.intents import Intents, load_intents
from mpda.experiments.datasets.loading import column_names, load

__all__ = [
    "DATASETS",
    "Dataset",
    "Intents",
    "column_names",
    "dataset",
    "load",
    "load_intents",
]
