"""Results of a model for a report, a JSON object and a model file.

Used by ``fit``, ``compare`` and ``evaluate``; ``mpda.report.collect`` builds the single sections.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mpda.cli import messages
from mpda.cli.messages import describe_folds, describe_step, make_sentence

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda._lib.array_types import Floats
    from mpda.assessment import FoldResult, SelectedModel
    from mpda.cli.tables.reading import Table


# Classes of this ratio of sizes are called unequal.
_UNEQUAL = 1.5


@dataclass(frozen=True)
class MeasuredModel:
    """A model and the errors of its method and of others.

    Parameters
    ----------
    table : Table
        Samples of the fit.
    method : str
        Name of the method in the rows.
    selected : SelectedModel
        Model fitted to all samples.
    rows : list of dict
        One row for every compared method and outer fold; empty if no error was measured.
    n_choosing : int
        Number of samples that chose the settings.
    image_shape : tuple of int, default=None
        Rows and columns, if the features are pixels.
    text : str, default=None
        Column that describes each sample.
    balanced : bool, default=False
        True if settings were selected by the balanced accuracy.
    candidates : tuple of str, default=()
        Methods among which the method was selected by the rows.
    retrieval : dict, default={}
        The section "retrieval" of a report.
    for_unseen : bool, default=False
        True if settings were selected by the MAP@R of classes that folds held out.
    """

    table: Table
    method: str
    selected: SelectedModel
    rows: list[FoldResult]
    n_choosing: int
    image_shape: tuple[int, int] | None = None
    text: str | None = None
    balanced: bool = False
    candidates: tuple[str, ...] = ()
    retrieval: dict[str, Any] = field(default_factory=dict)
    for_unseen: bool = False

    @property
    def verdict(self) -> list[str]:
        """Sentences that compare the error of the method with 1-NN and LDA."""
        from mpda.assessment.column_transformer import count_features
        from mpda.io.error_text import join_names
        from mpda.report.verdict import summarize_errors

        if not any(row["method"] == self.method for row in self.rows):
            return []
        n_components = self.selected.selected.n_components
        d = count_features(self.selected.model)
        title = self.map_name if self.selected.has_choices else None
        summary = summarize_errors(self.rows, self.method, d, n_components, self.candidates, title)
        errors = [*summary.errors, *self.balanced_summary, *self._describe_choice()]
        verdict, next_step = summary.verdict, summary.next_step
        if not summary.beats_guess:
            verdict, next_step = self._describe_guess(verdict, next_step)
        if self.label_copies:
            names = join_names(self.label_copies, quoted=self.table.features is not None)
            verdict = (
                f"These errors mean nothing if a copy of the label is among the features: {names} "
                "has one value for each class."
            )
            next_step = "Next: unless new samples have it too, leave it out with --drop."
        return [verdict, *errors, *summary.differences, next_step]

    @property
    def map_name(self) -> str:
        """Name of the method of the map, also where it was chosen automatically."""
        has_choices = self.selected.has_choices
        return messages.name_winner(self.selected) if has_choices else self.method

    @property
    def judged(self) -> tuple[str, ...]:
        """Methods about which the sentences draw conclusions."""
        return self.candidates or (self.method,)

    @property
    def preparation(self) -> list[str]:
        """Sentences on the steps before the method."""
        reasons = self.selected.preparation.reasons
        return [f"Features for {self.map_name}, {reason}." for reason in reasons]

    @cached_property
    def label_copies(self) -> list[str]:
        """Columns that have one value for each class."""
        from mpda.cli.tables.check import find_label_copies

        return find_label_copies(self.table)

    @property
    def balanced_summary(self) -> list[str]:
        """Sentence with the balanced errors, none unless they selected the settings."""
        from mpda.assessment import balanced_errors

        if not self.balanced or not self.rows:
            return []
        values = balanced_errors(self.rows, self.table.labels)
        texts = []
        for method, value in values.items():
            low, high = value.interval or (math.nan, math.nan)
            interval = f" (95 % interval {low:.1f} to {high:.1f} %)" if low >= 0.0 else ""
            texts.append(f"{method} {value.error:.2f} %{interval}")
        guess = 100.0 * (1.0 - 1.0 / len(set(self.table.labels.tolist())))
        return [
            f"Balanced error, the mean of the errors of the classes: {', '.join(texts)}. Always "
            f"guessing one class has {guess:.2f} %."
        ]

    def _describe_guess(self, verdict: str, next_step: str) -> tuple[str, str]:
        """Return the verdict and the next step where no method is better than a guess."""
        from mpda.assessment import balanced_errors, find_better_balanced

        sizes = Counter(self.table.labels.tolist())
        if not self.balanced:
            if max(sizes.values()) > _UNEQUAL * min(sizes.values()):
                next_step = (
                    "Next: check the labels, try mpda fit --score balanced (classes are of unequal "
                    "size), or measure other features."
                )
            return verdict, next_step
        values = balanced_errors(self.rows, self.table.labels)
        better = find_better_balanced(values, len(sizes))
        if not better:
            return verdict, next_step
        names = " and ".join(filter(None, [", ".join(better[:-1]), better[-1]]))
        verb = "is" if len(better) == 1 else "are"
        next_step = "Next: judge the methods by their balanced errors, or measure other features."
        return f"{verdict} By the balanced error {names} {verb}.", next_step

    @property
    def _measured_error(self) -> float:
        """Error of the method on the outer folds in per cent, balanced if that selects."""
        from mpda.assessment import balanced_errors

        if self.balanced:
            return balanced_errors(self.rows, self.table.labels)[self.method].error
        errors = [row["misclassified"].mean() for row in self.rows if row["method"] == self.method]
        return 100.0 * float(sum(errors)) / len(errors)

    def _describe_choice(self) -> list[str]:
        """Say what error the saved settings have, and whether the folds chose other ones."""
        selection, sentences = self.selected.selected, []
        if self.for_unseen and not math.isnan(selection.score):
            sentences.append(
                "With the settings that are saved, the folds that chose them, which hold out "
                f"classes, have a MAP@R of {selection.score:.3f}. This is optimistic."
            )
        elif not math.isnan(selection.score):
            name = "a balanced error" if self.balanced else "an error"
            text = f"With the settings that are saved, the folds that chose them have {name} of "
            text += f"{100.0 * (1.0 - selection.score):.2f} %."
            if self.n_choosing == self.table.n_samples:
                # Half a sample: means over folds of equally many errors may differ a little.
                gap = self._measured_error - 100.0 * (1.0 - selection.score)
                is_low = gap > 50.0 / self.n_choosing
                text += (
                    " This is optimistic." if is_low else " Often it is too low; here it is not."
                )
            else:
                text += f" Their fits are to fewer samples: {self.n_choosing:,} chose the settings."
            sentences.append(text)
        chosen = [row["cv_dimension"] for row in self.rows if row["method"] == self.method]
        low, high, n = min(chosen), max(chosen), selection.n_components
        if high > 2 * n or n > 2 * low:
            numbers = f"{low}" if low == high else f"{low} to {high}"
            sentences.append(
                f"The folds chose {numbers} component{'' if high == 1 else 's'}, the model has "
                f"{n}: how many are needed is not certain."
            )
        return sentences

    def collect(
        self,
        title: str,
        command: str,
        summary: Sequence[str],
        notes: Sequence[str],
        next_commands: Mapping[str, str],
    ) -> dict[str, Any]:
        """Collect everything that a report shows.

        Parameters
        ----------
        title : str
            Title of the report.
        command : str
            Command line that made it.
        summary : sequence of str
            Sentences at the top.
        notes : sequence of str
            Notes about the data.
        next_commands : mapping of str to str
            Commands that are useful after this one, by their purpose.

        Returns
        -------
        dict
            Results as ``mpda.report.write_results`` and ``write_page`` take them.
        """
        import numpy as np

        from mpda.assessment.held_out import align_folds
        from mpda.estimators._linear_methods import transform_linearly
        from mpda.report import collect

        table, mapping = self.table, remove_neighbors(self.selected.model)
        Z = np.asarray(transform_linearly(mapping, table.samples))
        rows = [row for row in self.rows if row["method"] == self.method]
        drawn, predicted = table, None
        caption = f"{self.map_name}: the {len(Z)} samples of the fit; new samples scatter more"
        if rows:
            held_out = align_folds(rows, Z)
            drawn, Z, predicted = (
                table.select(held_out.indices),
                held_out.points,
                held_out.predicted,
            )
            caption = (
                f"{self.method}: {len(Z)} samples, each mapped by a fit to other samples. The maps "
                "of the folds are rotated onto the map of the model"
            )
            n_fewer = sum(row["projected"].shape[1] < min(Z.shape[1], 3) for row in rows)
            if n_fewer:
                verb = "has" if n_fewer == 1 else "have"
                caption += (
                    f"; {n_fewer} of them {verb} fewer components, so that their samples lie on a "
                    "line or plane"
                )
        sections = collect_model_sections(
            self.selected.model,
            drawn,
            Z,
            predicted,
            caption,
            self.method,
            shape=self.image_shape,
            text=self.text,
        )
        sections["data"] = collect.collect_data(table.to_report())
        sections["data"]["notes"] = [*map(make_sentence, notes)]
        sections["model"]["preparation"] = list(self.selected.preparation.reasons)
        sections["retrieval"] = self.retrieval or None
        sections["next"] = describe_commands(next_commands)
        if self.rows:
            sections["comparison"] = collect_comparison(table, self.rows, self.judged)
        # The patches were cut in the space after scaling and PCA, so that space is drawn.
        projection = mapping.steps[-1][1]
        projection = getattr(projection, "estimator_", projection)  # the start of a refinement
        if hasattr(projection, "patch_labels_"):
            X = mapping[:-1].transform(table.samples) if len(mapping.steps) > 1 else table.X
            sections["partition"] = collect.collect_partition(
                np.asarray(X), table.labels, projection.patch_labels_, projection.patch_linearity_
            )
        return collect.collect_results(title, command, summary, sections)


def describe_commands(commands: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the entry "next" of a report.

    Parameters
    ----------
    commands : mapping of str to str
        Commands by their purpose.

    Returns
    -------
    list of dict
        With the keys "purpose" and "command".
    """
    return [{"purpose": purpose, "command": command} for purpose, command in commands.items()]


