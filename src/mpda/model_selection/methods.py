"""The list of methods that tests, studies and commands read, with their search grids."""

from collections.abc import Mapping
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
_TANGENT_GRID = {
    "n_neighbors": (5, 10, 20, 40),
    "gamma": (1e-2, 1e-1, 1.0, 10.0),
    "alpha": (1e-5, 1e-3, 3e-2, 0.2, 1.0),
    "eigenvalue_power": _POWERS,
}
_TANGENT_PUBLISHED = {"tangent_alpha": None, "eigenvalue_power": 0.0}
# Where a search has the least regret (benchmarks/regret.py, mean over seven data sets).
_TANGENT_USUAL = {"n_neighbors": 20, "gamma": 0.1, "alpha": 0.2, "eigenvalue_power": 0.25}

# Prefix of the parameters of the start, as in every meta-estimator of scikit-learn.
START_PREFIX = "estimator__"
# The refinement of a map: the values that a search tries, and those it leaves only for a gain.
REFINEMENT_GRID = {"penalty": (None, 30.0, 300.0), "temperature": (1.0, 4.0)}
REFINEMENT_USUAL = {"penalty": None, "temperature": 4.0}


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
        "least squares", or "its own" where scikit-learn's class decides.
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
    """

    name: str
    path: str
    scale: str
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    always: Mapping[str, Any] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    start: str = ""

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

    @property
    def is_ours(self) -> bool:
        """True if the method is implemented in this package."""
        return self.path.startswith("mpda:")

    def published_grid(self) -> dict[str, tuple[Any, ...]]:
        """Return the grid without the parameters that the authors kept fixed.

        Returns
        -------
        dict
            Parameters and the values that a search tries.
        """
        return {name: values for name, values in self.grid.items() if name not in self.published}


_SINGLE_STAGE = (
    Method("PCA", "sklearn.decomposition:PCA", "orthonormal"),
    Method("LDA", "sklearn.discriminant_analysis:LinearDiscriminantAnalysis", "its own"),
    Method(
        "shrinkage LDA",
        "sklearn.discriminant_analysis:LinearDiscriminantAnalysis",
        "its own",
        {"shrinkage": ("auto", 0.01, 0.1, 0.5)},
        always={"solver": "eigen"},  # the default solver refuses shrinkage, "lsqr" only classifies
    ),
    Method("NCA", "sklearn.neighbors:NeighborhoodComponentsAnalysis", "its own"),
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
    Method("LSDR", "mpda:LSDR", "orthonormal"),
    Method(
        "LPFE",
        "mpda:LPFE",
        "least squares",
        {"n_neighbors": (5, 10, 20), "alpha": _RIDGES},
        {"alpha": 0.0},
    ),
    Method("PMPDA", "mpda:PMPDA", "form", _TANGENT_GRID, _TANGENT_PUBLISHED, usual=_TANGENT_USUAL),
    Method("MPDA", "mpda:MPDA", "form", _TANGENT_GRID, _TANGENT_PUBLISHED, usual=_TANGENT_USUAL),
)


def _refine(entry: Method) -> Method:
    """Return the refinement of a method, with the grids of both."""
    grids = [
        {f"{START_PREFIX}{name}": value for name, value in found.items()}
        for found in (entry.grid, entry.usual)
    ]
    return Method(
        f"{entry.name} refined",
        "mpda:NeighborhoodRefinement",
        entry.scale,
        {**grids[0], **REFINEMENT_GRID},
        usual={**grids[1], **REFINEMENT_USUAL},
        start=entry.name,
    )


_STARTS = ("PCA", "shrinkage LDA", "LFDA", "MPDA")
METHODS = (*_SINGLE_STAGE, *(_refine(entry) for entry in _SINGLE_STAGE if entry.name in _STARTS))
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
