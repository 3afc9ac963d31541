"""First captures: growth and abundance against sums over all that may have happened, and against Jolly and Seber."""

from dataclasses import replace
from itertools import product
from math import comb

import numpy as np
import pytest
from dipper_histories import FEMALES, MALES
from recapture_cases import advance, draw_prior, evaluate, moved_to, statistics_of, study_of
from scipy.optimize import minimize

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import InputError
from tempering.models.recapture import MarkRecapture
from tempering.models.recapture import layout as at
from tempering.models.recapture.entry import population
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.times import time_structures

LIVE = ("phi", "p", "gamma")
N_OCCASIONS = 4


def probability(history, phi, p, gamma):
    """Probability of a history, (0, ..., 0) among them, of a bird that ever was there: all entries, all deaths."""
    size, _ = population(phi[:, None], p[:, None], gamma[:, None])
    enters = size[:, 0] * np.append(1.0, 1 - gamma[1:])
    total = 0.0
    for first, last in product(range(len(p)), repeat=2):
        if first <= last:
            lives = enters[first] * np.prod(phi[first + 1 : last + 1])
            lives *= 1 - phi[last + 1] if last + 1 < len(p) else 1.0
            there = (first <= np.arange(len(p))) & (np.arange(len(p)) <= last)
            caught = np.where(there, p, 0.0)
            total += lives * np.prod(np.where(history, caught, 1 - caught))
    return total


def study(histories, space, n_brought=0):
    """A study of birds, the last of which were brought there and not caught first."""
    first = replace(histories, number=np.append(np.ones(len(histories.codes) - n_brought, int), [0] * n_brought))
    counts = histories.to_counts(1).with_entry((first if n_brought else histories).first_captures())
    return study_of(counts, space, time_structures(counts.years))


def some_values(name):
    phi, p, gamma = seeded_rng(name).uniform(0.2, 0.9, (3, N_OCCASIONS))
    phi[0] = gamma[0] = 0.0
    return phi, p, gamma


def every_history():
    return [h for h in product((0, 1), repeat=N_OCCASIONS) if any(h)]


def log_likelihood(histories, phi, p, gamma):
    state = study(histories, ModelSpace(1, present=LIVE))
    state.values[:] = 0.0
    state.values[at.FIDELITY] = 1.0
    state.values[[at.PHI, at.P, at.SENIORITY], :, 0] = phi, p, gamma
    return evaluate(state)


def test_the_likelihood_sums_over_all_entries_and_deaths():
    phi, p, gamma = some_values("entry")
    number = seeded_rng("numbers").integers(1, 9, len(every_history()))
    histories = Histories(every_history(), years=range(N_OCCASIONS), number=number, dead=False)
    chances = np.array([probability(np.array(h), phi, p, gamma) for h in every_history()])
    never = probability(np.zeros(N_OCCASIONS, int), phi, p, gamma)
    _, caught = population(phi[:, None], p[:, None], gamma[:, None])
    assert chances.sum() + never == pytest.approx(1.0, abs=1e-12)
    assert caught[0] == pytest.approx(1 - never, abs=1e-12)
    expected = number @ np.log(chances / (1 - never))
    assert log_likelihood(histories, phi, p, gamma) == pytest.approx(expected, abs=1e-9)
    late = np.append(0.0, gamma[:0:-1])  # the control: seniority of the wrong years
    assert abs(log_likelihood(histories, phi, p, late) - expected) > 0.1


def test_abundance_is_integrated_out_of_popan():
    """sum over N of 1 / N, POPAN's probability: 1 / n of the conditional one; a flat prior would not do it."""
    caught, n = 0.37, 12
    sums = [
        sum(N**-power * comb(N, n) * caught**n * (1 - caught) ** (N - n) for N in range(n, 600)) for power in (1, 0)
    ]
    assert sums[0] == pytest.approx(1 / n, abs=1e-12)
    assert sums[1] != pytest.approx(1 / n, abs=1e-2)


