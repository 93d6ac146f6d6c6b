"""Claims about partitions and expansions: orders of approximation, sizes, other partitions."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from command_calls import call
from mpda.assessment import Split
from mpda.experiments import claims
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


@pytest.mark.slow
def test_command_measures_errors_of_variants(tmp_path, monkeypatch):
    X, y = load_digits(return_X_y=True)
    load = "mpda.experiments.protocol.load_samples"
    monkeypatch.setattr(load, lambda problem, directory: (X[:300], y[:300]))
    words = ("--datasets", "semeion", "vehicle", "--out", tmp_path, "--splits", "1", "--quiet")
    assert call("reproduce", "claims", *words) == 0
    lines = (tmp_path / "claims.md").read_text().splitlines()
    assert any(line.startswith("| data set | the paper's rule | Euclid") for line in lines)
    cells = [line.strip("| ").split(" | ") for line in lines]
    counts = [tuple(map(int, row)) for row in cells if len(row) == 2 and row[0].isdigit()]
    assert sum(size * count for size, count in counts) == 1000
    partitions = [row[1:] for row in cells if row[0] in ("Semeion", "Vehicle") and len(row) == 7]
    # Exponentials are not tried on Vehicle.
    exponentials = [row[1:] for row in cells if row[0] == "Semeion" and len(row) == 4]
    assert [row[0] for row in exponentials] == ["Fisher", "LFDA", "MFA"]
    lpfe = [row for row in cells if row[0] in ("as they are", "standardised")]
    assert (len(partitions), len({tuple(row[:3]) for row in lpfe})) == (2, 18)
    for row in [*partitions, *(row[1:] for row in exponentials), *(row[3:] for row in lpfe)]:
        assert all(0.0 < float(error) < 40.0 for error in row)


def test_lpfe_is_fitted_to_the_samples_that_are_named(monkeypatch):
    X, y = load_digits(return_X_y=True)
    fitted = []
    monkeypatch.setattr(claims, "_lowest_error", lambda model, part: fitted.append(part))
    part = Split(X[:100], y[:100], 3.0 * X[100:200], y[100:200])
    names = list(claims._try_lpfe(part))
    scaled = fitted[names.index("standardised, 10, 0.9")]
    assert fitted[names.index("as they are, 10, 0.9")] is part
    varying = X[:100].std(axis=0) > 0
    np.testing.assert_allclose(scaled.X[:, varying].std(axis=0), 1.0)
    # The test samples get the scale of the training samples, not their own.
    expected = (part.X_test - X[:100].mean(axis=0))[:, varying] / X[:100].std(axis=0)[varying]
    np.testing.assert_allclose(scaled.X_test[:, varying], expected)


@pytest.mark.slow
def test_missing_data_sets_are_named(tmp_path, capsys):
    words = ("--data", tmp_path / "none", "--out", tmp_path / "out", "--quiet")
    assert call("reproduce", "claims", *words) == 1
    assert "failed tasks: 5; the first one: coil20" in capsys.readouterr().err
    assert "order" in (tmp_path / "out" / "claims.md").read_text()
