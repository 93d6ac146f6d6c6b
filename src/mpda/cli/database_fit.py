"""``mpda fit --database``: within-class whitening of labelled rows and a table without labels.

The database is read in blocks, whose sums are added up (``WithinClassWhitening.summarize``). The
error is measured on classes that are held out: their rows count as rows of the database, and are
then searched among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpda.cli import fit_steps, messages, options, stored_vectors
from mpda.cli.options import ComponentRule, FeatureOptions, MeasurementOptions
from mpda.cli.retrieval_results import collect_folds, list_bytes, retrieval_lines
from mpda.cli.table_source import TableSource, check_classes, read_samples
from mpda.cli.terminal import Progress, Terminal, stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda import WithinClassWhitening
    from mpda._lib.array_types import Floats, Ints
    from mpda.assessment import Contender
    from mpda.assessment.unseen_retrieval import UnseenScores
    from mpda.baselines.within_class_sums import WithinClassSums
    from mpda.cli.tables.reading import Table

METHOD = "within-class whitening"
# Options of a fit that have a meaning here.
_ACCEPTED = ("--components", "--select", "--folds", "--seed", "--scale", "--pca")
# Both are what this fit does anyway: it selects and measures by classes that are held out.
_IMPLIED = ("--unseen", "--select-for")
# Folds that hold out classes, as many as UnseenClassFolds has by default. With fewer, the classes
# of the other folds are too few to select the number of components of a fold.
_N_FOLDS = 4
# Folds that measure classes of the fit, as many as in other fits.
_N_SEEN_FOLDS = options.DEFAULT_FOLDS


@dataclass(frozen=True)
class DatabaseFit:
    """What the user asked for.

    Parameters
    ----------
    database : Path
        Table without labels.
    features : FeatureOptions
        Preparation of the features.
    measurement : MeasurementOptions
        Number of components, folds.
    contender : Contender
        Within-class whitening with the parameters that the user set.
    details : bool, default=False
        Print how the map was measured.
    """

    database: Path
    features: FeatureOptions
    measurement: MeasurementOptions
    contender: Contender
    details: bool = False

    def check(self, data: Path, others: Sequence[str]) -> None:
        """Stop if an option cannot be combined with ``--database``.

        Parameters
        ----------
        data : Path
            The labelled table.
        others : sequence of str
            Words of further options that were used.
        """
        if self.contender.name != METHOD:
            method = f"--method {METHOD.replace(' ', '-')}"
            stop(f"mpda: --database is for {method}, not for {self.contender.name}.", 2)
        if self.features.scaled:
            reason = "the map itself sets the scale of the features"
            stop(f"mpda: --scale standard cannot be combined with --database: {reason}.", 2)
        if self.measurement.pca not in ("auto", "none"):
            reason = "the map itself leaves out directions"
            stop(f"mpda: --pca cannot be combined with --database: {reason} (--components).", 2)
        if data.exists() and self.database.exists() and data.samefile(self.database):
            stop("mpda: --database is the labelled table itself, whose rows count anyway.", 2)
        words = [*options.list_words(self.features, self.measurement), *others]
        accepted = {*_ACCEPTED, *_IMPLIED}
        refused = [word for word in words if word.startswith("--") and word not in accepted]
        if refused:
            stop(f"mpda: {refused[0]} cannot be combined with --database.", 2)
        if "unlabeled" in self.contender.fixed:
            stop("mpda: --set unlabeled: rows without labels belong into --database.", 2)
        if self.measurement.folds == 0 and self.measurement.unseen:
            stop("mpda: --folds 0 measures nothing, so --unseen cannot be combined with it.", 2)
        if self.measurement.folds == 0 and self.measurement.components is None:
            stop("mpda: --folds 0 selects no number of components; --components is required.", 2)

    def count_folds(self, table: Table) -> int:
        """Return the number of folds that hold out classes.

        Parameters
        ----------
        table : Table
            Labelled samples.

        Returns
        -------
        int
            0 if no error is to be measured, or cannot be.

        Raises
        ------
        TableError
            If there are too few classes for the folds, or for a selection of the components.
        """
        from mpda.model_selection.unseen_classes import find_repeated_classes

        n_classes = len(set(table.labels[find_repeated_classes(table.labels)].tolist()))
        asked = self.measurement.folds
        if asked is None:
            n_folds = min(_N_FOLDS, n_classes // 2)
            if n_folds < 2 and self.measurement.unseen:
                raise TableError(
                    "--unseen holds out whole classes and needs 4 of at least two samples; "
                    f"{table.name} has {n_classes}."
                )
            if n_folds < 2 and self.measurement.components is None:
                raise TableError(
                    "--components is required: folds that hold out classes, which select it, need "
                    f"four classes with two samples, and {table.name} has {n_classes}."
                )
            return n_folds if n_folds > 1 else 0
        if 2 * asked > n_classes:
            raise TableError(
                f"--folds {asked} holds out two classes or more in each fold and needs {2 * asked} "
                f"classes of at least two samples; {table.name} has {n_classes}."
            )
        return asked


def fit_with_database(
    terminal: Terminal, source: TableSource, fit: DatabaseFit, out: Path, *, keep_samples: bool
) -> None:
    """Fit the map to both tables, measure it, write the model and print a summary.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    source : TableSource
        The labelled samples.
    fit : DatabaseFit
        The database and the options.
    out : Path
        Model file to write.
    keep_samples : bool
        Keep the mapped labelled samples in the model.
    """
    import numpy as np

    from mpda import save
    from mpda.assessment.unseen_retrieval import MAX_TESTS, measure_unseen_classes
    from mpda.io.error_text import count_noun
    from mpda.report import to_json_types

    table = read_samples(source, terminal, fit.features)
    notes = [*map(_replace_advice, check_classes(table, 0)[1])]
    n_folds, n_components = fit.count_folds(table), fit.measurement.components
    if (n_components or 0) > table.n_features:
        size = f"{table.name} has {count_noun(table.n_features, 'feature')}"
        raise TableError(f"--components {n_components} is more than there are: {size}.")
    terminal.print_notes(notes)
    n_printed = len(notes)
    whitening = fit.contender.estimator({}, n_components)
    limits = np.array(fit_steps.compute_feature_range(table))
    scores, counts, retrieval = None, np.empty(0, dtype=int), {}
    with terminal.progress(1.0 + n_folds, f"reading {fit.database.name}") as progress:
        sums, n_skipped = _sum_database(source, fit.database, table, limits, progress)
        if n_folds:
            measure = partial(measure_unseen_classes, seed=fit.measurement.seed)
            measure = partial(measure, report=lambda: progress.finish_step(1.0))
            scores = measure(table.X, table.labels, sums, whitening, n_folds)
            fewest = fit.measurement.select == ComponentRule.FEWEST
            selected = scores.select_count(fewest=fewest)
            whitening.set_params(n_components=selected)
            counts = np.full(n_folds, selected)
            if n_folds >= _N_FOLDS:
                counts = scores.select_by_others(fewest=fewest)
            retrieval = _measure_search(
                table, sums, whitening, selected, counts, fit.measurement.seed
            )
        model = _fit_model(table, sums, whitening, keep_samples=keep_samples)
    n_rows, n_components = round(sums.n_rows), int(whitening.n_components)
    if n_skipped:
        skipped = f"{n_skipped:,} of {n_rows + n_skipped:,} rows"
        notes.append(f"{fit.database.name}: {skipped} have missing values and are left out")
    if scores is not None and table.n_samples > n_folds * MAX_TESTS:
        notes.append(f"a fold was measured on at most {MAX_TESTS:,} samples, drawn at random")
    saved: dict[str, Any] = {"label": table.label, "method": METHOD, "command": terminal.command}
    saved |= {"n_samples": table.n_samples, "n_database": n_rows, "feature_range": limits.tolist()}
    saved |= {} if table.embedding is None else {"embedding": table.embedding}
    saved["vectors"] = stored_vectors.note_vectors(model, table, None)
    save(model, out, notes=to_json_types(saved))
    results = {"data": table.name, "n_samples": table.n_samples, "database": fit.database.name}
    results |= {"n_database": n_rows, "method": METHOD, "n_components": n_components}
    results |= {"unseen_classes": scores and _collect(retrieval, counts), "notes": notes}
    results |= {"retrieval": retrieval, "bytes": list_bytes(retrieval)}
    step = f"    {messages.describe_step(whitening, table.features)}"
    how = ["", *_describe_folds(scores, counts), ""]
    lines = [
        *map(messages.wrap, _describe(scores, counts, retrieval)),
        messages.describe_table(table),
        f"{fit.database.name}: {n_rows:,} rows without labels, so the method is {METHOD}",
        f"{messages.describe_map(METHOD, model, n_components)}, scaled to length 1",
        *([step, *how] if fit.details else []),
        messages.wrap(f"Next: map the database and the queries with mpda transform {out} FILE."),
    ]
    terminal.finish(results, lines, notes[n_printed:], [out])


def _measure_search(
    table: Table,
    database: WithinClassSums,
    whitening: WithinClassWhitening,
    n_components: int,
    counts: Ints,
    seed: int,
) -> dict[str, Any]:
    """Return the section "retrieval": classes of the fit, and classes that folds hold out.

    ``counts`` (n_folds,) are the numbers of components of the latter folds. The others have
    ``n_components``, as the model.
    """
    import numpy as np

    from mpda.assessment import BASELINE, AssessmentProtocol
    from mpda.assessment.unseen_retrieval import measure_database_folds
    from mpda.model_selection.folds import stratified_folds
    from mpda.model_selection.unseen_classes import draw_unseen_folds

    y = table.labels
    largest = int(np.unique(y, return_counts=True)[1].max())
    measure = partial(measure_database_folds, table.X, y, database, whitening, seed=seed)
    folds = stratified_folds(y, min(_N_SEEN_FOLDS, largest), seed)
    seen = measure(folds, np.full(len(folds), n_components), METHOD)
    unseen = measure(draw_unseen_folds(y, len(counts), seed), counts, METHOD)
    protocol, names = AssessmentProtocol(by_cosine=True), {BASELINE: "raw", METHOD: "map"}
    return collect_folds(table, seen, unseen, protocol, names, {METHOD: n_components})


def _sum_database(
    source: TableSource, database: Path, table: Table, limits: Floats, progress: Progress
) -> tuple[WithinClassSums, int]:
    """Return the sums over the database and the number of rows that were left out.

    ``limits`` (2, d), the least and largest values of the features, is updated.
    """
    import numpy as np

    from mpda import WithinClassWhitening
    from mpda.cli.tables.blocks import read_blocks
    from mpda.cli.tables.files import FileFormat

    file_format = FileFormat(source.decimal, source.encoding or "utf-8-sig", source.sheet)
    d = table.n_features
    sums, n_skipped, n_rows = None, 0, 0
    read = partial(read_blocks, skip_missing=source.skip_missing, usual_embedding=table.embedding)
    for block in read(database, table.features, d, file_format):
        n_skipped += block.n_skipped
        n_rows += len(block.X)
        if len(block.X):
            added = WithinClassWhitening().summarize(block.X)
            sums = added if sums is None else sums + added
            limits[0] = np.minimum(limits[0], block.X.min(axis=0))
            limits[1] = np.maximum(limits[1], block.X.max(axis=0))
        progress.update(0.0, f"reading {database.name}, {n_rows:,} rows")
        del block  # before the next one is read
    assert sums is not None  # A table without rows is an error.
    progress.finish_step(1.0, "holding out classes")
    # As in a fit, the precision of the map is that of the labelled rows.
    return replace(sums, is_single=True), n_skipped


def _fit_model(
    table: Table, database: WithinClassSums, whitening: WithinClassWhitening, *, keep_samples: bool
) -> Pipeline:
    """Return the fitted model, as that of other methods: the map and 1-NN among its samples."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import Pipeline

    from mpda._lib.fingerprints import fingerprint_rows
    from mpda.assessment.evaluation import FINGERPRINTS

    sums = whitening.summarize(table.samples, table.labels) + database
    fitted = whitening.from_summary(sums, **whitening.get_params())
    steps = [(METHOD.replace(" ", "_"), fitted)]
    if keep_samples:
        neighbors = KNeighborsClassifier(1, algorithm="brute")
        neighbors.fit(fitted.transform(table.samples), table.labels)
        setattr(neighbors, FINGERPRINTS, fingerprint_rows(table.X))
        steps.append(("neighbors", neighbors))
    return Pipeline(steps)


