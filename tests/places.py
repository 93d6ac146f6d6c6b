"""Commands that should fail for where they read or write, and what they leave."""

import contextlib
import os
from pathlib import Path

import pytest

from mpda.cli import run

NOBODY = 65534
VEHICLE = (846, 18)


@contextlib.contextmanager
def unprivileged():
    """As a user to whom permissions apply."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        run([str(each) for each in arguments])
    return ended.value.code


def contents(directory="."):
    return {path: path.read_bytes() for path in Path(directory).rglob("*") if path.is_file()}


def refused(capsys, *arguments):
    """The one line of a command that fails and changes nothing."""
    before = contents()
    assert call(*arguments, "--quiet") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("mpda: ")
    assert said.err.count("\n") == 1
    assert contents() == before
    return said.err
