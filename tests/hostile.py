"""Data sets built to hurt, parameters at the edge of their range, and what must hold for each.

A ``Recipe`` says everything about a data set, so that what went wrong can be made again from its
text. The suite draws some of them (test_hostile.py), ``make fuzz`` as many as time allows.
"""

from __future__ import annotations

import contextlib
import tempfile
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning

import mpda
from mpda.exceptions import NumericalWarning, SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV

SHAPES = ("normal", "bent", "grid", "line", "plane", "copies", "heavy tails")
SCALES = ("one", "large", "small", "mixed", "far away", "wide and narrow")
DTYPES = ("float64", "float32", "float16", "int64", "int8", "uint16", "bool", "longdouble")
LAYOUTS = ("C", "Fortran", "every second", "backwards", "read-only", "memmap", "list", "frame")
LABELS = ("int", "string", "bool", "object", "categorical", "float", "negative", "list")


@dataclass(frozen=True)
class Recipe:
    """What a data set is made of.

    sizes : of the classes
    scale : of the columns, from 1e-150 to 1e150 in double precision and as far as others go
    inside, across : shares of the samples that are copies of one of their class, or of any
    constant, collinear : shares of the columns that do not vary, or follow from others
    selected : the share of the samples that is kept in the end; 0 leaves none
    """

    seed: int = 0
    sizes: tuple[int, ...] = (12, 7, 20)
    d: int = 5
    shape: str = "normal"
    scale: str = "one"
    inside: float = 0.0
    across: float = 0.0
    constant: float = 0.0
    collinear: float = 0.0
    selected: float = 1.0
    dtype: str = "float64"
    layout: str = "C"
    labels: str = "int"

    def samples(self, directory: Path) -> tuple[Any, Any]:
        """X and y as somebody would give them; a memory map lies in the directory."""
        rng = np.random.default_rng(self.seed)
        codes = rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))
        X = _shaped(self, codes, rng)
        for share, alike in ((self.inside, True), (self.across, False)):
            for i in np.flatnonzero(rng.uniform(size=len(X)) < share):
                others = np.flatnonzero(codes == codes[i]) if alike else np.arange(len(X))
                X[i] = X[rng.choice(others)]
        follows = rng.uniform(size=self.d) < self.collinear
        X[:, follows] = X[:, [0]] * rng.integers(-2, 3, size=(1, follows.sum()))
        X[:, rng.uniform(size=self.d) < self.constant] = 1.0
        X = _typed(_scaled(X, self, rng), self.dtype)
        kept = rng.uniform(size=len(X)) < self.selected
        return _laid_out(X[kept], self.layout, directory), _named(codes[kept], self.labels)


def _shaped(recipe: Recipe, codes: Any, rng: Any) -> Any:
    n, d = len(codes), recipe.d
    centres = rng.normal(size=(len(recipe.sizes), d))[codes]
    if recipe.shape == "grid":
        return rng.integers(0, 4, size=(n, d)) + codes[:, None] % 3.0
    if recipe.shape == "line":
        return rng.normal(size=(n, 1)) @ rng.normal(size=(1, d)) + centres * (recipe.seed % 2)
    if recipe.shape == "plane":
        return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + centres
    if recipe.shape == "copies":
        return centres + 0.0
    if recipe.shape == "heavy tails":
        return centres + np.clip(rng.standard_cauchy(size=(n, d)), -1e6, 1e6)
    if recipe.shape == "bent":
        u = rng.uniform(-1, 1, size=(n, 2))
        bent = np.column_stack([u, u**2, u[:, :1] * u[:, 1:]])
        return bent @ rng.normal(size=(5, d)) + centres + 0.01 * rng.normal(size=(n, d))
    return centres + rng.normal(size=(n, d))


# How far from 1 the columns of a type may go, in powers of ten.
_REACH = {"float64": 150.0, "longdouble": 150.0, "float32": 35.0, "float16": 2.0}


def _scaled(X: Any, recipe: Recipe, rng: Any) -> Any:
    reach = _REACH.get(recipe.dtype, 1.5)
    if recipe.scale == "mixed":
        return X * 10.0 ** rng.uniform(-reach, reach, size=recipe.d)
    if recipe.scale == "wide and narrow":
        return X * 10.0 ** (rng.choice([-1.0, 1.0], size=recipe.d) * min(reach, 6.0))
    if recipe.scale == "far away":
        return X + 10.0 ** min(reach, 8.0)
    return X * 10.0 ** {"large": reach, "small": -reach, "one": 0.0}[recipe.scale]


