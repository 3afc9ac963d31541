"""A sweep moves every seed that a test states, and nothing else."""

import numpy as np
import sklearn.utils

import seeds
from tempering import problems, randomness


def test_a_sweep_moves_all_seeds_once_and_leaves_the_data_of_problems_alone(monkeypatch):
    plain, data = np.random.default_rng, problems.label_switching().data
    for place, name in ((np.random, "default_rng"), (randomness, "seed_of"), (sklearn.utils, "check_random_state")):
        monkeypatch.setattr(place, name, getattr(place, name))  # put back afterwards
    monkeypatch.setattr(seeds, "SEED_OFFSET", 7)
    seeds.shift_all()
    assert np.random.default_rng(3).random() == plain(7003).random()
    assert np.random.default_rng(7003).random() == plain(7003).random()
    assert np.random.default_rng([3, 4]).random() == plain([3, 4]).random()
    assert (randomness.seed_of(3), randomness.seed_of(7003)) == (7003, 7003)
    assert sklearn.utils.check_random_state(3).random() == np.random.RandomState(7003).random()
    np.testing.assert_array_equal(problems.label_switching().data, data)
