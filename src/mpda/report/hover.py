"""What the page shows for a single sample: a text, values of features, or an image.

Everything is limited in size, so that a page stays below half a megabyte for small tables and below
three and a half for large ones.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Floats, Ints
from mpda.plotting.styles import shorten
from mpda.report.samples import ReportSamples

# Numbers of features in a page, at about six characters each, and features in the list.
_MAX_VALUES, _MAX_FEATURES = 100_000, 20
# Pixels of all images together: an image of digits needs about a sixth of a byte for each.
_MAX_PIXELS = 3_000_000
# Characters of a text, and of all texts together.
_MAX_TEXT, _MAX_CHARACTERS = 300, 1_000_000


def collect_hover(
    samples: ReportSamples,
    drawn: Ints,
    correlations: Floats,
    text: str | None = None,
    image_shape: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Collect a text, the values of some features, or an image for each sample.

    Parameters
    ----------
    samples : ReportSamples
        All samples.
    drawn : array of int of shape (n_drawn,)
        Indices of the samples that are drawn.
    correlations : array of shape (n_components, n_features)
        Correlations of features and components. The features of the largest ones are collected.
    text : str, default=None
        Column whose text is shown.
    image_shape : tuple of two int, default=None
        Rows and columns, where features are pixels. Images are then shown instead of features.

    Returns
    -------
    dict
        "text", "features" and "images", as far as there are any.
    """
    hover: dict[str, Any] = {}
    if text is not None:
        limit = min(_MAX_TEXT, _MAX_CHARACTERS // max(len(drawn), 1))
        texts = np.asarray(samples.texts[text])[drawn]
        hover["text"] = {"name": text, "values": [shorten(str(value), limit) for value in texts]}
    X = samples.X[drawn]
    if image_shape is not None:
        hover["images"] = draw_images(X, image_shape)
    elif samples.features is not None:
        limit = min(_MAX_FEATURES, _MAX_VALUES // max(len(X), 1))
        order = np.argsort(-np.abs(correlations).max(axis=0), kind="stable")[:limit]
        hover["features"] = [
            {"name": samples.features[i], "values": np.asarray(X[:, i], dtype=float).tolist()}
            for i in order
        ]
    return hover


def draw_images(X: Array, shape: Sequence[int]) -> dict[str, Any]:
    """Draw small grey images of all samples into one PNG.

    Parameters
    ----------
    X : array of shape (n_samples, rows * columns)
        Pixels.
    shape : sequence of two int
        Rows and columns.

    Returns
    -------
    dict
        Address "source" of the PNG with the data in it, size of an image in "rows" and "columns",
        and number of images "across" a row of the PNG.
    """
    images = np.asarray(X, dtype=np.float64).reshape(-1, *shape)
    # The mean of blocks makes images of many samples smaller.
    block = 1
    while images.size / block**2 > _MAX_PIXELS and block < min(shape):
        block += 1
    rows, columns = shape[0] // block, shape[1] // block
    images = images[:, : rows * block, : columns * block]
    images = images.reshape(-1, rows, block, columns, block).mean(axis=(2, 4))
    low, high = images.min(initial=np.inf), images.max(initial=-np.inf)
    # 16 levels of grey: enough to recognise an image, half as many bytes as 256.
    levels = np.round((images - low) * (15.0 / max(high - low, np.finfo(float).tiny)))
    across = max(1, int(np.sqrt(len(images) * rows / columns)))
    n_rows = -(-len(images) // across)
    sheet = np.zeros((n_rows * across, rows, columns), dtype=np.uint8)
    sheet[: len(images)] = levels
    lines = sheet.reshape(n_rows, across, rows, columns).transpose(0, 2, 1, 3)
    png = _encode_png(lines.reshape(n_rows * rows, across * columns))
    source = "data:image/png;base64," + base64.b64encode(png).decode()
    return {"source": source, "rows": rows, "columns": columns, "across": across}


def _encode_png(levels: Array) -> bytes:
    """Return a PNG of grey levels from 0 to 15, of shape (height, width); two pixels in a byte."""
    height, width = levels.shape
    padded = np.pad(levels, ((0, 0), (0, width % 2)))
    packed = padded[:, ::2] << 4 | padded[:, 1::2]
    # Each line begins with the number of its filter; 0 is none.
    lines = np.pad(packed, ((0, 0), (1, 0))).astype(np.uint8).tobytes()

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    # Depth of 4 bits, grey (0), default compression and filters, not interlaced.
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 4, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(lines, 9))
        + chunk(b"IEND", b"")
    )
