"""``{commands}``: the commands of ``mpda`` with their options, as the program has them."""

from __future__ import annotations

import typing
from enum import Enum
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def commands() -> dict[str, Any]:
    """The commands by name, in the order in which ``mpda --help`` lists them."""
    import typer

    from mpda.cli import app

    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


class Commands(SphinxDirective):
    """What ``--help`` says of the commands that are named."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        known = commands()
        node = nodes.container(classes=["commands"])
        for name in self.arguments[0].split():
            if name not in known:
                raise self.error(f"mpda has no command {name!r}; there are: {', '.join(known)}.")
            lines = described(name, known[name])
            self.state.nested_parse(StringList(lines, "commands"), self.content_offset, node)
        return [node]


def described(name: str, command: Any) -> list[str]:
    """A command as lines of Markdown."""
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    places = [_place(each) for each in shown if _is_place(each)]
    hints = typing.get_type_hints(command.callback)
    said = " ".join((command.help or "").split())
    lines = ["```text", " ".join([f"mpda {name}", *places, "[OPTIONS]"]), "```", "", said, ""]
    rows = [_row(each, hints.get(each.name)) for each in shown]
    return [*lines, "| | | default |", "|---|---|---|", *rows, ""] if rows else lines


def _is_place(parameter: Any) -> bool:
    """Whether it is told by its place and not by a name."""
    return not parameter.opts[0].startswith("-")


def _place(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return f"{name}..." if parameter.nargs == -1 else name


def _row(parameter: Any, hint: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if _is_place(parameter):
        names = [_place(parameter)]
    said = " ".join((parameter.help or "").split()).replace("|", r"\|").replace("<", r"\<")
    values = [each for each in (hint, *typing.get_args(hint)) if _is_choice(each)]
    if values:
        said += f" One of {', '.join(f'`{choice.value}`' for choice in values[0])}."
    default = getattr(parameter.default, "value", parameter.default)
    plain = isinstance(default, Enum | str | int | float) and not isinstance(default, bool)
    shown = f"`{default}`" if plain or hasattr(default, "__fspath__") else ""
    return f"| {', '.join(f'`{each}`' for each in names)} | {said} | {shown} |"


def _is_choice(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("commands", Commands)
    return {"version": "1", "parallel_read_safe": True}
