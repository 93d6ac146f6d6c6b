"""Methods side by side on one set of samples, by nested cross-validation; and the model to keep."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.validation import check_count
from mpda.assessment._contender import Contender
from mpda.assessment._expected import expected_warnings
from mpda.assessment._scores import (
    FoldResult,
    Selection,
    assess_baseline,
    assess_split,
    compute_scores,
)
from mpda.assessment._split import Preprocessing, Split, better_scaled, default_pca_energy, one_nn
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.methods import method
from mpda.parallel import map_ordered

BASELINE = "1-NN"
# Tried where every number of components needs a fit of its own.
_FEW = (1, 2, 3, 5, 10, 20, 40)
_OWN_FITS = ("NCA", "LSDR")
# Beyond the defaults of their classes.
_USUAL: dict[str, dict[str, Any]] = {
    "NCA": {"random_state": 0},
    "shrinkage LDA": {"shrinkage": "auto"},
}


@dataclass(frozen=True)
class AssessmentProtocol:
    """How methods are assessed and chosen.

    n_folds : of the outer cross-validation, which only measures
    n_inner : of the inner one, which chooses numbers of components and parameters
    scaled : whether features are standardised; None lets the training part decide
    energy : the share of the variance that PCA keeps before the method, None for no PCA; "usual"
        is 0.95 where there are more than 100 features
    n_components : None lets the inner folds choose; where methods are compared, those of
        scikit-learn that have fewer take what they have
    seed : of all folds
    """

    n_folds: int = 5
    n_inner: int = 4
    scaled: bool | None = None
    energy: float | str | None = "usual"
    n_components: int | None = None
    seed: int = 0

    def within(self, each: Contender, part: Split) -> AssessmentProtocol:
        """With no more components than a method of scikit-learn has."""
        if self.n_components is None or each.method is None or each.method.is_ours:
            return self
        most = part.X.shape[1]
        if "LDA" in each.name:
            most = min(most, len(np.unique(part.y)) - 1)
        return replace(self, n_components=min(self.n_components, most))

    def preparation(self, X: Floats, y: Labels) -> Preprocessing:
        """What is done to the features, by the samples that train."""
        scaled = better_scaled(X, y, self.seed) if self.scaled is None else self.scaled
        energy = default_pca_energy(X.shape[1]) if isinstance(self.energy, str) else self.energy
        return Preprocessing(scaled, energy)


def make_contender(name: str, *, search: bool) -> Contender:
    """A method of the list, or 1-NN on the features; ``search`` opens its parameters too."""
    if name == BASELINE:
        return Contender(name)
    chosen = method(name)
    grid = chosen.grid if search else {}
    usual = {key: value for key, value in _USUAL.get(name, {}).items() if key not in grid}
    dimensions = _FEW if name in _OWN_FITS else None
    return Contender(name, chosen, {**chosen.always, **usual}, grid, dimensions=dimensions)


Progress = Callable[[str], None]


def count_steps(contenders: Sequence[Contender], protocol: AssessmentProtocol) -> int:
    """How often ``assess_methods`` reports."""
    return len(contenders) * protocol.n_folds


@dataclass(frozen=True)
class Assessment:
    """rows : as tables are made of; failed : what methods said that have no rows"""

    rows: list[FoldResult]
    failed: dict[str, str]


def assess_methods(
    X: Floats,
    y: Labels,
    contenders: Sequence[Contender],
    protocol: AssessmentProtocol,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Assessment:
    """A row for every contender and outer fold, contenders in their order.

    A method that fails in a fold has no rows. A row has "tested", the samples that it is about,
    and "predicted", their labels by 1-NN at the chosen number of components.
    """
    folds = _folds(y, protocol.n_folds, protocol.seed)
    work = [(each, fold) for each in range(len(contenders)) for fold in range(len(folds))]
    pieces = ((X, y, contenders[each], fold, folds[fold], protocol) for each, fold in work)
    found = []
    for row in map_ordered(_assessed_once, pieces, len(work), n_jobs=n_jobs):
        found.append(row)
        if progress is not None:
            progress(row["method"])
    failed = {row["method"]: row["error"] for row in reversed(found) if "error" in row}
    return Assessment([row for row in found if row["method"] not in failed], failed)


def _assessed_once(
    X: Floats,
    y: Labels,
    each: Contender,
    number: int,
    fold: tuple[Ints, Ints],
    protocol: AssessmentProtocol,
) -> FoldResult:
    train, test = fold
    about = {"problem": "", "method": each.name, "seed": number}
    try:
        found = _fold_row(X, y, each, fold, protocol)
    except Exception as error:  # of whatever kind, it says that the method has no answer here
        said = " ".join(str(error).split()) or type(error).__name__
        return {**about, "error": said}
    # Folds share training samples, which tests and intervals have to know.
    return {**about, **found, "tested": test, "test_share": len(test) / len(train)}


def _fold_row(
    X: Floats, y: Labels, each: Contender, fold: tuple[Ints, Ints], protocol: AssessmentProtocol
) -> FoldResult:
    train, test = fold
    # A fit without an answer is an error and is told; small classes are named once.
    with expected_warnings():
        raw = Split(X[train], y[train], X[test], y[test])
        preparation = protocol.preparation(raw.X, raw.y)
        if each.method is None:
            # Neighbours among all features: PCA is for the methods.
            part = Preprocessing(preparation.scaled).applied(raw)
            row, predicted = assess_baseline(part), one_nn(part)
        else:
            part = preparation.applied(raw)
            protocol = protocol.within(each, part)
            each = _measured_at(each, protocol.n_components)
            row = assess_split(each, part, partial(chosen, protocol=protocol))
            begin = time.perf_counter()
            fitted = each.estimator(row["parameters"], row["cv_dimension"]).fit(part.X, part.y)
            row["fit_seconds"] = time.perf_counter() - begin
            mapped = (np.asarray(fitted.transform(values)) for values in (part.X, part.X_test))
            predicted = one_nn(Split(next(mapped), part.y, next(mapped), part.y_test))
    return {**row, "predicted": predicted}


def _measured_at(each: Contender, n_components: int | None) -> Contender:
    """With the number of components that was asked for among those that are fitted."""
    if each.dimensions is None or n_components is None:
        return each
    return replace(each, dimensions=tuple(sorted({*each.dimensions, n_components})))


def chosen(each: Contender, X: Floats, y: Labels, *, protocol: AssessmentProtocol) -> Selection:
    """Parameters and number of components, by the inner folds of the samples given."""
    assert each.method is not None
    asked = protocol.n_components
    if asked is not None and not each.grid:
        return Selection({}, asked)
    n_inner = min(protocol.n_inner, int(np.unique(y, return_counts=True)[1].max()))
    grid = {name: list(values) for name, values in each.grid.items()}
    own = tuple(r for r in each.dimensions or () if r <= X.shape[1])
    if each.method.is_ours:
        search = DiscriminantSearchCV(
            each.estimator({}),
            grid,
            cv=n_inner,
            n_components=[asked] if asked is not None else own or "all",
            refit=False,
            random_state=protocol.seed,
        ).fit(X, y)
        point = dict(search.best_params_)
        return Selection(point, point.pop("n_components"))
    table = compute_scores(each, dict(each.grid), X, y, _folds(y, n_inner, protocol.seed))
    if asked is not None:
        kept = table.dimensions == asked
        table = type(table)(table.points, table.dimensions[kept], table.scores[:, kept])
    return table.best()


@dataclass(frozen=True)
class SelectedModel:
    """A model fitted to all samples, and what was chosen for it."""

    model: Pipeline
    choice: Selection
    preparation: Preprocessing


def select_model(
    X: Any, y: Labels, each: Contender, protocol: AssessmentProtocol, *, neighbors: bool = True
) -> SelectedModel:
    """Preparation, method and 1-NN as one pipeline, fitted to all samples.

    X may be a data frame, whose names of features the model keeps. ``neighbors`` says whether 1-NN
    is part of it: that keeps the mapped samples and their labels.
    """
    values = np.asarray(X)
    with expected_warnings():
        preparation = protocol.preparation(values, y)
        _refuse_more_than_there_are(each, protocol, Split(values, y, values, y))
        prepared = values
        for _, step in preparation.steps():
            prepared = step.fit_transform(prepared)
        choice = chosen(each, prepared, y, protocol=protocol)
        name = each.name.lower().replace(" ", "_")
        steps = [*preparation.steps(), (name, each.estimator(choice.point, choice.dimension))]
        if neighbors:
            steps.append(("neighbors", KNeighborsClassifier(1, algorithm="brute")))
        return SelectedModel(Pipeline(steps).fit(X, y), choice, preparation)


def _refuse_more_than_there_are(each: Contender, protocol: AssessmentProtocol, part: Split) -> None:
    most = protocol.within(each, part).n_components
    if most != protocol.n_components:
        raise ValueError(
            f"{each.name} has at most {most} components here, not {protocol.n_components}."
        )


def _folds(y: Labels, n_folds: int, seed: int) -> list[tuple[Ints, Ints]]:
    check_count("n_folds", n_folds, least=2)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    with expected_warnings():
        return list(splitter.split(np.zeros(len(y)), y))
