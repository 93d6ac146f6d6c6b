"""Ascent over subspaces: geodesics, where it ends and why it stops."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from cases import largest_angle, orthonormal_rows
from mpda.baselines.lsdr.grassmann import Geodesic, ascend, tangent_part


def test_geodesic_stays_orthonormal_and_leaves_along_the_tangent():
    W = orthonormal_rows(3, 7)
    tangent = tangent_part(W, np.random.default_rng(1).normal(size=W.shape))
    assert np.abs(tangent @ W.T).max() <= 1e-14
    path = Geodesic.along(W, tangent)
    assert path.at(0.0) == pytest.approx(W, abs=1e-14)
    for step in (0.01, 0.5, 3.0):
        assert path.at(step) @ path.at(step).T == pytest.approx(np.eye(3), abs=1e-13)
    leaving = (path.at(1e-5) - path.at(-1e-5)) / 2e-5
    assert leaving == pytest.approx(tangent, abs=1e-8)
    # The principal angles grow as the singular values of the tangent: it is a geodesic.
    angles = subspace_angles(path.at(0.1).T, W.T)
    assert angles == pytest.approx(0.1 * np.linalg.svd(tangent)[1], abs=1e-9)


def trace_of(S):
    return lambda W: (float(np.sum((W @ S) * W)), 2 * W @ S)


def test_ascent_of_a_trace_ends_in_the_leading_eigenvectors():
    S = np.diag([5.0, 4.0, 1.0, 0.5, 0.2, 0.1])
    seen = []
    found = ascend(
        trace_of(S), orthonormal_rows(2, 6), tol=1e-9, max_iter=500, progress=seen.append
    )
    assert found.stop_reason in ("gradient", "gain", "no ascent")
    assert largest_angle(found.W.T, np.eye(6)[:, :2]) <= 1e-4
    assert pytest.approx(np.eye(2), abs=1e-13) == found.W @ found.W.T
    assert seen == found.record
    values = [iteration.objective for iteration in found.record]
    assert (np.diff(values) > 0).all()
    assert values[-1] == pytest.approx(9.0)
    assert [iteration.number for iteration in found.record] == list(range(len(values)))


def test_ascent_says_why_it_stopped():
    S, start = np.diag([5.0, 4.0, 1.0, 0.5]), orthonormal_rows(2, 4)
    assert ascend(trace_of(S), start, tol=0.0, max_iter=3).stop_reason == "max_iter"
    assert ascend(trace_of(S), start, tol=0.0, max_iter=3, max_time=0.0).stop_reason == "max_time"
    assert ascend(trace_of(S), np.eye(2, 4), tol=1e-9, max_iter=3).stop_reason == "gradient"
    slow = ascend(trace_of(1e-7 * S), start, tol=1e-8, max_iter=50)
    assert slow.stop_reason in ("gain", "gradient")

    def misleading(W):
        value, gradient = trace_of(S)(W)
        return value, -gradient

    assert ascend(misleading, start, tol=1e-9, max_iter=50).stop_reason == "no ascent"
