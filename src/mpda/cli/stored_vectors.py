"""Stored types of vectors in the commands: ``fit --bytes``, ``transform --type``, ``export``.

A model file remembers the type that was chosen and the scales of int8, in its notes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpda.cli.options import MeasurementOptions
from mpda.cli.terminal import Progress, stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda._lib.array_types import Array, Floats
    from mpda.assessment import AssessmentProtocol, Contender, StorageCandidate, StorageChoice
    from mpda.assessment.model_choice import SelectedModel
    from mpda.cli.tables.reading import Table
    from mpda.io import VectorType

StoredType = StrEnum("StoredType", "FLOAT32 FLOAT16 INT8 BITS")
StoredType.__doc__ = "Values of ``--type``."
NOTE = "vectors"
"""Entry of the notes of a model file."""
_COLUMN = "vector"
_METADATA = b"mpda_vectors"
# Bytes of a number of the vectors before the map.
_SINGLE = 4
# The curve of the page: samples, numbers of components, and the methods next to that of the model.
_MAX_SAMPLES, _N_FOLDS = 4000, 4
_NUMBERS = (8, 16, 32, 64)
_REFERENCE = "PCA"


def check_budget(budget: int | None, measurement: MeasurementOptions) -> None:
    """Stop if an option cannot be combined with ``--bytes``.

    Parameters
    ----------
    budget : int or None
        Value of ``--bytes``.
    measurement : MeasurementOptions
        Other options.
    """
    if budget is None:
        return
    if measurement.components is not None:
        reason = "--bytes selects the number of components"
        stop(f"mpda: --bytes cannot be combined with --components: {reason}.", 2)
    if measurement.scheduler is not None:
        stop("mpda: --bytes cannot be combined with --scheduler.", 2)


def choose_storage(
    table: Table,
    contender: Contender,
    protocol: AssessmentProtocol,
    budget: int,
    progress: Progress,
) -> StorageChoice:
    """Choose a stored type and the number of components on the samples of a table.

    Parameters
    ----------
    table : Table
        The samples.
    contender : Contender
        The method.
    protocol : AssessmentProtocol
        Preparation of the features and seed.
    budget : int
        Bytes that a vector may have.
    progress : Progress
        Shows the progress, one step.

    Returns
    -------
    StorageChoice
        The choice.
    """
    from mpda import assessment

    choice = assessment.choose_storage(
        *(table.samples, table.labels, contender, protocol, budget),
        groups=table.groups,
        progress=lambda share: progress.update(share, f"choosing {budget} bytes"),
    )
    progress.finish_step(1.0, f"fitting {contender.name}")
    return choice


def describe_storage(choice: StorageChoice, n_features: int) -> list[str]:
    """Say which type and how many numbers were chosen, and what int8 costs.

    Parameters
    ----------
    choice : StorageChoice
        The choice.
    n_features : int
        Numbers of a vector before the map.

    Returns
    -------
    list of str
        One line, or two if int8 was tried.
    """
    from mpda.io.error_text import count_noun

    best, *others = choice.candidates
    size = count_noun(best.bytes, "byte")
    before = f"{_SINGLE * n_features:,}"
    text = f"{size} instead of {before}: {_describe_candidate(best, ' errs on')}"
    # Two others, so that the line fits on a terminal.
    tried = ", ".join(map(_describe_candidate, others[:2]))
    lines = [f"{text} ({tried})." if others else f"{text}."]
    if (int8 := choice.find("int8")) is not None:
        lines.append(
            f"int8 instead of float32: error {int8.loss:+.2f} points with "
            f"{count_noun(int8.numbers, 'number')}, on samples held out of {choice.n_folds} folds."
        )
    return lines


def summarize_storage(choice: StorageChoice, n_features: int) -> str:
    """Say in one line which type and how many numbers were chosen, and what the type costs.

    Parameters
    ----------
    choice : StorageChoice
        The choice.
    n_features : int
        Numbers of a vector before the map.

    Returns
    -------
    str
        A sentence.
    """
    best = choice.chosen
    size = f"{best.type} x {best.numbers}, {best.bytes:,} bytes instead of {_SINGLE * n_features:,}"
    if best.type == "float32":
        return f"Stored as {size}."
    return f"Stored as {size}: {best.loss:+.2f} points of error against float32."


def _describe_candidate(entry: StorageCandidate, verb: str = ":") -> str:
    error = 100.0 * (1.0 - entry.recall_at_1)
    return f"{entry.type} x {entry.numbers}{verb} {error:.1f} %"


def collect_storage(choice: StorageChoice | None, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the section "storage" of a report.

    Parameters
    ----------
    choice : StorageChoice or None
        The choice for a budget, if there is one.
    stored : mapping
        Entry of the notes of the model file.

    Returns
    -------
    dict
        With the key "vectors" and, with a budget, "budget" and "candidates".
    """
    if choice is None:
        return {"vectors": dict(stored)}
    candidates = [asdict(entry) | {"loss": entry.loss} for entry in choice.candidates]
    return {"vectors": dict(stored), "budget": choice.budget, "candidates": candidates}


