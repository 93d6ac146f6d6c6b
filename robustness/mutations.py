"""Break the mathematics in one place at a time, and see which test notices.

    python robustness/mutations.py --jobs 2 [--out docs/evidence]

The breaks stand in mutations.toml, each with the text it replaces. For every break the package is
copied, broken, and tested: first by the test files that ought to notice, and only if all of them
pass by the whole suite. A table says what noticed; the exit status is 1 if a break survived. A
break that makes the tests take five times as long as they do without it is noticed too, by "time".

    python robustness/mutations.py --random 50 --seed 0

draws changes of single operators and numbers instead. Some of them change no answer, so survivors
are for a person to look at and the exit status is 0.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from breaks import PACKAGE, ROOT, Break, drawn_breaks, listed_breaks

sys.path.append(str(ROOT / "benchmarks"))
from protocol import provenance

# What tests may take, in the time that they take without a break, and at least so many seconds.
_SLOWER, _LEAST_SECONDS = 5.0, 240.0
_WHOLE_SUITE = ""  # in the place of a test file


@dataclass(frozen=True)
class Outcome:
    """The first test that fails, "time", or None if all pass; and the seconds that it took."""

    noticed_by: str | None
    seconds: float


@contextmanager
def copied(file: str = "", text: str = "") -> Iterator[Path]:
    """A copy of the package in which one file may have another text; the path to import from."""
    with tempfile.TemporaryDirectory(prefix="mpda-break-") as directory:
        package = Path(directory) / PACKAGE.name
        shutil.copytree(PACKAGE, package)
        if file:
            changed = package / file
            changed.write_text(text)
            # What Python compiled of the older text may be taken for that of this one.
            for compiled in changed.parent.glob(f"__pycache__/{changed.stem}.*"):
                compiled.unlink()
        yield Path(directory)


def verdict(path: Path, test: str, limit: float | None = None) -> Outcome:
    """Run a test file with the package at a path, up to the first test that fails."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    where = "import importlib.util; print(importlib.util.find_spec('mpda').origin)"
    command = [sys.executable, "-c", where]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if Path(found.stdout.strip()).parent != path / "mpda":
        raise SystemExit(f"The tests would import {found.stdout.strip()}, not the copy at {path}.")
    options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(ROOT / "tests" / test)]
    begin = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what the tests have started
            process.communicate()
            return Outcome("time", time.monotonic() - begin)
    seconds = time.monotonic() - begin
    if process.returncode == 0:
        return Outcome(None, seconds)
    failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if process.returncode not in (1, 2) or not failed:
        raise SystemExit(f"pytest ended with {process.returncode}:\n{said[-2000:]}")
    name = failed[0].split(" ", 1)[1].split(" - ")[0]
    return Outcome(name.removeprefix("tests/"), seconds)


class Suite:
    """The tests, which pass without a break, and how long they take then."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = Lock()

    def check(self, test: str) -> None:
        """Refuse a test file that fails without a break."""
        with copied() as path:
            outcome = verdict(path, test)
        if outcome.noticed_by is not None:
            raise SystemExit(f"Without any break {outcome.noticed_by} fails: mend that first.")
        self._seconds[test] = outcome.seconds
        print(f"without a break {test or 'all'}: {outcome.seconds:.0f} s", file=sys.stderr)

    def noticed(self, each: Break, *, whole: bool) -> Outcome:
        """Which test notices a break: of the files named or, if none does and if wanted, of all."""
        begin = time.monotonic()
        with copied(each.file, each.text) as path:
            for test in (*each.tests, _WHOLE_SUITE) if whole else each.tests:
                outcome = verdict(path, test, self._limit(test))
                if outcome.noticed_by is not None:
                    break
        return Outcome(outcome.noticed_by, time.monotonic() - begin)

    def _limit(self, test: str) -> float:
        with self._lock:
            if test not in self._seconds:  # the whole suite, when it is first needed
                self.check(test)
        return max(_LEAST_SECONDS, _SLOWER * self._seconds[test])


def outcomes(breaks: list[Break], n_jobs: int, *, whole: bool) -> dict[str, Outcome]:
    """What noticed each break, by its name; progress goes to stderr."""
    compileall.compile_dir(PACKAGE, quiet=1)  # once for all copies
    suite = Suite()
    files = sorted({test for each in breaks for test in each.tests})
    with ThreadPoolExecutor(n_jobs) as pool:
        list(pool.map(suite.check, files))
        running = {pool.submit(suite.noticed, each, whole=whole): each for each in breaks}
        found = {}
        try:
            for done, future in enumerate(as_completed(running), start=1):
                each, outcome = running[future], future.result()
                found[each.name] = outcome
                said = f"{outcome.noticed_by or 'SURVIVED'}, {outcome.seconds:.0f} s"
                print(f"{done}/{len(breaks)} {each.file}, {each.name}: {said}", file=sys.stderr)
        finally:
            pool.shutdown(cancel_futures=True)
    return found


def table(breaks: list[Break], found: dict[str, Outcome]) -> str:
    """The outcomes in Markdown, survivors first."""
    order = sorted(breaks, key=lambda each: found[each.name].noticed_by is not None)
    lines = ["| break | file | noticed by |", "|---|---|---|"]
    for each in order:
        noticed = found[each.name].noticed_by
        cells = each.name, f"`{each.file}`", f"`{noticed}`" if noticed else "SURVIVED"
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="breaks tested at a time")
    parser.add_argument("--only", metavar="TEXT", help="breaks with this in their name or file")
    parser.add_argument("--random", type=int, metavar="N", help="draw so many breaks instead")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument(
        "--named",
        action="store_true",
        help="test by the files named alone; what they pass counts as survived",
    )
    parser.add_argument("--out", type=Path, help="directory for mutations.md")
    arguments = parser.parse_args()
    drawn = arguments.random is not None
    breaks = drawn_breaks(arguments.random, arguments.seed) if drawn else listed_breaks()
    if arguments.only:
        breaks = [each for each in breaks if arguments.only in f"{each.file} {each.name}"]
    if not breaks:
        raise SystemExit(f"--only {arguments.only!r} is in the name or file of no break.")
    if arguments.out:  # before the work, not after it
        arguments.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    found = outcomes(breaks, arguments.jobs, whole=not arguments.named)
    minutes = (time.monotonic() - begin) / 60.0
    survived = sum(outcome.noticed_by is None for outcome in found.values())
    page = (
        "# Breaks of the mathematics, and what notices them\n\n"
        f"`python {' '.join(sys.argv)}`. {provenance()}.\n\n"
        f"{len(breaks)} breaks, {len(breaks) - survived} noticed, {survived} survived; "
        f"{minutes:.0f} minutes.\n\n{table(breaks, found)}\n"
    )
    print(page)
    if arguments.out:
        (arguments.out / "mutations.md").write_text(page)
    raise SystemExit(1 if survived and not drawn else 0)


if __name__ == "__main__":
    main()
