"""The fit that MPDA and PMPDA share, from parameters and samples to fitted attributes.

The steps of a fit stand in ``_fit`` in the order of the algorithm: checks, stages of the classes,
sums over classes, units, Schur complement, eigenproblem. ``partial_fit``, summaries and searches
use the same sums. The mathematics is in ``discriminant``.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.arrays import (
    array_namespace,
    astype,
    describe_library,
    ldexp,
    numbers_to_device,
    to_device,
    to_host,
)
from mpda._lib.samples import LabelledSamples, SampleFacts
from mpda._lib.validation import (
    check_count,
    check_jobs,
    check_number,
    check_option,
    feature_range,
    is_dask_collection,
    label_kind,
    load_class,
    refuse_cluster_weights,
    validate_samples,
    warn_small_classes,
)
from mpda.discriminant.class_pool import (
    ClassPool,
    LocalClasses,
    build_class_pool,
    sum_contributions,
)
from mpda.discriminant.class_stages import ClassStages
from mpda.discriminant.eigenproblem import Directions
from mpda.discriminant.fit import (
    DiscriminantFit,
    FitState,
    absolute_strengths,
    fit_discriminant,
    solve_all_settings,
    solve_fit,
)
from mpda.discriminant.settings import (
    ClassSettings,
    DiscriminantSettings,
    Penalties,
    Strengths,
    UserObject,
    copy_object,
)
from mpda.discriminant.unlabeled_form import compute_form_of_all, remove_label
from mpda.estimators._base import LinearMap, SolutionPath
from mpda.estimators._components import cast_components, scale_directions, warn_inaccurate
from mpda.estimators._fit_summary import FitSummary
from mpda.neighbors.approximate_search import check_neighbor_search
from mpda.parallel import import_dask_cluster

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

# Samples that are added to a fit may be larger than those of the first call by 2^400 at most:
# fourth powers of them must stay finite.
_LARGEST_EXPONENT = 400
# Class means that differ by less, relative to the largest, are equal up to rounding.
_EQUAL_MEANS = 1e-9
# Solvers that take over where the planned one fails, and the reason that is printed.
_FALLBACKS = {
    "sparse": "iterative refinement did not converge, so a sparse factorization was used",
    "range": "the tangent block is singular, so it was solved on its range",
}


class TangentDiscriminant(LinearMap):
    """Discriminant analysis with tangent spaces inside classes: common part of MPDA and PMPDA.

    Subclasses have the parameters below, and MPDA those of the partition.
    """

    _computes_on_devices = True
    _takes_sparse = True

    n_components: int | None
    n_neighbors: int
    gamma: float
    alpha: float
    tangent_alpha: float | None
    eigenvalue_power: float
    units: str
    tangent_energy: float
    affinity: str
    neighbor_search: Any
    class_weight: Any
    solver: str
    n_jobs: int | None
    verbose: int
    # Parameters of MPDA only, where ``has_unlabeled`` of the settings may be True.
    unlabeled: Any
    unlabeled_weight: float

    eigenvalues_: Array
    classes_: Array
    strengths_: dict[str, float]
    residual_: float
    condition_: float
    class_residuals_: Array
    class_solvers_: list[str]
    # One entry for each patch, with a partition.
    patch_linearity_: Array
    # Sums, checked parameters, and labels in the order of the sums.
    _state: FitState
    _settings: DiscriminantSettings
    _class_order: list[Any]

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class."""
        return self.n_neighbors

    def check_parameters(self) -> DiscriminantSettings:
        """Check the parameters.

        Returns
        -------
        DiscriminantSettings
            The parameters that the directions depend on.
        """
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_number("eigenvalue_power", self.eigenvalue_power)
        check_jobs(self.n_jobs)
        check_neighbor_search(self.neighbor_search)
        is_name = isinstance(self.neighbor_search, str)
        classes = ClassSettings(
            n_neighbors=check_count("n_neighbors", self.n_neighbors),
            tangent_energy=check_number("tangent_energy", self.tangent_energy, most=1.0),
            full_affinity=check_option("affinity", self.affinity, ("knn", "full")) == "full",
            neighbor_search=self.neighbor_search if is_name else copy_object(self.neighbor_search),
        )
        beta = self.tangent_alpha
        penalties = Penalties(
            gamma=check_number("gamma", self.gamma),
            alpha=check_number("alpha", self.alpha),
            tangent_alpha=None if beta is None else check_number("tangent_alpha", beta),
            relative=check_option("units", self.units, ("relative", "absolute")) == "relative",
        )
        solver = check_option("solver", self.solver, ("reduced", "two-stage"))
        return DiscriminantSettings(classes, penalties, two_stage=solver == "two-stage")

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        patches: ArrayLike | None = None,
    ) -> None:
        """Fit to an array, a device array or a Dask collection and set the attributes."""
        settings = self.check_parameters()
        samples: LabelledSamples | ClusterSamples
        if is_dask_collection(X):
            refuse_cluster_weights(sample_weight, self.class_weight)
            samples = _gather_classes(self, X, y, patches, settings)
        else:
            samples = validate_samples(
                self, X, y, sample_weight=sample_weight, devices=True, compare_scales=True
            )
        add_forms = None
        if settings.has_unlabeled and isinstance(samples, LabelledSamples):
            samples = remove_label(self, samples, self.unlabeled)
            weight = self.unlabeled_weight
            add_forms = compute_form_of_all(samples, settings, weight, self.n_jobs).add_to
        warn_small_classes(samples, settings.classes.n_neighbors, stacklevel=4)
        classes = build_class_pool(samples, patches, self.n_jobs, self._progress_title)
        # Relative units follow from the sums over classes, so that tangent vectors are eliminated
        # in a second pass. With absolute units one pass is enough.
        strengths = _known_strengths(settings, samples)
        contributions = sum_contributions(classes, settings.classes, strengths)
        fit = fit_discriminant(
            classes, contributions, samples, settings, self.n_components, add_forms
        )
        self._set_attributes(samples, classes, settings, fit)

    def _add_classes(self, X: ArrayLike, y: ArrayLike, *, patches: ArrayLike | None = None) -> None:
        """Add classes to the sums of a fit and update the attributes."""
        settings = self.check_parameters()
        if not settings.has_compatible_sums(self._settings):
            raise ValueError(
                "partial_fit adds to sums over classes that were computed with other parameters. "
                "Only n_components, solver, eigenvalue_power, n_jobs and verbose may change "
                "between calls; call fit to start again."
            )
        samples: LabelledSamples | ClusterSamples
        if is_dask_collection(X):
            samples = _gather_classes(self, X, y, patches, settings, reset=False)
        else:
            samples = validate_samples(self, X, y, reset=False, devices=True)
        self._check_addition(samples)
        # New samples may leave the span of the first ones, in whose basis the sums may be.
        state = self._state.without_rotation()
        samples = samples.in_coordinates(state.coordinates)
        if self._is_repeated_call(samples, state):
            return
        warn_small_classes(samples, settings.classes.n_neighbors, stacklevel=4)
        classes = build_class_pool(samples, patches, self.n_jobs, self._progress_title)
        added = sum_contributions(classes, settings.classes, state.strengths, state.sums)
        state = FitState(added.sums, state.strengths, state.coordinates)
        fit = solve_fit(state, added.summaries, settings.two_stage, self.n_components)
        self._set_attributes(samples, classes, settings, fit, is_first=False)

    @property
    def _progress_title(self) -> str | None:
        return type(self).__name__ if self.verbose else None

    def _check_addition(self, samples: LabelledSamples | ClusterSamples) -> None:
        """Raise an error if samples do not fit those of earlier calls."""
        library = describe_library(samples.X) if isinstance(samples, LabelledSamples) else "numpy"
        expected = describe_library(self.components_)
        if library != expected:
            raise TypeError(
                f"X must be of the array library of earlier calls, {expected}, got {library}: the "
                "sums over classes are kept there."
            )
        fitted = to_host(self.classes_)
        if label_kind(samples.classes) != label_kind(fitted):
            raise TypeError(
                "y must hold labels of one kind in all calls, got "
                f"{samples.classes[:1].tolist()} after {fitted[:1].tolist()}."
            )
        if samples.coordinates.exponent > self._state.coordinates.exponent + _LARGEST_EXPONENT:
            raise ValueError(
                "X is larger than the samples of earlier calls by more than a factor of 1e120: "
                "call fit with all samples."
            )

    def _is_repeated_call(self, samples: LabelledSamples | ClusterSamples, state: FitState) -> bool:
        """Return True if all classes were added before with the same samples.

        Any other class of an earlier call is an error. Samples are compared by the size and the
        mean of their class, which the state has. (scikit-learn's checks call partial_fit after fit
        with the same samples, so that must not be an error.)
        """
        labels = self._class_order
        positions = [labels.index(label) for label in samples.classes.tolist() if label in labels]
        if not positions:
            return False
        if len(positions) == samples.classes.size and isinstance(samples, LabelledSamples):
            counts, means = state.sums.between.counts, to_host(state.sums.between.means)
            coordinates = [load_class(samples, c).coordinates for c in range(len(positions))]
            new_means = np.stack([to_host(array_namespace(Z).mean(Z, axis=0)) for Z in coordinates])
            scale = np.abs(means).max() + np.abs(new_means).max()
            same_sizes = samples.sizes == counts[positions].tolist()
            if same_sizes and np.abs(new_means - means[positions]).max() <= _EQUAL_MEANS * scale:
                return True
        repeated = [labels[position] for position in positions]
        raise ValueError(
            f"y holds classes of an earlier call: {repeated[:5]}. A class cannot be learnt in "
            "pieces, because its neighbours and patches depend on all its samples: give all "
            "samples of a class in one call, or call fit with everything."
        )

    def summarize(self, X: ArrayLike, y: ArrayLike) -> FitSummary:
        """Compute the sums of a fit over the classes of some samples.

        The estimator is not changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            All samples of some classes. A single class is enough. The classes of a Dask collection
            are summarized on its cluster.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        FitSummary
            With ``units="relative"`` without the Schur complements, see
            :meth:`FitSummary.absolute_parameters`.
        """
        self._refuse_class_weight()
        settings = self.check_parameters()
        helper = type(self)()  # takes the attributes that validation sets
        samples: LabelledSamples | ClusterSamples
        if is_dask_collection(X):
            samples = _gather_classes(helper, X, y, None, settings, single_class=True)
        else:
            samples = validate_samples(helper, X, y, single_class=True)
        warn_small_classes(samples, settings.classes.n_neighbors)
        strengths = _known_strengths(settings, samples)
        classes = build_class_pool(samples, None, self.n_jobs, None)
        added = sum_contributions(classes, settings.classes, strengths)
        coordinates = samples.coordinates
        state = FitState(added.sums, strengths or Strengths(0.0, 0.0, 0.0), coordinates)
        if isinstance(samples, LabelledSamples):
            low, high = (ldexp(v, coordinates.exponent) for v in feature_range(samples.X))
        else:
            low, high = samples.low, samples.high
        return FitSummary(
            type(self).__name__,
            clone(self).get_params(deep=False),
            settings,
            samples.classes,
            state.without_rotation(),
            added.summaries,
            np.asarray(low, dtype=np.float64),
            np.asarray(high, dtype=np.float64),
            samples.dtype,
            getattr(helper, "feature_names_in_", None),
        )

    @classmethod
    def from_summary(cls, summary: FitSummary, **parameters: Any) -> Self:
        """Fit to the sums over classes that ``summarize`` made.

        Parameters
        ----------
        summary : FitSummary
            Merged sums over all classes, with ``units="absolute"``.
        **parameters : object
            Parameters that the sums do not depend on: ``n_components``, ``solver``,
            ``eigenvalue_power``, ``n_jobs`` and ``verbose``.

        Returns
        -------
        MPDA or PMPDA
            The fitted estimator, without ``patch_labels_``. ``partial_fit`` can add classes.
        """
        if not isinstance(summary, FitSummary):
            raise TypeError(
                f"summary must be what summarize returns, merged by +, got {summary!r}."
            )
        if summary.method != cls.__name__:
            raise ValueError(f"The summary is one of {summary.method}, not of {cls.__name__}.")
        estimator = cls(**{**summary.parameters, **parameters})
        settings = estimator.check_parameters()
        unused = {"class_weight", "unlabeled", "unlabeled_weight"} & parameters.keys()
        if unused or not settings.has_compatible_sums(summary.settings):
            raise ValueError(
                "Only n_components, solver, eigenvalue_power, n_jobs and verbose may differ from "
                f"the parameters of the summary, {summary.parameters}."
            )
        if settings.penalties.relative:
            raise ValueError(
                "The summary has relative units, which follow from the sums over all classes: it "
                "is a first pass. Set the parameters of summary.absolute_parameters() and "
                "summarize all samples again."
            )
        if summary.classes.size < 2:
            raise ValueError(f"A fit needs at least 2 classes, got {summary.classes.tolist()!r}.")
        estimator.n_features_in_ = summary.low.size
        if summary.feature_names is not None:
            estimator.feature_names_in_ = summary.feature_names
        strengths = absolute_strengths(settings.penalties, summary.coordinates)
        state = replace(summary.state, strengths=strengths)
        fit = solve_fit(state, summary.reports, settings.two_stage, estimator.n_components)
        estimator._set_attributes(summary, None, settings, fit)
        return estimator

    def _refuse_unlabeled(self, where: str) -> None:
        """Raise an error if unlabelled samples should be used where they cannot."""
        unlabeled = getattr(self, "unlabeled", None)
        if unlabeled is not None:
            raise ValueError(
                f"unlabeled must be None in {where}, got {unlabeled!r}: unlabelled samples are for "
                "fit."
            )

    def _refuse_class_weight(self) -> None:
        """Raise an error if classes that are added to a fit should have weights."""
        self._refuse_unlabeled("partial_fit and summarize")
        if self.class_weight is not None:
            raise ValueError(
                "class_weight must be None in partial_fit and summarize, which do not see all "
                "classes at once: give sample_weight to fit."
            )

    def _solution_key(self) -> Hashable:
        self._refuse_unlabeled("a search")
        return self.check_parameters()

    def _solve_many(
        self,
        methods: Sequence[TangentDiscriminant],
        X: ArrayLike,
        y: ArrayLike,
        n_components: Sequence[int] | None,
    ) -> Iterator[SolutionPath]:
        """Yield the directions of each method.

        Neighbours, patches, tangent bases and within-class forms are computed once for the
        parameters that they depend on, and the ridges of one gamma share their work.
        """
        samples = validate_samples(self, X, y)
        settings = [method.check_parameters() for method in methods]
        max_neighbors: dict[str | UserObject, int] = {}
        for item in (item.classes for item in settings):
            k = max(item.n_neighbors, item.partition_neighbors)
            max_neighbors[item.neighbor_search] = max(k, max_neighbors.get(item.neighbor_search, 0))
        classes = LocalClasses(samples, max_neighbors=max_neighbors, keep_all=True)
        n_rows = None if n_components is None else max(n_components)
        for index, result in solve_all_settings(classes, samples, settings):
            if isinstance(result, Directions):
                yield SolutionPath(index, result.first(n_rows or result.eigenvalues.shape[0]))
            else:
                yield SolutionPath(index, None, failure=str(result))

    def _scale(self, solution: Directions) -> Array:
        return scale_directions(solution, self.eigenvalue_power)

    def _set_attributes(
        self,
        samples: SampleFacts,
        classes: ClassPool | None,
        settings: DiscriminantSettings,
        fit: DiscriminantFit,
        is_first: bool = True,
    ) -> None:
        """Set the attributes of a fit.

        Parameters
        ----------
        samples : SampleFacts
            Samples of the call, in memory or on a cluster, or a summary of them.
        classes : ClassPool or None
            Stages of the classes of the call, if the samples are in memory.
        settings : DiscriminantSettings
            Checked parameters.
        fit : DiscriminantFit
            Result for all classes, with summaries of those of the call.
        is_first : bool, default=True
            Set to False to extend the attributes of an earlier call. Those of classes are in the
            order of ``classes_``, those of patches and samples in the order of the calls.
        """
        origin, dtype, mean = fit.state.coordinates.origin, samples.dtype, samples.mean
        if settings.has_unlabeled:
            mean = fit.state.mean  # of the labelled samples
        labels, solvers = samples.classes, [summary.solver for summary in fit.summaries]
        residuals = np.array([summary.residual for summary in fit.summaries])
        if settings.classes.partition is not None:
            self._set_patch_attributes(samples, classes, settings, fit, is_first)
        class_order = labels.tolist()
        if not is_first:
            class_order = [*self._class_order, *class_order]
            labels = np.concatenate([to_host(self.classes_), labels])
            solvers = self.class_solvers_ + solvers
            residuals = np.concatenate([to_host(self.class_residuals_), residuals])
            dtype = array_namespace(origin).result_type(self.components_, dtype)
            mean = fit.state.mean
        # classes_ is sorted, as scikit-learn expects; patches and samples keep the order of calls.
        order = np.argsort(labels, kind="stable")
        self.classes_ = numbers_to_device(labels[order], origin)
        self.class_solvers_ = [solvers[index] for index in order]
        self.class_residuals_ = to_device(residuals[order], origin)
        self.components_ = cast_components(self._scale(fit.directions), dtype)
        self.mean_ = astype(mean, dtype)
        self.eigenvalues_ = fit.directions.eigenvalues
        self.residual_ = fit.residual
        self.condition_ = fit.directions.condition
        self.strengths_ = asdict(fit.strengths)
        self._state, self._settings = fit.state, settings
        self._class_order = class_order
        if self.verbose:
            _report_fallbacks(type(self).__name__, samples.classes.tolist(), fit)
        # The Schur complement has the square of the residual as relative error.
        residual = max(fit.residual, residuals.max() ** 2)
        warn_inaccurate(residual, fit.directions.condition)

    def _set_patch_attributes(
        self,
        samples: SampleFacts,
        classes: ClassPool | None,
        settings: DiscriminantSettings,
        fit: DiscriminantFit,
        is_first: bool,
    ) -> None:
        """Set ``patch_labels_`` and the attributes with an entry for each patch."""
        n_patches = [summary.linearity.size for summary in fit.summaries]
        values = {
            "patch_classes_": np.repeat(samples.classes, n_patches),
            "patch_linearity_": np.concatenate([s.linearity for s in fit.summaries]),
            "tangent_dimensions_": np.concatenate([s.tangent_dimensions for s in fit.summaries]),
        }
        n_before = 0 if is_first else self.patch_linearity_.shape[0]
        if isinstance(samples, LabelledSamples) and (is_first or hasattr(self, "patch_labels_")):
            labels = np.full(samples.y.size, -1, dtype=np.intp)  # unlabelled samples have no patch
            offsets = n_before + np.cumsum(n_patches) - n_patches
            work = partial(ClassStages.patch_labels, settings=settings.classes)
            assert classes is not None
            patches = classes.map("patches", work)
            for members, patch_of, offset in zip(samples.members, patches, offsets, strict=True):
                labels[members] = patch_of + offset
            values["patch_labels_"] = labels
        else:  # the samples of a cluster stay there, so not every sample has a label
            self.__dict__.pop("patch_labels_", None)
        for name, array in values.items():
            if not is_first:
                array = np.concatenate([to_host(getattr(self, name)), array])
            setattr(self, name, numbers_to_device(array, fit.state.coordinates.origin))


