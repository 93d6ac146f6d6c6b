"""The sections of the page: each is its heading, what to see in it, and where its figures go."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from mpda.report._clouds import embedding_chart, partition_chart
from mpda.report._graphs import component_charts, confusion_chart, curve_chart, eigenvalue_chart
from mpda.report._key import key_numbers
from mpda.report._marks import Chart
from mpda.report._tables import (
    curves_table,
    methods_table,
    pairs_table,
    patches_table,
    problems_table,
)


@dataclass(frozen=True)
class Section:
    """A part of the page.

    anchor : its address; name : what the list of sections calls it; html : what stands below the
    title; charts : by the name of their place; half : whether half the width is enough
    """

    anchor: str
    name: str
    title: str
    html: str
    charts: dict[str, Chart] = field(default_factory=dict)
    half: bool = False


def sections(results: dict[str, Any]) -> list[Section]:
    """Those that the results have something for, in the order of the page."""
    made = [
        _embedding(results.get("embedding")),
        *_comparison(results.get("comparison")),
        *_halves(_confusion(results.get("confusion")), _eigenvalues(results.get("model"))),
        _components(results.get("model")),
        _partition(results.get("partition")),
        _made(results),
    ]
    return [section for section in made if section is not None]


def _halves(left: Section | None, right: Section | None) -> list[Section | None]:
    """Two sections side by side, if both are there and narrow enough."""
    if left and right and left.half and right.half:
        height = max(chart["height"] for each in (left, right) for chart in each.charts.values())
        for chart in (*left.charts.values(), *right.charts.values()):
            chart["height"] = height
        return [left, right]
    return [each and replace(each, half=False) for each in (left, right)]


def summary(results: dict[str, Any]) -> str:
    """The key numbers and the sentences below them."""
    numbers = key_numbers(results)
    cards = "".join(
        f'<div class="key{" main" if i == 0 else ""}"><dt>{escape(number.name)}</dt>'
        f'<dd><b>{escape(number.value)}</b><span class="unit">{escape(number.unit)}</span>'
        f"<small>{escape(number.note)}</small></dd></div>"
        for i, number in enumerate(numbers)
    )
    keys = f'<dl class="keys">{cards}</dl>' if cards else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in results.get("summary") or [])
    return keys + (f'<div class="sentences">{lines}</div>' if lines else "")


def _embedding(embedding: dict[str, Any] | None) -> Section | None:
    if not embedding or not embedding["points"]:
        return None
    charts = {"embedding-plane": embedding_chart(embedding, space=False)}
    tools = ""
    if len(embedding["points"][0]) == 3:
        charts["embedding-space"] = embedding_chart(embedding, space=True)
        tools = (
            '<div class="switch" role="group" aria-label="Number of dimensions shown">'
            '<button type="button" data-view="embedding-plane" aria-pressed="true">2-D</button>'
            '<button type="button" data-view="embedding-space" aria-pressed="false">3-D</button>'
            '</div><p class="note" id="no-space" hidden>This browser has no WebGL, so the view in '
            "three dimensions cannot be shown.</p>"
        )
    wrong = embedding.get("wrong")
    rims = ""
    if wrong and any(wrong):
        rims = (
            f' A thick rim marks the {sum(wrong)} that <span class="keep">1-NN</span> gets wrong.'
        )
    n_all, n = embedding.get("n_all"), len(embedding["points"])
    part = f" {n:,} of {n_all:,} are shown." if n_all and n_all > n else ""
    text = f"Each mark is a sample; samples of one class should lie together.{rims}{part}"
    use = "Click a class in the legend to hide it, double-click to see it alone; drag to zoom."
    labels = f"Samples of {len(embedding['labels'])} classes in the first components"
    html = (
        _lead(text, use)
        + tools
        + _place("embedding-plane", f"{labels}, in two dimensions")
        + (
            _place("embedding-space", f"{labels}, in three dimensions", hidden=True)
            if tools
            else ""
        )
        + _how(embedding.get("how"))
    )
    return Section("classes", "Classes", "The classes, mapped", html, charts)


def _comparison(comparison: dict[str, Any] | None) -> list[Section]:
    problems = (comparison or {}).get("problems") or []
    if not comparison or not problems:
        return []
    text = "The share of samples that get a wrong class; ± is the spread over splits."
    note = "Bold: the best, and what cannot be told from it."
    if len(problems) == 1:
        table = methods_table(problems[0])
        note += " Bars: the mean and its 95 % interval."
    else:
        details = "".join(
            f"<details><summary>{escape(each['name'])}</summary>{methods_table(each)}</details>"
            for each in problems
        )
        table = problems_table(problems) + details
    how = _how(comparison.get("how"))
    made = [Section("methods", "Methods", "Methods side by side", _lead(text, note) + table + how)]
    curved = [problem for problem in problems if problem.get("curves")]
    if curved:
        made.insert(0, _curves(curved))
    return made


def _curves(problems: list[dict[str, Any]]) -> Section:
    names = [f"curve-{i}" for i in range(len(problems))]
    charts = {n: curve_chart(problem) for n, problem in zip(names, problems, strict=True)}
    text = "How the error falls as components are added. Bands are 95 % intervals"
    if any(c.get("chosen") is not None for p in problems for c in p["curves"]):
        text += "; a ring marks what was chosen, by the mean number and the mean error"
    tools = _choice("curve-choice", "Problem", [p["name"] for p in problems], names)
    places = "".join(
        _place(name, f"Error against the number of components on {problem['name']}", hidden=i > 0)
        + f'<details data-with="{name}"{" hidden" if i else ""}><summary>The numbers</summary>'
        + f"{curves_table(problem['curves'])}</details>"
        for i, (name, problem) in enumerate(zip(names, problems, strict=True))
    )
    return Section(
        "dimensions", "Dimension", "Error and dimension", _lead(f"{text}.") + tools + places, charts
    )


def _confusion(confusion: dict[str, Any] | None) -> Section | None:
    if not confusion or not confusion["labels"]:
        return None
    text = "Which classes are taken for which: rows are true classes, the diagonal is right."
    place = _place(
        "confusion-chart", "Counts of true classes (rows) and of what they were taken for"
    )
    html = _lead(text) + place + _how(confusion.get("how"))
    charts = {"confusion-chart": confusion_chart(confusion)}
    half = len(confusion["labels"]) <= 12
    return Section("confusion", "Confusion", "Confusion of classes", html, charts, half)


def _components(model: dict[str, Any] | None) -> Section | None:
    if not model or not model.get("weights"):
        return None
    made = component_charts(model)
    charts = {f"component-{i}": chart for i, chart in enumerate(made)}
    n = len(model["weights"])
    part = f" The first {len(made)} of {n} are here." if len(made) < n else ""
    if model.get("image_shape"):
        text = "What each component looks for in an image: bright pixels raise it, dark lower it."
    else:
        text = "The features that weigh most in each component, each in units of its own spread."
    labels = [chart["name"] for chart in made]
    tools = _choice("component-choice", "Component", labels, list(charts))
    # One place for all: a choice draws into it.
    place = _place("component-0", "Weights of features in the chosen component")
    return Section(
        "features",
        "Features",
        "What components are made of",
        _lead(text + part) + tools + place,
        charts,
    )


def _eigenvalues(model: dict[str, Any] | None) -> Section | None:
    values = [value for value in (model or {}).get("eigenvalues") or [] if value is not None]
    if not values:
        return None
    text = "How well each component separates the classes; where bars grow flat, more add little."
    charts = {"eigenvalue-chart": eigenvalue_chart(values)}
    place = _place("eigenvalue-chart", "Eigenvalue of each component")
    return Section("eigenvalues", "Eigenvalues", "Eigenvalues", _lead(text) + place, charts, True)


def _partition(partition: dict[str, Any] | None) -> Section | None:
    if not partition or not partition["classes"]:
        return None
    text = (
        "Each class is cut into small patches that are nearly flat. A linearity of 1 is flat; the "
        "larger it is, the more a patch bends."
    )
    table = patches_table(partition["classes"])
    shown = partition.get("shown")
    if not shown or not shown["points"]:
        return Section("patches", "Patches", "Patches", _lead(text) + table)
    facts = next((c for c in partition["classes"] if c["label"] == shown["label"]), None)
    label = f"Patches of class {shown['label']} with their tangent lines"
    side = (
        f'<div class="two"><div><h3>Class {escape(shown["label"])}</h3>'
        f"{_place('patch-chart', label)}{_how(shown.get('how'))}</div><div>{table}</div></div>"
    )
    charts = {"patch-chart": partition_chart(shown, facts)}
    return Section("patches", "Patches", "Patches", _lead(text) + side, charts)


def _made(results: dict[str, Any]) -> Section:
    made = results["made"]
    html = ""
    if made.get("command"):
        html += (
            '<div class="command"><pre tabindex="0" aria-label="The command that made this page">'
            f'<code id="command">{escape(made["command"])}</code></pre>'
            '<button type="button" id="copy">Copy</button></div>'
        )
    tables = [
        pairs_table(step["name"], step.get("parameters") or {})
        for step in (results.get("model") or {}).get("steps") or []
    ]
    facts = dict(made.get("versions") or {})
    if made.get("machine"):
        facts["machine"] = made["machine"]
    if made.get("at"):
        facts["made"] = made["at"].replace("T", " ").replace("+00:00", " UTC")
    if facts:
        tables.append(pairs_table("Versions", facts))
    html += f'<div class="sheets">{"".join(tables)}</div>' if tables else ""
    return Section("made", "Making", "How this was made", html)


def _lead(text: str, note: str = "") -> str:
    more = f' <span class="note">{note}</span>' if note else ""
    return f'<p class="lead">{text}{more}</p>'


def _how(text: str | None) -> str:
    return f'<p class="how">{escape(text)}</p>' if text else ""


def _place(name: str, label: str, *, hidden: bool = False) -> str:
    away = " hidden" if hidden else ""
    return f'<div class="chart" id="{name}" role="figure" aria-label="{escape(label)}"{away}></div>'


def _choice(name: str, label: str, texts: list[str], values: list[str]) -> str:
    if len(values) < 2:
        return ""
    options = "".join(
        f'<option value="{value}">{escape(text)}</option>'
        for value, text in zip(values, texts, strict=True)
    )
    return f'<label class="choice">{label} <select id="{name}">{options}</select></label>'
