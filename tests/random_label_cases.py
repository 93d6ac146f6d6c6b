"""Tables with random labels, what commands say about them, and phrases that would claim a gain."""

import contextlib
import html
import io
import re

import numpy as np

from mpda.cli import run

NOTHING = "No method is significantly better than always guessing the most frequent class"
# Sentences of ``mpda.report.verdict`` and of the commands that say that a map is worth using. "LDA
# does as well" is one of them: it is followed by the advice to use LDA.
CLAIM = re.compile(
    r"(?<!not )\bhelps? here|is better here|does as well|does not change the error|Recommended:"
)
# A difference between two methods that is not said to be possibly chance.
DIFFERENCE = re.compile(r"points (?:higher|lower) \(p = ")
COMMANDS = {
    "fit": ("fit", "--out", "m.mpda", "--report", "fit.html"),
    "compare": ("compare", "--out", "."),
}


def make_samples(seed, n=80, d=6):
    """Return normal X (n, d) and labels without relation to it: 2 to 4 classes, equal or not."""
    rng = np.random.default_rng(seed)
    sizes = 1.0 + seed % 2 * np.arange(2 + seed % 3)
    return rng.normal(size=(n, d)), rng.choice(sizes.size, n, p=sizes / sizes.sum())


def run_command(name, X, y, directory, *options):
    """Return what a command prints, and the text of its page."""
    words, table = COMMANDS[name], directory / "table.npz"
    np.savez(table, X=X, y=y)
    output = io.StringIO()
    with (
        contextlib.redirect_stdout(output),
        contextlib.chdir(directory),
        contextlib.suppress(SystemExit),
    ):
        run([words[0], str(table), *words[1:], *options, "--quiet"])
    page = directory / ("fit.html" if name == "fit" else "report.html")
    return " ".join(output.getvalue().split()), read_page(page)


def read_page(path):
    """Return the text of an HTML page without scripts, styles and tags."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", path.read_text(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
