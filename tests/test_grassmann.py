"""Ascent on the Grassmann manifold: geodesics, the maximum and the reasons to stop."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from cases import largest_angle, orthonormal_rows
from mpda.baselines.lsdr.grassmann import ascend, geodesic, project_to_tangent


def test_geodesic_is_orthonormal_and_starts_along_the_tangent():
    W = orthonormal_rows(3, 7)
    tangent = project_to_tangent(W, np.random.default_rng(1).normal(size=W.shape))
    assert np.abs(tangent @ W.T).max() <= 1e-14
    path = geodesic(W, tangent)
    assert path(0.0) == pytest.approx(W, abs=1e-14)
    for step in (0.01, 0.5, 3.0):
        assert path(step) @ path(step).T == pytest.approx(np.eye(3), abs=1e-13)
    assert (path(1e-5) - path(-1e-5)) / 2e-5 == pytest.approx(tangent, abs=1e-8)
    # The principal angles grow as the singular values of the tangent: it is a geodesic.
    angles = subspace_angles(path(0.1).T, W.T)
    assert angles == pytest.approx(0.1 * np.linalg.svd(tangent)[1], abs=1e-9)


def trace_objective(S):
    return lambda W: (float(np.sum((W @ S) * W)), 2 * W @ S)


def test_ascent_of_a_trace_ends_in_the_leading_eigenvectors():
    S = np.diag([5.0, 4.0, 1.0, 0.5, 0.2, 0.1])
    ascent = ascend(trace_objective(S), orthonormal_rows(2, 6), tol=1e-9, max_iter=500)
    assert ascent.stop_reason in ("gradient", "gain", "no ascent")
    assert largest_angle(ascent.W.T, np.eye(6)[:, :2]) <= 1e-4
    assert pytest.approx(np.eye(2), abs=1e-13) == ascent.W @ ascent.W.T
    assert (np.diff(ascent.history["objective"]) > 0).all()
    assert ascent.history["objective"][-1] == pytest.approx(9.0)


def test_ascent_reports_its_reason_to_stop():
    S, start = np.diag([5.0, 4.0, 1.0, 0.5]), orthonormal_rows(2, 4)
    trace = trace_objective(S)
    assert ascend(trace, start, tol=0.0, max_iter=3).stop_reason == "max_iter"
    assert ascend(trace, start, tol=0.0, max_iter=3, max_time=0.0).stop_reason == "max_time"
    assert ascend(trace, np.eye(2, 4), tol=1e-9, max_iter=3).stop_reason == "gradient"
    flat = ascend(trace_objective(1e-7 * S), start, tol=1e-8, max_iter=50)
    assert flat.stop_reason in ("gain", "gradient")

    def descending(W):
        value, gradient = trace(W)
        return value, -gradient

    assert ascend(descending, start, tol=1e-9, max_iter=50).stop_reason == "no ascent"