def note_vectors(pipeline: Pipeline, table: Table, chosen: str | None) -> dict[str, Any]:
    """Return what a model file remembers of its vectors.

    Parameters
    ----------
    pipeline : Pipeline
        The fitted model.
    table : Table
        Samples of the fit.
    chosen : str or None
        Stored type that was chosen for a budget.

    Returns
    -------
    dict
        "type" (None without a budget), "numbers", "bytes", and the scale of int8: "scale" for the
        vectors of the model, "unit_scale" for these vectors at length 1.
    """
    from sklearn.preprocessing import normalize

    from mpda.io import VectorType, fit_vector_type

    Z = _map_fitted_samples(pipeline, table)
    scales = [fit_vector_type(part).scale for part in (Z, normalize(Z))]
    name, n = chosen or "float32", Z.shape[1]
    size = VectorType(name, n, scales[0] if name == "int8" else None).n_bytes
    entries = {"type": chosen, "numbers": n, "bytes": size}
    return {**entries, "scale": scales[0], "unit_scale": scales[1]}


def _map_fitted_samples(pipeline: Pipeline, table: Table) -> Floats:
    """Return the mapped samples of the fit, which a classifier at the end of the model has."""
    import numpy as np

    last = pipeline.steps[-1][1]
    if hasattr(last, "kneighbors"):
        return np.asarray(last._fit_X)  # scikit-learn has no public name for them
    return np.asarray(pipeline.transform(table.samples))


def find_type(
    name: str | None, saved: Mapping[str, Any], n_numbers: int, *, normalize: bool, model: Path
) -> VectorType | None:
    """Return the type in which a model's vectors are written.

    Parameters
    ----------
    name : str or None
        Type that the user asked for. None takes that of the model.
    saved : mapping
        Notes of the model file.
    n_numbers : int
        Numbers of a vector.
    normalize : bool
        True if vectors are scaled to length 1 by the user.
    model : Path
        The model file, for a message.

    Returns
    -------
    VectorType or None
        None if the user asked for none and the model remembers none.

    Raises
    ------
    TableError
        If int8 is asked for and the model has no scale.
    """
    from mpda.io import VectorType

    remembered = saved.get(NOTE, {})
    name = name or remembered.get("type")
    if name is None:
        return None
    if name != "int8":
        return VectorType(str(name), n_numbers)
    scale = remembered.get("unit_scale" if normalize else "scale")
    if scale is None:
        reason = "keeps no scale of int8, because an older mpda or a cluster fitted it"
        raise TableError(f"{model} {reason}: fit again, or use --type float16.")
    return VectorType(str(name), n_numbers, scale)


def describe_type(stored: VectorType) -> str:
    """Return a note on the vectors that were written.

    Parameters
    ----------
    stored : VectorType
        Their type.

    Returns
    -------
    str
        Without a full stop.
    """
    from mpda.io.error_text import count_noun

    note = f"stored as {stored.name}, {count_noun(stored.n_bytes, 'byte')} a vector"
    return (
        note if stored.scale is None else f"{note}; a number is {stored.scale:.6g} times its code"
    )


