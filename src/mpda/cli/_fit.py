"""``mpda fit``: from a table to a model, with an error one can believe."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda._lib.atomic_write import check_writable
from mpda.cli._app import app, note, print_json, progress, said_in_one_line, stop
from mpda.cli._names import Scale
from mpda.cli._options import (
    Components,
    Data,
    Drop,
    Energy,
    Image,
    Jobs,
    Json,
    Label,
    Method,
    Parameters,
    Quiet,
    Scaling,
    Search,
    Seed,
    SkipMissing,
    image_shape,
    label_of,
    method_name,
    pca_energy,
    values_of,
    with_parameters,
)
from mpda.cli._words import (
    STAR,
    about,
    check_classes,
    model_results,
    refuse_input_as_output,
    said,
    sentence,
    wrapped,
    write_outputs,
)

if TYPE_CHECKING:
    from mpda.assessment import Assessment, AssessmentProtocol, Contender, FoldResult, SelectedModel
    from mpda.cli._cluster import ClusterOrder
    from mpda.io.tables import Table


@app.command()
def fit(
    context: typer.Context,
    data: Data,
    label: Label = None,
    method: Method = "mpda",
    components: Components = None,
    search: Search = False,
    parameter: Parameters = None,
    out: Annotated[
        Path | None, typer.Option(help="Model file; default: the name of DATA with .mpda.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page about it, .html.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Write the results that a page is made of, .json.")
    ] = None,
    scale: Scaling = Scale.AUTO,
    pca: Energy = "auto",
    drop: Drop = None,
    skip_missing: SkipMissing = False,
    folds: Annotated[
        int, typer.Option(min=0, help="Folds that measure the error; 0: do not measure it.")
    ] = 5,
    neighbors: Annotated[
        bool,
        typer.Option(help="Keep the mapped samples in the model, so that it can classify by 1-NN."),
    ] = True,
    image: Image = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Fit on the Dask cluster of this scheduler, such as tcp://HOST:8786."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a map from the labelled samples of a file, and keep it as a model file.

    Prints the error of 1-NN in the new dimensions by nested cross-validation, beside that of 1-NN
    on the features and in the space of LDA.
    """
    shape = image_shape(image)
    out = out or Path(Path(data.name.removesuffix(".gz")).stem + ".mpda")
    energy = pca_energy(pca)
    if scheduler is not None and (search or scale is Scale.STANDARD or report or results):
        stop(
            "mpda: with --scheduler there is no --search, --scale standard, --report or --results.",
            2,
        )
    if folds == 1:
        stop("mpda: --folds 1 leaves nothing to measure on; give 0, or 2 and more.", 2)
    with said_in_one_line(quiet=quiet):
        chosen_name = method_name(method)
        refuse_input_as_output(data, out, report, results)
        check_writable(out, report, results)
        label = label_of(data, label)
        if scheduler is not None:
            from mpda.cli._cluster import ClusterOrder, fitted_on_cluster

            order = ClusterOrder(
                *(data, label, drop or [], skip_missing, chosen_name),
                *(components, values_of(parameter), energy),
            )
            _keep_bare(fitted_on_cluster(scheduler, order), order, out, context.obj, as_json, quiet)
            return
        from mpda import save
        from mpda.assessment import AssessmentProtocol, make_contender
        from mpda.exceptions import TableError
        from mpda.io.tables import read_table
        from mpda.report import collect, to_json_types

        with progress(1, f"reading {data.name}", quiet) as step:
            table = read_table(data, label=label, drop=drop or [], skip_missing=skip_missing)
            step("")
        notes = check_classes(table, folds)
        if shape is not None and shape[0] * shape[1] != table.X.shape[1]:
            raise TableError(
                f"--image {image} is {shape[0] * shape[1]} pixels, but {data} has "
                f"{table.X.shape[1]} features."
            )
        protocol = AssessmentProtocol(
            n_folds=max(folds, 2),
            scaled=None if scale is Scale.AUTO else scale is Scale.STANDARD,
            energy=energy,
            n_components=components,
            seed=seed,
        )
        entrant = with_parameters(make_contender(chosen_name, search=search), values_of(parameter))
        # What a method prints is no part of what is printed here.
        with contextlib.redirect_stdout(sys.stderr):
            measured, chosen = _learnt(table, entrant, protocol, folds, neighbors, jobs, quiet)
        rows = measured.rows
        notes += [f"{name} has no result here: {why}" for name, why in measured.failed.items()]
        summary = []
        if any(row["method"] == entrant.name for row in rows):
            kept = chosen.selection.n_components
            summary = collect.summarize_errors(rows, entrant.name, table.X.shape[1], kept)
        title = f"{table.name}: {entrant.name}"
        told = [*summary, *map(sentence, notes)]
        found = model_results(title, context.obj, told, table, entrant.name, rows, chosen, shape)
        about_model = {
            **{"label": table.label, "method": entrant.name, "command": context.obj},
            "n_samples": len(table.X),
            "comparison": found.get("comparison", {}).get("problems", [{}])[0].get("rows"),
        }
        save(chosen.model, out, notes=to_json_types(about_model))
        written = [out, *write_outputs(found, results, report)]
        if as_json:
            print_json(said(found, written))
            return
        _print(table, entrant, rows, chosen, found, summary)
        for line in notes:
            note(f"note: {line}", quiet)
        note(f"written: {', '.join(map(str, written))}", quiet)


