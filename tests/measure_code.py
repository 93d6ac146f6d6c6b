"""Measure the structure and the size of the code; ``make measure`` prints a summary.

The bounds are constants of this module and tested by test_structure.py: import graph and numpydoc
validation. Lines of code, docstrings and comments have no bound.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mpda"
# Import order: a package imports only packages of its own line or of earlier lines. Packages that
# are not listed may be imported anywhere, and import only those of the first line and each other.
IMPORT_ORDER = [
    ["_lib"],
    ["neighbors"],
    ["partition"],
    ["discriminant"],
    ["baselines", "refinement"],
    ["estimators"],
    ["model_selection"],
    ["assessment"],
    ["plotting", "report"],
    ["experiments"],
    ["cli"],
    ["__main__"],
]
MAX_PACKAGES = 25
MAX_IMPORT_CHAIN = 14
FOLDERS = [("src",), ("tests", "robustness")]
# Docstring lines in percent of all lines, comments in percent of code lines.
PEERS = {"scikit-learn": (48, 10), "pyRiemann": (57, 5), "metric-learn": (49, 14)}
# Checks of numpydoc that do not apply, and the reason.
IGNORED_CHECKS = {
    "ES01": "a summary is often enough",
    "SA01": "related names stand next to each other on the page",
    "EX01": "examples stand where they explain something",
    "SS06": "a summary may need two lines",
    "GL01": "the summary begins on the line of the quotes, as in scikit-learn",
}


@dataclass(frozen=True)
class LineCounts:
    """Numbers of lines of source files.

    Attributes
    ----------
    total : int
        All lines.
    code : int
        Lines with code, without blank lines, comments and docstrings.
    docstrings : int
        Lines of docstrings.
    comments : int
        Comments, also those behind code.
    """

    total: int
    code: int
    docstrings: int
    comments: int


def source_files(*folders: str) -> list[Path]:
    """Return the Python files of folders of the repository, sorted."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def parse_file(path: Path) -> ast.Module:
    """Return the syntax tree of a source file, which several measurements walk."""
    return ast.parse(path.read_text())


def count_lines(paths: Iterable[Path]) -> LineCounts:
    """Count the lines of source files.

    Parameters
    ----------
    paths : iterable of Path
        Files in the format of ``ruff format`` at line length 100.

    Returns
    -------
    LineCounts
        Sums over the files.
    """
    counts = [_count_file(path.read_text()) for path in paths]
    return LineCounts(*(sum(column) for column in zip(*counts, strict=True)))


def _count_file(text: str) -> tuple[int, ...]:
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.update(range(node.lineno, (node.end_lineno or 0) + 1))
    code: set[int] = set()
    n_comments = 0
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            n_comments += 1
        elif token.type not in layout:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(text.splitlines()), len(code - docstrings), len(docstrings), n_comments


def module_name(path: Path) -> str:
    """Return the dotted name of a source file, without ``__init__``."""
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def module_imports() -> dict[str, set[str]]:
    """Map every module of the package to the modules of the package that it imports.

    Imports inside functions count, too.
    """
    modules = {module_name(path): path for path in source_files("src")}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        imports: set[str] = set()
        for node in ast.walk(parse_file(path)):
            if isinstance(node, ast.Import):
                imports.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                # "from mpda.package import module" imports the module, not a name of the package.
                members = [f"{node.module}.{alias.name}" for alias in node.names]
                imports.update(member if member in modules else node.module for member in members)
        graph[name] = (imports & modules.keys()) - {name}
    return graph


def package_imports() -> dict[str, set[str]]:
    """Map every direct member of the package to the members that it imports.

    ``mpda/__init__.py`` is left out: it gathers the public names.
    """
    graph: dict[str, set[str]] = {}
    for module, imports in module_imports().items():
        if module != "mpda":
            member = module.split(".")[1]
            members = {name.split(".")[1] for name in imports if name != "mpda"}
            graph.setdefault(member, set()).update(members - {member})
    return graph


def count_packages() -> int:
    """Return the number of packages, at every depth, and of top-level modules."""
    packages = [path for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]
    return len(packages) + sum(path.stem != "__init__" for path in PACKAGE.glob("*.py"))


def longest_chain(graph: dict[str, set[str]]) -> list[str]:
    """Return the longest chain of imports, the first importing the second, and so on.

    Raises
    ------
    graphlib.CycleError
        If the graph has a cycle.
    """
    chains: dict[str, list[str]] = {}
    for name in TopologicalSorter(graph).static_order():
        tails = [chains[imported] for imported in graph.get(name, ())]
        chains[name] = [name, *max(tails, key=len, default=[])]
    return max(chains.values(), key=len)


def wrong_imports() -> list[str]:
    """Return the imports of packages that are later in the import order."""
    rank = {name: i for i, line in enumerate(IMPORT_ORDER) for name in line}
    return [
        f"{importer} imports {imported}"
        for importer, members in package_imports().items()
        for imported in members
        if rank.get(imported, -1) > rank.get(importer, 0)
    ]


def public_modules() -> list[str]:
    """Return the modules that have a page in docs/api."""
    pages = "".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.rst")))
    return re.findall(r"^\.\. currentmodule:: (\S+)$", pages, re.MULTILINE)


def public_names(module: ModuleType) -> list[str]:
    """Return ``__all__`` of a module, or the names without underscore that it defines."""
    defined = [name for name, value in vars(module).items() if _home(value) == module.__name__]
    return getattr(module, "__all__", [name for name in defined if not name.startswith("_")])


def _home(value: object) -> str:
    return getattr(value, "__module__", None) or ""


def public_objects() -> Iterator[str]:
    """Yield the dotted names of public classes, their methods, and public functions."""
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for name in public_names(module):
            value = getattr(module, name)
            if not _home(value).startswith("mpda"):
                continue  # data
            yield f"{module_name}.{name}"
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_") and _home(function).startswith("mpda"):
                    yield f"{module_name}.{name}.{method}"


def docstring_errors() -> list[str]:
    """Return the findings of numpydoc's validation for every public name."""
    from numpydoc.validate import validate

    return [
        f"{name}: {code} {message}"
        for name in public_objects()
        for code, message in validate(name)["errors"]
        if code not in IGNORED_CHECKS
    ]


def main() -> None:
    for package, imports in sorted(package_imports().items()):
        print(f"{package} imports {', '.join(sorted(imports)) or 'nothing'}")
    print(f"packages and top-level modules: {count_packages()} (at most {MAX_PACKAGES})")
    chain = longest_chain(package_imports())
    print(f"longest import chain: {len(chain)} (at most {MAX_IMPORT_CHAIN}): {chain}")
    for title, findings in (
        ("imports against the order", wrong_imports()),
        ("findings of numpydoc", docstring_errors()),
    ):
        print(f"{title}: {len(findings)}", *findings, sep="\n    ")
    for folders in FOLDERS:
        code = count_lines(source_files(*folders)).code
        print(f"lines of code in {' and '.join(folders)}: {code}")
    counts = count_lines(source_files("src"))
    shares = 100 * counts.docstrings / counts.total, 100 * counts.comments / counts.code
    for name, (docstrings, comments) in {"mpda": shares, **PEERS}.items():
        print(f"{name}: docstrings {docstrings:.0f} % of lines, comments {comments:.0f} % of code")


if __name__ == "__main__":
    main()
