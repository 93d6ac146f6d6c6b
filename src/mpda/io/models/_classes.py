"""The classes that may stand in a model file, and what of them is kept."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

_OURS = (
    *("LFDA", "LLTSA", "LPFE", "LSDA", "LSDR", "MFA", "MPDA", "PMPDA"),
    *("GramPCA", "GraphDiscriminant", "ManifoldPartition"),
)
ESTIMATORS = (
    *(f"mpda:{name}" for name in _OURS),
    "mpda.model_selection:DiscriminantSearchCV",
    "sklearn.pipeline:Pipeline",
    "sklearn.preprocessing:StandardScaler",
    "sklearn.preprocessing:MinMaxScaler",
    "sklearn.preprocessing:RobustScaler",
    "sklearn.preprocessing:Normalizer",
    "sklearn.decomposition:PCA",
    "sklearn.discriminant_analysis:LinearDiscriminantAnalysis",
    "sklearn.neighbors:NeighborhoodComponentsAnalysis",
    "sklearn.neighbors:KNeighborsClassifier",
    "sklearn.kernel_approximation:Nystroem",
)
# What a parameter may hold: nothing but parameters of these is kept.
UNFITTED = (
    "sklearn.cluster:KMeans",
    "sklearn.cluster:MiniBatchKMeans",
    "sklearn.cluster:BisectingKMeans",
    "sklearn.cluster:AgglomerativeClustering",
    "sklearn.cluster:SpectralClustering",
    "sklearn.cluster:MeanShift",
    "sklearn.cluster:DBSCAN",
    "sklearn.cluster:HDBSCAN",
    "sklearn.cluster:Birch",
    "sklearn.mixture:GaussianMixture",
    "sklearn.model_selection:KFold",
    "sklearn.model_selection:StratifiedKFold",
)
RECORDS = (
    "mpda.partition.tree:SplitTree",
    "mpda.discriminant.fit:Sums",
    "mpda.discriminant.fit:Strengths",
    "mpda.discriminant.fit:Penalties",
    "mpda.discriminant.class_contribution:Totals",
    "mpda.discriminant.class_contribution:Plan",
    "mpda.discriminant.scatter:BetweenClassSums",
)
# Dictionaries of functions that a parameter may hold in place of their names.
FUNCTIONS = ("mpda.model_selection.selection_rules:RULES", "mpda.model_selection:SCORES")
# Attributes of a fit that are made again, or that are not part of what was learnt.
NOT_KEPT = {
    "sklearn.neighbors:KNeighborsClassifier": ("_tree",),
    # The generator that began the search, mostly NumPy's global one.
    "sklearn.neighbors:NeighborhoodComponentsAnalysis": ("random_state_",),
}
# What a metric of scikit-learn may be given.
_METRIC_OPTIONS = ("p", "w", "V", "VI")
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]*_|_[A-Za-z][A-Za-z0-9_]*|radius")


def named(path: str) -> Any:
    """What stands in a module under a name, given as "module:name"."""
    module, name = path.split(":")
    return getattr(import_module(module), name)


def path_of(kind: type[Any], allowed: tuple[str, ...]) -> str | None:
    """The entry of a list of classes that is this very class, not one derived from it."""
    alike = (path for path in allowed if path.endswith(f":{kind.__name__}"))
    return next((path for path in alike if named(path) is kind), None)


def parameters_of(kind: type[Any]) -> dict[str, inspect.Parameter]:
    """The parameters of the constructor of a class."""
    return dict(list(inspect.signature(kind.__init__).parameters.items())[1:])


def is_fitted_attribute(kind: type[Any], name: str) -> bool:
    """Whether a name is one that a fit sets, and hides nothing of the class."""
    missing = object()
    return (
        _ATTRIBUTE.fullmatch(name) is not None
        and inspect.getattr_static(kind, name, missing) is missing
    )


def rebuild(path: str, model: Any) -> None:
    """Set what is not kept of a fit and is needed."""
    tree = {"kd_tree": "KDTree", "ball_tree": "BallTree"}
    if path == "sklearn.neighbors:KNeighborsClassifier" and hasattr(model, "_fit_X"):
        model._tree = None
        if model._fit_method in tree:
            kind = named(f"sklearn.neighbors:{tree[model._fit_method]}")
            metric, options = model.effective_metric_, model.effective_metric_params_
            # Weights of samples are among the options, too, and their number is never checked.
            if not isinstance(metric, str) or not set(options) <= set(_METRIC_OPTIONS):
                raise ValueError("the metric of the neighbours is not one that a fit sets")
            model._tree = kind(model._fit_X, model.leaf_size, metric=metric, **options)
