"""Draw the sample of CLINC150 that is part of the package, and measure what its rounding costs.

    python benchmarks/make_intents.py --data DIR [--out src/mpda/experiments/datasets/intents.npz]

Reads clinc150_minilm384.npz: 22500 texts with the arrays X, y, split, text and names. Writes
intents.npz for ``mpda.experiments.datasets.load_intents``. Prints its size, the similarity of
rounded and given vectors, and the 1-NN errors of both.

The sample does not depend on the vectors. All 150 intents are in it, each with 30 texts of the
official training part and 10 of the official test part. Texts that occur more than once in CLINC150
are left out. Of the others, those are taken whose SHA-256 comes first, computed from the UTF-8 of
"0:" and the text; 0 is the seed. Rows are ordered by part (training first), intent, and SHA-256.
"""

from __future__ import annotations

import argparse
from collections import Counter
from hashlib import sha256
from pathlib import Path

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from mpda.experiments.datasets.intents import FILE, Intents, read_intents
from protocol import Array, data_argument

# The largest sample in multiples of ten that takes less than 2 MB. The standard error of an error
# of 14 % on 1500 test texts is 0.9 points.
N_TRAIN, N_TEST = 30, 10
SEED = 0
TRAIN, TEST = 0, 2  # values of the array split; 1 is the validation part
LARGEST_CODE = 127


def hash_text(text: str) -> str:
    """Return the key by which texts are drawn."""
    return sha256(f"{SEED}:{text}".encode()).hexdigest()


def draw_rows(texts: Array, labels: Array, split: Array) -> Array:
    """Return the row numbers of the sample, an array of shape (n_samples,)."""
    sentences = [str(text) for text in texts]
    counts = Counter(sentences)
    rows: list[int] = []
    for part, size in ((TRAIN, N_TRAIN), (TEST, N_TEST)):
        for label in np.unique(labels):
            members = np.flatnonzero((labels == label) & (split == part))
            once = [int(row) for row in members if counts[sentences[row]] == 1]
            rows += sorted(once, key=lambda row: hash_text(sentences[row]))[:size]
    return np.array(rows)


def round_vectors(X: Array) -> tuple[Array, np.float32]:
    """Return vectors as int8 and the scale by which they are multiplied, the same for all."""
    scale = np.float32(np.abs(X).max() / LARGEST_CODE)
    return np.rint(X / scale).astype(np.int8), scale


def nearest_error(X: Array, intents: Intents) -> float:
    """Return the 1-NN error of the test part in percent."""
    train, test = ~intents.is_test, intents.is_test
    nearest = KNeighborsClassifier(1).fit(X[train], intents.labels[train])
    return float(100 * (1 - nearest.score(X[test], intents.labels[test])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_argument(parser)
    parser.add_argument("--out", type=Path, default=FILE, help="file to write")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data names the directory of clinc150_minilm384.npz (or set MPDA_DATA)")
    path = Path(arguments.data) / "clinc150_minilm384.npz"
    if not path.is_file():
        parser.error(f"{path} does not exist; --data names its directory")
    with np.load(path) as arrays:
        labels = arrays["names"][arrays["y"]]
        rows = draw_rows(arrays["text"], labels, arrays["split"])
        X = arrays["X"][rows].astype(np.float64)
        texts, is_test = arrays["text"][rows], arrays["split"][rows] == TEST
    X /= np.linalg.norm(X, axis=1, keepdims=True)  # float16 has length 1 to 1e-3
    vectors, scale = round_vectors(X)
    names, codes = np.unique(labels[rows], return_inverse=True)
    np.savez_compressed(
        arguments.out,
        vectors=vectors,
        scale=scale,
        names=names,
        codes=codes.astype(np.uint8),
        is_test=is_test,
        # One string of bytes: a fixed-width array of text would be larger.
        texts=np.frombuffer("\n".join(texts).encode(), dtype=np.uint8),
    )
    intents = read_intents(arguments.out)
    similarities = np.einsum("ij,ij->i", X, intents.vectors)
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes")
    print(f"{len(rows)} texts, {len(names)} intents, {np.count_nonzero(is_test)} for tests")
    print(f"scale {scale:.7f}, largest rounding {np.abs(vectors * scale - X).max():.5f}")
    print(f"cosine of rounded and given vectors: at least {similarities.min():.6f}")
    changes = np.abs(intents.vectors @ intents.vectors.T - X @ X.T)
    spread = np.sqrt(np.mean(changes**2))
    print(f"change of the cosine of two texts: {spread:.5f} rms, at most {changes.max():.5f}")
    print(f"1-NN error: {nearest_error(X, intents):.2f} % as given, ", end="")
    print(f"{nearest_error(intents.vectors, intents):.2f} % rounded")


if __name__ == "__main__":
    main()