def _known_strengths(
    settings: DiscriminantSettings, samples: LabelledSamples | ClusterSamples
) -> Strengths | None:
    """Return the strengths if they are known before the sums over classes."""
    if settings.penalties.relative:
        return None
    return absolute_strengths(settings.penalties, samples.coordinates)


def _gather_classes(
    estimator: TangentDiscriminant,
    X: Any,
    y: Any,
    patches: ArrayLike | None,
    settings: DiscriminantSettings,
    *,
    reset: bool = True,
    single_class: bool = False,
) -> LabelledSamples | ClusterSamples:
    """Bring the rows of Dask collections together by class, on their cluster."""
    if patches is not None:
        raise TypeError("patches cannot be given for Dask collections: leave them to partition.")
    if isinstance(settings.classes.partition, UserObject):
        raise TypeError(
            "partition cannot be a clusterer for Dask collections: give the name of a partition, "
            'such as "auto".'
        )
    gather = import_dask_cluster().gather_by_class
    return gather(estimator, X, y, reset=reset, single_class=single_class)


def _report_fallbacks(title: str, labels: list[Any], fit: DiscriminantFit) -> None:
    """Name the classes whose tangent vectors needed another solver than planned."""
    for label, summary in zip(labels, fit.summaries, strict=True):
        if summary.solver in _FALLBACKS:
            print(f"{title}, class {label!r}: {_FALLBACKS[summary.solver]}", file=sys.stderr)
