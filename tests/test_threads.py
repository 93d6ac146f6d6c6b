"""Threads: fits that go on at the same time, what they leave behind, how many cores they use."""

import json
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from mpda import MPDA
from mpda._lib.threads import SMALL, few_threads, one_blas_thread
from mpda.experiments import _runner
from mpda.model_selection import DiscriminantSearchCV
from mpda.neighbors import graph as graphs
from mpda.parallel import _local, crew, map_ordered
from thread_cases import (
    DATA,
    MODELS,
    RecordedAttempt,
    RecordedPartition,
    RecordedScore,
    Recorder,
    learnt,
    threads_now,
)

pytestmark = [
    pytest.mark.usefixtures("every_core"),
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
CORES = joblib.cpu_count()


@pytest.fixture(autouse=True)
def threads_change_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def alone(every_core):
    """What each model learns from each data, one fit after the other."""
    return {
        (name, i): learnt(make().fit(*DATA[i])) for name, make in MODELS.items() for i in (0, 1)
    }


def test_fits_in_several_threads_are_those_that_come_one_after_the_other(alone):
    before, filters = threads_now(), list(warnings.filters)
    work = list(alone) * 2
    np.random.default_rng(0).shuffle(work)

    def fitted(case):
        name, i = case
        return case, learnt(MODELS[name]().fit(*DATA[i]))

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(fitted, tuple(case)) for case in work]
        in_main = [fitted(("MPDA", i)) for i in (0, 1)]
        found = [each.result() for each in running] + in_main
    for (name, i), result in found:
        assert result == alone[name, int(i)], name
    assert threads_now() == before
    assert warnings.filters == filters


@pytest.mark.parametrize("name", ["MPDA", "PMPDA", "LFDA", "GraphDiscriminant", "search"])
def test_fits_in_threads_of_joblib_are_the_same(name, alone):
    pool = joblib.Parallel(n_jobs=3, backend="threading")
    found = pool(joblib.delayed(MODELS[name]().fit)(*DATA[i]) for i in (0, 1, 0, 1))
    assert [learnt(model) for model in found] == [alone[name, i] for i in (0, 1)] * 2


def test_threads_may_share_a_fitted_model():
    X, y = DATA[0]
    models = [make().fit(X, y) for name, make in MODELS.items() if name != "ManifoldPartition"]
    expected = [
        (model.transform(X), model.inverse_transform(model.transform(X))) for model in models
    ]

    def mapped(i):
        Z = models[i].transform(X)
        return i, Z, models[i].inverse_transform(Z)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(mapped, list(range(len(models))) * 6))
    for i, Z, back in found:
        np.testing.assert_array_equal(Z, expected[i][0])
        np.testing.assert_array_equal(back, expected[i][1])


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_jobs_change_no_bit(backend, alone):
    with_jobs = ["MPDA", "PMPDA", "LFDA", "MFA", "LLTSA", "LPFE", "GraphDiscriminant"]
    with joblib.parallel_config(backend=backend):
        for name in [*with_jobs, "ManifoldPartition", "search"]:
            assert learnt(MODELS[name]().set_params(n_jobs=2).fit(*DATA[0])) == alone[name, 0], name


