r"""The move of every rung: leave a state without rejection, arrive at the next, know the weights of all rungs there.

What holds for each mover: jumps at rung i leave :math:`\pi_i(x) Z_i(x)` invariant, with :math:`\log Z_i` in
``log_totals``. Then :math:`1 / Z_i` is the weight, and the law of (x, rung) under moves of both kinds is
:math:`p_i \pi_i(x) Z_i(x)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tempering.arrays import Floats
from tempering.errors import SamplerError
from tempering.informed.balancing import log_balancing
from tempering.informed.decisions import Ints, pick, subset
from tempering.informed.neighbourhood import Moves, Neighbourhood, log_rates, log_total


class Point(NamedTuple):
    """A state with all that the next jump and the next rung move need; nothing is computed twice."""

    state: Any
    energy: float
    log_totals: Floats  # log Z_i of every rung
    kept: Any  # what the mover itself needs to leave


class Mover(Protocol):
    """A chain without rejections at each of several rungs."""

    @property
    def inverse_temperatures(self) -> Any:
        """Return k of every rung."""

    def initial(self, rng: np.random.Generator) -> Any:
        """Return the state to start from."""

    def arrive(self, rng: np.random.Generator, state: Any, hint: int = -1) -> Point:
        """Evaluate a state; ``hint`` is what `leave` returned with it, negative at the start."""

    def leave(self, rng: np.random.Generator, point: Point, rung: int) -> tuple[Any, int]:
        """Return the next state at this rung, and a hint for `arrive`."""

    def record(self, state: Any) -> Any:
        """Return what is kept of a state."""


@dataclass(frozen=True, eq=False)
class InformedMover:
    """Informed importance tempering: jump to a neighbour by its rate.

    Parameters
    ----------
    model : Neighbourhood
    inverse_temperatures : ndarray, shape (n_rungs,)
    balancing : str
        One of `tempering.informed.BALANCING`.
    tries : int, optional
        Look at so many neighbours only, chosen at random at each arrival, the one just left among them. That the way
        back is always open makes the chain exact: (x, subset) is the state, 1 / sum over the subset the weight.
    """

    model: Neighbourhood
    inverse_temperatures: Floats
    balancing: str = "square_root"
    tries: int | None = None

    def __post_init__(self) -> None:
        log_balancing(self.balancing)
        if self.tries is not None:
            if self.tries < 1:
                raise SamplerError(f"tries must be at least 1, but got {self.tries}. Leave it out to try all.")
            if not hasattr(self.model, "way_back"):
                raise SamplerError(
                    "Multiple try needs the model's method way_back(state, index), which this model does not have. It "
                    "says which neighbour of the new state the old one is: add it, or leave tries out."
                )

    def initial(self, rng: np.random.Generator) -> Any:
        """Return the model's initial state."""
        return self.model.initial(rng)

    def record(self, state: Any) -> Any:
        """Return what the model keeps of a state."""
        return self.model.record(state)

    def arrive(self, rng: np.random.Generator, state: Any, hint: int = -1) -> Point:
        """Evaluate a state, its neighbours (or some of them) and the sum of the rates at every rung."""
        chosen, moves = self._look_around(rng, state, hint)
        energy = self.model.terms(state)[0]
        totals = [log_total(self._rates(state, moves, rung)) for rung in range(len(self.inverse_temperatures))]
        return Point(state, energy, np.array(totals), (chosen, moves))

    def leave(self, rng: np.random.Generator, point: Point, rung: int) -> tuple[Any, int]:
        """Jump to one of the neighbours looked at."""
        chosen, moves = point.kept
        position = pick(rng, self._rates(point.state, moves, rung))
        if chosen is None:
            return self.model.move(point.state, position), -1
        index = int(chosen[position])
        return self.model.move(point.state, index), self.model.way_back(point.state, index)  # type: ignore[attr-defined]

    def _rates(self, state: Any, moves: Moves, rung: int) -> Floats:
        k = float(self.inverse_temperatures[rung])
        return log_rates(self.model, state, moves, k, log_balancing(self.balancing))

    def _look_around(self, rng: np.random.Generator, state: Any, hint: int) -> tuple[Ints | None, Moves]:
        if self.tries is None:
            return None, self.model.neighbours(state)
        counting = getattr(self.model, "n_neighbours", None)
        everything = None if counting is not None else self.model.neighbours(state)
        n = counting(state) if counting is not None else len(everything.energy)  # type: ignore[union-attr]
        chosen = subset(rng, n, min(self.tries, n), hint)
        if hasattr(self.model, "some_neighbours"):
            moves = self.model.some_neighbours(state, chosen)
        else:
            if everything is None:
                everything = self.model.neighbours(state)
            moves = Moves(everything.energy[chosen], everything.base[chosen])
        return chosen, self._correct_degrees(state, chosen, moves, n)

    def _correct_degrees(self, state: Any, chosen: Ints, moves: Moves, n: int) -> Moves:
        """A neighbour is looked at with probability tries / degree: balance pi times that, not pi."""
        degree = getattr(self.model, "degree", None)
        if degree is None:
            return moves
        assert self.tries is not None
        there = np.array([degree(state, int(index)) for index in chosen], dtype=np.float64)
        seen = np.log(np.minimum(self.tries, there) / there) - np.log(min(self.tries, n) / n)
        return Moves(moves.energy, moves.base + seen)
