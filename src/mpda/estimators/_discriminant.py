"""What MPDA and PMPDA share: the checks, the fit, and the linear map that is left of it."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mpda._typing import ArrayLike, Floats, Ints, Labels
from mpda._validation import check_count, check_jobs, check_number, check_option
from mpda.contributions import PatchRule, Plan
from mpda.discriminant import Discriminant, Penalties, fit_discriminant
from mpda.exceptions import SmallClassWarning


@dataclass(frozen=True)
class LabelledSamples:
    """X : (n, d) float64; y : (n,); classes : the distinct labels; members : indices by class."""

    X: Floats
    y: Labels
    dtype: np.dtype[Any]
    classes: Labels
    members: list[Ints]


class TangentDiscriminant(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta
):
    """A linear map learnt from labelled samples and their tangent spaces."""

    # Set by the constructors of the subclasses.
    n_components: int | None
    n_neighbors: int
    gamma: float
    alpha: float
    tangent_alpha: float | None
    eigenvalue_power: float
    units: str
    tangent_energy: float
    affinity: str
    solver: str
    n_jobs: int | None
    verbose: int

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike) -> TangentDiscriminant:
        """Learn the map from the samples X (n, d) and their labels y (n,)."""

    def transform(self, X: ArrayLike) -> Floats:
        """Map samples (n, d) to (n, n_components)."""
        check_is_fitted(self, "components_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        mapped = (X - self.mean_) @ self.components_.T
        return mapped.astype(X.dtype, copy=False)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """The samples (n, d) nearest to the training mean that map to X (n, n_components)."""
        check_is_fitted(self, "components_")
        X = check_array(X, dtype=[np.float64, np.float32])
        n_components = len(self.components_)
        if X.shape[1] != n_components:
            raise ValueError(
                f"X has {X.shape[1]} columns, but {type(self).__name__} maps to {n_components} "
                "components: give what transform returned."
            )
        basis, triangle = qr(self.components_.T, mode="economic")
        samples = (basis @ solve_triangular(triangle, X.T, trans=1)).T + self.mean_
        return samples.astype(X.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _checked(self, X: ArrayLike, y: ArrayLike) -> LabelledSamples:
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        classes, codes = distinct_labels(y)
        if classes.size < 2:
            raise ValueError(
                f"{type(self).__name__} separates classes, but y has only 1 class: "
                f"{classes.tolist()!r}. Give labels of at least 2 classes."
            )
        if not np.ptp(X, axis=0).any():
            raise ValueError("All samples of X are identical, so nothing can be learnt from them.")
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        return LabelledSamples(X.astype(np.float64), y, X.dtype, classes, members)

    def _learn(
        self,
        samples: LabelledSamples,
        patch_rules: Sequence[PatchRule | None],
        *,
        partition_neighbors: int = 0,
        anchors: bool = False,
    ) -> Discriminant:
        """Fit, and set the attributes that all discriminants have."""
        n_components = self.n_components
        if n_components is not None:
            n_components = check_count("n_components", n_components)
        beta = self.tangent_alpha
        penalties = Penalties(
            gamma=check_number("gamma", self.gamma),
            alpha=check_number("alpha", self.alpha),
            tangent_alpha=None if beta is None else check_number("tangent_alpha", beta),
            relative=check_option("units", self.units, ("relative", "absolute")) == "relative",
        )
        plan = Plan(
            n_neighbors=check_count("n_neighbors", self.n_neighbors),
            partition_neighbors=partition_neighbors,
            tangent_energy=check_number("tangent_energy", self.tangent_energy, most=1.0),
            full_affinity=check_option("affinity", self.affinity, ("knn", "full")) == "full",
            anchors=anchors,
        )
        power = check_number("eigenvalue_power", self.eigenvalue_power)
        solver = check_option("solver", self.solver, ("reduced", "two-stage"))
        _warn_of_small_classes(samples, plan.n_neighbors)
        found = fit_discriminant(
            samples.X,
            samples.members,
            patch_rules,
            plan,
            penalties,
            two_stage=solver == "two-stage",
            n_components=n_components,
            n_jobs=check_jobs(self.n_jobs),
            report=type(self).__name__ if self.verbose else None,
        )
        lambdas = found.directions.eigenvalues
        scale = (lambdas / lambdas[:1]) ** power
        self.classes_ = samples.classes
        self.mean_ = found.mean.astype(samples.dtype, copy=False)
        self.components_ = (found.directions.vectors * scale).T.astype(samples.dtype, order="C")
        self.eigenvalues_ = lambdas
        self.residual_ = found.residual
        self.units_ = {
            "gamma": found.strengths.gamma,
            "alpha": found.strengths.alpha,
            "beta": found.strengths.beta,
        }
        return found


def distinct_labels(y: Labels) -> tuple[Labels, Ints]:
    """The distinct class labels, sorted, and the place of each label among them."""
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise TypeError(f"y must hold labels of one kind, got {', '.join(kinds)}.") from error
    check_classification_targets(y)
    return classes, codes


def _warn_of_small_classes(samples: LabelledSamples, n_neighbors: int) -> None:
    sizes = [members.size for members in samples.members]
    small = [i for i, size in enumerate(sizes) if size <= n_neighbors]
    if small:
        labels = samples.classes.tolist()
        named = ", ".join(f"{labels[i]!r} ({sizes[i]} in all)" for i in small[:5])
        rest = f" and {len(small) - 5} more" if len(small) > 5 else ""
        warnings.warn(
            f"n_neighbors={n_neighbors} is cut to the number of other samples in class {named}"
            f"{rest}. A smaller n_neighbors or more samples of these classes avoids this.",
            SmallClassWarning,
            stacklevel=4,
        )