def test_jobs_change_only_rounding_where_blas_has_threads():
    """From SMALL dimensions on, the last bits are those of so many threads inside BLAS."""
    X = np.random.default_rng(0).normal(size=(2 * (SMALL // 2 + 10), SMALL + 4))
    y = np.repeat([0, 1], len(X) // 2)
    expected = MPDA(n_components=2).fit(X, y).components_
    with joblib.parallel_config(backend="threading"):
        found = MPDA(n_components=2, n_jobs=2).fit(X, y).components_
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10 * np.abs(expected).max())


def test_two_searches_of_neighbours_leave_blas_as_it_was(monkeypatch):
    monkeypatch.setattr(graphs, "_DIRECT_SEARCH_LIMIT", 0.0)
    X = np.random.default_rng(0).normal(size=(300, 20))
    before = threads_now()
    with ThreadPoolExecutor(4) as threads:
        lists = list(
            threads.map(lambda _: graphs.find_neighbors_blockwise(X, 5).indices, range(60))
        )
    assert threads_now() == before
    assert all((each == lists[0]).all() for each in lists)


@pytest.mark.parametrize("limit", [one_blas_thread, lambda: few_threads(1)])
def test_the_last_thread_to_go_puts_blas_back(limit):
    """Whichever of two comes first, goes first, or is the main thread."""
    before = threads_now()["blas"]
    entered, leave = threading.Event(), threading.Event()

    def other():
        with limit():
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with limit():
        thread.start()
        assert entered.wait(30)
    assert threads_now()["blas"] == 1
    leave.set()
    thread.join()
    assert threads_now()["blas"] == before
    thread, entered, leave = threading.Thread(target=other), threading.Event(), threading.Event()
    thread.start()
    assert entered.wait(30)
    with limit():
        leave.set()
        thread.join()
        assert threads_now()["blas"] == 1
    assert threads_now()["blas"] == before


def test_the_lowest_of_two_limits_holds():
    with threadpool_limits(4, user_api="blas"), few_threads(3):
        assert threads_now()["blas"] == 3
        with few_threads(2):
            assert threads_now()["blas"] == 2
        with few_threads(8):
            assert threads_now()["blas"] == 3
        assert threads_now()["blas"] == 3


# As many workers and threads as there are cores


def test_jobs_and_their_threads_share_the_cores(monkeypatch):
    jobs = {-1: 8, None: 1}
    monkeypatch.setattr(_local, "effective_n_jobs", lambda n_jobs: jobs.get(n_jobs, n_jobs))
    assert [crew(n) for n in (2, 3, 8, 20, -1)] == [
        _local.Crew(*each) for each in ((2, 4), (3, 2), (8, 1), (8, 1), (8, 1))
    ]
    assert crew(None).n == crew(1).n == 1


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_work_sees_its_share_of_the_threads(backend):
    with joblib.parallel_config(backend=backend), threadpool_limits(CORES):
        found = list(map_ordered(threads_now, [()] * 4, 4, n_jobs=max(CORES, 2)))
    assert found == [{"blas": 1, "openmp": 1}] * 4


def test_threads_over_classes_have_one_core_each():
    found = list(map_ordered(threads_now, [()] * 4, 4, n_threads=max(CORES, 2)))
    assert {each["openmp"] for each in found} == {1}


def recorded(path, *, workers):
    """At most so many workers at once, each with its share of the cores."""
    found = Recorder(path).read()
    assert found
    n_workers = len({(each["process"], each["thread"]) for each in found})
    assert n_workers <= workers
    assert n_workers * max(max(each["blas"], each["openmp"]) for each in found) <= CORES


def test_a_fit_with_jobs_stays_within_the_cores(tmp_path):
    model = MPDA(partition=RecordedPartition(str(tmp_path / "record")), n_jobs=max(CORES, 2))
    model.fit(*DATA[0])
    recorded(tmp_path / "record", workers=CORES)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_search_with_jobs_stays_within_the_cores(backend, tmp_path):
    X, y = DATA[0]
    score = RecordedScore(tmp_path / "record")
    with joblib.parallel_config(backend=backend):
        DiscriminantSearchCV(MPDA(n_jobs=2), {"alpha": [1.0]}, scoring=score, n_jobs=2).fit(X, y)
    recorded(score.path, workers=CORES)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_jobs_inside_jobs_make_no_more_workers(backend, tmp_path):
    """scikit-learn's search has two jobs, and each of its fits would like to have two more."""
    X, y = DATA[0]
    model = MPDA(partition=RecordedPartition(str(tmp_path / "record")), n_jobs=2)
    search = GridSearchCV(
        make_pipeline(model, KNeighborsClassifier(1)), {"mpda__alpha": [0.1, 1.0]}, cv=2, n_jobs=2
    )
    search.set_params(refit=False)
    with joblib.parallel_config(backend=backend):
        search.fit(X, y)
    found = Recorder(tmp_path / "record").read()
    assert len({(each["process"], each["thread"]) for each in found}) <= 2
    if backend == "loky":  # which, unlike threads, joblib gives a share of the cores
        assert {each["main"] for each in found} == {True}
        assert 2 * max(max(each["blas"], each["openmp"]) for each in found) <= max(CORES, 2)


def test_experiments_with_jobs_stay_within_the_cores(tmp_path, monkeypatch):
    from mpda.experiments._contenders import CONTENDERS
    from mpda.experiments._protocol import PROBLEMS
    from mpda.experiments._store import Task

    attempt = RecordedAttempt(tmp_path / "record")
    monkeypatch.setattr(_runner, "attempt", attempt)
    contender = next(iter(CONTENDERS.values()))
    problem = next(iter(PROBLEMS.values()))
    tasks = [Task(problem, contender, seed, "") for seed in range(6)]
    _runner.run(tasks, tmp_path / "rows.jsonl", jobs=2)
    recorded(attempt.path, workers=CORES)


LIMITED = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "affinity":
    os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
from mpda import MPDA
from mpda._lib.threads import class_threads
from mpda.parallel import crew, in_order
from thread_cases import threads_now
found = list(in_order(threads_now, [()] * 2, 2, n_jobs=int(sys.argv[3])))
print(json.dumps([crew(-1).n, crew(4).n, class_threads([5000] * 4), found[-1]]))
"""


def limited(how, n_jobs, **variables):
    """The workers of all jobs and of four, the threads over classes, and those inside work."""
    here = os.path.dirname(__file__)
    command = [sys.executable, "-W", "error", "-c", LIMITED, here, how, str(n_jobs)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away here")
def test_a_process_with_one_core_has_one_worker():
    assert limited("affinity", 2) == [1, 1, 1, {"blas": 1, "openmp": 1}]


def test_the_variable_for_openmp_is_a_limit_and_not_a_wish():
    *_, n_threads, inside = limited("variable", 1, OMP_NUM_THREADS="1")
    assert (n_threads, inside) == (1, {"blas": 1, "openmp": 1})
    *_, inside = limited("variable", 2, OMP_NUM_THREADS=str(4 * CORES))
    assert max(inside.values()) <= max(1, CORES // 2)
