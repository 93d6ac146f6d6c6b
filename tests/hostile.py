"""Hostile data sets, parameters at the limits of their ranges, and laws that every fit must obey.

A ``Recipe`` describes a data set completely, so that its text reproduces a failure. The suite draws
a few cases (test_hostile.py); ``make fuzz`` draws as many as time allows.
"""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning

import mpda
from mpda.baselines.graph_methods import BETWEEN_GRAPHS, WITHIN_GRAPHS
from mpda.exceptions import FeatureScaleWarning, NumericalWarning, SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV

# The same cases in every run, without a database of earlier failures.
SETTINGS = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
SHAPES = ("normal", "bent", "grid", "line", "plane", "duplicates", "heavy tails")
SCALES = ("one", "large", "small", "mixed", "far away", "wide and narrow")
DTYPES = ("float64", "float32", "float16", "int64", "int8", "uint16", "bool", "longdouble")
# Largest power of ten of the column scales for each dtype; its square must be representable.
MAX_EXPONENT = {"float64": 150.0, "longdouble": 150.0, "float32": 35.0, "float16": 2.0}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "list": lambda X: X.tolist(),
    "data frame": lambda X: pd.DataFrame(X.astype("f8") if X.dtype == np.longdouble else X),
}
LABELS = {
    "int": lambda codes: codes,
    "string": lambda codes: _name_classes(codes),
    "bool": lambda codes: codes % 2 == 0,
    "object": lambda codes: _name_classes(codes).astype(object),
    "categorical": lambda codes: pd.Series(pd.Categorical(_name_classes(codes))),
    "float": lambda codes: codes.astype(float),
    "negative": lambda codes: (-7 * codes).astype(np.int16),
    "list": lambda codes: codes.tolist(),
}


def _name_classes(codes: Any) -> Any:
    return np.char.add("class ", codes.astype(str))


@dataclass(frozen=True)
class Recipe:
    """Complete description of a data set.

    Attributes
    ----------
    seed, sizes, d : int, tuple of int, int
        Seed of the draw, class sizes, number of features.
    shape, scale, dtype, layout, labels : str
        Values of the constants above.
    within_copies, copies : float
        Shares of the samples that repeat a sample of their class, or any sample.
    constant, collinear : float
        Shares of the columns that are constant, or multiples of the first.
    subset : float
        Share of the samples that remain; 0 leaves none.
    """

    seed: int = 0
    sizes: tuple[int, ...] = (12, 7, 20)
    d: int = 5
    shape: str = "normal"
    scale: str = "one"
    within_copies: float = 0.0
    copies: float = 0.0
    constant: float = 0.0
    collinear: float = 0.0
    subset: float = 1.0
    dtype: str = "float64"
    layout: str = "C"
    labels: str = "int"

    def samples(self) -> tuple[Any, Any]:
        """Return X (n, d) and y (n,) in the containers of the recipe."""
        rng = np.random.default_rng(self.seed)
        codes = rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))
        X = self._draw(codes, rng)
        for share, within in ((self.within_copies, True), (self.copies, False)):
            for i in np.flatnonzero(rng.uniform(size=len(X)) < share):
                X[i] = X[rng.choice(np.flatnonzero((codes == codes[i]) | (not within)))]
        collinear = rng.uniform(size=self.d) < self.collinear
        X[:, collinear] = X[:, [0]] * rng.integers(-2, 3, size=(1, collinear.sum()))
        X[:, rng.uniform(size=self.d) < self.constant] = 1.0
        X = self._convert(self._rescale(X, rng))
        subset = rng.uniform(size=len(X)) < self.subset
        return LAYOUTS[self.layout](X[subset]), LABELS[self.labels](codes[subset])

    def _draw(self, codes: Any, rng: Any) -> Any:
        n, d = len(codes), self.d
        centres = rng.normal(size=(len(self.sizes), d))[codes]
        if self.shape == "grid":
            return rng.integers(0, 4, size=(n, d)) + codes[:, None] % 3.0
        if self.shape == "bent":
            u = rng.uniform(-1, 1, size=(n, 2))
            curved = np.column_stack([u, u**2, u[:, :1] * u[:, 1:]])
            return curved @ rng.normal(size=(5, d)) + centres + 0.01 * rng.normal(size=(n, d))
        if self.shape == "heavy tails":
            return centres + np.clip(rng.standard_cauchy(size=(n, d)), -1e6, 1e6)
        if self.shape == "normal":
            return centres + rng.normal(size=(n, d))
        rank = {"duplicates": 0, "line": 1, "plane": 2}[self.shape]
        return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + centres

    def _rescale(self, X: Any, rng: Any) -> Any:
        limit = MAX_EXPONENT.get(self.dtype, 1.5)
        if self.scale == "far away":
            return X + 10.0 ** min(limit, 8.0)
        if self.scale == "mixed":
            return X * 10.0 ** rng.uniform(-limit, limit, size=self.d)
        if self.scale == "wide and narrow":
            return X * 10.0 ** (rng.choice([-1.0, 1.0], size=self.d) * min(limit, 6.0))
        return X * 10.0 ** {"one": 0.0, "large": limit, "small": -limit}[self.scale]

    def _convert(self, X: Any) -> Any:
        dtype = np.dtype(self.dtype)
        if dtype.kind == "b":
            return np.median(X) < X
        limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
        return np.clip(X, float(limits.min) / 2, float(limits.max) / 2).astype(dtype)


