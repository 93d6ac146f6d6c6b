"""Classes that a model file may name.

Loading a model creates instances of these classes only, and runs none of their constructors. A new
estimator, or a new dataclass in the private state of an estimator, must be added to the tuples
below; otherwise ``mpda.save`` refuses the model and names the attribute.
"""

import inspect
from importlib import import_module
from typing import Any

# Estimators, and objects that their parameters may hold, by their public module: private modules of
# scikit-learn move between versions.
_ESTIMATORS = {
    "mpda": "DMLMJ GMML GramPCA GraphDiscriminant LFDA LLTSA LPFE LSDA LSDR MFA MPDA "
    "ManifoldPartition NeighborhoodRefinement PFE PMPDA TSIMR WithinClassWhitening",
    "mpda.model_selection": "DiscriminantSearchCV",
    "sklearn.cluster": "AgglomerativeClustering Birch BisectingKMeans DBSCAN HDBSCAN KMeans "
    "MeanShift MiniBatchKMeans SpectralClustering",
    "sklearn.compose": "ColumnTransformer",
    "sklearn.decomposition": "PCA TruncatedSVD",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis",
    "sklearn.frozen": "FrozenEstimator",
    "sklearn.impute": "SimpleImputer",
    "sklearn.kernel_approximation": "Nystroem",
    "sklearn.mixture": "GaussianMixture",
    "sklearn.model_selection": "KFold StratifiedKFold",
    "sklearn.neighbors": "KNeighborsClassifier KNeighborsTransformer "
    "NeighborhoodComponentsAnalysis",
    "sklearn.pipeline": "Pipeline",
    # FunctionTransformer is "passthrough" of a ColumnTransformer; one with a function is refused.
    "sklearn.preprocessing": "FunctionTransformer MaxAbsScaler MinMaxScaler Normalizer "
    "OneHotEncoder RobustScaler StandardScaler",
}
# Paths "module:name" of these classes.
ESTIMATORS = tuple(f"{m}:{name}" for m, names in _ESTIMATORS.items() for name in names.split())
# Dataclasses in fitted attributes: the partition tree and the sums that ``partial_fit`` updates.
DATACLASSES = (
    "mpda._lib.samples:Coordinates",
    "mpda.baselines.within_class_sums:WithinClassSums",
    "mpda.discriminant.class_sums:ClassSums",
    "mpda.discriminant.fit:FitState",
    "mpda.discriminant.scatter:BetweenClassSums",
    "mpda.discriminant.settings:ClassSettings",
    "mpda.discriminant.settings:DiscriminantSettings",
    "mpda.discriminant.settings:Penalties",
    "mpda.discriminant.settings:Strengths",
    "mpda.discriminant.settings:UserObject",
    "mpda.partition.rules:PartitionRule",
    "mpda.partition.tree:SplitTree",
)
# Fitted attributes that are not saved: search trees of neighbour models, which are rebuilt, and the
# random generator of NeighborhoodComponentsAnalysis, which is not part of the result.
TRANSIENT_ATTRIBUTES = ("_tree", "random_state_")


def import_object(path: str) -> Any:
    """Import an object from its path.

    Parameters
    ----------
    path : str
        Path of the form "module:name".

    Returns
    -------
    object
        Class, function or constant of this name.
    """
    module, name = path.split(":")
    return getattr(import_module(module), name)


def find_path(kind: type[Any], paths: tuple[str, ...]) -> str | None:
    """Find the path of a class in a list of paths.

    Parameters
    ----------
    kind : type
        Class to look up. A subclass of a listed class is not listed itself.
    paths : tuple of str
        Paths of the form "module:name". Only those with the name of the class are imported.

    Returns
    -------
    str or None
        Path of the class, None if it is not in the list.
    """
    candidates = (path for path in paths if path.endswith(f":{kind.__name__}"))
    return next((path for path in candidates if import_object(path) is kind), None)


def parameter_defaults(kind: type[Any]) -> dict[str, Any]:
    """Return the constructor parameters of a class.

    Parameters
    ----------
    kind : type
        Estimator class or cross-validation splitter.

    Returns
    -------
    dict
        Name and default of each parameter, ``inspect.Parameter.empty`` if it has no default.
    """
    return {name: item.default for name, item in inspect.signature(kind).parameters.items()}


def rebuild_search_tree(model: Any) -> None:
    """Set the search tree of a loaded nearest-neighbour model of scikit-learn.

    Parameters
    ----------
    model : estimator
        Any loaded model. Models other than fitted neighbour models are left as they are.
    """
    from sklearn.neighbors import BallTree, KDTree

    method = getattr(model, "_fit_method", None)
    if method is not None:
        tree = {"kd_tree": KDTree, "ball_tree": BallTree}.get(method)
        metric = {"metric": model.effective_metric_, **model.effective_metric_params_}
        model._tree = tree(model._fit_X, model.leaf_size, **metric) if tree else None
