"""The breaks by which the tests are judged still fit the package, and drawn ones are Python."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "robustness"))
import breaks  # noqa: E402


def test_every_break_of_the_list_applies():
    # From the sources beside the tests: what is imported may be a copy that was broken.
    found = breaks.listed_breaks()
    assert len(found) >= 40
    for each in found:
        assert each.text != (breaks.PACKAGE / each.file).read_text(), each.name
        ast.parse(each.text)
        assert each.tests
        assert all((ROOT / "tests" / test).is_file() for test in each.tests), each.name


@pytest.mark.parametrize(("old", "n"), [("not in the file", 0), ("return", 14)])
def test_a_break_that_does_not_apply_once_is_refused(old, n, monkeypatch, tmp_path):
    entry = f'[[break]]\nname = "b"\nfile = "m.py"\nold = "{old}"\nnew = ""\n'
    (tmp_path / "m.py").write_text("return\n" * 14)
    (tmp_path / "list.toml").write_text(f'{entry}[tests]\n"m.py" = []\n')
    monkeypatch.setattr(breaks, "PACKAGE", tmp_path)
    monkeypatch.setattr(breaks, "LIST", tmp_path / "list.toml")
    with pytest.raises(ValueError, match=f"'b': the old text occurs {n} times in m.py"):
        breaks.listed_breaks()


SOURCE = '''
def f(x: int | None) -> int | None:
    """é."""
    y = -x[0] + 0.5 * x[:, 1]  # ü
    y += g(x, axis=1)
    if x < 1 and y > 2:
        raise ValueError(f"{x + y}")
    return x & y
'''


def test_what_may_be_drawn(monkeypatch, tmp_path):
    (tmp_path / "m.py").write_text(SOURCE)
    (tmp_path / "list.toml").write_text('[tests]\n"m.py" = ["test_m.py"]\n')
    monkeypatch.setattr(breaks, "PACKAGE", tmp_path)
    monkeypatch.setattr(breaks, "LIST", tmp_path / "list.toml")
    found = breaks.drawn_breaks(100, 0)
    lines = {line.strip() for each in found for line in each.text.splitlines()}
    new = lines - {line.strip() for line in SOURCE.splitlines()}
    assert new == {
        "y = -x[0] - 0.5 * x[:, 1]  # ü",
        "y = -x[0] + 0.5 / x[:, 1]  # ü",
        "y = -x[0] + 1.0 * x[:, 1]  # ü",
        "y = x[0] + 0.5 * x[:, 1]  # ü",
        "y = -x[1] + 0.5 * x[:, 1]  # ü",
        "y = -x[0] + 0.5 * x[:, 0]  # ü",
        "y -= g(x, axis=1)",
        "y += g(x, axis=0)",
        "if x <= 1 and y > 2:",
        "if x < 1 and y >= 2:",
        "if x < 1 or y > 2:",
        "return x | y",
    }
    assert len(found) == len(new)
    assert [each.name for each in breaks.drawn_breaks(5, 1)] == [
        each.name for each in breaks.drawn_breaks(5, 1)
    ]
    for each in found:
        ast.parse(each.text)