def remove_neighbors(pipeline: Pipeline) -> Pipeline:
    """Return the steps of a model that map samples.

    Parameters
    ----------
    pipeline : Pipeline
        A model that may end with a 1-NN classifier.

    Returns
    -------
    Pipeline
        The model without the classifier.
    """
    return pipeline[:-1] if hasattr(pipeline.steps[-1][1], "kneighbors") else pipeline


def collect_comparison(
    table: Table, rows: Sequence[FoldResult], methods: Sequence[str]
) -> dict[str, Any]:
    """Collect the errors of several methods.

    Parameters
    ----------
    table : Table
        Samples of the folds.
    rows : sequence of dict
        One row for every method and outer fold.
    methods : sequence of str
        Methods about which the report has sentences.

    Returns
    -------
    dict
        The section "comparison" of a report.
    """
    from mpda.report import collect

    # The rows of nested cross-validation have one problem, without a name.
    return collect.collect_comparison(rows, describe_folds(rows), {"": table.name}, methods)


def collect_model_sections(
    pipeline: Pipeline,
    table: Table,
    Z: Floats,
    predicted: Any,
    caption: str,
    method: str,
    *,
    shape: tuple[int, int] | None = None,
    text: str | None = None,
) -> dict[str, Any]:
    """Collect a model, the samples that it maps and the classes that 1-NN gives them.

    Parameters
    ----------
    pipeline : Pipeline
        The model.
    table : Table
        The samples.
    Z : array of shape (n_samples, n_components)
        The mapped samples.
    predicted : array of shape (n_samples,) or None
        Predicted labels.
    caption : str
        Description of the samples.
    method : str
        Name of the method, as in a comparison.
    shape : tuple of int, default=None
        Rows and columns, if the features are pixels.
    text : str, default=None
        Column that describes each sample.

    Returns
    -------
    dict
        The sections "data", "model", "embedding" and "confusion" of a report.
    """
    from mpda.report import collect

    options: dict[str, Any] = {"text": text, "image_shape": shape}
    samples = table.to_report()
    sections: dict[str, Any] = {
        "data": collect.collect_data(samples),
        "model": _collect_model(pipeline, table, method, shape),
        "embedding": collect.collect_embedding(Z, samples, method, caption, predicted, **options),
    }
    if predicted is not None:
        how = "prediction: class of the nearest neighbour"
        sections["confusion"] = collect.collect_confusion(table.labels, predicted, how)
    return sections


