"""``mpda compare`` and ``mpda partition``: what can be learnt about data before a model is kept."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda._lib.atomic_write import check_writable
from mpda.cli._app import (
    app,
    connected,
    names,
    note,
    print_json,
    progress,
    said_in_one_line,
)
from mpda.cli._names import Scale
from mpda.cli._options import (
    Components,
    Data,
    Drop,
    Energy,
    Jobs,
    Json,
    Label,
    Quiet,
    Scaling,
    Search,
    Seed,
    SkipMissing,
    label_of,
    pca_energy,
)
from mpda.cli._words import (
    STAR,
    about,
    check_classes,
    how_measured,
    model_results,
    refuse_input_as_output,
    said,
    sentence,
    shown,
    wrapped,
    write_outputs,
)

if TYPE_CHECKING:
    from mpda import ManifoldPartition
    from mpda.io.tables import Table

_USUAL = "1-nn,pca,lda,shrinkage-lda,lfda,mpda"


@app.command()
def compare(
    context: typer.Context,
    data: Data,
    label: Label = None,
    methods: Annotated[
        str, typer.Option(help="Methods, with commas or spaces between, or all.")
    ] = _USUAL,
    components: Components = None,
    search: Search = False,
    out: Annotated[Path, typer.Option(help="Directory for results.json and report.html.")] = Path(
        "comparison"
    ),
    scale: Scaling = Scale.AUTO,
    pca: Energy = "auto",
    drop: Drop = None,
    skip_missing: SkipMissing = False,
    folds: Annotated[int, typer.Option(min=2, help="Folds that measure the errors.")] = 5,
    seed: Seed = 0,
    jobs: Jobs = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Work on the folds on the Dask cluster of this scheduler."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Methods side by side by nested cross-validation: one table, and one page."""
    energy = pca_energy(pca)
    with said_in_one_line(quiet=quiet):
        from mpda.model_selection.methods import BY_NAME

        known = ["1-NN", *BY_NAME]
        asked = known if methods.strip() == "all" else names(methods, known, "--methods") or []
        check_writable(out / "results.json", out / "report.html")
        from mpda.assessment import (
            BASELINE,
            AssessmentProtocol,
            assess_methods,
            count_steps,
            format_error_table,
            make_contender,
            select_model,
        )
        from mpda.exceptions import TableError
        from mpda.io.tables import read_table
        from mpda.report import collect

        label = label_of(data, label)
        refuse_input_as_output(data, out / "results.json", out / "report.html")
        with progress(1, f"reading {data.name}", quiet) as step:
            table = read_table(data, label=label, drop=drop or [], skip_missing=skip_missing)
            step("")
        notes = check_classes(table, folds)
        scaled = None if scale is Scale.AUTO else scale is Scale.STANDARD
        protocol = AssessmentProtocol(
            folds, scaled=scaled, energy=energy, n_components=components, seed=seed
        )
        contenders = [make_contender(name, search=search) for name in asked]
        steps = count_steps(contenders, protocol)
        with (
            contextlib.redirect_stdout(sys.stderr),
            connected(scheduler),
            progress(steps, "comparing", quiet) as step,
        ):
            given = table.X, table.labels, contenders, protocol
            measured = assess_methods(*given, n_jobs=jobs, progress=step)
        rows = measured.rows
        notes += [f"{name} has no result here: {why}" for name, why in measured.failed.items()]
        if not rows:
            raise TableError(f"No method has a result. {sentence(notes[-1])}")
        left = [name for name in asked if name != BASELINE and name not in measured.failed]
        title = f"{table.name}: {len(asked)} methods"
        if left:
            best = min(left, key=lambda name: collect.mean_error(rows, name))
            chosen = select_model(
                *(table.to_frame(), table.labels, make_contender(best, search=search)),
                replace(protocol, n_components=_chosen_number(rows, best, components)),
            )
            summary = [
                *collect.summarize_errors(
                    rows, best, table.X.shape[1], chosen.selection.n_components
                ),
                f"{best} has the least error of {len(left)} methods on these folds; being chosen "
                "by them, its error is flattered a little.",
                *map(sentence, notes),
            ]
            found = model_results(title, context.obj, summary, table, best, rows, chosen)
        else:
            section = collect.collect_comparison(rows, how_measured(folds), {"": table.name})
            sections = {"data": collect.collect_data(table), "comparison": section}
            found = collect.collect_results(title, context.obj, [*map(sentence, notes)], sections)
        written = write_outputs(found, out / "results.json", out / "report.html")
        if as_json:
            print_json(said(found, written))
            return
        print(about(table))
        print()
        print("\n".join(format_error_table(rows, "error")))
        print()
        print(wrapped(f"{how_measured(folds)}; {STAR}."))
        for line in notes:
            note(f"note: {line}", quiet)
        note(f"written: {', '.join(map(str, written))}", quiet)


