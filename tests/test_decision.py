"""The guide page "From a table to a decision": its commands print what it says."""

import re
from pathlib import Path

import pytest

from command_calls import call

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "decision.md"
CASES = re.findall(r"^```sh\n(.*?)\n```\n\n```text\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.M)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tables")
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        exec(compile(code, str(PAGE), "exec"), {})
    return directory


def test_page_has_three_cases():
    verdicts = [text.split("\n")[0] for _, text in CASES]
    assert [verdict.split()[0] for verdict in verdicts] == ["MPDA", "LDA", "No"]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "text"), CASES, ids=["helps", "LDA", "nothing"])
def test_command_ends_in_the_decision_of_the_page(command, text, directory, monkeypatch, capsys):
    monkeypatch.chdir(directory)
    assert call(*command.split()[1:]) == 0
    output = " ".join(capsys.readouterr().out.split())
    # Sentences, whose numbers may differ in the last digit between machines.
    for sentence in re.split(r"(?<=\.) (?=[A-Z])", " ".join(text.split())):
        pattern = re.sub(r"\\?\d+(\\\.\d+)?", r"(\\d+\\.?\\d*)", re.escape(sentence))
        found = re.search(pattern, output)
        assert found, f"{sentence!r} is not in the output"
        expected = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", sentence)]
        assert [float(number) for number in found.groups()] == pytest.approx(expected, abs=1.5)


def test_comparison_recommends_by_error_and_size(directory, monkeypatch, capsys):
    monkeypatch.chdir(directory)
    words = ("--label", "cultivar", "--methods", "1-nn", "lda", "lfda", "--folds", "3")
    assert call("compare", "wine.csv", *words) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "Recommended: LDA. LDA" in output
    page = (directory / "comparison" / "report.html").read_text()
    assert "Recommended: LDA." in page
