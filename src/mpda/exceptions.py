"""The warnings and errors that mpda raises."""

__all__ = [
    "DatasetError",
    "DatasetWarning",
    "FeatureScaleWarning",
    "ModelFileError",
    "ModelVersionWarning",
    "NotEnoughMemoryError",
    "NumericalWarning",
    "PartitionError",
    "ReportError",
    "ReproductionError",
    "SingularFormError",
    "SmallClassWarning",
    "TableError",
]


class SmallClassWarning(UserWarning):
    """A class has too few samples for ``n_neighbors``, so it uses fewer neighbours."""


class FeatureScaleWarning(UserWarning):
    """Features differ in scale so much that distances see only the largest of them."""


class SingularFormError(ValueError):
    """The within-class form is singular where classes differ: the eigenvalues are infinite."""


class PartitionError(ValueError):
    """A clusterer that was given as ``partition`` failed on a class."""


class NumericalWarning(RuntimeWarning):
    """A fit met a problem so ill-posed that its answer may be wrong in leading digits."""


class NotEnoughMemoryError(MemoryError):
    """The next step would take more memory than there is."""


class DatasetError(RuntimeError):
    """A data set cannot be had, or is not what its catalogue entry says."""


class DatasetWarning(UserWarning):
    """A data set differs from the one that the figures of the documentation were made with."""


class ReproductionError(RuntimeError):
    """An experiment cannot go on for a reason outside of it, such as a directory or a full disk."""


class ModelFileError(ValueError):
    """A file is not a model file of mpda, is damaged, or was made by a newer version."""


class ModelVersionWarning(UserWarning):
    """A model was saved with another version of mpda or scikit-learn, and may behave otherwise."""


class ReportError(ValueError):
    """A file holds no results of which a report can be made."""


class TableError(ValueError):
    """A file of samples cannot be read or written, or is not what a method can work with."""
