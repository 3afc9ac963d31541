"""Exactness of the moves: the prior test, and joint draws of parameters and data, with controls."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recapture_cases import empty_statistics, model_codes, prior_states, simulate, small_kernel
from scipy import stats

from statistical import FALSE_ALARM_RATE, assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.models.recapture import jumps, structure_moves, sweep
from tempering.models.recapture.kernel import State
from tempering.models.recapture.likelihood import PARAMETERS, chi_part, direct_part, log_likelihood
from tempering.models.recapture.spaces import ModelSpace

N_REPLICATES = 4000


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def seed_of(name):
    return int(seeded_rng(name).integers(2**31))


def chi_square_p(codes, n_models):
    counts = np.unique(codes, return_counts=True)[1]
    counts = np.append(counts, np.zeros(n_models - len(counts)))
    return stats.chisquare(counts).pvalue


def test_the_prior_test_is_uniform_over_54_94_and_94_sub_models():
    kernel = small_kernel(ModelSpace(4), n_intervals=4)
    n = 5000
    data = empty_statistics(4, 4)
    first = kernel.space.partitions.index((0, 0, 0, 0))
    start = State(
        jnp.full((n, 3), first, jnp.int32),
        jnp.zeros((n, 3, 4), bool),
        jnp.full((n, 3, 4, 4), 0.3),
        jnp.zeros(n),
    )

    @jax.jit
    def run(state, key):
        def body(state, key):
            move = jax.vmap(lambda key, state: kernel.step(key, data, state, 0.0)[0])
            return move(jax.random.split(key, n), state), None

        return jax.lax.scan(body, state, jax.random.split(key, 80))[0]

    end = run(start, jax.random.key(seed_of("prior test")))
    codes = model_codes(end, 4)
    for q, n_models in enumerate((54, 94, 94)):
        assert len(np.unique(codes[:, q])) == n_models
        assert chi_square_p(codes[:, q], n_models) > FALSE_ALARM_RATE / 3
    values = np.asarray(end.values)[:, :, -1, :].reshape(n, -1)
    assert_mean_is(np.r_[np.full(12, 1 / 2), np.full(12, 1 / 3)], np.hstack([values, values**2]))


@jax.jit
@jax.vmap
def evaluated(data, state):
    """Give a state the log likelihood of its data, and return it with statistics that every move touches."""
    state = state._replace(log_likelihood=log_likelihood(data, state.values))
    parts = (
        state.timed.sum(axis=-1),
        jnp.asarray(N_GROUPS)[state.partition] == 2,  # one and three groups would cancel in a mean
        state.partition,
        state.values.mean(axis=(-2, -1)),
        (state.values**2).mean(axis=(-2, -1)),
        state.values[..., -1, :].ravel(),
        (state.timed * state.values.mean(axis=-2)).ravel(),
        state.log_likelihood[None],
    )
    return state, jnp.concatenate([jnp.ravel(part).astype(float) for part in parts])


@cache
def joint_draws(prior):
    """Exact draws of (model, values, data): prior, then data given it."""
    states = prior_states(small_kernel(SPACES[prior]), N_REPLICATES, seed_of("joint"))
    return states, simulate(seeded_rng("joint data"), np.asarray(states.values), 12)


def compiled(move):
    return jax.jit(jax.vmap(move, in_axes=(0, 0, 0, None)))


def differences(kernel, step, k, name, n_steps):
    """Run a compiled move from exact draws and return what changed.

    At inverse temperature k the data are divided by k, so that prior x likelihood^k is the posterior of the
    undivided data: the joint draws are exact at every temperature.
    """
    states, data = joint_draws("uniform" if kernel.is_flat else "informed")
    data = jax.tree.map(lambda x: jnp.asarray(x) / k, data)
    states, before = evaluated(data, states)
    for number in range(n_steps):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed_of(name)), number), N_REPLICATES)
        states = step(keys, data, states, k)
    return np.asarray(evaluated(data, states)[1]) - np.asarray(before)


UNIFORM = ModelSpace(3)
N_GROUPS = UNIFORM.table("phi").n_groups
INFORMED = ModelSpace(3, model_prior="structures", beta={"phi": (2.0, 3.0), "p": (0.7, 1.5), "lambda": (1.3, 0.8)})
SPACES = {"uniform": UNIFORM, "informed": INFORMED}
KERNELS = {
    "uniform": replace(small_kernel(UNIFORM), fitted_flips=0.7, fitted_splits=0.3),
    "informed": replace(small_kernel(INFORMED), fitted_flips=0.3, fitted_splits=0.7),
}


@pytest.mark.parametrize("prior", KERNELS)
def test_an_iteration_keeps_the_joint_law_of_model_values_and_data(prior):
    kernel = KERNELS[prior]

    step = compiled(lambda key, data, state, k: kernel.step(key, data, state, k)[0])
    for k in (1.0, 0.4):
        assert_mean_is(0.0, differences(kernel, step, k, f"joint {prior} {k}", 5))
    states, data = jax.tree.map(jnp.asarray, joint_draws("uniform" if kernel.is_flat else "informed"))
    for number in range(3):
        states = step(jax.random.split(jax.random.key(number), N_REPLICATES), data, states, 0.3)
    assert_consistent(kernel, data, states)


def assert_consistent(kernel, data, states):
    """Check that the log likelihood carried is the values' own, and that groups share their values."""
    exact = jax.jit(jax.vmap(log_likelihood))(data, states.values)
    np.testing.assert_allclose(states.log_likelihood, exact, rtol=1e-12, atol=1e-10)
    for q in range(len(PARAMETERS)):

        def shared(partition, timed, values, q=q):
            return kernel.groups(q, partition, timed).shared(values)

        expected = jax.jit(jax.vmap(shared))(states.partition[:, q], states.timed[:, q], states.values[:, q])
        np.testing.assert_array_equal(states.values[:, q], expected)


