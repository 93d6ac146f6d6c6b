"""Options that several commands share, and the conversion of their values.

A group of options is a dataclass; its docstring is the help. Nothing here imports NumPy or
scikit-learn before a command runs, so that ``mpda --help`` stays fast.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda.cli.terminal import Progress, stop

if TYPE_CHECKING:
    from mpda.assessment import AssessmentProtocol
    from mpda.cli.tables.reading import Table

# Folds that measure the error, where classes have as many samples.
DEFAULT_FOLDS = 5
# Numbers of components that one picture shows.
_MOST_DRAWN = 3
# Numbers in a table above which folds are computed in parallel: processes take seconds to start.
_LARGE_TABLE = 200_000
Count = Annotated[int, typer.Option(min=1)]
FeatureScaling = StrEnum("FeatureScaling", "AUTO NONE STANDARD")
FeatureScaling.__doc__ = "Values of ``--scale``."
ImputationRule = StrEnum("ImputationRule", "MEDIAN")
ImputationRule.__doc__ = "Values of ``--impute``."
ComponentRule = StrEnum("ComponentRule", "FEWEST BEST")
SelectionTarget = StrEnum("SelectionTarget", "SEEN UNSEEN")
SelectionTarget.__doc__ = "Values of ``--select-for``."
ScoreName = StrEnum("ScoreName", "ACCURACY BALANCED")
ScoreName.__doc__ = "Values of ``--score``."
ComponentRule.__doc__ = "Values of ``--select``."


@dataclass(frozen=True)
class FeatureOptions:
    """Options that turn the columns of a table into features.

    Parameters
    ----------
    scale : FeatureScaling, default="auto"
        Standardise the features. auto: only if that lowers the error of the method on the training
        samples.
    impute : ImputationRule, default=None
        Replace missing values of a feature by its median over the training samples. --skip-missing
        then leaves out only rows without a label.
    one_hot : bool, default=False
        Make one feature of 0 and 1 for each value of a text column. Without it text columns are an
        error.
    """

    scale: FeatureScaling = FeatureScaling.AUTO
    impute: ImputationRule | None = None
    one_hot: Annotated[bool, typer.Option("--one-hot")] = False

    @property
    def scaled(self) -> bool | None:
        """Whether features are standardised; None lets the samples decide."""
        return {"none": False, "standard": True}.get(self.scale)

    def make_columns(self, table: Table) -> Any:
        """Return the step that makes features of the columns of a table.

        Parameters
        ----------
        table : Table
            The samples.

        Returns
        -------
        ColumnTransformer, SimpleImputer or None
            Medians and indicators, as the options say.
        """
        from mpda.assessment.column_transformer import make_columns

        texts = list(table.categories)
        return make_columns(table.n_features, texts, imputes=self.impute is not None)


@dataclass(frozen=True)
class MeasurementOptions:
    """Options of the commands that fit methods and measure their errors.

    Parameters
    ----------
    components : int, default=None
        Number of components. Default: selected by cross-validation. With 3 or fewer, for pictures,
        a refinement is not on a sphere.
    select : ComponentRule, default="fewest"
        Number of components. fewest: the fewest within one standard error of the lowest error on
        the folds. best: those of the lowest error.
    select_for : SelectionTarget, default="seen"
        Classes for which settings are selected. seen: those of the table. unseen: classes to come;
        settings have the best MAP@R on folds that hold out whole classes.
    search : bool, default=False
        Select the other parameters by cross-validation, too.
    pca : str, default="auto"
        Apply PCA before the method and keep this share of the variance. auto: for more than 100
        features 0.95 or no PCA, whichever has the lower error in cross-validation.
    folds : int, default=None
        Number of folds that measure the error. Default: 5, or fewer where classes are small.
    groups : str, default=None
        Column that names the group of each sample, for example a patient or a speaker. Samples of
        one group are never in two folds. It is no feature.
    seed : int, default=0
        Seed of the random folds.
    jobs : int, default=None
        Number of folds computed in parallel. Default: one for each core if the table has more than
        200,000 numbers, otherwise 1.
    time_budget : float, default=None
        Seconds that the command should take: settings are selected on fewer samples, and the error
        is measured on fewer folds, at least two. Results then depend on the speed of the machine.
        A choice of the method by mpda fit has 120 seconds by default; inf is no limit.
    unseen : bool, default=False
        Measure the search for classes that the fit did not have, too, by folds that hold out whole
        classes. It needs four classes, six with --select-for unseen.
    scheduler : str, default=None
        Compute on the Dask cluster with this scheduler, for example tcp://HOST:8786.
    """

    components: Annotated[int | None, typer.Option(min=1)] = None
    select: ComponentRule = ComponentRule.FEWEST
    select_for: SelectionTarget = SelectionTarget.SEEN
    search: Annotated[bool, typer.Option("--search")] = False
    pca: Annotated[str, typer.Option(metavar="auto|none|SHARE")] = "auto"
    folds: Annotated[int | None, typer.Option(min=0)] = None
    groups: Annotated[str | None, typer.Option(metavar="COLUMN")] = None
    seed: Annotated[int, typer.Option(min=0)] = 0
    jobs: Annotated[int | None, typer.Option(min=1)] = None
    time_budget: Annotated[float | None, typer.Option(min=1, metavar="SECONDS")] = None
    unseen: Annotated[bool, typer.Option("--unseen")] = False
    scheduler: str | None = None

    @property
    def is_picture(self) -> bool:
        """Whether the samples are mapped to so few numbers that they can be drawn."""
        return self.components is not None and self.components <= _MOST_DRAWN

    @property
    def n_folds(self) -> int:
        """Number of folds that measure the error; 0 for no measurement."""
        return DEFAULT_FOLDS if self.folds is None else self.folds

    def make_protocol(self, scaled: bool | None) -> AssessmentProtocol:
        """Build the protocol by which methods are fitted and measured.

        Parameters
        ----------
        scaled : bool or None
            Whether features are standardised.

        Returns
        -------
        AssessmentProtocol
            The protocol, with at least two folds, used or not.
        """
        # Checked before scikit-learn is imported, so that a mistake is reported at once.
        if not re.fullmatch(r"auto|none|0?\.\d*[1-9]\d*", self.pca):
            limits = "auto, none or a number between 0 and 1"
            stop(f"mpda: --pca must be {limits}, got {self.pca!r}.", 2)
        from mpda.assessment import AssessmentProtocol

        share = None if self.pca == "none" else float(self.pca) if self.pca != "auto" else "auto"
        protocol = AssessmentProtocol(max(self.n_folds, 2), scaled=scaled, energy=share)
        fewest = self.select == ComponentRule.FEWEST
        for_unseen = self.select_for == SelectionTarget.UNSEEN
        protocol = replace(protocol, fewest=fewest, for_unseen=for_unseen)
        return replace(protocol, n_components=self.components, seed=self.seed)

    def count_jobs(self, n_numbers: int) -> int:
        """Return the number of folds to compute in parallel.

        Parameters
        ----------
        n_numbers : int
            Samples times features.

        Returns
        -------
        int
            The value of --jobs or its default.
        """
        if self.jobs is not None:
            return self.jobs
        if n_numbers <= _LARGE_TABLE:
            return 1
        from joblib import cpu_count

        return int(cpu_count())

    def deadline(self, progress: Progress) -> float | None:
        """Return the time at which the command should be done.

        Parameters
        ----------
        progress : Progress
            Began with the command.

        Returns
        -------
        float or None
            Value of ``time.monotonic()``; None without --time-budget.
        """
        if self.time_budget is None or math.isinf(self.time_budget):
            return None
        return progress.start + self.time_budget


@dataclass(frozen=True)
class ResultFiles:
    """Files with the results of a command.

    Parameters
    ----------
    results : Path, default=None
        JSON file to write: the results, from which mpda report makes a page later.
    report : Path, default=None
        HTML page to write: a report with figures.
    """

    results: Path | None = None
    report: Path | None = None

    def write(self, collected: dict[str, Any]) -> list[Path]:
        """Write the files that the user asked for.

        Parameters
        ----------
        collected : dict
            Results as ``mpda.report.collect`` makes them.

        Returns
        -------
        list of Path
            The files that were written.
        """
        from mpda.report import write_page, write_results

        files = [] if self.results is None else [write_results(collected, self.results)]
        return files if self.report is None else [*files, write_page(collected, self.report)]


def list_words(*options: Any) -> list[str]:
    """Return the words of a command line that set options to other values than their defaults.

    Parameters
    ----------
    *options : dataclass
        Options of a command, such as ``FeatureOptions``. Fields without a default are left out.

    Returns
    -------
    list of str
        Options and values.
    """
    words: list[str] = []
    for group in options:
        for field in fields(group):
            value = getattr(group, field.name)
            if field.default is MISSING or value == field.default:
                continue
            flag = f"--{field.name.replace('_', '-')}"
            if value is True:
                words.append(flag)
            else:
                values = value if isinstance(value, list) else [value]
                words += [word for item in values for word in (flag, str(item))]
    return words


def list_method_names() -> list[str]:
    """Return the names of all methods as they are written on the command line.

    Returns
    -------
    list of str
        Lower case, with hyphens instead of spaces; used for shell completion.
    """
    from mpda.assessment import AUTOMATIC
    from mpda.estimators.methods import BY_NAME

    return [name.lower().replace(" ", "-") for name in (*BY_NAME, AUTOMATIC)]


def parse_names(values: Sequence[str] | None, choices: Iterable[str], option: str) -> list[str]:
    """Look up names that a user wrote in any case, with - or _ instead of spaces.

    Parameters
    ----------
    values : sequence of str or None
        Words of the command line; each may hold several names separated by commas or spaces.
    choices : iterable of str
        Names that exist.
    option : str
        The option, for the message.

    Returns
    -------
    list of str
        Names that exist, without repetition; empty if the option was not used.

    Raises
    ------
    SystemExit
        With code 2 for an unknown name and for an option without a name.
    """
    by_plain_name = {_normalize(name): name for name in choices}
    available = f"available: {', '.join(by_plain_name.values())}."
    texts = [text for value in values or () for text in value.split(",")]
    names = [name for text in texts for name in _split_names(text, by_plain_name)]
    names = [name for name in names if name]  # "lda, mpda," has an empty name at its end
    for name in names:
        if name not in by_plain_name:
            stop(f"mpda: {option}: unknown name {name!r}; {available}", 2)
    if values and not names:
        stop(f"mpda: {option} needs a name; {available}", 2)
    return list(dict.fromkeys(by_plain_name[name] for name in names))


def _split_names(text: str, names: Iterable[str]) -> list[str]:
    """Split a text at spaces if all its words are names; a name may have spaces itself."""
    name, words = _normalize(text), [_normalize(word) for word in text.split()]
    return words if name not in names and set(words) <= set(names) else [name]


def _normalize(name: str) -> str:
    return name.strip().lower().replace("-", " ").replace("_", " ")


def parse_image_shape(value: str | None) -> tuple[int, int] | None:
    """Convert the value of ``--image``.

    Parameters
    ----------
    value : str or None
        Text such as "8x8".

    Returns
    -------
    tuple of int or None
        Rows and columns.
    """
    if value is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})[xX]([1-9][0-9]{0,5})", value)
    if match is None:
        stop(f"mpda: --image must be ROWSxCOLUMNS, for example 8x8, got {value!r}.", 2)
    return int(match[1]), int(match[2])


# Words that Python and its users write otherwise than JSON.
_JSON_WORDS = {"none": "null", "inf": "Infinity", "infinity": "Infinity"}


def parse_parameters(values: Iterable[str] | None) -> dict[str, Any]:
    """Convert the values of ``--set``.

    Parameters
    ----------
    values : iterable of str or None
        Texts such as "alpha=0.1".

    Returns
    -------
    dict
        Parameters by name. Numbers, inf, true, false and none are converted; anything else stays
        text.
    """
    parameters: dict[str, Any] = {}
    for text in values or ():
        name, sign, value = text.partition("=")
        if not sign or not name:
            stop(f"mpda: --set needs NAME=VALUE, for example --set alpha=0.1, got {text!r}.", 2)
        # Lower case, since users write Python's True and None where JSON has true and null.
        try:
            parameters[name] = json.loads(_JSON_WORDS.get(value.lower(), value.lower()))
        except ValueError:
            parameters[name] = value
    return parameters
