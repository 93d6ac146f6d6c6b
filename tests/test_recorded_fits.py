"""Later fits have the components that were recorded before the redesign."""

import numpy as np
import pytest

from recorded_fits import DATA, FILE, TOLERANCES, fit_components, largest_error

RECORDED = np.load(FILE)


# Pixels that are white in all images vary by the noise against ties only.
@pytest.mark.filterwarnings("ignore::mpda.exceptions.FeatureScaleWarning")
@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.slow)])
@pytest.mark.parametrize("data", DATA)
def test_components_are_those_recorded(data, library):
    if library == "torch":
        pytest.importorskip("torch")
    cases = [key.split("|") for key in RECORDED.files]
    cases = [case for case in cases if case[1] == data and case[3] == library]
    errors = {}
    for name, _, dtype, _ in cases:
        components = fit_components(name, data, dtype, library)
        assert components.dtype == dtype
        recorded = RECORDED["|".join([name, data, dtype, library])]
        errors[name, dtype] = largest_error(components, recorded) / TOLERANCES[dtype]
    assert max(errors.values()) < 1.0, errors
