"""Paths with references of any number of components share compiled code: a refit compiles nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.engines import vector
from tempering.engines.trace import Schedule
from tempering.kernels import BlackJAX, RandomWalk
from tempering.kernels.settings import Settings
from tempering.learning.reference import along_reference
from tempering.path import Ladder, Leg, Path
from tempering.path.reference import Reference
from tempering.target.layout import Layout

LAYOUT = Layout.of(np.zeros(2))


def log_prior(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2) - jnp.log(2 * jnp.pi)


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


def path_with(n_components, safe=(1.0, 0.3, 0.0), quick=(1.0, 0.0)):
    """Return two legs whose quick end has some components; four rungs: fitted, target, between, prior."""
    legs = [
        Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder(safe), source=1),
        Leg("quick", np.array([0.0, 0.0, 1.0]), Ladder(quick), source=2),
    ]
    return Path([1.0, 1.0, 0.0], legs, references=[reference_of(n_components)])


def engine_of(kernel=None, target=PLAIN):
    pieces = vector.target_pieces(target, kernel or RandomWalk(), LAYOUT, [np.zeros(2)])
    return vector.VectorEngine(pieces, "simulated", "lifted", 1, 16, 4)


def schedule_of(path, step=1.0):
    m = len(path)
    settings = Settings(np.full(m, step), np.tile(np.eye(2), (m, 1, 1)), np.zeros((m, 2)), np.full(m, 0.2))
    return Schedule(path, np.linspace(0.0, 0.9, m), (settings,))


def run(engine, path, n=64, **options):
    return engine.run(engine.start(path), schedule_of(path), n, **options)[1]


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


@pytest.mark.slow
def test_a_refit_compiles_nothing_nor_do_other_ladders_and_another_kernel_does(monkeypatch):
    monkeypatch.setenv("TEMPERING_CACHE", "off")  # nor is anything read from the disk
    run(engine_of(), path_with(3))
    for n_components in (9, 40):  # a group more, and many
        assert n_compilations(lambda: run(engine_of(), path_with(n_components))) == 0  # noqa: B023
    assert n_compilations(lambda: run(engine_of(), path_with(5, (1.0, 0.6, 0.2, 0.0), (1.0, 0.5, 0.0)))) == 0
    many = tuple(np.linspace(1.0, 0.0, 45))
    assert n_compilations(lambda: run(engine_of(), path_with(5, many))) == 0
    assert n_compilations(lambda: run(engine_of(tp.kernels.HitAndRunSlice()), path_with(3))) > 0


@pytest.mark.slow
def test_terms_are_those_of_the_target_and_of_its_reference():
    for n in (3, 9):
        path = path_with(n)
        trace = run(engine_of(), path)
        x = trace.values.reshape(-1, 2)
        with jax.enable_x64(True):
            own = [np.asarray(jax.vmap(f)(x)) for f in (log_likelihood, log_prior)]
        expected = np.stack([*own, path.references[0].log_density(x)], axis=1)
        np.testing.assert_allclose(trace.terms.reshape(-1, 3), expected, rtol=1e-12, atol=1e-12)
        assert np.any(trace.terms[..., 0] == -np.inf)  # draws of the ends fall outside the support
        assert not np.any(trace.terms[trace.rung == path.target][:, 0] == -np.inf)  # the target's do not


@pytest.mark.parametrize("n", [1, 5])
def test_each_end_is_drawn_from_its_own_source(n):
    """With the mean of the exact distribution; steps of 1e-9 would stay at the start."""
    path, engine = path_with(n), engine_of()
    means = {0: reference_of(n).weights @ reference_of(n).means, len(path) - 1: np.ones(2)}
    for rung, mean in means.items():
        states = engine.on_rung(engine.start(path), rung)
        _, trace = engine.run(states, schedule_of(path, 1e-9), 128, moving=False)
        assert_mean_is(mean, trace.values.reshape(-1, 2))
        assert_mean_is_not(mean + 0.4, trace.values.reshape(-1, 2))
        assert np.all(np.isnan(trace.acceptance))


@pytest.mark.slow
def test_a_kernel_that_checks_the_base_still_does():
    import blackjax

    kernel = BlackJAX(blackjax.elliptical_slice, mean=jnp.ones(2), cov_matrix=jnp.eye(2))
    path = Path.from_base(Ladder([1.0, 0.3, 0.1]), can_draw=False)
    run(engine_of(kernel), path)
    with pytest.raises(tp.errors.TargetError, match="another function"):
        run(engine_of(kernel, along_reference(PLAIN, reference_of(3))), path)
