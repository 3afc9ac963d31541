"""The reversible-jump example: its moves must keep prior x likelihood^k, and its exact answers be exact."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng, stationary_differences, student_cut
from tempering import problems
from tempering.problems import variable_selection_moves as moves
from tempering.problems.variable_selection_moves import State

PROBLEM = problems.variable_selection()
TEMPERATURES = [0.02, 0.3, 1.0]  # at 0.02 prior and likelihood weigh about the same


def small_problem():
    rng = np.random.default_rng(11)
    covariates = rng.standard_exponential((12, 2)) - 0.5
    response = covariates @ [0.8, 0.0] + rng.standard_exponential(12) - 1
    return problems.VariableSelection(covariates, response, inclusion=0.3)


def copy_of(state):
    return State(*(np.array(part) for part in state))


def statistics(state):
    """Return size, indicators, coefficients, log variance and energy, each of variance about one."""
    energy = moves.log_likelihood(PROBLEM.data, state) / PROBLEM.data.n_data
    scaled = state.coefficients / np.sqrt(state.variance)
    return np.concatenate(
        [[state.included.sum(), np.log(state.variance[0]), energy], state.included, scaled, scaled**2]
    )


def differences(name, k, step=None, n_replicates=None):
    """Return the change of `statistics` over three steps from exact draws; hot ones need more."""
    n_replicates = n_replicates or (8000 if k < 0.1 else 4000)
    rng = seeded_rng(name)
    states = iter(PROBLEM.sample(rng, n_replicates, k))

    def three_steps(rng, state):
        state = copy_of(state)
        for _ in range(3):
            state = moves.step(rng, PROBLEM.data, state, k) if step is None else step(rng, state, k)
        return state

    return stationary_differences(three_steps, lambda rng: next(states), statistics, rng, n_replicates)


@pytest.mark.slow
@pytest.mark.parametrize("k", TEMPERATURES)
def test_a_step_keeps_the_tempered_posterior(k):
    assert_mean_is(0.0, differences(f"invariant {k}", k))


@pytest.mark.long
@pytest.mark.parametrize("k", TEMPERATURES)
def test_a_compiled_step_keeps_the_tempered_posterior(k):
    assert_mean_is(0.0, differences(f"compiled {k}", k, PROBLEM.compiled.step, 20_000))


@pytest.mark.long
@pytest.mark.parametrize("k", TEMPERATURES)
@pytest.mark.parametrize(
    ("term", "broken"),
    [
        ("log_jacobian", lambda scale: 0.0),
        ("log_prior_ratio", lambda data, state, coefficient: data.log_odds),
        (
            "log_prior_ratio",
            lambda data, state, coefficient: FULL_PRIOR(data, state, coefficient) - data.log_odds,
        ),
    ],
    ids=["jacobian", "coefficient prior", "model prior"],
)
def test_control_a_forgotten_term_is_seen(monkeypatch, term, broken, k):
    monkeypatch.setattr(moves, term, broken)
    assert_mean_is_not(0.0, differences(f"forgotten {term} {k}", k))


FULL_PRIOR = moves.log_prior_ratio


@pytest.mark.long
@pytest.mark.parametrize("k", [0.02, 0.3])
def test_control_a_step_at_the_wrong_temperature_is_seen(k):
    assert_mean_is_not(0.0, differences(f"warmer {k}", k, lambda rng, s, k: PROBLEM.step(rng, s, 0.5 * k)))


def test_birth_and_death_undo_each_other():
    """The log ratio is the change of log target + Jacobian - log density of u, computed term by term here."""
    data, k, j = PROBLEM.data, 0.4, 3
    state = PROBLEM.sample(np.random.default_rng(2), 1, k)[0]
    state.included[j], state.coefficients[j] = 0.0, 0.0
    u = 0.7
    centre, scale = moves.conditional(data, state, j, k)
    width = moves._PROPOSAL_WIDTH * scale
    born = copy_of(state)
    born.included[j], born.coefficients[j] = 1.0, centre + width * u
    # the Jacobian against a numerical derivative
    slope = ((centre + width * (u + 1e-6)) - (centre + width * (u - 1e-6))) / 2e-6
    assert moves.log_jacobian(width) == pytest.approx(np.log(slope), rel=1e-8)
    expected = log_target(born, k) - log_target(state, k) + np.log(slope) - stats.norm.logpdf(u)
    assert moves.birth_log_ratio(data, state, j, u, k) == pytest.approx(expected, rel=1e-9)
    # seen from the other side: the conditional does not depend on the coefficient itself
    assert moves.conditional(data, born, j, k) == pytest.approx((centre, scale), rel=1e-9)
    assert moves.birth_log_ratio(data, born, j, u, k) == pytest.approx(expected, rel=1e-9)


def log_target(state, k, problem=PROBLEM):
    """Return log prior + k log likelihood from the definitions, by SciPy."""
    sigma2 = state.variance[0]
    inside = state.included > 0
    log_prior = np.sum(np.where(inside, np.log(problem.inclusion), np.log(1 - problem.inclusion)))
    log_prior += stats.norm.logpdf(state.coefficients[inside], 0, np.sqrt(problem.slab * sigma2)).sum()
    log_prior += stats.invgamma.logpdf(sigma2, problem.shape, scale=problem.rate)
    residual = problem.response - problem.covariates @ state.coefficients
    return log_prior + k * stats.norm.logpdf(residual, 0, np.sqrt(sigma2)).sum()


def test_the_energy_is_the_log_likelihood():
    for state in PROBLEM.sample(np.random.default_rng(3), 5, 0.5):
        assert PROBLEM.energy(state) == pytest.approx(log_target(state, 1) - log_target(state, 0), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("k", [0.2, 1.0])
def test_model_probabilities_agree_with_quadrature(k):
    """Integrate the definition over the variance, and over one coefficient where there is one."""
    problem = small_problem()
    log_variances, coefficients = np.linspace(-4, 4, 81), np.linspace(-4, 5, 91)

    def density(coefficient, log_variance, model):
        state = State(np.asarray(model, float), np.array([coefficient, 0.0]), np.exp([log_variance]))
        return np.exp(log_target(state, k, problem) + log_variance)

    empty = np.trapezoid([density(0.0, v, [0, 0]) for v in log_variances], log_variances)
    inner = [[density(b, v, [1, 0]) for b in coefficients] for v in log_variances]
    single = np.trapezoid(np.trapezoid(inner, coefficients, axis=1), log_variances)
    probability = problem.model_probabilities(k)
    assert probability.sum() == pytest.approx(1.0)
    assert single / empty == pytest.approx(probability[1] / probability[0], rel=1e-4)
    assert np.log(empty / probability[0]) == pytest.approx(problem.log_normaliser(k), abs=1e-4)


def test_the_prior_is_the_path_at_zero():
    assert PROBLEM.log_normaliser(0.0) == pytest.approx(0.0, abs=1e-12)
    rng = seeded_rng("prior")
    records = np.array([PROBLEM.record(PROBLEM.sample_reference(rng)) for _ in range(4000)])
    assert_mean_is(PROBLEM.mean_record(0.0), records)
    ratio = [np.exp(0.01 * PROBLEM.energy(PROBLEM.sample_reference(rng))) for _ in range(4000)]
    assert_mean_is(np.exp(PROBLEM.log_normaliser(0.01)), ratio)
    assert_mean_is_not(np.exp(PROBLEM.log_normaliser(0.013)), ratio)


@pytest.mark.parametrize("k", [0.1, 1.0])
def test_exact_draws_have_the_exact_means(k):
    records = [PROBLEM.record(state) for state in PROBLEM.sample(seeded_rng(f"exact {k}"), 4000, k)]
    assert_mean_is(PROBLEM.mean_record(k), records)
    assert_mean_is_not(PROBLEM.mean_record(0.5 * k), records)


@pytest.mark.slow
def test_plain_python_and_compiled_walk_the_same_path():
    slow, fast = np.random.default_rng(7), np.random.default_rng(7)
    model = PROBLEM.compiled
    a, b = PROBLEM.sample_reference(slow), model.sample_reference(fast)
    np.testing.assert_allclose(PROBLEM.record(a), model.record(b), rtol=1e-10)
    for k in np.linspace(0, 1, 200):
        a, b = PROBLEM.step(slow, a, k), model.step(fast, b, k)
        np.testing.assert_allclose(PROBLEM.record(a), model.record(b), rtol=1e-8, atol=1e-10)
        assert PROBLEM.energy(a) == pytest.approx(model.energy(b), rel=1e-8)
    np.testing.assert_array_equal(model.record(model.initial(fast)), PROBLEM.record(PROBLEM.initial(slow)))
    assert len(model.names) == len(model.record(b))


@pytest.mark.slow
def test_long_compiled_chains_visit_the_models_as_often_as_they_should():
    step, record, initial = PROBLEM.compiled.step, PROBLEM.compiled.record, PROBLEM.compiled.initial

    @njit
    def mean_record(rng, k, n_steps):
        state = initial(rng)
        total = np.zeros(16)
        for _ in range(n_steps // 10):
            state = step(rng, state, k)
        for _ in range(n_steps):
            state = step(rng, state, k)
            total += record(state)
        return total / n_steps

    chains = [mean_record(rng, 0.5, 20_000) for rng in seeded_rng("chains").spawn(32)]
    assert_mean_is(PROBLEM.mean_record(0.5), chains)
    assert_mean_is_not(PROBLEM.mean_record(0.25), chains)


def test_tempering_the_model_finds_its_inclusion_probabilities():
    """The whole pipeline, jumps, rungs and combination, judged by its own standard errors."""
    ladder = tp.Ladder.geometric(6, 0.05)
    run = tp.sample(
        PROBLEM.compiled, ladder=ladder, draws=2000, tuning=tp.Tuning(640), chains=24, rng=9, progress=False
    )
    values = np.stack([run.values[name] for name in PROBLEM.names], axis=-1)
    found = run.combination(values, "mbar")
    z = (found.estimate - PROBLEM.mean_record(1.0)) / found.standard_error
    assert np.abs(z).max() < student_cut(24, len(z))
    weights_forgotten = (values.mean(axis=(0, 1)) - PROBLEM.mean_record(1.0)) / found.standard_error
    assert np.abs(weights_forgotten).max() > 1.3 * student_cut(24, len(z))
