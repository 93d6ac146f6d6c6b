"""``mpda transform``, ``predict``, ``evaluate`` and ``export``: uses of a model file."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda._lib.atomic_write import check_new_folder
from mpda.cli import messages, new_samples, options, retrieval_results, stored_vectors
from mpda.cli.model_results import collect_model_sections, remove_neighbors, select_for_json
from mpda.cli.options import ResultFiles
from mpda.cli.table_source import (
    TableSource,
    check_outputs,
    check_table_output,
    read_new_samples,
)
from mpda.cli.terminal import Terminal, stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda.assessment import Evaluation
    from mpda.cli.tables.reading import Table


class OnnxPrecision(StrEnum):
    """Precision of an ONNX file."""

    MIXED = "mixed"
    DOUBLE = "double"
    SINGLE = "single"


# Neighbours among which agreement is counted, where fewer classify.
_AGREEMENT_NEIGHBORS = 5


def transform(
    terminal: Terminal,
    model: Path,
    source: TableSource,
    normalize: Annotated[bool, typer.Option("--normalize")] = False,
    kind: Annotated[stored_vectors.StoredType | None, typer.Option("--type")] = None,
    out: Path | None = None,
) -> None:
    """Map the samples of a table by a model. Columns that are not features are copied.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    model : Path
        Model file written by mpda fit.
    source : TableSource
        The samples.
    normalize : bool, default=False
        Scale mapped samples to length 1, for a search by cosine similarity.
    kind : StoredType, default=None
        Type in which vectors are stored. int8: one scale for all numbers, from the samples of the
        fit. bits: the signs. Parquet and Arrow files get one column of vectors with the type and
        scale in their metadata, .npy files get a file *-type.json next to them. Default: the type
        that fit --bytes selected, otherwise the precision of the map.
    out : Path, default=None
        Table to write: CSV, TSV, Parquet, Arrow or .npy. Default: CSV on standard output.
    """
    import numpy as np
    from sklearn import preprocessing

    from mpda.cli.tables.files import write_table
    from mpda.io.error_text import count_noun

    _check_table_output(terminal, [source.data, model], out)
    pipeline, saved = _load(model)
    table = read_new_samples(source, terminal, pipeline, saved.get("embedding"))
    mapping = remove_neighbors(pipeline)
    Z = np.asarray(mapping.transform(table.samples))
    Z = preprocessing.normalize(Z) if normalize else Z
    names, others = mapping.get_feature_names_out().tolist(), _list_other_columns(table)
    numbers = {"data": table.name, "n_samples": len(Z), "n_components": Z.shape[1]}
    notes = [f"{messages.describe_table(table)} to {count_noun(Z.shape[1], 'component')}"]
    stored = stored_vectors.find_type(kind, saved, Z.shape[1], normalize=normalize, model=model)
    if stored is None:
        write_table(out, Z, names, others)
        files = [] if out is None else [out]
    else:
        files = stored_vectors.write_vectors(out, stored, Z, names, others)
        numbers["vectors"] = stored.to_dict()
        notes[0] += f", {stored_vectors.describe_type(stored)}"
    notes += table.describe_skipped()
    notes += new_samples.describe_far_values(table, saved)
    notes += new_samples.describe_unknown_values(table, pipeline)
    notes += new_samples.describe_unknown_labels(table, saved, pipeline)
    numbers["notes"] = notes[1:]
    terminal.finish(numbers, [], notes, files)


def predict(
    terminal: Terminal,
    model: Path,
    source: TableSource,
    k: options.Count = 1,
    out: Path | None = None,
) -> None:
    """Classify the samples of a table by the samples of the fit that are nearest to them.

    Writes the columns of the table that are not features, and three new ones: the predicted class,
    the distance of the nearest sample of the fit, and the share of the five nearest ones, or of K
    if that is more, that have the predicted class.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    model : Path
        Model file written by mpda fit.
    source : TableSource
        The samples.
    k : int, default=1
        Number of nearest samples that vote. Of classes with equally many the nearest one wins.
    out : Path, default=None
        Table to write: CSV, TSV, Parquet or Arrow. Default: CSV on standard output.
    """
    import numpy as np

    from mpda.assessment import classify_samples
    from mpda.cli.tables.files import write_table

    _check_table_output(terminal, [source.data, model], out)
    if out is not None and out.suffix.lower() == ".npy":
        stop("mpda: predict --out needs a format with named columns, such as .csv.", 2)
    pipeline, saved = _load(model)
    if not hasattr(pipeline.steps[-1][1], "kneighbors"):
        reason = "keeps no samples to compare with: fit without --no-keep-samples"
        raise TableError(f"{model} {reason}.")
    n_fit = pipeline.steps[-1][1].n_samples_fit_
    if k > n_fit:
        raise TableError(f"--k {k} is more than the {n_fit} samples of the fit in {model}.")
    table = read_new_samples(source, terminal, pipeline, saved.get("embedding"))
    found = classify_samples(pipeline, table.samples, k, max(k, _AGREEMENT_NEIGHBORS))
    others = _list_other_columns(table)
    if "predicted" in others:
        raise TableError("The data already have a column 'predicted': rename it.")
    numbers = np.column_stack([found.distances, found.agreement])
    write_table(out, numbers, ["distance", "agreement"], {**others, "predicted": found.labels})
    classes, counts = np.unique(found.labels, return_counts=True)
    results: dict[str, Any] = {
        "data": table.name,
        "n_samples": len(found.labels),
        "counts": dict(zip(map(str, classes), counts.tolist(), strict=True)),
        "mean_agreement": float(found.agreement.mean()),
    }
    warnings = table.describe_skipped() + new_samples.describe_far_values(table, saved)
    warnings += new_samples.describe_unknown_values(table, pipeline)
    warnings += new_samples.describe_unknown_labels(table, saved, pipeline)
    results["notes"] = warnings
    terminal.finish(
        results, [], [messages.describe_table(table), *warnings], [] if out is None else [out]
    )


def evaluate(
    terminal: Terminal,
    model: Path,
    source: TableSource,
    files: ResultFiles,
    at_most: Annotated[float | None, typer.Option(min=0.0)] = None,
) -> None:
    """Measure the error of a model on labelled samples, which should be new to it.

    Without --label the classes are in the column of the fit.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    model : Path
        Model file written by mpda fit.
    source : TableSource
        The samples.
    files : ResultFiles
        Results and report.
    at_most : float, default=None
        Exit with code 3 if the error in per cent is larger.
    """
    import numpy as np

    from mpda.assessment import evaluate_model
    from mpda.estimators._linear_methods import transform_linearly
    from mpda.report import collect

    check_outputs([source.data, model], files.results, files.report)
    pipeline, saved = _load(model)
    if source.label is None and source.data.suffix.lower() not in (".npy", ".npz"):
        source = replace(source, label=saved.get("label"))
    table = read_new_samples(source, terminal, pipeline, saved.get("embedding"))
    if table.n_samples < 2 and not hasattr(pipeline.steps[-1][1], "kneighbors"):
        reason = "keeps no samples, so that samples are compared with each other"
        raise TableError(f"{model} {reason}, and {table.name} has only one.")
    evaluation = evaluate_model(pipeline, table.samples, table.labels)
    if evaluation.leave_one_out and np.unique(evaluation.y).size == table.n_samples:
        raise TableError(
            f"{table.name}: every sample has a different label in {table.label!r}, and none of a "
            "class of the fit, so that all count as wrong. Is another column meant?"
        )
    table = replace(table, y=evaluation.y)
    notes = table.describe_skipped() + new_samples.describe_far_values(table, saved)
    notes += new_samples.describe_unknown_values(table, pipeline)
    notes += messages.describe_unknown_classes(evaluation)
    error = messages.describe_evaluation(evaluation)
    caption = f"{table.n_samples} samples of {table.name}"
    class_name = type(remove_neighbors(pipeline).steps[-1][1]).__name__
    method = saved.get("method") or class_name
    drawn = np.asarray(transform_linearly(remove_neighbors(pipeline), table.samples))
    sections = collect_model_sections(pipeline, table, drawn, evaluation.predicted, caption, method)
    sections["data"]["notes"] = [*map(messages.make_sentence, notes)]
    retrieval = retrieval_results.collect_evaluation(pipeline, table, evaluation, method)
    sections["retrieval"] = retrieval
    title = f"{table.name}: error"
    collected = collect.collect_results(title, terminal.command, [error], sections)
    model_line = messages.describe_map(method, pipeline, evaluation.Z.shape[1])
    lines = [messages.describe_table(table), model_line, "", messages.wrap(error), ""]
    lines += messages.format_table(_summarize_classes(evaluation))
    lines += ["", *retrieval_results.format_measures(retrieval)]
    (low, high), n_known = evaluation.interval, evaluation.n_training_samples
    numbers = {"error": evaluation.error, "low": low, "high": high, "n_known": n_known}
    selection = {**select_for_json(collected), **numbers}
    terminal.finish(selection, lines, notes, files.write(collected))
    # Last, so that a check in a pipeline still finds the results and the report.
    if at_most is not None and evaluation.error > at_most:
        stop(f"mpda: the error of {evaluation.error:.2f} % is above --at-most {at_most:g}", 3)


def export(
    terminal: Terminal,
    model: Path,
    onnx: Path | None = None,
    precision: OnnxPrecision = OnnxPrecision.MIXED,
    numpy: Path | None = None,
    neighbors: Annotated[bool, typer.Option("--neighbors")] = False,
    faiss: Path | None = None,
    normalize: Annotated[bool, typer.Option("--normalize")] = False,
    matrix: Path | None = None,
    scales: Path | None = None,
    sentence_transformers: Annotated[Path | None, typer.Option(metavar="FOLDER")] = None,
) -> None:
    """Write a model for use without this package.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    model : Path
        Model file written by mpda fit.
    onnx : Path, default=None
        ONNX file to write.
    precision : OnnxPrecision, default="mixed"
        Numbers of the ONNX file. mixed: float32 outside, double precision inside. double or single:
        outside and inside.
    numpy : Path, default=None
        File to write with all arrays, .npz.
    neighbors : bool, default=False
        Add the 1-NN classifier to the ONNX and the .npz file. With --normalize it compares by
        cosine similarity.
    faiss : Path, default=None
        File to write with the map as a transform of faiss.
    normalize : bool, default=False
        Scale mapped samples to length 1, for a search by cosine similarity.
    matrix : Path, default=None
        File to write with the matrix, .npy; the mean is written next to it.
    scales : Path, default=None
        JSON file to write with the scale of int8 vectors.
    sentence_transformers : Path, default=None
        Folder to create with the map as modules of sentence-transformers.
    """
    if not any((onnx, numpy, faiss, matrix, scales, sentence_transformers)):
        choices = (
            "--onnx FILE, --numpy FILE.npz, --faiss FILE, --matrix FILE.npy, --scales FILE or "
        )
        stop(f"mpda: export needs {choices}--sentence-transformers FOLDER.", 2)
    if neighbors and onnx is None and numpy is None:
        stop("mpda: --neighbors needs --onnx or --numpy.", 2)
    if normalize and matrix is not None:
        stop("mpda: --normalize is not for --matrix, which cannot do it: use --numpy.", 2)
    check_outputs([model], onnx, numpy, faiss, matrix, scales)
    if sentence_transformers is not None:
        check_new_folder(sentence_transformers)
    from mpda import io
    from mpda.assessment.column_transformer import replaces_missing
    from mpda.io.exported_classifier import check_single_range

    pipeline, saved = _load(model)
    n_components = len(remove_neighbors(pipeline).get_feature_names_out())
    int8 = None
    if scales is not None:
        find = stored_vectors.find_type
        int8 = find("int8", saved, n_components, normalize=normalize, model=model)
    pipeline = _append_normalizer(pipeline) if normalize else pipeline
    files = []
    if onnx is not None:
        if precision != OnnxPrecision.DOUBLE and "feature_range" in saved:
            check_single_range(pipeline, saved["feature_range"])
        files = [io.export_onnx(pipeline, onnx, neighbors=neighbors, precision=precision.value)]
    files += [] if numpy is None else [io.export_numpy(pipeline, numpy, neighbors=neighbors)]
    files += [] if faiss is None else [io.export_faiss(pipeline, faiss)]
    files += [] if matrix is None else io.export_matrix(pipeline, matrix)
    if scales is not None and int8 is not None:
        files.append(io.write_vector_type(int8, scales))
    if sentence_transformers is not None:
        files.append(io.export_sentence_transformers(pipeline, sentence_transformers))
    notes = []
    if matrix is not None and replaces_missing(pipeline):
        notes = [
            "the matrix is for samples without missing values; ONNX and NumPy files replace them"
        ]
    terminal.finish({"notes": notes}, notes=notes, files=files)


def _check_table_output(terminal: Terminal, inputs: list[Path], out: Path | None) -> None:
    """Stop if a table cannot be written to this file, or to standard output next to JSON."""
    if out is None and terminal.as_json:
        stop("mpda: --json needs --out FILE, because standard output has one of the two only.", 2)
    check_table_output(out)
    check_outputs(inputs, out)


def _list_other_columns(table: Table) -> dict[str, Any]:
    """Return the columns that are copied; with row numbers where rows were left out."""
    others = dict(table.others)
    if table.n_skipped and "row" not in others:
        others = {"row": table.rows, **others}
    if table.y is not None and table.label is not None:
        others[table.label] = table.y
    return others


def _append_normalizer(pipeline: Pipeline) -> Pipeline:
    """Return the model with mapped samples of length 1, also those of its 1-NN classifier."""
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import Normalizer

    last = pipeline.steps[-1][1]
    classifier = getattr(last, "classifier_", last)  # that of a search
    steps = [*remove_neighbors(pipeline).steps, ("normalizer", Normalizer())]
    if hasattr(classifier, "kneighbors"):
        Z, codes = Normalizer().transform(classifier._fit_X), classifier._y
        steps.append(("neighbors", clone(classifier).fit(Z, classifier.classes_[codes])))
    return Pipeline(steps)


def _load(path: Path) -> tuple[Pipeline, dict[str, Any]]:
    """Return the model of a file as a pipeline, and the notes that were saved with it."""
    from sklearn.pipeline import Pipeline

    from mpda.io.model_files import load, read_header

    model, notes = load(path), read_header(path).get("notes") or {}
    return model if isinstance(model, Pipeline) else Pipeline([("model", model)]), notes


def _summarize_classes(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the error of each class, and the class that it is confused with most."""
    import numpy as np

    rows = []
    for label in np.unique(evaluation.y):
        predicted = evaluation.predicted[evaluation.y == label]
        others, counts = np.unique(predicted[predicted != label], return_counts=True)
        confused = str(others[np.argmax(counts)]) if others.size else ""
        numbers = {"samples": len(predicted), "wrong": counts.sum()}
        numbers["error_in_%"] = 100 * counts.sum() / len(predicted)
        rows.append({"class": str(label), **numbers, "confused_with": confused})
    return rows
