"""Minimisation and designs: points apart, a known minimum found, bad evaluations survived."""

import numpy as np
import pytest

from tempering.errors import InputError
from tempering.models.treed_gp import Minimiser, TreedGP, choose_spread, latin_hypercube, minimise

QUICK = TreedGP(prior={"tree": False}, draws=200, tune=200, keep={"trees": 20}, chains=1, tempering={"ladder": [1]})


def valley(x):
    return (x[0] - 0.7) ** 2 + 0.3 * (x[1] + 0.2) ** 2


@pytest.mark.slow
def test_a_valley_with_noise_is_found_in_few_evaluations():
    rng = np.random.default_rng(1)
    found = minimise(
        lambda x: valley(x) + 0.02 * rng.standard_normal(),
        [(0, 1), (-1, 1)],
        n_calls=30,
        batch=5,
        model=QUICK,
        random_state=2,
    )
    assert valley(found.x) < 0.03  # of 20 random points the best has 0.03 on average
    assert abs(found.mean - valley(found.x)) < 4 * found.deviation + 0.02
    assert found.inputs.shape == (30, 2)
    at_random = latin_hypercube(30, [(0, 1), (-1, 1)], random_state=3)
    late = np.array([valley(x) for x in found.inputs[15:]])
    assert np.median(late) < 0.5 * np.median([valley(x) for x in at_random])


def test_points_asked_for_together_are_apart():
    x = np.linspace(0, 1, 12)[:, None]
    y = np.cos(9 * x.ravel())  # minima near 0.35 and beyond 1
    model = QUICK.set_params(random_state=1).fit(x, y)
    candidates = np.linspace(0, 1, 101)[:, None]
    chosen = model.rank_improvement(candidates, 4, random_state=1)
    assert len(set(chosen.tolist())) == 4
    assert chosen[0] == np.argmax(model.expected_improvement(candidates))
    assert chosen[0] == model.rank_improvement(candidates)[0]


def test_failed_evaluations_are_left_out_and_bad_input_is_told():
    search = Minimiser([(0, 1)], n_initial=4, model=QUICK, random_state=1)
    x = search.ask(4)
    search.tell(x, np.where(np.arange(4) == 2, np.nan, x[:, 0]))
    assert len(search.responses) == 3
    with pytest.raises(InputError, match="one value for each point"):
        search.tell([[0.1, 0.2]], [1.0])
    with pytest.raises(InputError, match="low < high"):
        Minimiser([(1, 0)])
    with pytest.raises(InputError, match="no finite value"):
        minimise(lambda x: np.nan, [(0, 1)], random_state=1)


def test_equal_seeds_choose_equal_points():
    one, two = (minimise(lambda x: x[0], [(0, 1)], n_calls=11, model=QUICK, random_state=4) for _ in range(2))
    np.testing.assert_array_equal(one.inputs, two.inputs)


def test_spread_points_are_further_apart_than_the_first_ones():
    rng = np.random.default_rng(1)
    candidates = rng.random((200, 2))

    def closest(points):
        gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
        return gaps[np.triu_indices(len(points), 1)].min()

    chosen = choose_spread(candidates, 10)
    assert closest(candidates[chosen]) > 3 * closest(candidates[:10])
    known = candidates[chosen[:5]]
    assert not set(choose_spread(candidates, 5, known)) & set(chosen[:5])
