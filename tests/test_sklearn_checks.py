"""scikit-learn's own checks of every public estimator: none skipped."""

from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import mpda
from mpda.model_selection import DiscriminantSearchCV

# The checks draw classes with fewer samples than our default number of neighbours.
pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")

# Number of checks that scikit-learn 1.7 has for such estimators; fewer would mean that a tag
# disables some of them.
MIN_CHECKS = {
    "ManifoldPartition": 45,
    "LLTSA": 46,
    "GramPCA": 46,
    "TSIMR": 46,
    "PFE": 46,
    "DiscriminantSearchCV": 60,
}
# Fewer starts, folds and rounds run the same code in less time.
QUICK = {"LSDR": {"init": "pca", "n_folds": 2}, "NeighborhoodRefinement": {"n_rounds": 1}}
# The checks draw blobs that are far apart; with fewer neighbours their graph has several parts.
QUICK |= {name: {"n_neighbors": 25} for name in ("TSIMR", "PFE")}
ESTIMATORS = [
    getattr(mpda, name)(**QUICK.get(name, {}))
    for name in mpda.__all__
    if hasattr(getattr(mpda, name), "fit")
]
# Without a k-NN graph a weight is a multiplicity everywhere. Weights are scaled to a mean of 1, so
# that equal weights change nothing; repeated samples do change the length of components, t'St = 1.
ESTIMATORS += [
    method(alpha=0.1, orthonormal=orthonormal, **options)
    for method, options in ((mpda.LFDA, {"affinity": "ones"}), (mpda.GraphDiscriminant, {}))
    for orthonormal in (True, False)
]
ESTIMATORS.append(mpda.NeighborhoodRefinement(radius=1, objective="class"))
ESTIMATORS.append(DiscriminantSearchCV(mpda.MPDA(), {"n_neighbors": [4]}, cv=2))
# Reasons for which scikit-learn skips a check: a device or an array library is not installed.
ABSENT = ("cuda", "MPS device", "XPU device", "is not installed: not checking array_api")


def expected_failures(estimator):
    """Return the checks that must fail, with the reason."""
    failures = {}
    parameters = estimator.get_params()
    uses_graph = estimator.__class__.__name__ in ("MPDA", "PMPDA", "NeighborhoodRefinement")
    if uses_graph or parameters.get("affinity") == "full":
        reason = "a weight is a multiplicity in sums, but not in neighbour lists"
        failures["check_sample_weight_equivalence_on_dense_data"] = reason
        failures["check_sample_weight_equivalence_on_sparse_data"] = reason
    if parameters.get("radius") not in (None, "auto"):
        for check in (
            "check_dont_overwrite_parameters",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_fit2d_1sample",
            "check_fit2d_1feature",
            "check_fit2d_predict1d",
        ):
            failures[check] = "n_components=1, but the constant of the sphere is one of the outputs"
    if isinstance(estimator, mpda.GMML):
        reason = "repeated samples have more pairs of themselves, which changes all lengths alike"
        failures["check_sample_weight_equivalence_on_dense_data"] = reason
    if isinstance(estimator, mpda.LFDA | mpda.GraphDiscriminant):
        if not estimator.orthonormal:
            reason = "weights have a mean of 1, and repeated samples change the length t'St = 1"
            failures["check_sample_weight_equivalence_on_dense_data"] = reason
            failures["check_sample_weight_equivalence_on_sparse_data"] = reason
        if estimator.alpha > 0.0:
            return failures
        for check in (
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ):
            failures[check] = "a feature is constant inside the classes: an infinite eigenvalue"
    return failures


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_estimator_passes_check(estimator, check):
    try:
        check(estimator)
    except (SkipTest, ImportError) as reason:
        if any(text in str(reason) for text in ABSENT):
            pytest.skip(str(reason))
        pytest.fail(f"skipped: {reason}")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_no_tag_disables_checks(estimator):
    names = [check.func.__name__ for _, check in estimator_checks_generator(estimator)]
    without_devices = [name for name in names if "array_api" not in name]
    assert len(without_devices) >= MIN_CHECKS.get(type(estimator).__name__, 47)
