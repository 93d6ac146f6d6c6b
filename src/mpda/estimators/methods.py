"""The list of linear methods, and the facts about each that fits, searches and commands need.

A fact stands here and nowhere else: whether the components are nested, how many there can be, the
grid of a search and the parameters that are usual.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

# Relative to the mean diagonal of the denominator. 0 is the published method; beyond 1 the ridge
# outweighs the samples.
_RIDGES = (0.0, 1e-3, 1e-2, 1e-1, 1.0)
# Component r is scaled by this power of lambda_r / lambda_1: from none to LFDA's square root.
_POWERS = (0.0, 0.25, 0.5)
_GRAPH_GRID = {"alpha": _RIDGES, "eigenvalue_power": _POWERS}
_GRAPH_PUBLISHED = {"alpha": 0.0, "eigenvalue_power": 0.0}
# Where a ridge belongs to every fit: MPDA's, and methods that are compared with it.
_TANGENT_RIDGES = (1e-5, 1e-3, 3e-2, 0.2, 1.0)
_TANGENT_GRID = {
    "n_neighbors": (5, 10, 20, 40),
    "gamma": (1e-2, 1e-1, 1.0, 10.0),
    "alpha": _TANGENT_RIDGES,
    "eigenvalue_power": _POWERS,
}
_TANGENT_PUBLISHED = {"tangent_alpha": None, "eigenvalue_power": 0.0}
# Where a search has the least regret (benchmarks/regret.py, mean over seven data sets).
_TANGENT_USUAL = {"n_neighbors": 20, "gamma": 0.1, "alpha": 0.2, "eigenvalue_power": 0.25}

_REFINEMENT = "mpda:NeighborhoodRefinement"
# Prefix of the parameters of the start, as in every meta-estimator of scikit-learn.
START_PREFIX = "estimator__"
# Usual penalty of a refinement for each coefficient of its map (benchmarks/defaults.py).
PENALTY_PER_COEFFICIENT = 0.1
# A map for classes that are not among the labels needs more: the loss does not know them.
_UNSEEN_PENALTY = 1.0
# The refinement of a map: the values that a search tries, and those it leaves only for a gain.
# Penalties are multiples of the usual one of the start.
_RADII = (None, 0.0, 0.5, 1.0, 2.0)
_TEMPERATURES = (1.0, 2.0, 4.0)
_PENALTIES = (0.2, 1.0, 5.0)
# Whole classes, which retrieval asks for, gain from maps that are further from their start.
_RETRIEVAL_PENALTIES = (0.04, 0.2, 1.0)
# With many samples of a class more of them have to be seen (benchmarks/candidates.py).
_RETRIEVAL_CANDIDATES = (40, 100)
_REFINEMENT_USUAL = {
    "radius": 1.0,
    "objective": "nearest",
    "temperature": 2.0,
    "penalty": None,  # that for each coefficient, see `Method`
}


# The largest number of components of a fit to n samples of d features in c classes.
_LIMITS: dict[str, Callable[[int, int, int], int]] = {
    "rank": lambda n, d, c: min(n - 1, d),  # of the samples about their mean
    "samples": lambda n, d, c: min(n, d),
    "lanczos": lambda n, d, c: min(n, d) - 1,  # Lanczos vectors do not span all of the space
    "features": lambda n, d, c: d,
    "class means": lambda n, d, c: min(d, c - 1),
}


@dataclass(frozen=True)
class Method:
    """A method as it is compared with others.

    Parameters
    ----------
    name : str
        Name in tables.
    path : str
        Where the class is, as "module:class".
    scale : str
        Scale of the components as published: "form" (t'Mt = 1, M the denominator), "weighted"
        (that times the square root of lambda_r / lambda_1), "unit" (length 1), "orthonormal",
        "least squares", "metric" (distances are those of the learnt metric), or "its own" where
        scikit-learn's class decides.
    grid : mapping
        Parameters and the values that a search tries.
    published : mapping
        Parameters that stay fixed where the method is run as its authors did.
    always : mapping
        Parameters of every run.
    usual : mapping
        Parameters that do well on most data, where that was studied. A search leaves them only for
        a gain.
    start : str
        Name of the method that a refinement starts from; empty for other methods.
    settings : mapping
        Parameters of a run that does not search them, where they are not the defaults of the class.
    is_nested : bool
        True if the first r components of a fit are those of a fit with ``n_components=r``, so that
        one fit serves every number of components.
    fits_each_number : bool
        True if every number of components takes a fit, so that a search tries some of them only.
    limit : str
        What limits the number of components, see `count_components`.
    is_identity : bool
        True for the features as they are.
    refinement_penalty : float
        Usual penalty of a refinement of the method, for each coefficient.
    """

    name: str
    path: str
    scale: str
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    always: Mapping[str, Any] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    start: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_nested: bool = True
    fits_each_number: bool = False
    limit: str = "rank"
    is_identity: bool = False
    refinement_penalty: float = PENALTY_PER_COEFFICIENT

    def make(self, **parameters: Any) -> Any:
        """Return an estimator with the given parameters, not fitted.

        Parameters
        ----------
        **parameters : object
            Parameters of the method. Those of the start of a refinement begin with ``estimator__``.

        Returns
        -------
        estimator
            Instance of the class of the method; the start of a refinement for ``n_rounds=0``.
        """
        if not self.start:
            return self.estimator(**parameters)
        entry = method(self.start)
        own = {k: v for k, v in parameters.items() if not k.startswith(START_PREFIX)}
        of_start = {k.removeprefix(START_PREFIX): parameters[k] for k in parameters.keys() - own}
        start = entry.make(**{**entry.always, **of_start})
        # Without rounds the refinement would be a wrapper that does nothing.
        return start if own.get("n_rounds") == 0 else self.estimator(start, **own)

    @property
    def estimator(self) -> type[Any]:
        """Class of the method, imported when it is needed."""
        module, name = self.path.split(":")
        return getattr(import_module(module), name)

    def count_components(self, n_samples: int, n_features: int, n_classes: int) -> int:
        """Return the largest number of components that a fit can have.

        Parameters
        ----------
        n_samples : int
            Number of training samples.
        n_features : int
            Number of features.
        n_classes : int
            Number of classes.

        Returns
        -------
        int
            A fit may have fewer, for example where samples repeat.
        """
        return _LIMITS[self.limit](n_samples, n_features, n_classes)

    def describes(self, estimator: Any) -> bool:
        """Return True if an estimator is of the class, with the parameters of every run.

        Parameters
        ----------
        estimator : estimator
            An estimator, fitted or not.

        Returns
        -------
        bool
            A class may have several entries, which differ in these parameters.
        """
        return _is_of_class(estimator, self.path) and all(
            getattr(estimator, name) == value for name, value in self.always.items()
        )

    def published_grid(self) -> dict[str, tuple[Any, ...]]:
        """Return the grid without the parameters that the authors kept fixed.

        Returns
        -------
        dict
            Parameters and the values that a search tries.
        """
        return {name: values for name, values in self.grid.items() if name not in self.published}


_SINGLE_STAGE = (
    Method("PCA", "sklearn.decomposition:PCA", "orthonormal", limit="samples"),
    Method(
        "LDA",
        "sklearn.discriminant_analysis:LinearDiscriminantAnalysis",
        "its own",
        limit="class means",
    ),
    Method(
        "shrinkage LDA",
        "sklearn.discriminant_analysis:LinearDiscriminantAnalysis",
        "its own",
        {"shrinkage": ("auto", 0.01, 0.1, 0.5)},
        always={"solver": "eigen"},  # the default solver refuses shrinkage, "lsqr" only classifies
        settings={"shrinkage": "auto"},
        limit="class means",
    ),
    Method(
        "NCA",
        "sklearn.neighbors:NeighborhoodComponentsAnalysis",
        "its own",
        settings={"random_state": 0},
        is_nested=False,
        fits_each_number=True,
        limit="features",
    ),
    Method(
        "MFA",
        "mpda:MFA",
        "unit",
        {"n_neighbors": (3, 5, 10, 20), "n_pairs": (20, 80, 320, 1280), **_GRAPH_GRID},
        _GRAPH_PUBLISHED,
    ),
    Method(
        "LSDA",
        "mpda:LSDA",
        "unit",
        {"n_neighbors": (3, 5, 10, 20), "between_share": (0.1, 0.3, 0.5, 0.7, 0.9), **_GRAPH_GRID},
        _GRAPH_PUBLISHED,
    ),
    Method(
        "LFDA",
        "mpda:LFDA",
        "weighted",
        {"n_neighbors": (3, 5, 7, 10, 15, 20, 30, 50), **_GRAPH_GRID},
        {"alpha": 0.0, "eigenvalue_power": 0.5},
    ),
    Method(
        "LLTSA",
        "mpda:LLTSA",
        "form",
        {"n_neighbors": (8, 12, 20, 30), "alpha": _RIDGES},
        {"alpha": 0.0},
    ),
    Method("LSDR", "mpda:LSDR", "orthonormal", is_nested=False, fits_each_number=True),
    Method(
        "LPFE",
        "mpda:LPFE",
        "least squares",
        {"n_neighbors": (5, 10, 20), "alpha": _RIDGES},
        {"alpha": 0.0},
    ),
    Method(
        "GMML",
        "mpda:GMML",
        "metric",
        {"geodesic": (0.1, 0.3, 0.5, 0.7, 0.9), "alpha": _TANGENT_RIDGES},
        {"alpha": 0.0},
    ),
    Method(
        "DMLMJ",
        "mpda:DMLMJ",
        "form",
        {"n_neighbors": (5, 10, 20), "alpha": _TANGENT_RIDGES, "eigenvalue_power": _POWERS},
        {"alpha": 0.0, "eigenvalue_power": 0.0},
    ),
    Method(
        "within-class whitening",
        "mpda:WithinClassWhitening",
        "form",
        {"shrinkage": (0.1, 0.3, 0.5, 0.7, 0.9)},
        usual={"shrinkage": 0.5},
        # The components are nested, but samples are scaled to length 1 after them.
        is_nested=False,
        refinement_penalty=_UNSEEN_PENALTY,
    ),
    Method("PMPDA", "mpda:PMPDA", "form", _TANGENT_GRID, _TANGENT_PUBLISHED, usual=_TANGENT_USUAL),
    Method("MPDA", "mpda:MPDA", "form", _TANGENT_GRID, _TANGENT_PUBLISHED, usual=_TANGENT_USUAL),
)


def refine_method(entry: Method, *, retrieval: bool = False) -> Method:
    """Return the refinement of a method, with the grids of both.

    Parameters
    ----------
    entry : Method
        The start of the refinement.
    retrieval : bool, default=False
        True for a search that scores the retrieval of whole classes: it tries both objectives,
        more candidates and smaller penalties.

    Returns
    -------
    Method
        Its components are not nested, and there are as many as of the start.
    """
    grids = [
        {f"{START_PREFIX}{name}": value for name, value in found.items()}
        for found in (entry.grid, entry.usual, entry.settings)
    ]
    penalties = _RETRIEVAL_PENALTIES if retrieval else _PENALTIES
    own: dict[str, tuple[Any, ...]] = {
        "radius": _RADII,
        "objective": ("nearest", "class") if retrieval else ("nearest",),
        "temperature": _TEMPERATURES,
        # Rounded, so that values read as they are meant.
        "penalty_per_coefficient": tuple(
            round(factor * entry.refinement_penalty, 6) for factor in penalties
        ),
    }
    if retrieval:
        own["n_candidates"] = _RETRIEVAL_CANDIDATES
    return Method(
        f"{entry.name} refined",
        _REFINEMENT,
        entry.scale,
        {**grids[0], **own},
        usual={
            **grids[1],
            **_REFINEMENT_USUAL,
            "penalty_per_coefficient": entry.refinement_penalty,
        },
        start=entry.name,
        settings=grids[2],
        is_nested=False,
        fits_each_number=True,
        limit=entry.limit,
        refinement_penalty=entry.refinement_penalty,
    )


_STARTS = ("PCA", "shrinkage LDA", "LFDA", "MPDA")
# Methods that a search takes, but that no list has.
_UNLISTED = (
    Method(
        "truncated SVD",
        "sklearn.decomposition:TruncatedSVD",
        "orthonormal",
        is_nested=False,  # its random projections depend on the number of components
        fits_each_number=True,
        limit="samples",
    ),
    Method(
        "truncated SVD",
        "sklearn.decomposition:TruncatedSVD",
        "orthonormal",
        always={"algorithm": "arpack"},
        is_nested=False,
        fits_each_number=True,
        limit="lanczos",
    ),
    # The features as they are, for 1-NN without a map. A search writes it as "passthrough".
    Method(
        "1-NN",
        "sklearn.preprocessing:FunctionTransformer",
        "its own",
        always={"func": None},
        is_nested=False,
        limit="features",
        is_identity=True,
    ),
)
METHODS = (
    *_SINGLE_STAGE,
    *(refine_method(entry) for entry in _SINGLE_STAGE if entry.name in _STARTS),
)
BY_NAME = MappingProxyType({method.name: method for method in METHODS})


def method(name: str) -> Method:
    """Look up a method by its name, with an error that lists the names.

    Parameters
    ----------
    name : str
        Name in tables, such as "MPDA".

    Returns
    -------
    Method
        Entry of the list.
    """
    if name not in BY_NAME:
        raise ValueError(f"method must be one of {', '.join(BY_NAME)}, got {name!r}.")
    return BY_NAME[name]


def find_method(estimator: Any, *, retrieval: bool = False) -> Method | None:
    """Return the facts about an estimator.

    Parameters
    ----------
    estimator : estimator
        A linear method of mpda or scikit-learn, fitted or not.
    retrieval : bool, default=False
        Passed to `refine_method`, of a refinement.

    Returns
    -------
    Method or None
        None for other estimators. Of several entries that describe the estimator, the one with the
        most parameters of every run. For classes of a user that are derived from those of mpda, an
        entry without a name that has a grid for ``alpha`` only.
    """
    entries = [entry for entry in (*_SINGLE_STAGE, *_UNLISTED) if entry.describes(estimator)]
    if getattr(estimator, "solver", None) == "lsqr":  # LDA that only classifies
        return None
    if entries:
        return max(entries, key=lambda entry: len(entry.always))
    if isinstance(estimator, type) or not _is_of_class(estimator, "mpda:LinearMap"):
        return None
    if _is_of_class(estimator, _REFINEMENT):
        start = BY_NAME["MPDA"] if estimator.estimator is None else find_method(estimator.estimator)
        return refine_method(start or Method("", "", "its own"), retrieval=retrieval)
    has_ridge = "alpha" in estimator.get_params()
    grid = {"alpha": _RIDGES} if has_ridge else {}
    name = type(estimator).__name__
    return Method(name, "", "its own", grid, is_nested=False, fits_each_number=True)


def _is_of_class(estimator: Any, path: str) -> bool:
    """Return True if an estimator is of the class at a path, without importing its module.

    Classes that are derived from those of mpda count: they map by ``components_`` and ``mean_``
    too. Those that are derived from scikit-learn's may transform in another way.
    """
    module, name = path.split(":")
    package = module.partition(".")[0]
    classes = type(estimator).__mro__ if package == "mpda" else type(estimator).__mro__[:1]
    return any(c.__name__ == name and c.__module__.partition(".")[0] == package for c in classes)
