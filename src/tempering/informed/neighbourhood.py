"""What a user brings to an informed chain: a state, its neighbours, and the log ratios to all of them at once."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tempering.arrays import Floats
from tempering.errors import TargetError
from tempering.informed.balancing import LogBalancing


class Moves(NamedTuple):
    """All neighbours of one state: what the two terms of the log density change by on the way there.

    The density of a rung is base x exp(k energy). Powering up the whole density has ``base`` zero; tempering a
    likelihood has the prior as its base.
    """

    energy: Floats
    base: Floats


@runtime_checkable
class Neighbourhood(Protocol):
    """A finite neighbourhood of every state; y is a neighbour of x exactly if x is one of y.

    ``neighbours`` may change in number from state to state. A neighbour outside the support has energy or base
    minus infinity. Two optional methods: ``log_edge_weights(state, moves, k)``, symmetric in x and y, multiplies the
    rates (weighted tempered Gibbs); ``way_back(state, index)`` says which neighbour of the new state the old one is
    (needed by multiple try); ``degree(state, index)``, how many neighbours the new state has, where that number
    changes (multiple try again).
    """

    def initial(self, rng: np.random.Generator) -> Any:
        """Return the state a chain starts from."""

    def terms(self, state: Any) -> tuple[float, float]:
        """Return (energy, log base) of a state."""

    def neighbours(self, state: Any) -> Moves:
        """Return the changes of both terms towards every neighbour, shape (n_neighbours,) each."""

    def move(self, state: Any, index: int) -> Any:
        """Return the neighbour of that index."""

    def record(self, state: Any) -> Any:
        """Return what is kept of a state: a number or an array of one shape."""


def log_ratios(moves: Moves, k: float) -> Floats:
    """Return log pi_k(y) / pi_k(x) for all neighbours y."""
    if k == 0.0:
        return np.asarray(moves.base)  # a neighbour without likelihood is as good as any other there
    ratio = k * moves.energy + moves.base
    if np.isnan(ratio).any():
        raise TargetError(
            f"The log ratios to the neighbours must be numbers, but neighbour {int(np.argmax(np.isnan(ratio)))} "
            "has NaN. A neighbour outside the support has energy or base minus infinity."
        )
    return np.asarray(ratio)


def log_rates(model: Neighbourhood, state: Any, moves: Moves, k: float, balancing: LogBalancing) -> Floats:
    """Return the log rate of the jump to every neighbour under pi_k."""
    rates = balancing(log_ratios(moves, k))
    weights = getattr(model, "log_edge_weights", None)
    return rates if weights is None else np.asarray(rates + weights(state, moves, k))


def log_total(rates: Floats) -> float:
    """Return log Z, the log of the sum of all rates."""
    largest = float(rates.max()) if rates.size else -np.inf
    # SciPy's logsumexp takes ten times as long on a short array
    total = largest + float(np.log(np.exp(rates - largest).sum())) if np.isfinite(largest) else largest
    if not np.isfinite(total):
        raise TargetError(
            f"The rates out of a state must have a positive, finite sum, but its log is {total}. "
            "Every state needs a neighbour with positive probability."
        )
    return total
