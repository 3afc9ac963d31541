import numpy as np
import pytest

import tempering as tp
from tempering import problems
from tempering.engines.trace import Trace
from tempering.learning.pilot import spread_ratio
from tempering.learning.rounds import swap_acceptance


def test_swap_acceptance_counts_proposals_between_neighbours():
    rung = np.array([[0, 1, 1, 0, 0]], dtype=np.int32)
    proposed = np.array([[0, 1, 2, 0, 1]], dtype=np.int32)  # accepted up, refused up, accepted down, refused up
    trace = Trace(None, rung[..., None].astype(float), rung, proposed, None)
    assert swap_acceptance(trace, 3) == pytest.approx([2 / 3, 0.0])


def test_chains_apart_have_a_large_spread_ratio():
    rng = np.random.default_rng(1)
    together = rng.normal(size=(6, 200, 2))
    assert spread_ratio(together) < 1.1
    assert spread_ratio(together + np.array([[0.0, 8.0]]) * np.arange(6)[:, None, None]) > 20


@pytest.mark.parametrize("method", ["mbar", "rao_blackwellised", "stochastic_approximation", "wang_landau"])
def test_tuning_evens_out_the_rungs(method):
    target = tp.Target(problems.skewed(3).log_density_numba)
    ladder = tp.Ladder.geometric(8, 0.2)
    run = tp.sample(
        target,
        initial=np.zeros(3),
        ladder=ladder,
        tuning=tp.Tuning(6000, pseudo_prior=method),
        draws=6000,
        chains=8,
        rng=3,
        progress=False,
    )
    share = run.visits / run.rung.size * len(ladder)
    assert 1 / 3 < share.min() <= share.max() < 3


def test_control_without_tuning_the_rungs_are_uneven():
    target = tp.Target(problems.skewed(3).log_density_numba)
    ladder = tp.Ladder.geometric(8, 0.2)
    run = tp.sample(
        target, initial=np.zeros(3), ladder=ladder, tuning=tp.Tuning(0), draws=6000, chains=8, rng=3, progress=False
    )
    share = run.visits / run.rung.size * len(ladder)
    assert share.min() < 1 / 3
    assert share.max() > 3


def test_a_ladder_tuned_from_nothing_crosses_the_modes():
    target = tp.Target(problems.mixture().as_vector.log_density_numba)
    run = tp.sample(
        target, initial=np.array([-8.0]), rng=1, tuning=tp.Tuning(5000), draws=20_000, path="powers", progress=False
    )
    right = run.expect(lambda x: x[..., 0] > 0)
    assert run.ladder.hottest < 0.1
    assert run.n_round_trips > 1000
    assert abs(right.value - 0.4) < 5 * right.standard_error < 0.1


@pytest.mark.slow
def test_a_likelihood_is_heated_down_to_its_prior():
    problem = problems.likelihood_gaussian(2)
    target = tp.Target.from_likelihood(problem.log_likelihood_numba, problem.log_prior_numba)
    run = tp.sample(target, initial=problem.initial, rng=1, tuning=tp.Tuning(3000), draws=2000, progress=False)
    assert run.ladder.hottest == 0.0
