"""The documentation: every name and page is there, links and code work, commands exist."""

import ast
import contextlib
import importlib
import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MADE = {"_build", "gallery", "generated", "examples", "templates"}
PAGES = sorted(
    path
    for path in (*DOCS.rglob("*.md"), *DOCS.rglob("*.rst"))
    if not MADE & set(path.relative_to(DOCS).parts) and path.name != "sg_execution_times.rst"
)
NAMES = [str(path.relative_to(DOCS)) for path in PAGES]
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
# Each public module, the page of its names, and what it needs beside the requirements.
MODULES = {
    "mpda": "estimators",
    "mpda.model_selection": "model_selection",
    "mpda.model_selection.methods": "methods",
    "mpda.io": "io",
    "mpda.plotting": "plotting",
    "mpda.report": "report",
    "mpda.assessment": "assessment",
    "mpda.experiments.datasets": "datasets",
    "mpda.experiments": "reproduction",
    "mpda.exceptions": "exceptions",
}
# Pages whose code is run, with the packages that it imports beside those that mpda requires.
RUN = {
    "index.md": [],
    "start.md": ["matplotlib", "pandas"],
    "guide/which-method.md": [],
    "guide/units.md": [],
    "guide/parameters.md": [],
    "guide/deploying.md": ["onnx", "onnxruntime", "skops"],
    "guide/report.md": ["plotly"],
    "theory/reduction.md": [],
}


def extension(name):
    """A module of ``docs/_ext``."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(text, language):
    """The code blocks of a page in a language, each with the output that is shown below it."""
    fence = rf"^```{language}\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?"
    return re.findall(fence, text, re.DOTALL | re.MULTILINE)


def public_names(module):
    """What a module offers: its ``__all__``, or the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


def documented_names(page):
    """The names of an API page: entries of its summaries, and data described on it."""
    text = page.read_text()
    names = re.findall(r"^\.\. py:data:: (\w+)", text, re.MULTILINE)
    for summary in re.findall(r"^\.\. autosummary::\n((?:   .*\n|\n)+)", text, re.MULTILINE):
        names += re.findall(r"^   (\w+)$", summary, re.MULTILINE)
    return names


@pytest.mark.parametrize("name", MODULES)
def test_the_api_pages_have_every_public_name_and_no_other(name):
    module = importlib.import_module(name)
    names = documented_names(DOCS / "api" / f"{MODULES[name]}.rst")
    assert len(names) == len(set(names))
    assert public_names(module) <= set(names)
    for each in names:
        assert hasattr(module, each), f"{name} has no {each}"
        assert not each.startswith("_")
        # What is described beyond __all__ must be data that the module defines.
        assert each in public_names(module) or not callable(getattr(module, each))


def test_no_module_that_lists_its_names_is_left_out():
    source = DOCS.parent / "src" / "mpda"
    homes = [path.parent for path in source.rglob("__init__.py") if "__all__" in path.read_text()]
    listed = {".".join(home.relative_to(source.parent).parts) for home in homes}
    # How work is carried out, and commands, which have a page of their own.
    assert listed - {"mpda.parallel", "mpda.cli"} <= set(MODULES)


def test_every_api_page_belongs_to_a_module():
    pages = {path.stem for path in (DOCS / "api").glob("*.rst")}
    assert pages == {*MODULES.values(), "index"}


def test_every_page_is_reached_from_the_first():
    reached, waiting = set(), ["index"]
    while waiting:
        name = waiting.pop()
        if name in reached or name.startswith("gallery/"):
            continue
        reached.add(name)
        path = next(each for each in PAGES if each.relative_to(DOCS).with_suffix("") == Path(name))
        text = path.read_text()
        found = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        found += re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text, re.MULTILINE)
        for line in "\n".join(found).split("\n"):
            entry = re.sub(r"^.*<(.*)>$", r"\1", line.strip())
            if entry and not entry.startswith(":"):
                waiting.append((path.parent / entry).relative_to(DOCS).as_posix())
    assert reached == {path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES}


