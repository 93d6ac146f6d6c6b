"""Hostile data for every estimator and attacked files for every reader, until the time is over.

    python robustness/fuzz.py --minutes 10 --seed 0 [--out docs/evidence]

Data sets and parameters are drawn by Hypothesis from tests/hostile.py, attacks on files from
tests/attacks.py. Prints how many cases ran and how each ended; the exit code is 1 if one of them
ended as none should. A fault is printed with what makes it again.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

# Cases of one estimator that are drawn together; a process that dies takes so many with it.
_ROUND = 40


@dataclass
class Ends:
    """How the cases of some rounds ended.

    kinds : (estimator, how) and how often
    causes : what was said by refusals and warnings, its numbers left out
    faults : what went wrong, with what makes it again
    """

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, other: Ends) -> None:
        self.kinds += other.kinds
        self.causes += other.causes
        self.faults += other.faults


def one_round(name: str, seed: int) -> Ends:
    """Cases of one estimator, drawn from a seed."""
    import hypothesis

    from hostile import cases, outcome

    ends = Ends()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=_ROUND,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases(name))
    def drawn(case: tuple[Any, Any]) -> None:
        try:
            found = outcome(*case)
        except Exception as error:
            ends.kinds[name, "FAULT"] += 1
            said = f"{type(error).__name__}: {error}"
            ends.faults.append(f"{' '.join(repr(case[0]).split())} on {case[1]}: {said}")
        else:
            ends.kinds[name, found.kind] += 1
            if found.said:
                ends.causes[_without_numbers(found.said)] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hypothesis.errors.NonInteractiveExampleWarning)
        drawn()
    return ends


def _without_numbers(said: str) -> str:
    """The first words of a message, the same for the same cause."""
    words = said.replace(",", " ").replace(":", " ").split()
    return " ".join(word for word in words if not any(c.isdigit() for c in word))[:60]


def fuzzed(seconds: float, seed: int) -> Ends:
    """Rounds over all estimators in turn, until the time is over."""
    from hostile import EDGES

    total, end = Ends(), time.monotonic() + seconds
    pool = _new_pool()
    for number in count():
        for name in EDGES:
            if time.monotonic() >= end:
                pool.shutdown()
                return total
            try:
                total.add(pool.submit(one_round, name, seed + number).result())
            except BrokenProcessPool:
                total.kinds[name, "FAULT"] += 1
                total.faults.append(f"{name}, seed {seed + number}: the process died")
                pool = _new_pool()
            n = total.kinds.total()
            left = max(0.0, end - time.monotonic())
            print(f"{n} cases, {len(total.faults)} faults, {left:.0f} s left", file=sys.stderr)
    raise AssertionError("unreachable")


def _new_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def report(ends: Ends, attacks: Any, minutes: float, seed: int) -> str:
    """All tables as markdown."""
    from protocol import provenance

    kinds = ["answered", "answered, warned", "refused", "FAULT"]
    names = sorted({name for name, _ in ends.kinds})
    lines = [
        "# Hostile data and attacked files",
        "",
        f"`python robustness/fuzz.py --minutes {minutes:g} --seed {seed}`. {provenance()}.",
        "",
        f"## {ends.kinds.total()} fits to data built to hurt",
        "",
        "| estimator | cases | " + " | ".join(kinds) + " |",
        "|---" * (len(kinds) + 2) + "|",
    ]
    for name in names:
        row = [ends.kinds[name, kind] for kind in kinds]
        lines.append(f"| {name} | {sum(row)} | " + " | ".join(map(str, row)) + " |")
    row = [sum(ends.kinds[name, kind] for name in names) for kind in kinds]
    lines.append(f"| all | {sum(row)} | " + " | ".join(map(str, row)) + " |")
    lines += ["", "What refusals and warnings said:", "", "| said | times |", "|---|---|"]
    lines += [f"| {said} ... | {n} |" for said, n in ends.causes.most_common(20)]
    lines += [
        "",
        f"## {attacks.ends.total()} files under attack",
        "",
        "```text",
        f"{attacks}",
        "```",
    ]
    if ends.faults:
        lines += ["## Faults", "", *(f"- {fault}" for fault in ends.faults), ""]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="directory for fuzz.md")
    options = parser.parse_args()
    from attack_runs import attack

    found: dict[str, Any] = {}

    def on_files() -> None:
        found["attacks"] = attack(60.0 * options.minutes, options.seed)

    beside = threading.Thread(target=on_files)
    beside.start()
    ends = fuzzed(60.0 * options.minutes, options.seed)
    beside.join()
    page = report(ends, found["attacks"], options.minutes, options.seed)
    print(page)
    if options.out:
        (options.out / "fuzz.md").write_text(page)
    sys.exit(bool(ends.faults or found["attacks"].faults))


if __name__ == "__main__":
    main()
