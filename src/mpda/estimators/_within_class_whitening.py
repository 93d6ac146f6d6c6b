"""Within-class whitening of a database: labelled rows, many more rows without labels, one map.

The sums over rows and the eigenproblem are in ``baselines.within_class_sums``. ``fit``,
``partial_fit``, summaries, searches and Dask clusters add up the same sums.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import Array, ArrayLike, Floats, Ints, Labels
from mpda._lib.arrays import (
    array_namespace,
    astype,
    is_device_array,
    ldexp,
    numbers_to_device,
    to_host,
)
from mpda._lib.samples import Coordinates
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import (
    check_count,
    check_not_constant,
    check_number,
    check_number_of_classes,
    group_by_class,
    is_dask_collection,
    refuse_cluster_weights,
    validate_samples,
)
from mpda.baselines.within_class_sums import (
    WithinClassSums,
    solve_whitening,
    sum_rows,
    whitening_problem,
)
from mpda.discriminant.eigenproblem import (
    Directions,
    check_n_directions,
    eigenpair_residual,
    fix_signs,
)
from mpda.discriminant.unlabeled_form import check_marker
from mpda.estimators._base import LinearMap, SolutionPath
from mpda.estimators._components import cast_components, warn_inaccurate
from mpda.exceptions import SingularFormError
from mpda.parallel import import_dask_cluster

# Attributes of the map, which wait until the rows of several calls determine one.
_MAP_ATTRIBUTES = ("components_", "eigenvalues_", "mean_", "classes_", "residual_", "condition_")


@dataclass(eq=False, repr=False)
class WithinClassWhitening(LinearMap):
    """Map of a database by the scatter inside labelled classes and the scatter of all rows.

    Labels exist for some classes, while the database has many more vectors, also of classes that
    nobody has labelled. The directions t maximise

        t'S_database t  subject to  t'[(1 - s) S_w + s (tr S_w / d) I]t = 1,

    with S_w the scatter of labelled rows about their class means, and S_database the scatter of all
    rows, labelled or not, about their mean; both are means over rows. Mapped samples have length 1,
    so that nearest neighbours are those by the cosine.

    Without unlabelled rows and with all components this is within-class whitening. Without
    shrinkage its first directions are those of linear discriminant analysis, but there are more
    than classes.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all directions with an eigenvalue above 1e-10 of the
        largest. More components than there are directions are an error.
    shrinkage : float, default=0.5
        Share s of the multiple of the identity in the within-class scatter, from 0 to 1. With 0
        the labelled rows must vary inside their classes in every direction of the database. With 1
        the components are those of PCA.
    unlabeled : int or str, default=None
        Label of the rows without a label, such as -1. None means that all rows of X have labels.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions by decreasing eigenvalue, not scaled further. The entry of largest magnitude is
        positive.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the components.
    mean_ : ndarray of shape (n_features,)
        Mean of all rows, labelled or not.
    classes_ : ndarray of shape (n_classes,)
        Distinct class labels, sorted, without ``unlabeled``.
    residual_ : float
        Relative residual of the eigenproblem, as in :class:`LFDA`.
    condition_ : float
        Condition number of the denominator, as in :class:`LFDA`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    ``transform`` computes z / |z| with z = components_ (x - mean_); a sample that is mapped to 0
    stays 0. :func:`mpda.io.affine_map` returns the affine part, with ``unit_length=True``.

    A search (:class:`mpda.model_selection.DiscriminantSearchCV`) takes labelled rows only. For
    classes that were not seen, give it ``cv=UnseenClassFolds()`` and ``scoring="map_at_r"``. Every
    number of components has unit vectors of its own, so a search over all of them tries numbers in
    steps of a quarter.

    References
    ----------
    A. Bar-Hillel, T. Hertz, N. Shental and D. Weinshall, "Learning a Mahalanobis Metric from
    Equivalence Constraints", Journal of Machine Learning Research 6, 2005.

    A. O. Hatch, S. Kajarekar and A. Stolcke, "Within-Class Covariance Normalization for SVM-Based
    Speaker Recognition", Interspeech, 2006.

    D. Cai, X. He and J. Han, "Semi-Supervised Discriminant Analysis", International Conference on
    Computer Vision, 2007.

    F. Radenović, G. Tolias and O. Chum, "CNN Image Retrieval Learns from BoW: Unsupervised
    Fine-Tuning with Hard Examples", European Conference on Computer Vision, 2016.

    J. Su, J. Cao, W. Liu and Y. Ou, "Whitening Sentence Representations for Better Semantics and
    Faster Retrieval", arXiv 2103.15316, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mpda import WithinClassWhitening
    >>> X, y = load_digits(return_X_y=True)
    >>> labelled = y < 5  # nobody has labelled the other digits
    >>> model = WithinClassWhitening(16).fit(X[labelled], y[labelled], database=X[~labelled])
    >>> model.transform(X).shape
    (1797, 16)
    """

    _computes_on_devices = True
    _takes_sparse = True
    radius_ = 0.0

    n_components: int | None = None
    _: KW_ONLY
    shrinkage: float = 0.5
    unlabeled: Any = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        database: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the map from labelled rows and a database.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Labelled rows, as an array, device array or Dask collection.
        y : array-like of shape (n_samples,)
            Class labels. Rows with the label ``unlabeled`` count as rows of the database.
        database : array-like of shape (n_rows, n_features), default=None
            Further rows, without labels. They may be a Dask collection where X is in memory.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows of X, at least 0: multiplicities. Rows of the database count once.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        self.check_parameters()
        sums = self._sum(X, y, sample_weight, n_classes=2)
        if database is not None:
            try:
                added = self._sum(database, None, None, reset=False)
            except ValueError as error:
                raise ValueError(
                    _describe_database(database, self.n_features_in_, error)
                ) from error
            # The precision of the map is that of X.
            sums = sums + replace(added, is_single=True)
        self._set_map(sums)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows to those of earlier calls, and update the map.

        Rows may come in any blocks: samples of one class in several calls, and labelled and
        unlabelled rows in any order. Each call solves the eigenproblem; for many small blocks add
        up what ``summarize`` returns, and call ``from_summary`` once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), default=None
            Class labels; None for rows without labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0: multiplicities, comparable between calls.

        Returns
        -------
        LinearMap
            The estimator itself. It is fitted as soon as there are two classes, two distinct
            samples of one of them, and rows that span ``n_components`` directions.
        """
        self.check_parameters()
        earlier: WithinClassSums | None = getattr(self, "_sums", None)
        sums = self._sum(X, y, sample_weight, reset=earlier is None)
        n_features = sums.mean.shape[0]
        if self.n_components is not None and self.n_components > n_features:
            check_n_directions(n_features, self.n_components)
        self._sums = sums = sums if earlier is None else earlier + sums
        scatter = float(array_namespace(sums.within).linalg.trace(sums.within))
        for name in _MAP_ATTRIBUTES:
            self.__dict__.pop(name, None)
        if sums.classes.size > 1 and scatter > 0.0:
            # Rows so far may span too few directions for the map: more of them may come.
            with suppress(ValueError):
                self._set_map(sums)
        return self

    def summarize(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> WithinClassSums:
        """Compute the sums of a fit over some rows.

        The estimator is not changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; those of a class may be in several summaries.
        y : array-like of shape (n_samples,), default=None
            Class labels; None for rows without labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0: multiplicities.

        Returns
        -------
        WithinClassSums
            Sums of a few matrices of features by features, which can be pickled and are merged by
            ``+`` or ``sum``.
        """
        self.check_parameters()
        return type(self)(unlabeled=self.unlabeled)._sum(X, y, sample_weight)

    @classmethod
    def from_summary(cls, summary: WithinClassSums, **parameters: Any) -> Self:
        """Fit to the sums over rows that ``summarize`` made.

        Parameters
        ----------
        summary : WithinClassSums
            Merged sums over all rows.
        **parameters : object
            Parameters of the estimator.

        Returns
        -------
        WithinClassWhitening
            The fitted estimator. ``partial_fit`` can add rows.
        """
        if not isinstance(summary, WithinClassSums):
            raise TypeError(
                f"summary must be what summarize returns, merged by +, got {summary!r}."
            )
        estimator = cls(**parameters)
        estimator.check_parameters()
        check_number_of_classes(estimator, summary.classes, 2)
        estimator.n_features_in_ = summary.mean.shape[0]
        if summary.feature_names is not None:
            estimator.feature_names_in_ = summary.feature_names
        estimator._set_map(summary)
        return estimator

    def mahalanobis_matrix(self) -> Array:
        """Return the matrix of the metric before samples are scaled to length 1.

        Returns
        -------
        array of shape (n_features, n_features)
            M = components_' components_.
        """
        return super().mahalanobis_matrix()

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_number("shrinkage", self.shrinkage, most=1.0)

    def _sum(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        reset: bool = True,
        n_classes: int = 0,
    ) -> WithinClassSums:
        """Return the sums over validated rows, which must be of so many classes."""
        if is_dask_collection(X):
            refuse_cluster_weights(sample_weight, None)
            sums = self._sum_on_cluster(X, y, reset, n_classes)
        else:
            samples = validate_samples(
                self,
                X,
                y,
                sample_weight=sample_weight,
                reset=reset,
                devices=True,
                # Rows without a class may be all there are of a call; classes are counted below.
                single_class=n_classes == 0 or self.unlabeled is not None,
                rotates=False,
                labelled=y is not None or n_classes > 0,
            )
            classes, members = samples.classes, samples.members
            if y is not None:
                classes, members = _labelled_classes(classes, members, self.unlabeled)
            if n_classes:
                check_number_of_classes(self, classes, n_classes)
            weights = samples.weights
            if sample_weight is not None:
                # Weights with a mean of 1 become multiplicities again, which calls share.
                ones = np.ones(samples.X.shape[0])
                weights = _mean_weight(sample_weight) * (ones if weights is None else weights)
            sums = sum_rows(samples.X, classes, members, samples.coordinates, weights)
            is_single = bool(samples.dtype == array_namespace(samples.X).float32)
            sums = replace(sums, is_single=is_single)
        return replace(sums, feature_names=getattr(self, "feature_names_in_", None))

    def _sum_on_cluster(self, X: Any, y: Any, reset: bool, n_classes: int) -> WithinClassSums:
        cluster = import_dask_cluster()
        found = cluster.describe_blocks(self, X, y, reset=reset)
        if y is not None:
            classes, _ = _labelled_classes(found.facts.labels, [], self.unlabeled)
            if n_classes:
                check_number_of_classes(self, classes, n_classes)
                check_not_constant(found.facts.low, found.facts.high)
        work = _sum_unlabelled_block if y is None else _sum_labelled_block
        sums: WithinClassSums = cluster.sum_over_blocks(
            found.blocks, work, found.coordinates, self.unlabeled
        )
        return replace(sums, is_single=bool(found.blocks.kind.dtype == np.float32))

    def _set_map(self, sums: WithinClassSums) -> None:
        """Solve the eigenproblem and set the attributes of a fit."""
        self._sums = sums
        problem = whitening_problem(sums, self.shrinkage)
        with one_blas_thread(sums.mean.shape[0] <= SMALL):
            directions = solve_whitening(problem, self.shrinkage)
            r = check_n_directions(directions.eigenvalues.shape[0], self.n_components)
            directions = directions.first(r)
            residual = eigenpair_residual(problem.numerator, problem.denominator, directions)
        xp, coordinates = array_namespace(sums.mean), sums.coordinates
        dtype = xp.float32 if sums.is_single else xp.float64
        self.components_ = cast_components(_to_components(directions, coordinates), dtype)
        self.eigenvalues_ = directions.eigenvalues
        self.mean_ = astype(_find_mean(sums), dtype)
        self.classes_ = numbers_to_device(sums.classes, sums.mean)
        self.residual_, self.condition_ = residual, directions.condition
        warn_inaccurate(residual, directions.condition, stacklevel=4, ridge="shrinkage")

    def _solution_key(self) -> Hashable:
        self.check_parameters()
        if self.unlabeled is not None:
            raise ValueError(
                f"unlabeled must be None in a search, got {self.unlabeled!r}: a search takes "
                "labelled rows. Fit the selected parameters to all rows afterwards."
            )
        return float(self.shrinkage)

    def _solve_many(
        self,
        methods: Sequence[WithinClassWhitening],
        X: ArrayLike,
        y: ArrayLike,
        n_components: Sequence[int] | None,
    ) -> Iterator[SolutionPath]:
        """Yield the components of each method; all shrinkages share the sums over rows."""
        sums = self._sum(X, y, None, n_classes=2)
        n_rows = None if n_components is None else max(n_components)
        for index, method in enumerate(methods):
            try:
                problem = whitening_problem(sums, method.shrinkage)
                directions = solve_whitening(problem, method.shrinkage)
            except SingularFormError as error:
                yield SolutionPath(index, None, failure=str(error))
                continue
            components = _to_components(directions, sums.coordinates)[:n_rows]
            yield SolutionPath(index, components, mean=_find_mean(sums))


def _describe_database(database: Any, n_features: int, error: ValueError) -> str:
    """Say in one line what is wrong with a database."""
    needed = "database must hold rows of the features of X, in the same order and without"
    shape = np.shape(database)
    if len(shape) != 2:
        found = f"an array of {len(shape)} dimension{'s' * (len(shape) != 1)}, shape {shape}"
        hint = " Weights are sample_weight=.." if len(shape) == 1 else ""
        return f"{needed} missing values, got {found}.{hint}"
    if shape[1] != n_features:
        return f"{needed} missing values: X has {n_features} features, database {shape[1]}."
    if shape[0] == 0:
        return f"{needed} missing values, got none. Leave database out for labelled rows only."
    first = str(error).splitlines()[0].split(". ")[0].rstrip(".")
    return f"{needed} missing values: {first}."


def _find_mean(sums: WithinClassSums) -> Array:
    """Return the mean of all rows (d,) in their units."""
    return ldexp(sums.mean + sums.coordinates.origin, sums.coordinates.exponent)


def _to_components(directions: Directions, coordinates: Coordinates) -> Array:
    """Return directions (d, r) as components (r, d) in the units of the rows."""
    return fix_signs(coordinates.to_components(directions.vectors)).T


def _labelled_classes(
    classes: Labels, members: list[Ints], unlabeled: Any
) -> tuple[Labels, list[Ints]]:
    """Return the labels and the members of the classes without that of unlabelled rows."""
    if unlabeled is None:
        return classes, members
    check_marker(unlabeled, classes)
    kept = [index for index, label in enumerate(classes.tolist()) if label != unlabeled]
    return classes[kept], [members[index] for index in kept] if members else []


def _mean_weight(sample_weight: ArrayLike) -> float:
    """Return the mean of the weights that are not 0."""
    weights: Any = to_host(sample_weight) if is_device_array(sample_weight) else sample_weight
    weights = np.asarray(weights, dtype=np.float64)
    return float(weights[weights > 0.0].mean())


def _sum_unlabelled_block(X: Floats, coordinates: Coordinates, unlabeled: Any) -> WithinClassSums:
    return _sum_block(X, np.empty(0), [], coordinates)


def _sum_labelled_block(
    X: Floats, y: Labels, coordinates: Coordinates, unlabeled: Any
) -> WithinClassSums:
    classes, members = group_by_class(np.asarray(y)) if len(X) else (np.empty(0), [])
    if len(X):
        classes, members = _labelled_classes(classes, members, unlabeled)
    return _sum_block(X, classes, members, coordinates)


def _sum_block(
    X: Floats, classes: Labels, members: list[Ints], coordinates: Coordinates
) -> WithinClassSums:
    """Return the sums over a block of a Dask collection, on the worker that has it."""
    if coordinates.exponent:
        X = np.ldexp(X.astype(np.float64), -coordinates.exponent)
    return sum_rows(X, classes, members, coordinates)
