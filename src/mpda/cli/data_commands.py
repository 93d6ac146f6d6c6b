"""``mpda compare`` and ``mpda partition``: questions about data before a model is kept."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda.cli import fit_steps, messages, model_results, options, retrieval_results
from mpda.cli.options import FeatureOptions, MeasurementOptions, ResultFiles
from mpda.cli.table_source import (
    TableSource,
    check_classes,
    check_outputs,
    check_table_output,
    read_samples,
)
from mpda.cli.terminal import Terminal, stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from mpda._lib.array_types import Floats
    from mpda.cli.tables.reading import Table

_DEFAULT_METHODS = ("1-nn", "logistic-regression", "pca", "lda", "shrinkage-lda", "lfda", "mpda")


def compare(
    terminal: Terminal,
    source: TableSource,
    features: FeatureOptions,
    measurement: MeasurementOptions,
    methods: Annotated[list[str] | None, typer.Option(metavar="NAMES")] = None,
    out: Path = Path("comparison"),
) -> None:
    """Compare methods by nested cross-validation; print a table and write a report.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    source : TableSource
        The samples.
    features : FeatureOptions
        Preparation of the features.
    measurement : MeasurementOptions
        Number of components, folds.
    methods : list of str, default=None
        Methods, separated by commas or spaces, or all. Default: 1-nn, logistic-regression, pca,
        lda, shrinkage-lda, lfda and mpda. Tables of vectors always have logistic-regression.
    out : Path, default="comparison"
        Directory for results.json and report.html.
    """
    from mpda import assessment
    from mpda.estimators.methods import BY_NAME
    from mpda.report.verdict import describe_classifier, recommend_method

    if measurement.n_folds < 2:
        stop("mpda: a comparison needs --folds 2 or more.", 2)
    names = [assessment.BASELINE, assessment.CLASSIFIER, *BY_NAME, assessment.AUTOMATIC]
    if methods != ["all"]:
        names = options.parse_names(methods or _DEFAULT_METHODS, names, "--methods")
    files = ResultFiles(out / "results.json", out / "report.html")
    source.check(files.results, files.report)
    protocol = measurement.make_protocol(features.scaled)
    table = read_samples(source, terminal, features, measurement.groups)
    if fit_steps.has_vectors(table):
        names = list(dict.fromkeys([*names, assessment.CLASSIFIER]))
    contenders = [
        assessment.make_contender(n, search=measurement.search, euclidean=measurement.is_picture)
        for n in names
    ]
    n_folds, notes = check_classes(table, measurement.folds)
    n_unseen = retrieval_results.count_unseen_folds(table, measurement)
    terminal.print_notes(notes)
    n_printed = len(notes)
    asked, measurement = measurement, replace(measurement, folds=n_folds)
    protocol = replace(protocol, n_folds=n_folds, columns=features.make_columns(table))
    protocol = replace(protocol, by_cosine=table.embedding is not None)
    unseen = assessment.Assessment([], {})
    with terminal.progress(n_folds + n_unseen, "measuring the error") as progress:
        protocol = fit_steps.spend_budget(table, contenders, protocol, measurement)
        measured = fit_steps.measure_errors(table, contenders, protocol, measurement, progress)
        if n_unseen:
            unseen = fit_steps.measure_unseen(
                table, contenders, protocol, measurement, n_unseen, progress
            )
    notes += fit_steps.describe_limits(table, measured.rows, protocol, measurement)
    notes += [f"{name} has no result: {reason}" for name, reason in measured.failed.items()]
    notes += [f"--unseen: {name} has no result: {why}" for name, why in unseen.failed.items()]
    retrieval_names = {entry.name: entry.name for entry in contenders}
    retrieval_names |= {assessment.BASELINE: "raw"}
    retrieval = retrieval_results.collect_folds(
        table, measured.rows, unseen.rows, protocol, retrieval_names
    )
    excluded = (assessment.BASELINE, assessment.CLASSIFIER, *measured.failed)
    candidates = {entry.name: entry for entry in contenders if entry.name not in excluded}
    if not candidates:
        reason = messages.make_sentence(notes[-1] if measured.failed else "no map was compared")
        raise TableError(f"No method has a result. {reason}")
    rows = measured.rows
    recommended = recommend_method(rows, list(candidates))
    best = recommended.method  # the report has a model of it
    if protocol.n_components is not None:
        # A method may have fewer components than the user asked for.
        counts = [row["cv_dimension"] for row in rows if row["method"] == best]
        protocol = replace(protocol, n_components=min(protocol.n_components, *counts))
    selected = assessment.select_model(
        table.samples, table.labels, candidates[best], protocol, groups=table.groups
    )
    n_choosing = protocol.count_choosing(table.n_samples)
    model = model_results.MeasuredModel(
        table,
        best,
        selected,
        rows,
        n_choosing,
        candidates=tuple(candidates),
        retrieval=retrieval,
        for_unseen=protocol.for_unseen,
    )
    verdict, *sentences, next_step = model.verdict
    commands, lines = {}, []
    if recommended.helps and not model.label_copies:
        caveat = "It was selected by these errors, so its error on new samples is probably higher."
        sentences = [verdict, *sentences]
        verdict = f"{recommended.reason} {caveat}"
        next_step = f"Next: fit {best} and use the model."
        asked = replace(asked, components=protocol.n_components)
        words = options.list_words(source, features, asked)
        method = ["--method", best.lower().replace(" ", "-")]
        fit = shlex.join(["mpda", "fit", str(source.data), *words, *method])
        commands = {f"Fit {best} and keep the model:": fit}
        lines = [f"    {fit}"]
    elif not model.label_copies:
        verdict = recommended.reason
    title = f"{table.name}: comparison of methods"
    summary = [verdict, *sentences, next_step]
    collected = model.collect(title, terminal.command, summary, notes, commands)
    lines = [
        *(messages.describe_table(table), ""),
        *messages.describe_comparison(rows, model.judged),
        *(*retrieval_results.format_methods(retrieval), ""),
        *map(messages.wrap, [verdict, *describe_classifier(rows, best), *model.preparation]),
        *(messages.wrap(next_step), *lines),
    ]
    results, paths = model_results.select_for_json(collected), files.write(collected)
    terminal.finish(results, lines, notes[n_printed:], paths)


def partition(
    terminal: Terminal,
    source: TableSource,
    features: FeatureOptions,
    max_patch_size: options.Count = 10,
    partition_neighbors: options.Count = 6,
    out: Path | None = None,
    report: Path | None = None,
    jobs: options.Count = 1,
) -> None:
    """Cut the samples of each class into small patches that are nearly flat.

    Without --label all samples are one class, and --scale auto does not standardise.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    source : TableSource
        The samples.
    features : FeatureOptions
        Preparation of the features, as for mpda fit.
    max_patch_size : int, default=10
        Largest number of samples in a patch.
    partition_neighbors : int, default=6
        Number of neighbours of a sample in the graph along which distances are measured.
    out : Path, default=None
        Table to write, with the patch of every sample: CSV, TSV, Parquet, Arrow or .npy.
    report : Path, default=None
        HTML page to write: a report with figures.
    jobs : int, default=1
        Number of classes computed in parallel.
    """
    import numpy as np

    from mpda import ManifoldPartition
    from mpda.cli.tables.check import check_table
    from mpda.cli.tables.files import write_table
    from mpda.report import collect

    check_table_output(out)
    check_outputs([source.data], out, report)
    table = read_samples(source, terminal, features)
    notes = table.describe_skipped() if table.y is None else check_table(table)
    terminal.print_notes(notes)
    y = table.y if table.y is not None else np.full(table.n_samples, "all")
    X, reasons = _prepare_features(table, features)
    patches = ManifoldPartition(
        partition_neighbors=partition_neighbors, max_patch_size=max_patch_size
    )
    with terminal.progress(1, "computing patches"):
        patches.set_params(n_jobs=jobs).fit(X, y)
    section = collect.collect_partition(X, y, patches.labels_, patches.patch_linearity_)
    sections = {"data": collect.collect_data(table.to_report()), "partition": section}
    sections["data"]["notes"] = [*map(messages.make_sentence, notes)]
    excess = 100 * (patches.patch_linearity_.mean() - 1)
    summary = (
        f"{len(patches.labels_)} samples in {len(patches.patch_sizes_)} patches of at most "
        f"{patches.patch_sizes_.max()} samples. Inside a patch, a path along the samples is on "
        f"average {excess:.1f} % longer than the straight line (0 %: the patch is flat)."
    )
    title = f"{table.name}: patches"
    sentences = [summary, *map(messages.make_sentence, reasons)]
    results = collect.collect_results(title, terminal.command, sentences, sections)
    files = ResultFiles(report=report).write(results)
    if out is not None:
        labels = {} if table.y is None else {table.label or "label": table.y}
        write_table(out, patches.labels_[:, None], ["patch"], {"row": table.rows, **labels})
        files.append(out)
    classes = [_summarize_class(entry) for entry in section["classes"]]
    lines = [messages.describe_table(table), *(f"    {reason}" for reason in reasons), ""]
    lines += [messages.wrap(summary), "", *messages.format_table(classes)]
    lines.append("linearity: path along the samples / straight line")
    found = {"classes": classes, "preparation": reasons, "notes": notes}
    terminal.finish(found, lines, files=files)


def _prepare_features(table: Table, features: FeatureOptions) -> tuple[Floats, list[str]]:
    """Return the samples as ``mpda fit`` encodes and standardises them, and why."""
    from mpda.assessment import Split, make_contender
    from mpda.assessment.column_transformer import encode_samples
    from mpda.assessment.model_choice import ignore_fit_warnings
    from mpda.assessment.preparation import Preparation, decide_preparation

    scaled = features.scaled
    X = encode_samples(features.make_columns(table), table.samples)
    preparation = Preparation(bool(scaled), None)
    if table.y is not None:
        samples = Split(X, table.y, X[:0], table.y[:0])
        contender = make_contender("MPDA", search=False)
        with ignore_fit_warnings():
            preparation = decide_preparation(contender, samples, scaled=scaled, energy=None, seed=0)
    for _, step in preparation.make_steps():  # only the scaler, since X is encoded
        X = step.fit_transform(X)
    return X, list(preparation.reasons)


def _summarize_class(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of one class for the table and the JSON object."""
    sizes, ratios = entry["sizes"], entry["linearity"]
    return {
        "label": entry["label"],
        "samples": sum(sizes),
        "patches": len(sizes),
        "mean_size": sum(sizes) / len(sizes),
        "mean_linearity": sum(ratios) / len(ratios),
        "largest_linearity": max(ratios),
    }
