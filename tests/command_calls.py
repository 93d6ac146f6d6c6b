"""One way to run a command in a test."""

import pytest

from mpda.cli import run


def call(*words):
    """Run a command in this process and return its exit code."""
    with pytest.raises(SystemExit) as stopped:
        run([str(word) for word in words])
    return stopped.value.code
