"""The versions that are supported: bounds, what is tested, and warnings of dependencies."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]


def bounds(wanted):
    """The lower bounds of packages, by their names."""
    found = {}
    for each in wanted:
        name, extras, bound = re.fullmatch(r"([\w-]+)(\[[\w,]+\])?(?:>=([\d.]+))?", each).groups()
        if name != "mpda":
            assert bound, f"{each} has no lower bound"
            found[name] = release(bound)
            if extras == "[dataframe,distributed]":
                found["distributed"] = found[name]  # released together
    return found


def bounds_of_tests():
    """What the tests install: all but arrays of other libraries, the site and developers' tools."""
    others = ("torch", "cupy", "docs", "dev")
    optional = [each for extra in EXTRAS.keys() - others for each in EXTRAS[extra]]
    return bounds([*PROJECT["project"]["dependencies"], *optional])


def pinned(text):
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = dict(re.fullmatch(r"([\w-]+)==([\d.]+)", line).groups() for line in lines)
    return {name: release(version) for name, version in found.items()}


def oldest():
    """The lower bounds as they are tested, and what is pinned beside them."""
    own, others = (ROOT / "oldest.txt").read_text().split("# Not bounds of ours")
    return pinned(own), pinned(f"#{others}")


def release(version):
    """1.26 and 1.26.0 are the same release."""
    numbers = [int(part) for part in version.split(".")]
    while numbers[-1] == 0:
        numbers.pop()
    return numbers


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds():
    own, others = oldest()
    assert own == bounds_of_tests()
    assert others
    assert not others.keys() & own.keys()


def test_arrays_of_other_libraries_are_tested_from_their_own_bounds_on():
    here = pinned((ROOT / "oldest-arrays.txt").read_text())
    for extra, package in (("torch", "torch"), ("cupy", "cupy-cuda12x")):
        wanted = bounds(EXTRAS[extra])
        del wanted[package]  # of which there must be one for the device
        assert wanted
        assert wanted == {name: here[name] for name in wanted}
    assert here["array-api-strict"] == bounds_of_tests()["array-api-strict"]


def test_every_python_that_is_named_is_tested():
    makefile = (ROOT / "Makefile").read_text()
    tested = set(re.search(r"^PYTHONS \?= (.*)$", makefile, flags=re.MULTILINE)[1].split())
    named = PROJECT["project"]["classifiers"]
    versions = [each.rpartition(" ")[2] for each in named if re.search(r":: 3\.\d+$", each)]
    assert tested == {f"python{version}" for version in versions}
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"


# Warnings are errors, so that a dependency that is about to change is noticed.

# Warnings that tests may ignore: ours of small classes, fits that end by a limit on purpose.
EXPECTED = {
    "ignore::mpda.exceptions.SmallClassWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
    # Dask's clients leave sockets to the garbage collector when a test ends.
    "ignore::pytest.PytestUnraisableExceptionWarning",
}


def test_warnings_are_errors():
    assert PROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"] == ["error"]


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "tests").glob("*.py"), *(ROOT / "src").rglob("*.py")]),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_nothing_hides_a_deprecation(path):
    for node in ast.walk(ast.parse(path.read_text())):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called.endswith("mark.filterwarnings"):
            assert {each.value for each in node.args} <= EXPECTED
        elif called.endswith("simplefilter") and ast.unparse(node.args[0]) == "'ignore'":
            assert len(node.args) > 1, "without a category, everything is ignored"
        elif called.endswith("warnings.filterwarnings"):
            pytest.fail("simplefilter with a category says what is ignored")
