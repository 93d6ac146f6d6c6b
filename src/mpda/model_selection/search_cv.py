"""The search over parameters and numbers of components by cross-validation.

Grid points are fitted through ``fit_paths``, which shares their work, and scored with every number
of components (``fold_scores``, ``scoring``). ``selection_rules`` selects one.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import (
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
    get_tags,
    indexable,
)
from sklearn.utils.validation import check_is_fitted

from mpda._lib.array_types import ArrayLike, Floats, Ints, Labels
from mpda._lib.arrays import is_sparse
from mpda._lib.device_inputs import is_dispatched, refuse_accelerator
from mpda._lib.sphere import count_outputs
from mpda._lib.validation import (
    check_count,
    check_jobs,
    check_option,
    group_by_class,
    is_dask_collection,
    resolve_seed,
)
from mpda.estimators._linear_methods import transform_linearly
from mpda.estimators._mpda import MPDA
from mpda.estimators._neighborhood_refinement import NeighborhoodRefinement
from mpda.model_selection.fold_scores import score_on_sphere
from mpda.model_selection.folds import Folds, check_groups, draw_folds
from mpda.model_selection.grid import (
    StagedGrid,
    build_grid,
    build_stages,
    check_n_components,
    find_prefix,
    last_step,
)
from mpda.model_selection.grid_search import GridSearch, SearchResult
from mpda.model_selection.nearest_by_dimension import nearest_by_dimension
from mpda.model_selection.results_table import concatenate_tables
from mpda.model_selection.scoring import find_scorer
from mpda.model_selection.selection_rules import RULES, SelectionRule

# Shares of the work of a refinement's search before and after the stages of its own parameters.
_STAGE_SHARES = (0.3, 0.7)


def classification_curve(
    estimator: Any, X: ArrayLike, y: ArrayLike, X_test: ArrayLike, y_test: ArrayLike
) -> Floats:
    """Compute the 1-NN error with the first 1, 2, .. components of a fitted estimator.

    Parameters
    ----------
    estimator : fitted transformer
        Its columns should be ordered, as those of every method of this package are but LSDR and
        refinements. Of a map to a sphere each number has a projection of its own.
    X : array-like of shape (n_samples, n_features)
        Samples among which neighbours are searched.
    y : array-like of shape (n_samples,)
        Their labels.
    X_test : array-like of shape (n_test_samples, n_features)
        Samples to classify.
    y_test : array-like of shape (n_test_samples,)
        Their true labels.

    Returns
    -------
    ndarray of shape (n_components,)
        Shares of wrong labels, from 0 to 1. nan for one output of which the constant is one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import MPDA
    >>> from mpda.model_selection import classification_curve
    >>> X, y = load_iris(return_X_y=True)
    >>> classification_curve(MPDA().fit(X[::2], y[::2]), X[::2], y[::2], X[1::2], y[1::2]).shape
    (4,)
    """
    y, y_test = np.asarray(y), np.asarray(y_test)
    Z, Z_test = (np.asarray(transform_linearly(estimator, A)) for A in (X, X_test))
    check_consistent_length(Z, y)
    check_consistent_length(Z_test, y_test)
    last = last_step(getattr(estimator, "best_estimator_", estimator))
    radius = getattr(last, "radius_", None)
    if radius is not None:
        counts = np.arange(1 + count_outputs(0, radius), count_outputs(Z.shape[1], radius) + 1)
        accuracy = find_scorer("accuracy")
        scores = score_on_sphere(accuracy, (Z, y), (Z_test, y_test), counts, radius)
        return np.concatenate([np.full(counts[0] - 1, np.nan), 1.0 - scores])
    nearest = nearest_by_dimension(Z, Z_test)
    return np.asarray(np.mean(y[nearest] != y_test, axis=1))


class DiscriminantSearchCV(ClassifierMixin, TransformerMixin, MetaEstimatorMixin, BaseEstimator):
    """Search over the parameters and the number of components of a method, by cross-validation.

    Works like scikit-learn's ``GridSearchCV`` with a nearest-neighbour classifier behind the
    method, and gives the same scores unless it halves, but does shared work only once: one fit for
    every number of components where they are nested, one sweep for the errors of all of them, and
    for MPDA and PMPDA neighbours, patches and tangent spaces, the forms of each k, and one
    tridiagonal form for all ridges of a gamma.

    Parameters
    ----------
    estimator : linear method, "passthrough", or a Pipeline that ends in one of them
        A method of this package, a `NeighborhoodRefinement` of any, or ``PCA``, ``TruncatedSVD``,
        ``LinearDiscriminantAnalysis`` or ``NeighborhoodComponentsAnalysis`` of scikit-learn.
        "passthrough" is 1-NN on the features. Earlier steps of a pipeline are fitted once per fold,
        on its training part. A frozen model in a refinement is not: its scores are too good if it
        was fitted to the same samples.
    param_grid : dict or list of dicts, default=None
        Values to try for the parameters of the method; in a pipeline they may be named with or
        without the name of its last step. None takes the grid of the method in
        ``mpda.estimators.methods.METHODS``; for a refinement and a measure of retrieval also the
        objective "class" and smaller penalties. The parameters of a refinement are searched one
        after another, those of a list of grids in all combinations. Where the shrinkage of LDA is
        searched, its solver is "eigen", since the default one cannot shrink.
    cv : int, splitter or iterable, default=4
        A number makes stratified folds, shuffled by ``random_state``.
    n_repeats : int, default=1
        How often folds are drawn where ``cv`` is a number.
    n_components : "all", int or sequence of int, default="all"
        Numbers of components to try: all, all up to a number, or those given. "all" leaves out
        numbers beyond 5, in steps of a quarter, where each takes a fit of scikit-learn, a
        refinement or a search for neighbours (measures of retrieval).
    selection : {"robust", "minimum", "pooled", "one-standard-error"} or callable, default="robust"
        Rule that selects the grid point and the number of components from the scores. "minimum"
        takes the best mean. "pooled" takes the best mean over neighbouring dimensions and grid
        points. "robust" subtracts from that a penalty for each step of the grid away from the usual
        parameters, so that noise alone changes nothing (``mpda.estimators.methods`` lists the
        usual parameters of MPDA and PMPDA; for other methods it equals "pooled").
        "one-standard-error" takes the fewest components, then the strongest ridge, within one
        standard error of the best mean. A callable takes ``GridScores`` and returns a
        ``SelectedPoint`` of ``mpda.model_selection.selection_rules``.
    scoring : str or callable, default="accuracy"
        Score of a fold; larger is better. "accuracy", "balanced_accuracy" or "f1_macro" of a
        nearest-neighbour classifier, or a measure of retrieval: "recall_at_<k>",
        "precision_at_<k>", "r_precision" or "map_at_r" (`mpda.assessment.score_queries`). A
        callable with two positional parameters takes true and predicted labels, one with four the
        mapped training samples, their labels, the mapped test samples, and theirs. Where a test
        part has several classes, and the training part none of them (`UnseenClassFolds`), its
        samples are searched among themselves.
    classifier_neighbors : int, default=1
        Number of neighbours of the classifier, at most the training samples of a fold.
    halving : bool or "auto", default="auto"
        True searches by successive halving, as ``HalvingGridSearchCV`` does: all grid points on a
        stratified subset of the samples, then a quarter of the points on four times the samples,
        and so on, the last round on all. For the accuracy and for measures of retrieval a fold
        tests at most 500 samples, unless these are searched among themselves. Each
        point of a round has a best number of components: the next round tries numbers from half of
        the smallest to twice the largest of these. "auto" halves with more than 5000 samples.
    max_samples : int, default=None
        Number of samples in the last round, a stratified subset. None takes all.
    refit : bool, default=True
        If True, the method is fitted to all samples with the selected parameters.
    n_jobs : int, default=None
        Number of folds that joblib processes at the same time. With one at a time, MPDA and PMPDA
        work on classes of 1000 samples or more in as many threads as BLAS would use.
    random_state : int, RandomState or None, default=0
        Seed of the folds where ``cv`` is a number. None makes folds differ.
    verbose : int or callable, default=0
        If 1, progress is printed to stderr. A callable is called with the share of the work that
        is done.

    Attributes
    ----------
    cv_results_ : dict of arrays
        One row for each grid point and number of components, as in ``GridSearchCV``:
        ``params``, ``param_<name>``, ``split<i>_test_score``, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``. ``mean_fit_time`` is the time of a grid point; work
        that points share counts for the first of them. Scores are nan where the method has no such
        component. With halving, rows of all rounds, which ``iter`` (from 0) and ``n_resources``
        (number of samples) tell apart. A refinement is searched in stages (its start, its own
        parameters one after another, the number of components), which ``stage`` (from 1) tells
        apart. The first stage has other folds: rows of the last stage are ranked first. "No
        refinement" is among the choices of the last parameter, unless the grid says by ``n_rounds``
        what to try: then there is one stage.
    best_index_ : int
        Selected row of ``cv_results_``.
    best_params_ : dict
        Its parameters, ``n_components`` among them.
    best_score_ : float
        Its mean score on the folds. It is optimistic, because the same folds selected the row: with
        random labels it is above chance. Measure the error on other samples.
    best_estimator_ : estimator
        Method with these parameters, fitted to all samples. Only if ``refit`` is True.
    classifier_ : KNeighborsClassifier
        Classifier of all samples in the learnt space.
    n_splits_ : int
        Number of folds.
    n_resources_, n_candidates_ : list of int
        Numbers of samples and of grid points in each round of the search.
    refit_time_ : float
        Seconds of the fit to all samples.
    classes_ : ndarray of shape (n_classes,)
        Class labels.

    Notes
    -----
    Memory: in addition to the samples, a fold keeps the within forms of one number of neighbours at
    a time (one block of n_features x tangent dimension for each patch of MPDA, or each sample of
    PMPDA), an n_features x n_features matrix for each ridge of one gamma, two for each k of the
    graph methods, and the scores.

    With a few hundred samples the lowest mean error of a grid is mostly luck. "robust" is the
    default because it had the lowest regret on seven data sets
    (``docs/evidence/selection-rules.md``).

    In a fold, a class may have fewer samples than the number of neighbours. The number is then cut,
    and if ``param_grid`` was given, a warning names the class and the fold.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mpda import MPDA
    >>> from mpda.model_selection import DiscriminantSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = DiscriminantSearchCV(MPDA(), {"n_neighbors": [5, 10], "alpha": [0.1, 1.0]})
    >>> search.fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any = None,
        *,
        cv: Any = 4,
        n_repeats: int = 1,
        n_components: Any = "all",
        selection: Any = "robust",
        scoring: Any = "accuracy",
        classifier_neighbors: int = 1,
        halving: Any = "auto",
        max_samples: int | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.n_repeats = n_repeats
        self.n_components = n_components
        self.selection = selection
        self.scoring = scoring
        self.classifier_neighbors = classifier_neighbors
        self.halving = halving
        self.max_samples = max_samples
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None) -> Self:
        """Search, select, and refit the selected parameters to all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, for example a patient. Folds never divide a group. Where ``cv``
            is a splitter, it is given to its ``split``.

        Returns
        -------
        DiscriminantSearchCV
            The fitted search.
        """
        if is_dask_collection(X):
            raise TypeError(
                "DiscriminantSearchCV needs all samples in memory and does not take Dask "
                "collections; give X.compute() and y.compute(). Its work goes to a cluster inside "
                'joblib.parallel_config("dask").'
            )
        estimator = _complete(self.estimator, self.param_grid)
        n_neighbors = check_count("classifier_neighbors", self.classifier_neighbors)
        scorer = find_scorer(self.scoring, n_neighbors)
        stages = build_stages(estimator, self.param_grid, retrieval=scorer.needs_each_number)
        grid = build_grid(estimator, stages.start if stages else self.param_grid)
        n_components = check_n_components(self.n_components)
        X, labels = self._validate(X, y)
        self.classes_ = group_by_class(labels)[0]
        groups = check_groups(groups, labels)
        folds = self._folds(X, labels, groups)
        self.n_splits_ = len(folds)
        search = GridSearch(
            estimator,
            X,
            labels,
            scorer=scorer,
            n_neighbors=n_neighbors,
            rule=self._rule(),
            halving=self.halving,
            max_samples=self.max_samples,
            seed=resolve_seed(self.random_state),
            n_jobs=check_jobs(self.n_jobs),
            progress=self.verbose if callable(self.verbose) else bool(self.verbose),
            warn_of_small_classes=self.param_grid is not None,
        )
        for name in ("best_estimator_", "classifier_", "refit_time_"):  # of an earlier call
            self.__dict__.pop(name, None)
        shares = (0.0, 1.0) if stages is None else (0.0, _STAGE_SHARES[0])
        results = [search.run(folds, grid, n_components, shares)]
        if stages is not None:
            # The start was selected for its scores on the first folds, which are therefore too
            # good to compare refined maps with. Folds that are given serve again.
            if not np.iterable(self.cv):
                folds = self._folds(X, labels, groups, stage=1)
            results += _search_refinement(search, folds, stages, results[0])
            has_rounds = any("iter" in result.table for result in results)
            for number, result in enumerate(results, start=1):
                n_rows = len(result.table["params"])
                result.table["stage"] = np.full(n_rows, number)
                if has_rounds and "iter" not in result.table:  # one round on all samples
                    result.table["iter"] = np.zeros(n_rows, dtype=int)
                    result.table["n_resources"] = np.full(n_rows, len(labels))
        rounds = [plan for result in results for plan in result.rounds]
        n_earlier = sum(len(result.table["params"]) for result in results[:-1])
        self.best_index_ = n_earlier + results[-1].best_row
        self.cv_results_ = concatenate_tables([result.table for result in results])
        self.n_resources_ = [plan.n_samples for plan in rounds]
        self.n_candidates_ = [plan.n_points for plan in rounds]
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        if self.refit:
            start = time.perf_counter()
            self.best_estimator_ = clone(estimator)
            parameters = self.best_estimator_.get_params()
            self.best_estimator_.set_params(
                **{
                    name: clone(value, safe=False)
                    for name, value in self.best_params_.items()
                    if name in parameters  # the features as they are have no number to set
                }
            )
            Z = _map_dense(self.best_estimator_.fit(X, labels), X)
            self.classifier_ = KNeighborsClassifier(n_neighbors).fit(Z, labels)
            self.refit_time_ = time.perf_counter() - start
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator = _complete(self.estimator, self.param_grid)
        tags.input_tags.sparse = get_tags(estimator).input_tags.sparse
        return tags

    def _rule(self) -> SelectionRule:
        rule = self.selection
        if callable(rule):
            return rule
        return RULES[check_option("selection", rule, tuple(RULES), also=", or a callable")]

    def _validate(self, X: ArrayLike, y: ArrayLike) -> tuple[Any, Labels]:
        """Check the library of X and the labels; the method checks the values of X."""
        if is_dispatched(X):
            raise TypeError(
                f"{type(self).__name__} works on NumPy arrays, and X is a device array. MPDA, "
                "PMPDA, LFDA, GramPCA and NeighborhoodRefinement compute on device arrays; for a "
                "search give X as a NumPy array."
            )
        refuse_accelerator(X)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        X, labels = indexable(X, labels)
        return X, labels

    def transform(self, X: ArrayLike) -> Floats:
        """Map samples by the refitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Mapped samples.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(X)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Find samples that the refitted estimator maps to X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Mapped samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Samples.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.inverse_transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Labels:
        """Return the names of the components.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Not used; the names do not depend on it.

        Returns
        -------
        ndarray of str of shape (n_components,)
            Names such as "mpda0".
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.get_feature_names_out(input_features)

    @property
    def n_features_in_(self) -> int:
        """Number of features of X."""
        check_is_fitted(self, "best_estimator_")
        return int(self.best_estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Labels:
        """Names of the features of X, where it had any."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.feature_names_in_

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the labels by the nearest training samples in the learnt space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        check_is_fitted(self, "classifier_")
        return self.classifier_.predict(_map_dense(self, X))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Score samples by ``scoring``, with the training samples as their neighbours.

        Samples of several classes are searched among themselves if none of their classes was in the
        training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their true labels.

        Returns
        -------
        float
            The accuracy, unless ``scoring`` is something else.
        """
        check_is_fitted(self, "classifier_")
        Z = _map_dense(self, X)
        # scikit-learn has no public names for the samples of a classifier and their labels.
        samples, codes = self.classifier_._fit_X, self.classifier_._y
        scorer = find_scorer(self.scoring, self.classifier_neighbors)
        scores = scorer(samples, self.classifier_.classes_[codes], Z, np.asarray(y), [Z.shape[1]])
        return float(scores[0])

    def _folds(self, X: Any, y: Labels, groups: Labels | None, stage: int = 0) -> Folds:
        """Return the folds of a stage; those that are drawn here differ between stages."""
        seed = resolve_seed(self.random_state)
        if isinstance(seed, int | np.integer):
            seed += stage  # a generator draws anew by itself
        return draw_folds(self.cv, X, y, groups, seed, self.n_repeats)


def _complete(estimator: Any, param_grid: Any) -> Any:
    """Return the estimator in the form in which it is fitted.

    MPDA is the start of a refinement without one, "passthrough" becomes a transformer that changes
    nothing, and a search over the shrinkage of LDA has a solver that can shrink.
    """
    if isinstance(estimator, str) and estimator == "passthrough":
        return FunctionTransformer(feature_names_out="one-to-one")
    method = last_step(estimator)
    if isinstance(estimator, Pipeline) and method == "passthrough":
        name = estimator.steps[-1][0]
        return clone(estimator).set_params(**{name: _complete("passthrough", None)})
    if isinstance(method, NeighborhoodRefinement) and method.estimator is None:
        estimator = clone(estimator)
        last_step(estimator).set_params(estimator=MPDA())
    elif isinstance(method, LinearDiscriminantAnalysis) and method.solver == "svd":
        grids = param_grid if isinstance(param_grid, list | tuple) else [param_grid]
        names = {str(name).removeprefix(find_prefix(estimator)) for g in grids for name in g or ()}
        if "shrinkage" in names and "solver" not in names:
            estimator = clone(estimator)
            last_step(estimator).set_params(solver="eigen")
    return estimator


def _map_dense(estimator: Any, X: ArrayLike) -> Floats:
    """Return mapped samples as an array; features as they are may be sparse."""
    Z = estimator.transform(X)
    return np.asarray(Z.toarray() if is_sparse(Z) else Z)


def _search_refinement(
    search: GridSearch, folds: Folds, stages: StagedGrid, first: SearchResult
) -> list[SearchResult]:
    """Search the parameters of a refinement at the selected start, then the number of components.

    Each number of components needs refinements of its own. They are therefore computed for the
    selected parameters only, and not at all if the start is better without a refinement.
    """
    name = f"{stages.prefix}n_components"
    start = first.best_params
    component_counts = counts_about(start[name], _scored_counts(first.table, name))
    shares = np.linspace(*_STAGE_SHARES, len(stages.refined) + 1)
    chosen: Mapping[str, Any] = {}
    results = []
    for number in range(len(stages.refined)):
        # Without a number for the constant of a sphere the start is the only choice.
        grids = stages.refined_stage(number, start, chosen) or stages.last_stage(start, start)[:1]
        grid = build_grid(search.estimator, grids)
        results.append(
            search.run(folds, grid, (start[name],), (shares[number], shares[number + 1]))
        )
        chosen = results[-1].best_params
        if stages.is_start(chosen):
            if callable(search.progress):
                search.progress(1.0)
            return results
    grid = build_grid(search.estimator, stages.last_stage(start, chosen))
    return [*results, search.run(folds, grid, component_counts, (_STAGE_SHARES[1], 1.0))]


def counts_about(chosen: int, component_counts: Sequence[int] | Ints) -> tuple[int, ...]:
    """Return a few numbers of components about one, by powers of two.

    Parameters
    ----------
    chosen : int
        Number of components.
    component_counts : sequence of int
        Numbers that exist.

    Returns
    -------
    tuple of int
        Those nearest to a quarter, a half, the whole and the double of ``chosen``, increasing.
    """
    available = np.asarray(component_counts)
    wanted = chosen * 2.0 ** np.arange(-2, 2)
    nearest = [available[np.argmin(np.abs(np.log(available / number)))] for number in wanted]
    return tuple(sorted({int(number) for number in nearest}))


def _scored_counts(table: dict[str, Any], name: str) -> Ints:
    """Return the numbers of components for which a table has scores."""
    has_score = np.isfinite(table["mean_test_score"])
    return np.unique(table[f"param_{name}"][has_score].astype(int))