def _typed(X: Any, dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.median(X) < X
    limits = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
    return np.clip(X, float(limits.min) / 2, float(limits.max) / 2).astype(kind)


def _laid_out(X: Any, layout: str, directory: Path) -> Any:
    if layout == "Fortran":
        return np.asfortranarray(X)
    if layout == "every second":
        return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    if layout == "backwards":
        return X[::-1, ::-1].copy()[::-1, ::-1]
    if layout == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X
    if layout == "memmap" and X.size:
        path = directory / f"X{X.shape}{X.dtype}.bin"
        X.tofile(path)
        return np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape)
    if layout == "list":
        return X.tolist()
    if layout == "frame" and X.dtype != np.longdouble:
        return pd.DataFrame(X, columns=[f"feature {j}" for j in range(X.shape[1])])
    return X


def _named(codes: Any, labels: str) -> Any:
    if labels == "bool":
        return codes % 2 == 0
    if labels == "float":
        return codes.astype(float)
    if labels == "negative":
        return (-7 * codes).astype(np.int16)
    names = np.array([f"class {c}" for c in range(codes.max(initial=0) + 1)])[codes]
    if labels == "string":
        return names
    if labels == "object":
        return names.astype(object)
    if labels == "categorical":
        return pd.Series(pd.Categorical(names))
    return codes.tolist() if labels == "list" else codes


_SIZES = st.one_of(
    st.lists(st.sampled_from([1, 2, 3, 5, 8, 13, 30]), min_size=1, max_size=6),
    st.lists(st.sampled_from([1, 1, 2, 3, 40]), min_size=7, max_size=40),
    st.lists(st.sampled_from([1, 4, 150]), min_size=2, max_size=3),
)


@st.composite
def recipes(draw: Any) -> Recipe:
    """A data set with about two of the things that hurt; all at once would hide one another."""
    plain = {
        "seed": draw(st.integers(0, 2**16)),
        "sizes": tuple(draw(_SIZES)),
        "d": draw(st.sampled_from([1, 2, 3, 5, 8, 17, 60, 300])),
        "shape": draw(st.sampled_from(SHAPES)),
    }
    shares = st.sampled_from([0.1, 0.5, 0.9, 1.0])
    hurts = {
        "scale": st.sampled_from(SCALES[1:]),
        "inside": shares,
        "across": shares,
        "constant": shares,
        "collinear": shares,
        "selected": st.sampled_from([0.0, 0.1, 0.5, 0.5, 0.8]),
        "dtype": st.sampled_from(DTYPES[1:]),
        "layout": st.sampled_from(LAYOUTS[1:]),
        "labels": st.sampled_from(LABELS[1:]),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(hurts)), max_size=4, unique=True))
    return Recipe(**plain, **{name: draw(hurts[name]) for name in chosen})


_COUNTS = [1, 2, 5, 20, 1000, 10**9]
_STRENGTHS = [0.0, 5e-324, 1e-300, 1e-12, 0.2, 1.0, 1e6, 1e100, 1e300, 1e308]
_EIGEN = {
    "n_components": [None, None, 1, 2, 3, 40, 10**9],
    "eigenvalue_power": [0.0, 0.5, 1.0, 50.0, 1e5],
    "alpha": _STRENGTHS,
}
_FLAT = {**_EIGEN, "orthonormal": [False, True]}
_TANGENT = {
    **_EIGEN,
    "n_neighbors": _COUNTS,
    "gamma": _STRENGTHS,
    "tangent_alpha": [None, *_STRENGTHS],
    "units": ["relative", "absolute"],
    "tangent_energy": [0.0, 5e-324, 0.5, 0.95, 1.0],
    "affinity": ["knn", "full"],
    "neighbor_search": ["auto", "exact", "cells"],
    "solver": ["reduced", "two-stage"],
}
_CUT = {
    "partition": ["auto", "geodesic", "euclidean"],
    "partition_neighbors": _COUNTS,
    "max_patch_size": _COUNTS,
}
EDGES: dict[str, dict[str, list[Any]]] = {
    "MPDA": {**_TANGENT, **_CUT, "anchors": [False, True]},
    "PMPDA": _TANGENT,
    "LFDA": {**_FLAT, "n_neighbors": _COUNTS, "affinity": ["full", "knn", "ones"]},
    "MFA": {
        **_FLAT,
        "n_neighbors": _COUNTS,
        "n_pairs": _COUNTS,
        "penalty": ["class", "global"],
    },
    "LSDA": {**_FLAT, "n_neighbors": _COUNTS, "between_share": [0.0, 5e-324, 0.5, 1 - 1e-16]},
    "LLTSA": {
        **_FLAT,
        "n_neighbors": [3, 4, 12, 1000, 10**9],
        "tangent_dimension": [None, 1, 2, 30],
    },
    "LPFE": {**_FLAT, "n_neighbors": _COUNTS, "tangent_energy": [0.0, 5e-324, 0.5, 0.95, 1.0]},
    "GraphDiscriminant": {
        **_FLAT,
        "within": ["fisher", "local", "neighbors"],
        "between": ["fisher", "local", "pairs"],
        "n_neighbors": _COUNTS,
        "n_pairs": _COUNTS,
    },
    "LSDR": {
        "n_components": [None, 1, 2, 40],
        "n_centers": [1, 2, 15, 10**9],
        "widths": [None, (1e-3,), (1e3,)],
        "ridges": [None, (1e10,)],
        "n_folds": [2, 5, 10**9],
        "init": ["best", "pca", "random"],
        "tol": [0.0, 1e-4, 1e300],
    },
    "GramPCA": {"n_components": [None, 1, 2, 5e-324, 0.5, 1 - 1e-16, 40, 10**9]},
    "ManifoldPartition": _CUT,
    "DiscriminantSearchCV": {},
}
# Fits that would go on for long are cut short: what is sought is a wrong answer, not the best one.
_BRIEF = {"LSDR": {"max_iter": 3, "n_centers": 20, "n_folds": 2}}


