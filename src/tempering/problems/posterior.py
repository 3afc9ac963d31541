"""What the posteriors on data share: a Gaussian prior, a likelihood, and a truth that was computed once.

No closed form is known for their moments or evidence. The truth is stored with its error in
``tempering/data/posterior_truths.json``; `benchmarks.peers.truths` made it by two independent methods.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from tempering.errors import TargetError
from tempering.problems.problem import FloatArray, namespace_of

_LOG_2PI = np.log(2 * np.pi)


class Posterior(Protocol):
    """A posterior under independent normal priors, with known truth about a few summaries.

    ``log_density``, ``log_likelihood`` and ``log_prior`` take one position or a stack, as NumPy or JAX arrays.
    """

    @property
    def prior(self) -> "NormalPrior":
        """The prior, normalised."""

    @property
    def n_modes(self) -> int:
        """Number of modes that `mode_of` tells apart."""

    @property
    def truth(self) -> "Truth":
        """What was computed once."""

    def log_likelihood(self, x: Any) -> Any:
        """Return the log likelihood."""

    def mode_of(self, x: Any) -> Any:
        """Return the number of the mode that ``x`` belongs to."""

    def summaries(self, x: Any) -> Any:
        """Return the quantities whose means and deviations are known, shape (..., n_summaries)."""


@dataclass(frozen=True)
class Truth:
    """Evidence, masses of modes, means and deviations of summaries, and their errors.

    Examples
    --------
    >>> truth = Truth.stored("logistic")
    >>> truth.mean.shape, truth.log_evidence_error < 0.01
    ((10,), True)
    """

    log_evidence: float
    log_evidence_error: float
    mode_masses: FloatArray
    mode_masses_error: FloatArray
    mean: FloatArray
    mean_error: FloatArray
    sd: FloatArray

    @classmethod
    def stored(cls, name: str) -> "Truth":
        """Read the truth of one problem."""
        text = (files("tempering") / "data" / "posterior_truths.json").read_text(encoding="utf-8")
        known = json.loads(text)
        if name not in known:
            raise TargetError(
                f"The truth must have been computed before it is read, but that of {name!r} is not stored. Known are "
                f"{', '.join(known)}; `python -m benchmarks.peers.truths` computes others."
            )
        fields = known[name]
        values: dict[str, Any] = {
            key: np.array(value) if isinstance(value, list) else value
            for key, value in fields.items()
            if key in cls.__dataclass_fields__
        }
        return cls(**values)


def normal_quantile(u: Any) -> Any:
    """Return quantiles of the standard normal, for NumPy and JAX arrays alike."""
    if namespace_of(u) is np:
        return ndtri(u)
    import jax

    return jax.scipy.special.ndtri(u)


@dataclass(frozen=True, eq=False)
class NormalPrior:
    """Independent normal distributions.

    Examples
    --------
    >>> prior = NormalPrior(np.zeros(2), np.array([1.0, 3.0]))
    >>> prior.sample(np.random.default_rng(1), 4).shape
    (4, 2)
    """

    mean: FloatArray
    sd: FloatArray

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.mean)

    @cached_property
    def _log_height(self) -> float:
        return float(-np.sum(np.log(self.sd)) - 0.5 * self.dimension * _LOG_2PI)

    def log_density(self, x: Any) -> Any:
        """Return the log density for positions of shape (..., dimension), NumPy or JAX."""
        xp = namespace_of(x)
        z = (xp.asarray(x) - self.mean) / self.sd
        return self._log_height - 0.5 * xp.sum(z * z, axis=-1)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw ``n`` positions."""
        return np.asarray(self.mean + self.sd * rng.standard_normal((n, self.dimension)))

    def draw(self, key: Any) -> Any:
        """Draw one position with a JAX key."""
        import jax

        return self.mean + self.sd * jax.random.normal(key, (self.dimension,))

    def from_unit_cube(self, u: Any) -> Any:
        """Return the quantiles at ``u``, NumPy or JAX."""
        return self.mean + self.sd * normal_quantile(u)
