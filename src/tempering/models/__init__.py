"""Models with their own states and moves: treed Gaussian processes, mark-recapture-recovery, variable selection.

Each is imported when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tempering.requirements import require

if TYPE_CHECKING:
    from tempering.models.recapture import MarkRecapture
    from tempering.models.treed_gp import TreedGP, TreedGPClassifier
    from tempering.models.variable_selection import VariableSelection

__all__ = ["MarkRecapture", "TreedGP", "TreedGPClassifier", "VariableSelection"]

_HOMES = {
    "MarkRecapture": "tempering.models.recapture",
    "TreedGP": "tempering.models.treed_gp",
    "TreedGPClassifier": "tempering.models.treed_gp",
    "VariableSelection": "tempering.models.variable_selection",
}
_NEED_SKLEARN = ("TreedGP", "TreedGPClassifier", "VariableSelection")  # estimators after its conventions


def __getattr__(name: str) -> object:
    """Import a model with what it needs (scikit-learn, Numba, JAX) when it is first named."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tempering.models' has no attribute {name!r}")
    if name in _NEED_SKLEARN:
        require("sklearn", what=f"tempering.models.{name}", install="tempering[models]")
    return getattr(import_module(_HOMES[name]), name)
