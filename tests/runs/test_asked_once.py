"""Whatever is asked of a run is computed once, from one fit, and is what the plain formulas say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import fsolve
from scipy.special import logsumexp
from scipy.stats import norm, t

import tempering as tp
from statistical import seeded_rng
from tempering.estimators import rung_draws, standard_error_of_sum
from tempering.learning import density_of_states
from tempering.runs.draws import RunInfo

K = np.array([1.0, 0.7, 0.35])
OCCUPANCY = [0.5, 0.2, 0.3]


def skewed_run(name, n_chains=6, n_draws=2500, method="simulated", shift=0.0):
    """Return draws of powers of a Gumbel density, in the memory order of the vector engine, (draw, chain)."""
    rng = seeded_rng(name)
    rung = rng.choice(K.size, size=(n_draws, n_chains), p=OCCUPANCY).astype(np.int32)
    x = -np.log(rng.gamma(K[rung])) + np.log(K[rung])  # log density -x - exp(-x), times k
    energy = -x - np.exp(-x) + np.where(rung == 1, shift, 0.0)
    return tp.TemperedDraws.of_energies(
        values={"x": x.T},
        rung=rung.T,
        energy=energy.T,
        ladder=tp.Ladder(K),
        log_pseudo_prior=np.zeros(K.size),
        proposed=rung.T,
        acceptance=np.ones((n_chains, n_draws, 1), np.float32),
        info=RunInfo(method, "scalar", "exact", "neighbour", 1, 0.0),
    )


@pytest.fixture
def n_fits(monkeypatch):
    """Count how often MBAR is fitted."""
    calls = []

    def counting(fit):
        def counted(*arguments, **options):
            calls.append(arguments)
            return fit(*arguments, **options)

        return counted

    for module, name in ((rung_draws, "mbar"), (rung_draws, "mbar_from_terms"), (density_of_states, "mbar")):
        monkeypatch.setattr(module, name, counting(getattr(module, name)))
    return lambda: len(calls)


def ask_everything(run):
    run.weights()
    run.log_evidence()
    run.expect(lambda x: x**2)
    run.diagnose()
    run.summary()
    run.rungs()


@pytest.mark.parametrize("method", ["simulated", "sequential"])
def test_mbar_is_fitted_once_for_all_questions(method, n_fits):
    run = skewed_run("once", method=method)
    ask_everything(run)
    assert n_fits() == 1
    assert run.mbar.rung.shape == run.rung.shape
    assert n_fits() == (1 if method == "simulated" else 2)  # for those who want it by (chain, draw)
    ask_everything(replace(run, _kept={}))  # control: another run is fitted anew, and counted
    assert n_fits() == (2 if method == "simulated" else 3)


def test_a_disagreement_is_found_once_and_a_warning_each_time():
    run = skewed_run("disagreement", shift=6.0)
    for _ in range(2):
        with pytest.warns(UserWarning, match="must not depend on the method"):
            found = run.log_evidence()
    assert found is run._evidence


def slow_log_mixture(energy, rung):
    """Return MBAR's log mixture at the draws and the log normalisers, all draws and states at once."""
    log_n = np.log(np.bincount(rung.ravel()))

    def mixture(log_z):
        return logsumexp(K * energy[..., None] + log_n - np.append(0.0, log_z), axis=-1)

    def excess(log_z):
        terms = (K * energy[..., None] - mixture(log_z)[..., None]).reshape(-1, K.size)
        return (logsumexp(terms, axis=0) - np.append(0.0, log_z))[1:]

    log_z = fsolve(excess, np.zeros(K.size - 1), xtol=1e-14)
    return mixture(log_z), np.append(0.0, log_z)


def test_weights_and_the_evidence_are_those_of_the_plain_equations():
    run = skewed_run("equations")
    mixture, log_z = slow_log_mixture(run.energy, run.rung)
    weights = np.exp(run.energy - mixture)
    weights /= weights.sum()
    np.testing.assert_allclose(run.weights(), weights, rtol=1e-9)
    np.testing.assert_allclose(run.shares(), [weights[run.rung == i].sum() for i in range(K.size)], rtol=1e-9)
    size = weights.size
    assert run.ess() == pytest.approx(size / (1 + np.var(size * weights, ddof=1)), rel=1e-9)
    assert run.log_evidence().value == pytest.approx(log_z[0] - log_z[-1], rel=1e-9)
    value = run.expect(lambda x: x**3).value
    assert value == pytest.approx(np.sum(weights * run.values["x"] ** 3), rel=1e-9)
    assert run.mean(run.values["x"] ** 3) == pytest.approx(value, rel=1e-12)


