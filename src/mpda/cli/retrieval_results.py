"""Measures of retrieval of ``fit``, ``compare`` and ``evaluate``: collected, and as lines of text.

Rows of the folds become the section "retrieval" of the results (`mpda.report.retrieval`): classes
of the fit ("seen"), and with ``--unseen`` classes that folds hold out, searched among themselves
("unseen") and among all samples ("unseen_among_all").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mpda.cli import messages
from mpda.cli.options import MeasurementOptions, SelectionTarget
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda._lib.array_types import Floats
    from mpda.assessment import (
        AssessmentProtocol,
        Evaluation,
        FoldResult,
        SelectedModel,
        Split,
    )
    from mpda.assessment.retrieval_estimates import QueryValues
    from mpda.cli.tables.reading import Table

Section = dict[str, Any]
N_UNSEEN_FOLDS = 4
"""Folds that hold out classes, as many as UnseenClassFolds has by default."""
# Least number of classes: two for each of two folds. Settings are selected by such folds of the
# classes that are left, of which there must be four, too.
_MIN_CLASSES, _MIN_NESTED_CLASSES = 4, 6
_INTERVAL = (
    "Intervals: 95 %, Wilson's with an effective number of queries; the fits are taken as they are."
)


def count_unseen_folds(table: Table, measurement: MeasurementOptions) -> int:
    """Return the number of folds that hold out classes.

    Parameters
    ----------
    table : Table
        Samples with labels.
    measurement : MeasurementOptions
        Whether classes that were not seen are measured, or select settings.

    Returns
    -------
    int
        0 without --unseen.

    Raises
    ------
    TableError
        If there are too few classes.
    """
    from mpda.model_selection.unseen_classes import count_unseen_folds

    selects = measurement.select_for == SelectionTarget.UNSEEN
    if not (measurement.unseen or selects):
        return 0
    n_folds = count_unseen_folds(table.labels, N_UNSEEN_FOLDS)
    n_least = _MIN_NESTED_CLASSES if measurement.unseen and selects else _MIN_CLASSES
    n_classes = _count_repeated_classes(table)
    if n_classes < n_least:
        words = "--unseen" if measurement.unseen else "--select-for unseen"
        words += " --select-for unseen" if measurement.unseen and selects else ""
        raise TableError(
            f"{words} holds out whole classes and needs {n_least} of at least two samples; "
            f"{table.name} has {n_classes}."
        )
    return n_folds if measurement.unseen else 0


def _count_repeated_classes(table: Table) -> int:
    from mpda.model_selection.unseen_classes import find_repeated_classes

    return len(set(table.labels[find_repeated_classes(table.labels)].tolist()))


def collect_folds(
    table: Table,
    rows: Sequence[FoldResult],
    unseen: Sequence[FoldResult],
    protocol: AssessmentProtocol,
    names: Mapping[str, str],
    n_numbers: Mapping[str, float] | None = None,
) -> Section:
    """Collect the measures of retrieval of methods.

    Parameters
    ----------
    table : Table
        The samples.
    rows, unseen : sequence of FoldResult
        Rows of folds by samples, and of folds that hold out classes.
    protocol : AssessmentProtocol
        How the raw vectors were compared.
    names : mapping of str to str
        Names in the section by the names of the methods; others are left out.
    n_numbers : mapping of str to float, default=None
        Numbers of a vector, by method. Of others the mean over the folds is taken.

    Returns
    -------
    dict
        The section "retrieval", empty without rows.
    """
    from mpda.assessment.retrieval_estimates import estimate_rows
    from mpda.report.retrieval import collect_retrieval

    section: Section = {}
    for search, folds, clusters, key in (
        ("seen", rows, table.groups, "retrieval"),
        ("unseen", unseen, table.labels, "retrieval"),
        ("unseen_among_all", unseen, table.labels, "retrieval_among_all"),
    ):
        estimates = estimate_rows(folds, clusters, key) if folds else {}
        for method, estimate in estimates.items():
            if method in names:
                counts = [row["cv_dimension"] for row in folds if row["method"] == method]
                number = (n_numbers or {}).get(method, sum(counts) / len(counts))
                row = collect_retrieval(estimate, method, number)
                section.setdefault(search, {})[names[method]] = row
    return {"how": _describe_folds(section, rows, unseen, protocol), **section} if section else {}


def _describe_folds(
    section: Section,
    rows: Sequence[FoldResult],
    unseen: Sequence[FoldResult],
    protocol: AssessmentProtocol,
) -> str:
    """Explain how the measures of folds were computed."""
    sentences = []
    if "seen" in section:
        sentences.append(
            f"Classes of the fit: {_count_folds(rows)} folds, whose samples are searched among "
            "those of the fit."
        )
    if "unseen" in section:
        sentences.append(
            f"Classes not seen: {_count_folds(unseen)} folds hold out whole classes. Preparation, "
            "settings and map are those of the other classes. Intervals take the classes as a "
            "sample of the classes to come."
        )
    raw = "compared by the cosine" if protocol.by_cosine else "as 1-NN compares them"
    return " ".join([*sentences, f"Raw vectors are {raw}.", _describe_draw(section), _INTERVAL])


def _count_folds(rows: Sequence[FoldResult]) -> int:
    return len({row["fold"] for row in rows})


def _describe_draw(section: Section) -> str:
    """Say how many queries were searched; those of a large table are drawn."""
    counts = {row["n_queries"] for rows in section.values() for row in rows.values()}
    number = " or ".join(f"{count:,}" for count in sorted(counts))
    return f"Queries: {number}; of many samples at most 4,000 are drawn at random."


def collect_test(
    table: Table, test: Table, selected: SelectedModel, protocol: AssessmentProtocol, method: str
) -> Section:
    """Collect the measures of samples that took no part in the fit, searched among its samples.

    Parameters
    ----------
    table : Table
        Samples of the fit.
    test : Table
        The queries.
    selected : SelectedModel
        The model.
    protocol : AssessmentProtocol
        How the raw vectors are compared.
    method : str
        Name of the method.

    Returns
    -------
    dict
        The section "retrieval" with the rows "test".
    """
    from mpda.assessment import BASELINE, Split, make_contender
    from mpda.assessment.data_split import preprocess, scale_to_unit_length
    from mpda.assessment.evaluation import unify_labels
    from mpda.assessment.retrieval_estimates import QueryValues, draw_queries, measure_search

    drawn = draw_queries(test.n_samples, table.n_samples, protocol.seed)
    test = test.select(drawn)
    y_test, y = unify_labels(test.labels, table.labels)
    X, X_test = map(protocol.take_samples, (table.samples, test.samples))
    samples = Split(X, y, X_test, y_test)
    mapped = _map_split(selected.model, Split(table.samples, y, test.samples, y_test))
    if protocol.by_cosine:
        raw = scale_to_unit_length(samples)
    else:
        prepared = protocol.prepare(make_contender(BASELINE, search=False), samples)
        raw = preprocess(samples, prepared.make_steps())
    of_map, of_raw = (QueryValues(measure_search(s.X, y, s.X_test, y_test)) for s in (mapped, raw))
    numbers = [mapped.X.shape[1], raw.X.shape[1]]
    return {"test": _collect_pair(of_map, of_raw, method, numbers)}


def collect_evaluation(
    pipeline: Pipeline, table: Table, evaluation: Evaluation, method: str
) -> Section:
    """Collect the measures of a model on labelled samples.

    Parameters
    ----------
    pipeline : Pipeline
        The model.
    table : Table
        The samples.
    evaluation : Evaluation
        Mapped samples and their labels.
    method : str
        Name of the method.

    Returns
    -------
    dict
        The section "retrieval": samples of the table are searched among themselves, mapped and
        raw. Rows have the name "unseen" if the fit had none of the classes, else "among_rows".
        With "among_fit", mapped samples are searched among those of the fit, which a model keeps
        mapped only.
    """
    from mpda.assessment.evaluation import search_training_samples
    from mpda.assessment.retrieval_estimates import (
        QueryValues,
        draw_queries,
        estimate_retrieval,
        measure_search,
    )
    from mpda.report.retrieval import collect_retrieval

    y, Z, n = evaluation.y, evaluation.Z, len(evaluation.y)
    queries, raw = draw_queries(n, n, 0), _take_raw(pipeline, table)
    is_unseen = evaluation.leave_one_out and evaluation.unknown_labels.size > 0
    clusters = y[queries] if is_unseen else None
    of_map, of_raw = (QueryValues(measure_search(A, y, rows=queries), clusters) for A in (Z, raw))
    numbers = [Z.shape[1], raw.shape[1]]
    name = "unseen" if is_unseen else "among_rows"
    section = {name: _collect_pair(of_map, of_raw, method, numbers)}
    n_fit = getattr(pipeline.steps[-1][1], "n_samples_fit_", 0)
    among_fit = search_training_samples(pipeline, evaluation, draw_queries(n, n_fit, 0))
    if among_fit is not None and not is_unseen:
        estimate = estimate_retrieval(QueryValues(among_fit))
        section["among_fit"] = {"map": collect_retrieval(estimate, method, numbers[0])}
    compared = "by the cosine" if table.embedding is not None else "by Euclidean distance"
    how = f"Raw vectors are compared {compared}. {_describe_draw(section)} {_INTERVAL}"
    return {"how": how, **section}


def _take_raw(pipeline: Pipeline, table: Table) -> Floats:
    """Return the features of a table, of a model that standardises them standardised.

    Embeddings are vectors of length 1, compared by the cosine.
    """
    import numpy as np
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler, normalize

    if table.embedding is not None:
        return np.asarray(normalize(table.X))
    kinds = (ColumnTransformer, SimpleImputer, StandardScaler)
    steps = list(takewhile(lambda step: isinstance(step[1], kinds), pipeline.steps))
    return np.asarray(pipeline[: len(steps)].transform(table.samples) if steps else table.samples)


def _map_split(model: Pipeline, samples: Split) -> Split:
    import numpy as np

    from mpda.assessment import Split
    from mpda.cli.model_results import remove_neighbors

    mapping = remove_neighbors(model)
    Z, Z_test = (np.asarray(mapping.transform(X)) for X in (samples.X, samples.X_test))
    return Split(Z, samples.y, Z_test, samples.y_test)


def _collect_pair(
    mapped: QueryValues, raw: QueryValues, method: str, n_numbers: Sequence[int]
) -> Section:
    """Return the rows of mapped and of raw vectors, with these numbers."""
    from mpda.assessment import BASELINE
    from mpda.assessment.retrieval_estimates import estimate_retrieval
    from mpda.report.retrieval import collect_retrieval

    return {
        "raw": collect_retrieval(estimate_retrieval(raw), BASELINE, n_numbers[1]),
        "map": collect_retrieval(estimate_retrieval(mapped, raw), method, n_numbers[0]),
    }


def describe_draw(rows: Sequence[FoldResult]) -> list[str]:
    """Say that the queries of large folds were drawn at random.

    Parameters
    ----------
    rows : sequence of FoldResult
        Rows of folds by samples.

    Returns
    -------
    list of str
        One note, none if all samples of the folds were queries.
    """
    folds = {row["fold"]: row for row in rows if "queries" in row}.values()
    n_queries = sum(len(row["queries"]) for row in folds)
    if n_queries == sum(row["n_test"] for row in folds):
        return []
    return [f"the search was measured on {n_queries:,} queries, drawn at random"]


def list_bytes(section: Section) -> dict[str, int]:
    """Return the bytes of a mapped and of a raw vector.

    Parameters
    ----------
    section : dict
        The section "retrieval" of a fit.

    Returns
    -------
    dict of str to int
        "map" and "raw", empty where nothing was measured.
    """
    for rows in _list_searches(section).values():
        return {name: row["bytes"] for name, row in rows.items()}
    return {}


def _list_searches(section: Section) -> dict[str, Section]:
    from mpda.report.retrieval import SEARCHES

    return {name: section[name] for name in SEARCHES if name in section}


def retrieval_lines(section: Section, *, sizes: bool = True) -> list[str]:
    """Describe a search with mapped vectors next to one with raw vectors, both in float32.

    Parameters
    ----------
    section : dict
        The section "retrieval" of a fit.
    sizes : bool, default=True
        True ends the first line with the bytes of a vector.

    Returns
    -------
    list of str
        At most two lines: classes of the fit, and classes that were not seen.
    """
    lines = []
    seen = section.get("seen") or section.get("test")
    if seen and _has_queries(seen):
        counts = f"; {seen['map']['bytes']:,} bytes instead of {seen['raw']['bytes']:,}"
        found = _compare(seen, "recall_at_1", "map_at_r")
        lines.append(f"Search: {found}{counts if sizes else ''}.")
    unseen = section.get("unseen")
    if unseen and _has_queries(unseen):
        text = f"Classes not seen: {_compare(unseen, 'recall_at_1', 'map_at_r')}"
        among_all = section.get("unseen_among_all")
        if among_all:
            mapped, raw = (among_all[name]["map_at_r"]["value"] for name in ("map", "raw"))
            text += f", among all {mapped:.3f} ({raw:.3f})"
        lines.append(f"{text}.")
    return lines


def _has_queries(rows: Section) -> bool:
    return {"map", "raw"} <= set(rows) and rows["map"]["n_queries"] > 0


def _compare(rows: Section, *measures: str) -> str:
    from mpda.report.retrieval import TITLES

    return ", ".join(
        f"{TITLES[name]} {rows['map'][name]['value']:.3f} (raw {rows['raw'][name]['value']:.3f})"
        for name in measures
    )


def format_measures(section: Section) -> list[str]:
    """Format the measures of ``evaluate`` as tables.

    Parameters
    ----------
    section : dict
        The section "retrieval".

    Returns
    -------
    list of str
        One table for all searches: a line for each measure, with its 95 % interval. Then how it was
        measured.
    """
    from mpda.report.retrieval import SEARCHES, TITLES

    columns = {
        f"{name}, {SEARCHES[search]}": row
        for search, rows in _list_searches(section).items()
        for name, row in rows.items()
        if row["n_queries"]
    }
    if not columns:
        return ["No class has two samples, so that a search has nothing to find."]
    table = [
        {"": title, **{column: _format_mean(row[name]) for column, row in columns.items()}}
        for name, title in TITLES.items()
    ]
    return [*messages.format_table(table), messages.wrap(section["how"])]


def _format_mean(mean: Mapping[str, float | None]) -> str:
    if mean["value"] is None:
        return "-"
    return f"{mean['value']:.3f} ({mean['low']:.3f} to {mean['high']:.3f})"


def format_methods(section: Section) -> list[str]:
    """Format the measures of ``compare`` as tables.

    Parameters
    ----------
    section : dict
        The section "retrieval".

    Returns
    -------
    list of str
        A table for each search, with a line for each method.
    """
    from mpda.report.retrieval import SEARCHES, TITLES

    lines: list[str] = []
    for search, rows in _list_searches(section).items():
        table = [
            {"": name, **{title: _format_value(row[key]) for key, title in TITLES.items()}}
            for name, row in rows.items()
        ]
        lines += ["", f"Search, {SEARCHES[search]}:", *messages.format_table(table)]
    return lines


def _format_value(mean: Mapping[str, float | None]) -> str:
    return "-" if mean["value"] is None else f"{mean['value']:.3f}"
