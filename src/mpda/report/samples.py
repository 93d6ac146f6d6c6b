"""Samples that a report shows, as numbers with names."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mpda._lib.array_types import Array, Ints, Labels
from mpda.exceptions import ReportError


@dataclass(frozen=True)
class ReportSamples:
    """Samples and labels of a report.

    Parameters
    ----------
    name : str
        Name of the samples, such as that of their file.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    y : ndarray of shape (n_samples,) or None
        Labels.
    label : str or None
        Name of the labels.
    features : tuple of str or None
        Names of the features.
    rows : ndarray of shape (n_samples,)
        Number of each sample in the file, from 1.
    texts : mapping of str to ndarray of shape (n_samples,)
        Texts of the samples by the name of their column.
    """

    name: str
    X: Array
    y: Labels | None
    label: str | None
    features: tuple[str, ...] | None
    rows: Ints
    texts: Mapping[str, Labels] = field(default_factory=dict)

    @property
    def labels(self) -> Labels:
        """Labels of shape (n_samples,); a ReportError if there are none."""
        if self.y is None:
            raise ReportError(f"{self.name} has no labels, which this section needs.")
        return self.y
