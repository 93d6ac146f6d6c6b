"""Published results: the numbers of the paper's tables, from ``published.json``.

``error_tables`` and the benchmarks compare their own errors with them.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mpda.experiments.protocol import PROBLEMS


@dataclass(frozen=True)
class PublishedResult:
    """Entry of the paper's Table 2.

    Parameters
    ----------
    error : float
        Mean error in per cent.
    dimension : float
        Mean number of components.
    best : bool
        True if the paper prints it in bold.
    """

    error: float
    dimension: float
    best: bool


@cache
def read_published() -> dict[str, Any]:
    """Read the paper's tables.

    Returns
    -------
    dict
        "table1" and "table2", each with "caption" and "rows".
    """
    return json.loads(files("mpda.experiments").joinpath("published.json").read_text("utf-8"))


def find_published(problem: str, method: str) -> PublishedResult | None:
    """Find the paper's result of a method on a problem.

    Parameters
    ----------
    problem : str
        A key of ``PROBLEMS``.
    method : str
        Name of a method, as in the table.

    Returns
    -------
    PublishedResult or None
        None if the paper has no such entry.
    """
    # By data set: the equalized and the plain faces are compared with the paper's one column.
    entry = read_published()["table2"]["rows"].get(method, {}).get(PROBLEMS[problem].dataset)
    return None if entry is None else PublishedResult(**entry)
