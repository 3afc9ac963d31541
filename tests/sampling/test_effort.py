"""How much a call does unless it is told: less where a density is dear, and never by a clock."""

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering.execution.context import carrying_out
from tempering.sampling.call import Call
from tempering.sampling.effort import CHEAP, effort_for, usual_effort
from tempering.sampling.planning import make_plan


def regression(n_rows):
    rows = jnp.asarray(seeded_rng("rows of a regression").standard_normal((n_rows, 10)))
    return tp.Target(lambda x: -0.5 * jnp.sum((rows @ x) ** 2) - 0.5 * jnp.sum(x**2))


def plan_for(target, chains=None, engine="auto", method="simulated"):
    call = Call(
        np.zeros(10), None, None, tp.Method(method), None, None, None, chains, 1, tp.Tuning(),
        tp.Execution(engine=engine), "draws",
    )  # fmt: skip
    with carrying_out(None, None) as context:
        return make_plan(target, call, context)[0]


def effort_of(plan):
    return usual_effort(plan.engine, plan.method, plan.target, plan.layout)


def test_a_dear_density_has_fewer_chains_then_fewer_draws():
    cheap, dear, dearest = (plan_for(regression(n)) for n in (100, 1_000, 100_000))
    assert (cheap.n_chains, effort_of(cheap).draws, effort_of(cheap).iterations) == (32, 10_000, 5_000)
    assert effort_of(cheap).effective_draws is None
    assert 8 < dear.n_chains < 32
    assert effort_of(dear).draws > 9_000
    assert dearest.n_chains == 8
    assert effort_of(dearest).draws < 10_000 > effort_of(dearest).iterations
    assert effort_of(dearest).effective_draws == 1_000 < effort_of(dear).effective_draws
    assert cheap.dearness < 0.3 < dear.dearness < 0.9 < dearest.dearness


@pytest.mark.slow
def test_what_is_given_is_kept_to():
    target = regression(20_000)
    assert plan_for(target, chains=20).n_chains == 20
    run = tp.sample(target, initial=np.zeros(10), ladder=[1.0], draws=7, tuning=tp.Tuning(32), rng=1, progress=False)
    assert run.n_draws == 7
    assert run.n_chains == 8


def test_a_density_that_nobody_can_count_is_not_taken_for_a_dear_one():
    plan = plan_for(tp.Target(lambda x: -0.5 * float(np.sum(np.asarray(x) ** 2))))
    assert plan.engine == "scalar"
    assert effort_of(plan).draws == 10_000
    assert effort_for("vector", "simulated", np.inf).chains == 32


def test_a_dear_prior_counts_too():
    rows = jnp.asarray(seeded_rng("rows of a prior").standard_normal((100_000, 10)))
    target = tp.Target.from_likelihood(lambda x: -0.5 * jnp.sum(x**2), lambda x: -0.5 * jnp.sum((rows @ x) ** 2))
    assert plan_for(target).n_chains == 8
    assert plan_for(tp.Target(target.energy)).n_chains == 32


@pytest.mark.parametrize("operations", CHEAP * np.geomspace(1.0, 1e4, 9))
def test_the_operations_of_a_run_grow_no_more_until_the_least_is_reached(operations):
    """Of draws: chains times draws times operations, give or take a chain."""
    effort, most = effort_for("vector", "simulated", operations), 32 * 10_000 * CHEAP
    assert effort.draws == 2_000 or effort.chains * effort.draws * operations <= 1.1 * most
    assert effort.chains >= 8
    assert effort.iterations >= 320


@pytest.mark.slow
def test_a_dear_density_is_seldom_called_to_look_for_modes():
    """A cheap one is, where draws lie higher than a normal mode explains: heavy tails."""

    def with_tails(n_rows):
        rows = jnp.asarray(seeded_rng("rows with tails").standard_normal((n_rows, 10)))
        return tp.Target(lambda x: -10.0 * jnp.mean(jnp.log1p((rows @ x) ** 2)) - 0.05 * jnp.sum(x**2))

    call = {"initial": np.zeros(10), "chains": 8, "tuning": tp.Tuning(320), "draws": 64, "rng": 1, "progress": False}
    cheap, dear = (tp.sample(with_tails(n), **call).info.share_of_search for n in (50, 20_000))
    assert 0.0 < dear < 0.1
    assert 2 * dear < cheap < 1.0
