"""Importance tempering: every draw of every temperature, combined into one answer.

>>> import jax.numpy as jnp, tempering as tp
>>> target = tp.Target(lambda x: jnp.logaddexp(-2 * (x + 4) ** 2, -0.5 * (x - 4) ** 2))
>>> run = tp.sample(target, initial=-4.0, ladder=tp.Ladder.geometric(10, 0.01), rng=1, progress=False)
>>> estimate = run.expect(lambda x: x > 0)  # the right mode is twice as wide: 2/3
>>> abs(estimate.value - 2 / 3) < 4 * estimate.standard_error < 0.1
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tempering.errors import TemperingError

if TYPE_CHECKING:
    from tempering import informed, kernels, models, plots, problems
    from tempering.estimators import Estimate, combine
    from tempering.io.checkpoint import Checkpoint
    from tempering.learning import reference
    from tempering.path.ladder import Ladder
    from tempering.runs.draws import TemperedDraws
    from tempering.runs.joining import join
    from tempering.runs.stored import load
    from tempering.runs.sums import TemperedSums
    from tempering.sampling.options import Draws, Execution, Method, Sums, Tuning
    from tempering.sampling.sample import sample
    from tempering.sampling.until import Until
    from tempering.target import Target

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "Draws",
    "Estimate",
    "Execution",
    "Ladder",
    "Method",
    "Sums",
    "Target",
    "TemperedDraws",
    "TemperedSums",
    "TemperingError",
    "Tuning",
    "Until",
    "combine",
    "informed",
    "join",
    "kernels",
    "load",
    "models",
    "plots",
    "problems",
    "reference",
    "sample",
]

_PLACES = {  # what is imported when it is first named: the package, with NumPy and SciPy, takes most of a second
    "Checkpoint": "io.checkpoint",
    "Estimate": "estimators",
    "Execution": "sampling.options",
    "Ladder": "path.ladder",
    "Method": "sampling.options",
    "Draws": "sampling.options",
    "Sums": "sampling.options",
    "Target": "target",
    "TemperedDraws": "runs.draws",
    "TemperedSums": "runs.sums",
    "Tuning": "sampling.options",
    "Until": "sampling.until",
    "combine": "estimators",
    "join": "runs.joining",
    "load": "runs.stored",
    "sample": "sampling.sample",
}
_MODULES = {
    "informed": "informed",
    "kernels": "kernels",
    "models": "models",
    "plots": "plots",
    "prior": "prior",
    "problems": "problems",
    "reference": "learning.reference",
}


def __getattr__(name: str) -> object:
    """Import a part of the package when it is first named."""
    if name in _PLACES:
        part = getattr(import_module(f"tempering.{_PLACES[name]}"), name)
    elif name in _MODULES:
        part = import_module(f"tempering.{_MODULES[name]}")
    else:
        raise AttributeError(f"module 'tempering' has no attribute {name!r}")
    globals()[name] = part
    return part


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
