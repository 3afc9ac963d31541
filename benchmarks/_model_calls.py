"""How often a run has called the model: what every comparison at equal calls needs."""

from tempering import TemperedDraws
from tempering.sampling.planning import GRADIENTS_FROM, LEAPFROG_STEPS

GRADIENTS = LEAPFROG_STEPS + 2  # of a Hamiltonian move taken by default, and the value at its end


def calls_of_a_move(kernel: str) -> int:
    """Return how often a move calls the density, with or without its gradient."""
    return GRADIENTS if kernel.startswith("Hamiltonian") else 1


def has_gradients(run: TemperedDraws) -> bool:
    """Whether Hamiltonian moves are the default there."""
    assert run.info is not None
    return run.info.engine.startswith("vector") and run.layout is not None and run.layout.size >= GRADIENTS_FROM


def most_calls(run: TemperedDraws) -> int:
    """Return how often a default run has called the density at the most, tuning and fits included.

    What was spent before the last stretch of rounds may have been counted in moves dearer than those made since.
    """
    assert run.info is not None
    n_chains, n_draws = run.rung.shape
    frozen = n_draws + sum(r.n_iterations for r in run.info.rounds)
    here = calls_of_a_move(run.info.kernel)
    dearest = max(here, GRADIENTS if has_gradients(run) else 1)
    return n_chains * (here * frozen + dearest * max(run.info.n_iterations - frozen, 0))
