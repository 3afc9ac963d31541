"""Draws of the sources proposed on every rung of two legs keep it: exact draws go in, and must come out (level 4).

On both engines. Local steps are made so small that they change nothing: whatever comes out came from a source. The
controls accept as if the proposal were a step, with the source's density in the ratio, or on another rung.
"""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_paths import INVERSE, TRIL, Logistic, statistics

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import Ladder, Target, Tuning, sample
from tempering.compiling.functions import bind
from tempering.engines import loops, reference_arrays
from tempering.kernels import Cycle, Hamiltonian, RandomWalk, vector
from tempering.kernels.composite import leaves
from tempering.kernels.random_walk import random_walk
from tempering.kernels.scalar import evaluate
from tempering.kernels.settings import Settings
from tempering.learning.density_of_states import DensityOfStates
from tempering.learning.kernel_settings import MOST_FRESH, with_fresh
from tempering.path import Leg, Path
from tempering.path.reference import Reference
from tempering.path.stacked import stacked_references

N = 3000  # exact draws a rung
PROBLEM = Logistic()
FITTED = Reference([0.6, 0.4], [[1.0, 0.5, 0.3], [-0.5, 0.0, 1.0]], [1.1 * TRIL, 0.8 * TRIL + 0.3 * np.eye(3)], [5, 8])
SAFE = Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder([1.0, 0.3, 0.0]), source=1)
QUICK = Leg("quick", np.array([0.0, 0.0, 1.0]), Ladder([1.0, 0.45, 0.0]), source=2)
PATH = Path([1.0, 1.0, 0.0], [SAFE, QUICK], references=[FITTED])
BETWEEN = np.array([1, 2, 3])  # of the five rungs: the ends redraw whatever they are told
LOG_SCALE = -0.5 * 3 * np.log(2 * np.pi) - np.sum(np.log(np.diag(TRIL)))  # of the prior
SMALL = 1e-7  # steps that leave every statistic where it is
KERNELS = {"random walk": RandomWalk(), "hamiltonian": Hamiltonian(3), "cycle": Cycle([RandomWalk(), RandomWalk()])}


def log_prior(x):
    z = (x - np.array(PROBLEM.mean)) @ INVERSE.T
    return -0.5 * np.sum(z**2, axis=-1) + LOG_SCALE


def terms_at(x):
    return np.stack([PROBLEM.log_likelihood(x), log_prior(x), FITTED.log_density(x)], axis=-1)


@cache
def exact_draws():
    """Return exact draws of every rung, by rejection from a mixture of the prior and the fitted density."""
    rng = seeded_rng("fresh")
    return np.stack([exact_draws_of(rng, c) for c in PATH.coefficients])


def exact_draws_of(rng, c):
    """Reject from (prior + fitted) / 2: pi_r <= prior^a fitted^b with a + b = 1 is at most twice that.

    The likelihood is at most 1, and coefficients are k, k and 1 - k on the quick leg, k, 1 and 0 on the safe one.
    """
    kept = np.empty((0, 3))
    while len(kept) < N:
        prior = np.array(PROBLEM.mean) + rng.standard_normal((4 * N, 3)) @ TRIL.T
        x = np.where(rng.random((4 * N, 1)) < 0.5, prior, FITTED.sample_many(rng, 4 * N))
        t = terms_at(x)
        log_proposal = np.logaddexp(t[:, 1], t[:, 2])  # twice the proposal's density
        kept = np.concatenate([kept, x[np.log(rng.random(4 * N)) < t @ c - log_proposal]])
    return kept[:N]


def changes(after):
    """Return the changes of the statistics, all rungs side by side: one row a replicate."""
    return np.hstack([statistics(b, a) - statistics(a, a) for a, b in zip(exact_draws(), after, strict=True)])


def settings_of(kernel, fresh=0.5):
    m = len(PATH)
    one = Settings(np.full(m, SMALL), np.tile(np.eye(3), (m, 1, 1)), np.zeros((m, 3)), np.full(m, fresh))
    return tuple(one for _ in leaves(kernel))


