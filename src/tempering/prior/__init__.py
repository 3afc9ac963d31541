"""Priors by name: `Uniform`, `Normal`, `LogUniform` and others, alone, in a dictionary or in a list.

A likelihood and such a dictionary are all that is needed; bounds and circles are taken care of:

>>> import jax.numpy as jnp, tempering as tp
>>> def log_likelihood(mean, sd):
...     return jnp.sum(-0.5 * ((jnp.array([1.0, 2.0, 4.0]) - mean) / sd) ** 2 - jnp.log(sd))
>>> priors = {"mean": tp.prior.Normal(0, 10), "sd": tp.prior.HalfNormal(5)}
>>> tp.Target.from_likelihood(log_likelihood, priors)
Target(base * exp(energy)^k)
"""

from tempering.prior.distribution import Distribution
from tempering.prior.interval import Beta, Cosine, LogUniform, Sine, TruncatedNormal, Uniform, VonMises
from tempering.prior.joint import JointPrior, UnitCube, joint_prior
from tempering.prior.line import (
    Cauchy,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Normal,
    StudentT,
)
from tempering.prior.vectors import Dirichlet, MultivariateNormal

__all__ = [
    "Beta",
    "Cauchy",
    "Cosine",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "JointPrior",
    "LogNormal",
    "LogUniform",
    "MultivariateNormal",
    "Normal",
    "Sine",
    "StudentT",
    "TruncatedNormal",
    "Uniform",
    "UnitCube",
    "VonMises",
    "joint_prior",
]


def __getattr__(name: str) -> None:
    raise AttributeError(
        f"tempering.prior has no {name!r}; it has {', '.join(__all__)}. Frozen distributions of scipy.stats serve too."
    )
