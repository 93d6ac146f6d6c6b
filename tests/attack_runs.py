"""Attacks without end: ``attack(seconds, seed)``, in a process of its own that may crash.

    python tests/attack_runs.py 600 --seed 0

``python tests/attack_runs.py --seed 0 --replay NUMBER`` repeats the one that a fault names.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOM = 2 << 30  # above what is there when all is imported
SILENT = 60.0  # seconds without a word after which a process hangs


@dataclass
class Counts:
    """How attacks ended: counts by (format, kind, end), and the faults, each with its number."""

    ends: Counter = field(default_factory=Counter)
    faults: list = field(default_factory=list)

    def __str__(self):
        lines = [f"{'format':34}{'loaded':>10}{'refused':>10}{'FAULT':>8}"]
        for name in sorted({name for name, _, _ in self.ends}):
            sums = [self._sum(name, end) for end in ("loaded", "refused", "FAULT")]
            lines.append(f"{name:34}{sums[0]:10}{sums[1]:10}{sums[2]:8}")
        lines.append(f"{sum(self.ends.values())} attacks, {len(self.faults)} faults")
        return "\n".join([*lines, *(f"FAULT {each}" for each in self.faults)])

    def _sum(self, name, end):
        return sum(n for (own, _, ended), n in self.ends.items() if (own, ended) == (name, end))


def attack(seconds, seed):
    """Attack all formats until the time is over; a process that crashes or hangs is a fault."""
    counts, first, end = Counts(), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        first = _one_process(counts, seed, first, end)
    return counts


def _one_process(counts, seed, first, end):
    """Attacks from a number on, until the time is over or the process is; the next number."""
    left = max(1.0, end - time.monotonic())
    arguments = [str(left), "--seed", str(seed), "--work", str(first)]
    told = {}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__, *arguments],
            stdout=subprocess.PIPE,
            stderr=said,
        )
        watch = _killer(process)
        for line in process.stdout:
            watch.cancel()
            watch = _killer(process)
            told = json.loads(line)
            if told["end"]:
                counts.ends[told["format"], told["kind"], told["end"]] += 1
            if told["end"] == "FAULT":
                counts.faults.append(told)
        watch.cancel()
        process.stdout.close()
        if process.wait():
            said.seek(0)
            about = {"format": "?", "kind": "?", "number": first, **told}
            about |= {"end": "FAULT", "why": f"ended with {process.returncode}"}
            counts.ends[about["format"], about["kind"], "FAULT"] += 1
            counts.faults.append(about | {"said": said.read().decode(errors="replace")[-800:]})
    return told.get("number", first) + 1


def _killer(process):
    watch = threading.Timer(SILENT, process.kill)
    watch.daemon = True
    watch.start()
    return watch


def work(seconds, seed, first, only=None):
    """Attack in this process, with a line before and after each."""
    from attack_targets import Fault, attacked

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "attacked"
        place.mkdir()
        targets = _targets(directory)
        limit_memory(ROOM)
        end = time.monotonic() + seconds  # what comes before takes its own time
        number = first if only is None else only
        while time.monotonic() < end and only in (None, number):
            rng = np.random.default_rng([seed, number])
            name = list(targets)[rng.integers(len(targets))]
            target = targets[name]
            kind = list(target.kinds)[rng.integers(len(target.kinds))]
            door = list(target.doors)[rng.integers(len(target.doors))]
            about = {"number": number, "format": name, "kind": kind, "door": door, "end": None}
            _tell(about)
            try:
                ended = attacked(target, kind, door, rng, place)
            except (Fault, AssertionError, MemoryError) as error:
                ended, about["why"] = "FAULT", f"{type(error).__name__}: {error!s:.500}"
            _tell({**about, "end": ended})
            number += 1


def _targets(directory):
    import attack_targets as known

    models = {
        f"model file, {type(model).__name__}": known.model_target(model, directory)
        for model in known.each_kind()
    }
    command = {"model file at the command": known.command_target(directory)}
    return {
        **known.table_targets(),
        **known.dataset_targets(),
        **known.report_targets(),
        **models,
        **command,
    }


def limit_memory(room):
    """Let this process take so much more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + room
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _tell(about):
    print(json.dumps(about), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=int, help="one attack by its number, in this process")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay is not None:
        work(600.0, given.seed, 0, only=given.replay)
    elif given.work is not None:
        work(given.seconds, given.seed, given.work)
    else:
        found = attack(given.seconds, given.seed)
        print(found)
        sys.exit(bool(found.faults))


if __name__ == "__main__":
    main()
