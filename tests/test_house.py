"""The shape of the package: what imports what, and what `import mpda` brings along."""

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import mpda

SOURCE = Path(mpda.__file__).parent
# A file may import from the groups before its own, and from its own group only what stands first.
ORDER = [
    ["exceptions", "_typing", "_arrays", "_validation", "_threads"],
    ["_beside", "_memory", "_provenance", "_unpacked", "_array_files"],
    ["datasets", "tables"],
    ["frames", "graphs", "cells"],
    ["path_squares", "geodesics"],
    ["trees", "splits", "levels", "partition"],
    ["coarse_growth", "coarse_cuts", "coarse"],
    ["patch_rules", "tangents"],
    ["pairs", "scatter", "forms"],
    ["density_ratio", "grassmann"],
    ["reduction", "ridges", "contributions"],
    ["pencils", "alignment", "solutions", "engines"],
    ["passes", "recipes", "dependence", "discriminant", "sharing", "curves", "selection"],
    ["estimators"],
    ["methods", "search", "model_selection"],
    ["persistence", "export", "plotting", "assessment"],
    ["reproduction"],
    ["report"],
    ["cli", "__main__"],
]
RANK = {name: (g, i) for g, group in enumerate(ORDER) for i, name in enumerate(group)}


def imports_of(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_imports_point_one_way():
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        if own == "__init__":
            continue
        for module in imports_of(path):
            if module.startswith("mpda."):
                used = module.split(".")[1]
                assert used == own or RANK[used] < RANK[own], f"{path.name} imports {module}"


ROOMS = (
    *("estimators", "search", "datasets", "assessment", "persistence", "export"),
    *("reproduction", "report", "cli"),
)


def test_the_mathematics_does_not_know_scikit_learn():
    for path in SOURCE.rglob("*.py"):
        if any(module.split(".")[0] == "sklearn" for module in imports_of(path)):
            assert path.parent.name in ROOMS or path.name in (
                "_arrays.py",
                "graphs.py",
                "model_selection.py",
            )


def test_import_brings_nothing_beyond_scikit_learn_neighbours():
    script = (
        "import sys, sklearn.neighbors; before = set(sys.modules); from mpda import *;"
        "brought = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(sorted(brought - sys.stdlib_module_names))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "['mpda']"


def test_every_public_name_is_there_and_others_are_not():
    for name in mpda.__all__:
        assert getattr(mpda, name).__name__ == name
        assert name in dir(mpda)
    with pytest.raises(AttributeError, match="no attribute 'LDA'"):
        mpda.LDA  # noqa: B018


def test_the_help_of_the_command_does_not_wait_for_scikit_learn():
    pytest.importorskip("typer", reason="needs mpda[cli]")
    script = (
        "import sys, mpda.cli\n"
        "try: mpda.cli.run(['fit', '--help'])\n"
        "except SystemExit as ended: assert ended.code == 0\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    )
    heavy = ["sklearn", "scipy", "numpy", "pandas", "matplotlib", "plotly"]
    result = subprocess.run([sys.executable, "-c", script, *heavy], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_examples_in_docstrings_run(path):
    if path.name in ("_dask.py", "_blocks.py"):
        pytest.importorskip("distributed", reason="needs mpda[dask]")
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(p for p in parts if p != "__init__"))
    assert doctest.testmod(module).failed == 0


def test_version_is_that_of_the_project():
    from importlib.metadata import version

    assert mpda.__version__ == version("mpda")
