"""The first map of a refinement: methods, pipelines and frozen models that it may start from.

A refinement starts from the components of a fitted linear method, which may be the last step of a
pipeline. Depends on ``_linear_methods``, which fits methods and reads their matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import has_fit_parameter, validate_data

from mpda._lib.array_types import ArrayLike
from mpda.estimators._base import ComponentPath, LinearMap
from mpda.estimators._linear_methods import fit_paths, has_plain_map, read_map


class MethodSteps(NamedTuple):
    """The steps of a first method: a pipeline of those before the last or None, and the last."""

    earlier: Any
    last: Any
    is_frozen: bool


def split_pipeline(model: Any) -> MethodSteps:
    """Return the steps of a method, also of pipelines in pipelines.

    An object that cannot be fitted is frozen.
    """
    # Imported here, because importing mpda loads no more of scikit-learn than neighbours.
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline, make_pipeline

    earlier: list[Any] = []
    is_frozen = False
    while isinstance(model, FrozenEstimator | Pipeline):
        if isinstance(model, FrozenEstimator):
            is_frozen, model = True, model.estimator
        else:
            earlier += [step for _, step in model.steps[:-1]]
            model = model.steps[-1][1]
    is_frozen = is_frozen or not hasattr(model, "fit")
    return MethodSteps(make_pipeline(*earlier) if earlier else None, model, is_frozen)


def count_requested(model: Any) -> int | None:
    """Return the number of components that is set on a first method, None if there is none.

    Of a search it is the selected number, of a refinement without a number that of its start.
    """
    last = split_pipeline(model).last
    last = split_pipeline(getattr(last, "best_estimator_", last)).last
    number = getattr(last, "n_components", None)
    if number is None and isinstance(last, LinearMap) and hasattr(last, "estimator"):
        return count_requested(last.estimator)
    # PCA(0.9) has none.
    return int(number) if isinstance(number, Integral) and not isinstance(number, bool) else None


def refuse_nonlinear_start(start: Any) -> None:
    """Raise an error if a method that is not linear would be fitted in vain."""
    from mpda.io.affine_maps import has_affine_map

    _, method, is_frozen = split_pipeline(start)
    if hasattr(method, "refit"):  # a search
        if not is_frozen:
            raise TypeError(
                f"estimator must not be a search, got {method!r}. Fit the search first, and give "
                "FrozenEstimator(search.best_estimator_)."
            )
    elif not (has_affine_map(method) or (is_frozen and has_plain_map(method))):
        raise TypeError(
            f"estimator must be a linear method, which has a matrix to refine, got {method!r}. "
            "Refine MPDA, another linear method of this package, or PCA, TruncatedSVD, "
            "LinearDiscriminantAnalysis or NeighborhoodComponentsAnalysis of scikit-learn, or a "
            "FrozenEstimator of a fitted object with components_ and mean_; methods that are not "
            "linear may come before it in a pipeline."
        )


def refuse_start_in_memory(start: Any) -> None:
    """Raise an error if a first method would bring a Dask collection into memory.

    A frozen last step, or a frozen pipeline, is not fitted. Earlier steps transform the collection.
    """
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline

    steps = []
    while isinstance(start, Pipeline):
        steps += [step for _, step in start.steps[:-1]]
        start = start.steps[-1][1]
    if not isinstance(start, FrozenEstimator) and hasattr(start, "fit"):
        steps.append(start)
    methods = [split_pipeline(step).last for step in steps]
    others = [method for method in methods if not isinstance(method, LinearMap)]
    if others:
        raise TypeError(
            f"{type(others[0]).__name__} would bring the Dask collection into memory. Refine a "
            "method that is fitted on the cluster, such as MPDA, LFDA or GramPCA, or a fitted "
            "model in a FrozenEstimator; if X fits into memory, give X.compute() and y.compute()."
        )


def fit_start(start: Any, X: Any, y: Any, sample_weight: ArrayLike | None) -> Any:
    """Return the first method, fitted; the last step of a pipeline gets the weights, if it can."""
    earlier, last, is_frozen = split_pipeline(start)
    if earlier is None and not hasattr(last, "fit"):  # a fitted map only
        return start
    takes_weights = has_fit_parameter(last, "sample_weight")
    if sample_weight is None or not takes_weights or is_frozen:
        return start.fit(X, y)
    # Step by step, because a pipeline hands weights on in two ways, with metadata routing or not.
    features = X if earlier is None else earlier.fit_transform(X, y)
    last.fit(features, y, sample_weight=sample_weight)
    return start


def check_features(model: Any, X: Any) -> None:
    """Raise an error if a fitted method has seen other features.

    Names are compared where both have them; scikit-learn would warn where only one has.
    """
    n_features = getattr(model, "n_features_in_", None)
    if n_features is None and hasattr(model, "components_"):
        n_features = np.shape(model.components_)[-1]
    is_estimator = hasattr(model, "__sklearn_tags__")
    if is_estimator and hasattr(X, "columns") == hasattr(model, "feature_names_in_"):
        validate_data(model, X, reset=False, skip_check_array=True)
    elif n_features is not None and np.shape(X)[1] != n_features:
        raise ValueError(
            f"X has {np.shape(X)[1]} features, but the frozen {type(model).__name__} was fitted to "
            f"{n_features} features."
        )


def fit_starts(
    start: Any,
    X: ArrayLike,
    y: ArrayLike,
    parameter_sets: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] | None,
) -> Iterator[ComponentPath]:
    """Yield the first maps, shared between parameter sets where the method can share work."""
    from sklearn.pipeline import Pipeline

    earlier, last, is_frozen = split_pipeline(start)
    if isinstance(start, Pipeline) or earlier is not None:
        raise TypeError(
            "A search refines the last step of a pipeline: put the earlier steps of the estimator, "
            "frozen ones too, before the refinement, as in make_pipeline(StandardScaler(), "
            "NeighborhoodRefinement(MPDA()))."
        )
    if is_frozen:
        for index in range(len(parameter_sets)):
            matrix, mean = read_map(last)
            yield ComponentPath(index, matrix, mean=mean)
        return
    yield from fit_paths(start, X, y, parameter_sets, n_components)
