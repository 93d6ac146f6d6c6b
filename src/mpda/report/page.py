"""The page, one HTML file that works offline, and its figures as files.

The modules that draw are imported when a page or a figure is made.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from mpda._lib.atomic_write import write_atomically
from mpda.report.results_file import check_results, refuse_corrupt_results

if TYPE_CHECKING:
    from mpda.report.page_sections import Section

# Scripts of the page; each one uses those before it.
_SCRIPTS = (
    *("shared.js", "scatter.js", "scatter_rows.js", "scatter_controls.js"),
    *("curves.js", "patches.js", "page.js"),
)


def render(results: dict[str, Any]) -> str:
    """Return one HTML page that shows the results and works offline.

    Parameters
    ----------
    results : dict
        "format" is "mpda results", "version" is 1, and "provenance" holds the command, the time and
        the versions of packages. Optional entries are "title", "summary", "data", "comparison",
        "model", "embedding", "partition", "confusion", "storage" and "retrieval", as
        `mpda.report.collect` and `mpda.report.retrieval` make them, and "next", a list of commands
        with their purposes.

    Returns
    -------
    str
        HTML with all scripts, styles and data. Text from the data is escaped.

    Raises
    ------
    ReportError
        If the results have another format or a wrong entry, which the message names.
    """
    from mpda.plotting.styles import COLORS, DARK_COLORS
    from mpda.report.key_numbers import make_summary
    from mpda.report.page_sections import make_first_figure, make_sections

    results = check_results(results)
    with refuse_corrupt_results():
        sections = make_sections(results)
        content: dict[str, Any] = {"colors": {"light": COLORS, "dark": DARK_COLORS}}
        for section in sections:
            content |= section.charts
        return Template(_read_asset("page.html")).substitute(
            title=escape(results.get("title") or "mpda"),
            facts=_describe_data(results.get("data", {})),
            links="".join(f'<a href="#{s.anchor}">{escape(s.name)}</a>' for s in sections),
            summary=make_summary(results, make_first_figure(results)),
            sections="".join(map(_wrap_section, sections)),
            style=_read_asset("page.css"),
            script="".join(map(_read_asset, _SCRIPTS)),
            content=_encode_for_script(content),
        )


def write_page(results: dict[str, Any], path: str | Path) -> Path:
    """Write the page of the results atomically.

    Parameters
    ----------
    results : dict
        As described for `render`.
    path : str or Path
        The file. Missing directories are made.

    Returns
    -------
    Path
        The file.
    """
    return write_atomically(Path(path), render(results))


def write_figures(results: dict[str, Any], directory: str | Path) -> list[Path]:
    """Write every figure of the results as PNG (200 dots per inch) and SVG.

    Parameters
    ----------
    results : dict
        As described for `render`.
    directory : str or Path
        Made if it does not exist.

    Returns
    -------
    list of Path
        Written files. Equal results give equal bytes.
    """
    from mpda.report.displays import encode_figure, make_displays

    results, paths = check_results(results), []
    with refuse_corrupt_results():
        for name, display in make_displays(results).items():
            figure = display.plot().figure_
            for kind in ("png", "svg"):
                path = Path(directory) / f"{name}.{kind}"
                paths.append(write_atomically(path, encode_figure(figure, name, kind)))
    return paths


def _wrap_section(section: Section) -> str:
    css_class = ' class="half"' if section.half else ""
    return (
        f'<section id="{section.anchor}"{css_class} aria-labelledby="{section.anchor}-title">'
        f'<h2 id="{section.anchor}-title">{escape(section.title)}</h2>{section.html}</section>'
    )


def _describe_data(data: dict[str, Any]) -> str:
    facts = [data["name"]] if data.get("name") else []
    for key, unit in (("n_samples", "sample"), ("n_features", "feature")):
        if data.get(key) is not None:
            facts.append(f"{data[key]:,} {unit}{'' if data[key] == 1 else 's'}")
    if data.get("classes"):
        label = f" by {data['label']}" if data.get("label") else ""
        facts.append(f"{len(data['classes'])} classes{label}")
    return escape(" · ".join(facts))


def _read_asset(name: str) -> str:
    return (files("mpda.report") / "assets" / name).read_text(encoding="utf-8")


def _encode_for_script(content: dict[str, Any]) -> str:
    """Return JSON that cannot close the script element around it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
