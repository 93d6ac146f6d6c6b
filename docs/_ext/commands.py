"""Directive ``{commands}``: usage and options of the commands of ``mpda``, from the program."""

from __future__ import annotations

import typing
from enum import Enum
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def commands() -> dict[str, Any]:
    """Return the commands by name, in the order of ``mpda --help``."""
    import typer

    from mpda.cli import app

    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


class Commands(SphinxDirective):
    """Insert the help texts of the named commands."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        available = commands()
        node = nodes.container(classes=["commands"])
        for name in self.arguments[0].split():
            if name not in available:
                names = ", ".join(available)
                raise self.error(f"mpda has no command {name!r}; its commands are: {names}.")
            lines = describe_command(name, available[name])
            self.state.nested_parse(StringList(lines, "commands"), self.content_offset, node)
        return [node]


def describe_command(name: str, command: Any) -> list[str]:
    """Return usage, help and options of a command as lines of Markdown."""
    parameters = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [_argument_name(p) for p in parameters if _is_argument(p)]
    hints = typing.get_type_hints(command.callback)
    usage = " ".join([f"mpda {name}", *arguments, "[OPTIONS]"])
    lines = ["```text", usage, "```", "", " ".join((command.help or "").split()), ""]
    rows = [_table_row(p, hints.get(p.name)) for p in parameters]
    return [*lines, "| | | default |", "|---|---|---|", *rows, ""] if rows else lines


def _is_argument(parameter: Any) -> bool:
    """Return True for a positional argument."""
    return not parameter.opts[0].startswith("-")


def _argument_name(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return f"{name}..." if parameter.nargs == -1 else name


def _table_row(parameter: Any, hint: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if _is_argument(parameter):
        names = [_argument_name(parameter)]
    text = " ".join((parameter.help or "").split()).replace("|", r"\|").replace("<", r"\<")
    enums = [kind for kind in (hint, *typing.get_args(hint)) if _is_enum(kind)]
    if enums:
        text += f" One of {', '.join(f'`{choice.value}`' for choice in enums[0])}."
    value = getattr(parameter.default, "value", parameter.default)
    is_plain = isinstance(value, Enum | str | int | float) and not isinstance(value, bool)
    default = f"`{value}`" if is_plain or hasattr(value, "__fspath__") else ""
    return f"| {', '.join(f'`{name}`' for name in names)} | {text} | {default} |"


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("commands", Commands)
    return {"version": "1", "parallel_read_safe": True}