def _replace_advice(note: str) -> str:
    """Return a note of the data check without an option that is not for this fit."""
    before, found, _ = note.partition("; features are standardised")
    return f"{before}; the map is for features in one unit, such as embeddings" if found else note


def _collect(retrieval: dict[str, Any], counts: Ints) -> dict[str, Any]:
    """Return the measures of classes that were held out for a JSON object."""
    rows = {"raw": retrieval["unseen"]["raw"], "mapped": retrieval["unseen"]["map"]}
    return {
        "n_folds": len(counts),
        "selected": counts.tolist(),
        **{
            name: {
                "error": 100.0 * (1.0 - row["recall_at_1"]["value"]),
                "map_at_r": row["map_at_r"]["value"],
            }
            for name, row in rows.items()
        },
    }


def _describe(scores: UnseenScores | None, counts: Ints, retrieval: dict[str, Any]) -> list[str]:
    """Return the verdict on the map, and what a search finds."""
    if scores is None:
        reason = "No error was measured, so that nothing shows whether the map helps: "
        need = "folds that hold out classes need four classes with two samples, and no --folds 0."
        return [reason + need]
    measured = _collect(retrieval, counts)
    raw, mapped, n_folds = measured["raw"], measured["mapped"], measured["n_folds"]
    n_better = int((scores.look_up(counts)[:, 1] > scores.raw[:, 1]).sum())
    pair = f"MAP@R is {mapped['map_at_r']:.3f} instead of {raw['map_at_r']:.3f}"
    if n_better == n_folds:
        verdict = f"The map helps to find classes without labels: {pair}, higher in every fold."
    elif mapped["map_at_r"] < raw["map_at_r"]:
        verdict = f"The map does not help to find classes without labels: {pair}."
    else:
        share = f"higher in {n_better} of {n_folds} folds"
        verdict = "It is not clear whether the map helps to find classes without labels: "
        verdict += f"{pair}, {share}."
    if mapped["error"] > raw["error"]:
        verdict += " The nearest row is of another class more often than before."
    return [verdict, *retrieval_lines(retrieval)]


def _describe_folds(scores: UnseenScores | None, counts: Ints) -> list[str]:
    """Say how the map was measured."""
    if scores is None:
        return []
    n_folds = len(counts)
    how = (
        f"Measured on {n_folds} folds, which hold out whole classes: their rows count as rows "
        "without labels and are then searched among themselves by the cosine. MAP@R: share of the "
        "class of a query among its nearest rows, as many as the class has; 1 is best."
    )
    if len(scores.counts) > 1 and n_folds < _N_FOLDS:
        how += " The same folds selected the number of components, so the error is a bit too low."
    elif len(scores.counts) > 1:
        how += " The number of components of a fold was selected by the other folds."
    return [messages.wrap(how)]
