"""What the posteriors on data share: a Gaussian prior, a likelihood, and a truth that was computed once.

No closed form is known for their moments or evidence. The truth is stored with its error in
``tempering/data/posterior_truths.json``; `benchmarks.peers.truths` made it by two independent methods.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol

import numpy as np

from tempering.errors import TargetError
from tempering.problems.priors import NormalPrior
from tempering.problems.problem import Array, FloatArray


class Posterior(Protocol):
    """A posterior under independent normal priors, with known truth about a few summaries.

    ``log_density``, ``log_likelihood`` and ``log_prior`` take one position or a stack, as NumPy or JAX arrays.
    """

    @property
    def prior(self) -> NormalPrior:
        """The prior, normalised."""

    @property
    def n_modes(self) -> int:
        """Number of modes that `mode_of` tells apart."""

    @property
    def truth(self) -> "Truth":
        """What was computed once."""

    def log_likelihood(self, x: Array) -> Any:
        """Return the log likelihood."""

    def log_prior(self, x: Array) -> Any:
        """Return the log prior density."""
        return self.prior.log_density(x)

    def log_density(self, x: Array) -> Any:
        """Return log prior + log likelihood: the posterior, not normalised."""
        return self.log_prior(x) + self.log_likelihood(x)

    def mode_of(self, x: Array) -> Any:
        """Return the number of the mode that ``x`` belongs to."""

    def summaries(self, x: Array) -> Any:
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
