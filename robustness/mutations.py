"""Mutation testing of the mathematics: change one operator or index at a time, run the tests.

    python robustness/mutations.py --n 60 --seed 0 --jobs 2 [--out PAGE] TEST_FILE...

The script draws n mutations of the packages in ``MUTATED_PACKAGES``. For each mutation it copies
the package, applies the change and runs the test files until one test fails. Files that import the
mutated package run first. A mutation that passes all of them has survived. Some mutations change no
result (equivalent mutants), so survivors are for a person to read and the exit status is 0.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from environment import describe_environment, format_table

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mpda"
MUTATED_PACKAGES = ("neighbors", "partition", "discriminant", "baselines")
# A mutation that makes the tests slower than this multiple of the unmutated run counts as noticed:
# most of them loop forever. Five is far above the variation between runs on a busy machine.
TIME_LIMIT_FACTOR = 5.0


@dataclass(frozen=True)
class Mutation:
    """A replacement of a few bytes in one source file.

    Attributes
    ----------
    path : Path
        The source file, relative to the package.
    start, stop : int
        Range of the replaced bytes.
    replacement : str
        The new text.
    """

    path: Path
    start: int
    stop: int
    replacement: str

    def apply(self, package: Path) -> None:
        """Write the changed file into a copy of the package."""
        source = (package / self.path).read_bytes()
        changed = source[: self.start] + self.replacement.encode() + source[self.stop :]
        (package / self.path).write_bytes(changed)

    def describe(self) -> tuple[str, ...]:
        """Return position, change and source line, as cells of a table."""
        source = (PACKAGE / self.path).read_bytes()
        number = source.count(b"\n", 0, self.start)
        line = source.splitlines()[number].decode().strip()
        change = f"{source[self.start : self.stop].decode()} -> {self.replacement}"
        return f"`{self.path}:{number + 1}`", f"`{change}`", f"`{line}`"


def draw_mutations(n: int, seed: int) -> list[Mutation]:
    """Draw mutations without replacement from all mutations of the mutated packages.

    Parameters
    ----------
    n : int
        Number of mutations; fewer are returned if the source has fewer.
    seed : int
        Seed of the draw.

    Returns
    -------
    list of Mutation
    """
    paths = [path for name in MUTATED_PACKAGES for path in sorted((PACKAGE / name).rglob("*.py"))]
    candidates = [mutation for path in paths for mutation in list_mutations(path)]
    return random.Random(seed).sample(candidates, min(n, len(candidates)))


OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}


def list_mutations(path: Path) -> Iterator[Mutation]:
    """Yield every mutation of a source file, in the bodies of functions.

    Operators are exchanged (+ and -, < and <=, and and or), minus signs are removed, 0.5 and 2.0
    become 1.0, and 0 and 1 are exchanged in subscripts and in ``axis=``.
    """
    source = path.read_bytes()
    line_starts = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))

    def begin(node: Any) -> int:  # columns of a syntax tree count bytes
        return line_starts[node.lineno - 1] + int(node.col_offset)

    def end(node: Any) -> int:
        return line_starts[node.end_lineno - 1] + int(node.end_col_offset)

    def mutate(start: int, stop: int, replacement: str) -> Mutation:
        return Mutation(path.relative_to(PACKAGE), start, stop, replacement)

    for node in _walk_computations(ast.parse(source)):
        operator, operands = _operation(node)
        if operator in OPERATORS:
            old, new = OPERATORS[operator]
            position = source.find(old.encode(), end(operands[0]), begin(operands[1]))
            if position >= 0:
                yield mutate(position, position + len(old), new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield mutate(begin(node), begin(node) + 1, "")
        elif isinstance(node, ast.Constant) and repr(node.value) in ("0.5", "2.0"):
            yield mutate(begin(node), end(node), "1.0")
        for index in _indices(node):
            if isinstance(index, ast.Constant) and repr(index.value) in ("0", "1"):
                yield mutate(begin(index), end(index), "1" if index.value == 0 else "0")


def _operation(node: ast.AST) -> tuple[type[ast.AST], Sequence[ast.AST]]:
    """Return the operator of a node and its first two operands."""
    if isinstance(node, ast.BinOp):
        return type(node.op), [node.left, node.right]
    if isinstance(node, ast.AugAssign):
        return type(node.op), [node.target, node.value]
    if isinstance(node, ast.Compare):
        return type(node.ops[0]), [node.left, node.comparators[0]]
    if isinstance(node, ast.BoolOp):
        return type(node.op), node.values
    return ast.AST, []


def _indices(node: ast.AST) -> Sequence[ast.AST]:
    if isinstance(node, ast.Subscript):
        return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [node.value] if isinstance(node, ast.keyword) and node.arg == "axis" else []


def _walk_computations(tree: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes in bodies of functions, without annotations, messages and assertions."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert) or isinstance(tree, ast.arg):
            continue
        if child in (getattr(tree, "returns", None), getattr(tree, "annotation", None)):
            continue
        if inside:
            yield child
        yield from _walk_computations(child, inside or isinstance(child, ast.FunctionDef))


def find_failure(mutation: Mutation | None, tests: Sequence[str], limit: float | None) -> str:
    """Run test files with a mutated copy of the package until one test fails.

    Parameters
    ----------
    mutation : Mutation or None
        The change; None runs an unchanged copy.
    tests : sequence of str
        Test files, in this order.
    limit : float or None
        Time limit in seconds.

    Returns
    -------
    str
        Name of the failing test, "time limit", or an empty string if all tests pass.
    """
    with tempfile.TemporaryDirectory(prefix="mpda-mutation-") as directory:
        ignored = shutil.ignore_patterns("__pycache__")
        package = shutil.copytree(PACKAGE, Path(directory) / "mpda", ignore=ignored)
        if mutation is not None:
            mutation.apply(package)
            name = f"mpda.{mutation.path.parts[0]}"
            tests = sorted(tests, key=lambda test: name not in (ROOT / test).read_text())
        options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": directory, "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # includes processes that the tests started
            process.communicate()
            return "time limit"
    failures = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if process.returncode != 0 and not failures:
        raise SystemExit(f"pytest ended with status {process.returncode}:\n{output[-2000:]}")
    names = [line.split(" ", 1)[1].split(" - ")[0].removeprefix("tests/") for line in failures]
    return names[0] if names else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tests", nargs="+", help="test files")
    parser.add_argument("--n", type=int, default=60, help="number of mutations")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="mutations tested at the same time")
    parser.add_argument("--out", type=Path, help="Markdown file for the result")
    options = parser.parse_args()
    begin = time.monotonic()
    failure = find_failure(None, options.tests, None)
    if failure:
        raise SystemExit(f"{failure} fails without a mutation; repair it first.")
    limit = TIME_LIMIT_FACTOR * (time.monotonic() - begin)
    mutations = draw_mutations(options.n, options.seed)
    rows = []
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda item: find_failure(item, options.tests, limit), mutations)
        for mutation, failure in zip(mutations, results, strict=True):
            rows.append((*mutation.describe(), f"`{failure}`" if failure else "SURVIVED"))
            print(*rows[-1], file=sys.stderr)
    n_survivors = sum(row[-1] == "SURVIVED" for row in rows)
    rows.sort(key=lambda row: row[-1] != "SURVIVED")
    page = f"""# Mutations of the mathematics

`make mutations`, seed {options.seed}. {describe_environment()}.

{len(rows)} mutations drawn: {len(rows) - n_survivors} noticed by the tests, {n_survivors} survived.

{format_table(["line", "change", "source", "first failing test"], rows)}
"""
    print(page)
    if options.out:
        options.out.write_text(page)


if __name__ == "__main__":
    main()