def _chosen_number(rows: list[Any], method: str, asked: int | None) -> int | None:
    """What was asked for, or less where the method has less."""
    own = [row["cv_dimension"] for row in rows if row["method"] == method]
    return None if asked is None else min(asked, *own)


@app.command()
def partition(
    context: typer.Context,
    data: Data,
    label: Annotated[
        str | None, typer.Option(help="Column of the classes; default: all samples are one class.")
    ] = None,
    max_patch_size: Annotated[int, typer.Option(min=1, help="Larger patches are split.")] = 10,
    neighbors: Annotated[int, typer.Option(min=1, help="Neighbours for the geodesics.")] = 6,
    out: Annotated[
        Path | None, typer.Option(help="Write the patch of every sample: CSV, Parquet, .npy ..")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page about it, .html.")] = None,
    drop: Drop = None,
    skip_missing: SkipMissing = False,
    jobs: Annotated[int, typer.Option(min=1, help="Classes at the same time.")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Cut the samples of each class into small patches that are nearly flat."""
    with said_in_one_line(quiet=quiet):
        import numpy as np

        from mpda import ManifoldPartition
        from mpda.io.table_files import check_output, write_table
        from mpda.io.tables import read_table
        from mpda.report import collect

        if out is not None:
            check_output(out)
        table = read_table(data, label=label, drop=drop or [], skip_missing=skip_missing)
        y = table.y if table.y is not None else np.full(len(table.X), "all")
        with progress(1, "patches", quiet) as step:
            found = ManifoldPartition(
                max_patch_size=max_patch_size, partition_neighbors=neighbors, n_jobs=jobs
            ).fit(table.X, y)
            step("")
        section = collect.collect_partition(table.X, y, found.labels_, found.patch_linearity_)
        sections = {"data": collect.collect_data(table), "partition": section}
        title = f"{table.name}: patches"
        results = collect.collect_results(title, context.obj, [_sentence(found)], sections)
        written = write_outputs(results, None, report)
        if out is not None:
            columns: dict[str, Any] = {"row": table.rows}
            if table.y is not None:
                columns[table.label or "label"] = table.y
            write_table(out, found.labels_[:, None], ["patch"], columns)
            written.append(out)
        if as_json:
            classes = [_summary(each) for each in section["classes"]]
            print_json({"classes": classes, "files": [str(path) for path in written]})
            return
        print("\n".join(_lines(table, found, section["classes"])))
        if written:
            note(f"written: {', '.join(map(str, written))}", quiet)


def _sentence(found: ManifoldPartition) -> str:
    return (
        f"{len(found.labels_)} samples in {len(found.patch_sizes_)} patches of up to "
        f"{found.patch_sizes_.max()}; along a patch, distances are on average "
        f"{100 * (found.patch_linearity_.mean() - 1):.1f} % longer than straight ones."
    )


def _summary(each: dict[str, Any]) -> dict[str, Any]:
    return {
        "label": each["label"],
        "samples": sum(each["sizes"]),
        "patches": each["patches"],
        "mean_size": sum(each["sizes"]) / each["patches"],
        "mean_linearity": sum(each["linearity"]) / each["patches"],
        "largest_linearity": max(each["linearity"]),
    }


def _lines(table: Table, found: ManifoldPartition, classes: list[dict[str, Any]]) -> list[str]:
    lines = [
        *(about(table), "", _sentence(found), ""),
        f"{'class':31}{'samples':>9}{'patches':>9}{'mean size':>11}{'linearity':>11}{'largest':>9}",
    ]
    for each in map(_summary, classes):
        lines.append(
            f"{shown(each['label']):31}{each['samples']:9}{each['patches']:9}{each['mean_size']:11.1f}"
            f"{each['mean_linearity']:11.3f}{each['largest_linearity']:9.3f}"
        )
    return [*lines, "", "Linearity: geodesic over straight distance in a patch; 1 is flat."]
