"""Whether features are standardised, and whether PCA comes before the method.

Both are decided by cross-validation on the training samples, by the method itself: what helps 1-NN
on the features may harm a method that weights them. PCA helps where samples are few; on embeddings
it may take away what separates the classes.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from mpda._lib.array_types import Floats, Labels
from mpda._lib.validation import feature_range, scale_exponent
from mpda.assessment import data_split
from mpda.assessment.column_transformer import encode_samples, make_column_steps
from mpda.assessment.contender import Contender, Step, make_contender
from mpda.assessment.data_split import PCA_ENERGY, PCA_MIN_FEATURES, Split
from mpda.estimators._base import sparse_counts
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.folds import stratified_folds, stratified_order
from mpda.model_selection.unseen_classes import draw_unseen_folds

# Samples and folds that decide about PCA: it is one of several choices, and must take seconds.
_MAX_JUDGES, _N_FOLDS = 1000, 2
# Features above which a fit without PCA takes too long, unless samples are as few.
_MAX_FEATURES = 1000
_TOO_LARGE = (
    f"PCA to {100 * PCA_ENERGY:g} % of the variance comes first, because a fit to more than "
    f"{_MAX_FEATURES} features takes long; whether it costs accuracy was not tested (--pca none)"
)
_TOO_FEW = "classes are too small for cross-validation"


@dataclass(frozen=True)
class Preparation:
    """Steps before a method.

    Parameters
    ----------
    scaled : bool
        True if features are standardised.
    energy : float or None
        Share of the variance that PCA keeps, None without PCA.
    reasons : tuple of str, default=()
        Errors of what was tried, where cross-validation decided, and other reasons.
    columns : ColumnTransformer, SimpleImputer or None, default=None
        First step, not fitted, for columns that are not complete numbers.
    tall : bool, default=False
        True if there are more samples than features.
    """

    scaled: bool
    energy: float | None
    reasons: tuple[str, ...] = ()
    columns: Any = None
    tall: bool = False

    def describe(self) -> str:
        """Return for example "standardised and after PCA"."""
        steps = ["standardised"] if self.scaled else []
        if self.energy is not None:
            steps.append(f"after PCA to {100 * self.energy:g} % of the variance")
        return " and ".join(steps) or "with the features as they are"

    def make_steps(self) -> list[Step]:
        """Return the steps, not fitted.

        Returns
        -------
        list of (str, transformer)
            The step of the columns, then those of `make_preprocessing`.
        """
        steps = data_split.make_preprocessing(
            scaled=self.scaled, energy=self.energy, tall=self.tall
        )
        return [*make_column_steps(self.columns), *steps]


def decide_preparation(
    contender: Contender,
    samples: Split,
    *,
    scaled: bool | None,
    energy: float | str | None,
    seed: int,
    columns: Any = None,
    scoring: str = "accuracy",
    for_unseen: bool = False,
) -> Preparation:
    """Decide what happens to the features before a method.

    Parameters
    ----------
    contender : Contender
        Method.
    samples : Split
        Training samples; the test samples are not used.
    scaled : bool or None
        None decides whether to standardise.
    energy : float, "auto" or None
        "auto" decides whether to apply PCA.
    seed : int
        Seed of the draws.
    columns : ColumnTransformer, SimpleImputer or None, default=None
        First step for columns that are not complete numbers.
    scoring : str, default="accuracy"
        Score that decides; 1-NN on the features is always judged by its accuracy.
    for_unseen : bool, default=False
        True judges the method by the accuracy of 1-NN among classes that the folds hold out.

    Returns
    -------
    Preparation
        The decision.
    """
    X = encode_samples(columns, samples.X)
    if contender.method is None:
        return replace(prepare_features(X, samples.y, scaled, seed), columns=columns)
    n, d = X.shape
    energies: list[float | None] = [None]
    reasons: tuple[str, ...] = ()
    if not isinstance(energy, str):
        energies = [energy]
    elif d > PCA_MIN_FEATURES and min(n, d) > _MAX_FEATURES:
        energies, reasons = [PCA_ENERGY], (_TOO_LARGE,)
    elif d > PCA_MIN_FEATURES:
        energies = [None, PCA_ENERGY]

    def decide_without_method() -> Preparation:
        """Decide about the scale by 1-NN; without evidence there is no PCA."""
        decided = prepare_features(X, samples.y, scaled, seed)
        # Without the errors of 1-NN: those of so few samples say little.
        effect = "lowers" if decided.scaled else "does not lower"
        scale = f"{decided.describe()}: standardising {effect} the error of 1-NN, and {_TOO_FEW}"
        untested: tuple[str, ...] = (scale,) if scaled is None else ()
        if len(energies) > 1:
            untested += (f"no PCA: {_TOO_FEW} (--pca {PCA_ENERGY:g} applies it)",)
        reasons_of_all = (*untested, *reasons)
        return replace(
            decided, energy=energies[0], reasons=reasons_of_all, columns=columns, tall=n > d
        )

    if np.unique(samples.y, return_counts=True)[1].max() < 2 * _N_FOLDS:
        return decide_without_method()
    scalings = [False, True] if scaled is None else [scaled]
    judge = _choose_judge(contender)
    tried: dict[Preparation, float] = {}

    def best_of(candidates: list[Preparation]) -> Preparation:
        # At equal errors the first one, which has the fewest steps.
        for entry in candidates if len(candidates) > 1 else []:
            if entry not in tried:
                measure = partial(_measure_error, scoring=scoring, for_unseen=for_unseen)
                tried[entry] = measure(judge, samples, entry, d, seed)
        return min(candidates, key=lambda entry: round(tried.get(entry, 0.0), 9))

    try:
        # First the scale, then PCA: three fits instead of four.
        first = Preparation(scalings[0], energies[0], columns=columns, tall=n > d)
        best = best_of([replace(first, scaled=scale) for scale in scalings])
        best = best_of([replace(best, energy=share) for share in energies])
    except ValueError:  # classes too small for two folds, or no fit: the method itself will say so
        return decide_without_method()
    if tried:
        errors = [f"{error:.1f} % {entry.describe()}" for entry, error in tried.items()]
        verb = "errs on" if scoring == "accuracy" else "has a balanced error of"
        reasons = (f"by cross-validation: {judge.name} {verb} {', '.join(errors)}", *reasons)
    return replace(best, reasons=reasons)


def prepare_features(X: Floats, y: Labels, scaled: bool | None, seed: int) -> Preparation:
    """Decide whether features are standardised for 1-NN on them, by leaving one sample out.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Training samples, complete numbers.
    y : array of shape (n_samples,)
        Labels.
    scaled : bool or None
        None decides.
    seed : int
        Seed of the draw.

    Returns
    -------
    Preparation
        Without PCA.
    """
    if scaled is not None:
        return Preparation(scaled, None)
    errors = data_split.measure_scaling(X, y, seed)
    raw, standard = Preparation(scaled=False, energy=None), Preparation(scaled=True, energy=None)
    reason = (
        f"by leaving one sample out: 1-NN errs on {100 * errors.raw:.1f} % {raw.describe()}, "
        f"{100 * errors.scaled:.1f} % {standard.describe()}"
    )
    return replace(standard if errors.scaled < errors.raw else raw, reasons=(reason,))


def _choose_judge(contender: Contender) -> Contender:
    """Return the method with its usual parameters.

    A refinement is judged by its start, other methods that take long by MPDA.
    """
    method = contender.method
    if method is not None and method.start:
        return make_contender(method.start, search=False)
    if method is None or method.fits_each_number:
        return make_contender("MPDA", search=False)
    return replace(contender, grid={})


def _measure_error(
    contender: Contender,
    samples: Split,
    preparation: Preparation,
    n_features: int,
    seed: int,
    *,
    scoring: str,
    for_unseen: bool,
) -> float:
    """Return the least error in per cent over numbers of components, on two folds."""
    drawn = stratified_order(samples.y, 1, np.random.default_rng(seed))[:_MAX_JUDGES]
    X, y = _safe_indexing(samples.X, drawn), samples.y[drawn]
    groups = None if samples.groups is None else samples.groups[drawn]
    draw = draw_unseen_folds if for_unseen else stratified_folds
    folds = draw(y, _N_FOLDS, seed, groups)
    if preparation.columns is None:
        # By a power of two, which rounds nothing, so that no square overflows.
        X = np.ldexp(X, -scale_exponent(*feature_range(X)))
    search = DiscriminantSearchCV(
        contender.estimator({}, steps=preparation.make_steps()),
        {},
        cv=folds,
        n_components=sparse_counts(n_features),  # a few numbers are enough to compare
        halving=False,
        scoring=scoring,
        refit=False,
    ).fit(X, y)
    return 100.0 * (1.0 - float(np.nanmax(search.cv_results_["mean_test_score"])))
