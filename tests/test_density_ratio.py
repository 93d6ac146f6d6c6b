"""Squared-loss mutual information against its definitions, written out slowly."""

import math

import numpy as np
import pytest

from cases import orthonormal_rows, unequal_classes
from mpda.baselines.lsdr.density_ratio import (
    KernelSamples,
    Smoothing,
    compute_smi,
    cv_criterion,
    draw_centers,
    draw_folds,
    median_distance,
    select_smoothing,
)

W = orthonormal_rows(2, 5)


def tied_samples(n_centers=30, n_folds=3):
    """Integer values, so that distances tie; duplicates; classes of 23, 14, 9 and 1."""
    X, y = unequal_classes(0, d=5)
    X = np.round(X)
    assert len(np.unique(X, axis=0)) < len(X)
    rng = np.random.default_rng(0)
    centers, folds = draw_centers(y, n_centers, rng), draw_folds(y, n_folds, rng)
    return KernelSamples(X - X.mean(axis=0), y, centers, folds)


def slow_phi(samples, width, i, label):
    """phi(z_i, label) (b,), entry by entry."""
    values = []
    for c, centers in enumerate(samples.centers):
        for m in centers:
            assert samples.codes[m] == c
            z = W @ (samples.points[i] - samples.points[m])
            values.append(math.exp(-(z @ z) / (2 * width**2)) if label == c else 0.0)
    return np.array(values)


def slow_H_and_h(samples, width, members):
    codes, n = samples.codes, len(members)
    phis = [slow_phi(samples, width, i, codes[j]) for i in members for j in members]
    h = sum(slow_phi(samples, width, i, codes[i]) for i in members) / n
    return sum(np.outer(phi, phi) for phi in phis) / n**2, h


@pytest.mark.parametrize("n_centers", [8, 100])
def test_smi_equals_its_definition(n_centers):
    samples = tied_samples(n_centers)
    H, h = slow_H_and_h(samples, 1.3, range(len(samples.codes)))
    for ridge in (1e-3, 0.1):
        a = np.linalg.solve(H + ridge * np.eye(len(h)), h)
        smi, _ = compute_smi(samples, Smoothing(1.3, ridge), W)
        assert smi == pytest.approx(0.5 * h @ a - 0.5, abs=1e-10)


@pytest.mark.parametrize("smoothing", [Smoothing(1.3, 1e-3), Smoothing(0.6, 0.1)])
def test_gradient_equals_central_differences(smoothing):
    samples = tied_samples()
    _, gradient = compute_smi(samples, smoothing, W)
    step = 1e-5
    differences = np.zeros_like(W)
    for entry in np.ndindex(W.shape):
        shift = np.zeros_like(W)
        shift[entry] = step
        ahead, behind = (compute_smi(samples, smoothing, V)[0] for V in (W + shift, W - shift))
        differences[entry] = (ahead - behind) / (2 * step)
    assert np.linalg.norm(gradient) > 1e-3
    assert np.linalg.norm(gradient - differences) <= 1e-5 * np.linalg.norm(gradient)


def test_criterion_equals_its_definition():
    samples = tied_samples(n_centers=10)
    ridges = [1e-3, 0.1]
    expected = np.zeros(2)
    for fold in samples.folds:
        outside = np.setdiff1d(np.arange(len(samples.codes)), fold)
        H_train, h_train = slow_H_and_h(samples, 0.9, outside)
        H, h = slow_H_and_h(samples, 0.9, fold)
        for q, ridge in enumerate(ridges):
            a = np.linalg.solve(H_train + ridge * np.eye(len(h)), h_train)
            expected[q] += (0.5 * a @ H @ a - h @ a) / len(samples.folds)
    assert cv_criterion(samples, W, 0.9, ridges) == pytest.approx(expected, abs=1e-10)


def test_selection_has_the_smallest_criterion_in_units_of_the_median_distance():
    samples = tied_samples(n_centers=100, n_folds=5)
    Z = samples.points @ W.T
    lengths = [np.linalg.norm(a - b) for a in Z for b in Z]
    unit = np.median([length for length in lengths if length > 1e-6])
    assert median_distance(samples, W) == pytest.approx(unit)
    widths, ridges = [0.2, 0.7, 3.0], [1e-3, 1e-2, 1.0]
    scores = {
        (width, ridge): cv_criterion(samples, W, width * unit, [ridge])[0]
        for width in widths
        for ridge in ridges
    }
    best = min(scores, key=scores.get)
    smoothing, criterion = select_smoothing(samples, W, widths, ridges)
    assert smoothing == Smoothing(pytest.approx(best[0] * unit), best[1])
    assert criterion == pytest.approx(scores[best])


def test_every_class_has_centers_and_every_fold_its_share():
    codes = np.repeat([0, 1, 2], [500, 30, 1])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        centers = draw_centers(codes, 40, rng)
        assert sum(map(len, centers)) == 40
        assert all(len(rows) and (codes[rows] == c).all() for c, rows in enumerate(centers))
        folds = draw_folds(codes, 5, rng)
        assert np.array_equal(np.sort(np.concatenate(folds)), np.arange(codes.size))
        assert {np.count_nonzero(codes[fold] == 1) for fold in folds} == {6}
    assert [len(rows) for rows in draw_centers(codes, 1, rng)] == [1, 1, 1]
    assert [len(rows) for rows in draw_centers(codes, 531, rng)] == [500, 30, 1]
