"""Samples of a file, whatever kind it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpda._lib.array_types import Array, Ints, Labels
from mpda.exceptions import TableError


@dataclass(frozen=True)
class Table:
    """Samples of a file.

    name : of the file
    X : (n, d)
    y : (n,) labels, None where there are none
    label : what the file calls the labels
    features : names of the features, None for arrays
    rows : (n,) the number of each sample in the file, from 1
    others : columns that are neither features nor labels
    """

    name: str
    X: Array
    y: Labels | None
    label: str | None
    features: tuple[str, ...] | None
    rows: Ints
    others: dict[str, Any]

    @property
    def labels(self) -> Labels:
        """y, where it is needed."""
        if self.y is None:
            raise TableError(f"{self.name} has no labels; --label names them.")
        return self.y

    def named(self) -> Any:
        """X as a data frame where features have names, so that a model keeps them."""
        if self.features is None:
            return self.X
        import pandas as pd

        return pd.DataFrame(self.X, columns=list(self.features), copy=False)
