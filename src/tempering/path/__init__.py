"""Paths from densities one can draw from to the target: terms, coefficients, ladders."""

from tempering.path.ladder import Ladder
from tempering.path.path import NO_SOURCE, Leg, Path, weighted_terms

__all__ = ["NO_SOURCE", "Ladder", "Leg", "Path", "weighted_terms"]
