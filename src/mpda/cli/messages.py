"""Sentences that several commands print, for readers who know neither the method nor statistics."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda._lib.array_types import Labels
    from mpda.assessment import Evaluation, FoldResult, SelectedModel
    from mpda.assessment.model_choice import RankedContender
    from mpda.cli.tables.reading import Table

# Characters of a line of prose; short enough for a terminal next to an editor.
_LINE_WIDTH = 96
# Characters of a label in a table; longer labels would break the columns.
_LABEL_WIDTH = 30
# End of the names of refined methods.
_REFINED = " refined"


def wrap(text: str, indent: str = "") -> str:
    """Break a text into lines.

    Parameters
    ----------
    text : str
        Prose.
    indent : str, default=""
        Spaces before each line.

    Returns
    -------
    str
        The text with line breaks.
    """
    from mpda.assessment.text_table import join_units

    lines = textwrap.fill(
        join_units(text),
        _LINE_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace("\N{NO-BREAK SPACE}", " ")


def make_sentence(text: str) -> str:
    """Write a note as a sentence.

    Parameters
    ----------
    text : str
        A note, without capital and full stop.

    Returns
    -------
    str
        The note with both.
    """
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def shorten_label(label: Any) -> str:
    """Shorten a label to one cell of a table.

    Parameters
    ----------
    label : object
        Label of a class.

    Returns
    -------
    str
        One line; the middle of a long label is cut, because labels often differ at the end.
    """
    from mpda.plotting.styles import shorten

    return shorten(str(label), _LABEL_WIDTH)


def format_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format numbers of classes as a table.

    Parameters
    ----------
    rows : sequence of mappings
        One for each class; keys are titles of columns, with "_" for a space. Numbers that are not
        integers are written with two digits after the point.

    Returns
    -------
    list of str
        A heading and one line for each class.
    """
    import pandas as pd

    frame = pd.DataFrame(rows).rename(columns=lambda name: name.replace("_", " "))
    frame = frame.map(lambda value: shorten_label(value) if isinstance(value, str) else value)
    text = frame.to_string(index=False, float_format="{:.2f}".format, na_rep="-")
    return text.splitlines()


def list_labels(labels: Labels) -> str:
    """List a few labels.

    Parameters
    ----------
    labels : array of shape (n_labels,)
        Labels of classes.

    Returns
    -------
    str
        The first labels and the number of the others.
    """
    from mpda.io.error_text import join_names

    return join_names([shorten_label(label) for label in labels.tolist()], quoted=False)


def describe_table(table: Table) -> str:
    """Describe the samples of a table in one line.

    Parameters
    ----------
    table : Table
        The samples.

    Returns
    -------
    str
        File name, number of samples, features and classes.
    """
    from mpda.io.error_text import count_noun

    classes = ""
    if table.y is not None:
        n_classes = len(set(table.y.tolist()))
        classes = f", {n_classes} class{'' if n_classes == 1 else 'es'} ({table.label})"
    n_samples, n_features = table.n_samples, table.n_features
    size = f"{count_noun(n_samples, 'sample')}, {count_noun(n_features, 'feature')}"
    if table.embedding is not None:
        size += f" of {table.embedding}"
    return f"{table.name}: {size}{classes}"


def describe_map(method: str, model: Pipeline, n_components: int) -> str:
    """Describe the size of a map.

    Parameters
    ----------
    method : str
        Name of the method.
    model : Pipeline
        Fitted model.
    n_components : int
        Number of components.

    Returns
    -------
    str
        One line, such as "MPDA: 13 features to 2 components".
    """
    from mpda.assessment.column_transformer import count_features
    from mpda.io.error_text import count_noun

    n_columns, n_features = model.n_features_in_, count_features(model)
    features = count_noun(n_features, "feature")
    if n_features != n_columns:  # a text column has a feature for each of its values
        features = f"{count_noun(n_columns, 'column')} with {features}"
    return f"{method}: {features} to {count_noun(n_components, 'component')}"


def describe_step(step: Any, names: Sequence[str] | None) -> str:
    """Describe a step of a pipeline in one line.

    Parameters
    ----------
    step : estimator
        The step.
    names : sequence of str or None
        Names of the columns of the table.

    Returns
    -------
    str
        The step as Python writes it. Of a ColumnTransformer, the steps with their columns.
    """
    from mpda.io.error_text import join_names

    if not hasattr(step, "transformers"):
        return " ".join(repr(step).split())
    transformers = [
        f"{' '.join(repr(transformer).split())} of "
        + join_names([str(j) if names is None else names[j] for j in columns])
        for _, transformer, columns in step.transformers
        if transformer != "passthrough"
    ]
    return "; ".join(transformers)


