"""Public sources of data sets: OpenML, archives of images, files of scikit-learn and of mpda.

A source is a small frozen dataclass. ``str(source)`` names it for people, and the ``fetch`` method
of the remote ones downloads the samples. Failures are reported by ``loading.load``.
"""

import io
import re
import sys
import zipfile
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

import numpy as np

from mpda._lib.array_types import Array, Floats, Labels

# Seconds without an answer after which a server counts as unreachable.
_TIMEOUT = 60.0
# The images of COIL are 128 x 128 pixels; the paper's files have 32 x 32, means of 4 x 4 blocks.
_SIDE = 128
_BLOCK = 4
_IMAGE_NAME = re.compile(r"(?:.*/)?obj(\d+)__(\d+)\.png")
# Weights of red, green and blue in a grey level (ITU-R BT.601), as MATLAB's rgb2gray has them.
_GREY_WEIGHTS = np.array([0.2989, 0.5870, 0.1140])


@dataclass(frozen=True)
class Download:
    """Samples of a public source.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    y : ndarray of shape (n_samples,)
        Class labels.
    names : dict of str to ndarray of str
        Arrays "features", names of the features, and "names", names of the classes in the order of
        the labels, where the source has them.
    """

    X: Array
    y: Labels
    names: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bundled:
    """A data set that comes with scikit-learn.

    Parameters
    ----------
    loader : str
        Name of the function in ``sklearn.datasets``.
    """

    loader: str

    def __str__(self) -> str:
        return "scikit-learn"

    def bunch(self) -> Any:
        """Load the data set.

        Returns
        -------
        sklearn.utils.Bunch
            With data, target, feature_names and target_names.
        """
        import sklearn.datasets

        return getattr(sklearn.datasets, self.loader)()


@dataclass(frozen=True)
class Packaged:
    """The embedded sentences of ``load_intents``, which come with mpda."""

    def __str__(self) -> str:
        return "mpda"

    def bunch(self) -> Any:
        """Load the data set.

        Returns
        -------
        sklearn.utils.Bunch
            With data, target, feature_names and target_names.
        """
        from sklearn.utils import Bunch

        from mpda.experiments.datasets.intents import load_intents

        intents = load_intents()
        return Bunch(
            data=intents.vectors,
            target=intents.labels,
            feature_names=[f"embedding{i}" for i in range(intents.vectors.shape[1])],
            target_names=np.unique(intents.labels),
        )


@dataclass(frozen=True)
class Excerpt:
    """The first training and the first test samples of another data set.

    Parameters
    ----------
    name : str
        Name of the other data set.
    n_train, n_test : int
        Number of samples from its training and from its test part.
    train_size : int
        Size of its training part, after which the test part begins.
    """

    name: str
    n_train: int
    n_test: int
    train_size: int

    def __str__(self) -> str:
        return f"the first {self.n_train} training and {self.n_test} test samples of {self.name}"

    @property
    def index(self) -> Array:
        """Row numbers of the excerpt, an array of shape (n_train + n_test,)."""
        return np.r_[: self.n_train, self.train_size : self.train_size + self.n_test]


@dataclass(frozen=True)
class OpenML:
    """A data set of openml.org, downloaded by scikit-learn.

    Parameters
    ----------
    data_id : int
        Its number at OpenML.
    """

    data_id: int

    def __str__(self) -> str:
        return f"OpenML, data set {self.data_id}"

    def fetch(self) -> Download:
        """Download the data set.

        Returns
        -------
        Download
            Samples as float32, class numbers from 0, and names.
        """
        from sklearn.datasets import fetch_openml

        print(f"Downloading {self} ..", file=sys.stderr)
        # No copy in scikit-learn's cache, because ours keeps one. Its own ARFF parser, because the
        # default one needs pandas, which only the command line requires.
        options = {"as_frame": False, "parser": "liac-arff", "cache": False, "n_retries": 1}
        bunch = fetch_openml(data_id=self.data_id, **options)
        texts = np.asarray(bunch.target).astype(str)
        _, firsts, codes = np.unique(_sort_keys(texts), return_index=True, return_inverse=True)
        names = {"names": texts[firsts]}
        if getattr(bunch, "feature_names", None) is not None:
            names["features"] = np.array(bunch.feature_names, dtype=str)
        return Download(np.asarray(bunch.data, dtype=np.float32), codes, names)


def _sort_keys(labels: Labels) -> Array:
    """Return labels in a form that sorts numerals as numbers (2 before 10)."""
    try:
        return labels.astype(float)
    except ValueError:
        return labels


@dataclass(frozen=True)
class ImageArchive:
    """A zip archive of images named ``obj<class>__<number>.png``, reduced to 32 x 32 pixels.

    Parameters
    ----------
    url : str
        Address of the archive.
    reduction : {"block mean", "centre mean"}
        How 4 x 4 pixels become one, as in the paper's files. "block mean": the mean of grey levels
        over 255, pixels in column order. "centre mean": the rounded mean of the central 2 x 2
        pixels for each colour, then the grey level, pixels in row order.
    """

    url: str
    reduction: str

    def __str__(self) -> str:
        return self.url

    def fetch(self) -> Download:
        """Download the archive and reduce its images.

        Returns
        -------
        Download
            Images of 1024 pixels in the order of classes and numbers, and the classes of the file
            names.
        """
        with urlopen(self.url, timeout=_TIMEOUT) as response:
            size = int(response.headers.get("Content-Length") or 0) / 2**20
            print(f"Downloading {size:.0f} MiB from {self.url} ..", file=sys.stderr)
            content = io.BytesIO(response.read())
        with zipfile.ZipFile(content) as archive:
            matches = filter(None, map(_IMAGE_NAME.fullmatch, archive.namelist()))
            # By number: the names sort obj10 before obj2, and the splits depend on the order.
            names = sorted((int(match[1]), int(match[2]), match[0]) for match in matches)
            images = [_read_image(archive, name) for _, _, name in names]
        X = np.array([_reduce_image(image, self.reduction) for image in images])
        return Download(X, np.array([label for label, _, _ in names], dtype=np.int16))


def _read_image(archive: zipfile.ZipFile, name: str) -> Floats:
    """Return grey levels of shape (128, 128), or colour levels of shape (128, 128, 3)."""
    from PIL import Image

    with archive.open(name) as file, Image.open(file, formats=["PNG"]) as image:
        if image.size != (_SIDE, _SIDE):
            raise ValueError(f"{name} must have {_SIDE} x {_SIDE} pixels, got {image.size}")
        return np.asarray(image, dtype=np.float64)


def _reduce_image(pixels: Floats, reduction: str) -> Array:
    """Return the 1024 pixels of the reduced image."""
    n_blocks = _SIDE // _BLOCK
    blocks = pixels.reshape(n_blocks, _BLOCK, n_blocks, _BLOCK, -1)
    if reduction == "block mean":
        means = blocks.mean(axis=(1, 3))[:, :, 0] / 255.0
        return means.ravel(order="F").astype(np.float32)
    # A bilinear reduction without smoothing, to one quarter, reads only the central 2 x 2 pixels.
    centres = np.rint(blocks[:, 1:3, :, 1:3, :3].mean(axis=(1, 3)))
    return np.rint(centres @ _GREY_WEIGHTS).ravel().astype(np.uint8)
