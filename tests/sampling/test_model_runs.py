"""What runs of model objects can be told: which draws to keep, when to end, how far to heat; and how they are tuned."""

from dataclasses import dataclass

import numpy as np
import pytest

import tempering as tp
from tempering.engines.trace import trimmed_rows
from tempering.errors import SamplerError

LADDER = [1.0, 0.5, 0.2]
COUNTS = np.array([1, 2, 3])


@dataclass(frozen=True)
class Normals:
    """One to three numbers, with the density exp(k energy) for each count of them: Z(k) is the sum of k^(-n / 2).

    Steps are exact draws at every k > 0. What is left of a record is zeros.
    """

    is_ragged: bool = True
    start: float = 0.0

    def initial(self, rng):
        return np.full(1, self.start)

    def step(self, rng, state, k):
        mass = k ** (-0.5 * COUNTS)
        return rng.standard_normal(rng.choice(COUNTS, p=mass / mass.sum())) / np.sqrt(k)

    def energy(self, state):
        return -0.5 * float(state @ state)

    def record(self, state):
        return np.concatenate([[len(state)], state, np.zeros(9 - len(state))])


def run(model=None, **options):
    options = {"ladder": LADDER, "chains": 2, "draws": 120, "tuning": tp.Tuning(300), "rng": 1} | options
    return tp.sample(Normals() if model is None else model, progress=False, **options)


def assert_same(one, two):
    np.testing.assert_array_equal(one.terms, two.terms)
    np.testing.assert_array_equal(one.rung, two.rung)
    np.testing.assert_array_equal(trimmed_rows(one.values["x"]), trimmed_rows(two.values["x"]))


def every_third(found):
    return found.terms[:, 2::3], found.values["x"][:, 2::3]


@pytest.mark.parametrize("kept", [False, True])
def test_every_third_draw_is_what_it_says(kept, tmp_path):
    execution = tp.Execution(checkpoint=tmp_path / "run") if kept else tp.Execution()
    terms, values = every_third(run())
    found = run(keep=tp.Draws(every=3), execution=execution)
    np.testing.assert_array_equal(found.terms, terms)
    np.testing.assert_array_equal(trimmed_rows(found.values["x"]), trimmed_rows(values))
    terms, _ = every_third(run(draws=180))
    np.testing.assert_array_equal(found.more(20).terms, terms)


def test_rows_that_zeros_fill_up_are_cut_in_memory_alone(tmp_path):
    cut, whole = run(), run(Normals(is_ragged=False))
    assert cut.values["x"].shape[-1] == 4
    assert whole.values["x"].shape[-1] == 10
    assert_same(cut, whole)
    assert_same(cut, run(execution=tp.Execution(checkpoint=tmp_path / "run")))
    assert_same(run(draws=200), cut.more(80))


def test_a_run_ends_when_a_function_of_it_says_so(tmp_path):
    seen = []

    def enough(found):
        seen.append(found.n_draws)
        return found.n_draws >= 60

    until = tp.Until(enough=enough, least=40)
    found = run(until=until)
    assert seen == [40, 60]
    assert_same(found, run(draws=60))
    for _ in range(2):  # and the one that is kept makes no more draws when it is asked for again
        assert_same(found, run(until=until, execution=tp.Execution(checkpoint=tmp_path / "run")))


def test_a_ladder_is_tuned_down_to_where_it_was_told():
    found = run(ladder=None, tuning=tp.Tuning(1000, hottest=0.05), draws=50)
    assert found.ladder.hottest == pytest.approx(0.05)
    assert found.ladder[0] == 1.0
    for wrong in ({"ladder": LADDER, "tuning": tp.Tuning(100, hottest=0.1)}, {"tuning": tp.Tuning(0, hottest=0.1)}):
        with pytest.raises(SamplerError, match="hottest is for a ladder of one leg that is tuned"):
            run(**wrong)
    with pytest.raises(SamplerError, match="only if there is a prior there"):
        run(ladder=None, tuning=tp.Tuning(100, hottest=0.0))
    with pytest.raises(SamplerError, match="must lie in"):
        tp.Tuning(hottest=1.5)


def test_tuning_of_a_model_cools_chains_learns_normalisers_and_ends_on_the_target():
    found = run(Normals(start=1e6), draws=1, chains=4, tuning=tp.Tuning(8000))
    assert np.all(found.rung <= 1)
    log_z = np.log(np.sum(np.power.outer(np.array(LADDER), -0.5 * COUNTS), axis=1))
    np.testing.assert_allclose(found.log_pseudo_prior, log_z[0] - log_z, atol=0.1)
    assert np.abs(log_z[0] - log_z)[1:].min() > 0.5  # a flat one would be seen
