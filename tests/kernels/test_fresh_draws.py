"""Draws of the base proposed at every temperature keep it: exact draws go in, and must come out, on both engines.

Local steps are made so small that they change nothing: whatever comes out came from the base. The controls accept
as if the proposal were a step, with the base's densities in the ratio, or at another temperature.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_paths import INVERSE, TRIL, Logistic, statistics

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import Ladder, Target, sample
from tempering.compiling.functions import bind
from tempering.engines import loops
from tempering.kernels import Cycle, Hamiltonian, RandomWalk, vector
from tempering.kernels.composite import leaves
from tempering.kernels.random_walk import random_walk
from tempering.kernels.settings import Settings
from tempering.learning.density_of_states import DensityOfStates
from tempering.learning.kernel_settings import MOST_FRESH, with_fresh

N = 3000  # exact draws a temperature
PATH = Logistic((1.0, 0.3, 0.05))
SMALL = 1e-7  # steps that leave every statistic where it is
KERNELS = {"random walk": RandomWalk(), "hamiltonian": Hamiltonian(3), "cycle": Cycle([RandomWalk(), RandomWalk()])}


@cache
def exact_draws():
    rng = seeded_rng("fresh")
    return np.stack([PATH.draw(rng, N, k) for k in PATH.temperatures])


def changes(after):
    """Return the changes of the statistics, all temperatures side by side: one row a replicate."""
    return np.hstack([statistics(b, a) - statistics(a, a) for a, b in zip(exact_draws(), after, strict=True)])


def settings_of(kernel, fresh=0.5):
    m = len(PATH.temperatures)
    one = Settings(np.full(m, SMALL), np.tile(np.eye(3), (m, 1, 1)), np.zeros((m, 3)), np.full(m, fresh))
    return tuple(one for _ in leaves(kernel))


def fresh_vector(key):
    """Draw from the prior, as a JAX program."""
    return jnp.asarray(PATH.mean) + jnp.asarray(TRIL) @ jax.random.normal(key, (3,))


@cache
def build_mover(kernel):
    """Return a compiled function that moves all draws of all temperatures three times."""
    energy, base = PATH.traced.energy, PATH.traced.base

    def density(x):
        return base(x), energy(x)

    def several(key, x, k, settings, is_exact):
        draw = vector.Draw.by_key(fresh_vector)._replace(is_exact=is_exact)
        move = vector.build_move(kernel, density, draw)

        def once(i, particle):
            return move(jax.random.fold_in(key, i), particle, k, settings)[0]

        return jax.lax.fori_loop(0, 3, once, vector.at(density, x)).position

    by_draw = jax.vmap(jax.vmap(several, in_axes=(0, 0, None, None, None)), in_axes=(0, 0, 0, 0, None))
    return jax.jit(by_draw, compiler_options={"xla_backend_optimization_level": 0})  # run a few times


def moved_by_vector(kernel, name, warmer=1.0, is_exact=True, build=build_mover):
    k = warmer * np.array(PATH.temperatures)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(int(seeded_rng(name).integers(2**31))), (len(k), N))
        return np.asarray(build(kernel)(keys, exact_draws(), k, settings_of(kernel), is_exact))


@pytest.mark.parametrize("name", KERNELS)
def test_fresh_draws_keep_every_temperature(name):
    after = moved_by_vector(KERNELS[name], f"fresh {name}")
    assert_mean_is(0.0, changes(after))
    moved = np.mean(np.abs(after - exact_draws()).max(axis=-1) > 1e-3, axis=1)
    assert np.all(moved > 0.1), moved  # and they do move
    assert moved[2] > moved[0]  # the more the hotter


@pytest.mark.parametrize("name", KERNELS)
def test_control_fresh_draws_at_the_wrong_temperature_are_seen(name):
    assert_mean_is_not(0.0, changes(moved_by_vector(KERNELS[name], f"wrong {name}", warmer=0.4)))


@pytest.mark.parametrize("name", ["random walk", "hamiltonian"])
def test_control_fresh_draws_taken_for_steps_are_seen(name, monkeypatch):
    """A symmetric step has the base's densities in its ratio; a draw of the base must not."""

    def as_a_step(particle, fresh, k):
        return vector.tempered(fresh, k) - vector.tempered(particle, k)

    monkeypatch.setattr(vector, "log_ratio_of_fresh", as_a_step)
    after = moved_by_vector(KERNELS[name], f"step {name}", build=build_mover.__wrapped__)
    assert_mean_is_not(0.0, changes(after))


@pytest.mark.parametrize("name", KERNELS)
def test_a_base_that_cannot_be_drawn_from_is_left_to_local_moves(name):
    after = moved_by_vector(KERNELS[name], f"none {name}", is_exact=False)
    np.testing.assert_allclose(after, exact_draws(), atol=1e-4)


def moved_by_scalar(name, warmer=1.0, fresh=0.5, **broken):
    """Move exact draws by the scalar engine's own loop body, in plain Python."""
    move = bind(loops.redraw_or_move, local_move=random_walk, **broken)
    mean, energy = np.array(PATH.mean), PATH.log_likelihood

    def base(x):
        return -0.5 * np.sum((INVERSE @ (x - mean)) ** 2)

    functions = (base, energy, (lambda rng: mean + TRIL @ rng.standard_normal(3),))
    one = settings_of(RandomWalk(), fresh)[0]
    settings, rng, after = (one.fresh, (one.scale, one.factor, one.centre)), seeded_rng(name), exact_draws().copy()
    for rung, k in enumerate(PATH.temperatures):
        for x in after[rung]:
            here = np.array([base(x), energy(x)])
            particle = (x, np.empty(3), here, np.empty(2))
            for _ in range(2):
                particle = move(rng, functions, particle, warmer * k, settings, rung, np.zeros(1))
    return after


def test_fresh_draws_keep_every_temperature_on_the_scalar_engine():
    after = moved_by_scalar("fresh scalar")
    assert_mean_is(0.0, changes(after))
    assert np.all(np.mean(np.abs(after - exact_draws()).max(axis=-1) > 1e-3, axis=1) > 0.1)


def test_control_fresh_draws_at_the_wrong_temperature_are_seen_on_the_scalar_engine():
    assert_mean_is_not(0.0, changes(moved_by_scalar("wrong scalar", warmer=0.4)))


def test_control_fresh_draws_all_accepted_are_seen_on_the_scalar_engine():
    assert_mean_is_not(0.0, changes(moved_by_scalar("all scalar", accept=lambda rng, log_ratio: True)))


def test_without_a_share_only_the_base_is_drawn_afresh():
    after = moved_by_scalar("none scalar", fresh=0.0)
    np.testing.assert_allclose(after, exact_draws(), atol=1e-4)


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


def test_a_prior_that_cannot_be_drawn_from_is_kept_at_the_hot_end():
    """The program for a fitted reference is shared with the plain path, whose base has no draws of its own.

    So short a tuning fits none.
    """
    target = Target.from_likelihood(lambda x: -jnp.sum((x - 3.0) ** 2), lambda x: -0.125 * jnp.sum((x - 20.0) ** 2))
    run = sample(target, initial=np.full(2, 20.0), rng=1, draws=2000, tune=1000, chains=8, progress=False)
    assert run.ladder.hottest == 0.0
    hot = run.values["x"][run.rung == len(run.ladder) - 1]
    assert np.all(np.abs(hot.mean(axis=0) - 20.0) < 1.0)  # the prior's deviation is 2; before, 20 and more off
    assert np.all(hot.std(axis=0) < 3.0)
