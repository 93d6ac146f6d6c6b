"""Fits say beforehand that they would not fit into memory; and what they say is about right."""

import math
import subprocess
import sys
import tracemalloc
from pathlib import Path

import joblib
import numpy as np
import pytest

import mpda
from mpda._lib import memory as _memory
from mpda.estimators._costs import BLOCKS
from mpda.exceptions import NotEnoughMemoryError
from mpda.model_selection import DiscriminantSearchCV

SHAPES = {"many samples": (1200, 12, 3), "many features": (240, 80, 2), "wide": (75, 500, 3)}
NAMES = ["MPDA", "PMPDA", "LFDA", "MFA", "LSDA", "LLTSA", "LPFE", "GraphDiscriminant", "GramPCA"]


def blobs(n, d, n_classes):
    y = np.arange(n) % n_classes
    X = np.random.default_rng(0).normal(size=(n, d))
    X[:, 0] += y
    return X, y


def estimator(name):
    if name == "LSDR":
        return mpda.LSDR(n_components=2, max_iter=2, n_centers=50)
    return getattr(mpda, name)(
        **({"alpha": 0.1} if hasattr(getattr(mpda, name)(), "alpha") else {})
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [*NAMES, "LSDR"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimates_are_above_what_a_fit_takes_and_not_far(name, shape, monkeypatch):
    X, y = blobs(*SHAPES[shape])
    said = []
    place = "mpda.estimators._linear_map.refuse_beyond_memory"
    monkeypatch.setattr(place, lambda needed, what, advice: said.append(needed))
    tracemalloc.start()
    try:
        estimator(name).fit(X, y)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < said[-1] < 20.0 * taken + 80e6


LIMITED = """
import resource, sys, warnings
import numpy as np
import mpda
from mpda.exceptions import NotEnoughMemoryError
from mpda.model_selection import DiscriminantSearchCV
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
y = np.arange(200_000) % 2
X = rng.normal(size=(y.size, 20)).astype(np.float32)
wide, few = rng.normal(size=(40, 3000)), np.arange(40) % 2
small = rng.normal(size=(90, 5)), np.arange(90) % 3
for name in ("MPDA", "LFDA", "LSDA"):  # what is loaded at the first fit
    getattr(mpda, name)(alpha=0.1).fit(*small)
fitted = mpda.LFDA(alpha=0.1).fit(X[:400], y[:400])
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + 160 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (room, room))
many = np.broadcast_to(X[:1], (3_000_000, 20))
steps = {
    "MPDA": lambda: mpda.MPDA().fit(X, y),
    "MPDA geodesic": lambda: mpda.MPDA(partition="geodesic").fit(X[:6000], y[:6000]),
    "PMPDA": lambda: mpda.PMPDA().fit(X, y),
    "LFDA": lambda: mpda.LFDA(n_neighbors=10**9).fit(X[:9000], y[:9000]),
    "MFA": lambda: mpda.MFA(n_pairs=10**9).fit(X[:9000], y[:9000]),
    "LSDA": lambda: mpda.LSDA().fit(X, y),
    "LLTSA": lambda: mpda.LLTSA().fit(X),
    "LPFE": lambda: mpda.LPFE().fit(X, y),
    "GraphDiscriminant": lambda: mpda.GraphDiscriminant(between="pairs").fit(X, y),
    "LSDR": lambda: mpda.LSDR().fit(X, y),
    "GramPCA": lambda: mpda.GramPCA().fit(wide),
    "search": lambda: DiscriminantSearchCV(mpda.MPDA(), {"alpha": [0.1]}).fit(X, y),
    "transform": lambda: fitted.transform(many),
    "integers": lambda: mpda.LFDA().fit(many.view(np.int32), np.arange(3_000_000) % 2),
}
for name, step in steps.items():
    try:
        step()
    except NotEnoughMemoryError as error:
        print(name, "|", error)
    else:
        print(name, "| went through")
for name in ("MPDA", "LFDA", "LSDA"):
    getattr(mpda, name)(alpha=0.1).fit(*small)
print("small | still work")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_with_little_address_space_every_method_refuses_with_numbers_and_advice():
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert last == "small | still work"
    assert len(refused) == 14
    for line in refused:
        said = line.partition(" | ")[2]
        assert "would take about" in said, line
        assert "iB of memory, and " in said, line
        assert "iB are free. " in said, line
        advice = said.partition("are free. ")[2]
        assert len(advice) > 20, line


def test_what_is_free_is_the_least_of_machine_group_and_addresses(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 4000000 kB\n",
        "/proc/self/cgroup": "0::/a/b\n",
        "/sys/fs/cgroup/a/memory.max": "3000000000\n",
        "/sys/fs/cgroup/a/memory.current": "1500000000\n",
        "/sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 500000000\n",
        "/sys/fs/cgroup/a/b/memory.max": "max\n",
        "/sys/fs/cgroup/a/b/memory.current": "1400000000\n",
    }
    monkeypatch.setattr(_memory, "_lines", lambda path: files.get(str(path), "").splitlines())
    assert _memory.free_bytes() == 2e9
    files["/proc/meminfo"] = "MemAvailable: 1000 kB\n"
    assert _memory.free_bytes() == 1024e3
    files["/proc/self/cgroup"] = "4:cpu,memory:/x\n3:pids:/y\n"
    files["/sys/fs/cgroup/memory/x/memory.limit_in_bytes"] = "70000\n"
    files["/sys/fs/cgroup/memory/x/memory.usage_in_bytes"] = "20000\n"
    assert _memory.free_bytes() == 50000.0
    files["/sys/fs/cgroup/memory/x/memory.limit_in_bytes"] = "9223372036854771712\n"
    assert _memory.free_bytes() == 1024e3


def test_where_nothing_is_known_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "_lines", lambda path: [])
    monkeypatch.setattr(_memory, "_free_addresses", lambda: math.inf)
    monkeypatch.delattr(_memory.os, "sysconf")
    assert _memory.free_bytes() == math.inf


def test_a_refusal_has_numbers_and_advice(monkeypatch):
    monkeypatch.setattr(_memory, "free_bytes", lambda: 3e9)
    _memory.refuse_beyond_memory(2.9e9, "This", "Do that.")
    with pytest.raises(NotEnoughMemoryError) as caught:
        _memory.refuse_beyond_memory(5e9, "This", "Do that.")
    assert str(caught.value) == (
        "This would take about 4.7 GiB of memory, and 2.8 GiB are free. Do that."
    )
    assert isinstance(caught.value, MemoryError)


def test_as_many_classes_count_as_are_worked_on_at_once():
    model, sizes, d = mpda.MPDA(), [30, 900, 400], 5
    needed = [
        model._fit_bytes(sizes, d, n) - BLOCKS * min(n, joblib.effective_n_jobs(-1))
        for n in (1, 2, 3)
    ]
    assert needed[0] >= model._class_bytes(900, d)
    assert needed[1] - needed[0] == pytest.approx(model._class_bytes(400, d))
    assert needed[2] - needed[1] == pytest.approx(model._class_bytes(30, d))


def test_a_search_takes_what_its_largest_point_takes(monkeypatch):
    X, y = blobs(240, 5, 2)
    few, many = (mpda.PMPDA(n_neighbors=k)._fit_bytes([60, 60], 5, 2) for k in (3, 40))
    assert many > few
    monkeypatch.setattr(_memory, "free_bytes", lambda: (few + many) / 2)

    def search(*n_neighbors):
        grid = {"n_neighbors": n_neighbors}
        DiscriminantSearchCV(mpda.PMPDA(), grid, cv=2, refit=False).fit(X, y)

    search(3)
    with pytest.raises(NotEnoughMemoryError, match="PMPDA on 120 samples"):
        search(3, 40, 4)


def test_samples_are_mapped_in_blocks_as_they_are_at_once(monkeypatch):
    X, y = blobs(500, 6, 3)
    model = mpda.LFDA().fit(X, y)
    expected = model.transform(X)
    monkeypatch.setattr("mpda.estimators._linear_map._MAPPED_ENTRIES", 100)
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-12, atol=1e-12)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-4)
