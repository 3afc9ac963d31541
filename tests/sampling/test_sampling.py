"""`sample`: which engine runs, what positions may be, and what is refused before or during a run."""

import gc
import math
import tracemalloc
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numba import njit

import tempering as tp
from tempering import problems
from tempering.errors import NotANumberError, SamplerError, TargetError
from tempering.runs.stored import changed

LADDER = [1.0, 0.4]
SMALL = {"ladder": LADDER, "draws": 40, "tuning": tp.Tuning(32), "chains": 2, "rng": 1, "progress": False}


def by_math(x):
    """A density that JAX cannot trace."""
    return -0.5 * math.fabs(float(x)) ** 2


PLAIN = tp.Target(by_math)
TRACED = tp.Target(lambda x: -0.5 * (x - 1.0) ** 2)
COMPILED = tp.Target(njit(lambda x: -0.5 * (x - 1.0) ** 2))


@pytest.mark.parametrize(
    ("target", "engine"),
    [(PLAIN, "scalar (Python)"), (COMPILED, "scalar (Numba)"), (TRACED, "vector (JAX, cpu)")],
)
def test_the_engine_is_chosen_by_what_the_target_is(target, engine):
    run = tp.sample(target, initial=0.5, **SMALL)
    assert run.info.engine.startswith(engine.removesuffix(", cpu)"))
    assert run.values["x"].shape == run.rung.shape == (2, 40)
    assert set(np.unique(run.rung)) <= {0, 1}


def test_an_engine_can_be_named():
    run = tp.sample(TRACED, initial=0.5, execution=tp.Execution(engine="scalar"), **SMALL)
    assert run.info.engine == "scalar (Python)"


def test_a_prior_that_only_numpy_can_draw_from_runs_on_the_scalar_engine():
    target = tp.Target.from_likelihood(lambda x: -((x - 1) ** 2), lambda x: -0.5 * x**2, lambda rng: rng.normal())
    run = tp.sample(target, **SMALL | {"ladder": [1.0, 0.0]})
    assert run.info.engine == "scalar (Python)"


def test_an_error_in_the_sampler_of_the_prior_is_told_as_it_is():
    def sample_prior(key):
        return jax.random.normal(key) * "text"  # a mistake of the user's, not of the key's

    target = tp.Target.from_likelihood(lambda x: -jnp.sum(x**2), lambda x: -jnp.sum(x**2), sample_prior)
    with pytest.raises(TargetError, match=r"with a key it raised TypeError: .*, and with a Generator TypeError"):
        tp.sample(target, **SMALL)


def test_equal_seeds_give_equal_draws_and_others_do_not():
    runs = [
        tp.sample(PLAIN, initial=0.5, **SMALL | {"rng": rng})
        for rng in (7, 7, 8, np.random.default_rng(3), np.random.default_rng(3), None)
    ]
    x = [run.values["x"] for run in runs]
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_array_equal(x[3], x[4])
    assert not np.any(x[0][:, -1] == x[2][:, -1])
    assert not np.any(x[0][:, -1] == x[5][:, -1])


def test_positions_may_be_dicts_and_nested():
    def density(p):
        return -0.5 * (p["a"] ** 2 + float(np.sum(np.square(p["b"]["c"]))))

    initial = {"a": 0.1, "b": {"c": np.zeros((2, 2))}}
    run = tp.sample(tp.Target(density), initial=initial, execution=tp.Execution(engine="scalar"), **SMALL)
    assert {name: v.shape for name, v in run.values.items()} == {"a": (2, 40), "b.c": (2, 40, 2, 2)}


def test_a_list_of_starts_is_taken_in_turn():
    starts = [np.array([-50.0]), np.array([50.0])]
    target = tp.Target(lambda x: float(-0.5 * (np.abs(x[0]) - 50.0) ** 2))
    run = tp.sample(
        target, initial=starts, execution=tp.Execution(engine="scalar"), **SMALL | {"tuning": tp.Tuning(0), "chains": 3}
    )
    np.testing.assert_array_equal(np.sign(run.values["x"][:, 0, 0]), [-1, 1, -1])
    one = tp.sample(target, initial=[50.0], execution=tp.Execution(engine="scalar"), **SMALL | {"tuning": tp.Tuning(0)})
    assert one.values["x"].shape == (2, 40, 1)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["scalar", "vector"])