def slugs(path):
    """The anchors of the headings of a page, as a forge and the site make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["../README.md", *(n for n in NAMES if n.endswith(".md"))])
def test_relative_links_point_at_files(name):
    path = (DOCS / name).resolve()
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.name} links to {link}"
        if anchor:
            assert anchor in slugs(file), f"{path.name} links to {link}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_a_title_a_question_and_code_that_compiles(path):
    assert path.name.startswith("plot_")  # others are not run
    source = path.read_text()
    tree = ast.parse(source)
    title, line, blank, question = ast.get_docstring(tree).split("\n")[:4]
    assert set(line) == {"="}
    assert len(line) == len(title) <= 60
    assert blank == ""
    assert question.startswith("*")
    assert "?*" in ast.get_docstring(tree)
    compile(source, str(path), "exec")
    assert "plt." in source
    assert any(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("name", RUN)
def test_code_in_pages_prints_what_stands_below_it(name, tmp_path, monkeypatch):
    for package in RUN[name]:
        pytest.importorskip(package, reason=f"the code of {name} needs it")
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "page"}
    found = blocks((DOCS / name).read_text(), "python")
    assert found
    for code, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), scope)
        assert printed.getvalue() == shown


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith(".md") and n not in RUN])
def test_code_in_other_pages_compiles(name):
    for code, _ in blocks((DOCS / name).read_text(), "python"):
        compile(code, name, "exec")


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("theory/")])
def test_functions_that_the_theory_names_exist(name):
    for module, rest in re.findall(r"`(\w+)\.([\w.]+)`", (DOCS / name).read_text()):
        if not (ROOT / "src" / "mpda" / f"{module}.py").exists():
            assert (ROOT / "src" / "mpda" / module).is_dir() or module in {"numpy", "tests"}
        value = importlib.import_module("numpy" if module == "numpy" else f"mpda.{module}")
        for part in rest.split("."):
            value = getattr(value, part)


def commands():
    pytest.importorskip("typer", reason="the command line needs it")
    import typer

    from mpda.cli import app

    return typer.main.get_command(app).commands


def test_the_page_of_the_command_line_has_every_command_with_an_example():
    text = (DOCS / "guide" / "command-line.md").read_text()
    shown = "\n".join(code for code, _ in blocks(text, "sh"))
    described = re.findall(r"^```\{commands\} (\w+)$", text, re.MULTILINE)
    assert sorted(described) == sorted(commands())
    for name in commands():
        assert re.search(rf"^mpda {name}\b", shown, re.MULTILINE), f"no example of {name}"


@pytest.mark.parametrize("name", ["../README.md", *(n for n in NAMES if n.endswith(".md"))])
def test_commands_in_pages_have_the_options_that_they_are_given(name):
    text = (DOCS / name).read_text()
    lines = "\n".join(code for code, _ in blocks(text, "sh")).split("\n")
    lines += re.findall(r"^    (mpda .*)$", text, re.MULTILINE)
    lines += re.findall(r"`(mpda \w[^`]*)`", text)
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] != ["mpda"] or words[1].startswith("-") or words[1] == "COMMAND":
            continue
        known = commands()
        assert words[1] in known, line
        options = {each for param in known[words[1]].params for each in param.opts} | {"--help"}
        used = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
        assert used <= options, line


def test_tables_that_commands_wrote_have_a_title_on_the_site():
    tree = ast.parse((DOCS / "conf.py").read_text())
    titles = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "TITLES"
    )
    folders = DOCS / "evidence", DOCS / "reproduction"
    tables = [path for folder in folders for path in folder.glob("*.md")]
    without = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for path in tables
        if not path.read_text().startswith("# ")
    }
    assert set(titles) == without


def test_formulas_in_docstrings_stay_as_they_are():
    tools = extension("docstrings")
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


def test_fields_of_small_classes_become_attributes():
    tools = extension("docstrings")
    lines = [
        "A patch.",
        "",
        "size : how many",
        "    there are",
        "labels, codes : (n,)",
        "",
        "More.",
    ]
    tools.listed_fields(None, "class", "", None, None, lines)
    assert lines == [
        "A patch.", "", "", "More.", "", "Attributes", "----------",
        "size", "    how many", "    there are", "labels, codes", "    (n,)", "",
    ]  # fmt: skip


def test_bars_and_names_in_docstrings_are_plain_text():
    tools = extension("docstrings")
    lines = ["|t| of mean_ and ``|v| of mean_``", "As in::", "", "    |t|", "", ">>> a_ | b_"]
    tools.plain_text(None, "class", "", None, None, lines)
    assert lines[0] == r"\|t\| of mean\_ and ``|v| of mean_``"
    assert lines[3:] == ["    |t|", "", ">>> a_ | b_"]


def test_every_formula_is_drawn():
    pytest.importorskip("docutils", reason="formulas are converted by it when the site is built")
    pytest.importorskip("sphinx", reason="the site is built by it")
    tools = extension("mathml")
    texts = [path.read_text() for path in PAGES if path.suffix == ".md"]
    display = [tex for text in texts for tex in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)]
    inline = [
        tex
        for text in texts
        for tex in re.findall(r"(?<![\$`\w])\$([^\$\n]+)\$", re.sub(r"\$\$.*?\$\$", "", text))
    ]
    assert len(display) > 10
    assert len(inline) > 50
    for tex in (*display, *inline):
        assert tools.mathml(None, tex, block=False).startswith("<math"), tex
    assert "\u2032" in tools.mathml(None, "S'", block=False)
