"""Large data: growth of time and memory, full MNIST, a million samples, and what scale costs.

    python benchmarks/scale.py STUDY [--data DIR] [--out DIR]

growth      exponents of MPDA's time in classes, class size and features, with peak memory
mnist       the 60000 training images after PCA: MPDA and PMPDA against the k-NN inside classes, and
            the 1-NN errors of the methods on the 10000 test images
million     1,000,000 x 64 samples in single precision, 100 classes, in memory and on disk
database    mpda fit --database on 1,000,000 x 384 vectors in single precision on disk
refinement  the second stage on full MNIST and on a million samples, and at full rank on CLINC150
search      the search of MPDA on 20,000 samples against one fit, and that of PMPDA on USPS
patches     the rule of the paper and the principal-axis tree: sizes, linearity, error
neighbors   the approximate search by faiss next to the exact one: neighbours found, time
precision   subspace errors of single precision, where it is used and where it is not

Every fit runs in a process of its own; its memory is the highest resident size above what stood
before the samples were loaded, or above the samples where that is said.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import normalize

import mpda
from mpda import LFDA, MPDA, PMPDA, ManifoldPartition, cli
from mpda.cli.tables.blocks import BLOCK_NUMBERS
from mpda.discriminant import schur_complement as reductions
from mpda.experiments.embeddings import load_embeddings
from mpda.experiments.paper_methods import select_contenders
from mpda.experiments.protocol import N_FOLDS, PROBLEMS, SEEDS, compute_fingerprint
from mpda.experiments.task import Task, measure_errors
from mpda.io import affine_map
from mpda.model_selection import DiscriminantSearchCV
from mpda.neighbors.approximate_search import search_neighbors
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, find_neighbors
from mpda.partition.geodesics import geodesic_distances
from mpda.partition.principal_axis_tree import principal_axis_partition
from mpda.partition.rules import PartitionRule
from mpda.partition.split import known_partition
from protocol import (
    FIRST_SEED,
    Array,
    Split,
    data_argument,
    highest_resident,
    load,
    provenance,
    resident,
    split,
)

# A number for tangent_alpha: with None the tangent block fades as classes grow.
NUMERIC: dict[str, Any] = {"tangent_alpha": 0.1}
_SHORT_TREE = "tree, of 32 components of each class"


def write_sheets(path: Path, sizes: list[int], d: int) -> Array:
    """Classes that are curved sheets, in single precision and mixed, written class by class."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(sizes)), sizes)
    y = y[rng.permutation(y.size)]
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(y.size, d))
    for c, size in enumerate(sizes):
        u = rng.uniform(-1.0, 1.0, size=(size, 3))
        bent = np.column_stack([u, u**2, np.sin(3.0 * u)])
        turned = bent @ (rng.normal(size=(9, d)) / 3.0) + 0.7 * rng.normal(size=d)
        X[y == c] = turned + 0.1 * rng.normal(size=(size, d))
    X.flush()
    return y


def measured(folder: Path, fit: dict[str, Any], repeats: int = 1) -> dict[str, Any]:
    """Seconds and MiB of a fit of X.npy and y.npy in a fresh process."""
    order = json.dumps({"folder": str(folder), "repeats": repeats, **fit})
    printed = subprocess.check_output([sys.executable, __file__, "fit", "--order", order])
    return dict(json.loads(printed))


def _run_in_this_process(words: list[str], warm: list[str]) -> None:
    """Print the seconds of a command and its highest resident MiB above that of a small one."""
    for each in (warm, words):
        before, begin = resident(), time.perf_counter()
        try:
            cli.run(each)
        except SystemExit as stopped:
            if stopped.code:
                raise
    result = {"seconds": time.perf_counter() - begin, "above_start": highest_resident() - before}
    print(json.dumps(result))


