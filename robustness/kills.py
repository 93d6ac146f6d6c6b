"""``mpda reproduce`` killed many times: whether it ends with the rows of an undisturbed run.

    python robustness/kills.py --kills 50 --seed 0 [--out docs/evidence]

Prints one line for each kill, then a page in markdown; the exit code is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
killing = importlib.import_module("killing")

METHODS = ("1-NN", "PCA", "LDA", "LFDA ridge")
N_SPLITS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="directory for kills.md")
    given = parser.parse_args()
    planned = killing.moments(given.kills, random.Random(given.seed), n_parallel=given.kills)
    with tempfile.TemporaryDirectory() as directory:
        undisturbed, killed = (
            killing.Run(Path(directory) / name, METHODS, N_SPLITS) for name in ("whole", "killed")
        )
        killing.carry_out(undisturbed)
        found = []
        for number, moment in enumerate(planned, start=1):
            found.append(killing.kill(killed, moment))
            print(f"{number}: {_line(found[-1])}", flush=True)
        killing.carry_out(killed)
        facts = {
            "runs": len(found),
            "killed": sum(each.code != 0 for each in found),
            "of these while they started": sum(
                each.code != 0 and not each.moment.rows for each in found
            ),
            "rows lost beyond the tasks in hand": sum(
                each.before - each.after if each.after < each.before else not each.intact
                for each in found
            ),
            "rows at the end": len(killing.results(killed)),
            "rows as undisturbed": killing.results(killed) == killing.results(undisturbed),
            "tables as undisturbed": killing.tables(killed) == killing.tables(undisturbed),
        }
    page = _page(facts, f"python robustness/kills.py --kills {given.kills} --seed {given.seed}")
    print(page)
    if given.out:
        (given.out / "kills.md").write_text(page)
    lost = facts["rows lost beyond the tasks in hand"]
    raise SystemExit(
        bool(lost) or not (facts["rows as undisturbed"] and facts["tables as undisturbed"])
    )


def _page(facts: dict[str, Any], command: str) -> str:
    from protocol import provenance

    lines = ["# A reproduction that is killed again and again", "", f"`{command}`. {provenance()}."]
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {name} | {_word(value)} |" for name, value in facts.items()]
    return "\n".join([*lines, ""])


def _line(each: Any) -> str:
    end = "killed" if each.code else "ended before it was killed"
    when = "a row" if each.moment.rows else "the start"
    return (
        f"{end} {each.moment.seconds:.2f} s after {when}, jobs {each.moment.jobs}; rows "
        f"{each.before} before, {each.after} after"
    )


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
