"""From directions to the components of an estimator: scale, precision and accuracy.

Component r is the direction t_r times (lambda_r / lambda_1)^p, or a row of an orthonormal basis.
This is the last step of every fit that solves an eigenproblem.
"""

import warnings
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.arrays import array_namespace, astype, maximum, set_at, take, to_device, to_host
from mpda.baselines.ridge_eigenproblem import normalize_columns
from mpda.discriminant.eigenproblem import Directions, fix_signs
from mpda.exceptions import NumericalWarning

# Smaller eigenvalues of a minimising method count as this in their ratio: they are rounding, since
# the eigenvalues of LLTSA and LPFE do not depend on the scale of the samples.
_MIN_EIGENVALUE = 1e-10
# Rounding, about 1e-16 of a matrix, grows by its condition number: four digits are left.
_MAX_CONDITION = 1e12
# Residual of an eigenproblem that leaves about six digits.
_MAX_RESIDUAL = 1e-6


def scale_directions(
    directions: Directions,
    eigenvalue_power: float,
    *,
    orthonormal: bool = False,
    increasing: bool = False,
) -> Array:
    """Scale directions to components.

    Parameters
    ----------
    directions : Directions
        Eigenvalues (r,) and directions (d, r).
    eigenvalue_power : float
        Direction r is multiplied by (lambda_r / lambda_1) to this power, lambda_1 the largest.
    orthonormal : bool, default=False
        Return an orthonormal basis instead, whose first k rows span the first k directions.
    increasing : bool, default=False
        True if the smallest eigenvalues come first; then the ratio is lambda_1 / lambda_r.

    Returns
    -------
    array of shape (r, d)
        The components.
    """
    vectors = directions.vectors
    if orthonormal:
        return fix_signs(_orthonormalize(normalize_columns(vectors))).T
    if eigenvalue_power == 0.0:
        return vectors.T
    values = directions.eigenvalues
    if increasing:
        values = 1.0 / maximum(values, _MIN_EIGENVALUE)
    largest = array_namespace(values).max(values)  # DMLMJ has it anywhere, the others first
    return (vectors * (values / largest) ** eigenvalue_power).T


def _orthonormalize(vectors: Array) -> Array:
    """Return orthonormal columns, the first k of them in the span of the first k vectors (d, r).

    Features in which all vectors are zero stay zero, also where vectors are dependent.
    """
    xp = array_namespace(vectors)
    features = np.flatnonzero(to_host(xp.any(vectors != 0.0, axis=1)))
    if features.size < vectors.shape[1]:
        return xp.linalg.qr(vectors)[0]
    indices = to_device(features, vectors)
    return set_at(xp.zeros_like(vectors), indices, xp.linalg.qr(take(vectors, indices))[0])


def cast_components(components: Array, dtype: Any) -> Array:
    """Convert components to the precision of the samples.

    Parameters
    ----------
    components : array of shape (r, d)
        Components in double precision.
    dtype : dtype
        Precision of the samples.

    Returns
    -------
    array of shape (r, d)
        Components of that precision. Components that it cannot hold are an error.
    """
    xp = array_namespace(components)
    largest = float(xp.max(xp.abs(components)))
    if largest > float(xp.finfo(dtype).max):
        raise ValueError(
            f"The components would be as large as {largest:.1g}, more than {dtype} can hold: the "
            "samples of X hardly vary. Give X in double precision, or multiply it by "
            f"{2 ** int(np.log2(largest)):.1g}."
        )
    return astype(components, dtype)


def warn_inaccurate(
    residual: float,
    condition: float,
    stacklevel: int = 5,
    ridge: str = "alpha (0.1 in relative units is usual; with exponential=True a larger "
    "exponential_scale)",
) -> None:
    """Warn if few digits of the components are right.

    Parameters
    ----------
    residual : float
        Relative residual of the eigenproblem.
    condition : float
        Condition number of its denominator.
    stacklevel : int, default=5
        The default points at the caller of ``fit``, where ``fit`` calls a function that calls the
        function with this warning.
    ridge : str
        The parameter that makes the denominator regular, for the advice.
    """
    if condition > _MAX_CONDITION:
        problem = (
            f"The denominator of the eigenproblem is nearly singular (condition number "
            f"{condition:.1g}), so few digits of the components are right. A larger {ridge} or "
            "fewer features, for example by PCA, avoids this."
        )
    elif not residual <= _MAX_RESIDUAL:
        problem = (
            f"Some components solve their eigenproblem only up to {residual:.1g}: the last of them "
            "are close to rounding relative to the first. A smaller n_components or a larger "
            f"{ridge.partition(' ')[0]} avoids this."
        )
    else:
        return
    warnings.warn(problem, NumericalWarning, stacklevel=stacklevel)
