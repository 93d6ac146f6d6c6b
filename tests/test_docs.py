"""Documentation: every public name has an entry, links resolve, code runs, commands exist.

``make docs`` builds the site with warnings as errors, which tests the formulas and the gallery.
"""

import contextlib
import importlib
import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest

from measure_code import module_name, public_modules, public_names, source_files

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = {"_build", "gallery", "generated", "examples", "templates"}
PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text()
    for path in sorted((*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")))
    if not GENERATED & set(path.relative_to(DOCS).parts)
}
MARKDOWN = [name for name in PAGES if name.endswith(".md")]
README = "../README.md"
TEXTS = {README: (ROOT / "README.md").read_text(), **PAGES}
# Pages whose code is run, with the optional packages that it imports.
RUNNABLE = {
    "index.md": [],
    "start.md": ["matplotlib", "pandas"],
    "guide/which-method.md": [],
    "guide/units.md": [],
    "guide/parameters.md": [],
    "guide/deploying.md": ["onnx", "onnxruntime", "skops"],
    "guide/cost.md": [],
    "guide/merging.md": [],
    "guide/vector-search.md": ["faiss"],
    "guide/report.md": ["matplotlib"],
    "theory/reduction.md": [],
}
# Pages whose code takes about a second or more: fits of all digits, or imports of large packages.
SLOW_PAGES = {
    *("guide/parameters.md", "guide/deploying.md", "guide/merging.md"),
    *("guide/vector-search.md", "guide/which-method.md"),
}


def load_extension(name):
    """Import a module of ``docs/_ext``."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_blocks(text, language):
    """Return pairs of a code block and the output that is shown below it."""
    fence = rf"^```{language}\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?"
    return re.findall(fence, text, re.DOTALL | re.MULTILINE)


def indented_lines(text, directive):
    """Return the indented lines below a reStructuredText directive, without its options."""
    pattern = rf"^\.\. {directive}::\n((?:   .*\n|\n)+)"
    lines = "\n".join(re.findall(pattern, text, re.MULTILINE)).split("\n")
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith(":")]


@pytest.mark.parametrize("name", public_modules())
def test_api_page_lists_the_public_names_of_its_module(name):
    module = importlib.import_module(name)
    page = next(text for text in PAGES.values() if f".. currentmodule:: {name}\n" in text)
    entries = indented_lines(page, "autosummary")
    data = re.findall(r"^\.\. py:data:: (\w+)", page, re.MULTILINE)
    assert len(entries + data) == len({*entries, *data})
    assert set(public_names(module)) <= {*entries, *data}
    assert set(entries) <= set(public_names(module))
    assert not [entry for entry in data if not hasattr(module, entry)]


def test_every_package_with_public_names_has_a_page():
    files = [path for path in source_files("src") if path.stem == "__init__"]
    names = {module_name(path) for path in files if "__all__" in path.read_text()}
    # Internal, and the commands, which have a page of their own.
    assert names - {"mpda.parallel", "mpda.cli"} <= set(public_modules())


def test_every_page_is_reached_from_the_index():
    reached, queue = set(), ["index.md"]
    while queue:
        name = queue.pop()
        if name in reached:
            continue
        reached.add(name)
        blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", PAGES[name], re.DOTALL | re.MULTILINE)
        for line in [*"\n".join(blocks).split("\n"), *indented_lines(PAGES[name], "toctree")]:
            entry = re.sub(r"^.*<(.*)>$", r"\1", line.strip())
            target = (Path(name).parent / entry).as_posix()
            queue += [page for page in (f"{target}.md", f"{target}.rst") if page in PAGES]
    assert reached == PAGES.keys()


def heading_anchors(path):
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [README, *MARKDOWN])
def test_relative_links_resolve(name):
    page = (DOCS / name).resolve()
    text = re.sub(r"^```.*?^```", "", TEXTS[name], flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{name} links to {link}"
        assert not anchor or anchor in heading_anchors(path), f"{name} links to {link}"


@pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # import of faiss
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW_PAGES else name
        for name in RUNNABLE
    ],
)
def test_code_in_pages_prints_the_output_below_it(name, tmp_path, monkeypatch):
    for package in RUNNABLE[name]:
        pytest.importorskip(package, reason=f"the code of {name} needs it")
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "page"}
    blocks = code_blocks(PAGES[name], "python")
    assert blocks
    for code, expected in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, name, "exec"), scope)
        assert output.getvalue() == expected


def test_code_of_the_readme_prints_the_errors_below_it():
    ((code, expected),) = code_blocks(TEXTS[README], "python")
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(code, README, "exec"), {})
    plain, mapped = (float(line.split()[0]) for line in output.getvalue().splitlines())
    # One sample of 1797 is 0.06 %; which of two equally near neighbours is found may differ.
    assert [plain, mapped] == pytest.approx(
        [float(line.split()[0]) for line in expected.splitlines()], abs=0.3
    )
    assert mapped < 0.6 * plain


@pytest.mark.parametrize("name", [name for name in MARKDOWN if name not in RUNNABLE])
def test_code_in_other_pages_compiles(name):
    for code, _ in code_blocks(PAGES[name], "python"):
        compile(code, name, "exec")


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("theory/")])
def test_functions_that_theory_pages_name_exist(name):
    """Code is named by its path below ``mpda``: `discriminant.scatter.graph_scatter`."""
    for path in re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGES[name]):
        names = path.split(".")
        value = importlib.import_module("numpy" if names[0] == "numpy" else f"mpda.{names[0]}")
        for attribute in names[1:]:
            if not hasattr(value, attribute):
                importlib.import_module(f"{value.__name__}.{attribute}")
            value = getattr(value, attribute)


def test_functions_in_the_table_of_equations_cite_their_equations():
    row = r"^\|[^|]*\| ([\w:, ]+) \| `([\w/]+)\.py` \| `([\w.]+)` \|$"
    rows = re.findall(row, PAGES["contributing.md"], re.M)
    assert len(rows) >= 10
    for labels, path, name in rows:
        value = importlib.import_module(f"mpda.{path.replace('/', '.')}")
        for attribute in name.split("."):
            value = getattr(value, attribute)
        for label in labels.split(", "):
            assert re.search(rf"\b{label}\b", value.__doc__), f"{name} does not cite {label}"


def command_options():
    """Map the name of every command to its options."""
    typer = pytest.importorskip("typer", reason="the command line needs it")
    from mpda.cli import app

    return {
        name: {option for parameter in command.params for option in parameter.opts} | {"--help"}
        for name, command in typer.main.get_command(app).commands.items()
    }


def test_page_of_the_command_line_has_every_command_with_an_example():
    text = PAGES["guide/command-line.md"]
    examples = "\n".join(code for code, _ in code_blocks(text, "sh"))
    described = re.findall(r"^```\{commands\} (\w+)$", text, re.MULTILINE)
    assert sorted(described) == sorted(command_options())
    for name in described:
        assert re.search(rf"^mpda {name}\b", examples, re.MULTILINE), f"no example of {name}"


@pytest.mark.parametrize("name", [README, *MARKDOWN])
def test_commands_in_pages_exist_with_their_options(name):
    lines = "\n".join(code for code, _ in code_blocks(TEXTS[name], "sh")).split("\n")
    lines += re.findall(r"^    (mpda .*)$", TEXTS[name], re.MULTILINE)
    lines += re.findall(r"`(mpda \w[^`]*)`", TEXTS[name])
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] != ["mpda"] or words[1].startswith("-") or words[1] == "COMMAND":
            continue
        options = command_options()
        assert words[1] in options, line
        named = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
        assert named <= options[words[1]], line


def test_docstrings_are_converted_to_restructured_text():
    tools = load_extension("docstrings")
    lines = [
        "Maximise",
        "",
        "    t'S t / |t|^2,",
        "",
        "with S.",
        "",
        "Notes",
        "-----",
        "x",
        "    y",
    ]
    tools.literal_formulas(None, "class", "", None, None, lines)
    assert lines[:6] == ["Maximise", "", ".. code-block:: text", "", "    t'S t / |t|^2,", ""]
    assert lines[-4:] == ["Notes", "-----", "x", "    y"]
    lines = ["|t| of mean_ and ``|v| of mean_``", "As in::", "", "    |t|", "", ">>> a_ | b_"]
    tools.plain_text(None, "class", "", None, None, lines)
    assert lines[0] == r"\|t\| of mean\_ and ``|v| of mean_``"
    assert lines[3:] == ["    |t|", "", ">>> a_ | b_"]


def test_page_of_systems_has_every_name_of_the_paper():
    """The paper names these methods; "Laplacian eigenmaps" and shrinkage LDA it does not."""
    rows = [line.split("|")[1] for line in PAGES["systems.md"].splitlines() if "|" in line]
    words = set(re.findall(r"[\w²-]+", " ".join(rows)))
    named = "MPDA PMPDA PCA LDA MFA LSDA LFDA LLTSA LSDR LPFE 1-NN TSIMR PFE LTSA LLC CFA MLE LMDS"
    named += " SL² DSA exponential two-stage anchors charting spherical hierarchical factor"
    assert set(named.split()) <= words
    assert not {"eigenmaps", "shrinkage"} & words
