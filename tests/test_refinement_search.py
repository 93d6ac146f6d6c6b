"""Search of a refinement: its parameters one after another, the usual ones, and retrieval."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import MPDA, NeighborhoodRefinement, WithinClassWhitening
from mpda.cli.messages import list_parameters
from mpda.estimators.methods import PENALTY_PER_COEFFICIENT, find_method, method
from mpda.model_selection import DiscriminantSearchCV

RADII, TEMPERATURES = [None, 0.0, 0.5, 1.0, 2.0], [1.0, 2.0, 4.0]


def digits(n=160):
    X, y = load_digits(return_X_y=True)
    return X[:n, 18:46], y[:n]


def search(refine, grid=None, **options):
    options = {"cv": 2, "refit": False, "n_components": [4], "halving": False, **options}
    return DiscriminantSearchCV(refine, grid, **options).fit(*digits())


def rows_of_stage(results, stage):
    """Return the parameters and the scores of a stage."""
    rows = np.flatnonzero(results["stage"] == stage)
    return [results["params"][i] for i in rows], results["mean_test_score"][rows]


def test_parameters_are_searched_one_after_another():
    start = PCA()
    refine = make_pipeline(StandardScaler(), NeighborhoodRefinement(start, n_rounds=1))
    prefix, usual = "neighborhoodrefinement__", method("PCA refined").usual
    results = search(refine).cv_results_
    names = {"radius": RADII, "temperature": TEMPERATURES}
    names["penalty_per_coefficient"] = [0.02, 0.1, 0.5]
    chosen = {name: usual[name] for name in names}
    assert results["stage"].max() == 5
    for stage, (name, values) in enumerate(names.items(), start=2):
        points, scores = rows_of_stage(results, stage)
        points = [{k.removeprefix(prefix): v for k, v in point.items()} for point in points]
        if stage == 4:  # "no refinement" is a choice where all others are made
            assert points[0] == {"n_rounds": 0, "radius": None, "n_components": 4}
            best_start, points, scores = scores[0], points[1:], scores[1:]
        fixed = {**chosen, "objective": "nearest", "n_components": 4}
        assert points == [{**fixed, name: value} for value in values]
        allowed = [p[name] for p, s in zip(points, scores, strict=True) if s >= scores.max() - 0.05]
        after = rows_of_stage(results, stage + 1)[0]
        if name != "penalty_per_coefficient":  # the rule is not the best mean alone
            chosen[name] = after[-1][prefix + name]
            assert chosen[name] in allowed
    assert 0.0 < best_start <= 1.0
    points = rows_of_stage(results, 5)[0]
    assert {p[f"{prefix}n_components"] for p in points} == {4}
    assert {p.get(f"{prefix}radius") for p in points} >= {chosen["radius"]}


def test_grids_of_a_list_are_searched_in_all_combinations():
    grid = [{"radius": [None, 1.0], "temperature": [1.0, 2.0]}, {"radius": [0.0]}]
    results = search(NeighborhoodRefinement(PCA(), n_rounds=1), grid).cv_results_
    points = rows_of_stage(results, 2)[0]
    assert len(points) == 1 + 4 + 1
    assert results["stage"].max() <= 3
    pairs = {(p["radius"], p["temperature"]) for p in points if "temperature" in p}
    assert pairs == {(None, 1.0), (None, 2.0), (1.0, 1.0), (1.0, 2.0)}


def test_parameter_waits_with_its_usual_value_where_the_grid_has_it():
    grid = {"temperature": [8.0, 3.0], "radius": [2.0, 1.0], "max_iter": [2, 5], "tol": [0.0]}
    refine = NeighborhoodRefinement(PCA(), n_rounds=1, temperature=3.0)
    points = [rows_of_stage(search(refine, grid).cv_results_, stage)[0] for stage in (2, 3, 4)]
    assert [p["radius"] for p in points[0]] == [2.0, 1.0]
    # 5 is the default of the class, but neither 2 nor 1 is the usual temperature of the grid.
    assert {(p["temperature"], p["max_iter"], p["tol"]) for p in points[0]} == {(8.0, 5, 0.0)}
    assert [p["temperature"] for p in points[1]] == [8.0, 3.0]
    assert [p.get("max_iter") for p in points[2]] == [None, 2, 5]


@pytest.mark.parametrize("grid", [None, {"temperature": [1.0, 2.0]}])
def test_one_output_leaves_no_number_for_the_constant(grid):
    refine = NeighborhoodRefinement(PCA(), n_rounds=1, radius=1.0)
    results = search(refine, grid, n_components=[1]).cv_results_
    points = rows_of_stage(results, 2)[0]
    if grid is None:
        assert [p["radius"] for p in points] == [None, 0.0]
    else:  # the sphere is fixed
        assert points == [{"n_rounds": 0, "radius": None, "n_components": 1}]
        assert results["stage"].max() == 2


def test_search_by_retrieval_tries_whole_classes_more_candidates_and_smaller_penalties():
    refine = NeighborhoodRefinement(PCA(), n_rounds=1)
    results = search(refine, scoring="map_at_r").cv_results_
    assert set(results["param_objective"].compressed()) == {"nearest", "class"}
    assert set(results["param_penalty_per_coefficient"].compressed()) == {0.004, 0.02, 0.1}
    assert set(results["param_n_candidates"].compressed()) == {40, 100}
    accuracy = search(refine).cv_results_
    assert "param_n_candidates" not in accuracy
    assert set(accuracy["param_objective"].compressed()) == {"nearest"}


def test_penalty_of_the_estimator_is_not_searched():
    results = search(NeighborhoodRefinement(PCA(), n_rounds=1, penalty=30.0)).cv_results_
    assert "param_penalty_per_coefficient" not in results
    assert "param_radius" in results


def test_penalty_per_coefficient_is_a_multiple_of_their_number():
    X, y = digits()
    start = PCA(4)
    n_coefficients = 3 * np.count_nonzero(np.ptp(X, axis=0))
    refine = NeighborhoodRefinement(start, radius=1.0)
    share = clone(refine).set_params(penalty_per_coefficient=0.3).fit(X, y)
    number = clone(refine).set_params(penalty=0.3 * n_coefficients).fit(X, y)
    np.testing.assert_array_equal(share.components_, number.components_)
    usual = clone(refine).set_params(penalty_per_coefficient=0.1).fit(X, y)
    default = clone(refine).fit(X, y)
    np.testing.assert_array_equal(usual.components_, default.components_)
    assert np.abs(usual.components_ - share.components_).max() > 1e-3


@pytest.mark.parametrize("start", [WithinClassWhitening(), make_pipeline(WithinClassWhitening())])
def test_usual_penalty_of_a_map_for_unseen_classes_is_ten_times_as_large(start):
    X, y = digits()
    default = NeighborhoodRefinement(start, n_components=4).fit(X, y)
    large = default.__class__(start, n_components=4, penalty_per_coefficient=1.0).fit(X, y)
    np.testing.assert_array_equal(default.components_, large.components_)
    entry = find_method(NeighborhoodRefinement(WithinClassWhitening()))
    assert entry.usual["penalty_per_coefficient"] == 10 * PENALTY_PER_COEFFICIENT
    assert entry.grid["penalty_per_coefficient"] == (0.2, 1.0, 5.0)


def test_two_penalties_are_refused():
    refine = NeighborhoodRefinement(MPDA(2), penalty=1.0, penalty_per_coefficient=0.1)
    with pytest.raises(ValueError, match="penalty and penalty_per_coefficient are two ways"):
        refine.fit(*digits())
    with pytest.raises(ValueError, match="penalty_per_coefficient must be"):
        NeighborhoodRefinement(MPDA(2), penalty_per_coefficient=-1.0).fit(*digits())


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"n_rounds": 0, "radius": None}, "no refinement"),
        ({"n_rounds": 0, "estimator__alpha": 0.1}, "no refinement, estimator__alpha=0.1"),
        ({"radius": 1.0, "objective": "class"}, "radius=1.0, objective='class'"),
        ({"radius": None}, "radius=None"),
    ],
)
def test_selected_parameters_are_printed(parameters, text):
    assert list_parameters(parameters) == text
