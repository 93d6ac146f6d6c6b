"""The versions that are supported: bounds, what is tested, and warnings of dependencies."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# What is not installed for the tests: CUDA's arrays, PyTorch (of which any version will do that
# there is for the machine), the site, and the tools of developers.
NOT_TESTED = {"cupy-cuda12x", "torch"}
EXTRAS_NOT_TESTED = {"docs", "dev"}


def bounds():
    """The lower bound of every dependency of the tests, by its name."""
    project = PROJECT["project"]
    wanted = list(project["dependencies"])
    for extra, packages in project["optional-dependencies"].items():
        wanted += [] if extra in EXTRAS_NOT_TESTED else packages
    found = {}
    for each in wanted:
        name, extras, bound = re.fullmatch(r"([\w-]+)(\[[\w,]+\])?(?:>=([\d.]+))?", each).groups()
        if name != "mpda" and name not in NOT_TESTED:
            assert bound, f"{each} has no lower bound"
            found[name] = bound
            if extras == "[dataframe,distributed]":
                found["distributed"] = bound  # released together
    return found


def constraints():
    text = (ROOT / "oldest.txt").read_text()
    own, others = text.split("# Not a bound of ours")
    pinned = re.findall(r"^([\w-]+)==([\d.]+)$", own, flags=re.MULTILINE)
    assert len(pinned) == sum(bool(line) and line[0] != "#" for line in own.splitlines())
    return dict(pinned), others


def release(version):
    """1.26 and 1.26.0 are the same release."""
    numbers = [int(part) for part in version.split(".")]
    while numbers[-1] == 0:
        numbers.pop()
    return numbers


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds():
    pinned, _ = constraints()
    assert pinned.keys() == bounds().keys()
    for name, bound in bounds().items():
        assert release(pinned[name]) == release(bound), name


def test_what_else_is_pinned_is_no_dependency_of_ours():
    _, others = constraints()
    assert not set(re.findall(r"^([\w-]+)==", others, flags=re.MULTILINE)) & bounds().keys()


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
