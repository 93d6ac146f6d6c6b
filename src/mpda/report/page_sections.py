"""The sections of the page: heading, explanation, charts, figures and tables.

`make_sections` has one function for each section, which gets the results and the displays. Charts
of plotly are data that the script of the page draws; figures of matplotlib are inserted as SVG.
"""

import re
from dataclasses import dataclass, field
from html import escape
from typing import Any

from mpda.report import html_tables
from mpda.report.charts import Chart, draw_curves, draw_embedding
from mpda.report.displays import encode_figure, make_displays

# Classes up to which a confusion matrix is readable in half the width of the page.
_MAX_HALF_WIDTH = 12
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
    charts : dict of str to dict
        Charts by the id of their element.
    half : bool, default=False
        True if half the width of the page is enough. Neighbours that both are stand side by side.
    """

    anchor: str
    name: str
    title: str
    html: str
    charts: dict[str, Chart] = field(default_factory=dict)
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
        _make_confusion: "confusion" in displays,
        _make_eigenvalues: "eigenvalues" in displays,
        _make_components: "components" in displays,
        _make_partition: results.get("partition", {}).get("classes"),
        _make_provenance: True,
    }
    return [make(results, displays) for make, has_results in makers.items() if has_results]


def _make_embedding(results: Results, displays: Displays) -> Section:
    """Show the samples in two components, and in three behind a button where there are three."""
    embedding = results["embedding"]
    wrong, n = embedding.get("wrong"), len(embedding["points"])
    text = "Each mark is a sample. Samples of the same class should lie together."
    if wrong and any(wrong):
        text += f" A thick rim marks the {sum(wrong)} samples that 1-NN classifies wrongly."
    if (embedding.get("n_all") or n) > n:
        text += f" {n:,} of {embedding['n_all']:,} samples are shown."
    note = "Click a class in the legend to hide it, double-click to see it alone; drag to zoom."
    charts = {"embedding-plane": draw_embedding(displays["embedding"], embedding)}
    label = f"Samples of {len(embedding['labels'])} classes in the first components"
    html = _chart_element("embedding-plane", f"{label}, in two dimensions")
    if "embedding-3d" in displays:
        charts["embedding-space"] = draw_embedding(displays["embedding-3d"], embedding)
        html = (
            '<div class="switch" role="group" aria-label="Dimensions">'
            '<button type="button" data-view="embedding-plane" aria-pressed="true">2D</button>'
            '<button type="button" data-view="embedding-space" aria-pressed="false">3D</button>'
            '</div><p class="note" id="no-space" hidden>The view in three dimensions needs WebGL, '
            f"which this browser does not offer.</p>{html}"
            + _chart_element("embedding-space", f"{label}, in three dimensions", " hidden")
        )
    html = _lead(text, note) + html + _caption(embedding)
    return Section("classes", "Classes", "The classes in the first components", html, charts)


def _make_curves(results: Results, displays: Displays) -> Section:
    """Show the error curves of one problem, with a menu where there are several."""
    charts = {key: draw_curves(displays[key]) for key in displays if key.startswith("curve")}
    problems = [problem for problem in results["comparison"]["problems"] if problem.get("curves")]
    text = (
        "Error by number of components; lower is better. Bands are 95 % confidence intervals. "
        "A ring marks the selected number of components (mean over the splits)."
    )
    elements = options = ""
    for i, (key, problem) in enumerate(zip(charts, problems, strict=True)):
        label = f"Error against the number of components on {problem['name']}"
        # The script shows one chart with its table and hides the others.
        hidden, table = " hidden" if i else "", html_tables.curves_table(problem["curves"])
        elements += _chart_element(key, label, hidden)
        elements += f'<details data-with="{key}"{hidden}><summary>Values</summary>{table}</details>'
        options += f'<option value="{key}">{escape(problem["name"])}</option>'
    choice = f'<label class="choice">Problem <select id="curve-choice">{options}</select></label>'
    html = _lead(text) + (choice if len(problems) > 1 else "") + elements
    return Section("dimensions", "Components", "Error by number of components", html, charts)


def _make_comparison(results: Results, displays: Displays) -> Section:
    """Show the errors at the selected numbers of components, in one table for each problem."""
    comparison = results["comparison"]
    problems = comparison["problems"]
    text = "Share of samples that get a wrong class; lower is better. ± is the standard deviation."
    test = f" ({escape(comparison['test'])})" if comparison.get("test") else ""
    note = f"Bold: best, or not significantly worse{test}."
    if len(problems) == 1:
        table = html_tables.methods_table(problems[0])
        note += " Bars: mean and 95 % confidence interval."
    else:
        table = html_tables.problems_table(problems) + "".join(
            f"<details><summary>{escape(p['name'])}</summary>{html_tables.methods_table(p)}</details>"
            for p in problems
        )
    html = _lead(text, note) + table + _caption(comparison)
    return Section("methods", "Methods", "Comparison of methods", html)


def _make_confusion(results: Results, displays: Displays) -> Section:
    text = "Rows are true classes, columns predicted classes. Counts off the diagonal are errors."
    label = "Counts of true classes (rows) and predicted classes"
    figure = _draw_svg(displays, "confusion", label)
    html = _lead(text) + figure + _caption(results["confusion"])
    half = len(displays["confusion"].labels) <= _MAX_HALF_WIDTH
    return Section("confusion", "Confusion", "Confusion of classes", html, half=half)


def _make_eigenvalues(results: Results, displays: Displays) -> Section:
    text = (
        "How well each component separates the classes. Where the bars become flat, further "
        "components add little."
    )
    label = "Eigenvalue of each component"
    html = _lead(text) + _draw_svg(displays, "eigenvalues", label)
    return Section("eigenvalues", "Eigenvalues", "Eigenvalues", html, half=True)


def _make_components(results: Results, displays: Displays) -> Section:
    """Show the weights of features, as bars or as images."""
    display, n = displays["components"], len(results["model"]["weights"])
    text = "Weight: change of the component when the feature grows by one standard deviation."
    css_class = "figure"
    if display.image_shape is not None:
        text = "Weights of the pixels: bright pixels raise the component, dark ones lower it."
        css_class = "figure pixels"
    if len(display.weights) < n:
        text += f" The first {len(display.weights)} of {n} components are shown."
    label = "Weights of features in the components"
    html = _lead(text) + _draw_svg(displays, "components", label, css_class)
    return Section("features", "Features", "Features in the components", html)


def _make_partition(results: Results, displays: Displays) -> Section:
    """Show the table of patches, next to the patches of one class where they were collected."""
    html = _lead(
        "Each class is divided into small patches that are nearly flat. A linearity of 1 is flat; "
        "larger values mean that the patch is curved."
    )
    table = html_tables.patches_table(results["partition"]["classes"])
    if "partition" in displays:
        example = results["partition"]["example"]
        label = f"Patches of class {example['label']} with their tangent lines"
        figure = _draw_svg(displays, "partition", label)
        table = f'<div class="two"><div>{figure}{_caption(example)}</div><div>{table}</div></div>'
    return Section("patches", "Patches", "Patches of the classes", html + table)


def _make_provenance(results: Results, displays: Displays) -> Section:
    """Show the command, the parameters of each step, the versions, the machine and the date."""
    provenance, html = results["provenance"], ""
    if provenance.get("command"):
        html = (
            '<div class="command"><pre tabindex="0" aria-label="The command that made this page">'
            f'<code id="command">{escape(provenance["command"])}</code></pre>'
            '<button type="button" id="copy">Copy</button></div>'
        )
    steps = results.get("model", {}).get("steps") or []
    tables = [html_tables.pairs_table(step["name"], step.get("parameters") or {}) for step in steps]
    facts = {"machine": provenance.get("machine"), "date": provenance.get("at")}
    facts = {**(provenance.get("versions") or {}), **{k: v for k, v in facts.items() if v}}
    if facts:
        tables.append(html_tables.pairs_table("Versions", facts))
    html += f'<div class="sheets">{"".join(tables)}</div>' if tables else ""
    return Section("provenance", "Reproduce", "How to reproduce this page", html)


def _lead(text: str, note: str = "") -> str:
    suffix = f' <span class="note">{note}</span>' if note else ""
    return f'<p class="lead">{text}{suffix}</p>'


def _caption(section: Results) -> str:
    return f'<p class="how">{escape(section["how"])}</p>' if section.get("how") else ""


def _chart_element(name: str, label: str, hidden: str = "") -> str:
    """Return the empty element into which the script draws a chart."""
    label = escape(label)
    return f'<div class="chart" id="{name}" role="figure" aria-label="{label}"{hidden}></div>'


def _draw_svg(displays: Displays, name: str, label: str, css_class: str = "figure") -> str:
    """Return a figure of matplotlib as an SVG element of the page."""
    figure = displays[name].plot().figure_
    svg = encode_figure(figure, name, "svg", **_SVG_OPTIONS).decode()
    # Groups of all figures have the same identifiers, which nothing refers to.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg[svg.index("<svg") :])
    return f'<div class="{css_class}" role="figure" aria-label="{escape(label)}">{svg}</div>'
