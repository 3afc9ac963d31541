import numpy as np
import pytest

from statistical import seeded_rng
from tempering import Ladder, problems
from tempering.learning.density_of_states import DensityOfStates, Energies
from tempering.learning.ladder_choice import LEAST_ACCEPTANCE, choose_ladder

LADDER = Ladder.geometric(12, 0.01)


@pytest.fixture(scope="module")
def states() -> DensityOfStates:
    """The density of states of the paper's mixture, from exact draws of every rung."""
    rng, problem = seeded_rng("density of states"), problems.mixture()
    energy = [np.asarray(problem.log_density(problem.sample(rng, 4000, k))).ravel() for k in LADDER]
    rung = np.repeat(np.arange(len(LADDER)), 4000)
    return DensityOfStates.from_draws(np.concatenate(energy), LADDER.inverse_temperatures, rung)


def test_it_knows_the_normaliser_at_any_k(states):
    problem = problems.mixture()
    for k in (0.7, 0.05, 0.013):
        exact = problem.log_normaliser(k) - problem.log_normaliser(1.0)
        assert states.log_normaliser(k) - states.log_normaliser(1.0) == pytest.approx(exact, abs=0.03)


def test_acceptance_of_rung_moves_is_the_overlap_of_the_two_laws():
    energy, log_share = np.array([-3.0, -1.0, 0.0]), np.log([0.7, 0.2, 0.1])
    states = DensityOfStates(energy, log_share)
    cold, hot = states.probabilities([1.0, 0.4])
    log_p = -states.log_normaliser(np.array([1.0, 0.4]))
    moves = np.minimum(1.0, np.exp((0.4 - 1.0) * energy + log_p[1] - log_p[0]))
    assert states.acceptance(Ladder([1.0, 0.4]))[0] == pytest.approx(cold @ moves, rel=1e-12)
    assert states.acceptance(Ladder([1.0, 0.4]))[0] == pytest.approx(np.minimum(cold, hot).sum(), rel=1e-12)


def test_acceptance_of_swaps_is_the_sum_over_all_pairs():
    states = DensityOfStates(np.array([-3.0, -1.0, 0.0]), np.log([0.7, 0.2, 0.1]))
    cold, hot = states.probabilities([1.0, 0.4])
    gap = np.subtract.outer(states.energy, states.energy)  # hot energy minus cold energy
    brute = float(np.sum(np.outer(hot, cold) * np.minimum(1.0, np.exp(0.6 * gap))))
    assert states.acceptance(Ladder([1.0, 0.4]), "parallel")[0] == pytest.approx(brute, rel=1e-12)


def test_the_barrier_is_the_rejection_of_a_fine_ladder(states):
    fine = Ladder.geometric(300, 0.01)
    for method in ("simulated", "parallel"):
        assert np.sum(1 - states.acceptance(fine, method)) == pytest.approx(states.barrier(fine, method), rel=0.03)


def test_ess_fraction_agrees_with_weights_of_draws(states):
    rng, problem = seeded_rng("ess fraction"), problems.mixture()
    x = problem.sample(rng, 20_000, 0.5)
    log_w = 0.5 * np.asarray(problem.log_density(x)).ravel()
    w = np.exp(log_w - log_w.max())
    assert states.ess_fraction(0.5) == pytest.approx(w.sum() ** 2 / (w**2).sum() / w.size, rel=0.05)


def test_barrier_ladders_have_equal_acceptance(states):
    acceptance = states.acceptance(choose_ladder(states, 0.01, "barrier"))
    assert np.ptp(acceptance) < 0.06


@pytest.mark.parametrize("objective", ["hybrid", "barrier", "ess"])
def test_a_constant_energy_needs_no_rung_between(objective):
    flat = DensityOfStates(np.zeros(5), np.full(5, -np.log(5.0)))
    assert list(choose_ladder(flat, 0.0, objective)) == [1.0, 0.0]


@pytest.mark.parametrize("objective", ["hybrid", "barrier", "ess"])
def test_each_objective_is_best_at_its_own(states, objective):
    def score(ladder, name):
        rate, ess = states.round_trip_rate(ladder), states.ess_per_draw(ladder)
        return {"hybrid": rate * ess, "barrier": rate, "ess": ess}[name]

    chosen = {name: choose_ladder(states, 0.01, name) for name in ("hybrid", "barrier", "ess")}
    own = score(chosen[objective], objective)
    assert all(own >= score(ladder, objective) - 1e-12 for ladder in chosen.values())
    assert all(states.acceptance(ladder).min() >= LEAST_ACCEPTANCE for ladder in chosen.values())


def test_energies_of_several_ladders_are_pooled(states):
    rng, problem = seeded_rng("pooled"), problems.mixture()

    def energies(ladder):
        rung = np.repeat(np.arange(len(ladder)), 3000)
        drawn = [np.asarray(problem.log_density(problem.sample(rng, 3000, k))).ravel() for k in ladder]
        return Energies.of_trace(np.concatenate(drawn), rung, ladder)

    pooled = energies(Ladder([1.0, 0.3, 0.05])).with_newer(energies(Ladder([1.0, 0.2, 0.1, 0.01]))).density_of_states()
    exact = problem.log_normaliser(0.02) - problem.log_normaliser(1.0)
    assert pooled.log_normaliser(0.02) - pooled.log_normaliser(1.0) == pytest.approx(exact, abs=0.1)
