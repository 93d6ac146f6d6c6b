"""What the library leaves alone: settings of the process, generators, files, threads."""

import ast
import importlib.util
import locale
import os
import random
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_info

import mpda
from mpda.assessment import AssessmentProtocol, assess_methods, make_contender
from mpda.experiments.datasets import load
from thread_cases import DATA, MODELS

pytestmark = [
    pytest.mark.usefixtures("every_core"),
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
X, Y = DATA[0]


def settings():
    """What is one for the whole process, or for this thread."""
    found = {
        "threads inside libraries": [each["num_threads"] for each in threadpool_info()],
        "floating point": np.geterr(),
        "printing": np.get_printoptions(),
        "filters": list(warnings.filters),
        "how warnings are shown": warnings.showwarning,
        "NumPy's generator": repr(np.random.get_state()),  # noqa: NPY002
        "Python's generator": random.getstate(),
        "environment": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "scikit-learn": sklearn.get_config(),
        "directory": os.getcwd(),
        "files there": sorted(os.listdir()),
        "streams": (sys.stdout, sys.stderr, sys.excepthook),
        "path": list(sys.path),
    }
    if "matplotlib" in sys.modules:
        import matplotlib

        # Asked without choosing a backend where none is chosen yet.
        found["matplotlib"] = dict.copy(matplotlib.rcParams)
        pyplot = sys.modules.get("matplotlib.pyplot")
        found["figures"] = pyplot.get_fignums() if pyplot else []
    return found


@contextmanager
def nothing_changes():
    before, threads = settings(), set(threading.enumerate())
    try:
        yield
    finally:
        after = settings()
        assert {name: after[name] for name in before} == before
        for thread in set(threading.enumerate()) - threads:
            thread.join(30)  # those of a pool may be about to end
            assert not thread.is_alive(), thread


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPDA_DATA", raising=False)


@pytest.mark.parametrize("name", MODELS)
def test_fits_leave_everything_as_it_was(name):
    fitted = MODELS[name]().fit(X, Y)  # what is loaded once is loaded
    with nothing_changes():
        MODELS[name]().fit(X, Y)
        if name != "ManifoldPartition":
            fitted.transform(X)
        if name == "search":
            fitted.predict(X)


@pytest.mark.parametrize("name", MODELS)
def test_so_do_fits_that_fail_and_fits_in_threads(name):
    wrong = X.copy()
    wrong[3, 2] = np.nan
    with nothing_changes():
        with pytest.raises(ValueError, match="NaN"):
            MODELS[name]().fit(wrong, Y)
        with ThreadPoolExecutor(3) as threads:
            running = [threads.submit(MODELS[name]().fit, X, Y) for _ in range(3)]
            failing = [threads.submit(MODELS[name]().fit, wrong, Y) for _ in range(3)]
        assert all(each.exception() is None for each in running)
        assert all(isinstance(each.exception(), ValueError) for each in failing)


def raise_late(y, predicted):
    raise KeyError("late")


def test_so_does_a_search_that_fails_in_the_middle():
    with nothing_changes(), pytest.raises(KeyError, match="late"):
        MODELS["search"]().set_params(scoring=raise_late).fit(X, Y)


@pytest.mark.parametrize("name", ["LSDR", "search"])
def test_without_a_seed_there_is_a_new_one_each_time(name):
    """And NumPy's generator for everyone is not asked for it."""
    with nothing_changes():
        models = [MODELS[name]().set_params(random_state=None).fit(X, Y) for _ in range(4)]
    key = "history_" if name == "LSDR" else "cv_results_"
    assert len({repr(getattr(model, key)) for model in models}) > 1


def test_threads_over_classes_end_with_the_fit(monkeypatch):
    from mpda._lib import threads as _threads
    from mpda.discriminant import passes

    monkeypatch.setattr(_threads, "_LARGE_CLASS", 10)
    monkeypatch.setattr(passes, "class_threads", lambda sizes: 2)
    with nothing_changes():
        mpda.MPDA().fit(X, Y)
        mpda.PMPDA().fit(X, Y)


def test_comparisons_and_data_sets_leave_everything_as_it_was():
    methods = [make_contender(name, search=False) for name in ("MPDA", "LDA")]
    protocol = AssessmentProtocol(n_folds=2, n_inner=2)
    assess_methods(X, Y, methods, protocol)
    with nothing_changes():
        load("digits")
        assert assess_methods(X, Y, methods, protocol).rows
        with joblib.parallel_config(backend="threading"):
            assert assess_methods(X, Y, methods, protocol, n_jobs=2).rows


def test_plots_leave_matplotlib_as_it_was():
    matplotlib = pytest.importorskip("matplotlib", reason="needs mpda[plot]")
    from mpda import plotting

    model = mpda.MPDA(n_components=3).fit(X, Y)
    drawings = [
        lambda: plotting.plot_embedding(model, X, Y),
        lambda: plotting.plot_components(model),
        lambda: plotting.plot_partition(model, X),
        lambda: plotting.plot_curve({"MPDA": [0.1, 0.05, 0.04]}),
    ]
    with matplotlib.rc_context({"lines.linewidth": 7.0, "font.size": 3.0}):
        drawings[0]()
        with nothing_changes():
            for draw in drawings:
                draw()._repr_png_()


def test_commands_leave_the_process_as_it_was(capsys):
    pytest.importorskip("plotly", reason="needs mpda[cli]")
    from mpda.cli import run

    table = np.column_stack([X, Y])
    names = [f"x{i}" for i in range(X.shape[1])]
    np.savetxt("t.csv", table, delimiter=",", header=",".join([*names, "label"]), comments="")

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            run(list(arguments))
        assert ended.value.code == 0, capsys.readouterr().err

    calls = [
        ("fit", "t.csv", "--label", "label", "--folds", "2", "--report", "page.html"),
        ("transform", "t.mpda", "t.csv", "--out", "z.csv"),
        ("evaluate", "t.mpda", "t.csv", "--label", "label"),
        ("partition", "t.csv", "--label", "label", "--out", "patches.csv"),
        ("export", "t.mpda", "--matrix", "t.npy"),
        ("datasets",),
    ]
    for each in calls:
        call(*each)
    made = set(os.listdir())
    with nothing_changes():
        for each in calls:
            call(*each)
    assert made == set(os.listdir())


FILES = """
import sys, warnings
warnings.simplefilter("error")  # not by -W, at which pyparsing warns of what it does itself
sys.path.insert(0, sys.argv[1])
from sklearn.exceptions import ConvergenceWarning
from mpda.experiments.datasets import load
from mpda.exceptions import SmallClassWarning
from thread_cases import DATA, MODELS
for category in (ConvergenceWarning, SmallClassWarning):
    warnings.simplefilter("ignore", category)
for make in MODELS.values():
    make().fit(*DATA[0])
model = MODELS["MPDA"]().set_params(n_jobs=2).fit(*DATA[0])
model.transform(DATA[0][0])
load("digits")
try:
    from mpda import plotting
    plotting.plot_embedding(model, *DATA[0])._repr_png_()
except ImportError as error:
    assert "mpda[plot]" in str(error)
"""


def test_nothing_is_written_that_was_not_asked_for(tmp_path):
    places = {name: tmp_path / name for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "MPDA_CACHE")}
    here = tmp_path / "here"
    for place in (*places.values(), here):
        place.mkdir()
    variables = {name: str(place) for name, place in places.items()}
    if importlib.util.find_spec("matplotlib"):  # which writes down once which fonts there are
        import matplotlib

        variables["MPLCONFIGDIR"] = matplotlib.get_cachedir()
    done = subprocess.run(
        [sys.executable, "-c", FILES, os.path.dirname(__file__)],
        cwd=here,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [path for place in (*places.values(), here) for path in place.rglob("*")] == []


# What modules keep

SOURCE = Path(mpda.__file__).parent
CHANGES = {"append", "add", "update", "pop", "clear", "extend", "insert", "remove", "setdefault"}
# What is remembered, and why nothing depends on who asked first.
REMEMBERED = {
    "_commands",  # what the command line has
    "_controller",  # the libraries that are loaded
    "_version",  # of packages
    "published",  # a file of the package
    "_loaded",  # a data set, which tasks of one process share
}


def memories(tree):
    """Functions whose results are kept."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            name, made_by = node.name, node.decorator_list
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name, made_by = ast.unparse(node.targets[0]), [node.value.func]
        else:
            continue
        if any(ast.unparse(each).split("(")[0] in ("cache", "lru_cache") for each in made_by):
            yield name


def changed_names(function):
    """Names whose objects a function changes, and that it did not make itself."""
    own = {
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    own |= {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.value if node.func.attr in CHANGES else None
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = node.value
        else:
            changed = None
        if isinstance(changed, ast.Name) and changed.id not in own:
            yield changed.id


def test_modules_keep_nothing_that_functions_change():
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.Global)], path
        assert set(memories(tree)) <= REMEMBERED, path
        kept = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                assert not kept & set(changed_names(node)), path


def test_no_module_asks_for_what_is_shared_by_everyone():
    """Generators, the directory, the locale, pyplot, variables of the environment."""
    words = (
        *("np.random.seed", "np.random.rand", "np.random.normal", "np.random.mtrand"),
        *("import random", "os.chdir", "setlocale", "os.putenv", "os.environ[", "np.seterr"),
        *("set_printoptions", "matplotlib.use", "rcParams", "pyplot", "sys.setrecursionlimit"),
    )
    # Where a variable is read, and where pyplot is spoken of.
    allowed = {("_files.py", "os.environ["), ("_canvas.py", "pyplot"), ("__init__.py", "pyplot")}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for word in words:
            assert word not in text or (path.name, word) in allowed, (path, word)
