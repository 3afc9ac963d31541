"""Bayesian treed Gaussian processes, tempered: the paper's second example.

`TreedGP` is a scikit-learn regressor, `TreedGPClassifier` a classifier; `TreedGPModel` the model itself, which any
tempered sampler can run. Names are imported when they are first used: the help of the command needs no scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempering.models.treed_gp.classifier import TreedGPClassifier
    from tempering.models.treed_gp.estimator import TreedGP
    from tempering.models.treed_gp.model import TreedGPModel
    from tempering.models.treed_gp.optimise import Minimiser, Minimum, choose_spread, latin_hypercube, minimise
    from tempering.models.treed_gp.optuna_trials import optuna_sampler
    from tempering.models.treed_gp.sensitivity import Sensitivity
    from tempering.models.treed_gp.settings import Keeping, Prior, Proposals, Tempering

_HOMES = {
    "Keeping": "settings",
    "Minimiser": "optimise",
    "Minimum": "optimise",
    "Prior": "settings",
    "Proposals": "settings",
    "Sensitivity": "sensitivity",
    "Tempering": "settings",
    "TreedGP": "estimator",
    "TreedGPClassifier": "classifier",
    "TreedGPModel": "model",
    "choose_spread": "optimise",
    "latin_hypercube": "optimise",
    "minimise": "optimise",
    "optuna_sampler": "optuna_trials",
}
__all__ = [
    "Keeping",
    "Minimiser",
    "Minimum",
    "Prior",
    "Proposals",
    "Sensitivity",
    "Tempering",
    "TreedGP",
    "TreedGPClassifier",
    "TreedGPModel",
    "choose_spread",
    "latin_hypercube",
    "minimise",
    "optuna_sampler",
]


def __getattr__(name: str) -> object:
    """Import the module that holds a name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
