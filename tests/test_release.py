"""Files of a release agree: version, Python versions, make targets, dependencies, addresses."""

import re

import pytest

import mpda
from test_versions import EXTRAS, PROJECT, ROOT, parse_release

yaml = pytest.importorskip("yaml", reason="needs mpda[dask]")

METADATA = PROJECT["project"]
VERSION = METADATA["version"]
REPOSITORY = METADATA["urls"]["Repository"]
PYTHONS = re.findall(r":: (3\.\d+)$", "\n".join(METADATA["classifiers"]), re.MULTILINE)
WORKFLOWS = {path.name: path.read_text() for path in ROOT.glob(".github/workflows/*.yml")}
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
# Packages that conda divides into smaller ones.
CONDA_NAMES = {"matplotlib": "matplotlib-base", "pyarrow": "pyarrow-core"}


def test_version_is_the_same_everywhere():
    assert mpda.__version__ == VERSION, "the environment has another version: make .venv/.dev"
    assert CITATION["version"] == VERSION
    assert RECIPE["context"]["version"] == VERSION
    changelog = (ROOT / "docs" / "changelog.md").read_text()
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == VERSION


def test_workflow_tests_the_python_versions_of_the_classifiers():
    jobs = yaml.safe_load(WORKFLOWS["tests.yml"])["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == PYTHONS
    assert RECIPE["context"]["python_min"] == PYTHONS[0]
    support = (ROOT / "docs" / "support.md").read_text()
    assert f"| Python | {PYTHONS[0]} | {PYTHONS[-1]} |" in support


def test_support_page_has_the_oldest_versions():
    support = (ROOT / "docs" / "support.md").read_text()
    bounds = dict(requirement.split(">=") for requirement in METADATA["dependencies"])
    for name, bound in re.findall(r"^\| (NumPy|SciPy|scikit-learn) \| (\S+) \|", support, re.M):
        assert bounds[name.lower()] == bound


@pytest.mark.parametrize("name", WORKFLOWS)
def test_make_targets_and_test_files_of_workflows_exist(name):
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for words in re.findall(r"run: make (.*)$", WORKFLOWS[name], re.MULTILINE):
        assert {word for word in words.split() if "=" not in word} <= targets
    for path in re.findall(r"tests/\w+\.py", WORKFLOWS[name]):
        assert (ROOT / path).exists()


def test_actions_are_pinned_to_one_commit_each():
    uses = re.findall(r"uses: ([^.\s].*)$", "\n".join(WORKFLOWS.values()), re.MULTILINE)
    pins = {re.fullmatch(r"(\S+)@[0-9a-f]{40} # v[\d.]+", line)[1]: line for line in uses}
    assert len(pins) == len(set(uses))


def test_recipe_has_the_dependencies_of_the_command_line():
    extras = [EXTRAS["cli"], EXTRAS["report"], EXTRAS["plot"], METADATA["dependencies"]]
    requirements = [entry for extra in extras for entry in extra if not entry.startswith("mpda")]
    pairs = [requirement.split(">=") for requirement in requirements]
    expected = {CONDA_NAMES.get(name, name): parse_release(bound) for name, bound in pairs}
    conda = [entry.split(" >=") for entry in RECIPE["requirements"]["run"]]
    assert {name: parse_release(bound) for name, bound in conda if name != "python"} == expected
    build = PROJECT["build-system"]["requires"]
    assert [entry.replace(">=", " >=") for entry in build] == RECIPE["requirements"]["host"][2:]


def test_addresses_are_those_of_the_project():
    site = METADATA["urls"]["Documentation"]
    raw = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
    expected = (REPOSITORY, site.rstrip("/"), raw, "https://pypi.org/project/mpda/")
    files = ("*.toml", "*.cff", "*.md", "docs/*.md", "recipe/*.yaml", ".github/**/*.yml")
    for path in [path for pattern in files for path in ROOT.glob(pattern)]:
        for address in re.findall(r"https://[^\s)\"'>]*mpda[^\s)\"'>]*", path.read_text()):
            assert address.startswith(expected), f"{path}: {address}"