def write_vectors(
    path: Path | None, stored: VectorType, Z: Floats, names: list[str], others: Mapping[str, Any]
) -> list[Path]:
    """Write mapped samples in a stored type.

    Parameters
    ----------
    path : Path or None
        Target file. Parquet and Arrow files get a column "vector" of fixed-size lists, with the
        type in the metadata of the table; .npy files get the array, with the type in a JSON file
        next to them; CSV and TSV files and standard output (None) get one column for each number.
    stored : VectorType
        The type.
    Z : array of shape (n_samples, n_numbers)
        Mapped samples.
    names : list of str
        Names of the numbers.
    others : mapping of str to array-like of shape (n_samples,)
        Columns that are written before those of the vectors.

    Returns
    -------
    list of Path
        Files that were written.
    """
    import numpy as np

    from mpda._lib.atomic_write import atomic_path
    from mpda.cli.tables.files import write_table
    from mpda.io import write_vector_type
    from mpda.io.array_files import write_array

    codes = stored.encode(Z)
    suffix = "" if path is None else path.suffix.lower()
    if path is not None and suffix in (".parquet", ".arrow", ".feather"):
        _write_lists(path, stored, codes, others)
        return [path]
    if path is not None and suffix == ".npy":
        with atomic_path(path) as temporary:
            write_array(temporary, codes)
        return [path, write_vector_type(stored, path.with_name(f"{path.stem}-type.json"))]
    if stored.name == "bits":
        codes = np.unpackbits(codes, axis=1, count=stored.n_numbers)
    write_table(path, codes, names, others)
    return [] if path is None else [path]


def _write_lists(path: Path, stored: VectorType, codes: Array, others: Mapping[str, Any]) -> None:
    """Write a Parquet, Arrow or Feather file with one column of vectors."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow import feather, parquet

    from mpda._lib.atomic_write import atomic_path

    if _COLUMN in others:
        raise TableError(f"The data already have a column {_COLUMN!r}: rename it.")
    rows = pd.RangeIndex(len(codes))
    table = pa.Table.from_pandas(pd.DataFrame(dict(others), index=rows), preserve_index=False)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(codes.ravel()), codes.shape[1])
    table = table.append_column(_COLUMN, vectors)
    metadata = {**(table.schema.metadata or {}), _METADATA: json.dumps(stored.to_dict()).encode()}
    table = table.replace_schema_metadata(metadata)
    write = parquet.write_table if path.suffix.lower() == ".parquet" else feather.write_feather
    with atomic_path(path) as temporary:
        write(table, temporary)


def collect_curve(table: Table, selected: SelectedModel, seed: int) -> dict[str, Any]:
    """Measure bytes against quality for the page: raw vectors, PCA and the method of the model.

    Parameters
    ----------
    table : Table
        The samples.
    selected : SelectedModel
        The model with its settings.
    seed : int
        Seed of the draw.

    Returns
    -------
    dict
        With the keys "rows" and "how"; empty if the features are no column of vectors, or if
        samples are too few.
    """
    import numpy as np

    from mpda.assessment import Split, measure_stored_vectors
    from mpda.model_selection.folds import stratified_folds, stratified_order

    y = table.labels
    if table.embedding is None or np.unique(y, return_counts=True)[1].max() < _N_FOLDS:
        return {}
    drawn = stratified_order(y, 1, np.random.default_rng(seed))[:_MAX_SAMPLES]
    groups = None if table.groups is None else table.groups[drawn]
    if groups is not None and len(np.unique(groups)) < _N_FOLDS:
        return {}
    train, test = (
        drawn[part] for part in next(iter(stratified_folds(y[drawn], _N_FOLDS, seed, groups)))
    )
    X = np.asarray(table.samples)
    samples = Split(X[train], y[train], X[test], y[test])
    entry, choice = selected.ranking.ranked[0].contender, selected.selected
    contender = replace(entry, fixed={**entry.fixed, **choice.parameters}, grid={})
    numbers = sorted({*_NUMBERS, choice.n_components})
    measure = partial(measure_stored_vectors, samples, numbers=numbers)
    references = ["raw"] if contender.name == _REFERENCE else ["raw", _REFERENCE]
    rows = measure(methods=references)
    rows += measure(methods=[contender], steps=selected.preparation.make_steps())
    how = (
        f"Fitted to {len(train):,} samples, which are the database; {len(test):,} others are the "
        "queries. Both are stored in the type."
    )
    return {"rows": [*map(asdict, rows)], "how": how}
