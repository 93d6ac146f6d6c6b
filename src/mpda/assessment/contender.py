"""Contenders: methods as they enter a comparison.

A contender is a method of `mpda.model_selection.methods` with its fixed parameters and the grid
that cross-validation searches. Plain 1-NN on the features is the contender without a method.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from mpda.model_selection.methods import START_PREFIX, Method, method

Step = tuple[str, Any]  # name and transformer
_METHOD_STEP = "method"

BASELINE = "1-NN"
# The choice among refined methods, each of which may stay without refinement.
AUTOMATIC = "auto"
_CHOICES = ("PCA refined", "shrinkage LDA refined", "LFDA refined", "MPDA refined")
# Numbers of components for methods that need one fit for each number (NCA, LSDR and refined maps
# are not nested). Seven fits, denser at the low end, where the error changes most.
SPARSE_DIMENSIONS = (1, 2, 3, 5, 10, 20, 40)
_NOT_NESTED = ("NCA", "LSDR")
# Settings beyond the defaults of the scikit-learn classes: reproducible NCA, and a shrinkage for
# the method that is named after it.
_SETTINGS: dict[str, dict[str, Any]] = {
    "NCA": {"random_state": 0},
    "shrinkage LDA": {"shrinkage": "auto"},
}


@dataclass(frozen=True)
class Contender:
    """A method with its fixed parameters and its parameter grid.

    Parameters
    ----------
    name : str
        Name in tables.
    method : Method or None, default=None
        None stands for 1-NN on the features, without any map.
    fixed : mapping of str to value
        Parameters that every fit has.
    grid : mapping of str to tuple
        Parameter values that cross-validation tries.
    max_components : int or None, default=None
        Largest number of components that is tried. None tries all.
    dimensions : tuple of int or None, default=None
        Numbers of components that are tried, for methods that need one fit for each number.
    skipped : tuple of str, default=()
        Problems of the paper on which the contender is not run.
    published : bool, default=True
        True if the contender is a row of the paper's table.
    note : str, default=""
        Remark below a table.
    steps : tuple of (str, transformer), default=()
        Preprocessing, not fitted. It is fitted together with the method, so inside every fold.
    choices : tuple of Contender, default=()
        Contenders among which cross-validation on the training samples chooses.
    shares_pca : bool, default=False
        True if inner folds share the PCA of all training samples, as experiments did at first.
        Results of slow methods are kept in this form.
    n_neighbors : int, default=1
        Number of neighbours of the classifier whose score selects the parameters.
    """

    name: str
    method: Method | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    max_components: int | None = None
    dimensions: tuple[int, ...] | None = None
    skipped: tuple[str, ...] = ()
    published: bool = True
    note: str = ""
    steps: tuple[Step, ...] = ()
    choices: tuple["Contender", ...] = ()
    shares_pca: bool = False
    n_neighbors: int = 1

    @property
    def work(self) -> float:
        """Work of a fold, roughly, as a multiple of that of 1-NN on the features."""
        if self.choices:
            return sum(choice.work for choice in self.choices)
        if self.method is None:
            return 1.0
        return (30.0 if self.method.start else 10.0) if self.method.is_ours else 3.0

    @property
    def prefix(self) -> str:
        """Prefix of the names of parameters in the results of a search."""
        return f"{_METHOD_STEP}__" if self.steps else ""

    def estimator(self, parameters: Mapping[str, Any], n_components: int | None = None) -> Any:
        """Return an unfitted estimator with the parameters of a grid point.

        Parameters
        ----------
        parameters : mapping of str to value
            Grid point. It is added to the fixed parameters.
        n_components : int or None, default=None
            Number of components. None leaves the default of the method.

        Returns
        -------
        estimator
            Transformer of scikit-learn or of mpda, behind copies of the steps.
        """
        assert self.method is not None
        estimator = self.method.make(**{**self.fixed, **parameters})
        if n_components is not None:
            estimator.set_params(n_components=n_components)
        if not self.steps:
            return estimator
        steps = [(name, clone(step)) for name, step in self.steps]
        return Pipeline([*steps, (_METHOD_STEP, estimator)])


def make_contender(name: str, *, search: bool) -> Contender:
    """Return the contender for a method name.

    Parameters
    ----------
    name : str
        Name of a method, ``"1-NN"``, or ``"auto"`` for the choice among PCA, shrinkage LDA, LFDA
        and MPDA, each refined or not.
    search : bool
        True opens the parameter grid of the method. Otherwise only the number of components is
        chosen by cross-validation.

    Returns
    -------
    Contender
        Ready for `assess_methods` and `select_model`.
    """
    if name == BASELINE:
        return Contender(name)
    if name == AUTOMATIC:
        choices = tuple(make_contender(choice, search=search) for choice in _CHOICES)
        return Contender(name, choices=choices)
    entry = method(name)
    grid = entry.grid if search else {}
    settings = _SETTINGS.get(name, {})
    if entry.start:
        settings = {f"{START_PREFIX}{k}": v for k, v in _SETTINGS.get(entry.start, {}).items()}
    settings = {key: value for key, value in settings.items() if key not in grid}
    dimensions = SPARSE_DIMENSIONS if name in _NOT_NESTED else None
    return Contender(name, entry, {**entry.always, **settings}, grid, dimensions=dimensions)
