"""Importance tempering: every draw of every temperature, combined into one answer.

>>> import jax.numpy as jnp, tempering as tp
>>> target = tp.Target(lambda x: jnp.logaddexp(-2 * (x + 4) ** 2, -0.5 * (x - 4) ** 2))
>>> run = tp.sample(target, initial=-4.0, ladder=tp.Ladder.geometric(10, 0.01), rng=1, progress=False)
>>> estimate = run.expect(lambda x: x > 0)  # the right mode is twice as wide: 2/3
>>> abs(estimate.value - 2 / 3) < 4 * estimate.standard_error < 0.1
True
"""

from importlib import import_module

from tempering import kernels
from tempering.errors import TemperingError
from tempering.estimators import Estimate, combine
from tempering.execution.checkpoint import Checkpoint
from tempering.io.zarr_store import load
from tempering.path.ladder import Ladder
from tempering.runs.draws import TemperedDraws
from tempering.runs.joining import join
from tempering.runs.sampling import sample
from tempering.runs.sums import TemperedSums
from tempering.runs.until import Until
from tempering.target import Target

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "Estimate",
    "Ladder",
    "Target",
    "TemperedDraws",
    "TemperedSums",
    "TemperingError",
    "Until",
    "combine",
    "join",
    "kernels",
    "load",
    "sample",
]

_LATER = {
    "models": "models",
    "plots": "plots",
    "prior": "prior",
    "problems": "problems",
    "reference": "learning.reference",
}


def __getattr__(name: str) -> object:
    """Import the parts that need more than NumPy when they are first named."""
    if name not in _LATER:
        raise AttributeError(f"module 'tempering' has no attribute {name!r}")
    return import_module(f"tempering.{_LATER[name]}")