_DIFFICULTIES = {
    "scale": SCALES,
    "subset": (0.0, 0.1, 0.5, 0.8),
    "dtype": DTYPES,
    "layout": [*LAYOUTS],
    "labels": [*LABELS],
    **dict.fromkeys(("within_copies", "copies", "constant", "collinear"), (0.1, 0.5, 0.9, 1.0)),
}


@st.composite
def draw_recipe(draw: Any) -> Recipe:
    """Draw a data set with at most four difficulties; more would hide one another."""
    sizes = st.one_of(
        st.lists(st.sampled_from([1, 2, 3, 5, 8, 13, 30]), min_size=1, max_size=6),
        st.lists(st.sampled_from([1, 1, 2, 3, 20]), min_size=7, max_size=20),
        st.lists(st.sampled_from([1, 4, 80]), min_size=2, max_size=3),
    )
    return Recipe(
        seed=draw(st.integers(0, 2**16)),
        sizes=tuple(draw(sizes)),
        d=draw(st.sampled_from([1, 2, 3, 5, 8, 17, 40, 120])),
        shape=draw(st.sampled_from(SHAPES)),
        **draw(_draw_some(_DIFFICULTIES, 4)),
    )


@st.composite
def _draw_some(draw: Any, values: dict[str, Any], n: int) -> dict[str, Any]:
    """Draw values for at most n of the names."""
    names = draw(st.lists(st.sampled_from(sorted(values)), max_size=n, unique=True))
    return {name: draw(st.sampled_from(values[name])) for name in names}


# Parameter values at the limits of their ranges, shared by all estimators that have the parameter.
_COUNTS = (1, 3, 5, 20, 1000, 10**9)
_STRENGTHS = (0.0, 5e-324, 1e-300, 1e-12, 0.2, 1.0, 1e6, 1e100, 1e300, 1e308)
_LIMITS: dict[str, Any] = {
    "n_components": (None, None, 1, 2, 3, 40, 10**9),
    "eigenvalue_power": (0.0, 0.5, 1.0, 50.0, 1e5),
    "units": ("relative", "absolute"),
    "tangent_energy": (0.0, 5e-324, 0.5, 0.95, 1.0),
    "tangent_dimension": (None, 1, 2, 30),
    "affinity": ("full", "knn"),
    "solver": ("reduced", "two-stage"),
    "partition": ("auto", "geodesic", "euclidean", "tree"),
    "penalty": ("class", "global"),
    "between_share": (0.0, 5e-324, 0.5, 1 - 1e-16),
    "within": tuple(WITHIN_GRAPHS),
    "between": tuple(BETWEEN_GRAPHS),
    "widths": (None, (1e-3,), (1e3,)),
    "init": ("best", "pca", "random"),
    **dict.fromkeys(("n_neighbors", "n_pairs", "partition_neighbors", "max_patch_size"), _COUNTS),
    **dict.fromkeys(("alpha", "gamma", "tangent_alpha"), _STRENGTHS),
    **dict.fromkeys(("orthonormal", "anchors"), (False, True)),
}
# Those of one estimator, where a parameter of the same name has other values.
_OWN_LIMITS: dict[str, dict[str, Any]] = {
    "NeighborhoodRefinement": {
        "penalty": (None, 0.0, 5e-324, 1.0, 1e300),
        "temperature": (5e-324, 1e-12, 1.0, 1e12, 1e300),
        "n_rounds": (0, 1, 3),
        "radius": (None, 0.0, 5e-324, 1e-12, 1.0, 1e9, float("inf")),
        "objective": ("nearest", "class"),
        **dict.fromkeys(("n_own_neighbors", "n_candidates"), _COUNTS),
        **dict.fromkeys(("max_iter", "max_queries"), (1, 20)),
    }
}
NAMES = [name for name in mpda.__all__ if hasattr(getattr(mpda, name), "fit")]
NAMES.append("DiscriminantSearchCV")
# The ascent of LSDR is cut short: the laws are about finite answers, not about good ones.
_FIXED = {"LSDR": {"max_iter": 3, "n_centers": 20, "n_folds": 2}}
_SEARCHES = [
    (mpda.MPDA(), {"n_neighbors": [2, 1000], "alpha": [0.0, 0.2, 1e300]}),
    (mpda.LLTSA(), {"n_neighbors": [3, 12]}),
]


