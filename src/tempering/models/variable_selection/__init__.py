"""Bayesian variable selection: which of thousands of columns matter, by chains that never reject."""

from tempering.models.variable_selection.estimator import VariableSelection
from tempering.models.variable_selection.posterior import FoundModel, SelectionPosterior
from tempering.models.variable_selection.priors import SizePrior, Slab
from tempering.models.variable_selection.problem import LinearProblem

__all__ = ["FoundModel", "LinearProblem", "SelectionPosterior", "SizePrior", "Slab", "VariableSelection"]