def fresh_vector(key):
    """Draw from the prior, as a JAX program."""
    return jnp.asarray(PROBLEM.mean) + jnp.asarray(TRIL) @ jax.random.normal(key, (3,))


@cache
def build_mover(kernel, local_every=1, *, reference=FITTED, is_fitted=False):
    """Return a compiled function that moves all draws of all rungs three times, by local moves now and then."""
    energy, base = PROBLEM.traced.energy, PROBLEM.traced.base
    fitted = reference_arrays.arrays_of(reference, is_fitted=is_fitted)

    def density(x):
        arrays = jax.tree.map(jnp.asarray, fitted)
        return jnp.stack([energy(x), base(x) + LOG_SCALE, reference_arrays.log_density(arrays, x)])

    def several(key, x, coefficients, source, settings):
        draws = [
            vector.Draw.by_key(fresh_vector, 1),
            reference_arrays.draw_of([jax.tree.map(jnp.asarray, fitted)], 2),
        ]
        move = vector.build_move(kernel, density, draws)

        def once(i, particle):
            rung = vector.Rung(coefficients, source, i % local_every == local_every - 1)
            return move(jax.random.fold_in(key, i), particle, rung, settings)[0]

        return jax.lax.fori_loop(0, 3, once, vector.at(density, x)).position

    by_draw = jax.vmap(jax.vmap(several, in_axes=(0, 0, None, None, None)))
    return jax.jit(by_draw, compiler_options={"xla_backend_optimization_level": 0})  # run a few times


def moved_by_vector(kernel, name, coefficients=PATH.coefficients, sources=PATH.sources, build=build_mover):
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(int(seeded_rng(name).integers(2**31))), (len(PATH), N))
        return np.asarray(build(kernel)(keys, exact_draws(), coefficients, sources, settings_of(kernel)))


def leaping(kernel, fresh=0.0):
    """Leap between three summits, and draw afresh in one of ten moves at the least."""
    reference = replace(FITTED, summits=[[1.5, 0.5, 0.3], [-0.5, 0.0, 1.0], [0.5, 1.0, -0.5]])
    moves = build_mover(kernel, reference=reference, is_fitted=True)
    return lambda keys, x, c, source, settings: moves(
        keys, x, c, source, tuple(s._replace(fresh=np.full(len(PATH), fresh)) for s in settings)
    )


def have_moved(after):
    return np.mean(np.abs(after - exact_draws()).max(axis=-1) > 1e-3, axis=1)


WARMER = 0.4 * PATH.coefficients + 0.6 * PATH.coefficients[[1, 0, 4, 4, 3]]  # on the way to another rung


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_fresh_draws_keep_every_rung(name):
    after = moved_by_vector(KERNELS[name], f"fresh {name}")
    assert_mean_is(0.0, changes(after))
    moved = have_moved(after)
    assert np.all(moved[[0, 4]] > 0.99), moved  # the ends forget at once
    assert np.all(moved[BETWEEN] > 0.1), moved


@pytest.mark.slow
def test_fresh_draws_keep_every_rung_where_local_moves_are_made_now_and_then():
    after = moved_by_vector(KERNELS["hamiltonian"], "now and then", build=partial(build_mover, local_every=3))
    assert_mean_is(0.0, changes(after))
    moved = have_moved(after)
    assert np.all(moved[[0, 4]] > 0.99), moved
    assert np.all(moved[BETWEEN] > 0.1), moved


