"""The loops of the scalar engine: simulated tempering, and Metropolis-coupled chains.

Plain Python; the engine binds ``move`` and its companions to a kernel or a model, and compiles the whole
when the pieces are compiled. Bodies write into arrays they are given and stop where a model's energy is no number.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tempering.kernels.kernel import Function, Functions, Particle
from tempering.kernels.scalar import copy, evaluate, move_to_proposal
from tempering.path.stacked import References, mixture_draw
from tempering.randomness import accept

Array = NDArray[np.float64]
State = TypeVar("State")  # of a user's model, anything at all


def _to_bind(*_: Any) -> Any:
    raise NotImplementedError


def local_move(*_: Any) -> Particle:
    """Stand for the kernel's own move until `bind` says which it is."""
    raise NotImplementedError


move = draw_base = write_terms = write = move_rung = swap = particle_of = put_particle = _to_bind


def simulate(
    rng: np.random.Generator,
    one: Function,
    two: Function,
    three: Function,
    references: References,
    chain: tuple[Any, int, int],
    schedule: tuple[Any, Array, Array, bool],
    out: tuple[NDArray[Any], ...],
) -> tuple[Any, int, int, int]:
    """Run one chain of simulated tempering; return its end and how many iterations were done."""
    particle, rung, direction = chain
    settings, coefficients, log_pseudo_prior, moving = schedule
    # separate arguments, for Numba warns at each call about tuples of functions; the third, of another type than the
    # first two, is wrapped, since some versions insist that functions of one tuple be alike
    functions = (one, two, (three,), references)
    values, terms, rungs, proposals, acceptances = out
    n = rungs.size
    for t in range(n):
        particle = move(rng, functions, particle, coefficients[rung], settings, rung, acceptances[t])
        write(functions, particle, values[t])
        if not write_terms(functions, particle, terms[t]):
            return particle, rung, direction, t
        proposed = rung
        if moving:
            rung, direction, proposed = move_rung(rng, rung, direction, terms[t], coefficients, log_pseudo_prior)
        rungs[t] = rung
        proposals[t] = proposed
    return particle, rung, direction, n


def couple(
    rng: np.random.Generator,
    one: Function,
    two: Function,
    three: Function,
    references: References,
    ensemble: tuple[Any, NDArray[np.int64], NDArray[np.int64], int],
    schedule: tuple[Any, Array, bool],
    out: tuple[NDArray[Any], ...],
) -> tuple[int, int]:
    """Run one ensemble of coupled chains, one a rung; return iterations done and the replica at fault."""
    particles, rung, replica, iteration = ensemble
    settings, coefficients, moving = schedule
    functions = (one, two, (three,), references)
    values, terms, rungs, proposals, acceptances, terms_now, proposed = out  # the last two are scratch
    n_replicas, n = rungs.shape
    for t in range(n):
        for r in range(n_replicas):
            here = rung[r]
            particle = particle_of(particles, r)
            particle = move(rng, functions, particle, coefficients[here], settings, here, acceptances[r, t])
            put_particle(particles, r, particle)
            write(functions, particle, values[r, t])
            if not write_terms(functions, particle, terms[r, t]):
                return t, r
            copy(terms[r, t], terms_now[r])
            proposed[r] = here
        if moving:
            swap(rng, iteration + t, rung, replica, terms_now, coefficients, proposed)
        for r in range(n_replicas):
            rungs[r, t] = rung[r]
            proposals[r, t] = proposed[r]
    return n, -1


def write_terms_of_particle(functions: Functions, particle: Particle, out: Array) -> bool:
    """Record the terms kept with a position."""
    copy(particle[2], out)
    return True


def write_particle(functions: Functions, particle: Particle, out: Array) -> None:
    """Record the position."""
    copy(particle[0], out)


def particle_of_arrays(particles: Particle, r: int) -> Particle:
    """Return views of replica r's rows."""
    x, proposal, here, there = particles
    return x[r], proposal[r], here[r], there[r]


def put_nothing(particles: object, r: int, particle: object) -> None:
    """Leave rows alone: they were changed in place."""


def redraw_or_move(
    rng: np.random.Generator,
    functions: Functions,
    particle: Particle,
    coefficients: Array,
    settings: tuple[Array, NDArray[np.int64], Any],
    rung: int,
    acceptance: Array,
) -> Particle:
    """Draw from the rung's source at an end, which starts a new tour; elsewhere propose such draws now and then."""
    fresh, sources, local_settings = settings
    source = sources[rung]
    if source < 0 or (not is_end(coefficients, source) and rng.random() >= fresh[rung]):
        return local_move(rng, functions, particle, coefficients, local_settings, rung, acceptance)
    _, proposal, here, there = particle
    references = functions[3]
    n_own = here.size - references[0].size
    if source < n_own:
        draw_base(functions, rng, proposal)
    else:
        mixture_draw(rng, references, source - n_own, proposal)
    evaluate(functions, proposal, there)
    log_ratio = 0.0
    for i in range(coefficients.size):
        left = coefficients[i] - (1.0 if i == source else 0.0)
        if left != 0.0:
            log_ratio += left * (there[i] - here[i])  # the density drawn from cancels
    if accept(rng, log_ratio):
        move_to_proposal(particle)
    acceptance[:] = np.nan
    return particle


def is_end(coefficients: Array, source: int) -> bool:
    """Whether a rung is the density of its source itself."""
    for i in range(coefficients.size):
        if coefficients[i] != (1.0 if i == source else 0.0):
            return False
    return True


def draw_base_by_function(functions: Functions, rng: np.random.Generator, out: Array) -> None:
    """Draw from the base by the user's function."""
    out[:] = functions[2][0](rng)


def draw_no_base(functions: Functions, rng: np.random.Generator, out: Array) -> None:
    """Stand for a base that nobody can draw from: no rung has it as its source."""


def step_model(
    rng: np.random.Generator,
    functions: Functions,
    state: object,
    coefficients: Array,
    settings: object,
    rung: int,
    acceptance: Array,
) -> Any:
    """Move a user's model by its own step; its acceptance is not known."""
    step = functions[0]
    acceptance[0] = np.nan
    return step(rng, state, coefficients[0])


def write_terms_of_model(functions: Functions, state: object, out: Array) -> bool:
    """Ask a user's model for its energy; return whether it is a number."""
    out[0] = functions[1](state)
    return bool(out[0] < np.inf)


def write_model(functions: Functions, state: object, out: Array) -> None:
    """Record what the user's model wants kept."""
    record = functions[2][0]
    out[:] = record(state)


def write_model_of_vectors(functions: Functions, state: object, out: Array) -> None:
    """Do so where it is a vector, number by number: compiled in a tenth of the time."""
    record = functions[2][0]
    copy(record(state), out)


def listed(state: object) -> Any:
    """Return a list of one state; ``List`` is bound where it is compiled."""
    found = List()  # type: ignore[name-defined] # noqa: F821
    found.append(state)
    return found


def put_at_end(particles: list[State], state: State) -> None:
    """Put a state at the end of a list."""
    particles.append(state)


def item_of(particles: list[State], r: int) -> State:
    """Return state r of a list."""
    return particles[r]


def put_item(particles: list[State], r: int, particle: State) -> None:
    """Put state r back into its list."""
    particles[r] = particle