def test_the_dipper_has_the_population_of_jolly_and_seber():
    """With everything by year, N is the number caught over p, and survival and p are those given first captures."""
    codes = [[int(x) for x in h] for sex in (MALES, FEMALES) for h in sex]
    number = [n for sex in (MALES, FEMALES) for n in sex.values()]
    dipper = Histories(codes, years=range(1981, 1988), number=number, dead=False)

    def deviance(x):
        v = 1 / (1 + np.exp(-x.reshape(3, 7)))
        v[[0, 2], 0] = 0.0
        v[1, [0, 6]] = 0.9, 0.9  # not identified
        return -2 * log_likelihood_of(v)

    state = study(dipper, ModelSpace(1, present=LIVE))

    def log_likelihood_of(v):
        state.values[:], state.values[at.FIDELITY] = 0.0, 1.0
        state.values[[at.PHI, at.P, at.SENIORITY], :, 0] = v
        return evaluate(state)

    found = minimize(deviance, np.full(21, 0.5), method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 100_000})
    phi, p, gamma = 1 / (1 + np.exp(-found.x.reshape(3, 7)))
    seen = np.array(codes).T @ np.array(number)
    growth = (phi[1:] / gamma[1:])[1:-1]  # between the second occasion and the last but one
    np.testing.assert_allclose(growth, (seen / p)[2:-1] / (seen / p)[1:-2], rtol=2e-3)
    np.testing.assert_allclose(phi[1:3], [0.7182, 0.4347], atol=2e-3)  # MARK's Phi(t)p(t), both sexes
    assert not np.allclose(growth, seen[2:-1] / seen[1:-2], rtol=0.02)  # the control forgets p


def caught_birds(rng, values, n, n_brought=0):
    """Birds of a population with these values, until n have been caught; then some that are brought there."""
    phi, p, gamma = values[[at.PHI, at.P, at.SENIORITY], :, 0]
    size, _ = population(phi[:, None], p[:, None], gamma[:, None])
    enters = size[:, 0] * np.append(1.0, 1 - gamma[1:])
    out = []
    while len(out) < n:
        history = life(rng, phi, p, int(rng.choice(len(p), p=enters / enters.sum())))
        if history.any():
            out.append(history)
    for _ in range(n_brought):
        out.append(life(rng, phi, np.append(1.0, p[1:]), 0))
    return Histories(out, years=range(len(p)), dead=False)


def life(rng, phi, p, t):
    """The history of a bird that enters at t."""
    history = np.zeros(len(p), int)
    while True:
        history[t] = rng.random() < p[t]
        t += 1
        if t == len(p) or rng.random() > phi[t]:
            return history


def differences(broken, n_steps, n_replicates=800):
    """What moves change, from exact draws of model, values and birds."""
    rng = seeded_rng("joint entry")
    space = ModelSpace(1, "~ time", "~ time", present=LIVE, seniority="~ time")
    everybody = study(Histories(every_history(), years=range(N_OCCASIONS), dead=False), space)
    rows = []
    for _ in range(n_replicates):
        state = moved_to(everybody, everybody)
        draw_prior(rng, state)
        start = moved_to(state, study(caught_birds(rng, state.values, 25, 4), space, 4))
        evaluate(start)
        before = statistics_of(start)
        moving = moved_to(start, broken(start))
        evaluate(moving)
        advance(rng, moving, 1.0, n_steps)
        end = moved_to(moving, start)
        evaluate(end)
        rows.append(statistics_of(end) - before)
    return np.array(rows)


def without_first_captures(state):
    floats = state.floats.copy()
    floats[state.ints[at.ENTERED] :][: state.ints[at.N_INTERVALS]] = 0.0
    return state._replace(floats=floats)


@pytest.mark.slow
def test_moves_keep_the_joint_law_of_a_population_and_its_birds():
    assert_mean_is(0.0, differences(lambda study: study, 4))
    assert_mean_is_not(0.0, differences(without_first_captures, 12))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"age_classes": 2}, "2 age classes"), ({"p": "~ trap"}, "trap"), ({"phi": "~ mass"}, "individual")],
)
def test_what_growth_cannot_be_fitted_with_is_named(options, message):
    histories = Histories(
        [[1, 1, 0], [0, 1, 1], [1, 0, 1]], years=range(3), dead=False, columns={"mass": np.array([1.0, 2.0, 3.0])}
    )
    with pytest.raises(InputError, match=message):
        MarkRecapture(**({"age_classes": 1, "phi": "~ 1", "p": "~ 1", "entry": "~ 1"} | options)).prepared(histories)


def test_a_fit_finds_growth_and_abundance():
    """A population of known size and growth is found within its intervals; birds lost to p are counted in."""
    rng = seeded_rng("population")
    values = np.zeros((at.N_PARAMETERS, 7, 1))
    values[at.PHI, 1:], values[at.P], values[at.SENIORITY, 1:] = 0.7, 0.4, 0.6
    size, caught = population(*(values[q] for q in (at.PHI, at.P, at.SENIORITY)))
    histories = caught_birds(rng, values, 300)
    result = MarkRecapture(1, "~ 1", "~ 1", entry="~ 1", draws=300, tune=100).fit(histories, rng=1, progress=False)
    growth, numbers = result.growth().iloc[-1], result.abundance()
    assert growth["lower"] < 0.7 / 0.6 < growth["upper"]
    for row, expected in zip(numbers.itertuples(), np.append(size[:, 0], 1.0) * 300 / caught[0], strict=True):
        assert row.lower < expected < row.upper
    assert numbers["lower"].iloc[-1] > 300
