"""Run the sketches of docs/guide/merging.md on Spark and Ray, with two workers on this machine.

    python benchmarks/merging.py [spark] [ray]

Prints how far the components of the merged fit are from those of one fit. Needs pyspark (and Java)
or ray, and pandas with pyarrow.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from mpda import MPDA
from protocol import provenance

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "merging.md"
PARAMETERS: dict[str, Any] = {"units": "absolute", "gamma": 30.0, "alpha": 3000.0}
PACKAGES = {"spark": "pyspark", "ray": "ray"}


def read_sketch(system: str) -> str:
    """Return the Python code of the guide's section about a system."""
    section = GUIDE.read_text(encoding="utf-8").split(f"## {system.capitalize()}\n")[1]
    found = re.search(r"```py\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


def start(system: str) -> dict[str, Any]:
    """Start two workers; return the names that the sketch expects."""
    if system == "ray":
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        return {}
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark would otherwise join the partitions of such a small table to one.
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "4"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return {"spark": builder.getOrCreate()}


def main() -> None:
    X, y = load_digits(return_X_y=True)
    frame = pd.DataFrame(X, columns=[f"pixel {j}" for j in range(X.shape[1])]).assign(label=y)
    expected = MPDA(n_components=10, **PARAMETERS).fit(X, y).components_
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        frame.to_parquet("samples")
        files = []
        for label, rows in frame.groupby("label"):
            files.append(str(Path(f"class-{label}.parquet").absolute()))
            rows.to_parquet(files[-1])
        for system in sys.argv[1:] or PACKAGES:
            names = {"parameters": PARAMETERS, "files_by_class": files, **start(system)}
            exec(read_sketch(system), names)
            summaries = len(names["found"] if system == "spark" else names["summaries"])
            difference = np.abs(names["model"].components_ - expected).max()
            print(
                f"{system} {version(PACKAGES[system])}: {summaries} summaries, largest difference "
                f"{difference / np.abs(expected).max():.0e} of the largest coefficient"
            )
    print(provenance())


if __name__ == "__main__":
    main()
