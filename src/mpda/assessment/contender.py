"""Contenders: methods as they enter a comparison.

A contender is a method of `mpda.estimators.methods` with its fixed parameters and the grid that
cross-validation searches. Plain 1-NN on the features is the contender without a method, and so is
the classifier to which maps are compared (`label_classifier`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from mpda._lib.array_types import Labels
from mpda.assessment.label_classifier import CLASSIFIER
from mpda.estimators.methods import START_PREFIX, Method, method

Step = tuple[str, Any]  # name and transformer
_METHOD_STEP = "method"

BASELINE = "1-NN"
# The choice among refined methods, each of which may stay without refinement.
AUTOMATIC = "auto"
_CHOICES = ("PCA refined", "shrinkage LDA refined", "LFDA refined", "MPDA refined")
# Numbers of components for methods that need one fit for each number. Seven fits, denser at the low
# end, where the error changes most.
SPARSE_COUNTS = (1, 2, 3, 5, 10, 20, 40)


@dataclass(frozen=True)
class Contender:
    """A method with its fixed parameters and its parameter grid.

    Parameters
    ----------
    name : str
        Name in tables.
    method : Method or None, default=None
        None stands for 1-NN on the features, without any map, or for the classifier.
    fixed : mapping of str to value
        Parameters that every fit has.
    grid : mapping of str to tuple
        Parameter values that cross-validation tries.
    max_components : int or None, default=None
        Largest number of components that is tried. None tries all.
    component_counts : tuple of int or None, default=None
        Numbers of components that are tried, for methods that need one fit for each number.
    skipped : tuple of str, default=()
        Problems of the paper on which the contender is not run.
    published : bool, default=True
        True if the contender is a row of the paper's table.
    note : str, default=""
        Remark below a table.
    choices : tuple of Contender, default=()
        Contenders among which cross-validation on the training samples chooses.
    n_neighbors : int, default=1
        Number of neighbours of the classifier whose score selects the parameters.
    """

    name: str
    method: Method | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    max_components: int | None = None
    component_counts: tuple[int, ...] | None = None
    skipped: tuple[str, ...] = ()
    published: bool = True
    note: str = ""
    choices: tuple["Contender", ...] = ()
    n_neighbors: int = 1

    @property
    def is_classifier(self) -> bool:
        """True for the classifier, which has no map."""
        return self.name == CLASSIFIER

    def count_components(self, n_features: int, y: Labels) -> int:
        """Return the largest number of components that a fit to such samples can have.

        Parameters
        ----------
        n_features : int
            Number of features, after the steps before the method.
        y : array of shape (n_samples,)
            Labels of the training samples.

        Returns
        -------
        int
            A fit may have fewer, for example where samples repeat.
        """
        if self.choices:
            return max(choice.count_components(n_features, y) for choice in self.choices)
        if self.method is None:
            return n_features
        return self.method.count_components(len(y), n_features, len(np.unique(y)))

    def without_refinement(self) -> "Contender":
        """Return the start of a refinement as a contender of its own.

        Returns
        -------
        Contender
            With the grid of the start, if this one has it.
        """
        assert self.method is not None  # and has a start
        search = any(name.startswith(START_PREFIX) for name in self.grid)
        return make_contender(self.method.start, search=search)

    def estimator(
        self,
        parameters: Mapping[str, Any],
        n_components: int | None = None,
        steps: Sequence[Step] = (),
    ) -> Any:
        """Return an unfitted estimator with the parameters of a grid point.

        Parameters
        ----------
        parameters : mapping of str to value
            Grid point. It is added to the fixed parameters.
        n_components : int or None, default=None
            Number of components. None leaves the default of the method.
        steps : sequence of (str, transformer), default=()
            Preprocessing. It is fitted together with the method, so inside every fold.

        Returns
        -------
        estimator
            Transformer of scikit-learn or of mpda, behind copies of the steps.
        """
        assert self.method is not None
        estimator = self.method.make(**{**self.fixed, **parameters})
        if n_components is not None:
            estimator.set_params(n_components=n_components)
        if not steps:
            return estimator
        return Pipeline([*((name, clone(step)) for name, step in steps), (_METHOD_STEP, estimator)])


def make_contender(name: str, *, search: bool, euclidean: bool = False) -> Contender:
    """Return the contender for a method name.

    Parameters
    ----------
    name : str
        Name of a method, ``"1-NN"``, ``"logistic regression"``, or ``"auto"`` for the choice among
        PCA, shrinkage LDA, LFDA and MPDA, each refined or not.
    search : bool
        True opens the parameter grid of the method. Otherwise only the number of components is
        chosen by cross-validation.
    euclidean : bool, default=False
        True keeps a refinement in the Euclidean geometry, for pictures: two numbers on a sphere lie
        on an arc.

    Returns
    -------
    Contender
        Ready for `assess_methods` and `select_model`.
    """
    if name in (BASELINE, CLASSIFIER):
        return Contender(name)
    if name == AUTOMATIC:
        choices = [make_contender(c, search=search, euclidean=euclidean) for c in _CHOICES]
        return Contender(name, choices=tuple(choices))
    entry = method(name)
    geometry = {"radius": None} if entry.start and euclidean else {}
    grid = {k: v for k, v in entry.grid.items() if search and k not in geometry}
    settings = {key: value for key, value in entry.settings.items() if key not in grid}
    # The search over a refinement selects numbers of components of its own.
    counts = SPARSE_COUNTS if entry.fits_each_number and not entry.start else None
    fixed = {**entry.always, **settings, **geometry}
    return Contender(name, entry, fixed, grid, component_counts=counts)
