"""The data sets of the paper's experiments: what they are, and how to get them.

None is part of this package. ``load`` looks in a directory of .npz files, then in a cache, then
fetches from the public source.
"""

from mpda.experiments.datasets._catalogue import DATASETS, Dataset, dataset
from mpda.experiments.datasets._loading import column_names, load

__all__ = ["DATASETS", "Dataset", "column_names", "dataset", "load"]
