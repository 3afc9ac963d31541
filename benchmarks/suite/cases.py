"""Targets of the suite as the samplers of `benchmarks.peers` see them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.peers.cases import Case
from tempering import problems
from tempering.problems import KnownTarget, Quantity

WANTED_MASSES, WANTED_MOMENTS = 0.01, 0.05  # an error of masses; of moments in deviations
N_SCALE = 20_000


@dataclass(frozen=True, eq=False)
class KnownCase(Case):
    """A case whose errors are those of its known quantities."""

    known: KnownTarget | None = None

    def errors(self, draws: Any, weights: Any | None, log_evidence: float | None) -> dict[str, float | None]:
        """Return the errors of masses (the worst), of the other quantities (root mean square) and log evidence."""
        assert self.known is not None
        draws = np.asarray(draws, float)
        weights = np.full(len(draws), 1 / len(draws)) if weights is None else np.asarray(weights) / np.sum(weights)
        modes, evidence = self.known.modes, self.known.evidence
        masses = None if modes is None else np.max(np.abs(weights @ modes.quantity.function(draws) - modes.masses))
        moments = [
            (weights @ flat(quantity.function(draws)) - np.ravel(quantity.value)) / scale
            for quantity, scale in zip(self.known.quantities, scales(self.known), strict=True)
        ]
        known = log_evidence is not None and evidence is not None
        gap = float(abs(log_evidence - evidence.log_value)) if known else None  # type: ignore[operator,union-attr]
        alone = np.inf if gap is None else gap  # of a target whose evidence is all that is known
        rms = float(np.sqrt(np.mean(np.concatenate(moments) ** 2))) if moments else float(masses or alone)
        return {"masses": None if masses is None else float(masses), "moments": rms, "log_evidence": gap}


def flat(values: Any) -> Any:
    """Return values of a quantity with one axis besides the draws."""
    return np.reshape(np.asarray(values, float), (len(values), -1))


@cache
def scales(known: KnownTarget) -> tuple[Any, ...]:
    """Return the deviation of every quantity, from exact draws; where there are none, its size."""
    if known.exact is None:
        return tuple(np.maximum(np.abs(np.ravel(quantity.value)), 1.0) for quantity in known.quantities)
    draws = known.sample(np.random.default_rng(1), N_SCALE)
    return tuple(deviation(quantity, draws) for quantity in known.quantities)


def deviation(quantity: Quantity, draws: Any) -> Any:
    """Return the deviation of a quantity over draws."""
    return np.maximum(flat(quantity.function(draws)).std(axis=0), 1e-12)


def known_case(name: str) -> KnownCase:
    """Return a target of the suite by its name."""
    known = problems.suite()[name]
    masses = np.ones(1) if known.modes is None else known.modes.masses
    return KnownCase(
        name=name,
        title=known.title,
        log_likelihood=known.log_likelihood,
        prior=known.prior,
        initial=known.initial,
        mode_of=lambda x: 0 if known.modes is None else known.modes.mode_of(x),
        mode_masses=masses,
        summaries=lambda x: np.concatenate([flat(q.function(x)) for q in known.quantities], axis=-1),
        mean=np.concatenate([np.ravel(q.value) for q in known.quantities]) if known.quantities else np.zeros(0),
        sd=np.concatenate(scales(known)) if known.quantities else np.zeros(0),
        log_evidence=np.nan if known.evidence is None else known.evidence.log_value,
        error_wanted=WANTED_MOMENTS if known.modes is None else WANTED_MASSES,
        known=known,
    )