def test_chains_start_from_draws_of_their_own_when_the_prior_can_be_sampled(engine):
    problem = problems.likelihood_gaussian(2)
    target = tp.Target.from_likelihood(problem.log_likelihood, problem.log_prior, problem.sample_prior)
    run = tp.sample(
        target,
        execution=tp.Execution(engine=engine),
        kernel=tp.kernels.RandomWalk(1e-9),
        **SMALL | {"chains": 4, "tuning": tp.Tuning(0), "draws": 1},
    )
    assert len(np.unique(np.round(run.values["x"][:, 0, 0], 3))) == 4


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"method": "gibbs"}, SamplerError, r"method must be one of .*'parallel'.*but got 'gibbs'"),
        ({"draws": 0}, SamplerError, "draws must be a whole number of at least 1, but got 0"),
        ({"chains": 1.5}, SamplerError, "chains must be a whole number of at least 1, but got 1.5"),
        ({"initial": None}, TargetError, r"somewhere to start.*sample_prior.*Pass initial"),
        (
            {"tuning": tp.Tuning(pseudo_prior=np.zeros(3))},
            SamplerError,
            "one log value for each of the 2 rungs, but has 3",
        ),
        (
            {"kernel": tp.kernels.RandomWalk(covariance="round")},
            SamplerError,
            "covariance must be one of.*'round'",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_advice(changed, error, message):
    with pytest.raises(error, match=message):
        tp.sample(PLAIN, **{"initial": 0.5, **SMALL, **changed})


def test_a_model_must_have_all_its_functions():
    with pytest.raises(TargetError, match=r"initial, step, energy and record, but function has no .*Target\("):
        tp.sample(by_math, initial=0.0, **SMALL)


def test_a_density_that_is_not_one_number_is_refused():
    with pytest.raises(TargetError, match=r"must return one number, but at .* it returned shape \(2,\).*Sum"):
        tp.sample(
            tp.Target(lambda x: -0.5 * x**2), initial=np.zeros(2), execution=tp.Execution(engine="vector"), **SMALL
        )


def nan_beyond(x):
    return math.nan if x > 1 else -0.5 * x**2


NOT_A_NUMBER = {
    "python": tp.Target(nan_beyond),
    "numba": tp.Target(njit(nan_beyond)),
    "vector": tp.Target(lambda x: jnp.where(x > 1, jnp.nan, -0.5 * x**2)),
    "infinite": tp.Target(lambda x: math.inf if x > 1 else -0.5 * x**2),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["simulated", "parallel"])
@pytest.mark.parametrize("name", NOT_A_NUMBER)
def test_what_is_not_a_number_counts_as_outside_the_support_and_is_counted(name, method):
    run = tp.sample(NOT_A_NUMBER[name], initial=0.5, **SMALL | {"draws": 400, "method": method})
    assert run.values["x"].max() <= 1.0
    assert np.all(np.isfinite(run.terms))
    assert run.info.n_invalid > 10
    inside = tp.sample(PLAIN, initial=0.5, **SMALL | {"draws": 400, "method": method})
    assert inside.info.n_invalid == 0


def test_the_verdict_counts_what_is_not_a_number_beside_all_moves_tuning_too():
    run = tp.sample(PLAIN, initial=0.5, **SMALL | {"draws": 100, "tuning": tp.Tuning(320)})
    one_in_a_hundred = run.info.n_iterations * run.n_chains // 100
    assert one_in_a_hundred > run.n_draws * run.n_chains // 100
    for n, is_said in ((one_in_a_hundred, False), (one_in_a_hundred + 1, True)):
        counted = changed(run, info=replace(run.info, n_invalid=n))
        assert any("NaN or +inf" in sentence for sentence in counted.diagnose().sentences) == is_said


@pytest.mark.parametrize("name", NOT_A_NUMBER)
def test_a_start_that_is_not_a_number_is_an_error_that_names_it(name):
    with pytest.raises(NotANumberError, match=r"it is NaN or \+inf at.*1\.5") as caught:
        tp.sample(NOT_A_NUMBER[name], initial=1.5, **SMALL)
    assert np.ravel(caught.value.position) == [1.5]


def test_a_named_start_that_is_not_a_number_is_named():
    target = tp.Target(lambda p: math.nan if p["a"] > 1 else -0.5 * p["a"] ** 2)
    with pytest.raises(NotANumberError, match="'a'") as caught:
        tp.sample(target, initial={"a": 2.0}, **SMALL | {"draws": 400})
    assert caught.value.position["a"] == 2.0


def test_a_prior_that_only_python_can_draw_from_is_not_drawn_from_by_compiled_loops():
    """Compiled loops cannot call it: the safe end is then explored by steps, and begins no tours."""
    likelihood, prior = njit(lambda x: -0.5 * np.sum((x - 1.0) ** 2)), njit(lambda x: -0.5 * np.sum(x**2))
    target = tp.Target.from_likelihood(likelihood, prior, lambda rng: rng.standard_normal(2))
    run = tp.sample(target, draws=2000, tuning=tp.Tuning(2000), rng=1, progress=False)
    assert run.info.engine == "scalar (Numba)"
    assert run.path.legs[0].source == -1
    at_end = run.values["x"][run.rung == len(run.path) - 1]
    assert len(at_end) > 100
    assert abs(at_end.mean()) < 0.5
    assert 0.6 < at_end.std() < 1.4
    log_evidence = run.log_evidence()
    truth = -0.5 - np.log(2.0)  # of two coordinates, over the mass of the prior
    assert abs(log_evidence.value - truth) < 5 * log_evidence.standard_error + 0.1


def test_a_chain_that_runs_off_to_infinity_is_stopped_with_the_condition_on_moments():
    """Cauchy tails |x|^-2: pi^k can be normalised for k > 1/2 only (Section 2 of the paper)."""
    cauchy = tp.Target(njit(lambda x: -np.log1p(x**2)))
    message = r"can be normalised.*k = 0\.1, .*run off.*moments of order \(1 - k\) / k.*Raise the hottest k"
    with pytest.raises(TargetError, match=message):
        tp.sample(cauchy, initial=0.0, ladder=[1.0, 0.8, 0.1], draws=2000, rng=1, progress=False)
    fine = tp.sample(cauchy, initial=0.0, ladder=[1.0, 0.8], draws=200, rng=1, progress=False)
    assert np.all(np.isfinite(fine.energy))


def test_double_precision_does_not_leak_into_the_users_jax():
    with jax.enable_x64(False):  # whatever libraries that were imported before have asked for
        tp.sample(TRACED, initial=0.5, **SMALL)
        assert not jax.config.jax_enable_x64
        assert jnp.zeros(1).dtype == jnp.float32


def test_draws_need_not_be_a_multiple_of_anything():
    for draws in (1, 31, 33):
        assert tp.sample(PLAIN, initial=0.5, **SMALL | {"draws": draws}).n_draws == draws


def test_one_rung_is_plain_sampling():
    run = tp.sample(PLAIN, initial=0.5, **SMALL | {"ladder": [1.0]})
    assert np.all(run.rung == 0)
    np.testing.assert_allclose(run.weights(), 1 / 80)


def test_a_run_that_can_be_gone_on_with_holds_its_draws_once():
    options = SMALL | {"draws": 20_000}
    tp.sample(COMPILED, initial=0.5, **options)  # compiled from here on
    gc.collect()
    tracemalloc.start()
    run = tp.sample(COMPILED, initial=0.5, **options)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = (*run.values.values(), run.rung, run.proposed, run.terms, run.acceptance)
    assert run.go_on is not None
    assert held < 1.4 * sum(array.nbytes for array in arrays)
