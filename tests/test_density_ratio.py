"""Squared-loss mutual information against its definitions, written out slowly."""

import math

import numpy as np
import pytest

from cases import orthonormal_rows, unequal_classes
from mpda.baselines.lsdr.density_ratio import (
    CentredSamples,
    Smoothing,
    chosen_smoothing,
    drawn_centres,
    drawn_folds,
    held_out_criterion,
    median_distance,
    smi_with_gradient,
)


def tied_data(n_centers=30):
    """Integer values, so that distances tie; duplicates; classes of 23, 14, 9 and 1."""
    X, y = unequal_classes(0, d=5)
    X = np.round(X)
    data = CentredSamples(
        X - X.mean(axis=0), y, drawn_centres(y, n_centers, np.random.default_rng(0))
    )
    assert len(np.unique(X, axis=0)) < len(X)
    return data


def slow_phi(data, W, width, i, label):
    """phi(z_i, label) (b,), entry by entry."""
    values = []
    for c, centres in enumerate(data.centres):
        for m in centres:
            assert data.codes[m] == c
            z = W @ (data.points[i] - data.points[m])
            values.append(math.exp(-(z @ z) / (2 * width**2)) if label == c else 0.0)
    return np.array(values)


def slow_H_and_h(data, W, width, members):
    m = len(members)
    pairs = [slow_phi(data, W, width, i, data.codes[j]) for i in members for j in members]
    H = sum(np.outer(phi, phi) for phi in pairs) / m**2
    h = sum(slow_phi(data, W, width, i, data.codes[i]) for i in members) / m
    return H, h


@pytest.mark.parametrize("n_centers", [8, 100])
def test_smi_is_its_definition(n_centers):
    data = tied_data(n_centers)
    W = orthonormal_rows(2, 5)
    H, h = slow_H_and_h(data, W, 1.3, range(len(data.codes)))
    for ridge in (1e-3, 0.1):
        a = np.linalg.solve(H + ridge * np.eye(len(h)), h)
        smi, _ = smi_with_gradient(data, Smoothing(1.3, ridge), W)
        assert smi == pytest.approx(0.5 * h @ a - 0.5, abs=1e-10)


@pytest.mark.parametrize("smoothing", [Smoothing(1.3, 1e-3), Smoothing(0.6, 0.1)])
def test_gradient_is_that_of_central_differences(smoothing):
    data = tied_data()
    W = orthonormal_rows(2, 5)
    _, gradient = smi_with_gradient(data, smoothing, W)
    step = 1e-5
    slow = np.zeros_like(W)
    for place in np.ndindex(W.shape):
        moved = np.zeros_like(W)
        moved[place] = step
        ahead = smi_with_gradient(data, smoothing, W + moved)[0]
        behind = smi_with_gradient(data, smoothing, W - moved)[0]
        slow[place] = (ahead - behind) / (2 * step)
    assert np.linalg.norm(gradient) > 1e-3
    assert np.linalg.norm(gradient - slow) <= 1e-5 * np.linalg.norm(gradient)


def test_criterion_is_its_definition():
    data = tied_data(n_centers=10)
    W = orthonormal_rows(2, 5)
    folds = drawn_folds(data.codes, 3, np.random.default_rng(1))
    ridges = [1e-3, 0.1]
    slow = np.zeros(2)
    for fold in folds:
        outside = np.setdiff1d(np.arange(len(data.codes)), fold)
        H_rest, h_rest = slow_H_and_h(data, W, 0.9, outside)
        H, h = slow_H_and_h(data, W, 0.9, fold)
        for q, ridge in enumerate(ridges):
            a = np.linalg.solve(H_rest + ridge * np.eye(len(h)), h_rest)
            slow[q] += (0.5 * a @ H @ a - h @ a) / len(folds)
    assert held_out_criterion(data, W, 0.9, ridges, folds) == pytest.approx(slow, abs=1e-10)


def test_choice_is_the_smallest_criterion_in_units_of_the_median_distance():
    data = tied_data(n_centers=100)
    W = orthonormal_rows(2, 5)
    folds = drawn_folds(data.codes, 5, np.random.default_rng(1))
    Z = data.points @ W.T
    lengths = [np.linalg.norm(a - b) for a in Z for b in Z]
    unit = np.median([length for length in lengths if length > 1e-6])
    assert median_distance(data, W) == pytest.approx(unit)
    widths, ridges = [0.2, 0.7, 3.0], [1e-3, 1e-2, 1.0]
    scores = {
        (width, ridge): held_out_criterion(data, W, width * unit, [ridge], folds)[0]
        for width in widths
        for ridge in ridges
    }
    best = min(scores, key=scores.get)
    choice = chosen_smoothing(data, W, widths, ridges, folds)
    assert choice.smoothing.width == pytest.approx(best[0] * unit)
    assert choice.smoothing.ridge == best[1]
    assert choice.criterion == pytest.approx(scores[best])


def test_every_class_has_centres_and_every_fold_its_share():
    codes = np.repeat([0, 1, 2], [500, 30, 1])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        centres = drawn_centres(codes, 40, rng)
        assert sum(map(len, centres)) == 40
        assert all(len(part) and (codes[part] == c).all() for c, part in enumerate(centres))
        folds = drawn_folds(codes, 5, rng)
        assert np.array_equal(np.sort(np.concatenate(folds)), np.arange(codes.size))
        assert {np.count_nonzero(codes[fold] == 1) for fold in folds} == {6}
    assert [len(part) for part in drawn_centres(codes, 1, rng)] == [1, 1, 1]
    assert [len(part) for part in drawn_centres(codes, 531, rng)] == [500, 30, 1]
