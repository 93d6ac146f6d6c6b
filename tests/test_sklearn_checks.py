"""scikit-learn's own checks on every public estimator: none skipped, none excused."""

import inspect
from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import mpda
from mpda.model_selection import DiscriminantSearchCV

# The checks draw classes of a few samples, fewer than our default number of neighbours; the warning
# that says so is wanted, and has a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")

# As many as scikit-learn 1.7 and later have for such estimators; fewer would mean that a tag
# switched some of them off.
AT_LEAST = {"ManifoldPartition": 45, "LLTSA": 46, "GramPCA": 46, "DiscriminantSearchCV": 60}
# As scikit-learn does with its own slow ones: fewer starts and folds, the same code.
QUICK = {"LSDR": {"init": "pca", "n_folds": 2}}
ESTIMATORS = [
    getattr(mpda, name)(**QUICK.get(name, {}))
    for name in mpda.__all__
    if inspect.isclass(getattr(mpda, name))
]
ESTIMATORS.append(DiscriminantSearchCV(mpda.MPDA(), {"n_neighbors": [3, 5]}))


def _needs_what_is_not_here(reason):
    """Whether a check was skipped for want of a device, or of an array library, that is absent.

    Or of a SciPy that lets such arrays through, as mpda[torch] has it (oldest-arrays.txt).
    """
    libraries = ("cupy", "dpnp", "torch", "array_api_strict")
    wanted = ("cuda", "MPS device", "XPU device", "SciPy must be 1.14.0 or newer")
    return any(each in reason for each in wanted) or any(
        f"{name} is not installed: not checking array_api" in reason for name in libraries
    )


@parametrize_with_checks(ESTIMATORS)
def test_check(estimator, check):
    try:
        check(estimator)
    except (SkipTest, ImportError) as reason:
        if _needs_what_is_not_here(str(reason)):
            pytest.skip(str(reason))
        pytest.fail(f"skipped: {reason}")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_no_tag_switches_checks_off(estimator):
    names = [check.func.__name__ for _, check in estimator_checks_generator(estimator)]
    here = [name for name in names if "array_api" not in name]
    assert len(here) >= AT_LEAST.get(type(estimator).__name__, 47)
