"""Commands from functions: options, groups of options and help texts.

A parameter of a command is an option, or a dataclass whose fields are options that several
commands share. The help texts are the entries "Parameters" of the docstrings of the function and
of these dataclasses.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperOption

from mpda.cli.terminal import report_in_one_line

# Heading of the options in a docstring.
_HEADING = "\n\nParameters\n----------\n"


def make_command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function into a command that reports every failure as one line.

    Parameters
    ----------
    function : callable
        Its parameters are options, or dataclasses of options.

    Returns
    -------
    callable
        A function for typer. All options are parameters of their own.
    """
    options: dict[str, inspect.Parameter] = {}
    groups: dict[str, Any] = {}
    parameters = inspect.signature(function, eval_str=True).parameters
    # The options of the terminal, --quiet and --json, stand last in the help.
    for name in sorted(parameters, key=lambda name: name == "terminal"):
        if is_dataclass(parameters[name].annotation):
            groups[name] = parameters[name].annotation
            options |= inspect.signature(groups[name], eval_str=True).parameters
        else:
            options[name] = parameters[name]

    def command(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        with report_in_one_line(quiet=values["terminal"].quiet):
            function(**values)

    # typer reads the signature. Keyword-only, because options with and without a default follow
    # one another in any order once the groups are joined.
    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([option.replace(kind=keyword) for option in options.values()])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__name__, command.__doc__ = function.__name__, inspect.getdoc(function)
    for group in groups.values():
        command.__doc__ = f"{command.__doc__}\n{str(inspect.getdoc(group)).partition(_HEADING)[2]}"
    return command


def hide_flag_types(parameters: list[Any]) -> list[Any]:
    """Leave out the type of flags, which newer versions of typer show as <bool>.

    Parameters
    ----------
    parameters : list of click.Parameter
        Parameters of a command.

    Returns
    -------
    list of click.Parameter
        The same objects.
    """
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class DocumentedCommand(TyperCommand):
    """Command of typer that takes all help texts from a numpydoc docstring.

    Parameters
    ----------
    *args : tuple
        Arguments of ``TyperCommand``.
    **kwargs : dict
        Arguments of ``TyperCommand``; ``help`` is the docstring.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        text, _, section = (self.help or "").partition(_HEADING)
        self.help = "\n\n".join(" ".join(lines.split()) for lines in text.split("\n\n"))
        # Names and texts alternate: "name : type", then an indented text.
        entries = re.split(r"^(\w+) : .*\n", section, flags=re.MULTILINE)[1:]
        texts = dict(zip(entries[::2], entries[1::2], strict=True))
        for parameter in self.params:
            if isinstance(parameter, TyperArgument | TyperOption):
                parameter.help = " ".join(texts[str(parameter.name)].split())
            if isinstance(parameter, TyperArgument):
                parameter.metavar = str(parameter.name).upper()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, among them --help.

        Parameters
        ----------
        ctx : click.Context
            Call of the command.

        Returns
        -------
        list of click.Parameter
            Flags show no type in the help.
        """
        return hide_flag_types(super().get_params(ctx))