def _fit_in_this_process(order: dict[str, Any]) -> None:
    """What ``measured`` runs: print the seconds of the best fit and the highest resident MiB."""
    folder = Path(order["folder"])
    y = np.load(folder / "y.npy")
    model = getattr(mpda, order["method"])(**order["parameters"])
    warm = np.random.default_rng(0).normal(size=(300, 20))
    MPDA(2).fit(warm, np.arange(300) % 3)
    before = resident()
    X = np.load(folder / "X.npy", mmap_mode="r" if order.get("mapped") else None)
    loaded = resident()
    seconds = []
    is_refined = "refined" in order
    if is_refined:
        begin = time.perf_counter()
        start = FrozenEstimator(model.fit(X, y))
        model = mpda.NeighborhoodRefinement(start, **order["refined"])
        start_seconds = time.perf_counter() - begin
    for _ in range(order["repeats"]):
        begin = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - begin)
    peak = highest_resident()
    result = {
        "seconds": min(seconds),
        "above_start": peak - before,
        "above_data": peak - loaded,
        "data": X.nbytes / 2**20,
    }
    if is_refined:
        result["start_seconds"] = start_seconds
        linear = affine_map(model)
        np.savez(folder / "map.npz", matrix=linear.matrix, mean=linear.mean, offset=linear.offset)
        np.save(folder / "start.npy", model.start_components_)
    else:
        result["solvers"] = sorted(set(model.class_solvers_))
    print(json.dumps(result))


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log(seconds) over the three largest sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])


def growth(data: Path | None) -> Iterator[str]:
    exact = {"partition": "geodesic", "neighbor_search": "exact"}
    scalable = {"partition": "auto", "neighbor_search": "faiss"}
    studies: list[tuple[str, list[int], Callable[[int], tuple[list[int], int]], Any, str]] = [
        ("classes (of 200)", [20, 40, 80, 160], lambda n: ([200] * n, 50), {}, "<= 1.1"),
        ("class size, exact", [500, 1000, 2000, 4000], lambda n: ([n, n], 50), exact, "<= 2.3"),
        (
            "class size, scalable",
            [12_500, 25_000, 50_000, 100_000],
            lambda n: ([n, 1000], 50),
            scalable,
            "<= 1.35",
        ),
        ("features", [50, 100, 200, 400], lambda n: ([200] * 10, n), {}, ""),
    ]
    yield "| growth in | sizes | seconds | MiB above the data | exponent | claim | |"
    yield "|---|---|---|---|---|---|---|"
    for what, sizes, shape, parameters, claim in studies:
        fit = {"method": "MPDA", "parameters": {"n_components": 5, **NUMERIC, **parameters}}
        found: list[dict[str, Any]] = []
        with tempfile.TemporaryDirectory() as name:
            folders = [Path(name) / str(size) for size in sizes]
            for folder, size in zip(folders, sizes, strict=True):
                folder.mkdir()
                np.save(folder / "y.npy", write_sheets(folder / "X.npy", *shape(size)))
            # The sizes take turns, so that a machine that slows down does so for all of them.
            turns = 1 if max(sizes) > 5000 else 3
            for _ in range(turns):
                tried = [measured(folder, fit, repeats=2) for folder in folders]
                pairs = zip(found or tried, tried, strict=True)
                found = [min(pair, key=lambda each: each["seconds"]) for pair in pairs]
                for size, each in zip(sizes, tried, strict=True):
                    _say(f"{what} {size}: {each}")
        slope = exponent(sizes, [each["seconds"] for each in found])
        cells = [
            what,
            ", ".join(f"{size:,}" for size in sizes),
            ", ".join(f"{each['seconds']:.2g}" for each in found),
            ", ".join(f"{each['above_data']:.0f}" for each in found),
            f"{slope:.2f}",
            claim,
            _verdict(slope, claim),
        ]
        yield f"| {' | '.join(cells)} |"