@st.composite
def estimators(draw: Any, name: str) -> Any:
    """An estimator with up to three parameters at the edge of their range."""
    if name == "DiscriminantSearchCV":
        base, grid = draw(st.sampled_from(_SEARCHES))
        return DiscriminantSearchCV(getattr(mpda, base)(), grid, cv=draw(st.sampled_from([2, 3])))
    edges = EDGES[name]
    chosen = draw(st.lists(st.sampled_from(sorted(edges)), max_size=3, unique=True))
    given = {each: draw(st.sampled_from(edges[each])) for each in chosen}
    return getattr(mpda, name)(**{**_BRIEF.get(name, {}), **given})


@st.composite
def cases(draw: Any, name: str) -> tuple[Any, Recipe]:
    """An estimator of this name and a data set."""
    recipe = draw(recipes())
    if name == "LSDR":  # it climbs for long
        small = tuple(min(size, 8) for size in recipe.sizes[:6])
        recipe = replace(recipe, sizes=small, d=min(recipe.d, 17))
    return draw(estimators(name)), recipe


_SEARCHES = [
    ("MPDA", {"n_neighbors": [2, 1000], "alpha": [0.0, 0.2, 1e300]}),
    ("PMPDA", {"gamma": [0.0, 1e6], "eigenvalue_power": [0.0, 50.0]}),
    ("LFDA", {"n_neighbors": [1, 7], "alpha": [0.0, 1.0]}),
    ("LLTSA", {"n_neighbors": [3, 12]}),
]


@dataclass(frozen=True)
class Outcome:
    """How a case ended: "answered", "answered, warned" or "refused", and what was said."""

    kind: str
    said: str = ""


_EXPECTED = (SmallClassWarning, NumericalWarning, ConvergenceWarning, FitFailedWarning)
# What scikit-learn says of labels is no trouble of ours.
_OF_LABELS = ("The least populated class in y", "The number of unique classes is greater than 50%")


class Fault(AssertionError):
    """A case that ended as none should."""


def outcome(estimator: Any, recipe: Recipe) -> Outcome:
    """Fit the estimator to the data set and see that the laws hold; a ``Fault`` if not."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        for expected in _EXPECTED:
            warnings.simplefilter("always", expected)
        warnings.simplefilter("always", UserWarning)
        X, y = recipe.samples(Path(place))
        before = np.array(X), np.array(y)
        try:
            fitted = clone(estimator).fit(X, y)
        except Exception as error:
            _blame(error)
            return Outcome("refused", str(error).partition("\n")[0])
        unchanged = np.array_equal(X, before[0]) and np.array_equal(y, before[1])
        _hold(unchanged, "the input was changed")
        laws(fitted, X, y)
        _repeated(fitted, clone(estimator).fit(X, y))
        _as_plain(fitted, clone(estimator), X, y)
        del X  # a memory map, before its file goes
    for each in caught:
        known = isinstance(each.message, _EXPECTED) or str(each.message).startswith(_OF_LABELS)
        _hold(known, f"an unexpected warning: {each.message}")
    trouble = [str(each.message) for each in caught if each.category is NumericalWarning]
    return Outcome("answered, warned", trouble[0]) if trouble else Outcome("answered")


def _blame(error: Exception) -> None:
    """An error must be ours or scikit-learn's on its input: what NumPy says names no cause."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    deliberate = any(
        part in place.filename
        for part in ("mpda/", "sklearn/utils/validation", "sklearn/utils/multiclass")
    )
    # A search takes its folds from scikit-learn, which says what it cannot split.
    deliberate |= "sklearn/model_selection" in place.filename
    fair = type(error).__mro__[-3] is ValueError or isinstance(error, ValueError | TypeError)
    named = deliberate and fair and (place.line or "").startswith("raise")
    if not (named and len(str(error)) > 20):
        shown = "".join(traceback.format_exception(error))
        raise Fault(f"refused without a cause: {shown}") from error


