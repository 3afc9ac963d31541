"""Paths from references share compiled code, with each other and with the plain path before any is fitted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import assert_mean_is, seeded_rng
from tempering.engines import vector
from tempering.engines.trace import Schedule
from tempering.kernels import BlackJAX, RandomWalk
from tempering.kernels.settings import starting_settings
from tempering.learning.reference import Reference, along_reference
from tempering.learning.reference.path import open_to_reference
from tempering.target.layout import Layout

LAYOUT = Layout.of(np.zeros(2))
LADDER = tp.Ladder([1.0, 0.3, 0.0])


def log_prior(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2)


def log_likelihood(x):
    return jnp.where(x[0] > -1.0, -jnp.sum(jnp.abs(x)), -jnp.inf)


def sample_prior(key):
    return 1.0 + jax.random.normal(key, (2,))


PLAIN = tp.Target.from_likelihood(log_likelihood, log_prior, sample_prior)


def reference_of(n_components):
    rng = seeded_rng(f"{n_components} components")
    factors = np.tile(np.array([[0.8, 0.0], [0.3, 0.6]]), (n_components, 1, 1))
    return Reference(np.full(n_components, 1 / n_components), rng.normal(size=(n_components, 2)), factors,
                     rng.integers(3, 9, n_components))  # fmt: skip


def engine_of(target, kernel=None):
    pieces = vector.target_pieces(target, kernel or RandomWalk(), LAYOUT, [np.zeros(2)])
    return vector.VectorEngine(pieces, "simulated", "lifted", 1, 16, 3)


def run(engine, n=64, **options):
    settings = (starting_settings(LADDER, np.zeros(2), 1.0, dense=True),)
    return engine.run(engine.start(3), Schedule(LADDER, np.array([0.0, 0.4, 0.9]), settings), n, **options)[1]


def n_compilations(task):
    heard = []

    def listen(event, duration, **_):
        heard.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        task()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return sum(event.endswith("backend_compile_duration") for event in heard)


def test_a_refit_compiles_nothing_and_another_kernel_does():
    run(engine_of(open_to_reference(PLAIN)))
    assert n_compilations(lambda: run(engine_of(along_reference(PLAIN, reference_of(3))))) == 0
    assert n_compilations(lambda: run(engine_of(along_reference(PLAIN, reference_of(9))))) == 0
    assert n_compilations(lambda: run(engine_of(along_reference(PLAIN, reference_of(3)), RandomWalk(2.0)))) > 0


def test_energies_are_those_of_the_path():
    for n in (3, 9):
        path = along_reference(PLAIN, reference_of(n))
        trace = run(engine_of(path))
        x = trace.values.reshape(-1, 2)
        with jax.enable_x64(True):
            expected = np.asarray(jax.vmap(path.energy)(x))
        np.testing.assert_allclose(trace.energy.ravel(), expected, rtol=1e-12, atol=1e-12)
        assert np.any(trace.energy == -np.inf)  # draws of the reference fall outside the support


def test_without_a_reference_the_path_is_the_plain_one():
    opened, plain = run(engine_of(open_to_reference(PLAIN))), run(engine_of(PLAIN))
    x = opened.values.reshape(-1, 2)
    with jax.enable_x64(True):
        np.testing.assert_allclose(opened.energy.ravel(), jax.vmap(log_likelihood)(x), rtol=1e-12)
    assert open_to_reference(PLAIN) == PLAIN
    assert opened.values.shape == plain.values.shape


@pytest.mark.parametrize("n", [None, 5])
def test_the_hottest_rung_is_drawn_from_the_prior_or_the_reference(n):
    """On rung 2, k = 0, with two moments of the exact distribution; steps of 1e-9 would stay at the start."""
    target = open_to_reference(PLAIN) if n is None else along_reference(PLAIN, reference_of(n))
    engine = engine_of(target)
    settings = (starting_settings(LADDER, np.zeros(2), 1e-9, dense=True),)
    states = engine.on_rung(engine.start(3), 2)
    _, trace = engine.run(states, Schedule(LADDER, np.zeros(3), settings), 128, moving=False)
    mean = np.ones(2) if n is None else reference_of(n).weights @ reference_of(n).means
    assert_mean_is(mean, trace.values.reshape(-1, 2))
    assert np.all(np.isnan(trace.acceptance))


def test_a_kernel_that_checks_the_base_still_does():
    import blackjax

    kernel = BlackJAX(blackjax.elliptical_slice, mean=jnp.ones(2), cov_matrix=jnp.eye(2))
    engine_of(PLAIN, kernel)
    with pytest.raises(tp.errors.TargetError, match="another function"):
        engine_of(along_reference(PLAIN, reference_of(3)), kernel)
