"""Every file that the package writes is written beside its place: nothing is written otherwise.

The rule that is checked: what ``beside`` gives is called ``made``, and only what is called so is
opened for writing or given to a function that writes.
"""

import ast
from pathlib import Path

import pytest

import mpda

SOURCE = Path(mpda.__file__).parent
# Methods that write to a path or file, which is the object or the first argument.
OF_PATHS = {"write_text", "write_bytes", "touch"}
OF_OTHERS = {
    *("savefig", "tofile", "to_csv", "to_parquet", "to_feather", "to_json", "to_pickle"),
    *("to_excel", "to_hdf", "write_html", "write_image", "write_parquet", "write_csv"),
}
# The same by modules.
OF_MODULES = {
    "np": {"save", "savez", "savez_compressed", "savetxt", "memmap"},
    "os": {"open", "replace", "rename", "truncate", "link", "symlink"},
    "onnx": {"save", "save_model"},
    **{name: {"dump"} for name in ("json", "pickle", "joblib")},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move"},
    "tempfile": {"mkstemp", "NamedTemporaryFile", "TemporaryFile", "mkdtemp"},
    "zipfile": {"ZipFile"},
}
# Other writers, and why they may.
EXCEPTIONS = {
    ("_beside.py", "os.open"): "makes the file beside",
    ("_beside.py", "os.replace"): "renames it into place",
    ("_beside.py", "archive.open"): "a member of the file beside",
    ("__main__.py", "os.open"): "opens /dev/null",
    ("reproduction/_store.py", "path.open"): "rows are appended, and a part of a line is no row",
    ("datasets/_sources.py", "tempfile.TemporaryFile"): "a download without a name",
    **{("_array_files.py", name): "reads it" for name in ("zipfile.ZipFile", "self._archive.open")},
    **{
        ("datasets/_sources.py", name): "reads it"
        for name in ("zipfile.ZipFile", "images.open", "Image.open")
    },
}


def writes(tree):
    """(what is called, whether what is written is ``made``, line) of all that writes."""
    buffers = {
        each.targets[0].id
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Name)
        and ast.unparse(each.value) == "BytesIO()"
    }
    # Opened files; that those to be written are ``made`` is seen where they are opened.
    opened = {
        ast.unparse(each.optional_vars)
        for each in ast.walk(tree)
        if isinstance(each, ast.withitem) and each.optional_vars and is_open(each.context_expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        first = ast.unparse(node.args[0]) if node.args else ""
        if is_open(node) and name != "TemporaryFile" and owner != "os":
            if writing_mode(node, owner):
                yield called, (owner or first) == "made", node.lineno
        elif name in OF_PATHS:
            yield called, owner == "made", node.lineno
        elif name in OF_OTHERS or name in OF_MODULES.get(owner, ()):
            yield called, first in {"made", *buffers, *opened}, node.lineno


def is_open(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "open"


def writing_mode(node, owner):
    """Whether a file is opened for writing; what is no plain word may be anything."""
    place = 1 if owner in ("", "gzip", "bz2", "io") else 0
    modes = [each.value for each in node.keywords if each.arg == "mode"] + node.args[place:]
    if not modes:
        return False
    return not isinstance(modes[0], ast.Constant) or bool(set("wax+") & set(str(modes[0].value)))


def misnamed(tree):
    """Lines where something is called ``made`` that is no parameter and not from ``beside``."""
    given = {
        id(item.optional_vars)
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if item.optional_vars is not None and ast.unparse(item.context_expr).startswith("beside(")
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and node.id == "made"
        and isinstance(node.ctx, ast.Store)
        and id(node) not in given
    ]


def imported(tree):
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_nothing_is_written_but_beside_its_place():
    found, used = [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        tree = ast.parse(path.read_text())
        for called, is_made, line in writes(tree):
            if (name, called) in EXCEPTIONS:
                used.add((name, called))
            elif not is_made:
                found.append(f"{name}:{line} {called}")
        if "beside" in imported(tree):
            found += [f"{name}:{line} made" for line in misnamed(tree)]
    assert found == []
    assert used == set(EXCEPTIONS)


@pytest.mark.parametrize(
    "code",
    [
        "open(path, 'w')",
        "open(path, mode='xb')",
        "open(path, mode)",
        "path.open('wb')",
        "gzip.open(path, 'wt')",
        "path.write_text('')",
        "np.save(path, X)",
        "frame.to_csv(path)",
        "figure.savefig(path)",
        "json.dump(found, path.open('w'))",
        "shutil.move(a, path)",
        "os.rename(a, path)",
    ],
)
def test_the_rule_sees(code):
    assert [made for _, made, _ in writes(ast.parse(code))].count(False) >= 1


@pytest.mark.parametrize(
    "code",
    [
        "open(path)",
        "path.open('rb')",
        "with beside(path) as made, made.open('wb') as file: np.save(file, X)",
        "buffer = BytesIO(); figure.savefig(buffer)",
        "made.write_bytes(content)",
    ],
)
def test_the_rule_lets_through(code):
    tree = ast.parse(code)
    assert all(made for _, made, _ in writes(tree))
    assert misnamed(tree) == []


def test_the_name_is_for_what_beside_gives():
    assert misnamed(ast.parse("made = path")) == [1]
    assert misnamed(ast.parse("with open(path) as made: pass")) == [1]
