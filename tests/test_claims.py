"""Claims about partitions and expansions: orders of approximation, sizes, other partitions."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from command_calls import call
from mpda.experiments.claims import measure_expansion_errors
from mpda.experiments.tangent_curve import draw_curve


def test_expansions_have_orders_one_and_three():
    found = [measure_expansion_errors(n) for n in (500, 2000, 8000)]
    spacings, errors = np.log([h for h, _ in found]), np.log([e for _, e in found])
    laplacian, samples, patches = np.polyfit(spacings, errors, 1)[0]
    assert laplacian == pytest.approx(1.0, abs=0.1)
    assert samples == pytest.approx(3.0, abs=0.3)
    assert 2.0 < patches < samples


def test_more_neighbours_estimate_tangents_better():
    two, six = draw_curve(), draw_curve(6)
    assert six.neighbors.shape == (120, 6)
    np.testing.assert_array_equal(two.X, six.X)
    assert six.neighbor_angles.mean() < 0.5 * two.neighbor_angles.mean()


def test_command_compares_partitions(tmp_path, monkeypatch):
    X, y = load_digits(return_X_y=True)
    load = "mpda.experiments.protocol.load_samples"
    monkeypatch.setattr(load, lambda problem, directory: (X[:600], y[:600]))
    words = ("--datasets", "semeion", "--out", tmp_path, "--splits", "1", "--quiet")
    assert call("reproduce", "claims", *words) == 0
    text = (tmp_path / "claims.md").read_text()
    assert "| data set | the paper's rule | Euclidean distances |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| Semeion |")]
    errors = [float(cell) for cell in line.strip("| ").split(" | ")[1:]]
    assert len(errors) == 5
    assert 0.0 < min(errors) <= max(errors) < 20.0
    counts = [line.strip("| ").split(" | ") for line in text.splitlines()]
    counts = [tuple(map(int, cells)) for cells in counts if len(cells) == 2 and cells[0].isdigit()]
    assert sum(size * count for size, count in counts) == 1000


def test_missing_data_sets_are_named(tmp_path, capsys):
    words = ("--data", tmp_path / "none", "--out", tmp_path / "out", "--quiet")
    assert call("reproduce", "claims", *words) == 1
    assert "semeion" in capsys.readouterr().err
    assert "order" in (tmp_path / "out" / "claims.md").read_text()
