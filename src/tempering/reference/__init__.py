"""References for the path base = log q, energy = log pi - log q, which keeps the modes' masses at every k."""

from tempering.reference.fitting import FittedReference, fit_reference, improved_reference
from tempering.reference.mixture import Reference
from tempering.reference.path import along_reference
from tempering.reference.refit import refit_reference

__all__ = ["FittedReference", "Reference", "along_reference", "fit_reference", "improved_reference", "refit_reference"]
