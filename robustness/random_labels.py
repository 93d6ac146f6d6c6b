"""Count how often a command claims a gain on tables with random labels.

    python robustness/random_labels.py --seeds 100 [--out PAGE]

Tables and phrases are those of tests/random_label_cases.py: 80 samples with 6 normal features in 2
to 4 classes. Any claim is chance, and should be made for at most 5 % of the tables. The exit status
is 1 if the claims of a command are significantly more frequent (binomial test, 5 %).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from scipy.stats import binomtest

from environment import describe_environment, format_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import random_label_cases as cases

LEVEL = 0.05  # of the tests by which the commands decide
OUTCOMES = ("no method separates", "claims a gain", "a difference is significant")


def count_outcomes(command: str, seed: int) -> Counter[tuple[str, str]]:
    """Run a command on one table and return which outcomes its output or page has."""
    with tempfile.TemporaryDirectory() as folder:
        samples = cases.make_samples(seed)
        text = " ".join(cases.run_command(command, *samples, Path(folder)))
    is_present = (
        cases.NOTHING in text,
        cases.CLAIM.search(text) is not None,
        cases.DIFFERENCE.search(text) is not None,
    )
    return Counter(
        {(command, name): int(value) for name, value in zip(OUTCOMES, is_present, strict=True)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--out", type=Path, help="Markdown file for the result")
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(options.seeds):
        for command in cases.COMMANDS:
            counts += count_outcomes(command, seed)
        print(f"seed {seed}: {dict(counts)}", file=sys.stderr, flush=True)
    rows = [
        [f"`mpda {command}`", *(counts[command, name] for name in OUTCOMES)]
        for command in cases.COMMANDS
    ]
    page = f"""# Random labels

`python robustness/random_labels.py --seeds {options.seeds}`. {describe_environment()}.

{options.seeds} tables of 80 samples with 6 normal features; 2 to 4 classes, without relation to the
features. Number of tables for which the output or the page says that

{format_table(["command", *OUTCOMES], rows)}

A gain is claimed by "helps here", "is better here", "does as well", "does not change the error"
(with fewer numbers) or "Recommended". A difference is one between two methods that is not followed
by "which may be chance". Chance alone allows 5 % of the tables.
"""
    print(page)
    if options.out:
        options.out.write_text(page)
    n_claims = [counts[command, OUTCOMES[1]] for command in cases.COMMANDS]
    tests = [binomtest(n, options.seeds, LEVEL, alternative="greater") for n in n_claims]
    sys.exit(any(test.pvalue <= LEVEL for test in tests))


if __name__ == "__main__":
    main()
