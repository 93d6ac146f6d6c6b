"""The sections of the page: heading, explanation, charts, figures and tables.

`make_sections` has one function for each section, which gets the results and the displays. Charts
are data that the scripts of the page draw; figures of matplotlib are inserted as SVG.
"""

import re
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from mpda.assessment import CLASSIFIER
from mpda.plotting.axes import new_figure
from mpda.report import html_tables
from mpda.report.charts import describe_curves, describe_patches, describe_scatter
from mpda.report.displays import encode_figure, make_displays
from mpda.report.retrieval import MEANING, SEARCHES

# Features in the list of a component.
_N_BARS = 10
# Classes up to which a confusion matrix is readable in half the width of the page.
_MAX_HALF_WIDTH = 12
# Kinds of vectors up to which the measures of several searches stand in one table.
_MAX_SIDE_BY_SIDE = 2
# Inches of a figure in half the width of the page, or in the width of a phone: its text is then
# nearly as large as that around it.
_HALF_WIDTH = 3.9
# Text stays text, so it has the font of the page and can be searched; the ground is the page's.
_SVG_OPTIONS = {"svg.fonttype": "none", "savefig.transparent": True}
Results = dict[str, Any]
Displays = dict[str, Any]  # by name, as `make_displays` returns them


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Parameters
    ----------
    anchor : str
        Address on the page.
    name : str
        Name in the navigation.
    title : str
        Heading.
    html : str
        Content below the heading.
    charts : dict
        Data of the charts, as the scripts expect them.
    half : bool, default=False
        True if half the width of the page is enough. Neighbours that both are stand side by side.
    """

    anchor: str
    name: str
    title: str
    html: str
    charts: dict[str, Any] = field(default_factory=dict)
    half: bool = False


def make_sections(results: Results) -> list[Section]:
    """Return the sections for which there are results, in the order of the page.

    Parameters
    ----------
    results : dict
        Checked results.

    Returns
    -------
    list of Section
        At least the section on provenance.
    """
    displays = make_displays(results)
    # The order is that of a reader's questions: are the classes apart, how good is the map, what is
    # it made of, and how was it computed?
    makers = {
        _make_embedding: "embedding" in displays,
        _make_curves: any(name.startswith("curve") for name in displays),
        _make_comparison: results.get("comparison", {}).get("problems"),
        _make_retrieval: results.get("retrieval"),
        _make_confusion: "confusion" in displays,
        _make_eigenvalues: "eigenvalues" in displays,
        _make_components: "components" in displays,
        _make_partition: results.get("partition", {}).get("classes"),
        _make_model: results.get("model", {}).get("steps"),
        _make_provenance: True,
    }
    return [make(results, displays) for make, has_results in makers.items() if has_results]


def make_first_figure(results: Results) -> str:
    """Return the curve of bytes against quality, which stands in the summary.

    Parameters
    ----------
    results : dict
        Checked results.

    Returns
    -------
    str
        HTML; empty if the features are no vectors.
    """
    storage = results.get("storage", {})
    if not storage.get("rows"):
        return ""
    text = (
        "What a vector costs, and how well it finds its class. Left is cheaper, higher is better."
    )
    note = (
        "MAP@R: share of the class of a query among its nearest vectors, as many as the class has; "
        "one that comes earlier counts more."
    )
    displays = make_displays(results)
    html = _lead(text) + _make_curve(displays, "bytes", storage)
    if "unseen" in storage:
        html += _lead("The same for classes of which the fit had no label.")
        html += _make_curve(displays, "bytes-unseen", storage["unseen"])
    return f'<div id="bytes">{html}<p class="how">{note}</p></div>'


def _make_curve(displays: Displays, name: str, entry: Results) -> str:
    figure = _draw_svg(displays, name, "Recall at 1 and MAP@R by bytes", "figure wide")
    values = html_tables.storage_table(entry["rows"])
    return f"{figure}<details><summary>Values</summary>{values}</details>{_caption(entry)}"


def _make_embedding(results: Results, displays: Displays) -> Section:
    """Show the samples in two or three components."""
    embedding = results["embedding"]
    wrong, n = embedding.get("wrong"), len(embedding["points"])
    text = "Each mark is a sample. Samples of the same class should lie together."
    if n and len(embedding["points"][0]) == 1:
        text += " There is one component; the height of a mark is random, so that fewer overlap."
    if wrong and any(wrong):
        samples = "sample" if sum(wrong) == 1 else f"{sum(wrong)} samples"
        text += f" A thick rim marks the {samples} that 1-NN classifies wrongly."
    if (embedding.get("n_all") or n) > n:
        text += f" {n:,} of {embedding['n_all']:,} samples are shown."
    note = (
        "Click a class in the legend to hide it, double-click to see it alone. Drag to zoom, or "
        "choose the lasso or the box to list samples."
    )
    charts = {"scatter": describe_scatter(displays["embedding"], embedding)}
    label = f"{n:,} samples of {len(embedding['labels'])} classes in the first components"
    html = _lead(text, note) + _chart_element("scatter", "scatter", label) + _caption(embedding)
    return Section("classes", "Classes", "The classes in the first components", html, charts)


def _make_curves(results: Results, displays: Displays) -> Section:
    """Show the error curves of one problem, with a menu where there are several."""
    charts = {key: describe_curves(displays[key]) for key in displays if key.startswith("curve")}
    problems = [problem for problem in results["comparison"]["problems"] if problem.get("curves")]
    text = (
        "Error by number of components; lower is better. Bands are 95 % confidence intervals of "
        "the mean over folds or splits. A ring marks the selected number of components (mean over "
        "the splits)."
    )
    is_cut = [displays[key].upper_limit() < displays[key].largest_error for key in charts]
    if any(is_cut):
        text += " Errors above the axis are listed under Values."
    elements = options = ""
    for i, (key, problem) in enumerate(zip(charts, problems, strict=True)):
        label = f"Error against the number of components on {problem['name']}"
        # The script shows one chart with its table and hides the others.
        hidden, table = " hidden" if i else "", html_tables.curves_table(problem["curves"])
        elements += _chart_element(key, "curves", label, hidden)
        elements += f'<details data-with="{key}"{hidden}><summary>Values</summary>{table}</details>'
        options += f'<option value="{key}">{escape(problem["name"])}</option>'
    choice = f'<label class="choice">Problem <select id="curve-choice">{options}</select></label>'
    html = _lead(text) + (choice if len(problems) > 1 else "") + elements
    title = "Error by number of components"
    return Section("dimensions", "Components", title, html, {"curves": charts})


def _make_comparison(results: Results, displays: Displays) -> Section:
    """Show the errors at the selected numbers of components, in one table for each problem."""
    comparison = results["comparison"]
    problems = comparison["problems"]
    text = "Share of samples that get a wrong class; lower is better. ± is the standard deviation."
    tested = bool(comparison.get("test"))
    lowest = "lowest error"
    if any(row["method"] == CLASSIFIER for problem in problems for row in problem["rows"]):
        lowest += f" of the rows other than {CLASSIFIER}"
    note = f"Bold: {lowest}."
    if tested:
        note = f"Bold: {lowest}, or not significantly higher ({escape(comparison['test'])})."
    if len(problems) == 1:
        table = html_tables.methods_table(problems[0], tested=tested)
        note += " Bars: mean and 95 % confidence interval."
    else:
        table = html_tables.problems_table(problems, tested=tested) + "".join(
            f"<details><summary>{escape(problem['name'])}</summary>"
            f"{html_tables.methods_table(problem, tested=tested)}</details>"
            for problem in problems
        )
    html = _lead(text, note) + table + _caption(comparison)
    return Section("methods", "Methods", "Comparison of methods", html)


def _make_retrieval(results: Results, displays: Displays) -> Section:
    """Show the measures of a search, for the map next to raw vectors."""
    retrieval = results["retrieval"]
    found = [(title, retrieval[key]) for key, title in SEARCHES.items() if retrieval.get(key)]
    # Two columns for each search stand side by side; those of several methods do not fit.
    together = all(len(rows) <= _MAX_SIDE_BY_SIDE for _, rows in found)
    tables = [found] if together else [[search] for search in found]
    note = ""
    if any("difference_from_raw" in row for _, rows in found for row in rows.values()):
        note = (
            "higher, lower: the 95 % interval of the difference from the raw vectors, over the "
            "same queries, is on one side of zero."
        )
    html = _lead(escape(MEANING), note) + "".join(map(html_tables.retrieval_table, tables))
    return Section("search", "Search", "What a search finds", html + _caption(retrieval))


def _make_confusion(results: Results, displays: Displays) -> Section:
    text = "Rows are true classes, columns predicted classes. Counts off the diagonal are errors."
    label = "Counts of true classes (rows) and predicted classes"
    half = len(displays["confusion"].labels) <= _MAX_HALF_WIDTH
    css_class, axes = "figure wide", None
    if half:
        css_class, axes = "figure", new_figure(_HALF_WIDTH, 3.6).add_subplot()
    figure = _draw_svg(displays, "confusion", label, css_class, axes)
    html = _lead(text) + figure + _caption(results["confusion"])
    return Section("confusion", "Confusion", "Confusion of classes", html, half=half)


def _make_eigenvalues(results: Results, displays: Displays) -> Section:
    text = (
        "How well each component separates the classes. Where the bars become flat, further "
        "components add little."
    )
    label = "Eigenvalue of each component"
    axes = new_figure(_HALF_WIDTH, 2.7).add_subplot()
    html = _lead(text) + _draw_svg(displays, "eigenvalues", label, ax=axes)
    return Section("eigenvalues", "Eigenvalues", "Eigenvalues", html, half=True)


def _make_components(results: Results, displays: Displays) -> Section:
    """Show the correlations of features and components, as bars or as images."""
    display, n = displays["components"], len(results["model"]["correlations"])
    text = (
        "Correlation of each feature with the component, from &minus;1 to 1. It does not depend on "
        "the unit of the feature. The sign of a component has no meaning."
    )
    if display.image_shape is not None:
        text = (
            "Correlation of each pixel with the component: where a bright pixel raises it, and "
            "where it lowers it. The sign of a component has no meaning."
        )
    if len(display.weights) < n:
        text += f" The first {len(display.weights)} of {n} components are shown."
    if display.image_shape is not None:
        label = "Correlations of pixels and components"
        html = _draw_svg(displays, "components", label, "figure pixels")
    else:
        tables = []
        for name, values in zip(display.component_names, display.weights, strict=True):
            largest = np.argsort(-np.abs(values), kind="stable")[:_N_BARS]
            names = [display.feature_names[i] for i in largest]
            tables.append(html_tables.bars_table(name, names, values[largest].tolist()))
        html = f'<div class="panels">{"".join(tables)}</div>'
    return Section("features", "Features", "Features in the components", _lead(text) + html)


def _make_partition(results: Results, displays: Displays) -> Section:
    """Show the table of patches, next to a picture of the class that the reader chooses."""
    html = _lead(
        "Each class is divided into small patches that are nearly flat. A linearity of 1 is flat; "
        "larger values mean that the patch is curved."
    )
    partition, charts = results["partition"], {}
    table = html_tables.patches_table(partition["classes"])
    if "partition" in displays:
        charts["patches"] = describe_patches(partition["pictures"], partition["classes"])
        chart = _chart_element("patch-picture", "patches", "Patches of a class")
        table = f'<div class="two">{chart}<div>{table}</div></div>'
    return Section("patches", "Patches", "Patches of the classes", html + table, charts)


def _make_model(results: Results, displays: Displays) -> Section:
    """Show the steps of the model with their parameters, and why features are prepared so."""
    model = results["model"]
    steps = model["steps"]
    chain = " &rarr; ".join(f"<b>{escape(step['name'])}</b>" for step in steps)
    html = _lead(f"A sample passes through {chain}.")
    if reasons := model.get("preparation"):
        items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
        html += f'<p class="lead">Why it has these steps:</p><ul class="reasons">{items}</ul>'
    tables = [html_tables.pairs_table(step["name"], step.get("parameters") or {}) for step in steps]
    html += f'<div class="sheets">{"".join(tables)}</div>'
    return Section("model", "Model", "The model", html)


def _make_provenance(results: Results, displays: Displays) -> Section:
    """Show the command, the versions, the machine and the date."""
    provenance, html = results["provenance"], ""
    if provenance.get("command"):
        html = html_tables.command_block(provenance["command"], "The command that made this page")
    facts = {"machine": provenance.get("machine"), "date": provenance.get("at")}
    facts = {**(provenance.get("versions") or {}), **{k: v for k, v in facts.items() if v}}
    if facts:
        html += f'<div class="sheets">{html_tables.pairs_table("Versions", facts)}</div>'
    return Section("provenance", "Reproduce", "How to reproduce this page", html)


def _lead(text: str, note: str = "") -> str:
    suffix = f' <span class="note">{note}</span>' if note else ""
    return f'<p class="lead">{text}{suffix}</p>'


def _caption(section: Results) -> str:
    return f'<p class="how">{escape(section["how"])}</p>' if section.get("how") else ""


def _chart_element(name: str, kind: str, label: str, hidden: str = "") -> str:
    """Return the empty element into which a script draws a chart."""
    attributes = f'data-chart="{kind}" role="figure" aria-label="{escape(label)}"{hidden}'
    return f'<div class="chart" id="{name}" {attributes}></div>'


def _draw_svg(
    displays: Displays, name: str, label: str, css_class: str = "figure", ax: Any = None
) -> str:
    """Return a figure of matplotlib as an SVG element of the page."""
    figure = displays[name].plot(ax).figure_
    svg = encode_figure(figure, name, "svg", **_SVG_OPTIONS).decode()
    # Groups of all figures have the same identifiers, which nothing refers to.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg[svg.index("<svg") :])
    attributes = f'class="{css_class}" role="figure" aria-label="{escape(label)}" tabindex="0"'
    return f"<div {attributes}>{svg}</div>"