def _keep_bare(
    model: Any, order: ClusterOrder, out: Path, command: str, as_json: bool, quiet: bool
) -> None:
    """Keep a model of which nothing was measured."""
    from mpda import save

    notes = {"label": order.label, "method": order.method, "command": command}
    save(model, out, notes=notes)
    n_components = len(model.steps[-1][1].components_)
    if as_json:
        print_json({**notes, "n_components": n_components, "files": [str(out)]})
        return
    print(f"{order.data.name}: {model.n_features_in_} features to {n_components} components")
    print(f"The error is not measured: mpda evaluate {out} FILE does that, on samples left out.")
    note(f"written: {out}", quiet)


def _learnt(
    table: Table,
    entrant: Contender,
    protocol: AssessmentProtocol,
    folds: int,
    neighbors: bool,
    jobs: int,
    quiet: bool,
) -> tuple[Assessment, SelectedModel]:
    """The rows of the comparison, and the model."""
    from mpda.assessment import (
        BASELINE,
        Assessment,
        assess_methods,
        count_steps,
        make_contender,
        select_model,
    )

    others = [
        make_contender(name, search=False) for name in (BASELINE, "LDA") if name != entrant.name
    ]
    contenders = [*others, entrant] if folds else []
    measured = Assessment([], {})
    with progress(count_steps(contenders, protocol) + 1, entrant.name, quiet) as step:
        # First, because what cannot be fitted should be said at once.
        chosen = select_model(
            table.to_frame(), table.labels, entrant, protocol, neighbors=neighbors
        )
        step("measuring the error")
        if contenders:
            given = table.X, table.labels, contenders, protocol
            measured = assess_methods(*given, n_jobs=jobs, progress=step)
    return measured, chosen


def _print(
    table: Table,
    entrant: Contender,
    rows: list[FoldResult],
    chosen: SelectedModel,
    found: dict[str, Any],
    summary: list[str],
) -> None:
    from mpda.assessment import format_error_table

    print(about(table))
    print()
    n_components = chosen.selection.n_components
    print(f"{entrant.name}: {table.X.shape[1]} features to {n_components} components")
    print(f"    {_steps(entrant, chosen)}")
    if rows:
        print()
        print("\n".join(format_error_table(rows, "error")))
        print()
        print("\n".join(map(wrapped, summary)))
        print()
        print(wrapped(f"{found['comparison']['how']}; {STAR}."))


def _steps(entrant: Contender, chosen: SelectedModel) -> str:
    """The steps of the model with the parameters that matter: searched ones, and what was set."""
    assert entrant.method is not None
    said = []
    for name, step in chosen.model.steps:
        values, usual = step.get_params(deep=False), type(step)().get_params(deep=False)
        told = {key for key, value in values.items() if repr(value) != repr(usual[key])}
        if isinstance(step, entrant.method.estimator):
            told |= set(entrant.method.grid)
        if name != "neighbors":
            shown = ", ".join(f"{key}={value!r}" for key, value in values.items() if key in told)
            said.append(f"{type(step).__name__}({shown})")
    return " -> ".join(said)
