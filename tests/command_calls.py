"""One way to run a command in a test, and to read the page that it writes."""

import html
import re
from pathlib import Path

import pytest

from mpda.cli import run


def call(*words):
    """Run a command in this process and return its exit code."""
    with pytest.raises(SystemExit) as stopped:
        run([str(word) for word in words])
    return stopped.value.code


def read_page(path):
    """Return a page without the marks of options, which stand inside commands."""
    page = Path(path).read_text()
    return html.unescape(re.sub(r'<span class="option">(.*?)</span>', r"\1", page))
