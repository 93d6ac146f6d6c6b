"""Structure of the package: import order, names, docstrings, and the cost of an import.

measure_code.py has the measurements and the bounds; ``make measure`` prints them.
"""

import doctest
import importlib
import subprocess
import sys

import pytest

import measure_code as measure
import mpda

MODULES = {measure.module_name(path): path.read_text() for path in measure.source_files("src")}


def test_import_graph_is_small_and_without_cycles():
    graph = measure.package_imports()
    for package, imports in sorted(graph.items()):
        print(package, "imports", ", ".join(sorted(imports)) or "nothing")
    assert measure.count_packages() <= measure.MAX_PACKAGES
    assert len(measure.longest_chain(graph)) <= measure.MAX_IMPORT_CHAIN
    measure.longest_chain(measure.module_imports())


def test_imports_follow_the_order_of_the_algorithm():
    assert measure.wrong_imports() == []


def test_module_and_class_names_are_unique():
    assert measure.repeated_names() == []


@pytest.mark.slow
@pytest.mark.parametrize("folders", measure.FOLDERS, ids=" and ".join)
def test_names_are_no_function_words(folders):
    assert measure.function_word_share(*folders) <= measure.MAX_FUNCTION_WORDS


def test_public_docstrings_pass_numpydoc_validation():
    assert measure.docstring_errors() == []


def test_fit_enters_few_files():
    files, before = measure.files_of_fit()
    assert len(files) <= measure.MAX_FILES_OF_FIT, files
    assert len(before) <= measure.MAX_FILES_BEFORE_NEIGHBORS, before


def run_python(script, *arguments):
    """Run a script in a new process and return the last line of its output."""
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip().splitlines()[-1]


def test_import_loads_no_packages_beyond_scikit_learn_neighbors():
    script = (
        "import sys, sklearn.neighbors; before = set(sys.modules); from mpda import *;"
        "loaded = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(loaded - sys.stdlib_module_names))"
    )
    assert run_python(script) == "['mpda']"


def test_help_of_the_command_loads_no_numerical_packages():
    pytest.importorskip("typer", reason="needs mpda[cli]")
    script = (
        "import sys, mpda.cli\n"
        "try: mpda.cli.run(['fit', '--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    heavy = ["sklearn", "scipy", "numpy", "pandas", "matplotlib"]
    assert run_python(script, *heavy) == "[]"


def test_public_names_exist():
    for name in mpda.__all__:
        assert getattr(mpda, name).__name__ == name
        assert name in dir(mpda)
    with pytest.raises(AttributeError, match="no attribute 'LDA'"):
        mpda.LDA  # noqa: B018


@pytest.mark.parametrize("name", [name for name, text in MODULES.items() if ">>>" in text])
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
