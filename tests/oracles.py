"""Definitions of graphs, matrices and partitions, written out slowly, one sample or pair at a time.

The library does not import them; tests and benchmarks compare its results with them.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import eigh


def distances(X):
    """Return the Euclidean distances of all pairs (n, n)."""
    return np.array([[np.sqrt(np.sum((a - b) ** 2)) for b in X] for a in X])


def neighbors(D, k):
    """Return the lists of the k nearest other samples, ties by lower index."""
    n = len(D)
    return [
        sorted((j for j in range(n) if j != i), key=lambda j: (D[i, j], j))[: min(k, n - 1)]
        for i in range(n)
    ]


def union_weights(lists):
    """Return the weights (n, n): 1 if one of two samples is in the list of the other."""
    n = len(lists)
    W = np.zeros((n, n))
    for i, near in enumerate(lists):
        for j in near:
            W[i, j] = W[j, i] = 1.0
    return W


def affinity(D, k, full):
    """Return exp(-D_ij^2 / (sigma_i sigma_j)), sigma_i the distance to the k-th neighbour."""
    n = len(D)
    lists = neighbors(D, k)
    sigma = [D[i, near[-1]] if near else 0.0 for i, near in enumerate(lists)]
    A = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i == j or not (full or j in lists[i] or i in lists[j]):
                continue
            scale = sigma[i] * sigma[j]
            if scale > 0:
                A[i, j] = np.exp(-(D[i, j] ** 2) / scale)
            else:
                A[i, j] = 1.0 if D[i, j] == 0 else 0.0
    return A


def connected(W, D):
    """Join components by the shortest edge between two of them, until there is one."""
    W = W.copy()
    n = len(W)
    while True:
        component = list(range(n))
        for _ in range(n):
            for i in range(n):
                for j in range(n):
                    if W[i, j]:
                        component[i] = component[j] = min(component[i], component[j])
        pairs = [
            (D[i, j], i, j)
            for i, j in itertools.combinations(range(n), 2)
            if component[i] != component[j]
        ]
        if not pairs:
            return W
        _, i, j = min(pairs)
        W[i, j] = W[j, i] = 1.0


def geodesics(D, k):
    """Return the lengths of shortest paths in the connected k-NN graph (n, n)."""
    n = len(D)
    W = connected(union_weights(neighbors(D, k)), D)
    lengths = np.where(W > 0, D, np.inf)
    G = np.where(np.eye(n) > 0, 0.0, np.inf)
    while True:
        shorter = np.minimum(G, (G[:, :, None] + lengths[None]).min(axis=1))
        if (shorter == G).all():
            break
        G = shorter
    return np.maximum(np.minimum(G, G.T), D)


def partition(X, k, largest, geodesic=True):
    """Return the patches of the paper's rule as sets, and the ratios R = D^G / D^E (n, n)."""
    n = len(X)
    D = distances(X)
    lists = neighbors(D, k)
    if geodesic:
        G = geodesics(D, k)
        R = np.array(
            [[G[i, j] / D[i, j] if D[i, j] > 0 else 1.0 for j in range(n)] for i in range(n)]
        )
    else:
        G, R = D, np.ones((n, n))

    def priority(patch):
        members = sorted(patch)
        return R[np.ix_(members, members)].sum() / len(patch) ** 2 * len(patch)

    def split(patch):
        members = sorted(patch)
        seeds = max(itertools.combinations(members, 2), key=lambda p: (G[p], -p[0], -p[1]))
        # The left seed, which wins ties of R N, is nearer to the patch: the order decides nothing.
        left, right = sorted(seeds, key=lambda seed: (G[seed, members].sum(), seed))
        halves = [{left}, {right}]
        free = set(members) - {left, right}
        while free:
            near = [{j for i in half for j in lists[i] if j in free} for half in halves]
            joint = near[0] & near[1]
            if near[0] | near[1]:
                halves[0] |= near[0] - joint
                halves[1] |= near[1] - joint
                if joint:
                    halves[1 if priority(halves[0]) > priority(halves[1]) else 0] |= joint
                free -= near[0] | near[1]
            else:
                _, point, side = min(
                    (min(G[i, j] for j in halves[side]), i, side) for i in free for side in (0, 1)
                )
                halves[side].add(point)
                free.remove(point)
        return halves

    patches = [set(range(n))]
    while any(len(patch) > largest for patch in patches):
        patch = max((p for p in patches if len(p) > largest), key=priority)
        patches.remove(patch)
        patches += split(patch)
    return patches, R