def _hold(condition: Any, what: str) -> None:
    if not condition:
        raise Fault(what)


def laws(model: Any, X: Any, y: Any) -> None:
    """What holds for every fit."""
    model = getattr(model, "best_estimator_", model)
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            _hold(np.isfinite(value).all(), f"{name} is not finite")
    n, d = np.shape(X)
    if hasattr(model, "tree_"):
        _partition_laws(model, n, y)
        return
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    if isinstance(X, pd.DataFrame):
        dtype = np.float32 if (X.dtypes == np.float32).all() else np.float64
    components = model.components_
    r = len(components)
    _hold(components.shape == (r, d) and r >= 1, f"components of shape {components.shape}")
    _hold(components.dtype == dtype, f"components are {components.dtype}, not {dtype}")
    _hold(r <= min(d, n), f"{r} components of {n} samples with {d} features")
    Z = model.transform(X)
    _hold(Z.shape == (n, r) and Z.dtype == dtype, f"mapped to {Z.shape} of {Z.dtype}")
    _hold(np.isfinite(Z).all(), "a mapped sample is not finite")
    _hold(len(model.get_feature_names_out()) == r, "names of features")
    _hold(np.isfinite(model.inverse_transform(Z)).all(), "a sample mapped back is not finite")
    values = getattr(model, "eigenvalues_", getattr(model, "explained_variance_", None))
    if values is not None:
        turn = -1.0 if type(model).__name__ in ("LLTSA", "LPFE") else 1.0
        _hold((turn * np.diff(values) <= 0.0).all(), f"eigenvalues out of order: {values}")
        _hold((values >= 0.0).all(), f"a negative eigenvalue: {values}")
    low, high = np.asarray(X).min(axis=0), np.asarray(X).max(axis=0)
    constant = np.flatnonzero(low == high)
    if constant.size and hasattr(model, "eigenvalues_"):
        with np.errstate(under="ignore"):
            lengths = np.abs(components).max(axis=1, keepdims=True)
            shares = np.abs(components[:, constant]) / np.where(lengths > 0.0, lengths, 1.0)
        _hold(shares.max() < 1e-6, f"a constant feature has {shares.max():.1e} of a component")


def _partition_laws(model: Any, n: int, y: Any) -> None:
    labels, sizes = model.labels_, model.patch_sizes_
    _hold(labels.shape == (n,) and sizes.sum() == n, "patches do not cover the samples")
    _hold((np.bincount(labels) == sizes).all() and (sizes > 0).all(), "an empty patch")
    _hold(sizes.max() <= model.max_patch_size, "a patch is too large")
    _hold((model.patch_linearity_ >= 1.0 - 1e-9).all(), "a patch flatter than flat")
    pairs = set(zip(labels.tolist(), np.asarray(y).tolist(), strict=True))
    _hold(len(pairs) == len(sizes), "a patch mixes classes")


def _repeated(one: Any, other: Any) -> None:
    """The same input gives the same output, to the last bit."""
    one, other = (getattr(each, "best_estimator_", each) for each in (one, other))
    for name in ("components_", "eigenvalues_", "mean_", "labels_"):
        with contextlib.suppress(AttributeError):
            same = np.array_equal(getattr(one, name), getattr(other, name))
            _hold(same, f"{name} differs between two fits to the same samples")


def _as_plain(model: Any, again: Any, X: Any, y: Any) -> None:
    """Types, layouts and containers change nothing but rounding."""
    if getattr(model, "condition_", np.inf) > 1e6:
        return
    plain = np.array(X, dtype=model.components_.dtype, order="C")
    with np.errstate(under="ignore"):
        values, others = model.eigenvalues_, again.fit(plain, np.asarray(y)).eigenvalues_
        clear = values > 1e-4 * values.max()
        same = np.allclose(others[: clear.size][clear], values[clear], rtol=1e-5, atol=0.0)
    _hold(same, f"eigenvalues {values} of X as given, {others} of a plain copy")
