"""How a row is read, and the paper's numbers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from mpda.experiments._protocol import PROBLEMS

READINGS = {
    "best": "at the dimension that is best on the test part, as the paper reads it",
    "cv": "at the dimension that cross-validation on the training part chose",
}


@cache
def published() -> dict[str, Any]:
    """The paper's tables."""
    text = files("mpda.experiments").joinpath("published.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def published_cell(problem: str, method: str) -> dict[str, Any] | None:
    rows = published()["table2"]["rows"]
    found: dict[str, Any] | None = rows.get(method, {}).get(PROBLEMS[problem].dataset)
    return found
