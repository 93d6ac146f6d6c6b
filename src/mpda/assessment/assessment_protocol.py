"""Settings of a nested cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda.assessment.contender import Contender
from mpda.assessment.data_split import Split
from mpda.assessment.preparation import Preparation, decide_preparation


@dataclass(frozen=True)
class AssessmentProtocol:
    """Settings of a nested cross-validation.

    Parameters
    ----------
    n_folds : int, default=5
        Outer folds, which measure the error.
    n_inner : int, default=4
        Inner folds, which choose parameters and the number of components.
    scaled : bool or None, default=None
        True standardises the features. None decides it on the training samples.
    energy : float, str or None, default="auto"
        Share of the variance that PCA keeps before the method; None is no PCA. ``"auto"`` decides
        above 100 features, on the training samples, between 0.95 and no PCA.
    n_components : int or None, default=None
        Number of components. None lets the inner folds choose. A method that has fewer components
        uses all it has.
    seed : int, default=0
        Seed of all folds.
    fewest : bool, default=True
        True keeps the fewest components within one standard error of the best score, False those
        of the best score.
    max_samples : int or None, default=10000
        Samples that choose parameters and the number of components, a stratified subset of the
        training samples. None takes all.
    max_tests : int or None, default=4000
        Test samples of an outer fold, a stratified subset. None takes all.
    columns : ColumnTransformer, SimpleImputer or None, default=None
        First step, not fitted, if columns are text or have missing values. Samples may then be a
        data frame.
    scoring : {"accuracy", "balanced_accuracy"}, default="accuracy"
        Score by which settings are chosen.
    n_refined : int or None, default=None
        Where the method is chosen among several: how many of them are refined, those that are best
        without. None refines all of them.
    by_cosine : bool, default=False
        True for embeddings: measures of retrieval of the raw ones are those of the vectors as they
        are, compared by the cosine. False takes them as 1-NN does, standardised if that is so.
    for_unseen : bool, default=False
        True chooses settings by the MAP@R of classes that the inner folds hold out.
    """

    n_folds: int = 5
    n_inner: int = 4
    scaled: bool | None = None
    energy: float | str | None = "auto"
    n_components: int | None = None
    seed: int = 0
    fewest: bool = True
    max_samples: int | None = 10_000
    max_tests: int | None = 4000
    columns: Any = None
    scoring: str = "accuracy"
    n_refined: int | None = None
    by_cosine: bool = False
    for_unseen: bool = False

    def take_samples(self, X: Any) -> Any:
        """Return samples as the steps of this protocol take them.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_columns)
            Samples.

        Returns
        -------
        array or data frame of shape (n_samples, n_columns)
            An array, unless the first step needs the columns of a data frame.
        """
        return np.asarray(X) if self.columns is None else X

    def count_choosing(self, n_samples: int) -> int:
        """Return how many samples choose settings.

        Parameters
        ----------
        n_samples : int
            Training samples.

        Returns
        -------
        int
            At most ``max_samples``.
        """
        return n_samples if self.max_samples is None else min(n_samples, self.max_samples)

    def prepare(self, contender: Contender, samples: Split) -> Preparation:
        """Decide what happens to the features before a method.

        Parameters
        ----------
        contender : Contender
            Method.
        samples : Split
            Training samples; the test samples are not used.

        Returns
        -------
        Preparation
            Steps and reasons.
        """
        return decide_preparation(
            contender,
            samples,
            scaled=self.scaled,
            energy=self.energy,
            seed=self.seed,
            columns=self.columns,
            scoring=self.scoring,
            for_unseen=self.for_unseen,
        )
