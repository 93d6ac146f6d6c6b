"""Names that the parser has to know without importing what they stand for."""

from __future__ import annotations

from enum import StrEnum


class Experiment(StrEnum):
    """Experiments of the paper."""

    TABLE1 = "table1"
    TABLE2 = "table2"
    DIMENSION = "dimension"
    SENSITIVITY = "sensitivity"
    USPS = "usps"
    PARTITION = "partition"


class Scale(StrEnum):
    """Whether features are standardised."""

    AUTO = "auto"
    NONE = "none"
    STANDARD = "standard"


EXPERIMENTS = tuple(Experiment)
# Endings of files that commands take.
FILES = (
    *(".csv", ".tsv", ".gz", ".parquet", ".arrow", ".feather", ".npy", ".npz"),
    *(".mpda", ".json", ".jsonl", ".html"),
)


def method_names() -> list[str]:
    """For shell completion and help."""
    from mpda.model_selection.methods import BY_NAME

    return [name.lower().replace(" ", "-") for name in BY_NAME]