def describe_folds(rows: Sequence[FoldResult]) -> str:
    """Explain how a comparison was measured.

    Parameters
    ----------
    rows : sequence of dict
        One row for every method and outer fold.

    Returns
    -------
    str
        Sentences.
    """
    from mpda.assessment import CLASSIFIER

    # Of a time budget, the folds that it left.
    n_folds = len({row["fold"] for row in rows})
    grouped = any("groups" in row for row in rows)
    test = "The t-test over groups" if grouped else "McNemar's test"
    has_classifier = any(row["method"] == CLASSIFIER for row in rows)
    other = f" ({CLASSIFIER}: that get another class)" if has_classifier else ""
    return (
        f"Error: share of samples whose nearest neighbour has another class{other}, measured by "
        f"nested cross-validation on {n_folds} folds: the samples that measure it took no part in "
        "fitting a method or in selecting its settings. ±: standard deviation over the folds. "
        f"{test} asks whether two methods err on equally many of these samples. It takes the fits "
        "as they are; fits to other samples vary, too."
    )


def describe_choices(selected: SelectedModel, *, for_unseen: bool = False) -> list[str]:
    """Describe the methods among which cross-validation chose.

    Parameters
    ----------
    selected : SelectedModel
        Model with its choices.
    for_unseen : bool, default=False
        True if their scores are the MAP@R of classes that folds held out.

    Returns
    -------
    list of str
        A heading, a table and the methods without a result; nothing if there was no choice.
    """
    if not selected.has_choices:
        return []

    def in_percent(score: float) -> float:
        return 100.0 * (score if for_unseen else 1.0 - score)

    rows = [
        {
            "start": choice.contender.name.removesuffix(_REFINED),
            "alone": in_percent(_score_alone(choice)),
            "refined": in_percent(choice.selected.refined_score),
            "compared": "refined" if _is_refined(choice) else "alone",
            "components": choice.selected.n_components,
        }
        for choice in selected.ranking.ranked
    ]
    measure = "MAP@R in % of classes that folds held out" if for_unseen else "errors in %"
    heading = (
        f"{measure}, by which cross-validation chose, for each start alone or refined, whichever "
        "the rule of the search selected (compared); the best of several is optimistic:"
    )
    lines = [wrap(heading, "    "), *(f"    {line}" for line in format_table(rows))]
    return [*lines, *(wrap(f"left out: {line}", "    ") for line in selected.ranking.left_out)]


def _is_refined(choice: RankedContender) -> bool:
    is_start = not choice.contender.name.endswith(_REFINED)
    return not (is_start or _is_alone(choice.selected.parameters))


def _score_alone(choice: RankedContender) -> float:
    """Return the score without refinement, also where none was tried."""
    is_start = not choice.contender.name.endswith(_REFINED)
    return choice.selected.score if is_start else choice.selected.unrefined_score


def describe_winner(selected: SelectedModel, rows: Sequence[FoldResult], method: str) -> list[str]:
    """Say which method cross-validation chose, and which ones the outer folds chose.

    Parameters
    ----------
    selected : SelectedModel
        Model with its choices.
    rows : sequence of dict
        One row for every compared method and outer fold.
    method : str
        Name in the rows.

    Returns
    -------
    list of str
        Sentences; none if there was no choice.
    """
    from mpda.io.error_text import join_names

    if not selected.has_choices:
        return []
    ranked = selected.ranking.ranked
    starts = sorted(choice.contender.name.removesuffix(_REFINED) for choice in ranked)
    among = f"{join_names(starts, quoted=False)}, {_describe_refined(selected)}"
    sentences = [f"Cross-validation on all samples chose {name_winner(selected)}, among {among}."]
    chosen = [row for row in rows if row["method"] == method]
    counts = Counter(_name_choice(row["chosen"], row["parameters"]) for row in chosen)
    if counts:
        names = [f"{name} ({count})" for name, count in counts.most_common()]
        folds = f"The {len(chosen)} folds that measure the error"
        sentences.append(f"{folds} chose {join_names(names, quoted=False)}.")
    return sentences