@st.composite
def draw_case(draw: Any, name: str) -> tuple[Any, Recipe]:
    """Draw an estimator with at most three parameters at their limits, and a data set."""
    recipe = draw(draw_recipe())
    if name == "DiscriminantSearchCV":
        return DiscriminantSearchCV(*draw(st.sampled_from(_SEARCHES)), cv=2), recipe
    if name == "LSDR":  # its time grows fastest with the samples
        sizes = tuple(min(size, 8) for size in recipe.sizes[:6])
        recipe = replace(recipe, sizes=sizes, d=min(recipe.d, 17))
    estimator = getattr(mpda, name)()
    limits = {**_LIMITS, **_OWN_LIMITS.get(name, {})}
    limits = {key: limits[key] for key in estimator.get_params() if key in limits}
    return estimator.set_params(**_FIXED.get(name, {}), **draw(_draw_some(limits, 3))), recipe


_EXPECTED_WARNINGS = (
    *(SmallClassWarning, FeatureScaleWarning, NumericalWarning),
    *(ConvergenceWarning, FitFailedWarning),
)
# scikit-learn's warnings about labels; they are no fault of the estimator.
_LABEL_WARNINGS = "The least populated class in y|The number of unique classes is greater"


def fit_and_check(estimator: Any, recipe: Recipe) -> tuple[str, str]:
    """Fit an estimator to a data set and check the laws.

    Parameters
    ----------
    estimator : estimator
        Unfitted.
    recipe : Recipe
        The data set.

    Returns
    -------
    outcome : {"answered", "answered, warned", "refused"}
    message : str
        Of the refusal or the warning.

    Raises
    ------
    AssertionError
        If a law is broken, or if an error does not name its cause.
    """
    X, y = recipe.samples()
    before = np.array(X), np.array(y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        for category in _EXPECTED_WARNINGS:
            warnings.simplefilter("always", category)
        warnings.filterwarnings("ignore", _LABEL_WARNINGS, UserWarning)
        try:
            model = clone(estimator).fit(X, y)
        except Exception as error:
            check_error(error)
            return "refused", str(error).partition("\n")[0]
        unchanged = np.array_equal(X, before[0]) and np.array_equal(y, before[1])
        assert unchanged, "input was modified"
        check_laws(model, X, y)
        check_repeatable(model, clone(estimator), X, y)
    messages = [str(item.message) for item in caught if item.category is NumericalWarning]
    return ("answered, warned", messages[0]) if messages else ("answered", "")


def check_error(error: Exception) -> None:
    """Check that an error was raised on purpose, by mpda or by scikit-learn's validation."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    sources = ("mpda/", "sklearn/utils/validation", "sklearn/utils/multiclass", "model_selection")
    deliberate = any(source in frame.filename for source in sources)
    deliberate &= (frame.line or "").startswith("raise") and len(str(error)) > 20
    if not (deliberate and isinstance(error, ValueError | TypeError)):
        raise AssertionError(f"refused without a cause: {error!r}") from error


def check_laws(model: Any, X: Any, y: Any) -> None:
    """Check finiteness, classes, shapes, dtypes, order of eigenvalues and constant features."""
    model = getattr(model, "best_estimator_", model)
    for name, value in vars(model).items():
        if name == "patch_linearity_" and getattr(model, "partition", None) == "tree":
            continue  # MPDA does not measure it; ManifoldPartition does
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            assert np.isfinite(value).all(), f"{name} is not finite"
    if hasattr(model, "classes_"):
        assert np.array_equal(model.classes_, np.unique(y)), "classes_ are not the labels"
    n, d = np.shape(X)
    if hasattr(model, "tree_"):
        _check_partition(model, y)
        return
    is_single = not isinstance(X, list) and np.asarray(X).dtype == np.float32
    dtype = np.float32 if is_single else np.float64
    if hasattr(model, "embedding_"):
        Z = model.transform(X)
        assert Z.dtype == model.embedding_.dtype == dtype
        assert Z.shape == (n, len(model.get_feature_names_out())) == (n, model.n_components)
        assert np.isfinite(Z).all(), "the embedding is not finite"
        return
    components = model.components_
    r = len(components)
    assert components.shape == (r, d), f"components have shape {components.shape}"
    assert 1 <= r <= min(d, n), f"{r} components"
    Z = model.transform(X)
    assert components.dtype == Z.dtype == dtype, f"components are {components.dtype}"
    constant = getattr(model, "radius_", None)
    n_outputs = r if not constant else r + 1
    assert Z.shape == (n, len(model.get_feature_names_out())) == (n, n_outputs)
    assert np.isfinite(Z).all(), "the embedding is not finite"
    if constant is not None:
        lengths = np.linalg.norm(Z, axis=1)
        is_zero = lengths == 0.0
        assert np.all(is_zero | (np.abs(lengths - 1.0) < 1e-5)), "vectors are not of length 1"
        assert not constant or not is_zero.any(), "a point of a sphere is 0"
    if constant != 0.0:
        assert np.isfinite(model.inverse_transform(Z)).all(), "the reconstruction is not finite"
    eigenvalues = getattr(model, "eigenvalues_", None)
    if eigenvalues is None:
        return
    sign = -1.0 if type(model).__name__ in ("LLTSA", "LPFE") else 1.0
    keys = eigenvalues
    if type(model).__name__ == "DMLMJ":  # sorted by divergence
        keys = eigenvalues + 1.0 / eigenvalues
    assert (sign * np.diff(keys) <= 0.0).all(), "eigenvalues are not sorted"
    assert (eigenvalues >= 0.0).all(), "an eigenvalue is negative"
    constant = np.ptp(np.asarray(X, dtype=float), axis=0) == 0.0
    with np.errstate(under="ignore"):
        lengths = np.abs(components).max(axis=1, keepdims=True)
        shares = np.abs(components[:, constant]) / np.where(lengths > 0.0, lengths, 1.0)
    assert shares.max(initial=0.0) < 1e-6, "a constant feature has a weight"


def _check_partition(model: Any, y: Any) -> None:
    labels, sizes = model.labels_, model.patch_sizes_
    assert np.array_equal(np.bincount(labels), sizes)
    assert 0 < sizes.min() <= sizes.max() <= model.max_patch_size
    assert (model.patch_linearity_ >= 1.0 - 1e-9).all(), "a geodesic is shorter than the chord"
    pairs = set(zip(labels.tolist(), np.asarray(y).tolist(), strict=True))
    assert len(pairs) == len(sizes), "a patch has samples of two classes"


def check_repeatable(model: Any, unfitted: Any, X: Any, y: Any) -> None:
    """Check that a second fit is identical and that containers change only rounding."""
    second = clone(unfitted).fit(X, y)
    model, second = (getattr(item, "best_estimator_", item) for item in (model, second))
    for name in ("components_", "eigenvalues_", "mean_", "labels_"):
        equal = np.array_equal(getattr(model, name, 0), getattr(second, name, 0))
        assert equal, f"{name} differs between two fits"
    if getattr(model, "condition_", np.inf) > 1e6:
        return
    with np.errstate(under="ignore"):
        plain = clone(model).fit(np.array(X, dtype=model.components_.dtype), np.asarray(y))
        values, others = model.eigenvalues_, plain.eigenvalues_
        large = values > 1e-4 * values.max()
        np.testing.assert_allclose(others[: large.size][large], values[large], rtol=1e-5)
