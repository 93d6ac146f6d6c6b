"""``mpda transform``, ``evaluate`` and ``export``: what a model file is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda.cli._app import app, note, print_json, progress, said_in_one_line, stop
from mpda.cli._options import Data, Json, Quiet, SkipMissing
from mpda.cli._words import about, refuse_input_as_output, said, sentence, shown, write_outputs

if TYPE_CHECKING:
    from mpda.assessment import Evaluation
    from mpda.io.tables import Table

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, as fit writes it.")]


@app.command()
def transform(
    model: ModelFile,
    data: Data,
    out: Annotated[Path, typer.Option(help="CSV, TSV, Parquet, Arrow or .npy.")],
    skip_missing: SkipMissing = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Map the samples of a file by a model. Columns that are no features are kept beside."""
    with said_in_one_line(quiet=quiet):
        import numpy as np

        from mpda.io.table_files import write_table

        _refuse_kind(out)
        refuse_input_as_output(data, out)
        refuse_input_as_output(model, out)
        with progress(3, f"reading {data.name}", quiet) as step:
            fitted, notes = _loaded(model)
            table = _table_for(fitted, notes, data, None, skip_missing=skip_missing)
            step("mapping")
            before = _without_neighbors(fitted)
            Z = np.asarray(before.transform(table.to_frame()))
            step(f"writing {out.name}")
            kept = dict(table.others)
            if table.y is not None and table.label is not None:
                kept[table.label] = table.y
            write_table(out, Z, before.get_feature_names_out().tolist(), kept)
            step("")
        found = {"data": table.name, "n_samples": len(Z), "n_components": Z.shape[1]}
        if as_json:
            print_json({**found, "files": [str(out)]})
            return
        note(f"{about(table)} to {Z.shape[1]} components; written: {out}", quiet)