def tangent_basis(X, energy):
    """Return the fewest principal directions whose share of the variance reaches the energy."""
    n = len(X)
    if n < 2 or (X[0] == X).all():
        return np.zeros((X.shape[1], 0))
    centred = X - X.mean(axis=0)
    _, s, Vt = np.linalg.svd(centred, full_matrices=False)
    share = s**2 / (s**2).sum()
    m = 0
    while share[:m].sum() < energy - 1e-12 and m < n - 1:
        m += 1
    return Vt[:m].T


def within_form(X, W, patch, bases, gamma):
    """Return S over (t, v_1, ..., v_P) as a sum of squares over ordered pairs."""
    d = X.shape[1]
    sizes = [T.shape[1] for T in bases]
    start = d + np.cumsum([0, *sizes])
    S = np.zeros((start[-1], start[-1]))
    for i in range(len(X)):
        for j in range(len(X)):
            if W[i, j] == 0:
                continue
            gap = X[i] - X[j]
            p, q = patch[i], patch[j]
            row = np.zeros(start[-1])
            row[:d] = gap
            row[start[q] : start[q + 1]] = -bases[q].T @ gap
            S += W[i, j] * np.outer(row, row)
            turn = np.zeros((sizes[p], start[-1]))
            turn[:, start[p] : start[p + 1]] += np.eye(sizes[p])
            turn[:, start[q] : start[q + 1]] -= bases[p].T @ bases[q]
            S += W[i, j] * gamma * turn.T @ turn
    return S


def between_form(X, y, k, full):
    """Return S', a sum over ordered pairs."""
    weights = local_fisher_weights(X, y, k, "full" if full else "knn")[0]
    return 2.0 * weighted_scatter(X, weights)


def class_blocks(y, build):
    """Return a matrix (n, n) that is build(members) for every class and 0 between classes."""
    W = np.zeros((len(y), len(y)))
    for c in np.unique(y):
        members = np.flatnonzero(y == c)
        W[np.ix_(members, members)] = build(members)
    return W


def within_graph(X, y, k):
    """Return the weights (n, n) of the k-NN graph inside the classes."""
    return class_blocks(y, lambda members: union_weights(neighbors(distances(X[members]), k)))


def full_pencil(X, y, patch, bases, *, k, gamma, alpha, beta, full=False):
    """Return eigenvalues and t of S'f = lambda (S + R) f, f = (t, v), in decreasing order."""
    S = within_form(X, within_graph(X, y, k), patch, bases, gamma)
    return solve_pencil(between_form(X, y, k, full), S, alpha, beta)


def solve_pencil(between, S, alpha, beta):
    """Add the ridges to S and solve; between is the t-block of S' (d, d)."""
    d = len(between)
    ridge = np.diag(np.r_[np.full(d, alpha), np.full(len(S) - d, beta)])
    padded = np.zeros_like(S)
    padded[:d, :d] = between
    values, vectors = eigh(padded, S + ridge)
    return values[::-1], vectors[:d, ::-1]


def relative_units(X, y, patch, bases, k):
    """Return the units of gamma, alpha and beta."""
    d = X.shape[1]
    W = within_graph(X, y, k)
    S = within_form(X, W, patch, bases, 0.0)
    squares = [np.sum((X[i] - X[j]) ** 2) for i in range(len(X)) for j in range(i) if W[i, j]]
    varying = sum(len(np.unique(X[:, f])) > 1 for f in range(d))
    diagonal = np.diag(S)[d:]
    return np.mean(squares), np.trace(S[:d, :d]) / varying, diagonal.mean()


def weighted_scatter(X, W):
    """Return 1/2 sum_ij W_ij d_ij d_ij' over ordered pairs."""
    S = np.zeros((X.shape[1], X.shape[1]))
    for i, j in np.argwhere(W):
        S += 0.5 * W[i, j] * np.outer(X[i] - X[j], X[i] - X[j])
    return S


