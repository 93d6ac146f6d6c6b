"""Retrieval by a database's map, of classes that took no part in its fit, and of others.

A fold holds out whole classes (`UnseenClassFolds`). Its map is fitted to the labels of the other
classes; the samples that are held out count as rows of the database, as samples of classes without
labels do in use. They are then searched among themselves by the cosine, next to the features as
they are. `DiscriminantSearchCV` fits each fold to samples; here a fold is the sums over a database
that need not fit into memory, without the held-out labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import normalize

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.assessment.contender import BASELINE
from mpda.assessment.model_choice import ignore_fit_warnings
from mpda.assessment.outer_fold import FoldResult
from mpda.assessment.retrieval_estimates import draw_queries, measure_search
from mpda.baselines.within_class_sums import WithinClassSums
from mpda.estimators._base import sparse_counts
from mpda.estimators._within_class_whitening import WithinClassWhitening
from mpda.model_selection.folds import Folds
from mpda.model_selection.retrieval import score_queries
from mpda.model_selection.unseen_classes import draw_unseen_folds, is_unseen

# Samples of a fold that are searched among themselves, as many as test a method in other folds.
MAX_TESTS = 4000
_MEASURES = ("recall_at_1", "map_at_r")


@dataclass(frozen=True)
class UnseenScores:
    """Measures on the classes that each fold holds out.

    Parameters
    ----------
    counts : ndarray of int of shape (n_counts,)
        Numbers of components.
    raw : ndarray of shape (n_folds, 2)
        Recall at 1 and MAP@R of the features as they are, by the cosine.
    mapped : ndarray of shape (n_folds, n_counts, 2)
        The same of mapped samples, for each number of components.
    precision : sequence of ndarray of shape (n_counts, n_queries)
        MAP@R of each query, for each fold.
    """

    counts: Ints
    raw: Floats
    mapped: Floats
    precision: Sequence[Floats]

    def select_count(self, *, fewest: bool, left_out: int | None = None) -> int:
        """Select a number of components by MAP@R.

        Parameters
        ----------
        fewest : bool
            True selects the fewest within one standard error of the best mean, False the best.
        left_out : int or None, default=None
            A fold whose scores are not used.

        Returns
        -------
        int
            The number of components.
        """
        folds = [fold for fold in range(len(self.mapped)) if fold != left_out]
        means = self.mapped[folds, :, 1].mean(axis=0)
        best = int(means.argmax())
        if not fewest:
            return int(self.counts[best])
        # Of differences, because queries differ more than numbers of components, and over queries:
        # two to four folds do not tell how much their means vary.
        gaps = [self.precision[fold][best] - self.precision[fold] for fold in folds]
        variances = [gap.var(axis=1) / gap.shape[1] for gap in gaps]
        errors = np.sqrt(np.sum(variances, axis=0)) / len(folds)
        return int(self.counts[np.argmax(means[best] - means <= errors)])

    def select_by_others(self, *, fewest: bool) -> Ints:
        """Select a number of components for each fold by the other folds.

        Parameters
        ----------
        fewest : bool
            As in `select_count`.

        Returns
        -------
        ndarray of int of shape (n_folds,)
            A fold does not measure a number that it selected.
        """
        folds = range(len(self.raw))
        return np.array([self.select_count(fewest=fewest, left_out=fold) for fold in folds])

    def look_up(self, counts: Ints) -> Floats:
        """Return the measures of one number of components for each fold.

        Parameters
        ----------
        counts : ndarray of int of shape (n_folds,)
            Numbers of components.

        Returns
        -------
        ndarray of shape (n_folds, 2)
            Recall at 1 and MAP@R.
        """
        return self.mapped[np.arange(len(counts)), np.searchsorted(self.counts, counts)]


def measure_unseen_classes(
    X: Floats,
    y: Labels,
    database: WithinClassSums,
    whitening: WithinClassWhitening,
    n_folds: int,
    *,
    seed: int = 0,
    report: Callable[[], Any] = lambda: None,
) -> UnseenScores:
    """Measure how well the classes that a map was not fitted to are found.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Labelled samples.
    y : ndarray of shape (n_samples,)
        Their labels.
    database : WithinClassSums
        Sums over the rows without labels.
    whitening : WithinClassWhitening
        Parameters of the map. Without a number of components all are tried, in steps of a quarter.
    n_folds : int
        Number of folds.
    seed : int, default=0
        Seed of the folds.
    report : callable
        Called after each fold.

    Returns
    -------
    UnseenScores
        Measures of each fold on at most ``MAX_TESTS`` samples.
    """
    rng, n_components = np.random.default_rng(seed), whitening.n_components
    raw: list[Floats] = []
    mapped: list[dict[int, Floats]] = []
    for train, test in draw_unseen_folds(y, n_folds, seed):
        model = _fit_fold(X, y, train, database, whitening)
        tests = rng.permutation(test)[:MAX_TESTS]
        Z = (X[tests] - model.mean_) @ model.components_.T
        tried = sparse_counts(Z.shape[1]) if n_components is None else [n_components]
        raw.append(_score(X[tests], y[tests]))
        mapped.append({int(r): _score(Z[:, :r], y[tests]) for r in tried})
        report()
    # Folds may have directions of different number.
    counts = np.array(sorted(set.intersection(*map(set, mapped))))
    values = [np.stack([fold[r] for r in counts]) for fold in mapped]
    return UnseenScores(
        counts,
        np.stack([scores.mean(axis=0) for scores in raw]),
        np.stack([scores.mean(axis=1) for scores in values]),
        [scores[:, :, 1] for scores in values],
    )


def _fit_fold(
    X: Floats, y: Labels, train: Ints, database: WithinClassSums, whitening: WithinClassWhitening
) -> WithinClassWhitening:
    """Fit the map to the labels of some samples; the others are rows of the database."""
    is_labelled = np.isin(np.arange(len(y)), train)
    sums = whitening.summarize(X[is_labelled], y[is_labelled])
    sums = sums + whitening.summarize(X[~is_labelled]) + database
    with ignore_fit_warnings():
        return whitening.from_summary(sums, **whitening.get_params())


def measure_database_folds(
    X: Floats,
    y: Labels,
    database: WithinClassSums,
    whitening: WithinClassWhitening,
    folds: Folds,
    counts: Ints,
    method: str,
    *,
    seed: int = 0,
) -> list[FoldResult]:
    """Measure the search for test samples, mapped and raw, by the cosine.

    Test samples of classes that the fit has are searched among its labelled samples. Those of
    classes that are held out are searched among themselves, and among all labelled samples.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Labelled samples.
    y : ndarray of shape (n_samples,)
        Their labels.
    database : WithinClassSums
        Sums over the rows without labels.
    whitening : WithinClassWhitening
        Parameters of the map.
    folds : list of (train, test)
        Indices of labelled and of test samples. The latter are rows of the database.
    counts : ndarray of int of shape (n_folds,)
        Number of components of each fold.
    method : str
        Name of the map in the rows.
    seed : int, default=0
        Seed of the draw of queries.

    Returns
    -------
    list of FoldResult
        Rows of 1-NN on the raw vectors and of the map, with "retrieval" and, for classes that are
        held out, "retrieval_among_all".
    """
    rows = []
    for number, ((train, test), count) in enumerate(zip(folds, counts, strict=True)):
        selected = clone(whitening).set_params(n_components=int(count))
        model = _fit_fold(X, y, train, database, selected)
        is_held_out = is_unseen(y[train], y[test])
        queries = test[draw_queries(len(test), len(y) if is_held_out else len(train), seed)]
        for name, Z in ((BASELINE, normalize(X)), (method, np.asarray(model.transform(X)))):
            row = FoldResult(problem="", method=name, fold=number, queries=queries)
            row["cv_dimension"] = Z.shape[1]
            if is_held_out:
                places = np.searchsorted(test, queries)
                row["retrieval"] = measure_search(Z[test], y[test], rows=places)
                row["retrieval_among_all"] = measure_search(Z, y, rows=queries)
            else:
                row["retrieval"] = measure_search(Z[train], y[train], Z[queries], y[queries])
            rows.append(row)
    return rows


def _score(Z: Floats, y: Labels) -> Floats:
    """Return recall at 1 and MAP@R (n_queries, 2) by the cosine, each among all other samples."""
    scores = score_queries(normalize(Z), y, measures=_MEASURES)
    counts = scores.n_relevant > 0
    return np.stack([scores.values[name][counts] for name in _MEASURES], axis=1)
