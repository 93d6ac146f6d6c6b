"""Fit every estimator to hostile data until the time is over.

    python robustness/fuzz.py --minutes 10 --seed 0 [--out PAGE]

Data sets and parameters are drawn by Hypothesis from tests/hostile.py. The page counts answers,
warnings and refusals for each estimator and lists the messages. The exit status is 1 if a fit
breaks a law; the fault is printed with the estimator and the recipe that reproduce it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis

from environment import describe_environment, format_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import hostile

# Cases that are drawn together for one estimator: a few seconds, so that all estimators take turns.
CASES_PER_ROUND = 40
OUTCOMES = ("answered", "answered, warned", "refused", "FAULT")


def run_round(name: str, seed: int, outcomes: Counter[Any], messages: Counter[str]) -> list[str]:
    """Fit one estimator to newly drawn data sets.

    Parameters
    ----------
    name : str
        Name of the estimator in ``hostile.NAMES``.
    seed : int
        Seed of the draw.
    outcomes, messages : Counter
        Counts that are updated: of pairs (estimator, outcome), and of messages without numbers.

    Returns
    -------
    list of str
        One line for each fault.
    """
    faults = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        hostile.SETTINGS,
        max_examples=CASES_PER_ROUND,
        derandomize=False,
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(hostile.draw_case(name))
    def fit(case: Any) -> None:
        try:
            outcome, message = hostile.fit_and_check(*case)
        except Exception as error:
            outcomes[name, "FAULT"] += 1
            faults.append(f"{case[0]!r} on {case[1]}: {type(error).__name__}: {error}")
        else:
            outcomes[name, outcome] += 1
            messages[re.sub(r"\S*\d\S*", "#", message)[:70]] += 1

    fit()
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="Markdown file for the result")
    options = parser.parse_args()
    outcomes: Counter[Any] = Counter()
    messages: Counter[str] = Counter()
    faults: list[str] = []
    end = time.monotonic() + 60.0 * options.minutes
    for name, seed in ((name, seed) for seed in count(options.seed) for name in hostile.NAMES):
        if time.monotonic() >= end:
            break
        faults += run_round(name, seed, outcomes, messages)
        print(f"{outcomes.total()} fits, {len(faults)} faults", file=sys.stderr)
    del messages[""]
    rows = [[name, *(outcomes[name, kind] for kind in OUTCOMES)] for name in hostile.NAMES]
    page = f"""# Fits to hostile data

`make fuzz MINUTES={options.minutes:g}`, seed {options.seed}. {describe_environment()}.

{outcomes.total()} fits, {len(faults)} faults.

{format_table(["estimator", *OUTCOMES], rows)}

The most frequent messages of refusals and warnings, numbers replaced by #:

{format_table(["message", "count"], messages.most_common(20))}
"""
    page += "".join(f"\nFAULT: {fault}\n" for fault in faults)
    print(page)
    if options.out:
        options.out.write_text(page)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
