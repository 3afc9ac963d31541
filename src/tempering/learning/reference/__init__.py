"""References for the path base = log q, energy = log pi - log q, which keeps the modes' masses at every k."""

from tempering.learning.reference.fitted import FittedReference
from tempering.learning.reference.fitting import FitEffort, fit_reference
from tempering.learning.reference.from_draws import fit_to_draws
from tempering.learning.reference.path import along_reference
from tempering.learning.reference.refit import refit_reference
from tempering.learning.reference.surface import TooManyCalls
from tempering.path.reference import Reference

__all__ = [
    "FitEffort",
    "FittedReference",
    "Reference",
    "TooManyCalls",
    "along_reference",
    "fit_reference",
    "fit_to_draws",
    "refit_reference",
]
