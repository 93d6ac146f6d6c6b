"""Options of the commands, and what their words mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda.cli._app import names, stop
from mpda.cli._names import Scale, method_names

if TYPE_CHECKING:
    from mpda.assessment import Contender

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
Label = Annotated[
    str | None,
    typer.Option(
        help="Column of the classes; of an .npz the array (default: y), of an .npy a column number "
        "or a file."
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Columns to leave out, commas or spaces between; may be repeated."),
]
SkipMissing = Annotated[
    bool, typer.Option("--skip-missing", help="Leave out rows with missing values.")
]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV, TSV, Parquet, Arrow, .npy or .npz.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Folds at the same time.")]
Method = Annotated[
    str,
    typer.Option(help="Method, such as mpda, pmpda, lfda or pca.", autocompletion=method_names),
]
Components = Annotated[
    int | None, typer.Option(min=1, help="Number of components; default: by cross-validation.")
]
Search = Annotated[
    bool, typer.Option("--search", help="Choose parameters by cross-validation too.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
]
Scaling = Annotated[
    Scale,
    typer.Option(
        help="Standardise features; auto: if 1-NN among the training samples is better for it."
    ),
]
Energy = Annotated[
    str,
    typer.Option(
        "--pca",
        metavar="auto|none|SHARE",
        help="PCA before the method, to this share of the variance; auto: 0.95 for more than 100 "
        "features.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the folds.")]
Image = Annotated[
    str | None,
    typer.Option(
        metavar="ROWSxCOLUMNS", help="Features are pixels of such an image; the page draws them."
    ),
]


def label_of(data: Path, label: str | None) -> str | None:
    """The name of the labels; who gave none is told what there is."""
    from mpda.io.tables import describe_columns

    if label is not None or data.suffix.lower() == ".npz":
        return label
    found = describe_columns(data)
    stop(f"mpda: --label is missing: it names the classes. {data} has {found}.", 2)


def method_name(given: str) -> str:
    from mpda.model_selection.methods import BY_NAME

    found = names(given, BY_NAME, "--method")
    if found is None or len(found) != 1:
        stop(f"mpda: --method takes one method, got {given!r}.", 2)
    return found[0]


def pca_energy(given: str) -> float | str | None:
    if given in ("auto", "none"):
        return "auto" if given == "auto" else None
    try:
        share = float(given)
    except ValueError:
        share = 0.0
    if not 0.0 < share < 1.0:
        stop(f"mpda: --pca must be auto, none or a share between 0 and 1, got {given!r}.", 2)
    return share


def image_shape(given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    parts = given.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        stop(f"mpda: --image must be ROWSxCOLUMNS, such as 8x8, got {given!r}.", 2)
    return int(parts[0]), int(parts[1])


def values_of(given: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE as parameters: numbers, true, false and none are what they say, others words."""
    found: dict[str, Any] = {}
    for each in given or []:
        name, sign, value = each.partition("=")
        if not sign or not name:
            stop(f"mpda: --set must be NAME=VALUE, such as --set alpha=0.1, got {each!r}.", 2)
        known = {"true": True, "false": False, "none": None}
        try:
            found[name] = known[value.lower()] if value.lower() in known else json.loads(value)
        except ValueError:
            found[name] = value
    return found


def with_parameters(entrant: Contender, given: dict[str, Any]) -> Contender:
    """The method with parameters that a user gave, which are not searched."""
    if not given:
        return entrant
    assert entrant.method is not None
    known = entrant.method.estimator().get_params(deep=False)
    for name in given:
        if name not in known or name == "n_components":
            advice = "; --components gives n_components" if name == "n_components" else ""
            stop(
                f"mpda: --set: {entrant.name} has no parameter {name!r} to set{advice}; it has "
                f"{', '.join(sorted(set(known) - {'n_components'}))}.",
                2,
            )
    grid = {name: values for name, values in entrant.grid.items() if name not in given}
    return replace(entrant, fixed={**entrant.fixed, **given}, grid=grid)
