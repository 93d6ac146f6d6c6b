"""Settings that must stand before SciPy is imported."""

import os

# scikit-learn skips its checks of array API input without it, and no check may be skipped.
os.environ["SCIPY_ARRAY_API"] = "1"
