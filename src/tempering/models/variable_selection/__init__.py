"""Bayesian variable selection: which of thousands of columns matter, by chains that never reject.

Names are imported when they are first used: an accelerator needs neither Numba nor scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempering.models.variable_selection.estimator import VariableSelection
    from tempering.models.variable_selection.posterior import FoundModel, SelectionPosterior
    from tempering.models.variable_selection.priors import SizePrior, Slab
    from tempering.models.variable_selection.problem import LinearProblem
    from tempering.models.variable_selection.settings import Design, Family, Sampling, SelectionPrior

_HOMES = {
    "Design": "settings",
    "Family": "settings",
    "FoundModel": "posterior",
    "LinearProblem": "problem",
    "Sampling": "settings",
    "SelectionPosterior": "posterior",
    "SelectionPrior": "settings",
    "SizePrior": "priors",
    "Slab": "priors",
    "VariableSelection": "estimator",
}
__all__ = [
    "Design",
    "Family",
    "FoundModel",
    "LinearProblem",
    "Sampling",
    "SelectionPosterior",
    "SelectionPrior",
    "SizePrior",
    "Slab",
    "VariableSelection",
]


def __getattr__(name: str) -> object:
    """Import the module that holds a name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
