"""The page and the figures of a report, and the results file."""

import copy
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs mpda[report]")
pytest.importorskip("plotly", reason="needs mpda[report]")

from mpda.exceptions import ReportError
from mpda.report import read_results, render, write_figures, write_page, write_results
from report_cases import COMMAND, digits_results, wine_results

BARE = {"format": "mpda results", "version": 1, "provenance": {"command": COMMAND}}
EVIL = '</script><b onclick="x">&amp;{{$title}}'


@pytest.fixture
def wine():
    return copy.deepcopy(wine_results())


@pytest.fixture
def digits():
    return copy.deepcopy(digits_results())


class Page(HTMLParser):
    """Elements, text outside of scripts, and charts of a page."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts, self.scripts = [], [], []
        self.feed(html)
        self.charts = json.loads(self.scripts[0])["charts"]
        self.text = " ".join(" ".join(self.texts).split())
        self.ids = [attributes["id"] for _, attributes in self.elements if "id" in attributes]
        self.titles = [attributes["id"] for tag, attributes in self.elements if tag == "h2"]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        tag = self.elements[-1][0] if self.elements else ""
        (self.scripts if tag == "script" else self.texts).append(data)


def traces(results, name):
    return Page(render(results)).charts[name]["data"]


# The page


def test_page_has_all_sections(wine):
    page = Page(render(wine))
    names = ["classes", "dimensions", "methods", "confusion", "eigenvalues", "features", "patches"]
    names.append("provenance")
    assert page.titles == [f"{name}-title" for name in names]
    links = {attributes["href"] for tag, attributes in page.elements if tag == "a"}
    assert links >= {f"#{name}" for name in names}
    assert len(page.ids) == len(set(page.ids))
    assert set(page.charts) == {"embedding-plane", "embedding-space", "curve"} <= set(page.ids)
    for text in (*wine["summary"], COMMAND, "Grignolino", "StandardScaler", "scikit-learn"):
        assert text in page.text


def test_key_numbers_are_the_errors_of_the_method_and_its_references(wine):
    rows = {row["method"]: row for row in wine["comparison"]["problems"][0]["rows"]}
    cards = dict(re.findall(r'<div class="key[^"]*"><dt>(.*?)</dt><dd><b>(.*?)</b>', render(wine)))
    captions = ["error of MPDA", "error of 1-NN on all features", "error of LDA"]
    assert list(cards) == captions
    for caption, method in zip(captions, ("MPDA", "1-NN", "LDA"), strict=True):
        assert float(cards[caption]) == pytest.approx(rows[method]["error"], abs=0.05)


def test_methods_that_are_best_or_tied_are_bold(wine):
    rows = wine["comparison"]["problems"][0]["rows"]
    for row, best in zip(rows, (False, True, True, False), strict=True):
        row["best"] = best
    results = {**BARE, "comparison": wine["comparison"]}
    best_methods = re.findall(r'<tr class="best"><th scope="row">(\S+)', render(results))
    assert best_methods == [rows[1]["method"], rows[2]["method"]]


def test_only_sections_with_results_are_shown(wine):
    anchors = {"comparison": ["dimensions", "methods"], "embedding": ["classes"], "data": []}
    anchors |= {"model": ["eigenvalues", "features"], "partition": ["patches"], "confusion": None}
    for name, expected in anchors.items():
        names = [name] if expected is None else expected
        titles = [f"{title}-title" for title in [*names, "provenance"]]
        assert Page(render({**BARE, name: wine[name], "title": None})).titles == titles


def test_figures_are_part_of_the_page(wine, digits):
    page = Page(render(wine))
    assert [tag for tag, _ in page.elements].count("svg") == 5  # one is the button for the theme
    counts = [str(count) for row in wine["confusion"]["counts"] for count in row if count]
    weights = np.array(wine["model"]["weights"])
    largest = [wine["model"]["features"][i] for i in np.abs(weights).argmax(axis=1)]
    assert set(counts + largest + ["Grignolino", "component"]) <= set(page.texts)
    images = [a["xlink:href"] for tag, a in Page(render(digits)).elements if tag == "image"]
    assert len(images) >= digits["model"]["n_components"]
    assert all(image.startswith("data:image/png;base64,") for image in images)


def test_page_without_charts_has_no_plotly():
    html = render(BARE)
    assert Page(html).titles == ["provenance-title"]
    assert len(html) < 50_000


def test_optional_entries_may_be_missing_or_null(wine):
    problem = wine["comparison"]["problems"][0]
    problem["rows"] = [{"method": "MPDA", "error": None}, {"method": "LDA", "error": 2.0}]
    problem["curves"] = [{"method": "MPDA", "dimensions": [1, 2], "error": [3.0, None]}]
    wine["model"] = {"method": "MPDA", "weights": [[1.0, -2.0]], "eigenvalues": None}
    wine["embedding"] = {"points": [[1.0], [None]], "codes": [0, 0], "labels": ["a"]}
    wine["partition"]["classes"][0]["linearity"] = [None] * 8
    del wine["partition"]["example"]
    page = Page(render(wine))
    assert "features-title" in page.titles
    assert "eigenvalues-title" not in page.titles
    assert page.charts["embedding-plane"]["data"][0]["x"] == [1.0, None]


def test_several_problems_have_one_table_and_a_choice_of_curves(wine):
    problem = wine["comparison"]["problems"][0]
    wine["comparison"]["problems"] = [{**problem, "name": f"set {i}"} for i in range(3)]
    page = Page(render(wine))
    assert {"curve-1", "curve-2", "curve-3", "curve-choice"} <= set(page.ids)
    charts = [a for _, a in page.elements if a.get("class") == "chart"]
    hidden = {a["id"] for a in charts if "hidden" in a}
    assert hidden == {"embedding-space", "curve-2", "curve-3"}


def test_page_loads_nothing_from_the_network(digits):
    page = Page(render(digits))
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "data", "action", "href"):
            address = attributes.get(name) or ""
            assert address.startswith(("#", "data:")) or not address, (tag, attributes)
    assert "@import" not in page.text
    assert "url(" not in page.text
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "http" not in policy


def replace_texts(value, text):
    """Replace all texts in nested dictionaries and lists."""
    if isinstance(value, dict):
        return {key: replace_texts(entry, text) for key, entry in value.items()}
    if isinstance(value, list):
        return [replace_texts(entry, text) for entry in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("n_problems", [1, 2])
def test_text_from_the_data_is_escaped(wine, n_problems):
    wine["comparison"]["problems"] *= n_problems
    wine["provenance"]["versions"] = wine["model"]["steps"][0]["parameters"] = {EVIL: EVIL}
    html = render({**replace_texts(wine, EVIL), "format": "mpda results"})
    page = Page(html)
    assert not [1 for tag, attributes in page.elements if tag == "b" and attributes]
    assert html.count("<script") == html.count("</script>") == 3
    assert EVIL in page.text


def test_plotly_gets_no_tags_from_the_data():
    embedding = {"points": [[0.0, 1.0]], "codes": [0], "labels": ["<b>x</b> & y"]}
    (trace,) = traces({**BARE, "embedding": embedding}, "embedding-plane")
    assert trace["name"] == "&lt;b&gt;x&lt;/b&gt; &amp; y (1)"
    assert trace["meta"] == ["&lt;b&gt;x&lt;/b&gt; &amp; y"]


def test_page_of_ten_thousand_points_is_below_seven_megabytes(digits):
    rng, n = np.random.default_rng(0), 10_000
    digits["embedding"] |= {
        "points": rng.normal(size=(n, 3)) / 37.0,
        "codes": rng.integers(0, 10, n),
        "rows": rng.permutation(1_000_000)[:n],
        "wrong": rng.random(n) < 0.1,
        "n_all": 60_000,
    }
    digits["model"] |= {
        "features": [f"feature {i}" for i in range(2000)],
        "weights": rng.normal(size=(60, 2000)),
        "component_names": None,
        "image_shape": [40, 50],
    }
    html = render(digits)
    assert len(html.encode()) < 7e6
    assert "10,000 of 60,000 samples are shown" in html
    assert Page(html).charts["embedding-plane"]["data"][0]["type"] == "scattergl"


def test_report_is_imported_without_plotly_and_matplotlib(monkeypatch, wine):
    script = "import sys, mpda.report.collect; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"plotly", "matplotlib", "mpda.report.page_sections"} & set(run.stdout.split())
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[report\]'"):
        render(wine)


# Charts


def test_embedding_chart_holds_every_sample(digits):
    embedding = digits["embedding"]
    points, codes = np.array(embedding["points"]), np.array(embedding["codes"])
    for name, letters in (("embedding-plane", "xy"), ("embedding-space", "xyz")):
        data = traces(digits, name)
        assert [trace["name"].split()[0] for trace in data] == [str(i) for i in range(10)]
        for code, trace in enumerate(data):
            indices = [row - 1 for row, _ in trace["customdata"]]
            assert sorted(indices) == np.flatnonzero(codes == code).tolist()
            drawn = np.array([trace[letter] for letter in letters]).T
            np.testing.assert_allclose(drawn, points[indices, : len(letters)], rtol=1e-4)
            wrong = [text == "wrong" for _, text in trace["customdata"]]
            assert wrong == [embedding["wrong"][i] for i in indices]
            if name == "embedding-plane" and any(wrong):
                assert [width > 1 for width in trace["marker"]["line"]["width"]] == wrong
        styles = {(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in data}
        assert len(styles) == 10


def test_curves_have_bands_rings_and_level_lines(wine):
    problem = wine["comparison"]["problems"][0]
    data = traces(wine, "curve")
    lines = {trace["name"]: trace for trace in data if "name" in trace}
    assert list(lines) == ["LDA", "LFDA", "MPDA", "1-NN, all features"]
    curve = problem["curves"][2]
    np.testing.assert_allclose(lines["MPDA"]["y"], curve["error"], rtol=1e-3)
    bands = [trace for trace in data if trace.get("fill")]
    np.testing.assert_allclose(bands[2]["y"], curve["high"], rtol=1e-3)
    rings = [trace for trace in data if trace["mode"] == "markers"]
    assert [trace["x"] for trace in rings] == [[c["selected"]] for c in problem["curves"]]
    assert rings[2]["y"] == pytest.approx([curve["selected_error"]], rel=1e-3)


# Files


def test_results_survive_writing_and_reading(tmp_path, wine):
    points = np.array(wine["embedding"]["points"])
    points[0, 0] = np.nan
    wine["embedding"]["points"] = points
    path = write_results(wine, tmp_path / "new" / "results.json")
    results = read_results(path)
    assert results == read_results(path.parent)
    assert results["embedding"]["points"][0][0] is None
    assert results["embedding"].pop("points")[1:] == wine["embedding"].pop("points")[1:].tolist()
    assert results == wine
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "it is not JSON"),
        ("[1]", "its format is not 'mpda results'"),
        (json.dumps(BARE | {"version": 2}), "has version 2, and this mpda reads"),
        (json.dumps({"format": "mpda results", "version": 1}), "has no 'provenance'"),
        (json.dumps(BARE | {"confusion": {"labels": []}}), "confusion has no 'counts'"),
        (json.dumps(BARE | {"model": [1]}), "model must be a dictionary"),
    ],
)
def test_foreign_files_are_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "results.json"
    with pytest.raises(ReportError, match="does not exist"):
        read_results(path)
    path.write_text(content)
    with pytest.raises(ReportError, match=message) as caught:
        read_results(path)
    assert "\n" not in str(caught.value)
    assert "results.json" in str(caught.value)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("embedding", {"codes": [0]}, r"codes must have shape \(178,\)"),
        ("embedding", {"points": [[1, 2], [1]]}, "inhomogeneous"),
        ("confusion", {"counts": [[1, 2]] * 3}, "counts must have shape"),
        ("model", {"image_shape": [2, 2]}, "image_shape must be"),
        ("model", {"weights": [[1.0]]}, "feature_names must hold 1 names, got 13"),
        ("comparison", {"problems": [{"name": "a"}]}, "the entry 'rows' is missing"),
    ],
)
def test_wrong_entries_are_named(wine, section, change, message):
    results = {**wine, section: {**wine[section], **change}}
    with pytest.raises(ReportError, match=message):
        render(results)


def test_wrong_results_leave_the_old_page(tmp_path):
    path = write_page(BARE, tmp_path / "a" / "page.html")
    before = path.read_bytes()
    with pytest.raises(ReportError):
        write_page({**BARE, "version": 9}, path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


def test_figures_are_written_as_png_and_svg(tmp_path, digits):
    paths = write_figures(digits, tmp_path / "figures")
    names = ["embedding", "embedding-3d", "curve", "partition"]
    names += ["components", "eigenvalues", "confusion"]
    assert [p.name for p in paths] == [f"{n}.{kind}" for n in names for kind in ("png", "svg")]
    for path in paths:
        start = path.read_bytes()[:8]
        assert start.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml"), path


def test_equal_results_give_equal_files(tmp_path, wine):
    results = {**BARE, "confusion": wine["confusion"]}
    first, second = (write_figures(results, tmp_path / name) for name in "ab")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert render(results) == render(results)
    assert write_figures(BARE, tmp_path / "none") == []
