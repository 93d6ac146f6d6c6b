"""Frame of an experiment: its options, the run of its methods, and the table it writes.

The rows of all experiments are kept in one file, ``rows.jsonl`` of the output directory, so that an
experiment that was stopped is resumed and experiments share their rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TextIO

from mpda._lib.atomic_write import write_atomically
from mpda._lib.provenance import machine, versions
from mpda._lib.validation import check_option
from mpda.assessment import Contender
from mpda.exceptions import DatasetError
from mpda.experiments.paper_methods import CONTENDERS, SHARED_PCA
from mpda.experiments.protocol import PROBLEMS, SEEDS, compute_fingerprint
from mpda.experiments.row_store import Row
from mpda.experiments.runner import run_tasks
from mpda.experiments.task import Task


@dataclass(frozen=True)
class ExperimentOptions:
    """Options of an experiment.

    Parameters
    ----------
    out : Path
        Directory for rows, tables and figures.
    problems : sequence of str, default=None
        Keys of ``PROBLEMS``; None means all of the experiment.
    methods : sequence of str, default=None
        Keys of ``CONTENDERS``; None means all.
    n_splits : int, default=20
        Number of splits, at most 20.
    jobs : int, default=1
        Number of processes.
    directory : Path, default=None
        Directory of .npz files; see :func:`mpda.experiments.datasets.load`.
    progress : text stream, default=None
        Where lines on the progress are written.
    """

    out: Path
    problems: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    n_splits: int = len(SEEDS)
    jobs: int = 1
    directory: Path | None = None
    progress: TextIO | None = None

    def select_problems(self, default: Sequence[str]) -> list[str]:
        """Return the names of the problems, checked and without repetitions.

        Parameters
        ----------
        default : sequence of str
            Problems of the experiment, for ``problems=None``.

        Returns
        -------
        list of str
            Keys of ``PROBLEMS``.
        """
        names = dict.fromkeys(default if self.problems is None else self.problems)
        return [check_option("datasets", name, tuple(PROBLEMS)) for name in names]

    def select_methods(self) -> list[str]:
        """Return the names of the methods, checked and without repetitions.

        Returns
        -------
        list of str
            Keys of ``CONTENDERS``.
        """
        names = dict.fromkeys(CONTENDERS if self.methods is None else self.methods)
        return [check_option("methods", name, tuple(CONTENDERS)) for name in names]


@dataclass(frozen=True)
class ExperimentResult:
    """Result of an experiment.

    Parameters
    ----------
    text : str, default=""
        Tables in Markdown.
    files : list of Path, default=[]
        Files that were written.
    failed : list of str, default=[]
        One message for each task that failed and each data set that is not available.
    rows : sequence of Row, default=()
        Rows of the finished tasks.
    """

    text: str = ""
    files: list[Path] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    rows: Sequence[Row] = ()


def run_contenders(
    options: ExperimentOptions, problems: Sequence[str], contenders: Collection[Contender]
) -> ExperimentResult:
    """Run contenders on all splits of the problems whose data sets are available.

    Parameters
    ----------
    options : ExperimentOptions
        Number of splits, number of processes and directories.
    problems : sequence of str
        Keys of ``PROBLEMS``.
    contenders : collection of Contender
        Methods with their grids.

    Returns
    -------
    ExperimentResult
        Rows of all tasks, and messages of failed tasks and of data sets that are not available;
        no text and no files yet.

    Raises
    ------
    DatasetError
        If none of the data sets is available.
    """
    data: dict[str, str] = {}
    missing: list[str] = []
    for name in problems:
        # One data set that cannot be downloaded must not cost the hours that the others take.
        try:
            data[name] = compute_fingerprint(PROBLEMS[name], options.directory)
        except DatasetError as error:
            missing.append(f"{PROBLEMS[name].title}: {error}")
            if len(missing) == len(problems):  # empty tables would replace earlier ones
                raise
            if options.progress is not None:
                print(f"left out: {error}", file=options.progress)
    # Splits in the outer loop: the rows of a run that was stopped cover all problems and methods.
    tasks = [
        Task(PROBLEMS[problem], contender, seed, fingerprint, contender.name in SHARED_PCA)
        for seed in SEEDS[: options.n_splits]
        for problem, fingerprint in data.items()
        for contender in contenders
        if problem not in contender.skipped
    ]
    path = options.out / "rows.jsonl"
    rows, failures = run_tasks(tasks, path, options.directory, options.jobs, options.progress)
    return ExperimentResult(failed=missing + failures, rows=rows)


def write_result(
    options: ExperimentOptions, name: str, text: str, run: ExperimentResult | None = None
) -> ExperimentResult:
    """Write the tables of an experiment with their provenance as ``<name>.md``.

    Parameters
    ----------
    options : ExperimentOptions
        Options of the experiment.
    name : str
        Name of the experiment.
    text : str
        Tables in Markdown.
    run : ExperimentResult, default=None
        Result with the rows that the tables are made of and the files written so far, if any.

    Returns
    -------
    ExperimentResult
        The result with the text and the new file.
    """
    run = run or ExperimentResult()
    provenance = _describe_run(name, options, run.rows)
    path = write_atomically(options.out / f"{name}.md", f"{text}\n\n{provenance}\n")
    return replace(run, text=text, files=[*run.files, path])


def _describe_run(name: str, options: ExperimentOptions, rows: Sequence[Row]) -> str:
    """Return the command, the number of splits, the date, the machine and the versions.

    Date and machine are those of the rows, so that a table does not depend on who formats it.
    """
    command = ["mpda", "reproduce", name]
    for option, names in (("--datasets", options.problems), ("--methods", options.methods)):
        if names is not None:
            # A shell would split "LFDA ridge"; the parser reads hyphens as spaces.
            command += [option, *(name.replace(" ", "-") for name in names)]
    if options.n_splits != len(SEEDS):
        command += ["--splits", str(options.n_splits)]
    n_splits = len({row["seed"] for row in rows})
    splits = f" {n_splits} split{'s' * (n_splits > 1)}." if rows else ""
    day = max((row["at"][:10] for row in rows), default=date.today().isoformat())
    machines = " and ".join(sorted({row["machine"] for row in rows})) or machine()
    packages = ", ".join(f"{package} {number}" for package, number in versions().items())
    return f"`{' '.join(command)}`;{splits} {day}; {machines}; {packages}."
