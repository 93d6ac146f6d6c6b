"""Breaks of the mathematics: those of the list, and those that are drawn at random.

A break is the whole text of one file of the package after one change to it.
"""

from __future__ import annotations

import ast
import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mpda"
LIST = Path(__file__).with_name("mutations.toml")


@dataclass(frozen=True)
class Break:
    """One change.

    name : what is broken, in words
    file : in the package
    text : of the file after the change
    tests : the test files that ought to notice
    """

    name: str
    file: str
    text: str
    tests: tuple[str, ...]


def listed_breaks() -> list[Break]:
    """The breaks of the list; an error if one does not apply any more."""
    content = tomllib.loads(LIST.read_text())
    found = [_listed(entry, content["tests"]) for entry in content["break"]]
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{LIST.name}: the name {twice[0]!r} comes twice; rename one.")
    return found


def _listed(entry: dict[str, Any], tests: dict[str, list[str]]) -> Break:
    name, file, old, new = (entry[key] for key in ("name", "file", "old", "new"))
    text = (PACKAGE / file).read_text()
    if text.count(old) != 1:
        raise ValueError(
            f"{LIST.name}, break {name!r}: the old text occurs {text.count(old)} times in {file} "
            "and must occur once; write it anew."
        )
    return Break(name, file, text.replace(old, new), tuple(entry.get("tests", tests[file])))


def drawn_breaks(n: int, seed: int) -> list[Break]:
    """Changes of single operators and numbers in the files of the list, drawn at random."""
    tests = tomllib.loads(LIST.read_text())["tests"]
    places = [
        (file, change) for file in tests for change in _changes((PACKAGE / file).read_bytes())
    ]
    chosen = random.Random(seed).sample(places, min(n, len(places)))
    return [_drawn(file, change, tuple(tests[file])) for file, change in chosen]


@dataclass(frozen=True)
class _Change:
    """The bytes from begin to end become another text."""

    begin: int
    end: int
    new: str


def _drawn(file: str, change: _Change, tests: tuple[str, ...]) -> Break:
    text = (PACKAGE / file).read_bytes()
    begin, end = change.begin, change.end
    changed = (text[:begin] + change.new.encode() + text[end:]).decode()
    number = text.count(b"\n", 0, begin)
    column = begin - text.rfind(b"\n", 0, begin)
    what = f"{text[begin:end].decode()} becomes {change.new or 'nothing'}"
    line = changed.splitlines()[number].strip()
    return Break(f"{number + 1}:{column}, {what}: `{line}`", file, changed, tests)


_BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}


def _changes(text: bytes) -> Iterator[_Change]:
    """Every change that may be drawn, in the bodies of functions.

    Columns of a syntax tree count bytes.
    """
    lines = text.splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))

    def begin(node: Any) -> int:
        return starts[node.lineno - 1] + int(node.col_offset)

    def end(node: Any) -> int:
        return starts[node.end_lineno - 1] + int(node.end_col_offset)

    def between(left: Any, right: Any, signs: tuple[str, str]) -> Iterator[_Change]:
        place = text.find(signs[0].encode(), end(left), begin(right))
        if place >= 0:
            yield _Change(place, place + len(signs[0]), signs[1])

    for node in _computing(ast.parse(text)):
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            yield from between(node.left, node.right, _BINARY[type(node.op)])
        elif isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
            yield from between(node.target, node.value, _BINARY[type(node.op)])
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
            yield from between(node.left, node.comparators[0], _COMPARED[type(node.ops[0])])
        elif isinstance(node, ast.BoolOp):
            signs = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield from between(node.values[0], node.values[1], signs)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield _Change(begin(node), begin(node) + 1, "")
        elif isinstance(node, ast.Constant) and node.value in (0.5, 2.0):
            if isinstance(node.value, float):
                yield _Change(begin(node), end(node), "1.0")
        elif isinstance(node, ast.Subscript | ast.keyword):
            index = node.slice if isinstance(node, ast.Subscript) else node.value
            named = not isinstance(node, ast.keyword) or node.arg == "axis"
            for part in index.elts if isinstance(index, ast.Tuple) else [index]:
                if named and isinstance(part, ast.Constant) and part.value in (0, 1):
                    yield _Change(begin(part), end(part), "1" if part.value == 0 else "0")


def _computing(tree: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """The nodes in bodies of functions, without types, messages and what is raised."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert):
            continue
        if isinstance(tree, ast.arg) or child in (
            getattr(tree, "returns", None),
            getattr(tree, "annotation", None),
        ):
            continue
        if inside:
            yield child
        yield from _computing(child, inside or isinstance(child, ast.FunctionDef))