def _collect_model(pipeline: Pipeline, table: Table, method: str, shape: Any) -> dict[str, Any]:
    """Collect a model with the correlations of its features after the encoding of columns."""
    from mpda.assessment import column_transformer
    from mpda.report import collect

    samples = table.to_report()
    encoding, rest = column_transformer.split_encoding(pipeline)
    if encoding is None:
        return collect.collect_model(pipeline, samples, method, shape)
    # Correlations are those of numbers: a text column has one for each of its values.
    X = column_transformer.encode_columns(pipeline, table.samples)
    features = column_transformer.name_features(pipeline, table.features)
    section = collect.collect_model(rest, replace(samples, X=X, features=features), method, shape)
    first = {"name": describe_step(encoding.steps[0][1], table.features), "parameters": {}}
    return {**section, "steps": [first, *section["steps"]]}


def select_for_json(results: dict[str, Any]) -> dict[str, Any]:
    """Select the results that ``--json`` prints.

    Parameters
    ----------
    results : dict
        Collected results.

    Returns
    -------
    dict
        The results without the coordinates and correlations that only figures need.
    """
    selection = {k: v for k, v in results.items() if k not in ("embedding", "partition")}
    drawn = ("correlations", "features", "image_shape")
    if "model" in selection:
        selection["model"] = {k: v for k, v in selection["model"].items() if k not in drawn}
    return selection
