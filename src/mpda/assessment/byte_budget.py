"""The choice of a stored type and of the number of components for a budget of bytes per vector.

A budget holds more numbers of a smaller type: 64 bytes are 16 numbers of float32, 32 of float16, 64
of int8 or 512 bits. Folds of the training samples decide which search finds more: a fold's other
samples are the database, its own the queries, and both are stored in the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from mpda._lib.array_types import Ints, Labels
from mpda.assessment.assessment_protocol import AssessmentProtocol
from mpda.assessment.contender import Contender, Step
from mpda.assessment.data_split import Split, preprocess
from mpda.assessment.model_choice import ignore_fit_warnings
from mpda.assessment.stored_vectors import MappedSamples, map_samples, score_stored
from mpda.io.vector_types import VECTOR_TYPES, count_numbers, fit_vector_type
from mpda.model_selection.folds import stratified_folds, stratified_order

# Samples and folds that choose: a refinement of these takes a few seconds for each type.
_MAX_SAMPLES, _N_FOLDS = 2500, 3
# A refinement to more numbers takes longer than all other candidates, and a bit of each says less
# than int8 of an eighth of them. Nested maps cost one fit, whatever the number.
_MOST_BITS = 128


@dataclass(frozen=True)
class StorageCandidate:
    """A stored type with as many numbers as the budget holds; measures are means over folds.

    Parameters
    ----------
    type : str
        Stored type, see `mpda.io.VectorType`.
    numbers : int
        Number of components.
    bytes : int
        Bytes of a vector.
    recall_at_1 : float
        Share of held-out samples whose nearest vector has their class.
    map_at_r : float
        Mean average precision at R.
    plain_recall_at_1 : float
        The share for as many numbers in float32.
    """

    type: str
    numbers: int
    bytes: int
    recall_at_1: float
    map_at_r: float
    plain_recall_at_1: float

    @property
    def loss(self) -> float:
        """Error that the type adds to that of float32 with as many numbers, in points."""
        return 100.0 * (self.plain_recall_at_1 - self.recall_at_1)


@dataclass(frozen=True)
class StorageChoice:
    """Stored types for a budget of bytes.

    Parameters
    ----------
    budget : int
        Bytes that a vector may have.
    candidates : tuple of StorageCandidate
        By decreasing recall at 1; the first one is chosen.
    n_folds : int
        Folds that measured the candidates.
    """

    budget: int
    candidates: tuple[StorageCandidate, ...]
    n_folds: int

    @property
    def chosen(self) -> StorageCandidate:
        """Best of the candidates."""
        return self.candidates[0]

    def find(self, name: str) -> StorageCandidate | None:
        """Return the candidate of a type.

        Parameters
        ----------
        name : str
            Stored type.

        Returns
        -------
        StorageCandidate or None
            None if not even one number fits, or if the method cannot have so few.
        """
        return next((entry for entry in self.candidates if entry.type == name), None)


def choose_storage(
    X: Any,
    y: Labels,
    contender: Contender,
    protocol: AssessmentProtocol,
    n_bytes: int,
    *,
    groups: Labels | None = None,
    progress: Callable[[float], Any] = lambda share: None,
) -> StorageChoice:
    """Choose the stored type and the number of components for a budget by cross-validation.

    Parameters
    ----------
    X : array or data frame of shape (n_samples, n_features)
        Training samples.
    y : array of shape (n_samples,)
        Labels.
    contender : Contender
        Method, with its fixed parameters. A choice among several is represented by the last one.
    protocol : AssessmentProtocol
        Preparation of the features, seed, and limit of the samples.
    n_bytes : int
        Bytes that a vector may have.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample. No fold divides a group.
    progress : callable
        Called with the share of the work that is done.

    Returns
    -------
    StorageChoice
        At equal recall at 1 the type of larger MAP@R is first, then that of fewer bytes.

    Raises
    ------
    ValueError
        If no type has a map on every fold, or if there are too few samples for two folds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mpda.assessment import AssessmentProtocol, choose_storage, make_contender
    >>> X, y = load_digits(return_X_y=True)
    >>> pca = make_contender("PCA", search=False)
    >>> protocol = AssessmentProtocol(scaled=False, energy=None)
    >>> chosen = choose_storage(X, y, pca, protocol, 16).chosen
    >>> chosen.type, chosen.numbers, chosen.bytes
    ('int8', 16, 16)
    """
    values = protocol.take_samples(X)
    with ignore_fit_warnings():
        raw = Split(values, y, values[:0], y[:0], groups)
        steps = protocol.prepare(contender, raw).make_steps()
        judge = contender.choices[-1] if contender.choices else contender
        rng = np.random.default_rng(protocol.seed)
        drawn = stratified_order(y, 1, rng)[: min(_MAX_SAMPLES, protocol.count_choosing(len(y)))]
        parts = list(_iter_folds(values, y, groups, drawn, protocol.seed))
        measured = []
        for number, part in enumerate(parts):
            measured.append(_measure_fold(judge, part, steps, n_bytes))
            progress((number + 1) / len(parts))
    types = [name for name in VECTOR_TYPES if all(name in fold for fold in measured)]
    if not types:
        raise ValueError(
            f"{judge.name} has no map on every fold for a vector of {n_bytes} bytes; give it more "
            "bytes or more samples, or another method."
        )
    candidates = [_average([fold[name] for fold in measured]) for name in types]
    candidates.sort(key=lambda c: (-round(c.recall_at_1, 12), -round(c.map_at_r, 12), c.bytes))
    return StorageChoice(n_bytes, tuple(candidates), len(parts))


def _iter_folds(
    X: Any, y: Labels, groups: Labels | None, drawn: Ints, seed: int
) -> Iterator[Split]:
    """Yield the training and the held-out samples of each fold of the drawn samples."""
    y, groups = y[drawn], None if groups is None else groups[drawn]
    largest = int(np.unique(y, return_counts=True)[1].max())
    n_folds = min(_N_FOLDS, largest, largest if groups is None else len(np.unique(groups)))
    if n_folds < 2:
        raise ValueError(
            "no class has two training samples, or there is one group of them, so no stored type "
            "can be selected; use --components, or more samples."
        )
    X = _safe_indexing(X, drawn)
    for train, test in stratified_folds(y, n_folds, seed, groups):
        yield Split(_safe_indexing(X, train), y[train], _safe_indexing(X, test), y[test])


def _measure_fold(
    contender: Contender, samples: Split, steps: Sequence[Step], n_bytes: int
) -> dict[str, StorageCandidate]:
    """Return the candidates of one fold by type."""
    assert contender.method is not None
    samples = preprocess(samples, steps)
    most = contender.count_components(samples.X.shape[1], samples.y)
    counts = {name: count_numbers(name, n_bytes) for name in VECTOR_TYPES}
    is_nested, largest, found = contender.method.is_nested, None, {}
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        if count == 0 or (name == "bits" and count > _MOST_BITS and not is_nested):
            continue
        try:
            if largest is not None and is_nested:
                mapped = largest.cut(count)
            else:
                mapped = map_samples(contender, samples, min(count, most))
            largest = largest or mapped
            found[name] = _measure_type(mapped, name)
        except ValueError:  # too few components for the method, or numbers beyond float16
            continue
    return found


def _measure_type(mapped: MappedSamples, name: str) -> StorageCandidate:
    """Return the measures of mapped samples in a type, next to those in float32."""
    cosine = mapped.has_unit_length
    stored, plain = (fit_vector_type(mapped.samples.X, kind) for kind in (name, "float32"))
    recall, precision = score_stored(mapped.samples, stored, cosine=cosine)
    plain_recall = recall
    if stored != plain:
        plain_recall = score_stored(mapped.samples, plain, cosine=cosine)[0]
    sizes = stored.n_numbers, stored.n_bytes
    return StorageCandidate(name, *sizes, recall, precision, plain_recall)


def _average(folds: Sequence[StorageCandidate]) -> StorageCandidate:
    """Return the means over folds, with the numbers that every fold can have."""

    def mean(values: Iterable[float]) -> float:
        return float(np.mean([*values]))

    return replace(
        min(folds, key=lambda fold: fold.numbers),
        recall_at_1=mean(fold.recall_at_1 for fold in folds),
        map_at_r=mean(fold.map_at_r for fold in folds),
        plain_recall_at_1=mean(fold.plain_recall_at_1 for fold in folds),
    )