def mnist(data: Path | None) -> Iterator[str]:
    X, y = load(data, "mnist")
    X = X / 255.0
    X_test, y_test = X[60_000:], y[60_000:]
    X, y = X[:60_000], y[:60_000]
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X)
    Z, Z_test = pca.transform(X), pca.transform(X_test)
    floors = []
    parameters = {"n_components": 40, "n_neighbors": 12, **NUMERIC}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "X.npy", Z)
        np.save(folder / "y.npy", y)
        for method, most in (*[("MPDA", 2.5)] * 5, ("PMPDA", 10.0)):
            # The search before and after every fit, because the speed of the machine varies.
            floors.append(_seconds(lambda: class_neighbors(Z, y, 12)))
            found = measured(folder, {"method": method, "parameters": parameters})
            floors.append(_seconds(lambda: class_neighbors(Z, y, 12)))
            _say(f"{method}: {found}, k-NN {floors[-2]:.2f} s and {floors[-1]:.2f} s")
            rows.append((method, most, found, found["seconds"] / np.mean(floors[-2:])))
    classes = [ClassPoints(Z[y == c]) for c in np.unique(y)]
    lists: list[NeighborLists] = []
    own = _seconds(lambda: lists.extend(search_neighbors(each, 12) for each in classes))
    cut = _seconds(
        lambda: [
            PartitionRule("auto", 10)(points, each.first(6))
            for points, each in zip(classes, lists, strict=True)
        ]
    )
    floors.append(_seconds(lambda: class_neighbors(Z, y, 12)))
    yield f"Full MNIST, {Z.shape[0]} x {Z.shape[1]} after PCA, k = 12; k-NN inside classes by"
    before = ", ".join(f"{each:.2f} s" for each in floors[:-1])
    yield f"scikit-learn's brute search, before and after each fit: {before}."
    yield f"Our exact search takes {own / floors[-1]:.2f} of that, and cutting the patches takes"
    yield f"{cut / floors[-1]:.2f} of it more."
    yield ""
    yield "| fit | seconds | times the k-NN | claim | MiB above the data | claim | |"
    yield "|---|---|---|---|---|---|---|"
    for method, most, found, ratio in rows:
        holds = ratio <= most and found["above_data"] <= 1536
        yield (
            f"| {method} | {found['seconds']:.1f} | {ratio:.1f} | <= {most:g} | "
            f"{found['above_data']:.0f} | <= 1536 | {'' if holds else 'does not hold'} |"
        )
    yield ""
    yield "| 1-NN error in per cent on the 10000 test images, 40 dimensions | |"
    yield "|---|---|"
    methods: dict[str, Any] = {
        "MPDA": MPDA(**parameters),
        "PMPDA": PMPDA(**parameters),
        "LFDA": LFDA(40),
        "LDA (9 dimensions)": LinearDiscriminantAnalysis(),
        "PCA": PCA(40, random_state=0),
    }
    for title, method in methods.items():
        method.fit(Z, y)
        wrong = _one_nn(method.transform(Z), y, method.transform(Z_test), y_test)
        _say(f"{title}: {wrong:.2f} %")
        yield f"| {title} | {wrong:.2f} |"
    yield f"| raw pixels (784) | {_one_nn(X, y, X_test, y_test):.2f} |"


def class_neighbors(X: Array, y: Array, k: int) -> None:
    for c in np.unique(y):
        part = X[y == c]
        NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(part).kneighbors(part)


def _one_nn(X: Array, y: Array, X_test: Array, y_test: Array) -> float:
    classifier = KNeighborsClassifier(1, algorithm="brute").fit(X, y)
    return 100.0 * float(np.mean(classifier.predict(X_test) != y_test))


def million(data: Path | None) -> Iterator[str]:
    fit = {"method": "MPDA", "parameters": {"n_components": 20, **NUMERIC}}
    yield (
        "| 1,000,000 x 64, single precision, 100 classes | seconds | bound | "
        "MiB above the start | times X | bound | |"
    )
    yield "|---|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "y.npy", write_sheets(folder / "X.npy", [10_000] * 100, 64))
        for title, mapped in (("in memory", False), ("on disk (memmap)", True)):
            found = measured(folder, {**fit, "mapped": mapped})
            _say(f"{title}: {found}")
            times = found["above_start"] / found["data"]
            holds = found["seconds"] <= 90 and times <= 2.5
            yield (
                f"| {title} | {found['seconds']:.0f} | <= 90 | {found['above_start']:.0f} | "
                f"{times:.2f} | <= 2.5 | {'' if holds else 'does not hold'} |"
            )


