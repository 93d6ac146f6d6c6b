"""Supported versions: lower bounds, pins of the oldest run, Python versions, warning filters."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
# Extras that the extra "test" does not install: devices, the documentation, tools, references.
UNTESTED_EXTRAS = {"torch", "cupy", "docs", "dev", "release"}
UNTESTED_EXTRAS |= {"test-retrieval", "test-stores"}
# Warnings that tests may ignore by category.
IGNORED_WARNINGS = {
    "ignore::mpda.exceptions.FeatureScaleWarning",
    "ignore::mpda.exceptions.SmallClassWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
    # Dask clients leave sockets to the garbage collector when a test ends.
    "ignore::pytest.PytestUnraisableExceptionWarning",
    # Types that SWIG generates for faiss have no module.
    "ignore:builtin type:DeprecationWarning",
}


def parse_release(version):
    """Return the version as integers without trailing zeros: 2.1 equals 2.1.0."""
    return [int(number) for number in re.sub(r"(\.0)+$", "", version).split(".")]


def lower_bounds():
    """Map the packages that the tests install to their lower bounds."""
    extras = [EXTRAS[name] for name in EXTRAS.keys() - UNTESTED_EXTRAS]
    bounds = {}
    for requirement in sum(extras, start=PROJECT["project"]["dependencies"]):
        name, features, bound = re.fullmatch(
            r"([\w-]+)(\[[\w,]+\])?(?:>=([\d.]+))?", requirement
        ).groups()
        if name != "mpda":
            assert bound, f"{requirement} has no lower bound"
            bounds[name] = parse_release(bound)
            if features == "[dataframe,distributed]":
                bounds["distributed"] = bounds[name]  # released together
    return bounds


def read_pins(text):
    pins = re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE)
    return {name: parse_release(version) for name, version in pins}


def test_pins_of_the_oldest_run_are_the_lower_bounds():
    pins, additional = (ROOT / "oldest.txt").read_text().split("# Not lower bounds")
    assert read_pins(pins) == lower_bounds()
    assert read_pins(additional)
    assert not read_pins(additional).keys() & lower_bounds().keys()


def test_python_versions_of_makefile_and_classifiers_agree():
    makefile = (ROOT / "Makefile").read_text()
    tested = re.search(r"^PYTHONS \?= (.*)$", makefile, re.MULTILINE)[1].split()
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    versions = re.findall(r":: (3\.\d+)$", classifiers, re.MULTILINE)
    assert tested == [f"python{version}" for version in versions]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_makefile_names_existing_test_files():
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    names = re.search(r"^MATHEMATICS := .*test_,(.*)\)$", makefile, re.MULTILINE)[1].split()
    assert [name for name in names if not (ROOT / "tests" / f"test_{name}").exists()] == []


def test_warnings_are_errors():
    assert PROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"] == ["error"]


@pytest.mark.slow
def test_no_filter_hides_deprecation_warnings():
    for path in [*(ROOT / "tests").glob("*.py"), *(ROOT / "src").rglob("*.py")]:
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        for call in calls:
            function = ast.unparse(call.func)
            if function.endswith("mark.filterwarnings"):
                assert {argument.value for argument in call.args} <= IGNORED_WARNINGS, path
            elif function.endswith(("simplefilter", "filterwarnings")):
                # A filter that ignores needs a category.
                n_arguments = len(call.args) + len(call.keywords)
                assert n_arguments > 1 or ast.unparse(call.args[0]) != "'ignore'", path
