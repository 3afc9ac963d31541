"""Ratio estimates from independent tours between regenerations.

A chain that starts afresh at known times splits into independent tours; ratios of sums over tours need no
batch means (Mykland, Tierney & Yu 1995).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats


@dataclass(frozen=True, eq=False)
class RegenerativeEstimate:
    """A ratio estimate from tours: value, standard error, and how evenly the tours contribute."""

    value: float | Floats
    standard_error: float | Floats
    tour_effectiveness: float
    n_tours: int


def regenerative_ratio(numerators: ArrayLike, denominators: ArrayLike) -> RegenerativeEstimate:
    r"""Estimate E[N] / E[D] from the sums of independent tours.

    .. math:: \hat h = \frac{\sum_b N_b}{\sum_b D_b}, \qquad
              \mathrm{se}^2 = \frac{n}{n - 1} \frac{\sum_b (N_b - \hat h D_b)^2}{(\sum_b D_b)^2}

    For a weighted estimate :math:`N_b` and :math:`D_b` are the tour's sums of :math:`w h` and :math:`w`. Tour
    effectiveness is
    :math:`(\sum_b D_b)^2 / (n \sum_b D_b^2)`: one where all tours weigh the same, near zero where one has it
    all (Syed, Bouchard-Cote, Deligiannidis & Doucet 2022).

    Parameters
    ----------
    numerators : array_like, shape (n_tours, ...)
        Sum of w h over each tour.
    denominators : array_like, shape (n_tours,)
        Sum of w over each tour, not negative.

    Examples
    --------
    >>> result = regenerative_ratio([2.0, 4.0, 0.0], [1.0, 2.0, 0.0])
    >>> float(result.value), float(result.standard_error), result.tour_effectiveness
    (2.0, 0.0, 0.6)
    """
    top = np.asarray(numerators, dtype=np.float64)
    bottom = np.asarray(denominators, dtype=np.float64)
    n = bottom.size
    if bottom.ndim != 1 or top.shape[:1] != bottom.shape or n < 2 or not np.all(bottom >= 0) or not bottom.sum() > 0:
        raise EstimatorError(
            f"At least two tours are needed, one numerator for each denominator >= 0, with a positive sum; "
            f"but the shapes are {top.shape} and {bottom.shape}. Run until the chain has regenerated twice."
        )
    total = bottom.sum()
    value = top.sum(axis=0) / total
    residual = top - np.multiply.outer(bottom, value)
    error = np.sqrt(n / (n - 1) * np.sum(residual**2, axis=0)) / total
    return RegenerativeEstimate(value, error, float(total**2 / (n * np.sum(bottom**2))), n)