def jump_of(kernel, q):
    """One jump of a single parameter, as a move."""
    parameter = jax.tree.map(jnp.asarray, kernel.parameter(q))

    def move(key, data, state, k):
        uniform = jax.random.uniform(key, (4 + kernel.cells.shape[1] * (1 + kernel.cells.shape[2]),))
        parts = jnp.append(direct_part(data, state.values), chi_part(data, state.values))
        return kernel.jump(uniform, data, parameter, (state, parts), k)[0][0]

    return move


GAUSSIAN = small_kernel(UNIFORM, fitted_share=0.0, sigma=0.25)
FITTED = small_kernel(UNIFORM, fitted_share=1.0)


def break_split_jacobian(monkeypatch):
    monkeypatch.setattr(jumps, "LOG_2", 0.0)


def break_flip_jacobian(monkeypatch):
    exact = jumps._flip_values

    def broken(noise, sigma, old, timed, exists):
        new, log_ratio = exact(noise, sigma, old, timed, exists)
        half_log_n = 0.5 * jnp.log(jnp.maximum(exists.sum(), 1))
        return new, log_ratio + jnp.where(timed, half_log_n, -half_log_n)

    monkeypatch.setattr(jumps, "_flip_values", broken)


def break_choice_of_moves(monkeypatch):
    monkeypatch.setattr(structure_moves, "_log", lambda count, like: jnp.zeros((), like.dtype))


def break_fitted_density(monkeypatch):
    exact = jumps._log_density
    monkeypatch.setattr(jumps, "_log_density", lambda v, location, scale: 0.5 * exact(v, location, scale))


CONTROLS = {
    "split jacobian": (GAUSSIAN, 1, break_split_jacobian),
    "flip jacobian": (GAUSSIAN, 0, break_flip_jacobian),
    "choice of moves": (GAUSSIAN, 2, break_choice_of_moves),
    "fitted density": (FITTED, 1, break_fitted_density),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_a_broken_jump_is_seen_where_the_sound_one_passes(monkeypatch, control):
    kernel, q, break_it = CONTROLS[control]
    assert_mean_is(0.0, differences(kernel, compiled(jump_of(kernel, q)), 0.5, control, 25))
    break_it(monkeypatch)
    assert_mean_is_not(0.0, differences(kernel, compiled(jump_of(kernel, q)), 0.5, control, 25))


def test_a_sweep_that_forgets_the_temperature_is_seen(monkeypatch):
    kernel = KERNELS["uniform"]

    def move(key, data, state, k):
        uniform = jax.random.uniform(key, (2, *state.values.shape))
        values = kernel._sweep(uniform, data, state, k)
        return state._replace(values=values)

    assert_mean_is(0.0, differences(kernel, compiled(move), 0.5, "sweep", 5))
    exact = sweep.sweep_timed
    monkeypatch.setattr(
        "tempering.models.recapture.kernel.sweep_timed",
        lambda data, src, shapes, k, *rest: exact(data, src, shapes, jnp.ones_like(k), *rest),
    )
    assert_mean_is_not(0.0, differences(kernel, compiled(move), 0.5, "sweep", 5))
