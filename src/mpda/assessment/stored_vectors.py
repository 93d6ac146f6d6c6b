"""Quality of vectors against their bytes: maps to some numbers, stored in some type.

Training samples are the database, test samples the queries. Both are stored, so both are rounded.
The first numbers of an eigenvector map are the map with so few numbers: one fit serves all. A
refinement has another map for each number, and cutting its vectors is measured separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.preprocessing import normalize

from mpda._lib.array_types import Floats
from mpda.assessment.contender import Contender, Step, make_contender
from mpda.assessment.data_split import Split
from mpda.assessment.model_choice import ignore_fit_warnings
from mpda.io.vector_types import VectorType, fit_vector_type
from mpda.model_selection.retrieval import score_queries

RAW = "raw"
"""Name of the vectors as they are."""
TRUNCATION = "truncation"
"""Name of the first numbers of the vectors."""
_MEASURES = ("recall_at_1", "map_at_r")
# Lengths that float16 and int8 round are still those of unit vectors.
_UNIT_TOLERANCE = 1e-2
# Below the least difference of squared distances of bits, which is 4, by more than rounding.
_LARGEST_EXTRA = 3.5


@dataclass(frozen=True)
class StoredScore:
    """Measures of vectors of one map in one stored type.

    Parameters
    ----------
    method : str
        Name of the map.
    numbers : int
        Numbers of a vector.
    type : str
        Stored type, see `mpda.io.VectorType`.
    bytes : int
        Bytes of a vector.
    recall_at_1 : float
        Share of queries whose nearest vector has their class, 1 less the error of 1-NN.
    map_at_r : float
        Mean average precision at R.
    cut_from : int or None, default=None
        Numbers of the fitted map, where the vectors are the first numbers of a larger one that is
        not nested.
    """

    method: str
    numbers: int
    type: str
    bytes: int
    recall_at_1: float
    map_at_r: float
    cut_from: int | None = None


def measure_stored_vectors(
    samples: Split,
    methods: Sequence[str | Contender],
    numbers: Sequence[int],
    types: Sequence[str] = ("float32", "int8"),
    *,
    steps: Sequence[Step] = (),
    cosine: bool | None = None,
    cuts: bool = False,
) -> list[StoredScore]:
    """Measure maps to some numbers in some stored types on the test samples.

    Parameters
    ----------
    samples : Split
        Training samples, which are the database, and test samples, the queries.
    methods : sequence of str or Contender
        "raw", "truncation" (the first numbers of the vectors) and names of methods, such as "PCA"
        or "MPDA refined". A contender has parameters of its own.
    numbers : sequence of int
        Numbers of components. A method that has fewer uses all it has.
    types : sequence of str, default=("float32", "int8")
        Stored types, see `mpda.io.VectorType`.
    steps : sequence of (str, transformer), default=()
        Preprocessing before a method, not fitted.
    cosine : bool or None, default=None
        True compares vectors by the cosine, False by the Euclidean distance. None takes the cosine
        where training samples have length 1. Bits are compared by the Hamming distance, vectors of
        a map to length 1 by the cosine.
    cuts : bool, default=False
        True also measures the first numbers of the largest map for methods that are not nested,
        such as refinements.

    Returns
    -------
    list of StoredScore
        For each method its numbers in increasing order, for each of them the types.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from mpda.assessment import Split, measure_stored_vectors
    >>> X, y = load_iris(return_X_y=True)
    >>> samples = Split(X[::2], y[::2], X[1::2], y[1::2])
    >>> for row in measure_stored_vectors(samples, ["raw", "MPDA"], [2], ["int8"]):
    ...     print(row.method, row.numbers, row.bytes, round(row.recall_at_1, 2))
    raw 4 4 0.96
    MPDA 2 2 0.99
    """
    if cosine is None:
        cosine = has_unit_length(samples.X)
    rows = []
    for method in methods:
        contender = _find_contender(method, numbers)
        with ignore_fit_warnings():
            for mapped in _iter_maps(contender, samples, numbers, steps, cuts=cuts):
                for name in types:
                    stored = fit_vector_type(mapped.samples.X, name)
                    recall, precision = score_stored(
                        mapped.samples, stored, cosine=cosine or mapped.has_unit_length
                    )
                    size = stored.n_numbers, name, stored.n_bytes
                    row = StoredScore(contender.name, *size, recall, precision, mapped.cut_from)
                    rows.append(row)
    return rows


@dataclass(frozen=True)
class MappedSamples:
    """Mapped samples.

    Parameters
    ----------
    samples : Split
        Mapped training and test samples.
    has_unit_length : bool
        True if the map scales to length 1, so that vectors are compared by the cosine, cut or not.
    cut_from : int or None, default=None
        Numbers of the map, if only the first ones are kept and the map is not nested.
    """

    samples: Split
    has_unit_length: bool
    cut_from: int | None = None

    def cut(self, r: int, cut_from: int | None = None) -> MappedSamples:
        """Return the first numbers of the samples.

        Parameters
        ----------
        r : int
            How many.
        cut_from : int or None, default=None
            Numbers of the map, if it is not nested.

        Returns
        -------
        MappedSamples
            Views of the samples.
        """
        s = self.samples
        return replace(
            self, samples=Split(s.X[:, :r], s.y, s.X_test[:, :r], s.y_test), cut_from=cut_from
        )


def _find_contender(method: str | Contender, numbers: Sequence[int]) -> Contender:
    if isinstance(method, Contender):
        return method
    if method in (RAW, TRUNCATION):
        return Contender(method, component_counts=tuple(numbers) if method == TRUNCATION else None)
    return make_contender(method, search=False)


def _iter_maps(
    contender: Contender,
    samples: Split,
    numbers: Sequence[int],
    steps: Sequence[Step],
    *,
    cuts: bool,
) -> Iterator[MappedSamples]:
    """Yield the mapped samples for each number, and those that are cut."""
    d = samples.X.shape[1]
    if contender.method is None:
        for r in sorted({min(r, d) for r in contender.component_counts or (d,)}):
            yield MappedSamples(samples, has_unit_length=False).cut(r)
        return
    most = contender.count_components(d, samples.y)
    counts = sorted({min(r, most) for r in numbers})
    largest = map_samples(contender, samples, counts[-1], steps)
    counts = sorted({min(r, largest.samples.X.shape[1]) for r in counts})
    for r in counts:
        is_direct = contender.method.is_nested or r == counts[-1]
        yield largest.cut(r) if is_direct else map_samples(contender, samples, r, steps)
    if cuts and not contender.method.is_nested:
        for r in counts[:-1]:
            yield largest.cut(r, cut_from=counts[-1])


def map_samples(
    contender: Contender, samples: Split, n_components: int, steps: Sequence[Step] = ()
) -> MappedSamples:
    """Fit a method to the training samples, and map these and the test samples.

    Parameters
    ----------
    contender : Contender
        Method.
    samples : Split
        Training and test samples.
    n_components : int
        Number of components. Samples that span fewer directions get all of them.
    steps : sequence of (str, transformer), default=()
        Preprocessing before the method, not fitted.

    Returns
    -------
    MappedSamples
        Both parts.
    """
    try:
        model = contender.estimator({}, n_components, steps).fit(samples.X, samples.y)
    except ValueError:
        model = contender.estimator({}, None, steps).fit(samples.X, samples.y)
        if model.transform(samples.X[:1]).shape[1] >= n_components:
            raise  # the number was not the reason
    Z, Z_test = (np.asarray(model.transform(X)) for X in (samples.X, samples.X_test))
    return MappedSamples(Split(Z, samples.y, Z_test, samples.y_test), has_unit_length(Z))


def score_stored(samples: Split, stored: VectorType, *, cosine: bool) -> tuple[float, float]:
    """Measure the retrieval of vectors that are stored in a type.

    Of equal distances those of a random order, always the same one, come first.

    Parameters
    ----------
    samples : Split
        Vectors of the database and of the queries.
    stored : VectorType
        The type.
    cosine : bool
        True compares by the cosine, False by the Euclidean distance. Bits have the Hamming distance
        in any case.

    Returns
    -------
    recall_at_1 : float
        Share of queries whose nearest vector has their class.
    map_at_r : float
        Mean average precision at R.
    """
    Z, Z_test = (stored.decode(stored.encode(part)) for part in (samples.X, samples.X_test))
    # Few bits have many equal distances, and a database is often sorted by class.
    rng = np.random.default_rng(0)
    order = rng.permutation(len(Z))
    if stored.name == "bits":
        # Equal distances slow down a search. One more number of the database makes squared
        # distances, which are multiples of 4, larger by less than that.
        extra = np.sqrt(_LARGEST_EXTRA * rng.random(len(Z), dtype=Z.dtype))
        Z = np.column_stack([Z, extra])
        Z_test = np.column_stack([Z_test, np.zeros(len(Z_test), dtype=Z.dtype)])
    elif cosine:
        Z, Z_test = normalize(Z), normalize(Z_test)
    means = score_queries(Z[order], samples.y[order], Z_test, samples.y_test, _MEASURES).means
    return means["recall_at_1"], means["map_at_r"]


def has_unit_length(Z: Floats) -> bool:
    """Tell whether all vectors have length 1, but for vectors of zeros.

    Parameters
    ----------
    Z : array of shape (n_samples, n_numbers)
        Vectors, which may be rounded to float16 or int8.

    Returns
    -------
    bool
        True for embeddings of length 1 and for a map to a sphere.
    """
    lengths = np.linalg.norm(Z, axis=1)
    return bool(np.all(np.abs(lengths[lengths > 0.0] - 1.0) < _UNIT_TOLERANCE))