def slow_standard_error(influences):
    """Return the flat-top standard error of a sum, batch by batch, wider by Student's law where they are few."""
    n_chains, n_draws = influences.shape
    size = n_chains * n_draws

    def variance(length):
        batches = np.lib.stride_tricks.sliding_window_view(influences, length, axis=1).sum(axis=2)
        return np.sum(batches**2) * size / (batches.size * length * (1 - length / size))

    length, longest = max(int(np.sqrt(n_draws)), min(n_draws, size // 200)), min(n_draws, size // 10)
    while length < longest and length < 4 * variance(length) / variance(1):
        length *= 2
    length = min(length, longest)
    wider = t.ppf(0.975, 0.75 * size / length) / norm.ppf(0.975) if size / length < 200 else 1.0
    return wider * np.sqrt(max(2 * variance(length) - variance(length // 2), variance(length) / 2))


@pytest.mark.parametrize("memory", [1, 40, 400])
def test_standard_errors_are_those_of_batches_one_by_one(memory):
    rng = seeded_rng(f"batches {memory}")
    x = rng.normal(size=(3, 2000 + memory, 2)).cumsum(axis=1)
    x = x[:, memory:] - x[:, :-memory]  # correlated over that many draws
    x = x - x.mean(axis=(0, 1))
    expected = [slow_standard_error(x[..., i]) for i in range(2)]
    np.testing.assert_allclose(standard_error_of_sum(x), expected, rtol=1e-9)
    np.testing.assert_allclose(standard_error_of_sum(np.asfortranarray(x)), expected, rtol=1e-9)


def test_other_methods_are_those_of_their_formulas():
    run = skewed_run("formulas")
    found = run.log_evidence().by_method
    at = [run.rung == i for i in range(K.size)]
    n = np.bincount(run.rung.ravel())
    for name, sign, pairs in (
        ("stepping stone", 1.0, [(1, 0), (2, 1)]),
        ("stepping stone, reversed", -1.0, [(0, 1), (1, 2)]),
    ):
        value, influence = 0.0, np.zeros(run.rung.shape)
        for own, other in pairs:
            w = np.exp((K[other] - K[own]) * run.energy[at[own]])
            value += sign * np.log(w.mean())
            influence[at[own]] = sign * (w / w.sum() - 1 / n[own])
        assert found[name].value == pytest.approx(value, rel=1e-10)
        assert found[name].standard_error == pytest.approx(slow_standard_error(influence), rel=1e-9)
    mean = np.array([run.energy[a].mean() for a in at])
    variance = np.array([run.energy[a].var() for a in at])
    width = -np.diff(K)
    plain = np.sum(width * (mean[1:] + mean[:-1]) / 2)
    correction = np.sum(width**2 / 12 * np.diff(variance))
    influence = np.zeros(run.rung.shape)
    for i, a in enumerate(at):
        by_mean = np.append(width, 0.0)[i] / 2 + np.append(0.0, width)[i] / 2
        by_variance = np.append(0.0, width)[i] ** 2 / 12 - np.append(width, 0.0)[i] ** 2 / 12
        centred = run.energy[a] - mean[i]
        influence[a] = (by_mean * centred + by_variance * (centred**2 - variance[i])) / n[i]
    integral = found["thermodynamic integration"]
    assert integral.value == pytest.approx(plain + correction, rel=1e-10)
    assert integral.standard_error == pytest.approx(np.hypot(slow_standard_error(influence), correction), rel=1e-9)


def test_the_order_in_memory_does_not_matter():
    run = skewed_run("memory")
    plain = {name: np.ascontiguousarray(getattr(run, name)) for name in ("rung", "terms", "proposed")}
    same = replace(run, values={"x": np.ascontiguousarray(run.values["x"])}, _kept={}, **plain)
    assert not run.terms.flags.c_contiguous
    np.testing.assert_array_equal(run.weights(), same.weights())
    assert run.log_evidence() == same.log_evidence()
    assert run.expect(lambda x: x) == same.expect(lambda x: x)