@pytest.mark.slow
def test_control_local_moves_at_another_temperature_are_seen_even_if_rare():
    build = partial(build_mover, local_every=3)
    after = moved_by_vector(KERNELS["hamiltonian"], "rare and wrong", WARMER, build=build)
    assert_mean_is_not(0.0, changes(after))


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_control_fresh_draws_on_the_wrong_rung_are_seen(name):
    assert_mean_is_not(0.0, changes(moved_by_vector(KERNELS[name], f"wrong {name}", WARMER)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random walk", "hamiltonian"])
def test_control_fresh_draws_taken_for_steps_are_seen(name, monkeypatch):
    """A symmetric step has the source's density in its ratio; a draw of the source must not."""

    def as_a_step(particle, fresh, rung):
        return vector.tempered(fresh, rung) - vector.tempered(particle, rung)

    monkeypatch.setattr(vector, "log_ratio_of_fresh", as_a_step)
    after = moved_by_vector(KERNELS[name], f"step {name}", build=build_mover.__wrapped__)
    assert_mean_is_not(0.0, changes(after))


def test_control_draws_of_the_other_source_are_seen():
    """Drawn from the one and accepted as if from the other."""
    swapped = np.array([2, 2, 2, 1, 1], dtype=np.int32)[::-1].copy()
    after = moved_by_vector(KERNELS["random walk"], "other", sources=swapped)
    assert_mean_is(0.0, changes(after))  # consistent: a source may be any density that is among the terms
    wrong = Path([1.0, 1.0, 0.0], [SAFE, QUICK], references=[FITTED]).coefficients[:, [0, 2, 1]]
    assert_mean_is_not(0.0, changes(moved_by_vector(KERNELS["random walk"], "others", wrong)))


D = 24
SUMMITS = np.stack([np.ones(D), np.ones(D)])
SUMMITS[1, ::2] = -1.5
SUMMITS[1, 1::2] += 1e-7  # as climbs are accurate


def placed(x, numbers):
    """Leap between two summits that differ in half of their coordinates; a row of 3 + D numbers for each position."""
    narrow = replace(Reference([1.0], np.zeros((1, D)), [np.eye(D)], [5]), summits=SUMMITS)
    arrays = jax.tree.map(jnp.asarray, reference_arrays.arrays_of(narrow, is_fitted=True))
    with jax.enable_x64(True):
        place = jax.vmap(reference_arrays.leap_of(arrays).place)
        return np.asarray(place(*map(jnp.asarray, (x, numbers[:, :3], numbers[:, 3:]))))


def test_a_leap_is_undone_by_the_numbers_that_choose_its_ends_the_other_way_round():
    """Positions lie on either side of the middle, and far beyond both summits too."""
    rng = seeded_rng("there and back")
    x, numbers = 2.0 * rng.standard_normal((2000, D)), rng.random((2000, 3 + D))
    there = placed(x, numbers)
    back = placed(there, numbers[:, [1, 0, *range(2, 3 + D)]])
    np.testing.assert_allclose(back, x, atol=1e-12)
    moved = np.abs(there - x) > 1e-3
    assert 0.3 < moved.any(axis=1).mean() < 0.6  # half of the pairs of ends are the same
    assert np.abs((there - x)[moved]) == pytest.approx(2.5, abs=1e-12)


def test_leaps_are_in_coordinates_that_differ_from_one_to_all():
    """Twelve coordinates differ: all leap in a fifth of the leaps, and of the rest many are single ones."""
    rng, n = seeded_rng("shares"), 20_000
    numbers = np.column_stack([np.full(n, 0.1), np.full(n, 0.9), rng.random((n, 1 + D))])
    x = SUMMITS[rng.integers(2, size=(n, D)), np.arange(D)] + 0.1 * rng.standard_normal((n, D))
    way = placed(x, numbers) - x
    leaps = np.abs(way) > 1e-3
    many = leaps.sum(axis=1)
    assert many.min() == 1
    assert not leaps[:, 1::2].any()
    is_part = many < 12
    assert np.all(np.sign(way[is_part])[leaps[is_part]] == np.sign(-0.25 - x[is_part])[leaps[is_part]])
    all_of_them, single = np.mean(many == 12), np.mean(many == 1)
    share = 1 / 16  # the least: one leaps if at most one number of twelve is below it
    alone = (1 - share) ** 12 + 12 * share * (1 - share) ** 11
    within = 4.9 * 0.5 / np.sqrt(n)
    assert abs(all_of_them - 1 / 5) < within + 0.5**12
    assert alone / 5 - within < single < alone / 5 + 0.15
    each = leaps[many == 1][:, ::2].mean(axis=0)
    assert np.abs(each - 1 / 12).max() < 6 * np.sqrt(1 / 12 / np.sum(many == 1))


@pytest.mark.slow
def test_leaps_keep_every_rung():
    after = moved_by_vector(KERNELS["hamiltonian"], "leaps", build=leaping)
    assert_mean_is(0.0, changes(after))
    assert np.all(have_moved(after)[BETWEEN] > 0.5)


@pytest.mark.slow
def test_control_leaps_that_go_one_way_are_seen(monkeypatch):
    way_of = reference_arrays.leap_of

    def one_way(arrays):
        leap = way_of(arrays)
        return leap._replace(place=lambda x, *numbers: x + jnp.abs(leap.place(x, *numbers) - x))

    monkeypatch.setattr(reference_arrays, "leap_of", one_way)
    build_mover.cache_clear()
    after = moved_by_vector(KERNELS["hamiltonian"], "one way", build=leaping)
    build_mover.cache_clear()
    assert_mean_is_not(0.0, changes(after))


@pytest.mark.slow
def test_control_one_draw_of_the_prior_tried_again_and_again_is_seen(monkeypatch):
    """The place depends on the draw from the first try on; without the control, tries as they are made."""
    build = partial(leaping, fresh=0.9)
    assert_mean_is(0.0, changes(moved_by_vector(KERNELS["hamiltonian"], "once", build=build)))
    source = vector.Tries._source
    monkeypatch.setattr(vector.Tries, "_source", lambda self, drawn, old, is_first: source(self, drawn, old, True))
    build_mover.cache_clear()
    after = moved_by_vector(KERNELS["hamiltonian"], "again and again", build=build)
    build_mover.cache_clear()
    assert_mean_is_not(0.0, changes(after))


def stretching(kernel):
    """Stretch in nine of ten moves: no rung accepts draws of its source often."""
    moves = build_mover.__wrapped__(kernel)
    return lambda keys, x, c, source, settings: moves(
        keys, x, c, source, tuple(s._replace(fresh=np.zeros(len(PATH)), scale=1e-3 * s.scale) for s in settings)
    )


@pytest.mark.slow
def test_stretches_keep_every_rung():
    after = moved_by_vector(KERNELS["hamiltonian"], "stretches", build=stretching)
    assert_mean_is(0.0, changes(after))
    assert np.all(have_moved(after)[BETWEEN] > 0.5)


@pytest.mark.slow
def test_control_stretches_that_forget_the_volume_are_seen(monkeypatch):
    ratio_of = vector.log_ratio_of_try

    def forgetful(old, there, rung, tried):
        return ratio_of(old, there, rung, tried._replace(log_volume=0.0))

    monkeypatch.setattr(vector, "log_ratio_of_try", forgetful)
    assert_mean_is_not(0.0, changes(moved_by_vector(KERNELS["hamiltonian"], "volume", build=stretching)))


@pytest.mark.parametrize("name", KERNELS)
def test_where_nothing_can_be_drawn_from_local_moves_are_all(name):
    none = np.full(len(PATH), -1, dtype=np.int32)
    np.testing.assert_allclose(moved_by_vector(KERNELS[name], f"none {name}", sources=none), exact_draws(), atol=1e-4)


def moved_by_scalar(name, coefficients=PATH.coefficients, fresh=0.5, **broken):
    """Move exact draws by the scalar engine's own loop body, in plain Python."""
    pieces = {"local_move": random_walk, "draw_base": loops.draw_base_by_function} | broken
    move = bind(loops.redraw_or_move, **pieces)
    mean = np.array(PROBLEM.mean)
    draw = (lambda rng: mean + TRIL @ rng.standard_normal(3),)
    functions = (PROBLEM.log_likelihood, log_prior, draw, stacked_references([FITTED], 3))
    one = settings_of(RandomWalk(), fresh)[0]
    settings = (one.fresh, PATH.sources, (one.scale, one.factor, one.centre))
    rng, after = seeded_rng(name), exact_draws().copy()
    for rung in range(len(PATH)):
        for x in after[rung]:
            particle = (x, np.empty(3), np.zeros(4), np.zeros(4))
            evaluate(functions, x, particle[2])
            for _ in range(2):
                particle = move(rng, functions, particle, coefficients[rung], settings, rung, np.zeros(1))
    return after


@pytest.mark.slow
def test_fresh_draws_keep_every_rung_on_the_scalar_engine():
    after = moved_by_scalar("fresh scalar")
    assert_mean_is(0.0, changes(after))
    moved = have_moved(after)
    assert np.all(moved[[0, 4]] > 0.99)
    assert np.all(moved[BETWEEN] > 0.1), moved


@pytest.mark.slow
def test_control_fresh_draws_on_the_wrong_rung_are_seen_on_the_scalar_engine():
    assert_mean_is_not(0.0, changes(moved_by_scalar("wrong scalar", WARMER)))


@pytest.mark.slow
def test_control_fresh_draws_all_accepted_are_seen_on_the_scalar_engine():
    assert_mean_is_not(0.0, changes(moved_by_scalar("all scalar", accept=lambda rng, log_ratio: True)))


@pytest.mark.slow
def test_without_a_share_only_the_ends_are_drawn_afresh():
    after = moved_by_scalar("none scalar", fresh=0.0)
    np.testing.assert_allclose(after[BETWEEN], exact_draws()[BETWEEN], atol=1e-4)
    assert np.all(have_moved(after)[[0, 4]] > 0.99)


def test_the_share_follows_the_acceptance_of_draws_of_the_base():
    """Against pairs drawn exactly: energies of a Gaussian likelihood under a Gaussian base."""
    rng, ladder = seeded_rng("share"), Ladder([1.0, 0.3, 0.0])
    base = rng.standard_normal(20_000)
    states = DensityOfStates.from_draws(-0.5 * (base - 1.0) ** 2, [0.0], np.zeros(base.size, int))
    for k, predicted in zip(ladder, states.acceptance_of_fresh(ladder), strict=True):
        x = k / (1 + k) + rng.standard_normal(200_000) / np.sqrt(1 + k)
        gain = -0.5 * ((rng.standard_normal(x.size) - 1.0) ** 2 - (x - 1.0) ** 2)
        assert predicted == pytest.approx(np.mean(np.minimum(1.0, np.exp(k * gain))), abs=0.02)
    (setting,) = with_fresh((Settings(np.ones(3), np.ones((3, 1, 1)), np.zeros((3, 1))),), states, ladder)
    np.testing.assert_allclose(setting.fresh, np.minimum(np.sqrt(states.acceptance_of_fresh(ladder)), MOST_FRESH))
    assert setting.fresh[2] == MOST_FRESH


@pytest.mark.slow
def test_a_prior_that_cannot_be_drawn_from_is_kept_at_the_hot_end():
    target = Target.from_likelihood(lambda x: -jnp.sum((x - 3.0) ** 2), lambda x: -0.125 * jnp.sum((x - 20.0) ** 2))
    run = sample(target, initial=np.full(2, 20.0), rng=1, draws=2000, tuning=Tuning(1000), chains=8, progress=False)
    assert run.path.legs[0].source == -1
    assert run.ladder.hottest == 0.0
    hot = run.values["x"][run.rung == len(run.path) - 1]
    assert len(hot) > 100
    assert np.all(np.abs(hot.mean(axis=0) - 20.0) < 1.0)  # the prior's deviation is 2
    assert np.all(hot.std(axis=0) < 3.0)
