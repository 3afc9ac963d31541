"""What the density of states promises of a ladder, against what runs on that ladder do."""

import jax.numpy as jnp
import numpy as np
import pytest
from numba import njit

import tempering as tp
from statistical import seeded_rng
from tempering.learning.density_of_states import Energies

LADDER = tp.Ladder([1.0, 0.5, 0.25, 0.12, 0.06, 0.03])
SHAPE = 6.0  # of a gamma density, whose powers are gamma densities too


@njit
def step(rng, state, k):
    """Draw afresh from pi^k: energies are forgotten at every move, as the predictions take them to be."""
    return np.array([rng.gamma(k * (SHAPE - 1.0) + 1.0, 1.0 / k)])


@njit
def sticky_step(rng, state, k):
    """Draw afresh every tenth time only."""
    return step(rng, state, k) if rng.random() < 0.1 else state


@njit
def energy(state):
    return (SHAPE - 1.0) * np.log(state[0]) - state[0]


@njit
def record(state):
    return state


class Gamma:
    """A model that is drawn from exactly at every k."""

    def __init__(self, step):
        self.step, self.energy, self.record = step, energy, record

    def initial(self, rng):
        return np.array([SHAPE])


@pytest.fixture(scope="module")
def states():
    """The density of states from exact draws of another ladder."""
    rng, ladder = seeded_rng("predictions"), tp.Ladder.geometric(9, 0.03)
    x = np.stack([rng.gamma(k * (SHAPE - 1.0) + 1.0, 1.0 / k, size=4000) for k in ladder])
    energies = (SHAPE - 1.0) * np.log(x) - x
    rung = np.broadcast_to(np.arange(9)[:, None], x.shape)
    return Energies.of_trace(energies, rung, ladder).density_of_states()


def run(method, states, step=step):
    return tp.sample(
        Gamma(step),
        ladder=LADDER,
        method=method,
        rng=6,
        tuning=tp.Tuning(0, pseudo_prior=states.log_pseudo_prior(LADDER) if method == "simulated" else None),
        draws=20_000,
        chains=8,
        progress=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["simulated", "parallel"])
def test_runs_do_what_the_density_of_states_predicts(method, states):
    draws = run(method, states)
    seen = draws.rungs()["exchange_acceptance"].to_numpy()[:-1]
    assert np.abs(seen - states.acceptance(LADDER, method)).max() < 0.02
    assert draws.n_round_trips == pytest.approx(states.round_trip_rate(LADDER, method) * draws.rung.size, rel=0.06)
    assert draws.ess("ess_optimal") / draws.rung.size == pytest.approx(states.ess_per_draw(LADDER), rel=0.05)


def test_control_chains_that_remember_make_fewer_round_trips(states):
    draws = run("simulated", states, sticky_step)
    assert draws.n_round_trips < 0.8 * states.round_trip_rate(LADDER) * draws.rung.size  # the check above is at 0.94


def regression(n_rows=12_000):
    """Return a linear regression whose evidence is thousands of nats below its largest likelihood."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 4))
    y = x @ np.array([2.0, -1.0, 1.5, 0.5]) + rng.normal(size=n_rows)
    gram, moment, square = x.T @ x, x.T @ y, float(y @ y)

    def log_likelihood(theta):
        return -0.5 * (square - 2 * moment @ theta + theta @ gram @ theta)

    return tp.Target.from_likelihood(log_likelihood, lambda theta: -0.125 * jnp.sum(theta**2))


# down to 1e-5: the prior's mean energy is -1e5, and from 1e-4 the last step is long enough for its share to be luck
@pytest.mark.slow
@pytest.mark.parametrize("ladder", [tp.Ladder([*np.geomspace(1, 1e-5, 39), 0.0]), None], ids=["given", "tuned"])
def test_no_rung_is_starved_or_crowded_over_5000_nats(ladder):
    run = tp.sample(regression(), initial=np.zeros(4), ladder=ladder, path="prior", rng=2, draws=6000, progress=False)
    assert np.ptp(run.log_pseudo_prior) > 5000
    check_occupancy(run)


@pytest.mark.slow
@pytest.mark.parametrize("ladder", [tp.Ladder.geometric(40, 0.1), None], ids=["given", "tuned"])
def test_no_rung_is_starved_or_crowded_in_50_dimensions(ladder):
    target = tp.Target(lambda x: -0.5 * jnp.sum(x**2))
    run = tp.sample(target, initial=np.zeros(50), ladder=ladder, path="powers", rng=2, draws=6000, progress=False)
    check_occupancy(run)


def check_occupancy(run):
    """Require that no rung has less than a third, or more than three times, of its even share."""
    occupancy = run.visits / run.rung.size * len(run.ladder)
    assert 1 / 3 < occupancy.min() <= occupancy.max() < 3