def database(data: Path | None, n: int = 1_000_000, d: int = 384) -> Iterator[str]:
    """The map of labelled rows and a database that is larger than memory may be."""
    title = f"{n:,} x {d}, single precision, on disk"
    yield f"| {title} | seconds | MiB above the start | blocks | bound | |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        y = write_sheets(folder / "X.npy", [n // 100] * 100, d)
        X = np.load(folder / "X.npy", mmap_mode="r")
        rows = np.flatnonzero(y < 50)[:5000]  # half of the classes have labels
        np.savez(folder / "labelled.npz", X=X[rows], y=y[rows])
        np.save(folder / "small.npy", X[:1000])
        del X
        fit = ["fit", str(folder / "labelled.npz"), "--components", "64", "--folds", "0", "--quiet"]
        fit += ["--json", "--out", str(folder / "map.mpda"), "--database"]
        order = {"warm": [*fit, str(folder / "small.npy")], "words": [*fit, str(folder / "X.npy")]}
        command = [sys.executable, __file__, "fit", "--order", json.dumps(order)]
        found = json.loads(subprocess.check_output(command).splitlines()[-1])
    _say(f"database: {found}")
    blocks = found["above_start"] / (BLOCK_NUMBERS * 4 / 2**20)
    yield (
        f"| mpda fit --database, 5,000 labelled rows | {found['seconds']:.0f} | "
        f"{found['above_start']:.0f} | {blocks:.1f} | <= 3 | {_verdict(blocks, '<= 3')} |"
    )


