"""How much a call does unless it is told: fewer chains, shorter tuning and fewer draws where a density is dear.

A dear one ends when its draws are worth enough, not at a number of them: the answer comes soon, and `run.more` goes on.

How dear it is says XLA's count of its operations, not a clock: equal seeds give equal draws on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tempering.execution.operations import operations_of
from tempering.target.layout import Layout

CHAINS = {
    "vector": {"simulated": 32, "parallel": 4, "sequential": 8},
    "scalar": {"simulated": 8, "parallel": 2, "sequential": 8},
}
DRAWS = 10_000  # of each chain
ITERATIONS = 5_000  # of each chain's tuning
ITERATIONS_OF_ALL = 80_000  # chains together in tuning two legs: its rounds learn from the draws of all

# Operations of a log density up to which a call does all of that, in some ten seconds. A logistic likelihood with 300
# rows and ten coefficients has as many; one with 10,000 rows thirty times as many.
CHEAP = 15_000.0
OF_A_LOGARITHM = 10.0  # operations that a logarithm or an exponential takes as long as
LEAST_CHAINS = {"simulated": 8, "parallel": 1}  # fewer say little about their spread
LEAST_DRAWS, LEAST_ITERATIONS = 2_000, 320
EFFECTIVE, LEAST_EFFECTIVE = 100_000.0, 1_000.0  # effective draws of a dear density: at first, and of the dearest
MOST_NUMBERS = 1 << 26  # of all draws that are kept: half a gigabyte


@dataclass(frozen=True)
class Effort:
    """The number of chains, and the draws and iterations of tuning of each."""

    chains: int
    draws: int = DRAWS
    iterations: int = ITERATIONS
    effective_draws: float | None = None  # at which drawing ends; None: at the number of draws
    dearness: float = 0.0  # the share of an iteration's time that calls of the density take

    def along(self, path: str) -> Effort:
        """Return what a call does along a path.

        Examples
        --------
        >>> Effort(32).along("two_legs").iterations, Effort(8).along("two_legs").iterations
        (2500, 5000)
        """
        enough = ITERATIONS_OF_ALL // self.chains if path == "two_legs" else self.iterations
        return replace(self, iterations=min(self.iterations, enough))


def usual_effort(engine: str, method: str, target: Any = None, layout: Layout | None = None) -> Effort:
    """Return what a call does by default; a model object, and a density that JAX does not trace, are not looked at."""
    if engine != "vector" or layout is None:
        return effort_for(engine, method, 0.0)
    effort = effort_for(engine, method, operations_of(target, layout, OF_A_LOGARITHM))
    most = max(LEAST_DRAWS, MOST_NUMBERS // (effort.chains * layout.size))
    return replace(effort, draws=min(effort.draws, most))


def effort_for(engine: str, method: str, operations: float) -> Effort:
    """Return what a call does by default with a log density of so many operations; 0 or inf if nobody knows.

    Chains are saved first, down to eight, for they are what costs least to lose; then draws. Tuning is what a user
    waits for: it is shortened at once.

    Examples
    --------
    >>> effort_for("vector", "simulated", 1_000.0)
    Effort(chains=32, draws=10000, iterations=5000, effective_draws=None, dearness=0.06)
    >>> effort_for("vector", "simulated", 180_000.0)
    Effort(chains=8, draws=3333, iterations=416, effective_draws=1000.0, dearness=0.92)
    """
    chains = CHAINS[engine][method]
    too_dear = operations / CHEAP
    if method not in LEAST_CHAINS or too_dear == math.inf:
        return Effort(chains)
    dearness = round(too_dear / (1.0 + too_dear), 2)
    if too_dear <= 1.0:
        return Effort(chains, dearness=dearness)
    fewer = max(LEAST_CHAINS[method], round(chains / too_dear))
    left = max(1.0, too_dear * fewer / chains)
    return Effort(
        fewer,
        max(LEAST_DRAWS, int(DRAWS / left)),
        max(LEAST_ITERATIONS, int(ITERATIONS / too_dear)),
        max(LEAST_EFFECTIVE, EFFECTIVE / too_dear**2),
        dearness,
    )
