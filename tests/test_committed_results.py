"""The tables of the paper's experiments that are committed say what the committed rows say."""

import gzip
import re
from pathlib import Path

import pytest

from mpda.assessment import differ_significantly, estimate_errors, find_best_methods
from mpda.experiments import CONTENDERS, read_rows
from mpda.experiments._protocol import SEEDS, TABLE2, USPS
from mpda.experiments._tables import (
    comparison,
    cost_table,
    difference_table,
    error_table,
    summary_csv,
)

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "docs" / "reproduction"
READINGS = ("best", "cv")
# What the page calls a method.
NAMES = {"LFDA with a ridge": "LFDA ridge"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_bytes(gzip.decompress((PLACE / "rows.jsonl.gz").read_bytes()))
    return [row for row in read_rows(path) if row["status"] == "done"]


def methods_of(text):
    """The methods of a page's first table."""
    names = re.findall(r"^\| ([^|]+) \|", text.split("\n## ")[1], flags=re.MULTILINE)
    return [name for name in names if name in CONTENDERS]


def test_every_method_was_run_on_every_split(rows):
    done = [(row["problem"], row["method"], row["seed"]) for row in rows]
    assert len(done) == len(set(done))
    expected = {
        (problem, name, seed)
        for problem in TABLE2
        for name, contender in CONTENDERS.items()
        if problem not in contender.skipped
        for seed in SEEDS
    }
    assert expected <= set(done)
    assert f"{len(expected)} rows" in (ROOT / "docs" / "reproduction.md").read_text()


@pytest.mark.parametrize(("name", "problems"), [("table2", TABLE2), ("usps", USPS)])
def test_tables_are_those_of_the_rows(rows, name, problems):
    text = (PLACE / f"{name}.md").read_text()
    methods = methods_of(text)
    rows = [row for row in rows if row["problem"] in problems and row["method"] in methods]
    for reading in READINGS:
        found = estimate_errors(rows, reading)
        assert error_table(found, problems, methods) in text
        assert difference_table(found, problems, methods) in text
    if name == "table2":  # the paper has no numbers for USPS
        assert comparison(estimate_errors(rows, "best"), problems, methods) in text
    assert cost_table(rows, problems, methods) in text
    lines = summary_csv(rows).splitlines()
    assert sorted(lines) == sorted((PLACE / f"{name}.csv").read_text().splitlines())


def test_the_readme_has_rows_of_the_table():
    table = (PLACE / "table2.md").read_text().split("\n## ")[2]
    theirs = re.sub(r" ± [\d.]+| †", "", table).splitlines()
    shown = re.findall(r"^\| .+\(\d+\.\d\).*\|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(shown) >= 10
    assert set(shown) <= set(theirs)


def test_numbers_of_the_page_are_those_of_the_rows(rows):
    by_reading = {reading: estimate_errors(rows, reading) for reading in READINGS}
    reading, method, checked = "best", None, 0
    for line in (ROOT / "docs" / "reproduction.md").read_text().splitlines():
        if not line.startswith("|"):
            reading = "best"
            continue
        if "by cross-validation" in line:
            reading = "cv"
        label, *numbers = (word.strip() for word in line.strip("|").split("|"))
        if len(numbers) != len(TABLE2) or not re.fullmatch(r"\**[-+]?\d+\.\d+\**", numbers[0]):
            continue
        found = by_reading[reading]
        other = NAMES.get(label.removeprefix("beside "), label.removeprefix("beside "))
        if label.startswith("beside "):
            pairs = [(found[problem, method], found[problem, other]) for problem in TABLE2]
            texts = [f"{one.mean - two.mean:+.2f}" for one, two in pairs]
            told = [differ_significantly(*pair) for pair in pairs]
            texts = [f"**{t}**" if apart else t for t, apart in zip(texts, told, strict=True)]
            assert numbers == texts
        else:
            method = other
            texts = [f"{found[problem, method].mean:.2f}" for problem in TABLE2]
            assert [number.strip("*") for number in numbers] == texts
        checked += 1
    assert checked == 14


def test_the_page_says_of_usps_what_the_rows_say(rows):
    found = {
        key: cell
        for key, cell in estimate_errors(rows, "cv").items()
        if cell.errors.size == len(SEEDS)
    }
    best = [
        find_best_methods({name: cell for (p, name), cell in found.items() if p == problem})
        for problem in USPS
    ]
    table = (ROOT / "docs" / "reproduction.md").read_text().split("| even against odd |")[1]
    lines = table.split("\n\n")[0].splitlines()[2:]
    assert len(lines) >= 9
    for line in lines:
        label, *numbers = (word.strip() for word in line.strip("|").split("|"))
        first, *more = label.split(" / ")
        methods = [first, *(f"{first} {word.removeprefix('with a ')}" for word in more)]
        for problem, ties, shown in zip(USPS, best, numbers, strict=True):
            texts = [f"{found[problem, name].mean:.2f}" for name in methods]
            bold = [f"**{t}**" if m in ties else t for m, t in zip(methods, texts, strict=True)]
            assert shown == " / ".join(bold)
