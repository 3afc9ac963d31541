"""Bayesian treed Gaussian processes, tempered: the paper's second example.

`TreedGP` is a scikit-learn regressor; `TreedGPModel` the model itself, which any tempered sampler can run.
"""

from tempering.models.treed_gp.estimator import TreedGP
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.optimise import Minimiser, Minimum, choose_spread, latin_hypercube, minimise
from tempering.models.treed_gp.optuna_trials import optuna_sampler
from tempering.models.treed_gp.sensitivity import Sensitivity
from tempering.models.treed_gp.settings import Keeping, Prior, Proposals, Tempering

__all__ = [
    "Keeping",
    "Minimiser",
    "Minimum",
    "Prior",
    "Proposals",
    "Sensitivity",
    "Tempering",
    "TreedGP",
    "TreedGPModel",
    "choose_spread",
    "latin_hypercube",
    "minimise",
    "optuna_sampler",
]