def _describe_refined(selected: SelectedModel) -> str:
    """Say which of the methods among which cross-validation chose were refined."""
    names = [choice.contender.name for choice in selected.ranking.ranked]
    refined = [name for name in names if name.endswith(_REFINED)]
    if len(refined) == len(names):
        return "each refined or not"
    if not refined:
        return "none of them refined (--time-budget)"
    best = " and ".join(name.removesuffix(_REFINED) for name in refined)
    return f"of which only the best one ({best}) was refined"


def name_winner(selected: SelectedModel) -> str:
    """Return the name of the method of a model, without "refined" where the start was kept.

    Parameters
    ----------
    selected : SelectedModel
        Model with its choices.
    """
    return _name_choice(selected.method, selected.selected.parameters)


def _name_choice(method: str, parameters: Mapping[str, Any]) -> str:
    return method.removesuffix(_REFINED) if _is_alone(parameters) else method


def list_parameters(parameters: Mapping[str, Any]) -> str:
    """List parameters that a search selected; the start of a refinement may be kept as it is.

    Parameters
    ----------
    parameters : mapping
        Parameters by their names.
    """
    values = dict(parameters)
    if _is_alone(values):
        del values["n_rounds"]
        values.pop("radius", None)
        return ", ".join(["no refinement", *(f"{name}={v!r}" for name, v in values.items())])
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _is_alone(parameters: Mapping[str, Any]) -> bool:
    return bool(parameters.get("n_rounds") == 0)


def describe_comparison(rows: Sequence[FoldResult], methods: Sequence[str]) -> list[str]:
    """Describe the errors of several methods.

    Parameters
    ----------
    rows : sequence of dict
        One row for every method and outer fold.
    methods : sequence of str
        Methods about which sentences follow.

    Returns
    -------
    list of str
        A table and an explanation of its numbers.
    """
    from mpda.assessment import (
        CLASSIFIER,
        CLASSIFIER_NOTE,
        estimate_errors,
        format_error_table,
        name_deciding_test,
    )

    test = name_deciding_test(estimate_errors(rows, "cv").values())
    legend = [f"* lowest error, or not significantly higher ({test})"]
    if any(row["method"] == CLASSIFIER for row in rows):
        legend.append(f"{CLASSIFIER}: {CLASSIFIER_NOTE}, and no *")
    return [*format_error_table(rows, "error", methods), *legend, "", wrap(describe_folds(rows))]


def describe_evaluation(evaluation: Evaluation) -> str:
    """Describe the error of a model on labelled samples.

    Parameters
    ----------
    evaluation : Evaluation
        Predictions for labelled samples.

    Returns
    -------
    str
        The error with its 95 % confidence interval, and whether samples of the fit are in it. A
        part of the result, not a note: an error on samples of the fit is low for any labels.
    """
    neighbors = (
        "the other samples of the file" if evaluation.leave_one_out else "the samples of the fit"
    )
    n_samples, n_known = len(evaluation.y), evaluation.n_training_samples
    error = (
        f"The nearest neighbour among {neighbors} has the wrong class for {evaluation.n_wrong} of "
        f"{n_samples} samples: {evaluation.error:.2f} %"
    )
    verb, others = ("was", "it") if n_known == 1 else ("were", "them")
    known = f"{n_known} of {n_samples} samples {verb} used to fit the model"
    if n_known == n_samples:
        return f"{error}. {known}; the error says nothing about new ones."
    low, high = evaluation.interval
    error = f"{error} (95 % confidence interval {low:.2f} to {high:.2f} %)."
    if evaluation.unknown_labels.size and evaluation.leave_one_out:
        return error
    if evaluation.leave_one_out:
        return f"{error} It is too low if they were used to fit the model, which keeps no samples."
    if n_known:
        return f"{error} {known}; without {others} the error is {evaluation.error_of_new:.2f} %."
    return error


def describe_unknown_classes(evaluation: Evaluation) -> list[str]:
    """Describe unknown classes in an evaluation.

    Parameters
    ----------
    evaluation : Evaluation
        Predictions for labelled samples.

    Returns
    -------
    list of str
        Notes; none if there is nothing to say.
    """
    import numpy as np

    if not evaluation.unknown_labels.size:
        return []
    labels = list_labels(evaluation.unknown_labels)
    n_unknown = int(np.isin(evaluation.y, evaluation.unknown_labels).sum())
    if evaluation.leave_one_out:
        return [
            "the fit had none of these classes, so the samples are compared with each other: "
            f"{labels}"
        ]
    return [
        f"{n_unknown} of {len(evaluation.y)} samples have classes that the model does not know "
        f"and count as wrong: {labels}"
    ]
