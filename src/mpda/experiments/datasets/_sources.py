"""Fetching data sets from where their makers, or OpenML, have them."""

from __future__ import annotations

import re
import sys
import tempfile
import time
import warnings
import zipfile
from http.client import HTTPException
from typing import IO, Any
from urllib.request import urlopen

import numpy as np

from mpda._lib.array_types import Floats, Labels
from mpda.exceptions import DatasetError
from mpda.experiments.datasets._catalogue import ImageArchive, OpenML
from mpda.io.error_text import one_line

_CHUNK = 1 << 20
_SIDE = 128
_IMAGE = re.compile(r"(?:.*/)?obj(\d{1,4})__(\d{1,4})\.png")
_GREY = (0.2989, 0.5870, 0.1140)
_LARGEST_IMAGE = 1 << 20
_LARGEST_ARCHIVE = 1 << 30
_MOST_IMAGES = 20_000


def from_openml(source: OpenML, name: str) -> tuple[Any, Labels]:
    from sklearn.datasets import fetch_openml

    print(f"{name}: fetching {source} ..", file=sys.stderr)
    try:
        # scikit-learn keeps no copy here (ours is the cache) and checks OpenML's own checksum.
        found = fetch_openml(
            data_id=source.data_id, as_frame=False, parser="liac-arff", cache=False, n_retries=1
        )
        return np.asarray(found.data, dtype=np.float32), _codes(np.asarray(found.target))
    # No network, a wrong checksum, an answer that is not what it should be: anything may be raised.
    except Exception as error:
        raise DatasetError(
            f"{name} could not be fetched from OpenML ({one_line(error)})."
        ) from error


def _codes(labels: Labels) -> Labels:
    """Labels as 0, 1, ..; names that are numbers ("2" before "10") in the order of these."""
    try:
        labels = labels.astype(float)
    except ValueError:
        labels = labels.astype(str)
    return np.unique(labels, return_inverse=True)[1]


def from_archive(source: ImageArchive, name: str) -> tuple[Any, Labels]:
    with tempfile.TemporaryFile() as archive:
        _download(source.url, name, archive)
        try:
            with zipfile.ZipFile(archive) as images:
                return _samples(images, source)
        except DatasetError:
            raise
        # Zip, zlib and Pillow have many errors for what is broken or made to deceive.
        except Exception as error:
            raise DatasetError(
                f"{source.url} did not give a zip of images ({one_line(error)}). Try again later."
            ) from error


def _download(url: str, name: str, file: IO[bytes]) -> None:
    """The bytes of an address, with a line on stderr at least every two seconds."""
    try:
        with urlopen(url, timeout=60) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            last = -np.inf
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                if file.tell() > _LARGEST_ARCHIVE:
                    raise OSError(f"more than {_LARGEST_ARCHIVE} bytes")
                if time.monotonic() - last >= 2.0:
                    of = f" of {size / 2**20:.0f}" if size else ""
                    print(f"{name}: {file.tell() / 2**20:.0f}{of} MiB from {url}", file=sys.stderr)
                    last = time.monotonic()
    except (OSError, HTTPException, ValueError) as error:  # URLError is an OSError
        raise DatasetError(
            f"{name} could not be fetched from {url} ({one_line(error)})."
        ) from error
    if size and file.tell() != size:
        raise DatasetError(f"{url} broke off after {file.tell()} of {size} bytes. Try again.")


def _samples(images: zipfile.ZipFile, source: ImageArchive) -> tuple[Any, Labels]:
    """One row an image, in the order of objects and numbers."""
    found = []
    for info in images.infolist():
        match = _IMAGE.fullmatch(info.filename)
        if match and info.file_size <= _LARGEST_IMAGE:
            found.append((int(match[1]), int(match[2]), info))
    if not found:
        raise DatasetError(f"{source.url} has no images named obj<class>__<number>.png.")
    if len(found) > _MOST_IMAGES:
        raise DatasetError(f"{source.url} has {len(found)} images, which no data set here has.")
    found.sort(key=lambda each: each[:2])
    rows = [_reduced(_pixels(images, info), source.reduction) for _, _, info in found]
    return np.stack(rows), np.array([label for label, _, _ in found], dtype=np.int16)


def _pixels(images: zipfile.ZipFile, info: zipfile.ZipInfo) -> Floats:
    """(128, 128) or (128, 128, 3) levels 0 to 255."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DatasetError(
            "Reading images needs Pillow, which comes with: pip install 'mpda[plot]'."
        ) from error
    with images.open(info) as file, warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=["PNG"]) as image:
            if image.size != (_SIDE, _SIDE):  # before it is unpacked
                size = " x ".join(map(str, image.size))
                raise ValueError(f"{info.filename!r:.80} must be {_SIDE} x {_SIDE}, got {size}")
            return np.asarray(image, dtype=np.float64)


def _reduced(pixels: Floats, reduction: str) -> Floats:
    """A quarter of the width and height, as one row."""
    blocks = pixels.reshape(_SIDE // 4, 4, _SIDE // 4, 4, -1)
    if reduction == "block mean":
        means = blocks.mean(axis=(1, 3))[:, :, 0] / 255.0
        return means.ravel(order="F").astype(np.float32)
    centres = np.rint(blocks[:, 1:3, :, 1:3].mean(axis=(1, 3)))
    return np.rint(centres[:, :, :3] @ np.array(_GREY)).ravel().astype(np.uint8)
