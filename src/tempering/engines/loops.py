"""The loops of the scalar engine: simulated tempering, and Metropolis-coupled chains.

Plain Python; the engine binds ``move`` and its companions to a kernel or a model, and compiles the whole
when the pieces are compiled. Bodies write into arrays they are given and stop at the first infinite energy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.kernels.scalar import copy, evaluate, move_to_proposal
from tempering.randomness import accept

Array = NDArray[np.float64]


def _to_bind(*_: Any) -> Any:
    raise NotImplementedError


move = local_move = energy_of = write = move_rung = swap = particle_of = put_particle = _to_bind


def simulate(
    rng: np.random.Generator,
    one: Any,
    two: Any,
    three: Any,
    particle: Any,
    settings: Any,
    rung: int,
    direction: int,
    k: Array,
    log_pseudo_prior: Array,
    moving: bool,
    out: Any,
) -> tuple[Any, int, int, int]:
    """Run one chain of simulated tempering; return its end and how many iterations were done."""
    # separate arguments, for Numba warns at each call about tuples of functions; the third, of another type than the
    # first two, is wrapped, since some versions insist that functions of one tuple be alike
    functions = (one, two, (three,))
    values, energies, rungs, proposals, acceptances = out
    n = energies.size
    for t in range(n):
        particle = move(rng, functions, particle, k[rung], settings, rung, acceptances[t])
        energy = energy_of(functions, particle)
        write(functions, particle, values[t])
        energies[t] = energy
        if not energy < np.inf:
            return particle, rung, direction, t
        proposed = rung
        if moving:
            rung, direction, proposed = move_rung(rng, rung, direction, energy, k, log_pseudo_prior)
        rungs[t] = rung
        proposals[t] = proposed
    return particle, rung, direction, n


def couple(
    rng: np.random.Generator,
    one: Any,
    two: Any,
    three: Any,
    particles: Any,
    settings: Any,
    rung: NDArray[np.int64],
    replica: NDArray[np.int64],
    k: Array,
    iteration: int,
    moving: bool,
    out: Any,
) -> tuple[int, int]:
    """Run one ensemble of coupled chains, one a rung; return iterations done and the replica at fault."""
    functions = (one, two, (three,))
    values, energies, rungs, proposals, acceptances, energy_now, proposed = out  # the last two are scratch
    n_replicas, n = energies.shape
    for t in range(n):
        for r in range(n_replicas):
            here = rung[r]
            particle = particle_of(particles, r)
            particle = move(rng, functions, particle, k[here], settings, here, acceptances[r, t])
            put_particle(particles, r, particle)
            energy = energy_of(functions, particle)
            write(functions, particle, values[r, t])
            energies[r, t] = energy
            energy_now[r] = energy
            if not energy < np.inf:
                return t, r
            proposed[r] = here
        if moving:
            swap(rng, iteration + t, rung, replica, energy_now, k, proposed)
        for r in range(n_replicas):
            rungs[r, t] = rung[r]
            proposals[r, t] = proposed[r]
    return n, -1


def energy_of_particle(functions: Any, particle: Any) -> float:
    """Return the energy kept with a position; +inf if either log density was NaN or +inf."""
    here = particle[2]
    if here[0] == np.inf:
        return np.inf
    return float(here[1])


def write_particle(functions: Any, particle: Any, out: Array) -> None:
    """Record the position."""
    copy(particle[0], out)


def particle_of_arrays(particles: Any, r: int) -> Any:
    """Return views of replica r's rows."""
    x, proposal, here, there = particles
    return x[r], proposal[r], here[r], there[r]


def put_nothing(particles: Any, r: int, particle: Any) -> None:
    """Leave rows alone: they were changed in place."""


def redraw_or_move(
    rng: np.random.Generator,
    functions: Any,
    particle: Any,
    k: float,
    settings: Any,
    rung: int,
    acceptance: Array,
) -> Any:
    """Draw from the base itself where k = 0, which starts a new tour; elsewhere propose such draws now and then."""
    fresh, local_settings = settings
    if k > 0.0 and rng.random() >= fresh[rung]:
        return local_move(rng, functions, particle, k, local_settings, rung, acceptance)
    _, proposal, here, there = particle
    proposal[:] = functions[2][0](rng)
    evaluate(functions, proposal, there)
    if k == 0.0 or accept(rng, k * (there[1] - here[1])):  # the base's densities cancel
        move_to_proposal(particle)
    acceptance[:] = np.nan
    return particle


def step_model(
    rng: np.random.Generator,
    functions: Any,
    state: Any,
    k: float,
    settings: Any,
    rung: int,
    acceptance: Array,
) -> Any:
    """Move a user's model by its own step; its acceptance is not known."""
    step, _, _ = functions
    acceptance[0] = np.nan
    return step(rng, state, k)


def energy_of_model(functions: Any, state: Any) -> float:
    """Ask a user's model for its energy."""
    _, energy, _ = functions
    value = energy(state)
    if np.isnan(value):
        return np.inf
    return float(value)


def write_model(functions: Any, state: Any, out: Array) -> None:
    """Record what the user's model wants kept."""
    record = functions[2][0]
    out[:] = record(state)


def item_of(particles: Any, r: int) -> Any:
    """Return state r of a list."""
    return particles[r]


def put_item(particles: Any, r: int, particle: Any) -> None:
    """Put state r back into its list."""
    particles[r] = particle
