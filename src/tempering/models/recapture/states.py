"""Birds that move between two or three states (sites, breeding or not): the model of Arnason and Schwarz.

A bird in state r survives an interval with phi[r], then leaves for another state with psi[r], of three states for the
first of the others with ``to[r]``, and is seen there with p of its new state. Columns are the states. A bird that is
not seen may be anywhere, so that counts by state do not suffice: needed is the array of releases by state and next
sightings by state.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.layout import DESTINATION, MOVEMENT, PHI, State
from tempering.models.recapture.layout import P as P_
from tempering.models.recapture.tables import length, next_seen

MOST_STATES = 3
XI, HERE, THERE = 4, 0, 1  # rows of chi that are free where nobody leaves: chances to be in each state, unseen


@inner
def move(state: State, t: int, r: int, s: int) -> Any:
    """Return the probability that a survivor of interval t goes from state r to state s."""
    psi = state.values[MOVEMENT, t, r]
    if r == s:
        return 1 - psi
    if state.ints[at.N_COLUMNS] == 2:
        return psi
    first = 1 if r == 0 else 0
    to = state.values[DESTINATION, t, r]
    return psi * to if s == first else psi * (1 - to)


@inner
def states_part(state: State) -> Any:
    """Return the log likelihood of releases and next sightings by state; 0 where there are no states."""
    i, f, chi, total = state.ints, state.floats, state.chi, 0.0
    if not i[at.HAS_STATES]:
        return total
    n_states, n_intervals = i[at.N_COLUMNS], i[at.N_INTERVALS]
    for start in range(n_intervals):
        for release in range(n_states):
            gone = 0.0
            for s in range(n_states):
                chi[XI, HERE, s] = 1.0 if s == release else 0.0
            for t in range(start, n_intervals):
                for s in range(n_states):
                    chi[XI, THERE, s] = 0.0
                for r in range(n_states):
                    phi = state.values[PHI, t, r]
                    if i[at.HAS_LENGTHS]:
                        phi = phi ** length(i, f, t)
                    gone += chi[XI, HERE, r] * (1 - phi)
                    for s in range(n_states):
                        chi[XI, THERE, s] += chi[XI, HERE, r] * phi * move(state, t, r, s)
                for s in range(n_states):
                    p, n = state.values[P_, t, s], next_seen(i, f, start, release, t * n_states + s)
                    total += n * np.log(chi[XI, THERE, s] * p) if n > 0.0 else 0.0
                    chi[XI, HERE, s] = chi[XI, THERE, s] * (1 - p)
            for s in range(n_states):
                gone += chi[XI, HERE, s]
            n = next_seen(i, f, start, release, n_intervals * n_states)
            total += n * np.log(gone) if n > 0.0 else 0.0
    return total


@dataclass(frozen=True, eq=False)
class StateHistories:
    """Encounter histories with states.

    Parameters
    ----------
    codes : (n, T) integers
        0 (not seen), or the state, from 1, that a bird was seen in.
    years : (T,) integers
        The year of each occasion.
    states : tuple of str
        Names of the two or three states.
    number : (n,) integers, optional
        Birds with this history; negative: taken away at their last capture.
    notes : tuple of str
        What a reader of the results must know about the data.

    Examples
    --------
    >>> h = StateHistories([[1, 0, 2], [1, 1, 0]], years=[1990, 1991, 1992], states=("A", "B"))
    >>> int(h.to_counts().moves.sum())
    3
    """

    codes: NDArray[np.int64]
    years: NDArray[np.int64]
    states: tuple[str, ...]
    number: Any = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        codes = np.atleast_2d(np.asarray(self.codes, np.int64))
        number = np.ones(len(codes), np.int64) if self.number is None else np.asarray(self.number, np.int64)
        years = np.asarray(self.years, np.int64)
        for name, array in (("codes", codes), ("number", number), ("years", years)):
            object.__setattr__(self, name, array)
        if not 2 <= len(self.states) <= MOST_STATES:
            raise InputError(
                f"There must be two or three states, but got {len(self.states)}: {', '.join(self.states)}. Join some."
            )
        if codes.min() < 0 or codes.max() > len(self.states) or len(years) != codes.shape[1]:
            raise InputError(
                f"Every entry must be 0 or one of the {len(self.states)} states, one for each of {len(years)} years."
            )
        if not (codes[:, :-1] > 0).any():
            raise InputError("There must be a bird released before the last occasion. Check the order of the columns.")

    @property
    def n_intervals(self) -> int:
        """Return K."""
        return int(self.codes.shape[1]) - 1

    def to_counts(self) -> Counts:
        """Count releases and next sightings by state; there is no other sufficient statistic."""
        n_states, n_intervals = len(self.states), self.n_intervals
        moves = np.zeros((n_intervals, n_states, n_intervals * n_states + 1), np.int64)
        for codes, number in zip(self.codes, self.number, strict=True):
            seen = np.flatnonzero(codes)
            for here, there in zip(seen, [*seen[1:], None], strict=True):
                if here < n_intervals and (there is not None or number > 0):
                    place = -1 if there is None else (there - 1) * n_states + codes[there] - 1
                    moves[here, codes[here] - 1, place] += abs(number)
        nothing = np.zeros((n_states, n_intervals), np.int64)
        return Counts(
            nothing, nothing, nothing, nothing, self.years[:-1], dead=False, groups=self.states, notes=self.notes,
            lengths=np.diff(self.years).astype(float), moves=moves,
        )  # fmt: skip


def transitions(psi: NDArray[np.float64], to: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return matrices (..., from, to) of the movement of survivors.

    Examples
    --------
    >>> transitions(np.array([0.2, 0.5]), None)
    array([[0.8, 0.2],
           [0.5, 0.5]])
    """
    n = psi.shape[-1]
    out = np.zeros((*psi.shape, n))
    for r in range(n):
        others = [s for s in range(n) if s != r]
        out[..., r, r] = 1 - psi[..., r]
        shares = [np.ones_like(psi[..., r])] if to is None else [to[..., r], 1 - to[..., r]]
        for s, share in zip(others, shares, strict=True):
            out[..., r, s] = psi[..., r] * share
    return out
