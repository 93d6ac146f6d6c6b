"""Help and usage of the commands: one style of help, one meaning of a flag, one style of errors."""

import re
from collections import defaultdict

import pytest

from command_calls import call, call_as_typed

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

from typer.main import get_command

from mpda.cli.program import app

COMMANDS = get_command(app).commands


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_shows_no_types_of_flags(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert call(*command.split(), "--help") == 0
    text = capsys.readouterr().out
    assert "--help" in text
    assert not re.search(r"bool|list\[", text, re.IGNORECASE)


def test_options_of_one_name_have_one_meaning():
    """Options that several commands have are the same ones, or do the same for other files."""
    texts = defaultdict(set)
    for command in COMMANDS.values():
        for parameter in command.params:
            for name in (*parameter.opts, *parameter.secondary_opts):
                texts[name].add(parameter.help)
    different = {name for name, helps in texts.items() if len(helps) > 1}
    # Output files and numbers of processes differ by what the command does.
    assert different <= {"--out", "--report", "--jobs", "--methods", "--scheduler", "--data"}


def test_program_without_words_prints_its_help(capsys):
    assert call() == 0
    assert "Usage: mpda" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit iris.csv --fold 3", "mpda: No such option: --fold"),
        ("fit", "mpda: Missing argument 'DATA'. See mpda fit --help."),
        ("fitt", "mpda: No such command 'fitt'"),
        ("fit iris.csv --label", "mpda: Option '--label' requires an argument."),
        ("fit iris.csv --folds x", "mpda: Invalid value for '--folds': "),
        ("fit iris.csv --scale all", "mpda: Invalid value for '--scale': "),
        ("compare iris.csv --impute mean", "mpda: Invalid value for '--impute': "),
        ("partition iris.csv --neighbors 3", "mpda: No such option: --neighbors"),
        ("fit iris.csv --no-neighbors", "mpda: No such option: --no-neighbors"),
        ("fit iris.csv --label y --image ²x²", "mpda: --image must be ROWSxCOLUMNS"),
        ("fit iris.csv --label y --image 0x8", "mpda: --image must be ROWSxCOLUMNS"),
        ("transform m.mpda iris.csv --out z.xls", "mpda: --out z.xls: files that can be written"),
        ("predict m.mpda iris.csv --out z.xlsx", "mpda: --out z.xlsx: files that can be written"),
        ("partition iris.csv --out z", "mpda: --out z: files that can be written"),
        ("datasets wine --out z.txt", "mpda: --out z.txt: files that can be written"),
    ],
)
def test_wrong_usage_is_one_line(words, message, capsys):
    assert call_as_typed(*words.split()) == 2
    streams = capsys.readouterr()
    assert streams.err.startswith(message)
    assert streams.err.count("\n") == 1
    assert streams.out == ""
