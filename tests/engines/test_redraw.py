"""At k = 0 a base that can be sampled is drawn from afresh, on both engines, for targets and for models."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numba import njit

from statistical import assert_mean_is, assert_mean_is_not
from tempering import Ladder, Target, problems
from tempering.engines import scalar, scalar_pieces, vector
from tempering.engines.trace import Schedule
from tempering.kernels import Hamiltonian, RandomWalk
from tempering.kernels.settings import starting_settings
from tempering.path import Path
from tempering.target.layout import Layout

LADDER = Ladder([1.0, 0.0])
LAYOUT = Layout.of(np.zeros(2))
PATH = Path.from_base(LADDER, can_draw=True)
SCHEDULE = Schedule(PATH, np.zeros(2), (starting_settings(LADDER, np.zeros(2), 1e-3, dense=True),))
PRIOR_MEAN, PRIOR_SD = np.array([1.0, -2.0]), np.array([0.5, 2.0])
SELECTION = problems.variable_selection()


def log_prior(x):
    return -0.5 * (((x[0] - 1.0) / 0.5) ** 2 + ((x[1] + 2.0) / 2.0) ** 2)


def log_likelihood(x):
    return -0.5 * (x[0] + x[1]) ** 2


def draw_by_numpy(rng):
    return PRIOR_MEAN + PRIOR_SD * rng.standard_normal(2)


def draw_by_key(key):
    return PRIOR_MEAN + PRIOR_SD * jax.random.normal(key, (2,))


def engine_of(kind, n_chains, rng=1, kernel=RandomWalk()):
    pieces_of = vector.target_pieces if kind == "vector" else scalar_pieces.target_pieces
    if kind == "numba":
        target = Target.from_likelihood(njit(log_likelihood), njit(log_prior), njit(draw_by_numpy))
    else:
        draw = draw_by_key if kind == "vector" else draw_by_numpy
        target = Target.from_likelihood(log_likelihood, log_prior, draw)
    build = vector.VectorEngine if kind == "vector" else scalar.ScalarEngine
    return build(pieces_of(target, kernel, LAYOUT, [np.zeros(2)]), "simulated", "lifted", rng, n_chains, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vector", "numba", "python"])
def test_every_draw_at_nought_is_a_fresh_one_of_the_prior(kind):
    """Steps of 1e-3 would stay where they are: a redraw moves by the prior's own deviations."""
    engine = engine_of(kind, 16)
    states = engine.on_rung(engine.start(PATH), 1)
    _, trace = engine.run(states, SCHEDULE, 64, moving=False)
    x = trace.values.reshape(-1, 2)
    statistics = np.hstack([x, (x - PRIOR_MEAN) ** 2])
    assert_mean_is([*PRIOR_MEAN, *PRIOR_SD**2], statistics)
    assert_mean_is_not([*PRIOR_MEAN, *(1.5 * PRIOR_SD**2)], statistics)
    z = (trace.values - PRIOR_MEAN) / PRIOR_SD
    assert_mean_is(0.0, (z[:, 1::2] * z[:, ::2]).reshape(-1, 2))  # one draw knows nothing of the one before
    assert np.all(np.isnan(trace.acceptance))
    np.testing.assert_allclose(trace.terms[..., 0], -0.5 * trace.values.sum(axis=-1) ** 2, rtol=1e-12)


def test_a_kernel_of_many_calls_moves_in_every_third_iteration_if_it_is_told_to():
    """Counted from the first of the run, so that it does not matter where it was cut."""
    engine = engine_of("vector", 8, kernel=Hamiltonian())
    schedule = replace(SCHEDULE, local_every=3)
    _, whole = engine.run(engine.start(PATH), schedule, 32, moving=False)
    is_local = ~np.isnan(whole.acceptance[..., 0])
    np.testing.assert_array_equal(is_local, np.tile(np.arange(32) % 3 == 0, (8, 1)))
    first, early = engine.run(engine.start(PATH), schedule, 10, moving=False)
    _, late = engine.run(first, schedule, 22, moving=False)
    np.testing.assert_array_equal(np.concatenate([early.values, late.values], axis=1), whole.values)
    _, always = engine.run(engine.start(PATH), SCHEDULE, 32, moving=False)
    assert not np.any(np.isnan(always.acceptance))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vector", "numba", "python"])
def test_elsewhere_the_kernel_moves(kind):
    engine = engine_of(kind, 16)
    _, trace = engine.run(engine.start(PATH), SCHEDULE, 64, moving=False)
    assert np.all(np.abs(trace.values) < 0.2)
    assert not np.any(np.isnan(trace.acceptance))


@pytest.mark.slow
@pytest.mark.parametrize("model", [SELECTION, SELECTION.compiled], ids=["python", "numba"])
def test_a_model_is_redrawn_from_its_reference(model):
    pieces = scalar_pieces.model_pieces(model, model.initial(np.random.default_rng(0)))
    engine = scalar.ScalarEngine(pieces, "simulated", "lifted", 1, 8, 2)
    states = engine.on_rung(engine.start(PATH), 1)
    _, trace = engine.run(states, Schedule(Path.powers(LADDER), np.zeros(2)), 64, moving=False)
    records = trace.values.reshape(-1, 16)
    assert_mean_is(SELECTION.mean_record(0.0)[:8], records[:, :8])
    different = np.any(trace.values[:, 1:, 8:] != trace.values[:, :-1, 8:], axis=-1)
    assert different.mean() > 0.8  # all coefficients at once; both empty models have none


def test_a_base_that_numba_cannot_sample_is_left_to_the_kernel():
    target = Target.from_likelihood(njit(log_likelihood), njit(log_prior), draw_by_numpy)
    pieces = scalar_pieces.target_pieces(target, RandomWalk(), LAYOUT, [np.zeros(2)])
    assert pieces.is_compiled
    assert pieces.functions[2] == 0
    assert not scalar_pieces.can_draw_base(target, LAYOUT)
    both = Target.from_likelihood(njit(log_likelihood), njit(log_prior), njit(draw_by_numpy))
    assert scalar_pieces.can_draw_base(both, LAYOUT)
    plain = Target.from_likelihood(log_likelihood, log_prior, draw_by_numpy)
    assert scalar_pieces.can_draw_base(plain, LAYOUT)


def test_a_model_for_jax_is_redrawn_too():
    class Walk:
        def initial(self, key):
            return jnp.zeros(1)

        def step(self, key, state, k):
            return state

        def energy(self, state):
            return -jnp.sum(state**2)

        def record(self, state):
            return state

        def sample_reference(self, key):
            return jax.random.normal(key, (1,))

    engine = vector.VectorEngine(vector.model_pieces(Walk()), "simulated", "lifted", 1, 16, 2)
    for rung in (0, 1):
        states = engine.on_rung(engine.start(PATH), rung)
        _, trace = engine.run(states, Schedule(Path.powers(LADDER), np.zeros(2)), 64, moving=False)
        x = trace.values["x"]
        assert len(np.unique(x)) == (x.size if rung else 1)
