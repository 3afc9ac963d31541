"""All models of small spaces on the dipper: probabilities by quadrature, and by the chain on its tuned ladder."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from dipper_histories import FEMALES, MALES, dipper

from statistical import assert_mean_is, assert_mean_is_not, assert_variance_is_one, seeded_rng
from tempering.models.recapture import Histories, MarkRecapture

FLOOD = np.array([0, 1, 1, 0, 0, 0])
ICE = np.array([0.2, 1.9, 1.4, -0.3, 0.1, -0.6])
N_NODES = 60
N_ENSEMBLES = 24


def nodes(n=None, low=0.0, high=1.0):
    x, w = np.polynomial.legendre.leggauss(n or N_NODES)
    return low + (high - low) * (x + 1) / 2, w * (high - low) / 2


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


def m_array(data):
    """Releases and next encounters by interval, and birds never met again, of each stratum of ``data``."""
    arrays = data.to_arrays()
    return arrays.interval, arrays.recaptured, arrays.never


def log_cells(data, phi, p_seen, p_missed):
    """Log L of the multinomial cells: constant survival, and recapture after a sighting and after none."""
    total = 0.0
    for start, met, never in zip(*m_array(data), strict=True):
        rest, alive = 1.0, 1.0
        for t in range(start, met.size):
            p = p_seen if t == start else p_missed
            alive = alive * phi
            total = total + met[t] * np.log(alive * p)
            rest = rest - alive * p
            alive = alive * (1 - p)
        total = total + never * np.log(rest)
    return total


def evidence_of_captures(data):
    """Birds just seen and birds missed alike in p, or not; constant survival."""
    v, w = nodes()
    phi, one, two = v[:, None, None], v[None, :, None], v[None, None, :]
    weights = w[:, None, None] * w[None, :, None] * w
    alike, apart = log_cells(data, phi, one, one), log_cells(data, phi, one, two)
    return {"": log_evidence(alike, weights), "trap": log_evidence(apart, weights)}


def evidence_of_masses(data):
    """Survival the same for all birds, or logit-linear in their mass; constant recapture."""
    v, w = nodes()
    slope = np.linspace(-4, 4, 161)
    density = np.exp(-0.5 * slope**2) / np.sqrt(2 * np.pi) * (slope[1] - slope[0])
    mass = data.columns["mass"]
    x = (mass - np.average(mass, weights=data.number)) / np.sqrt(np.cov(mass, fweights=data.number, ddof=0))
    logit, p = np.log(v / (1 - v))[:, None, None], v[None, None, :]
    total, plain = 0.0, 0.0
    for value in np.unique(x):
        rows = x == value
        part = replace(
            data, codes=data.codes[rows], number=data.number[rows], age=data.age[rows], group=data.group[rows],
            columns={}, labels=(), notes=(),
        )  # fmt: skip
        phi = 1 / (1 + np.exp(-(logit + slope[None, :, None] * value)))
        total = total + log_cells(part, phi, p, p)
        plain = plain + log_cells(part, v[:, None, None], p, p)
    flat = w[:, None, None] * np.ones((1, 1, 1)) * w
    return {"": log_evidence(plain, flat), "mass": log_evidence(total, w[:, None, None] * density[None, :, None] * w)}


def evidence_of_floods_and_sexes(counts):
    """Sexes alike or not, each constant or by floods, or by floods with a constant distance; one p."""
    v, w = nodes(30, 0.3, 0.85)  # six deviations around the posterior
    p, of_p = (part.reshape(1, 1, -1, 1) for part in nodes(30, 0.7, 1.0))
    one, two = v.reshape(-1, 1, 1, 1), v.reshape(1, -1, 1, 1)
    z = np.linspace(-1.5, 1.5, 41).reshape(1, 1, 1, -1)
    prior = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * (z.ravel()[1] - z.ravel()[0])
    of_one = w.reshape(-1, 1, 1, 1) * np.full((1, len(w), 1, 1), 1 / len(w))  # the second value is not in the model
    of_both = w.reshape(-1, 1, 1, 1) * w.reshape(1, -1, 1, 1)

    def log_sex(c, dry, wet):
        """Log L of one sex."""
        part = SimpleNamespace(n_intervals=counts.n_intervals)
        for name in ("seen", "missed", "vanished"):
            setattr(part, name, getattr(counts, name)[c : c + 1])
        return log_likelihood(part, [(lambda t: wet if FLOOD[t] else dry, lambda t: p)])

    def moved(value):
        return 1 / (1 + np.exp(-(np.log(value / (1 - value)) + z)))

    constant, flooded = ([log_sex(c, one, wet) for c in (0, 1)] for wet in (one, two))
    parallel = flooded[0] + log_sex(1, moved(one), moved(two))
    found = {
        "": log_evidence(sum(constant), of_one * of_p),
        "flood": log_evidence(sum(flooded), of_both * of_p),
        "flood+group": log_evidence(parallel, of_both * of_p * prior),
    }
    alone = [[given_p(constant[c], of_one), given_p(flooded[c], of_both)] for c in (0, 1)]
    for a, b in product((0, 1), repeat=2):
        found[f"apart {a} {b}"] = log_evidence(alone[0][a] + alone[1][b], of_p.ravel())
    return found


def given_p(log_values, weights):
    """Integrate over survival."""
    top = log_values.max()
    return top + np.log(np.sum(np.exp(log_values - top) * weights, axis=(0, 1, 3)))


def probabilities(evidence):
    logs = np.array(list(evidence.values()))
    shares = np.exp(logs - logs.max())
    return dict(zip(evidence, shares / shares.sum(), strict=True))


BOTH = dipper(FEMALES | {h: FEMALES.get(h, 0) + n for h, n in MALES.items()})
EACH = np.repeat(BOTH.codes, BOTH.number, axis=0)
ONE_BY_ONE = Histories(
    EACH, years=BOTH.years, dead=False, columns={"mass": seeded_rng("masses").integers(3, size=len(EACH)) * 4.0 + 50}
)
CASES = {
    "years": (
        BOTH,
        MarkRecapture(
            1, "~ flood + ice", "~ 1", year_groups={"flood": [1982, 1983]}, yearly_covariates={"ice": ICE},
            draws=600, tune=200, chains=N_ENSEMBLES,
        ),
        evidence_of_years,
    ),
    "captures": (
        BOTH,
        MarkRecapture(1, "~ 1", "~ trap", draws=600, tune=200, chains=N_ENSEMBLES),
        evidence_of_captures,
    ),
    "masses": (
        ONE_BY_ONE,
        MarkRecapture(1, "~ mass", "~ 1", draws=600, tune=200, chains=N_ENSEMBLES),
        evidence_of_masses,
    ),
    "additive": (
        dipper(FEMALES, MALES, names=("female", "male")),
        MarkRecapture(1, "~ flood + group", "~ 1", groups="group", year_groups={"flood": [1982, 1983]}, draws=600,
                      tune=200, chains=N_ENSEMBLES),
        evidence_of_floods_and_sexes,
    ),
    "groups": (
        dipper(FEMALES, MALES, names=("female", "male")),
        MarkRecapture(1, "~ group", "~ 1", groups="group", draws=600, tune=200, chains=N_ENSEMBLES),
        evidence_of_groups,
    ),
}  # fmt: skip


def effects_of(exact):
    """Add up the models that have an effect."""
    floods = exact["flood"] + exact["flood+group"] + sum(exact[f"apart {ab}"] for ab in ("0 1", "1 0", "1 1"))
    return {"group": 1 - exact[""] - exact["flood"], "flood": floods, "flood+group": exact["flood+group"]}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_model_probabilities_are_those_of_quadrature(case):
    data, study, evidence = CASES[case]
    result = study.fit(data, rng=11, progress=False)
    exact = probabilities(evidence(data if case in ("captures", "masses") else result.counts))
    if case == "additive":
        exact = effects_of(exact)
    parameter = "p" if case == "captures" else "phi"
    scores, wrong = [], []
    cold = result.draws.rung == 0
    per_ensemble = (N_ENSEMBLES, -1)
    for effect, flag in result.effect_flags(parameter):
        name = "sex" if effect == "group" and case == "groups" else effect
        share = (flag & cold).reshape(per_ensemble).sum(axis=1) / cold.reshape(per_ensemble).sum(axis=1)
        scores.append(share - exact[name])
        wrong.append(share - (exact[name] * 0.5 + 0.5 * (1 - exact[name])))
        combined = result.effects().query("parameter == @parameter and effect == @effect")["probability"].item()
        assert combined == pytest.approx(exact[name], abs=0.03)
    assert_mean_is(0.0, np.array(scores).T)
    assert_mean_is_not(0.0, np.array(wrong).T)


@pytest.mark.slow
def test_the_errors_of_tables_are_honest():
    """Of 24 fits with four short ensembles each; errors a third as large, the control, are seen."""
    data, study, evidence = CASES["years"]
    short = replace(study, draws=300, chains=4)
    fits = [short.fit(data, rng=seed, progress=False) for seed in range(60, 84)]
    exact = probabilities(evidence(fits[0].counts))
    table = [fit.effects().set_index(["parameter", "effect"]).loc[("phi", "flood")] for fit in fits]
    z = np.array([(row["probability"] - exact["flood"]) / row["standard_error"] for row in table])
    assert_variance_is_one(z)
    with pytest.raises(AssertionError):
        assert_variance_is_one(3 * z)


def test_the_quadrature_has_converged(monkeypatch):
    counts = CASES["groups"][0].to_counts(1)
    coarse = probabilities(evidence_of_groups(counts))
    monkeypatch.setitem(globals(), "N_NODES", 90)
    fine = probabilities(evidence_of_groups(counts))
    assert coarse["sex"] == pytest.approx(fine["sex"], abs=1e-4)
