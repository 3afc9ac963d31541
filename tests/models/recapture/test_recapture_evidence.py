"""All models of small spaces on the dipper: probabilities by quadrature, and by the chain on its tuned ladder."""

import numpy as np
import pytest
from dipper_histories import FEMALES, MALES, dipper

from statistical import assert_mean_is, assert_mean_is_not
from tempering.models.recapture import MarkRecapture

FLOOD = np.array([0, 1, 1, 0, 0, 0])
ICE = np.array([0.2, 1.9, 1.4, -0.3, 0.1, -0.6])
N_NODES = 60
N_ENSEMBLES = 24


def nodes():
    x, w = np.polynomial.legendre.leggauss(N_NODES)
    return (x + 1) / 2, w / 2


def log_likelihood(counts, columns):
    """Log L of live counts, a pair of functions (phi, p) of the interval for each column; arrays of any shape."""
    total = 0.0
    for c, (phi, p) in enumerate(columns):
        chi = 1.0
        for t in range(counts.n_intervals - 1, -1, -1):
            chi = 1 - phi(t) + phi(t) * (1 - p(t)) * chi
            w, z, v = (m[c, t] for m in (counts.seen, counts.missed, counts.vanished))
            total = total + (w + z) * np.log(phi(t)) + w * np.log(p(t)) + z * np.log1p(-p(t)) + v * np.log(chi)
    return total


def log_evidence(log_values, weights):
    top = log_values.max()
    return top + np.log(np.sum(np.exp(log_values - top) * weights))


def evidence_of_years(counts):
    """Constant, by floods, and along a covariate, with a constant p."""
    v, w = nodes()
    one, two, p = v[:, None, None], v[None, :, None], v[None, None, :]
    weights = w[:, None, None] * w[None, :, None] * w
    found = {}
    found[""] = log_evidence(log_likelihood(counts, [(lambda t: one, lambda t: p)]), weights)
    by_flood = [(lambda t: two if FLOOD[t] else one, lambda t: p)]
    found["flood"] = log_evidence(log_likelihood(counts, by_flood), weights)
    slope = np.linspace(-4, 4, 161)  # fine beside the posterior, whose deviation is about 0.2
    slope_weights = np.exp(-0.5 * slope**2) / np.sqrt(2 * np.pi) * (slope[1] - slope[0])
    x, intercept = (ICE - ICE.mean()) / ICE.std(), np.log(one / (1 - one))
    trend = [(lambda t: 1 / (1 + np.exp(-(intercept + slope[:, None] * x[t]))), lambda t: p)]
    grid = w[:, None, None] * slope_weights[None, :, None] * w
    found["ice"] = log_evidence(log_likelihood(counts, trend), grid)
    return found


def evidence_of_groups(counts):
    """Sexes alike or not, with one p."""
    v, w = nodes()
    one, two, p = v[:, None, None], v[None, :, None], v[None, None, :]
    weights = w[:, None, None] * w[None, :, None] * w
    alike = [(lambda t: one, lambda t: p)] * 2
    apart = [(lambda t: one, lambda t: p), (lambda t: two, lambda t: p)]
    return {name: log_evidence(log_likelihood(counts, c), weights) for name, c in (("", alike), ("sex", apart))}


def probabilities(evidence):
    logs = np.array(list(evidence.values()))
    shares = np.exp(logs - logs.max())
    return dict(zip(evidence, shares / shares.sum(), strict=True))


CASES = {
    "years": (
        dipper(FEMALES | {h: FEMALES.get(h, 0) + n for h, n in MALES.items()}),
        MarkRecapture(
            1, "~ flood + ice", "~ 1", year_groups={"flood": [1982, 1983]}, yearly_covariates={"ice": ICE},
            draws=600, tune=200, chains=N_ENSEMBLES,
        ),
        evidence_of_years,
    ),
    "groups": (
        dipper(FEMALES, MALES, names=("female", "male")),
        MarkRecapture(1, "~ group", "~ 1", groups="group", draws=600, tune=200, chains=N_ENSEMBLES),
        evidence_of_groups,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_model_probabilities_are_those_of_quadrature(case):
    data, study, evidence = CASES[case]
    result = study.fit(data, rng=11, progress=False)
    exact = probabilities(evidence(result.counts))
    scores, wrong = [], []
    cold = result.draws.rung == 0
    per_ensemble = (N_ENSEMBLES, -1)
    for effect, flag in result.effect_flags("phi"):
        name = "sex" if effect == "group" else effect
        share = (flag & cold).reshape(per_ensemble).sum(axis=1) / cold.reshape(per_ensemble).sum(axis=1)
        scores.append(share - exact[name])
        wrong.append(share - (exact[name] * 0.5 + 0.5 * (1 - exact[name])))
        combined = result.effects().query("parameter == 'phi' and effect == @effect")["probability"].item()
        assert combined == pytest.approx(exact[name], abs=0.03)
    assert_mean_is(0.0, np.array(scores).T)
    assert_mean_is_not(0.0, np.array(wrong).T)


def test_the_quadrature_has_converged(monkeypatch):
    counts = CASES["groups"][0].to_counts(1)
    coarse = probabilities(evidence_of_groups(counts))
    monkeypatch.setitem(globals(), "N_NODES", 90)
    fine = probabilities(evidence_of_groups(counts))
    assert coarse["sex"] == pytest.approx(fine["sex"], abs=1e-4)
