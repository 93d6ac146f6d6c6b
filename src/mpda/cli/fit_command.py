"""``mpda fit``: from a table of labelled samples to a model file and a measured error.

Steps: read the table, fit a pipeline (scaling, PCA, method, 1-NN) to all samples, measure its error
by nested cross-validation next to 1-NN and LDA, write the model, print a summary.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda.cli import (
    fit_steps,
    messages,
    model_results,
    new_samples,
    options,
    retrieval_results,
    stored_vectors,
)
from mpda.cli.answer import make_answer
from mpda.cli.cluster_fit import fit_on_cluster
from mpda.cli.database_fit import METHOD, DatabaseFit, fit_with_database
from mpda.cli.model_results import MeasuredModel
from mpda.cli.options import FeatureOptions, MeasurementOptions, ResultFiles
from mpda.cli.table_source import (
    MIN_SAMPLES,
    TableSource,
    check_classes,
    check_outputs,
    read_samples,
    read_test_samples,
)
from mpda.cli.terminal import Terminal, stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda.assessment import Contender, SelectedModel
    from mpda.cli.tables.reading import Table

# Seconds that a fit takes by default where it chooses the method.
_TIME_BUDGET = 120.0


def fit(
    terminal: Terminal,
    source: TableSource,
    features: FeatureOptions,
    measurement: MeasurementOptions,
    files: ResultFiles,
    database: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    method: Annotated[str | None, typer.Option(autocompletion=options.list_method_names)] = None,
    parameter: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE")] = None,
    budget: Annotated[int | None, typer.Option("--bytes", min=1, metavar="N")] = None,
    out: Path | None = None,
    keep_samples: bool = True,
    score: options.ScoreName = options.ScoreName.ACCURACY,
    test: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    image: Annotated[str | None, typer.Option(metavar="ROWSxCOLUMNS")] = None,
    text: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    details: Annotated[bool, typer.Option("--details")] = False,
) -> None:
    """Learn a map from the labelled samples of a table and write it to a model file.

    The method is chosen by cross-validation. Prints how often the nearest neighbour in the new
    dimensions has the wrong class, next to the same error for the original features and for LDA.
    Nested cross-validation measures the errors; --folds 0 skips that.

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
    files : ResultFiles
        Results and report.
    database : Path, default=None
        Table of further vectors without labels, also of classes that DATA does not have. Columns
        that are no features of DATA are left out. Within-class whitening is fitted to both tables,
        for searches by cosine similarity, and is measured on classes that are held out.
    method : str, default=None
        Method, for example mpda, mpda-refined, pmpda, lfda or pca. auto: the best of PCA, shrinkage
        LDA, LFDA and MPDA, each refined or not, within a time budget of two minutes, or that of
        --time-budget (inf: none). In a large table only the best one is refined. Default: auto;
        within-class-whitening with --database, and mpda with --scheduler.
    parameter : list of str, default=None
        Parameter of the method; can be repeated.
    budget : int, default=None
        Bytes of a mapped vector, for example 64: cross-validation selects the type of its numbers
        (float32, float16, int8, or one bit) and with it the number of components. mpda transform
        then writes this type. Replaces --components.
    out : Path, default=None
        Model file to write. Default: the name of DATA with .mpda.
    keep_samples : bool, default=True
        Keep the mapped samples in the model, so that it can classify new samples.
    score : ScoreName, default="accuracy"
        Score by which settings are selected. balanced: the mean of the accuracies of the classes,
        for classes of unequal size; the balanced error is then printed, too.
    test : Path, default=None
        Table of samples that take no part in the fit; the error of the model on them is printed.
    image : str, default=None
        The features are pixels of images of this size; the report shows them as images.
    text : str, default=None
        Column with a text or name of each sample, which the report shows. It is no feature.
    details : bool, default=False
        Print how the errors were measured and compared, what was chosen, and all notes.
    """
    from mpda import save
    from mpda.assessment import AUTOMATIC, BASELINE, CLASSIFIER, Assessment, make_contender
    from mpda.io.error_text import count_noun
    from mpda.report import to_json_types

    shape = options.parse_image_shape(image)
    name = source.data.name or source.data.resolve().name  # none in "."
    out = out or Path(Path(name.removesuffix(".gz")).stem + ".mpda")
    if test is not None and not keep_samples:
        stop("mpda: --test compares with the samples of the fit: drop --no-keep-samples.", 2)
    if shape is not None and features.one_hot:
        stop("mpda: --image is for tables of pixels, and --one-hot for tables with text.", 2)
    if measurement.folds == 1:
        stop("mpda: --folds 1 leaves no samples to train on; use 0, or 2 and more.", 2)
    if text is not None and text == source.label:
        stop("mpda: --text names the column of --label, which the report shows anyway.", 2)
    stored_vectors.check_budget(budget, measurement)
    protocol = measurement.make_protocol(features.scaled)
    is_balanced = score == options.ScoreName.BALANCED
    if is_balanced:
        protocol = replace(protocol, scoring="balanced_accuracy")
    if is_balanced and protocol.for_unseen:
        stop("mpda: --score balanced cannot be combined with --select-for unseen.", 2)
    asked, asked_method = measurement, method
    if method is None:
        plain = "mpda" if measurement.scheduler is not None else AUTOMATIC
        method = plain if database is None else METHOD
        if method == AUTOMATIC and parameter:
            stop("mpda: --set needs one method: name it with --method, for example mpda.", 2)
    contender = _make_contender(method, parameter, measurement)
    if contender.choices and measurement.time_budget is None:
        measurement = replace(measurement, time_budget=_TIME_BUDGET)
    source.check(out, files.report, files.results)
    inputs = [path for path in (test, database) if path is not None]
    check_outputs(inputs, out, files.report, files.results)
    if database is not None:
        values: dict[str, Any] = {"--test": test, "--image": image, "--text": text}
        values |= {"--score": is_balanced, "--bytes": budget}
        database_fit = DatabaseFit(database, features, measurement, contender, details)
        database_fit.check(source.data, [*_write_options(values), *options.list_words(files)])
        fit_with_database(terminal, source, database_fit, out, keep_samples=keep_samples)
        return
    saved: dict[str, Any] = {"label": source.label, "method": contender.name}
    saved["command"] = terminal.command
    if measurement.scheduler is not None:
        with_samples = test is not None or text is not None or files != ResultFiles()
        encodes = features.one_hot or features.impute is not None
        held_out = measurement.unseen or protocol.for_unseen
        searches = measurement.search or measurement.groups or held_out
        if with_samples or encodes or searches or protocol.scaled:
            excluded = "--search, --unseen, --select-for, --scale standard, --impute, --one-hot, "
            excluded += "--groups, --test, --text, --report or --results"
            stop(f"mpda: --scheduler cannot be combined with {excluded}.", 2)
        pipeline = fit_on_cluster(measurement.scheduler, source, contender, protocol)
        _finish_on_cluster(terminal, source, pipeline, out, saved)
        return
    table = read_samples(source, terminal, features, measurement.groups, text)
    n_folds, notes = check_classes(table, measurement.folds)
    n_unseen = retrieval_results.count_unseen_folds(table, measurement)
    n_printed = len(notes) if details else 0
    terminal.print_notes(notes[:n_printed])
    measurement = replace(measurement, folds=n_folds)
    columns = features.make_columns(table)
    protocol = replace(protocol, n_folds=max(n_folds, 2), columns=columns)
    protocol = replace(protocol, by_cosine=table.embedding is not None)
    if shape is not None and shape[0] * shape[1] != table.n_features:
        size = f"{table.n_features} features"
        raise TableError(f"--image {image} does not match {table.name}: {size}.")
    n_features = table.n_features
    if not table.categories and (measurement.components or 0) > n_features:
        size = f"{table.name} has {count_noun(n_features, 'feature')}"
        raise TableError(f"--components {measurement.components} is more than there are: {size}.")
    test_table = None
    if test is not None:  # before the fit: a mistake in it should not cost the time of a fit
        test_table = read_test_samples(replace(source, data=test), terminal, features, table)
    names = [name for name in (BASELINE, "LDA") if name != contender.name]
    # On a table of features its fits would take longer than all the others (docs: comparison).
    names += [CLASSIFIER] if fit_steps.has_vectors(table) else []
    others = [make_contender(name, search=False) for name in names]
    compared = [*others, contender] if n_folds else []
    measured = unseen = Assessment([], {})
    storage = None
    n_steps = 1.0 + n_folds + n_unseen + (budget is not None)
    with terminal.progress(n_steps, f"fitting {contender.name}") as progress:
        protocol = fit_steps.spend_budget(table, [contender], protocol, measurement)
        if budget is not None:
            storage = stored_vectors.choose_storage(table, contender, protocol, budget, progress)
            protocol = replace(protocol, n_components=storage.chosen.numbers)
        # The fit comes first: if it fails, the user learns that before the measurement.
        selected = fit_steps.fit_model(
            table, contender, protocol, progress, keep_samples=keep_samples
        )
        if compared:
            measured = fit_steps.measure_errors(table, compared, protocol, measurement, progress)
        if n_unseen:
            pair = [make_contender(BASELINE, search=False), contender]
            unseen = fit_steps.measure_unseen(
                table, pair, protocol, measurement, n_unseen, progress
            )
    if contender.name in measured.failed:  # the errors of the others alone answer no question
        measured = replace(measured, rows=[])
    notes += fit_steps.describe_limits(table, measured.rows, protocol, measurement)
    saved["feature_range"] = fit_steps.compute_feature_range(table)
    tested = None if test_table is None else _evaluate(test_table, selected)
    notes += [f"{name} has no result: {reason}" for name, reason in measured.failed.items()]
    notes += [f"--unseen: {name} has no result: {why}" for name, why in unseen.failed.items()]
    retrieval = retrieval_results.collect_folds(
        table,
        measured.rows,
        unseen.rows,
        protocol,
        {BASELINE: "raw", contender.name: "map"},
        {contender.name: selected.selected.n_components},
    )
    if test_table is not None:
        collect_test = retrieval_results.collect_test
        retrieval |= collect_test(table, test_table, selected, protocol, contender.name)
    n_choosing = protocol.count_choosing(table.n_samples)
    model = MeasuredModel(
        table,
        contender.name,
        selected,
        measured.rows,
        n_choosing,
        image_shape=shape,
        text=table.text,
        balanced=is_balanced,
        retrieval=retrieval,
        for_unseen=protocol.for_unseen,
    )
    saved |= {"label": table.label, "n_samples": table.n_samples, "method": model.map_name}
    saved |= {} if table.embedding is None else {"embedding": table.embedding}
    chosen_type = None if storage is None else storage.chosen.type
    saved["vectors"] = stored_vectors.note_vectors(selected.model, table, chosen_type)
    outcome, stored = [], []
    if storage is not None:
        stored = stored_vectors.describe_storage(storage, table.n_features)
    if test_table is not None and tested is not None:
        outcome = [f"{test_table.name}: {tested[0]}"]
        notes += [f"{test_table.name}: {note}" for note in test_table.describe_skipped()]
        notes += new_samples.describe_shared_groups(test_table, table, measurement.groups)
        notes += [*new_samples.describe_far_values(test_table, saved), *tested[1]]
    if measured.rows:
        comparison = model_results.collect_comparison(table, measured.rows, model.judged)
        saved["comparison"] = comparison["problems"][0]["rows"]
    save(selected.model, out, notes=to_json_types(saved))
    verdict = model.verdict or _describe_no_error(table, contender.name, n_folds)
    # Collecting maps all samples again, which a fit without a report need not wait for.
    collected: dict[str, Any] = {}
    if terminal.as_json or files != ResultFiles():
        chosen = messages.describe_winner(selected, measured.rows, contender.name)
        summary = [*verdict, *chosen, *stored, *outcome]
        asked = replace(asked, components=None) if n_folds else replace(asked, folds=None)
        values = {"--score": score if is_balanced else None, "--test": test, "--image": image}
        values |= {"--bytes": budget}
        words = options.list_words(source, features, asked)
        words += _write_options({**values, "--text": text})
        words += [] if keep_samples else ["--no-keep-samples"]
        settings = _write_options({"--method": asked_method})
        settings += [word for value in parameter or () for word in ("--set", value)]
        commands = {
            **_advise_command(source.data, words, settings, verdict[-1]),
            **_suggest_commands(out, keep_samples, source),
        }
        title = f"{table.name}: {model.map_name}"
        collected = model.collect(title, terminal.command, summary, notes, commands)
        collected["storage"] = stored_vectors.collect_storage(storage, saved["vectors"])
        if files != ResultFiles():
            curve = stored_vectors.collect_curve(table, selected, measurement.seed)
            collected["storage"] |= curve
    paths = [out, *files.write(collected)]
    results = model_results.select_for_json(collected)
    results["bytes"] = retrieval_results.list_bytes(retrieval)
    if details:
        lines = _describe(model, verdict)
        lines += ["", *map(messages.wrap, [*stored, *outcome])] if stored or outcome else []
        terminal.finish(results, lines, notes[n_printed:], paths)
    else:
        lines, shown = make_answer(model, verdict, outcome, storage, notes)
        terminal.finish(results, lines, shown, paths)


def _finish_on_cluster(
    terminal: Terminal, source: TableSource, pipeline: Pipeline, out: Path, saved: dict[str, Any]
) -> None:
    """Write the model that was fitted on a cluster, and say what was not measured."""
    from mpda import save

    save(pipeline, out, notes=saved)
    n_components = len(pipeline.steps[-1][1].components_)
    size = f"{pipeline.n_features_in_} features to {n_components} components"
    advice = f"the error was not measured (mpda evaluate {out} FILE measures it)"
    lines = [f"{source.data.name}: {size}; {advice}"]
    terminal.finish({**saved, "n_components": n_components}, lines, files=[out])


def _write_options(values: dict[str, Any]) -> list[str]:
    """Return the words of the options that have a value."""
    return [word for option, value in values.items() if value for word in (option, str(value))]


def _advise_command(
    data: Path, words: list[str], settings: list[str], next_step: str
) -> dict[str, str]:
    """Return the command with the first option that a verdict advises, none if there is none.

    ``settings`` are the method and its parameters, which stay unless another method is advised.
    """
    option = re.search(r"--(?:method [\w-]+|search|folds 0)", next_step)
    if option is None:
        return {}
    advised, purpose = option.group(), "Fit as advised:"
    if advised == "--folds 0":  # the words are without it
        purpose = "Measure the error by cross-validation:"
    elif advised == "--search":
        settings = [*settings, advised]
    else:
        settings = advised.split()
    return {purpose: shlex.join(["mpda", "fit", str(data), *words, *settings])}


def _suggest_commands(out: Path, neighbors: bool, source: TableSource) -> dict[str, str]:
    """Return the commands that use a model file, by their purpose."""
    from mpda.cli.tables.files import table_suffix

    # New tables probably come from the same program.
    plain = replace(source, label=None, drop=None, skip_missing=False, embedding=None)
    form = options.list_words(plain)
    model, suffix = str(out), table_suffix(source.data)

    def write(command: str, data: str, *words: str) -> str:
        return shlex.join(["mpda", command, model, f"{data}{suffix}", *form, *words])

    # The model knows the column, but not the array, that has the labels.
    name = source.label if suffix in (".npy", ".npz") else None
    label = _write_options({"--label": "LABELS.npy" if str(name).endswith(".npy") else name})
    if not neighbors:
        return {"Map new samples:": write("transform", "NEW", "--out", "mapped.csv")}
    return {
        "Classify new samples:": write("predict", "NEW", "--out", "classes.csv"),
        "Measure the error on labelled samples that took no part in this fit:": write(
            "evaluate", "LABELLED", *label
        ),
    }


def _evaluate(table: Table, selected: SelectedModel) -> tuple[str, list[str]]:
    """Return the error of the model on a test table, and notes."""
    from mpda.assessment import evaluate_model

    evaluation = evaluate_model(selected.model, table.samples, table.labels)
    notes = new_samples.describe_unknown_values(table, selected.model)
    notes += messages.describe_unknown_classes(evaluation)
    return messages.describe_evaluation(evaluation), notes


def _make_contender(
    method: str, parameters: list[str] | None, measurement: MeasurementOptions
) -> Contender:
    """Return the method with the parameters that the user set; these are not searched."""
    from mpda.assessment import AUTOMATIC, make_contender
    from mpda.estimators.methods import BY_NAME

    names = options.parse_names([method], [*BY_NAME, AUTOMATIC], "--method")
    if len(names) > 1:
        stop(f"mpda: --method takes one method, got {method!r}.", 2)
    euclidean = measurement.is_picture
    entry = make_contender(names[0], search=measurement.search, euclidean=euclidean)
    if entry.choices:
        if parameters:
            stop("mpda: --set needs one method, and --method auto compares several.", 2)
        return entry
    assert entry.method is not None  # Only raw 1-NN has none, and --method does not accept it.
    values = options.parse_parameters(parameters)
    available = set(entry.estimator({}).get_params(deep=bool(entry.method.start)))
    available = {name for name in available if not name.endswith("n_components")} - {"estimator"}
    if entry.method.start and values.get("n_rounds") == 0:
        name = entry.method.start.lower().replace(" ", "-")
        stop(f"mpda: --set n_rounds=0 is no refinement: use --method {name}.", 2)
    for name in values:
        if name not in available:
            advice = "use --components" if name == "n_components" else ", ".join(sorted(available))
            stop(f"mpda: --set: {entry.name} has no parameter {name!r}; {advice}.", 2)
    replaced = {*values, "penalty_per_coefficient"} if "penalty" in values else values
    grid = {name: candidates for name, candidates in entry.grid.items() if name not in replaced}
    return replace(entry, fixed={**entry.fixed, **values}, grid=grid)


def _describe_no_error(table: Table, method: str, n_folds: int) -> list[str]:
    """Say that no error was measured, and how it can be."""
    new = "measure it on labelled samples that took no part in the fit (mpda evaluate)."
    if n_folds:
        return [f"The error of {method} could not be measured on these folds.", f"Next: {new}"]
    if max(Counter(table.labels.tolist()).values()) >= MIN_SAMPLES:
        new = f"measure it by cross-validation (without --folds 0), or {new}"
    verdict = f"No error was measured (--folds 0), so that nothing shows whether {method} helps."
    return [verdict, f"Next: {new}"]


def _describe(measured: MeasuredModel, verdict: list[str]) -> list[str]:
    """Return the lines that a fit prints."""
    table, rows, selection = measured.table, measured.rows, measured.selected.selected
    model = measured.selected.model
    steps = model_results.remove_neighbors(model).steps
    lines = [
        *(messages.describe_table(table), ""),
        messages.describe_map(measured.method, model, selection.n_components),
        "    " + " -> ".join(messages.describe_step(step, table.features) for _, step in steps),
    ]
    lines += [messages.wrap(reason, "    ") for reason in measured.selected.preparation.reasons]
    lines += messages.describe_choices(measured.selected, for_unseen=measured.for_unseen)
    if selection.parameters:
        lines.append(
            f"    selected by cross-validation: {messages.list_parameters(selection.parameters)}"
        )
    chosen = messages.describe_winner(measured.selected, rows, measured.method) if rows else []
    comparison = ["", *messages.describe_comparison(rows, measured.judged)] if rows else []
    found = [*verdict, *chosen, *retrieval_results.retrieval_lines(measured.retrieval)]
    return [*lines, *comparison, "", *map(messages.wrap, found)]
