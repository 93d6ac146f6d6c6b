"""Configuration of the site, which ``make docs`` builds."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

# Before NumPy is imported: the examples are small, and a build may share its cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import mpda  # noqa: E402

project = "mpda"
author = "The mpda developers"
copyright = "The mpda developers; BSD-3-Clause"
version = release = mpda.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "commands",
    "docstrings",
    "mathml",
]
exclude_patterns = ["_build", "examples", "api/templates"]
templates_path = ["api/templates"]
nitpicky = True

html_theme = "furo"
html_title = f"mpda {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_theme_options = {"light_logo": "mark.svg", "dark_logo": "mark.svg"}
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"
pygments_style = "default"
pygments_dark_style = "monokai"

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # docstrings have the types
autoclass_content = "class"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# These examples need data that are not part of mpda; without them their pages are left out.
NEED_DATA = r"plot_(8_embeddings|9_spectra)\.py$"

sphinx_gallery_conf = {
    "ignore_pattern": r"__init__\.py" if os.environ.get("MPDA_DATA") else NEED_DATA,
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "first_notebook_cell": "# In a new environment: %pip install 'mpda[plot]'",
    "capture_repr": (),  # show printed output and figures only
    "remove_config_comments": True,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 1,
    "write_computation_times": False,  # its page would fetch scripts from the network
    "image_srcset": ["2x"],
}

# Titles of pages that commands write, which begin with a table.
TITLES = {
    "evidence/bench": "Ratios of time and memory",
    "evidence/cluster-millions": "Two million samples on a cluster",
    "evidence/cluster-throughput": "A cluster and one machine",
    "evidence/complexity": "The paper's counts of operations, and measured growth",
    "evidence/growth": "How time and memory of the methods grow",
    "evidence/published": "The methods as published, and the paper",
    "evidence/regret-MPDA": "What each selection rule costs MPDA",
    "evidence/scale-million": "A million samples",
    "evidence/scale-mnist": "Full MNIST",
    "evidence/scale-patches": "Patches of large classes",
    "evidence/scale-neighbors": "Approximate neighbours",
    "evidence/scale-precision": "Single and double precision",
    "evidence/shortcuts": "The paper's shortcuts",
    "evidence/tables": "mpda fit on large tables",
    "evidence/tables-vectors": "Reading a column of vectors",
    "evidence/vector-search": "Short vectors in a search: Banking77",
    "evidence/retrieval": "Time and memory of measures of retrieval",
    "reproduction/claims": "Partitions, expansions, exponentials, LPFE",
    "reproduction/dimension": "The best method for each number of components",
    "reproduction/fields": "TSIMR and PFE, with and without patches",
    "reproduction/partition": "Tangents of patches and of neighbours",
    "reproduction/ranks": "Average ranks",
    "reproduction/sensitivity": "Sensitivity to parameters",
    "reproduction/table1": "Table 1: the data sets",
    "reproduction/table2": "Table 2: errors on eight problems",
    "reproduction/usps": "USPS: two classes of five digits each",
}


def add_title(app: Any, name: str, source: list[str]) -> None:
    """Add a title to a page without one: that of TITLES, or its name."""
    is_data = name.startswith(("evidence/", "reproduction/"))
    if is_data and not source[0].startswith("# "):
        title = TITLES.get(name, name.split("/")[-1].replace("-", " "))
        source[0] = f"# {title}\n\n{source[0]}"


def resolve_files(app: Any, name: str, source: list[str]) -> None:
    """Convert links to files of the repository to links of the site.

    The script of an example becomes its page in the gallery, and a file outside of ``docs`` a
    download.
    """
    text = re.sub(r"\]\(((?:\.\./)*)examples/(plot_\w+)\.py\)", r"](\1gallery/\2.rst)", source[0])
    text = text.replace("](examples/GALLERY_HEADER.rst)", "](gallery/index.rst)")
    outside = r"\[([^\]]+)\]\(((?:\.\./)+(?:benchmarks|tests|src)/[^)]+)\)"
    source[0] = re.sub(outside, r"{download}`\1 <\2>`", text)


def setup(app: Any) -> None:
    app.connect("source-read", add_title)
    app.connect("source-read", resolve_files)
