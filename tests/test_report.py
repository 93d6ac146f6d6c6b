"""The page and the figures of a report, and the file they are made of."""

import copy
import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs mpda[report]")
pytest.importorskip("plotly", reason="needs mpda[report]")

from mpda.exceptions import ReportError
from mpda.report import read_results, render, write_figures, write_page, write_results
from mpda.report._clouds import embedding_chart
from mpda.report._graphs import component_charts, confusion_chart, curve_chart, eigenvalue_chart
from mpda.report._marks import rounded
from report_cases import MADE, digits_results, wine_results

BARE = {"format": "mpda results", "version": 1, "made": MADE}
PARTS = ("summary", "data", "comparison", "model", "embedding", "partition", "confusion")
EVIL = '</script><b onclick="x">&amp;{{$title}}'


@pytest.fixture(scope="module")
def wine():
    return wine_results()


@pytest.fixture(scope="module")
def digits():
    return digits_results()


class Page(HTMLParser):
    """The elements of a page, its text outside of scripts, and the content of scripts."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self.scripts = [], [], []
        self.feed(html)
        self.charts = json.loads(self.scripts[0])["charts"]
        self.words = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        kind = self.elements[-1][0] if self.elements else ""
        (self.scripts if kind == "script" else self.text).append(data)

    def ids(self):
        return [attrs["id"] for _, attrs in self.elements if "id" in attrs]

    def titles(self):
        return [attrs["id"] for tag, attrs in self.elements if tag == "h2"]


# The page


def test_page_has_all_sections(wine):
    page = Page(render(wine))
    wanted = ["classes", "dimensions", "methods", "confusion", "eigenvalues", "features"]
    wanted += ["patches", "made"]
    assert page.titles() == [f"{name}-title" for name in wanted]
    assert {attrs["href"] for tag, attrs in page.elements if tag == "a"} >= {
        f"#{name}" for name in wanted
    }
    ids = page.ids()
    assert len(ids) == len(set(ids))
    components = [name for name in page.charts if name.startswith("component-")]
    assert len(components) == 3
    # Each chart has a place; components share one.
    assert set(page.charts) - set(components[1:]) <= set(ids)
    for line in (*wine["summary"], MADE["command"], "Grignolino", "StandardScaler", "scikit-learn"):
        assert line in page.words


def test_key_number_is_that_of_the_method(wine):
    html = render(wine)
    rows = {row["method"]: row for row in wine["comparison"]["problems"][0]["rows"]}
    cards = re.findall(r'<div class="key[^"]*"><dt>(.*?)</dt><dd><b>(.*?)</b>', html)
    assert cards[:3] == [
        ("error of MPDA", f"{rows['MPDA']['error']:.1f}"),
        ("error of 1-NN on all features", f"{rows['1-NN']['error']:.1f}"),
        ("error of LDA", f"{rows['LDA']['error']:.1f}"),
    ]
    assert cards[3][1] == f"{rows['MPDA']['components']:g}"


def test_best_methods_and_ties_are_bold(wine):
    tied = copy.deepcopy(wine)
    rows = tied["comparison"]["problems"][0]["rows"]
    for row, best in zip(rows, (False, True, True, False), strict=True):
        row["best"] = best
    found = re.findall(r'<tr class="best"><th scope="row">(\S+)', render(tied))
    assert found == [rows[1]["method"], rows[2]["method"]]


@pytest.mark.parametrize("absent", PARTS)
def test_page_without_a_part(wine, absent):
    some = {key: value for key, value in wine.items() if key != absent}
    gone = {"comparison": "methods", "model": "features", "embedding": "classes"}
    page = Page(render(some))
    assert f"{gone.get(absent, absent)}-title" not in page.titles()
    assert "made-title" in page.titles()


def test_page_of_nothing_but_how_it_was_made():
    html = render(BARE)
    assert Page(html).titles() == ["made-title"]
    assert len(html) < 50_000  # nothing to draw, so no script that draws


def test_optional_entries_may_be_missing_or_null(wine):
    few = copy.deepcopy(wine)
    problem = few["comparison"]["problems"][0]
    problem["rows"] = [{"method": "MPDA", "error": None}, {"method": "LDA", "error": 2.0}]
    problem["curves"] = [{"method": "MPDA", "dimensions": [1, 2], "error": [3.0, None]}]
    few["model"] = {"method": "MPDA", "weights": [[1.0, -2.0]], "eigenvalues": None}
    few["embedding"] = {"points": [[1.0], [None]], "codes": [0, 0], "labels": ["a"]}
    few["partition"]["classes"][0]["linearity"] = [None] * 8
    del few["partition"]["shown"]
    page = Page(render(few))
    assert "component-0" in page.charts
    assert "eigenvalue-chart" not in page.charts
    assert page.charts["embedding-plane"]["data"][0]["x"] == [1.0, None]


def test_several_problems_have_a_table_and_a_choice(wine):
    problem = wine["comparison"]["problems"][0]
    many = {**wine, "comparison": {"problems": [{**problem, "name": f"set {i}"} for i in range(3)]}}
    page = Page(render(many))
    assert {"curve-0", "curve-1", "curve-2", "curve-choice"} <= set(page.ids())
    assert "of 3" in page.words
    hidden = {a["id"] for t, a in page.elements if "hidden" in a and a.get("class") == "chart"}
    assert hidden == {"embedding-space", "curve-1", "curve-2"}


def test_nothing_is_fetched(digits):
    page = Page(render(digits))
    for tag, attrs in page.elements:
        for name in ("src", "srcset", "data", "action", "href"):
            address = attrs.get(name) or ""
            assert address.startswith(("#", "data:")) or not address, (tag, attrs)
    style = " ".join(page.text)
    assert "@import" not in style
    assert "url(" not in style
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "http" not in policy


def test_text_from_the_data_is_harmless(wine):
    evil = copy.deepcopy(wine)
    evil["title"] = evil["summary"][0] = EVIL
    evil["made"] = {"command": EVIL, "at": EVIL, "machine": EVIL, "versions": {EVIL: EVIL}}
    evil["data"] |= {"name": EVIL, "label": EVIL, "classes": [{"label": EVIL, "count": 3}]}
    evil["comparison"]["how"] = EVIL
    problem = evil["comparison"]["problems"][0]
    problem["name"] = problem["rows"][1]["method"] = problem["curves"][0]["method"] = EVIL
    evil["model"]["features"][0] = evil["model"]["component_names"][0] = EVIL
    evil["model"]["method"] = evil["model"]["steps"][0]["name"] = EVIL
    evil["model"]["steps"][0]["parameters"] = {EVIL: EVIL}
    evil["embedding"] |= {"labels": [EVIL, EVIL, "c"], "how": EVIL, "component_names": [EVIL] * 3}
    evil["partition"]["classes"][0]["label"] = evil["partition"]["shown"]["label"] = EVIL
    evil["partition"]["shown"]["how"] = EVIL
    evil["confusion"] |= {"labels": [EVIL, "b", "c"], "how": EVIL}
    several = copy.deepcopy(evil)
    several["comparison"]["problems"] *= 2
    clean = Page(render(wine))
    for results in (evil, several):
        html = render(results)
        page = Page(html)
        assert not [1 for tag, attrs in page.elements if tag == "b" and attrs]
        assert html.count("<script") == html.count("</script>") == 3
        assert EVIL in page.words  # as text, whole
    # As many elements as with harmless text.
    kinds = [tag for tag, _ in Page(render(evil)).elements if tag not in ("tr", "th", "td", "code")]
    assert len(kinds) == len([t for t, _ in clean.elements if t not in ("tr", "th", "td", "code")])


def test_plotly_is_given_no_tags_from_the_data():
    embedding = {"points": [[0.0, 1.0]], "codes": [0], "labels": ["<b>x</b> & y"]}
    trace = embedding_chart(embedding, space=False)["data"][0]
    assert trace["name"] == "&lt;b&gt;x&lt;/b&gt; &amp; y (1)"
    assert trace["meta"] == ["&lt;b&gt;x&lt;/b&gt; &amp; y"]


def test_page_of_ten_thousand_points_is_below_seven_megabytes(digits):
    rng = np.random.default_rng(0)
    n = 10_000
    large = copy.deepcopy(digits)
    large["embedding"] |= {
        "points": rng.normal(size=(n, 3)) / 37.0,
        "codes": rng.integers(0, 10, n),
        "rows": rng.permutation(1_000_000)[:n],
        "wrong": rng.random(n) < 0.1,
        "n_all": 60_000,
    }
    large["model"] |= {
        "features": [f"feature {i}" for i in range(2000)],
        "weights": rng.normal(size=(60, 2000)),
        "image_shape": [40, 50],
    }
    html = render(large)
    assert len(html.encode()) < 7e6
    assert "10,000 of 60,000 are shown" in html
    assert Page(html).charts["embedding-plane"]["data"][0]["type"] == "scattergl"


def test_missing_plotly_names_the_extra(monkeypatch, wine):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[report\]'"):
        render(wine)


# Charts


def test_embedding_chart_holds_every_sample(digits):
    embedding = digits["embedding"]
    points, codes = np.array(embedding["points"]), np.array(embedding["codes"])
    for space, letters in ((False, "xy"), (True, "xyz")):
        data = embedding_chart(embedding, space=space)["data"]
        assert [trace["name"].split()[0] for trace in data] == [str(i) for i in range(10)]
        for code, trace in enumerate(data):
            rows = [row for row, _ in trace["customdata"]]
            assert sorted(rows) == np.flatnonzero(codes == code).tolist()
            drawn = np.array([trace[letter] for letter in letters]).T
            np.testing.assert_allclose(drawn, points[rows, : len(letters)], rtol=1e-4)
            told = ["wrong" in text for _, text in trace["customdata"]]
            assert told == [embedding["wrong"][row] for row in rows]
        looks = {(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in data}
        assert len(looks) == 10
    rims = embedding_chart(embedding, space=False)["data"][8]["marker"]["line"]["width"]
    assert sum(width > 1 for width in rims) == np.array(embedding["wrong"])[codes == 8].sum()


def test_symbols_of_fifty_classes_differ():
    embedding = {"points": [[0.0, 0.0, 0.0]] * 50, "codes": range(50)}
    embedding["labels"] = [str(i) for i in range(50)]
    for space in (False, True):
        data = embedding_chart(embedding, space=space)["data"]
        assert len({(t["marker"]["color"], t["marker"]["symbol"]) for t in data}) == 50


def test_curves_have_bands_marks_and_levels(wine):
    problem = wine["comparison"]["problems"][0]
    data = curve_chart(problem)["data"]
    lines = {trace["name"]: trace for trace in data if "name" in trace}
    assert list(lines) == ["MPDA", "LFDA", "LDA", "1-NN, all features"]
    curve = problem["curves"][0]
    np.testing.assert_allclose(lines["MPDA"]["y"], curve["error"], rtol=1e-3)
    assert len({trace["line"]["dash"] for trace in lines.values()}) == 4
    bands = [trace for trace in data if trace.get("fill")]
    np.testing.assert_allclose(bands[0]["y"], curve["high"], rtol=1e-3)
    marks = [trace for trace in data if trace["mode"] == "markers"]
    assert [trace["x"] for trace in marks] == [[c["chosen"]] for c in problem["curves"]]


def test_lines_of_thirty_methods_differ():
    curve = {"dimensions": [1, 2], "error": [9.0, 7.0]}
    curves = [{**curve, "method": f"method {i}"} for i in range(30)]
    data = curve_chart({"name": "p", "rows": [], "curves": curves})["data"]
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in data}) == 30


def test_components_are_bars_or_images(wine, digits):
    bars = component_charts(wine["model"])[0]["data"][0]
    weights = np.array(wine["model"]["weights"][0])
    np.testing.assert_allclose(bars["x"], weights[np.argsort(-np.abs(weights))], rtol=1e-4)
    assert bars["text"][0] == wine["model"]["features"][np.abs(weights).argmax()]
    image = component_charts(digits["model"])[3]["data"][0]
    picture = np.array(digits["model"]["weights"][3]).reshape(8, 8)
    np.testing.assert_allclose(image["z"], picture, rtol=1e-2)
    assert -image["zmin"] == image["zmax"] == np.abs(picture).max()


def test_confusion_and_eigenvalues(wine):
    trace = confusion_chart(wine["confusion"])["data"][0]
    counts = wine["confusion"]["counts"]
    assert trace["text"] == [[str(c) if c else "" for c in row] for row in counts]
    assert trace["hovertext"][0][0].startswith(f"Barbera: {counts[0][0]} right")
    chart = eigenvalue_chart(wine["model"]["eigenvalues"])
    np.testing.assert_allclose(chart["data"][0]["y"], wine["model"]["eigenvalues"], rtol=1e-4)
    assert eigenvalue_chart([1e3, 1.0])["layout"]["yaxis"]["type"] == "log"


def test_rounded_keeps_five_digits():
    assert rounded([123456.789, 0.000123456789, np.nan, np.inf]) == [
        123460.0,
        0.00012346,
        None,
        None,
    ]


# Files


def test_results_come_back(tmp_path, wine):
    arrays = {**wine, "embedding": {**wine["embedding"]}}
    arrays["embedding"]["points"] = np.array(wine["embedding"]["points"])
    arrays["embedding"]["points"][0, 0] = np.nan
    path = write_results(arrays, tmp_path / "new" / "results.json")
    back = read_results(path)
    assert back["embedding"]["points"][0][0] is None
    assert back["embedding"]["points"][1:] == wine["embedding"]["points"][1:]
    assert back == read_results(path.parent)
    del back["embedding"], arrays["embedding"]
    assert back == json.loads(json.dumps(arrays, default=lambda value: value.item()))
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "it is not JSON"),
        ("[1]", "its format is not 'mpda results'"),
        ('{"a": 1}', "its format is not 'mpda results'"),
        ("[" * 100_000, "it is not JSON"),
        (json.dumps(BARE | {"version": 2}), r"made by a newer mpda \(version 2.*upgrade"),
        (json.dumps(BARE | {"version": "one"}), "version must be a count, got 'one'"),
        (json.dumps({"format": "mpda results", "version": 1}), "has no 'made'"),
        (json.dumps(BARE | {"summary": "all"}), "summary must be a list, got 'all'"),
        (json.dumps(BARE | {"confusion": {"labels": ["a"]}}), "confusion has no 'counts'"),
    ],
)
def test_foreign_files_are_refused(tmp_path, content, message):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(ReportError, match=message) as caught:
        read_results(path)
    assert "\n" not in str(caught.value)
    assert "results.json" in str(caught.value)


def test_files_that_are_not_there_or_no_text_are_refused(tmp_path):
    with pytest.raises(ReportError, match=r"results\.json does not exist"):
        read_results(tmp_path)
    (tmp_path / "results.json").write_bytes(b"\x80\x04\xff")
    with pytest.raises(ReportError, match="it is not JSON"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("part", "changed", "message"),
    [
        ("embedding", {"codes": [0]}, "embedding must have lists of one length"),
        ("embedding", {"labels": ["a"]}, "codes must be places in labels"),
        ("embedding", {"points": [[1, 2, 3, 4]] * 178}, "rows of 1 or 2 or 3 entries"),
        ("embedding", {"wrong": [1] * 178}, r"wrong\[0\] must be a flag, got 1"),
        ("confusion", {"counts": [[1, 2]] * 3}, "rows of 3 entries"),
        ("confusion", {"counts": [[1, 2, -1]] * 3}, "must be a count, got -1"),
        ("model", {"image_shape": [2, 2]}, "image_shape must have 13 pixels"),
        ("model", {"weights": [[1.0]]}, "weights must have rows of 13 entries"),
        ("comparison", {"problems": {}}, "problems must be a list"),
    ],
)
def test_wrong_entries_are_named(wine, part, changed, message):
    with pytest.raises(ReportError, match=message):
        render({**wine, part: {**wine[part], **changed}})


def test_page_is_written_whole_or_not_at_all(tmp_path, wine):
    path = write_page(wine, tmp_path / "a" / "page.html")
    assert path.read_text() == render(wine)
    with pytest.raises(ReportError):
        write_page({**wine, "version": 9}, path)
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]
    assert path.read_text() == render(wine)


def test_a_failed_write_leaves_nothing(tmp_path, wine, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_results(wine, tmp_path / "results.json")
    assert list(tmp_path.iterdir()) == []


def test_figures_are_written_as_png_and_svg(tmp_path, digits):
    paths = write_figures(digits, tmp_path / "figures")
    names = ["embedding", "embedding-3d", "curve", "partition"]
    names += ["components", "eigenvalues", "confusion"]
    assert [p.name for p in paths] == [f"{n}.{kind}" for n in names for kind in ("png", "svg")]
    for path in paths:
        start = path.read_bytes()[:200]
        assert start.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml"), path
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == sorted(p.name for p in paths)


def test_the_same_results_give_the_same_files(tmp_path, wine):
    few = {key: wine[key] for key in ("format", "version", "made", "confusion")}
    first, second = (write_figures(few, tmp_path / name) for name in "ab")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert render(wine) == render(wine)
    assert write_figures(BARE, tmp_path / "none") == []


def test_the_ring_stands_at_the_error_of_what_was_chosen():
    curve = {"method": "a", "dimensions": [1, 2, 3], "error": [9.0, 5.0, 7.0], "chosen": 2.5}
    rows = [{"method": "a", "error": 4.0}]
    for more, height in (({}, 6.0), ({"chosen_error": 0.0}, 0.0)):
        chart = curve_chart({"name": "p", "rows": rows, "curves": [{**curve, **more}]})
        ring = next(each for each in chart["data"] if each["mode"] == "markers")
        assert (ring["x"], ring["y"]) == ([2.5], [height])
