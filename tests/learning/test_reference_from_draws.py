"""References fitted to the draws of a run: as many components as the draws speak for, judged by others."""

import numpy as np
import pytest

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import EstimatorError
from tempering.learning.reference import fit_reference, fit_to_draws
from tempering.learning.reference.fitted import missed_share
from tempering.learning.reference.from_draws import Split, thinned
from tempering.learning.reference.surface import Surface
from tempering.problems import Banana, likelihood_gaussian, ring, two_modes


@pytest.mark.parametrize("problem", [Banana(), ring()], ids=["banana", "ring"])
def test_draws_of_a_bent_or_parted_target_are_followed_by_several_components(problem):
    """Over 12 seeds ESS a draw was 0.88 to 0.92 (banana) and 0.60 to 0.91 (ring)."""
    rng = seeded_rng("several components")
    values = problem.sample(rng, 4000)
    fitted = fit_to_draws(problem.log_density, values, np.zeros(4000), rng=rng)
    assert fitted.reference.n_components > 4
    assert fitted.ess_fraction > 0.5
    astray = fit_to_draws(problem.log_density, values + 3.0, np.zeros(4000), rng=rng)  # control
    assert astray.ess_fraction < 0.2


def test_weights_are_heeded():
    """Draws of a hot rung, weighted, fit the cold target; without their weights they do not."""
    problem, rng, k = Banana(), seeded_rng("weighted"), 0.4
    values = problem.sample(rng, 4000, k)
    weighted = fit_to_draws(problem.log_density, values, (1 - k) * problem.log_density(values), rng=rng)
    flat = fit_to_draws(problem.log_density, values, np.zeros(4000), rng=rng)  # control
    assert weighted.ess_fraction > 0.8 > 0.7 > flat.ess_fraction


def test_one_gaussian_gets_one_component():
    rng = seeded_rng("one component")
    fitted = fit_to_draws(lambda x: -0.5 * (x**2).sum(axis=-1), rng.standard_normal((3000, 3)), np.zeros(3000), rng=rng)
    assert fitted.reference.n_components == 2  # and the broad one
    assert fitted.ess_fraction > 0.85


def test_draws_that_repeat_themselves_do_not_judge_each_other():
    """Copies stay on one side as long as chains follow one another; shuffled, they invite one component too many."""
    rng = seeded_rng("copies")
    values = np.repeat(rng.standard_normal((100, 2)), 20, axis=0)
    sizes = [
        fit_to_draws(lambda x: -0.5 * (x**2).sum(axis=-1), rows, np.zeros(2000), rng=rng).reference.n_components
        for rows in (values, rng.permutation(values))
    ]
    assert sizes[0] <= 3
    assert sizes[1] >= 9  # control


def test_chains_tell_what_a_reference_misses_and_its_own_draws_do_not():
    """A fit to one of two modes looks good from inside; draws of the other say what share of the mass it lacks."""
    problem, rng = two_modes(5), seeded_rng("missed")
    values = problem.sample(rng, 8000)
    one_mode = values[problem.mode_of(values) == 0]
    share = 1.0 - len(one_mode) / len(values)
    fitted = fit_to_draws(problem.log_density, one_mode, np.zeros(len(one_mode)), rng=rng)
    assert fitted.ess_fraction > 0.7
    assert fitted.missed < 0.01
    surface = Surface(problem.log_density, 5)
    assert missed_share(surface, fitted, values) == pytest.approx(share, abs=0.05)
    of_both = fit_to_draws(problem.log_density, values, np.zeros(len(values)), rng=rng)
    assert missed_share(surface, of_both, values) < 0.01  # control
    weights = np.where(problem.mode_of(values) == 0, 0.0, -np.inf)
    assert missed_share(surface, fitted, values, weights) < 0.01  # weights are heeded


def test_modes_known_before_are_kept_where_the_draws_have_missed_them():
    problem, rng = two_modes(5), seeded_rng("known modes")
    values = problem.sample(rng, 8000)
    climbed = fit_reference(problem.log_density, problem.means, rng=rng)
    one_mode = values[problem.mode_of(values) == 0]
    args = problem.log_density, one_mode, np.zeros(len(one_mode))
    fitted = fit_to_draws(*args, modes=climbed, rng=rng)
    assert missed_share(Surface(problem.log_density, 5), fitted, values) < 0.01
    without = fit_to_draws(*args, rng=rng)  # control
    assert fitted.reference.n_components == without.reference.n_components + 1
    assert missed_share(Surface(problem.log_density, 5), without, values) > 0.1
    both = fit_to_draws(problem.log_density, values, np.zeros(len(values)), modes=climbed, rng=rng)
    assert both.reference.n_components < climbed.reference.n_components + 4  # nothing was missed, nothing is added


