"""The number that a page begins with, and what stands beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpda.report._tables import per_cent


@dataclass(frozen=True)
class KeyNumber:
    """One number: how it reads, what it is, and a line that is small."""

    value: str
    unit: str
    name: str
    note: str = ""


def key_numbers(results: dict[str, Any]) -> list[KeyNumber]:
    """The main number first; none where nothing was measured."""
    problems = (results.get("comparison") or {}).get("problems", [])
    if len(problems) > 1:
        return _over_problems(results, problems)
    if problems and problems[0]["rows"]:
        return _of_problem(results, problems[0]["rows"])
    if confusion := results.get("confusion"):
        counts = confusion["counts"]
        total = sum(map(sum, counts))
        if total:
            wrong = total - sum(row[i] for i, row in enumerate(counts))
            name = f"error of {_method(results) or '1-NN'}"
            note = f"{wrong} of {total} samples wrong"
            return [KeyNumber(per_cent(100.0 * wrong / total), "%", name, note), *_sizes(results)]
    return _sizes(results)


def _of_problem(results: dict[str, Any], rows: list[dict[str, Any]]) -> list[KeyNumber]:
    known = {row["method"]: row for row in rows if row["error"] is not None}
    if not known:
        return _sizes(results)
    main = known.get(_method(results) or "") or min(known.values(), key=lambda row: row["error"])
    numbers = [_error_number(main, f"error of {main['method']}")]
    for method, name in (("1-NN", "error of 1-NN on all features"), ("LDA", "error of LDA")):
        if method in known and method != main["method"]:
            numbers.append(_error_number(known[method], name))
    if main.get("components") is not None:
        features = (results.get("data") or {}).get("n_features")
        note = f"of {features} features" if features else ""
        count = f"{main['components']:.1f}".removesuffix(".0")
        numbers.append(KeyNumber(count, "", f"dimensions that {main['method']} takes", note))
    return numbers


def _error_number(row: dict[str, Any], name: str) -> KeyNumber:
    note = ""
    if row.get("spread") is not None:
        splits = f" over {row['splits']:g} splits" if row.get("splits") else ""
        note = f"± {row['spread']:.2f}{splits}"
    return KeyNumber(per_cent(row["error"]), "%", name, note)


def _over_problems(results: dict[str, Any], problems: list[dict[str, Any]]) -> list[KeyNumber]:
    wins: dict[str, int] = {}
    for problem in problems:
        for row in problem["rows"]:
            wins[row["method"]] = wins.get(row["method"], 0) + bool(row.get("best"))
    main = _method(results)
    if main not in wins:
        main = "MPDA" if "MPDA" in wins else max(wins, key=lambda name: wins[name], default=None)
    if main is None:
        return []
    shown = [main, *(name for name in ("1-NN", "LDA") if name in wins and name != main)]
    return [
        KeyNumber(str(wins[name]), f"of {len(problems)}", f"problems where {name} is best or tied")
        for name in shown
    ]


def _method(results: dict[str, Any]) -> str | None:
    return (results.get("model") or {}).get("method")


def _sizes(results: dict[str, Any]) -> list[KeyNumber]:
    data, model = results.get("data") or {}, results.get("model") or {}
    numbers = []
    if model.get("n_components") is not None:
        features = data.get("n_features")
        note = f"of {features} features" if features else ""
        numbers.append(KeyNumber(f"{model['n_components']:g}", "", "dimensions", note))
    if data.get("n_samples") is not None:
        numbers.append(KeyNumber(f"{data['n_samples']:,}", "", "samples"))
    return numbers