def refinement(data: Path | None) -> Iterator[str]:
    """The second stage alone: full MNIST to 40 numbers, a million samples to 20, an adapter."""
    X, y = load(data, "mnist")
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X[:60_000] / 255.0)
    Z = pca.transform(X / 255.0)
    sphere = {"radius": 1.0, "temperature": 2.0}
    shape = f"full MNIST, 60000 x {Z.shape[1]} to 40"
    yield "| refinement | seconds | claim | MiB above the data | claim | first map, seconds | |"
    yield "|---|---|---|---|---|---|---|"
    errors: list[tuple[str, float, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "X.npy", Z[:60_000])
        np.save(folder / "y.npy", y[:60_000])
        fit = {"method": "MPDA", "parameters": {"n_components": 40}}
        yield _refined_row(shape, measured(folder, {**fit, "refined": {"radius": None}}), 120)
        errors.append(("MPDA", _map_error(Z @ np.load(folder / "start.npy").T, y), ""))
        errors.append(("MPDA refined, Euclidean", _map_error(_apply_map(folder, Z), y), "<= 2.2"))
        found = measured(folder, {**fit, "refined": {**sphere, "n_components": 40}})
        yield _refined_row(f"{shape}, sphere", found, 120)
        mapped = normalize(_apply_map(folder, Z))
        errors.append(("MPDA refined, sphere", _map_error(mapped, y), "<= 2.0"))
        errors.append(("PCA", _map_error(Z[:, :40], y), ""))
        np.save(folder / "y.npy", write_sheets(folder / "X.npy", [10_000] * 100, 64))
        fit["parameters"] = {"n_components": 20}
        found = measured(folder, {**fit, "refined": {"radius": None}})
        yield _refined_row("1,000,000 x 64, single precision, to 20", found, None)
        texts, labels, is_test = load_embeddings("clinc150", data)
        np.save(folder / "X.npy", texts[~is_test].astype(np.float32))
        np.save(folder / "y.npy", labels[~is_test])
        order = {"method": "WithinClassWhitening", "parameters": {}, "refined": {"radius": 0.0}}
        title = f"CLINC150, {np.count_nonzero(~is_test)} x 384 to 384, whitening, cosine"
        yield _refined_row(title, measured(folder, order), None)
    yield ""
    yield "| 1-NN error in per cent on the 10000 test images, 40 numbers | | claim | |"
    yield "|---|---|---|---|"
    for title, wrong, claim in errors:
        yield f"| {title} | {wrong:.2f} | {claim} | {_verdict(wrong, claim)} |"


def _apply_map(folder: Path, X: Array) -> Array:
    """Map samples by the affine map that a fit in another process has written."""
    with np.load(folder / "map.npz") as linear:
        return np.asarray((X - linear["mean"]) @ linear["matrix"].T + linear["offset"])


def _map_error(mapped: Array, y: Array) -> float:
    """The 1-NN error on MNIST's test images in per cent."""
    return _one_nn(mapped[:60_000], y[:60_000], mapped[60_000:], y[60_000:])


def _refined_row(title: str, found: dict[str, Any], most: float | None) -> str:
    _say(f"{title}: {found}")
    holds = most is None or (found["seconds"] <= most and found["above_data"] <= 1536)
    claims = ("", "") if most is None else (f"<= {most:g}", "<= 1536")
    return (
        f"| {title} | {found['seconds']:.0f} | {claims[0]} | {found['above_data']:.0f} | "
        f"{claims[1]} | {found['start_seconds']:.0f} | {'' if holds else 'does not hold'} |"
    )


def _search_ratio(X: Array, y: Array, n_jobs: int | None) -> tuple[float, float, float]:
    """Seconds of the search over the default grid and of one fit, and their ratio."""
    one_fit = min(_seconds(lambda: MPDA(20).fit(X, y)) for _ in range(3))
    search = DiscriminantSearchCV(MPDA(), random_state=0, n_jobs=n_jobs)
    seconds = _seconds(lambda: search.fit(X, y))
    return seconds, one_fit, seconds / one_fit


def _numbers(ratio: tuple[float, float, float]) -> str:
    return f"{ratio[0]:.0f} | {ratio[1]:.1f} | {ratio[2]:.1f}"


def search(data: Path | None) -> Iterator[str]:
    """The default grid on 20,000 x 100 in 10 classes, and PMPDA's on one draw of USPS."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "X.npy"
        y = write_sheets(path, [2000] * 10, 100)
        X = np.load(path).astype(np.float64)
    yield "| search | seconds | one fit, seconds | ratio | bound | |"
    yield "|---|---|---|---|---|---|"
    title = "MPDA, 20,000 x 100 in 10 classes"
    for n_jobs, bound in ((2, "<= 10"), (None, "")):
        # One fit uses both cores, so the search does as well.
        ratio = _search_ratio(X, y, n_jobs)
        verdict = _verdict(ratio[2], bound) if bound else ""
        yield f"| {title}, n_jobs={n_jobs} | {_numbers(ratio)} | {bound} | {verdict} |"
    X[::1000] *= 100.0
    ratio = _search_ratio(X, y, 2)
    yield f"| the same, n_jobs=2, one sample in 1000 is 100 times as far | {_numbers(ratio)} | | |"
    problem = PROBLEMS["usps_eo"]
    (contender,) = select_contenders(["PMPDA"], [problem.name])
    task = Task(problem, contender, SEEDS[0], compute_fingerprint(problem, data))
    seconds = _seconds(lambda: measure_errors(task, data))
    yield (
        f"| PMPDA, a draw of {problem.title} ({len(ParameterGrid(dict(contender.grid)))} points, "
        f"{N_FOLDS} folds) | {seconds:.0f} | | | <= 60 s | {_verdict(seconds, '<= 60')} |"
    )


def patches(data: Path | None) -> Iterator[str]:
    """Both rules on classes that are small enough for all geodesics, and on a folded sheet."""
    X, y = load(data, "mnist")
    X = X / 255.0
    rng = np.random.default_rng(0)
    train = np.concatenate(
        [rng.permutation(np.flatnonzero(y[:60_000] == c))[:2500] for c in range(10)]
    )
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X[train])
    digits = Split(pca.transform(X[train]), y[train], pca.transform(X[60_000:]), y[60_000:])
    yield (
        "| samples | partition | CPU seconds | patches | mean size | mean R | "
        "MPDA's 1-NN error, 40 components |"
    )
    yield "|---|---|---|---|---|---|---|"
    for rule in ("geodesic", "tree", _SHORT_TREE, "euclidean"):
        yield _describe_patches("MNIST, 10 classes of 2500", rule, [digits])
    splits = list(_splits(data, "usps", 0.75))
    for rule in ("geodesic", "tree"):
        yield _describe_patches("USPS, 75 % for training, mean of three splits", rule, splits)
    yield ""
    yield "| MPDA's 1-NN error, 30 components | geodesic | tree |"
    yield "|---|---|---|"
    models = [MPDA(30, n_neighbors=12, partition=rule, **NUMERIC) for rule in ("geodesic", "tree")]
    splits = list(_splits(data, "semeion", 0.25))
    errors = [np.mean([_error(model.fit(s.X, s.y), s) for s in splits]) for model in models]
    title = "Semeion, 25 % for training, mean of three splits"
    yield f"| {title} | {errors[0]:.2f} | {errors[1]:.2f} |"
    yield ""
    gaps = (0.5, 0.2, 0.1, 0.05)
    yield f"| folded sheet: gap between its halves | {' | '.join(map(str, gaps))} |"
    yield f"|---{len(gaps) * '|---'}|"
    for rule in ("geodesic", "tree"):
        # Rows are gaps, columns the per cent of mixed patches, the mean size and the mean R.
        found = np.array([np.mean([_fold(rule, g, s) for s in range(5)], axis=0) for g in gaps])
        for title, values, form in zip(
            ("patches of both halves", "mean size", "mean R"),
            found.T,
            ("{:.0f} %", "{:.2f}", "{:.2f}"),
            strict=True,
        ):
            yield f"| {rule}: {title} | {' | '.join(map(form.format, values))} |"


def _splits(data: Path | None, name: str, share: float) -> Iterator[Split]:
    X, y = load(data, name)
    return (split(X, y, share, seed, None) for seed in range(FIRST_SEED, FIRST_SEED + 3))


def _describe_patches(title: str, rule: str, splits: list[Split]) -> str:
    """A row of the table of patches: means over splits."""
    rows = []
    for samples in splits:
        begin = time.process_time()
        labels = _cut(rule, samples.X, samples.y)
        seconds = time.process_time() - begin
        linearity = _linearity(samples.X, samples.y, labels)
        sizes = np.bincount(labels)
        model = MPDA(40, n_neighbors=12, **NUMERIC).fit(samples.X, samples.y, patches=labels)
        rows.append([seconds, sizes.size, sizes.mean(), linearity, _error(model, samples)])
    seconds, n_patches, size, linearity, wrong = np.mean(rows, axis=0)
    return (
        f"| {title} | {rule} | {seconds:.1f} | {n_patches:.0f} | {size:.2f} | {linearity:.4f} | "
        f"{wrong:.2f} |"
    )


def _cut(rule: str, X: Array, y: Array) -> Array:
    """Patches of all classes; one rule cuts the leading 32 principal components of each class."""
    if not rule.startswith("tree"):
        return ManifoldPartition(partition=rule).fit(X, y).labels_
    # ManifoldPartition would measure the linearity of the tree's patches, too.
    labels, n_patches = np.empty(len(y), dtype=int), 0
    for c in np.unique(y):
        Z = X[y == c]
        if rule == _SHORT_TREE:
            Z = PCA(32, svd_solver="covariance_eigh").fit_transform(Z)
        labels[y == c] = n_patches + principal_axis_partition(Z, 10).labels
        n_patches = labels[y == c].max() + 1
    return labels


def _error(model: MPDA, samples: Split) -> float:
    Z, Z_test = model.transform(samples.X), model.transform(samples.X_test)
    return _one_nn(Z, samples.y, Z_test, samples.y_test)


def _fold(rule: str, gap: float, seed: int) -> tuple[float, float, float]:
    """The per cent of patches with samples of both halves of a folded sheet, mean size and R.

    Two unit squares, ``gap`` apart, are joined by a wall along one edge; 1500 samples in all.
    """
    rng = np.random.default_rng(seed)
    along, across = rng.uniform(0.0, 2.0 + gap, 1500), rng.uniform(size=1500)
    x = np.minimum(along, 1.0) - np.clip(along - 1.0 - gap, 0.0, None)
    height = np.clip(along - 1.0, 0.0, gap)
    X = np.column_stack([x, across, height])
    labels = ManifoldPartition(partition=rule).fit(X).labels_
    sizes = np.bincount(labels)
    has = [np.bincount(labels[height == z], minlength=sizes.size) > 0 for z in (0.0, gap)]
    return 100.0 * (has[0] & has[1]).mean(), sizes.mean(), _linearity(X, np.zeros(len(X)), labels)


def _linearity(X: Array, y: Array, labels: Array) -> float:
    """The mean R^p of patches by the geodesics of whole classes."""
    found = []
    for c in np.unique(y):
        points = ClassPoints(X[y == c])
        distances = geodesic_distances(points, find_neighbors(points, 6))
        found.append(known_partition(distances, labels[y == c]).linearity)
    return float(np.concatenate(found).mean())


def neighbors(data: Path | None) -> Iterator[str]:
    """25 neighbours among 60,000 samples, for which faiss searches some cells only."""
    X, _ = load(data, "mnist")
    samples = {
        "MNIST, 60,000 digits as one class, 154 features": PCA(
            0.95, svd_solver="covariance_eigh"
        ).fit_transform(X[:60_000] / 255.0),
        "normally distributed, 60,000 x 20": np.random.default_rng(0).normal(size=(60_000, 20)),
    }
    yield "| samples | neighbours found | CPU time / exact search |"
    yield "|---|---|---|"
    for title, Z in samples.items():
        lists, seconds = [], []
        for name in ("exact", "faiss"):
            begin = time.process_time()
            lists.append(search_neighbors(ClassPoints(Z), 25, name).indices)
            seconds.append(time.process_time() - begin)
        found = [np.isin(b, a).mean() for a, b in zip(*lists, strict=True)]
        yield f"| {title} | {100 * np.mean(found):.1f} % | {seconds[1] / seconds[0]:.2f} |"


def precision(data: Path | None) -> Iterator[str]:
    digits, digit_labels = load_digits(return_X_y=True)
    with tempfile.TemporaryDirectory() as name:
        labels = write_sheets(Path(name) / "X.npy", [1500, 800, 600], 30)
        sheets = np.load(Path(name) / "X.npy").astype(float)
    yield "| largest principal angle to the fit in double precision | digits | curved sheets |"
    yield "|---|---|---|"
    cells: dict[str, list[str]] = {}
    for X, y in ((digits, digit_labels), (sheets, labels)):
        model = MPDA(10, n_neighbors=12, **NUMERIC)
        double = model.fit(X, y).components_
        for title, other in _other_precisions(X, y):
            angle = subspace_angles(double.T, other.T).max()
            cells.setdefault(title, []).append(f"{angle:.1e}")
    for title, angles in cells.items():
        yield f"| {title} | {' | '.join(angles)} |"


def _other_precisions(X: Array, y: Array) -> Iterator[tuple[str, Array]]:
    def fitted(samples: Array) -> Array:
        return np.asarray(MPDA(10, n_neighbors=12, **NUMERIC).fit(samples, y).components_, float)

    single = X.astype(np.float32)
    yield "samples in single precision, sums in double (as it is)", fitted(single)
    kept = reductions._DENSE_LIMIT, reductions._FACTOR_LIMIT
    reductions._DENSE_LIMIT = 0
    yield "tangent vectors solved for by a factor in single precision, corrected", fitted(X)
    reductions._FACTOR_LIMIT = 0
    yield "tangent vectors solved for by single-precision iterations, corrected", fitted(X)
    reductions._DENSE_LIMIT, reductions._FACTOR_LIMIT = kept
    dense = reductions._eliminate_dense

    def uncorrected(C: Array, B: Array) -> Any:
        X = np.linalg.solve(C.astype(np.float32), B.T.astype(np.float32))
        matrix = (B.astype(np.float32) @ X).astype(float)
        return reductions.EliminationResult(0.5 * (matrix + matrix.T), "dense")

    reductions._eliminate_dense = uncorrected
    yield "tangent vectors solved for in single precision, not corrected (not done)", fitted(X)
    reductions._eliminate_dense = dense


def _seconds(action: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _verdict(value: float, claim: str) -> str:
    return "does not hold" if claim and value > float(claim.split()[1]) else ""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


STUDIES = {
    "growth": growth,
    "mnist": mnist,
    "million": million,
    "database": database,
    "refinement": refinement,
    "search": search,
    "patches": patches,
    "neighbors": neighbors,
    "precision": precision,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=[*STUDIES, "fit"])
    parser.add_argument("--out", type=Path, help="directory for scale-STUDY.md")
    parser.add_argument("--order", help=argparse.SUPPRESS)
    data_argument(parser)
    arguments = parser.parse_args()
    if arguments.study == "fit":
        order = json.loads(arguments.order)
        if "words" in order:
            _run_in_this_process(**order)
        else:
            _fit_in_this_process(order)
        return
    lines = [*STUDIES[arguments.study](arguments.data), "", provenance()]
    print("\n".join(lines))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / f"scale-{arguments.study}.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