def test_draws_that_never_moved_are_refused():
    values = np.column_stack([np.random.default_rng(1).standard_normal(400), np.full(400, 2.0)])
    with pytest.raises(EstimatorError, match="coordinate 1 they do not"):
        fit_to_draws(lambda x: -0.5 * (x**2).sum(axis=-1), values, np.zeros(400), rng=1)


@pytest.mark.slow
def test_a_default_run_fits_its_quick_leg_to_what_its_rounds_have_drawn():
    """One t distribution does not fit the banana, the mixture fitted to the rounds does: both ends are drawn from."""
    problem = Banana()
    options = {
        "initial": problem.initial,
        "chains": 8,
        "tuning": tp.Tuning(5000),
        "draws": 10_000,
        "rng": 1,
        "progress": False,
    }
    run = tp.sample(tp.Target(problem.log_density_numba), **options)
    assert run.path.has_two_legs
    assert run.info.redraws
    assert run.path.references[-1].n_components > 2
    mean = run.expect(lambda x: x[..., 0])
    assert abs(mean.value - 1.0) < 5 * mean.standard_error
    plain = tp.sample(tp.Target(problem.log_density_numba), path="powers", **options)
    assert plain.ladder.hottest > 0.0  # control
    assert mean.standard_error < 0.7 * plain.expect(lambda x: x[..., 0]).standard_error


@pytest.mark.slow
def test_a_density_that_no_mixture_fits_is_reached_by_the_safe_leg():
    problem = likelihood_gaussian(3)

    def unfittable(x):  # cliffs everywhere: no mixture comes near
        return problem.log_density_numba(x) if np.sin(40.0 * x[0]) > 0.8 else -np.inf

    start = np.array([np.arcsin(1.0) / 40.0, 0.0, 0.0])
    run = tp.sample(
        tp.Target(unfittable), initial=start, chains=4, tuning=tp.Tuning(2600), draws=640, rng=1, progress=False
    )
    x = run.values["x"][run.rung == run.path.target]
    assert np.all(np.sin(40.0 * x[:, 0]) > 0.8)
    assert len(np.unique(np.round(x[:, 0] * 40.0 / (2 * np.pi)))) > 3  # strips: chains have gone from one to another
    lengths = [done.n_iterations for done in run.info.rounds]
    assert len(lengths) >= 2


def test_draws_thinned_by_weight_keep_every_sum_in_the_mean():
    rng = seeded_rng("thinned")
    log_weights, values = rng.normal(0.0, 2.0, 400), rng.exponential(size=400)
    log_weights[::7] = -np.inf
    whole = np.exp(log_weights)
    found, forgotten = [], []
    for _ in range(2000):
        rows, kept = thinned(log_weights, 60, rng)
        assert len(rows) <= 60
        assert np.all(np.diff(rows) > 0)
        np.testing.assert_allclose(np.exp(kept).sum(), whole.sum())
        found.append(np.exp(kept) @ values[rows])
        forgotten.append(whole[rows] @ values[rows])
    assert_mean_is(whole @ values, found)
    assert_mean_is_not(whole @ values, forgotten)  # the control: weights as they were before
    heaviest = np.argsort(whole)[-5:]
    assert np.isin(heaviest, rows).all()


def test_few_draws_none_and_those_that_weigh_nothing_are_thinned_too():
    rng = seeded_rng("few to thin")
    rows, kept = thinned(np.array([0.0, -np.inf, -1.0]), 5, rng)
    assert rows.tolist() == [0, 2]
    assert kept.tolist() == [0.0, -1.0]
    assert thinned(np.full(3, -np.inf), 5, rng)[0].size == 0
    far = np.append(np.zeros(4), np.full(100, -1e4))
    assert thinned(far, 10, rng)[0].tolist() == [0, 1, 2, 3]


def test_a_thinned_split_keeps_its_halves_apart():
    rng = seeded_rng("thinned halves")
    chain = np.repeat([0.0, 1.0], 500)[:, None]
    split = Split.thinned(chain, rng.normal(size=1000), 50, rng)
    assert np.all(split.fitting[0] == 0.0)
    assert np.all(split.judging[0] == 1.0)
    assert len(split.values) == 100