def local_fisher_weights(X, y, k, kind):
    """Return W_lb and W_lw of LFDA, with the affinity "full", "knn" or "ones"."""
    n = len(X)
    sizes = np.array([np.sum(y == c) for c in y])
    if kind == "ones":
        A = np.equal.outer(y, y).astype(float)
    else:
        A = class_blocks(y, lambda members: affinity(distances(X[members]), k, kind == "full"))
    between = np.where(np.equal.outer(y, y), A * (1.0 / n - 1.0 / sizes), 1.0 / n)
    return between, A / sizes


def marginal_weights(X, y, k, n_pairs, penalty):
    """Return the weights of the penalty graph and of the intrinsic graph of MFA."""
    n = len(X)
    D = distances(X)
    W = np.zeros((n, n))
    groups = np.unique(y) if penalty == "class" else [None]
    for c in groups:
        entries = sorted(
            (D[i, j], i, j)
            for i in range(n)
            for j in range(n)
            if y[i] != y[j] and (c is None or y[i] == c)
        )
        for _, i, j in entries[:n_pairs]:
            W[i, j] = W[j, i] = 1.0
    return W, within_graph(X, y, k)


def lsda_forms(X, y, k, b):
    """Return X'[b/(1-b) L_b + W_w]X and X'D_w X of LSDA, X centred."""
    n = len(X)
    X = X - X.mean(axis=0)
    W = union_weights(neighbors(distances(X), k)) + np.eye(n)
    inside = np.where(np.equal.outer(y, y), W, 0.0)
    across = W - inside
    L = np.diag(across.sum(axis=1)) - across
    return X.T @ (b / (1 - b) * L + inside) @ X, X.T @ np.diag(inside.sum(axis=1)) @ X


def alignment_matrix(X, k, r):
    """Return the alignment matrix B of LLTSA (n, n)."""
    n = len(X)
    B = np.zeros((n, n))
    for near in neighbors(distances(X), k):
        local = X[near] - X[near].mean(axis=0)
        U, singular, _ = np.linalg.svd(local)
        rank = np.count_nonzero(singular > 1e-9 * singular[0])
        V = U[:, : min(r, rank)]  # the others are not orthogonal to the mean
        G = np.column_stack([np.full(len(near), 1 / np.sqrt(len(near))), V])
        B[np.ix_(near, near)] += np.eye(len(near)) - G @ G.T
    return B


def whitening_pencil(X, y, database, shrinkage, weights=None):
    """Return the matrices of within-class whitening, from one sample at a time (d, d)."""
    weights = np.ones(len(X)) if weights is None else weights
    d = X.shape[1]
    within = np.zeros((d, d))
    for label in np.unique(y):
        mean = sum(w * x for x, w in zip(X[y == label], weights[y == label], strict=True))
        mean = mean / weights[y == label].sum()
        for x, w in zip(X[y == label], weights[y == label], strict=True):
            within += w * np.outer(x - mean, x - mean) / weights.sum()
    rows, counts = np.vstack([X, database]), np.r_[weights, np.ones(len(database))]
    mean = sum(w * x for x, w in zip(rows, counts, strict=True)) / counts.sum()
    total = sum(w * np.outer(x - mean, x - mean) for x, w in zip(rows, counts, strict=True))
    ridge = shrinkage * sum(within[j, j] for j in range(d)) / d * np.eye(d)
    return total / counts.sum(), (1.0 - shrinkage) * within + ridge


def score_slowly(Z, y, Z_query, y_query, name):
    """Return the value of each query by a measure of retrieval, nan if no sample has its class.

    ``Z_query`` None searches the samples among themselves.
    """
    values = []
    for q, query_label in enumerate(y_query if Z_query is not None else y):
        query = (Z if Z_query is None else Z_query)[q]
        others = [i for i in range(len(Z)) if Z_query is not None or i != q]
        squares = np.zeros(len(Z))
        for column in range(Z.shape[1]):
            squares += (Z[:, column].astype(float) - float(query[column])) ** 2
        others.sort(key=lambda i: (squares[i], i))
        rel = [y[i] == query_label for i in others]
        R = sum(rel)
        if R == 0:
            values.append(np.nan)
        elif name == "r_precision":
            values.append(sum(rel[:R]) / R)
        elif name == "map_at_r":
            values.append(sum(rel[i] * sum(rel[: i + 1]) / (i + 1) for i in range(R)) / R)
        else:
            kind, k = name.split("_at_")
            hits = sum(rel[: int(k)])
            values.append(hits / int(k) if kind == "precision" else float(hits > 0))
    return np.array(values)
