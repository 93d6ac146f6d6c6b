"""One way to run a command in a test, and to read the page that it writes."""

import html
import re
from pathlib import Path

import pytest

from mpda.cli import run

# Options of mpda fit with which the method is not chosen by cross-validation.
_WITH_METHOD = {"--method", "--database", "--scheduler"}


def call(*words):
    """Run a command in this process and return its exit code.

    ``mpda fit`` prints its details, and fits MPDA unless the words name a method or imply one: the
    choice of a method takes seconds, and most tests are about other things. `call_as_typed` is for
    tests of the choice and of the short answer.
    """
    words = [str(word) for word in words]
    if words[:1] == ["fit"]:
        words += [] if _WITH_METHOD & set(words) else ["--method", "mpda"]
        words += ["--details"]
    return call_as_typed(*words)


def call_as_typed(*words):
    """Run a command in this process exactly as a user typed it, and return its exit code."""
    with pytest.raises(SystemExit) as stopped:
        run([str(word) for word in words])
    return stopped.value.code


def read_page(path):
    """Return a page without the marks of options, which stand inside commands."""
    page = Path(path).read_text()
    return html.unescape(re.sub(r'<span class="option">(.*?)</span>', r"\1", page))
