"""Catalogue of the data sets: shape, classes, licence, citation, checksum and public source.

The entries are data and lie in ``catalogue.json``.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

from mpda._lib.validation import check_option
from mpda.experiments.datasets.public_sources import (
    Bundled,
    Excerpt,
    ImageArchive,
    OpenML,
    Packaged,
)


@dataclass(frozen=True)
class Dataset:
    """Entry of the catalogue.

    Parameters
    ----------
    name : str
        Key of the entry, and name of its file ``<name>.npz``.
    title : str
        Name in tables and figures.
    n_samples, n_features, n_classes : int
        Shape of X and number of classes.
    licence : str
        Terms of use.
    citation : str
        Where the data set was published.
    checksum : str
        SHA-256 of the samples as float32 in hexadecimal. It depends neither on the order of the
        samples nor on the names of the classes; see ``loading.compute_checksum``.
    source : Bundled, Packaged, Excerpt, OpenML, ImageArchive or None
        Where it can be downloaded; None if it cannot.
    exact : bool, default=True
        False if downloaded numbers may differ from the checksum by rounding; a difference is then
        a warning instead of an error.
    """

    name: str
    title: str
    n_samples: int
    n_features: int
    n_classes: int
    licence: str
    citation: str
    checksum: str
    source: Bundled | Packaged | Excerpt | OpenML | ImageArchive | None
    exact: bool = True


_SOURCES = {
    source.__name__: source for source in (Bundled, Packaged, Excerpt, OpenML, ImageArchive)
}


def _read_catalogue() -> dict[str, Dataset]:
    text = files("mpda.experiments.datasets").joinpath("catalogue.json").read_text("utf-8")
    entries = {}
    for name, fields in json.loads(text).items():
        # "kind" names the class of the source, and the other keys are its fields.
        source = fields.pop("source", None)
        if source is not None:
            source = _SOURCES[source.pop("kind")](**source)
        entries[name] = Dataset(name, **fields, source=source)
    return entries


DATASETS = MappingProxyType(_read_catalogue())


def dataset(name: str) -> Dataset:
    """Return an entry of the catalogue.

    Parameters
    ----------
    name : str
        A key of ``DATASETS``.

    Returns
    -------
    Dataset
        The entry of this name.

    Raises
    ------
    ValueError
        If there is no data set of this name.
    """
    return DATASETS[check_option("name", name, tuple(DATASETS))]