@app.command()
def evaluate(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    label: Annotated[
        str | None, typer.Option(help="Column of the classes; default: as in the fit.")
    ] = None,
    at_most: Annotated[
        float | None,
        typer.Option(min=0.0, help="Exit with code 3 where the error in per cent is larger."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page about it, .html.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Write the results that a page is made of, .json.")
    ] = None,
    skip_missing: SkipMissing = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The error of a model on the labelled samples of a file, which should be new to it."""
    with said_in_one_line(quiet=quiet):
        from mpda.assessment import evaluate_model
        from mpda.io.tables import has_named_columns

        fitted, notes = _loaded(model)
        if label is None and has_named_columns(data):
            label = notes.get("label")
        with progress(2, f"reading {data.name}", quiet) as step:
            table = _table_for(fitted, notes, data, label, skip_missing=skip_missing)
            step("mapping and comparing")
            found = evaluate_model(fitted, table.to_frame(), table.labels)
            table = replace(table, y=found.y)
            step("")
        gathered = _results(context.obj, table, fitted, found)
        written = write_outputs(gathered, results, report)
        low, high = found.interval
        if as_json:
            error = {
                "error": found.error,
                "low": low,
                "high": high,
                "n_known": found.n_training_samples,
            }
            print_json({**said(gathered, written), **error})
        else:
            print("\n".join(_lines(table, fitted, found)))
            if written:
                note(f"written: {', '.join(map(str, written))}", quiet)
        for line in _warnings(found):
            note(f"note: {line}", quiet)
        if at_most is not None and found.error > at_most:
            stop(f"mpda: the error, {found.error:.2f} %, is larger than --at-most {at_most:g}", 3)


@app.command()
def export(
    model: ModelFile,
    onnx: Annotated[Path | None, typer.Option(help="Write the map as ONNX, .onnx.")] = None,
    neighbors: Annotated[
        bool, typer.Option("--neighbors", help="With --onnx: 1-NN and its labels too.")
    ] = False,
    matrix: Annotated[
        Path | None, typer.Option(help="Write the matrix, .npy, and beside it the mean.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """What a model is without this package: an ONNX graph, or a matrix and a mean."""
    if onnx is None and matrix is None:
        stop("mpda: export needs --onnx FILE, --matrix FILE.npy, or both.", 2)
    if neighbors and onnx is None:
        stop("mpda: --neighbors is for --onnx.", 2)
    with said_in_one_line(quiet=quiet):
        from mpda.io.affine_maps import export_matrix
        from mpda.io.onnx_export import export_onnx

        fitted, _ = _loaded(model)
        if neighbors and not hasattr(fitted.steps[-1][1], "kneighbors"):
            stop(f"mpda: --neighbors: {model} keeps no samples; fit without --no-neighbors.", 1)
        written: list[Path] = []
        with progress(2, "ONNX", quiet) as step:
            if onnx is not None:
                written.append(export_onnx(fitted, onnx, neighbors=neighbors))
            step("the matrix")
            if matrix is not None:
                written += export_matrix(fitted, matrix)
            step("")
        if as_json:
            print_json({"files": [str(path) for path in written]})
            return
        note(f"written: {', '.join(map(str, written))}", quiet)


def _loaded(path: Path) -> tuple[Any, dict[str, Any]]:
    """The model of a file as a pipeline, and the notes that were kept with it."""
    from sklearn.pipeline import Pipeline

    from mpda.io.model_files import load, read_header

    model, notes = load(path), read_header(path).get("notes") or {}
    if not isinstance(model, Pipeline):
        if not hasattr(model, "transform"):
            raise ValueError(f"{path} holds a {type(model).__name__}, which maps no samples.")
        model = Pipeline([("model", model)])
    return model, notes


def _without_neighbors(model: Any) -> Any:
    return model[:-1] if hasattr(model.steps[-1][1], "kneighbors") else model


def _table_for(
    model: Any, notes: dict[str, Any], data: Path, label: str | None, *, skip_missing: bool
) -> Table:
    """The samples of a file with the features that the model knows, in its order."""
    from mpda.exceptions import TableError
    from mpda.io.tables import has_named_columns, read_table

    known = getattr(model, "feature_names_in_", None)
    features = known.tolist() if known is not None and has_named_columns(data) else None
    table = read_table(data, label=label, features=features, skip_missing=skip_missing)
    if table.X.shape[1] != model.n_features_in_:
        raise TableError(
            f"{data} has {table.X.shape[1]} features, but the model was fitted with "
            f"{model.n_features_in_}."
        )
    # Arrays have no names, and a model without names takes columns in their order.
    return replace(table, features=None if known is None else tuple(known.tolist()))


def _warnings(found: Evaluation) -> list[str]:
    """What has to be known to read the error."""
    said = []
    n, n_known = len(found.y), found.n_training_samples
    if n_known == n:
        said.append(
            f"all {n} samples are among those that the model was fitted to, so this is no estimate "
            "for new ones"
        )
    elif n_known:
        said.append(
            f"{n_known} of {n} samples are among those that the model was fitted to; without them "
            f"the error is {found.error_of_new:.2f} %"
        )
    if found.unknown_labels.size:
        names = ", ".join(map(shown, found.unknown_labels[:5].tolist()))
        more = f" and {found.unknown_labels.size - 5} more" if found.unknown_labels.size > 5 else ""
        said.append(f"labels that are no classes of the model count as wrong: {names}{more}")
    return said


def _refuse_kind(out: Path) -> None:
    """A name that does not say what to write is a wrong command."""
    from mpda.exceptions import TableError
    from mpda.io.table_files import check_output

    try:
        check_output(out)
    except TableError as error:
        stop(f"mpda: {error}", 2)


def _results(command: str, table: Table, model: Any, found: Any) -> dict[str, Any]:
    from mpda.report import collect

    before = _without_neighbors(model)
    how = f"{len(table.X)} samples of {table.name}"
    among = "the other samples of the file" if found.leave_one_out else "the samples of the fit"
    low, high = found.interval
    summary = [
        f"The nearest neighbour among {among} has the wrong class for {found.n_wrong} of "
        f"{len(found.y)} samples: {found.error:.2f} % (95 % interval {low:.2f} to {high:.2f}).",
        *map(sentence, _warnings(found)),
    ]
    sections = {
        "data": collect.collect_data(table),
        "model": collect.collect_model(model, table),
        "embedding": collect.collect_embedding(
            found.Z, table, before.get_feature_names_out().tolist(), how, found.predicted
        ),
        "confusion": collect.collect_confusion(found.y, found.predicted, f"1-NN among {among}"),
    }
    return collect.collect_results(f"{table.name} by a fitted model", command, summary, sections)


def _lines(table: Table, model: Any, found: Any) -> list[str]:
    """The error, and that of each class."""
    import numpy as np

    among = "each other" if found.leave_one_out else "the samples of the fit"
    low, high = found.interval
    method = type(_without_neighbors(model).steps[-1][1]).__name__
    lines = [
        about(table),
        f"{method}, {table.X.shape[1]} features to {found.Z.shape[1]} components",
        "",
        f"1-NN error beside {among}: {found.error:.2f} %, 95 % interval {low:.2f} to {high:.2f}",
        "",
        f"{'class':31}{'samples':>9}{'wrong':>7}{'error':>10}   most often taken for",
    ]
    for name in np.unique(found.y):
        own = found.y == name
        wrong = own & (found.predicted != found.y)
        others, counts = np.unique(found.predicted[wrong], return_counts=True)
        taken = str(others[np.argmax(counts)]) if others.size else ""
        share = 100.0 * wrong.sum() / own.sum()
        line = f"{shown(name):31}{own.sum():9}{wrong.sum():7}{share:8.2f} %   {shown(taken)}"
        lines.append(line.rstrip())
    return lines
