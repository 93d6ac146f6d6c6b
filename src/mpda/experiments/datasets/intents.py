"""Sentences with their intents and embeddings, a sample of CLINC150 that is part of the package.

``intents.npz`` holds the vectors as int8 with one scale, ``intents.md`` its licence and how it was
made (``benchmarks/make_intents.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpda._lib.array_types import Bools, Labels
from mpda.io.array_files import read_arrays

FILE = Path(__file__).with_name("intents.npz")


@dataclass(frozen=True)
class Intents:
    """Sentences, their intents and their embeddings.

    Parameters
    ----------
    vectors : ndarray of float32 of shape (n_samples, 384)
        Embeddings of length 1.
    labels : ndarray of str of shape (n_samples,)
        Intents, such as ``"book_flight"``.
    texts : ndarray of str of shape (n_samples,)
        Sentences.
    is_test : ndarray of bool of shape (n_samples,)
        True for texts of the official test part, False for those of the training part.
    """

    vectors: NDArray[np.float32]
    labels: Labels
    texts: Labels
    is_test: Bools

    def to_arrow(self) -> Any:
        """Return the data set as a table of pyarrow.

        Returns
        -------
        pyarrow.Table
            With the columns text, intent and split ("train" or "test"), and embedding, a
            fixed-size list of float32.
        """
        import pyarrow as pa

        numbers = pa.array(self.vectors.ravel())
        embedding = pa.FixedSizeListArray.from_arrays(numbers, self.vectors.shape[1])
        columns = {name: pa.array(column) for name, column in self.columns.items()}
        return pa.table(columns | {"embedding": embedding})

    @property
    def columns(self) -> dict[str, Labels]:
        """Columns text, intent and split of a table, arrays of str of shape (n_samples,)."""
        split = np.where(self.is_test, "test", "train")
        return {"text": self.texts, "intent": self.labels, "split": split}


def load_intents() -> Intents:
    """Load sentences of 150 intents, embedded by a sentence transformer.

    The data set is part of the package: 6000 English sentences for a virtual assistant from
    CLINC150 [1]_, embedded by all-MiniLM-L6-v2 [2]_. Each intent has 30 sentences of the official
    training part and 10 of the official test part. Training samples come first.

    Returns
    -------
    Intents
        With vectors, labels, texts and is_test.

    Notes
    -----
    Texts and intents: Stefan Larson et al., `CC BY 3.0
    <https://creativecommons.org/licenses/by/3.0/>`_; the sample is smaller than the original, its
    texts are unchanged. Model: sentence-transformers, Apache 2.0.

    Texts were drawn by their SHA-256, without a look at vectors or results. Numbers are stored as
    int8 with one scale, 0.0025, and vectors are divided by their length again. The cosine of a
    stored and its original vector is at least 0.9998. The cosine of two vectors changes by 0.001
    (root mean square; at most 0.006). The 1-NN error of the test part is 13.7 % with the stored and
    13.8 % with the original vectors.

    References
    ----------
    .. [1] S. Larson et al., An Evaluation Dataset for Intent Classification and Out-of-Scope
       Prediction, EMNLP-IJCNLP, 2019, https://github.com/clinc/oos-eval
    .. [2] https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from mpda.experiments.datasets import load_intents
    >>> intents = load_intents()
    >>> train, test = ~intents.is_test, intents.is_test
    >>> nearest = KNeighborsClassifier(1).fit(intents.vectors[train], intents.labels[train])
    >>> accuracy = nearest.score(intents.vectors[test], intents.labels[test])
    >>> print(f"1-NN error: {100 * (1 - accuracy):.1f} %")
    1-NN error: 13.7 %
    """
    return read_intents(FILE)


def read_intents(path: Path) -> Intents:
    """Read a file of sentences, intents and rounded embeddings.

    Parameters
    ----------
    path : Path
        File in the format of ``intents.npz``.

    Returns
    -------
    Intents
        With vectors of length 1.
    """
    arrays = read_arrays(path)
    codes = arrays["vectors"].astype(np.float64)
    # The scale cancels. Sums of squared integers are exact, so vectors are equal on all machines.
    lengths = np.sqrt(np.sum(codes**2, axis=1, keepdims=True))
    return Intents(
        vectors=(codes / lengths).astype(np.float32),
        labels=arrays["names"][arrays["codes"]],
        texts=np.array(arrays["texts"].tobytes().decode().split("\n")),
        is_test=arrays["is_test"],
    )
