"""The page and the figures of a report, and the results file."""

import base64
import copy
import io
import json
import re
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

pytest.importorskip("matplotlib", reason="needs mpda[report]")

from PIL import Image  # comes with matplotlib

from mpda.exceptions import ReportError
from mpda.report import read_results, render, write_figures, write_page, write_results
from mpda.report.hover import draw_images
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
    """Elements, text outside of scripts, and data of the charts of a page."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts, self.scripts = [], [], []
        self.feed(html)
        self.content = json.loads(self.scripts[0])
        self.text = " ".join(" ".join(self.texts).split())
        self.ids = [attributes["id"] for _, attributes in self.elements if "id" in attributes]
        self.titles = [attributes["id"] for tag, attributes in self.elements if tag == "h2"]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        tag = self.elements[-1][0] if self.elements else ""
        (self.scripts if tag == "script" else self.texts).append(data)


@cache
def wine_html():
    """Return the page of the unchanged results."""
    return render(wine_results())


@cache
def digits_html():
    return render(digits_results())


# The page


def test_page_has_all_sections(wine):
    page = Page(wine_html())
    names = ["classes", "dimensions", "methods", "confusion", "eigenvalues", "features", "patches"]
    names += ["model", "provenance"]
    assert page.titles == [f"{name}-title" for name in names]
    links = {attributes["href"] for tag, attributes in page.elements if tag == "a"}
    assert links >= {f"#{name}" for name in names}
    assert len(page.ids) == len(set(page.ids))
    assert set(page.content) == {"colors", "scatter", "curves", "patches"}
    assert {"scatter", "curve", "patch-picture"} <= set(page.ids)
    for text in (*wine["summary"], COMMAND, "Grignolino", "StandardScaler", "scikit-learn"):
        assert text in page.text


def test_key_numbers_are_the_errors_of_the_method_and_its_references(wine):
    rows = {row["method"]: row for row in wine["comparison"]["problems"][0]["rows"]}
    cards = dict(re.findall(r'<div class="key[^"]*"><dt>(.*?)</dt><dd><b>(.*?)</b>', wine_html()))
    captions = ["error of MPDA", "error of 1-NN on all features", "error of LDA"]
    assert list(cards) == [captions[0], "components of a sample", *captions[1:]]
    assert cards["components of a sample"] == "5"
    for caption, method in zip(captions, ("MPDA", "1-NN", "LDA"), strict=True):
        assert float(cards[caption]) == pytest.approx(rows[method]["error"], abs=0.05)


def test_summary_has_verdict_error_components_and_commands_in_this_order(wine):
    wine["next"] = [{"purpose": "Classify:", "command": "mpda predict wine.mpda 'new table.csv'"}]
    text = Page(render(wine)).text
    verdict, *others = wine["summary"]
    advice = next(line for line in others if line.startswith("Next: "))
    row = next(r for r in wine["comparison"]["problems"][0]["rows"] if r["method"] == "MPDA")
    interval = f"95 % interval {row['low']:.1f} to {row['high']:.1f} %"
    expected = [verdict, "error of MPDA", interval, "components of a sample", advice]
    expected += ["Classify:", "mpda predict wine.mpda 'new table.csv'", others[0]]
    positions = [text.index(part) for part in expected]
    assert positions == sorted(positions)
    assert text.count(advice) == 1


def test_error_of_an_evaluation_has_its_interval():
    confusion = {"labels": ["a", "b"], "counts": [[240, 8], [12, 240]]}
    text = Page(render({**BARE, "confusion": confusion})).text
    # Wilson's interval of 20 errors among 500 samples.
    assert "4.0 % 95 % interval 2.6 to 6.1 %" in text


def test_reasons_of_the_preparation_are_shown(wine):
    wine["model"]["preparation"] = ["standardised: 1-NN errs on 4.5 %, else on 23.0 %"]
    page = Page(render(wine))
    assert wine["model"]["preparation"][0] in page.text
    assert "passes through StandardScaler → MPDA" in page.text


def test_methods_are_tied_only_by_a_test(wine):
    rows = wine["comparison"]["problems"][0]["rows"]
    for row, (best, error) in zip(rows, [(0, 9.0), (1, 2.0), (1, 3.0), (0, 3.0)], strict=True):
        row |= {"best": bool(best), "error": error}
    section = wine["comparison"]
    for test, expected in (("McNemar's test", ["lowest", "tied"]), (None, ["lowest"])):
        html = render({**BARE, "comparison": {**section, "test": test}})
        assert re.findall(r'class="tag"[^>]*>(\w+)<', html) == expected
        assert ("not significantly higher (McNemar" in html) == (test is not None)


def test_methods_that_are_best_or_tied_are_bold(wine):
    rows = wine["comparison"]["problems"][0]["rows"]
    for row, best in zip(rows, (False, True, True, False), strict=True):
        row["best"] = best
    results = {**BARE, "comparison": wine["comparison"]}
    best_methods = re.findall(r'<tr class="best"><th scope="row">(\S+)', render(results))
    assert best_methods == [rows[1]["method"], rows[2]["method"]]


def test_only_sections_with_results_are_shown(wine):
    anchors = {"comparison": ["dimensions", "methods"], "embedding": ["classes"], "data": []}
    anchors |= {
        "model": ["eigenvalues", "features", "model"],
        "partition": ["patches"],
        "confusion": None,
    }
    for name, expected in anchors.items():
        names = [name] if expected is None else expected
        titles = [f"{title}-title" for title in [*names, "provenance"]]
        assert Page(render({**BARE, name: wine[name], "title": None})).titles == titles


def test_figures_are_part_of_the_page(wine, digits):
    page = Page(wine_html())
    assert [tag for tag, _ in page.elements].count("svg") == 3  # one is the button for the theme
    counts = [str(count) for row in wine["confusion"]["counts"] for count in row if count]
    assert {*counts, "Grignolino", "component"} <= set(page.texts)
    images = [a["xlink:href"] for tag, a in Page(digits_html()).elements if tag == "image"]
    assert len(images) >= digits["model"]["n_components"]
    assert all(image.startswith("data:image/png;base64,") for image in images)


def test_features_are_listed_by_their_correlation_with_a_component(wine):
    page = Page(wine_html())
    model = wine["model"]
    texts = [" ".join(text.split()) for text in page.texts]
    for name, values in zip(model["component_names"], model["correlations"], strict=True):
        order = np.argsort(-np.abs(values))[:10]
        # After the heading come the features in order, each followed by its correlation.
        start = texts.index(name, texts.index("Features in the components"))
        listed = [text for text in texts[start + 1 :] if text][:20]
        assert listed[::2] == [model["features"][i] for i in order]
        expected = [f"{values[i]:+.2f}".replace("-", "\N{MINUS SIGN}") for i in order]
        assert listed[1::2] == expected


def test_optional_entries_may_be_missing_or_null(wine):
    problem = wine["comparison"]["problems"][0]
    problem["rows"] = [{"method": "MPDA", "error": None}, {"method": "LDA", "error": 2.0}]
    problem["curves"] = [{"method": "MPDA", "dimensions": [1, 2], "error": [3.0, None]}]
    wine["model"] = {"method": "MPDA", "correlations": [[1.0, -0.2]], "eigenvalues": None}
    wine["embedding"] = {"points": [[1.0], [None]], "codes": [0, 0], "labels": ["a"]}
    wine["partition"]["classes"][0]["linearity"] = [None] * 8
    del wine["partition"]["pictures"]
    page = Page(render(wine))
    assert "features-title" in page.titles
    assert "eigenvalues-title" not in page.titles
    assert page.content["scatter"]["columns"][0] == [1.0, None]
    assert page.content["scatter"]["names"] == ["component 1", ""]


def test_several_problems_have_one_table_and_a_choice_of_curves(wine):
    problem = wine["comparison"]["problems"][0]
    wine["comparison"]["problems"] = [{**problem, "name": f"set {i}"} for i in range(3)]
    page = Page(render(wine))
    assert {"curve-1", "curve-2", "curve-3", "curve-choice"} <= set(page.ids)
    charts = [a for _, a in page.elements if a.get("class") == "chart"]
    hidden = {a["id"] for a in charts if "hidden" in a}
    assert hidden == {"curve-2", "curve-3"}


def test_page_loads_nothing_from_the_network():
    page = Page(digits_html())
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
    assert html.count("<script") == html.count("</script>") == 2
    assert EVIL in page.text


def test_pages_of_small_tables_are_below_a_quarter_of_a_megabyte():
    assert len(wine_html().encode()) < 250_000
    assert len(digits_html().encode()) < 250_000


@pytest.mark.slow
def test_page_of_ten_thousand_points_is_below_three_megabytes(digits):
    rng, n = np.random.default_rng(0), 10_000
    labels = digits["embedding"]["predicted"]["labels"]
    digits["embedding"] |= {
        "points": rng.normal(size=(n, 6)) / 37.0,
        "codes": rng.integers(0, 10, n),
        "rows": rng.permutation(1_000_000)[:n],
        "wrong": rng.random(n) < 0.1,
        "predicted": {"labels": labels, "codes": rng.integers(0, 10, n)},
        "hover": {"images": draw_images(np.tile(load_digits().data[:1000], (10, 1)), (8, 8))},
        "n_all": 60_000,
    }
    digits["model"] |= {
        "features": [f"feature {i}" for i in range(2000)],
        "correlations": rng.uniform(-1.0, 1.0, size=(60, 2000)),
        "component_names": None,
        "image_shape": [40, 50],
    }
    html = render(digits)
    assert len(html.encode()) < 3e6
    assert "10,000 of 60,000 samples are shown" in html


# Charts


def test_scatter_holds_every_sample(digits):
    embedding = digits["embedding"]
    chart = Page(digits_html()).content["scatter"]
    np.testing.assert_allclose(np.transpose(chart["columns"]), embedding["points"], rtol=1e-4)
    assert chart["names"] == [f"MPDA {i}" for i in range(1, 6)]
    assert chart["codes"] == embedding["codes"]
    assert chart["labels"] == [str(i) for i in range(10)]
    assert chart["rows"] == embedding["rows"]
    predicted = [chart["predicted"]["labels"][code] for code in chart["predicted"]["codes"]]
    truth = [chart["labels"][code] for code in chart["codes"]]
    wrong = [a != b for a, b in zip(predicted, truth, strict=True)]
    assert list(map(bool, chart["wrong"])) == wrong == embedding["wrong"]


def test_samples_have_images_or_features():
    images = Page(digits_html()).content["scatter"]["hover"]["images"]
    sheet = Image.open(io.BytesIO(base64.b64decode(images["source"].split(",")[1])))
    rows, columns, across = images["rows"], images["columns"], images["across"]
    for i, pixels in enumerate(load_digits().data[::4][:60]):
        left, top = i % across * columns, i // across * rows
        image = np.asarray(sheet.crop((left, top, left + columns, top + rows)), dtype=float)
        np.testing.assert_allclose(image / image.max(), pixels.reshape(8, 8) / 16, atol=0.11)
    features = Page(wine_html()).content["scatter"]["hover"]["features"]
    data = load_wine(as_frame=True).data
    for feature in features:
        np.testing.assert_allclose(feature["values"], data[feature["name"]], rtol=1e-3)


def test_lists_of_another_length_are_refused(wine):
    for key, value in (
        ("rows", [1]),
        ("wrong", [True]),
        ("predicted", {"labels": [], "codes": []}),
    ):
        embedding = {**wine["embedding"], key: value}
        with pytest.raises(ReportError, match=f"{key} must have 178 entries"):
            render({**wine, "embedding": embedding})


def test_curves_have_bands_rings_and_level_lines(wine):
    problem = wine["comparison"]["problems"][0]
    chart = Page(wine_html()).content["curves"]["curve"]
    curves = {curve["name"]: curve for curve in chart["curves"]}
    assert list(curves) == ["LDA", "LFDA", "MPDA", "1-NN, all features"]
    assert [curve.get("level", False) for curve in chart["curves"]] == [False] * 3 + [True]
    drawn, curve = curves["MPDA"], problem["curves"][2]
    for ours, theirs in (("x", "dimensions"), ("y", "error"), ("low", "low"), ("high", "high")):
        np.testing.assert_allclose(drawn[ours], curve[theirs], rtol=1e-3)
    expected = [curve["selected"], curve["selected_error"]]
    assert drawn["selected"] == pytest.approx(expected, rel=1e-3)
    looks = {(entry["style"], entry["dash"]) for entry in chart["curves"]}
    assert len(looks) == 4


def test_every_class_has_a_picture_of_its_patches(wine):
    pictures = Page(wine_html()).content["patches"]
    classes = {entry["label"]: entry for entry in wine["partition"]["classes"]}
    assert {picture["label"] for picture in pictures} == set(classes)
    for picture in pictures:
        entry = classes[picture["label"]]
        assert len(picture["lines"]) == picture["n_patches"] == entry["patches"]
        assert np.bincount(picture["patches"]).tolist() == entry["sizes"]
        np.testing.assert_allclose(picture["linearity"], entry["linearity"], rtol=1e-3)


def test_dark_colours_are_lighter_and_ten_classes_differ():
    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    colors = Page(render(BARE)).content["colors"]
    dark_paper = luminance("#171c23")
    for light, dark in zip(colors["light"], colors["dark"], strict=True):
        assert luminance(dark) > luminance(light)
        assert (luminance(dark) + 0.05) / (dark_paper + 0.05) > 4.5
    for palette in colors.values():
        assert len(set(palette)) == 10


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
        ("model", {"correlations": [[1.0]]}, "feature_names must hold 1 names, got 13"),
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


@pytest.mark.slow
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
