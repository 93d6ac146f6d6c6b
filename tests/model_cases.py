"""Models that the tests of model files share, and what tells two of them apart."""

import dataclasses
import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

import mpda
from cases import bent_classes
from mpda.io.models import save
from mpda.model_selection import SCORES, DiscriminantSearchCV
from mpda.model_selection.selection_rules import RULES

X, Y = bent_classes()
NAMES = np.array(["ash", "birch", "yew"])
FEW = {"n_neighbors": [4, 6], "alpha": [0.1, 1.0]}

OURS = [getattr(mpda, name) for name in mpda.__all__ if inspect.isclass(getattr(mpda, name))]
FEW_NEIGHBORS = {"n_neighbors": 4, "partition_neighbors": 4, "max_patch_size": 6}


def small(kind):
    """An estimator of a class with parameters that suit the samples here."""
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in FEW_NEIGHBORS.items() if name in known})


MODELS = [
    *map(small, OURS),
    mpda.MPDA(2, n_neighbors=4, partition=KMeans(3, n_init=1, random_state=0)),
    mpda.PMPDA(2, n_neighbors=3, affinity="full"),
    mpda.GramPCA(0.9),
    mpda.GraphDiscriminant("neighbors", "pairs", n_neighbors=4),
    DiscriminantSearchCV(mpda.LFDA(), FEW, cv=3),
    DiscriminantSearchCV(
        make_pipeline(StandardScaler(), mpda.MPDA(max_patch_size=5)),
        [{"n_neighbors": [4]}, {"n_neighbors": [5], "alpha": [0.1, np.inf][:1]}],
        cv=StratifiedKFold(3, shuffle=True, random_state=1),
        selection=RULES["pooled"],
        scoring=SCORES["f1_macro"],
    ),
    DiscriminantSearchCV(mpda.LFDA(), FEW, cv=3, refit=False),
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler((-1, 1)),
    RobustScaler(),
    Normalizer(),
    PCA(3),
    PCA(0.9, whiten=True, svd_solver="full"),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
    LinearDiscriminantAnalysis(solver="lsqr"),
    NeighborhoodComponentsAnalysis(2, max_iter=3, random_state=0),
    KNeighborsClassifier(3, weights="distance"),
    KNeighborsClassifier(1, algorithm="ball_tree", metric="manhattan"),
    KNeighborsClassifier(1, algorithm="brute"),
    Nystroem(n_components=9, random_state=0),
    make_pipeline(StandardScaler(), PCA(4), mpda.MPDA(3, n_neighbors=4), KNeighborsClassifier(1)),
    Pipeline([("nothing", "passthrough"), ("map", mpda.LFDA(2, n_neighbors=4))]),
    make_pipeline(Nystroem(n_components=20, random_state=0), mpda.LFDA(2, n_neighbors=4)),
]
IDS = [f"{i}-{type(model).__name__}" for i, model in enumerate(MODELS)]
each_model = pytest.mark.parametrize("model", MODELS, ids=IDS)


def saved(model, tmp_path, **options):
    path = tmp_path / "model.mpda"
    save(model, path, **options)
    return path


def refuse_difference(one, other, where="model"):
    """Assert that two values are the same in every bit and in how arrays lie in memory."""
    assert type(one) is type(other), where
    if isinstance(one, np.ma.MaskedArray):
        refuse_difference(one.data, other.data, where)
        refuse_difference(np.asarray(one.mask), np.asarray(other.mask), where)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert one.shape == other.shape, where
        refuse_difference(one.ravel().tolist(), other.ravel().tolist(), where)
    elif isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.tobytes() == other.tobytes(), where
        assert one.flags.c_contiguous == other.flags.c_contiguous, where
        assert one.flags.f_contiguous == other.flags.f_contiguous, where
        assert np.sign(one.strides).tolist() == np.sign(other.strides).tolist(), where
        assert one.flags.writeable == other.flags.writeable, where
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            refuse_difference(*pair, f"{where}[{i}]")
    elif isinstance(one, dict):
        refuse_difference(list(one), list(other), where)
        for key in one:
            refuse_difference(one[key], other[key], f"{where}[{key!r}]")
    elif dataclasses.is_dataclass(one) or (hasattr(one, "__dict__") and not callable(one)):
        skipped = ("_tree", "random_state_")
        for name in {**vars(one), **vars(other)}:
            if name not in skipped:
                assert hasattr(one, name), f"{where}.{name}"
                assert hasattr(other, name), f"{where}.{name}"
                refuse_difference(getattr(one, name), getattr(other, name), f"{where}.{name}")
    else:
        assert one == other or (one != one and other != other), where


def fitted(model, X=X, y=NAMES[Y]):
    return clone(model).fit(X, y)


def deep_list(depth=100):
    found = []
    for _ in range(depth):
        found = [found]
    return found
