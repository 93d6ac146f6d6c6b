"""Errors of methods, and results of a model for a report, a JSON object and a model file.

Used by ``fit``, ``compare`` and ``evaluate``; ``mpda.report.collect`` builds the single sections.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mpda.cli.cluster_fit import connect
from mpda.cli.messages import describe_folds
from mpda.cli.options import MeasurementOptions
from mpda.cli.terminal import Terminal

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda._lib.array_types import Floats, Labels
    from mpda.assessment import Assessment, Contender, FoldResult, SelectedModel
    from mpda.io.tables import Table


def measure_errors(
    terminal: Terminal, table: Table, contenders: Sequence[Contender], settings: MeasurementOptions
) -> Assessment:
    """Measure the errors of methods by nested cross-validation.

    Parameters
    ----------
    terminal : Terminal
        Shows the progress.
    table : Table
        The samples.
    contenders : sequence of Contender
        The methods.
    settings : MeasurementOptions
        Folds, preparation of the features and parallel work.

    Returns
    -------
    Assessment
        Errors of the methods that succeeded, messages of those that failed.
    """
    from mpda.assessment import assess_methods, count_steps

    protocol, jobs = settings.make_protocol(), settings.jobs
    progress = terminal.progress(count_steps(contenders, protocol), "measuring the error")
    # A method may print messages of its own; standard output is for results.
    with redirect_stdout(sys.stderr), connect(settings.scheduler), progress as step:
        X, y = table.X, table.labels
        return assess_methods(
            X, y, contenders, protocol, groups=table.groups, n_jobs=jobs, progress=step
        )


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
    image_shape : tuple of int, default=None
        Rows and columns, if the features are pixels.
    """

    table: Table
    method: str
    selected: SelectedModel
    rows: list[FoldResult]
    image_shape: tuple[int, int] | None = None

    @property
    def verdict(self) -> list[str]:
        """Sentences that compare the error of the method with 1-NN and LDA."""
        from mpda.report import collect

        if not any(row["method"] == self.method for row in self.rows):
            return []
        n_components = self.selected.selection.n_components
        d = self.table.X.shape[1]
        sentences = collect.summarize_errors(self.rows, self.method, d, n_components)
        return [*sentences[:2], *self._describe_choice(), *sentences[2:]]

    def _describe_choice(self) -> list[str]:
        """Say what error the saved settings have, and whether the folds chose other ones."""
        selection, sentences = self.selected.selection, []
        if not math.isnan(selection.score):
            error = 100.0 * (1.0 - selection.score)
            sentences.append(
                f"With the settings that are saved, the folds that chose them have an error of "
                f"{error:.2f} %. This is optimistic."
            )
        chosen = [row["cv_dimension"] for row in self.rows if row["method"] == self.method]
        low, high, n = min(chosen), max(chosen), selection.n_components
        if high > 2 * n or n > 2 * low:
            sentences.append(
                f"The folds chose {low} to {high} components, the model has {n}: how many are "
                "needed is not certain."
            )
        return sentences

    def collect(self, title: str, command: str, summary: Sequence[str]) -> dict[str, Any]:
        """Collect everything that a report shows.

        Parameters
        ----------
        title : str
            Title of the report.
        command : str
            Command line that made it.
        summary : sequence of str
            Sentences at the top.

        Returns
        -------
        dict
            Results as ``mpda.report.write_results`` and ``write_page`` take them.
        """
        import numpy as np

        from mpda.report import collect

        table, mapping = self.table, remove_neighbors(self.selected.model)
        Z = np.asarray(mapping.transform(table.to_frame()))
        caption = f"{self.method}: the {len(Z)} samples of the fit; new samples scatter more"
        sections = collect_model_sections(
            self.selected.model, table, Z, self._predict(), caption, self.image_shape
        )
        sections["model"]["method"] = self.method  # as in the comparison, not the name of the class
        if self.rows:
            sections["comparison"] = collect_comparison(table, self.rows)
        # The patches were cut in the space after scaling and PCA, so that space is drawn.
        projection = mapping.steps[-1][1]
        projection = getattr(projection, "estimator_", projection)  # the start of a refinement
        if hasattr(projection, "patch_labels_"):
            X = mapping[:-1].transform(table.to_frame()) if len(mapping.steps) > 1 else table.X
            sections["partition"] = collect.collect_partition(
                np.asarray(X), table.labels, projection.patch_labels_, projection.patch_linearity_
            )
        return collect.collect_results(title, command, summary, sections)

    def _predict(self) -> Labels | None:
        """Return the labels (n_samples,) that the outer folds predicted, None without folds."""
        import numpy as np

        rows = [row for row in self.rows if row["method"] == self.method]
        if not rows:
            return None
        # Folds test the samples in another order than that of the table.
        order = np.argsort(np.concatenate([row["tested"] for row in rows]))
        return np.concatenate([row["predicted"] for row in rows])[order]


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


def collect_comparison(table: Table, rows: Sequence[FoldResult]) -> dict[str, Any]:
    """Collect the errors of several methods.

    Parameters
    ----------
    table : Table
        Samples of the folds.
    rows : sequence of dict
        One row for every method and outer fold.

    Returns
    -------
    dict
        The section "comparison" of a report.
    """
    from mpda.report import collect

    # The rows of nested cross-validation have one problem, without a name.
    return collect.collect_comparison(rows, describe_folds(rows), {"": table.name})


def collect_model_sections(
    pipeline: Pipeline, table: Table, Z: Floats, predicted: Any, caption: str, shape: Any = None
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
    shape : tuple of int, default=None
        Rows and columns, if the features are pixels.

    Returns
    -------
    dict
        The sections "data", "model", "embedding" and "confusion" of a report.
    """
    from mpda.report import collect

    names = remove_neighbors(pipeline).get_feature_names_out().tolist()
    sections: dict[str, Any] = {
        "data": collect.collect_data(table),
        "model": collect.collect_model(pipeline, table, shape),
        "embedding": collect.collect_embedding(Z, table, names, caption, predicted),
    }
    if predicted is not None:
        how = "prediction: class of the nearest neighbour"
        sections["confusion"] = collect.collect_confusion(table.labels, predicted, how)
    return sections


def select_for_json(results: dict[str, Any]) -> dict[str, Any]:
    """Select the results that ``--json`` prints.

    Parameters
    ----------
    results : dict
        Collected results.

    Returns
    -------
    dict
        The results without the coordinates and weights that only figures need.
    """
    selection = {k: v for k, v in results.items() if k not in ("embedding", "partition")}
    drawn = ("weights", "features", "image_shape")
    if "model" in selection:
        selection["model"] = {k: v for k, v in selection["model"].items() if k not in drawn}
    return selection
