"""Whether features are standardised, and whether PCA comes before the method.

Both are decided by cross-validation on the training samples: standardising by leave-one-out 1-NN,
so that all methods of a comparison have the same features, and PCA by the method itself, because
1-NN on the features says little about it. PCA helps where samples are few; on embeddings it may
take away what separates the classes.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mpda._lib.array_types import Ints, Labels
from mpda.assessment import data_split
from mpda.assessment.contender import Contender, Step, make_contender
from mpda.assessment.data_split import PCA_ENERGY, PCA_MIN_FEATURES, Split
from mpda.assessment.parameter_scores import compute_scores
from mpda.model_selection.fold_scores import sparse_numbers
from mpda.model_selection.folds import Folds, split_groups, stratified_order

# Samples and folds that decide about PCA: it is one of several choices, and must take seconds.
_MAX_JUDGES, _N_FOLDS = 2000, 2
# Features above which a fit without PCA takes too long, unless samples are as few.
_MAX_FEATURES = 1000


@dataclass(frozen=True)
class Preparation:
    """Steps before a method.

    Parameters
    ----------
    scaled : bool
        True if features are standardised.
    energy : float or None
        Share of the variance that PCA keeps, None without PCA.
    reasons : tuple of str
        Why, where it was decided by cross-validation.
    """

    scaled: bool
    energy: float | None
    reasons: tuple[str, ...] = ()

    def make_steps(self) -> list[Step]:
        """Return the steps, not fitted.

        Returns
        -------
        list of (str, transformer)
            As `make_preprocessing` returns them.
        """
        return data_split.make_preprocessing(scaled=self.scaled, energy=self.energy)


def decide_preparation(
    contender: Contender,
    samples: Split,
    *,
    scaled: bool | None,
    energy: float | str | None,
    seed: int,
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

    Returns
    -------
    Preparation
        The decision.
    """
    reasons = []
    if scaled is None:
        errors = data_split.measure_scaling(samples.X, samples.y, seed)
        scaled = errors.scaled < errors.raw
        raw, standard = f"{100 * errors.raw:.1f} %", f"{100 * errors.scaled:.1f} %"
        if scaled:
            reasons.append(f"standardised: 1-NN on the features errs on {standard}, else on {raw}")
        else:
            reasons.append(
                f"not standardised: 1-NN on the features errs on {raw}, standardised on {standard}"
            )
    if not isinstance(energy, str):
        return Preparation(scaled, energy, tuple(reasons))
    n, d = samples.X.shape
    if d <= PCA_MIN_FEATURES or contender.method is None:
        return Preparation(scaled, None, tuple(reasons))
    if min(n, d) > _MAX_FEATURES:
        return Preparation(scaled, PCA_ENERGY, tuple(reasons))
    judge = _choose_judge(contender)
    with_pca, without = (
        _measure_error(judge, samples, Preparation(scaled, value).make_steps(), seed)
        for value in (PCA_ENERGY, None)
    )
    share = f"PCA to {100 * PCA_ENERGY:.0f} % of the variance"
    if with_pca <= without:
        text = f"{share}: {judge.name} errs on {with_pca:.1f} %, without PCA on {without:.1f} %"
        return Preparation(scaled, PCA_ENERGY, (*reasons, text))
    text = f"no PCA: {judge.name} errs on {without:.1f} %, with {share} on {with_pca:.1f} %"
    return Preparation(scaled, None, (*reasons, text))


def _choose_judge(contender: Contender) -> Contender:
    """Return the method with its usual parameters; MPDA for methods that take long."""
    method = contender.method
    if method is None or method.start or contender.dimensions is not None:
        return make_contender("MPDA", search=False)
    return replace(contender, grid={})


def _measure_error(contender: Contender, samples: Split, steps: list[Step], seed: int) -> float:
    """Return the least error in per cent over numbers of components, on two folds."""
    drawn = stratified_order(samples.y, 1, np.random.default_rng(seed))[:_MAX_JUDGES]
    X, y = samples.X[drawn], samples.y[drawn]
    folds = _draw_folds(y, None if samples.groups is None else samples.groups[drawn], seed)
    contender = replace(contender, steps=tuple(steps))
    assert contender.method is not None
    if contender.method.is_ours:  # a few numbers are enough to compare
        contender = replace(contender, dimensions=tuple(sparse_numbers(X.shape[1]).tolist()))
    return 100.0 * (1.0 - float(np.nanmax(compute_scores(contender, {}, X, y, folds).scores)))


def _draw_folds(y: Labels, groups: Ints | Labels | None, seed: int) -> Folds:
    if groups is not None:
        return split_groups(y, groups, _N_FOLDS, seed)
    return list(StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed).split(y, y))
