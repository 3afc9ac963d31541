import csv

import numpy as np
import pytest
from recapture_cases import all_histories, evaluate, forward_log_probability, rough_laws, staged_log_probability
from scipy.optimize import minimize

from statistical import seeded_rng
from tempering.data import DIPPER_ARRAY, SYNTHETIC_COUNTS, SYNTHETIC_HISTORIES, SYNTHETIC_TRUTH, path_of
from tempering.models.recapture import layout as at
from tempering.models.recapture.design import held_cells, lay_out
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.individuals import strata_of
from tempering.models.recapture.layout import empty_state
from tempering.models.recapture.reading import read
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.times import time_structures


def state_of(counts, fidelity=False):
    present = (*counts.parameters, "F") if fidelity else counts.parameters
    space = ModelSpace(counts.n_age_classes, present=present, groups=counts.groups, stages=counts.stages)
    times = time_structures(counts.years)
    return empty_state(*lay_out(counts, space, times, rough_laws(space, times)))


def log_likelihood(counts, values, fidelity=False):
    """The compiled log likelihood of counts at a table of values (3 or 4, K, C); what is held is held."""
    state = state_of(counts, fidelity)
    state.values[3] = 1.0
    state.values[: len(values)] = values
    held = held_cells(counts, (*counts.parameters, *(["F"] if fidelity else [])))
    fixed = (np.arange(len(held)) == at.FIDELITY).astype(float)[:, None, None]
    state.values[: len(held)][held] = np.broadcast_to(fixed, held.shape)[held]
    return evaluate(state)


def synthetic_truth():
    values = np.full((4, 9, 4), 0.5)
    values[3] = 1.0
    index = {"phi": 0, "p_at_next_occasion": 1, "lambda": 2}
    with open(path_of(SYNTHETIC_TRUTH)) as file:
        for row in csv.DictReader(file):
            cell = (
                index[row["parameter"]],
                int(row["interval_start_year"]) - 1982,
                int(row["age_class"][0]) - 1,
            )
            values[cell] = float(row["value"])
    return values


@pytest.mark.parametrize("fidelity", [False, True])
@pytest.mark.parametrize(("tail", "n_histories"), [(False, 31), (True, 23)])
def test_the_probabilities_of_all_histories_sum_to_one(tail, n_histories, fidelity):
    values = seeded_rng("sum to one").random((4, 4, 3))
    histories = list(all_histories(4, tail))
    assert len(histories) == n_histories
    data = [Histories([h], years=range(5), tail=tail).to_counts(3) for h in histories]
    total = sum(np.exp(log_likelihood(d, values if fidelity else values[:3], fidelity)) for d in data)
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("fidelity", [False, True])
@pytest.mark.parametrize("tail", [False, True])
def test_counts_give_the_likelihood_of_the_individuals(tail, fidelity):
    rng = seeded_rng(f"individuals {tail}")
    values = rng.uniform(0.05, 0.95, (4, 6, 3))
    values[3] = values[3] if fidelity else 1.0
    if tail:
        values[3, -1] = 1.0
    pool = list(all_histories(6, tail))
    codes = np.array([pool[i] for i in rng.integers(len(pool), size=600)])
    for row in codes[:300]:  # later markings
        shift = rng.integers(0, 5)
        row[:] = np.concatenate([np.zeros(shift, int), row[: 7 - shift]])
    codes[:, -1] = np.where(tail & (codes[:, -1] == 1), 0, codes[:, -1])
    codes = codes[(codes != 0).any(axis=1) & (codes[np.arange(600), (codes != 0).argmax(axis=1)] == 1)]
    age = rng.integers(0, 4, len(codes))
    alive_last = np.array([(c == 2).sum() == 0 for c in codes])
    number = np.where(alive_last & (rng.random(len(codes)) < 0.2), -1, 1)
    slow = sum(
        forward_log_probability(c, a, values, 3, tail, n > 0) for c, a, n in zip(codes, age, number, strict=True)
    )
    counts = Histories(codes, years=range(7), age=age, number=number, tail=tail).to_counts(3)
    assert log_likelihood(counts, values, fidelity) == pytest.approx(slow, abs=1e-9)


STAGES = [("seen", "missed"), ("new", "old"), ("new", "seen", "missed")]


@pytest.mark.parametrize("stages", STAGES)
def test_histories_with_stages_have_their_probabilities_and_sum_to_one(stages):
    """Trap dependence and transience, against the forward algorithm bird by bird."""
    values = seeded_rng("stages").uniform(0.05, 0.95, (4, 4, 2 * len(stages)))
    total = 0.0
    for history in all_histories(4):
        counts = Histories([history], years=range(5)).to_arrays(stages).to_counts(2)
        found = log_likelihood(counts, values[:3])
        assert found == pytest.approx(staged_log_probability(history, 0, values, 2, stages), abs=1e-10)
        total += np.exp(found)
    assert total == pytest.approx(1.0, abs=1e-12)


def test_arrays_can_tell_birds_just_seen_from_those_missed():
    codes = np.array(list(all_histories(4)))
    histories = Histories(codes, years=range(5))
    one = histories.to_arrays(("seen", "missed")).to_counts(2)
    two = histories.to_arrays().staged(("seen", "missed")).to_counts(2)
    for name in ("seen", "missed", "recovered", "vanished"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_birds_with_covariates_have_their_probabilities():
    rng = seeded_rng("covariates")
    values, slopes = rng.uniform(0.05, 0.95, (4, 4, 2)), np.array([0.8, -0.5, 0.3, 0.0])
    pool = list(all_histories(4))
    codes = np.array([pool[i] for i in rng.integers(len(pool), size=60)])
    age, mass = rng.integers(0, 2, 60), rng.integers(0, 9, 60) * 1.5 + 20
    data = Histories(codes, years=range(5), age=age, columns={"mass": mass})
    may = [[q < 3] for q in range(at.N_PARAMETERS)]
    individuals = strata_of(data, ["mass"], may, {}, 2)
    assert len(individuals.x) == len(set(mass))
    space, times = ModelSpace(2, "~ mass", "~ mass", "~ mass", individual=("mass",)), time_structures(range(4))
    state = empty_state(*lay_out(data.to_counts(2), space, times, rough_laws(space, times), individuals=individuals))
    state.values[:4], state.values[3] = values, 1.0
    state.slopes[:4, 0, 0], state.slopes[:4, 0, 1] = 1.0, slopes
    x = (mass - mass.mean()) / mass.std()
    slow = sum(staged_log_probability(c, a, values, 2, (), slopes * z) for c, a, z in zip(codes, age, x, strict=True))
    assert evaluate(state) == pytest.approx(slow, abs=1e-9)
    state.slopes[:] = 0.0
    assert evaluate(state) == pytest.approx(log_likelihood(data.to_counts(2), values[:3]), abs=1e-9)


def test_groups_have_the_likelihood_of_each_alone():
    rng = seeded_rng("groups")
    values = rng.uniform(0.1, 0.9, (3, 3, 4))
    pool = list(all_histories(3))
    codes, group = np.array([pool[i] for i in rng.integers(len(pool), size=80)]), rng.integers(1, 3, 80)
    together = log_likelihood(Histories(codes, years=range(4), group=group).to_counts(2), values)
    apart = [
        log_likelihood(Histories(codes[group == g], years=range(4)).to_counts(2), values[..., 2 * g - 2 : 2 * g])
        for g in (1, 2)
    ]
    assert together == pytest.approx(sum(apart), abs=1e-9)


def test_survival_over_a_long_interval_is_a_power_and_nothing_is_seen_where_nobody_looks():
    """One interval of length two is two of length one without an occasion between them."""
    short = Histories([[1, 0, 1], [1, 0, 0]], years=[1, 2, 3], number=[7, 5], unsampled=(1,), dead=False).to_counts(1)
    long = Histories([[1, 1], [1, 0]], years=[1, 3], number=[7, 5], dead=False).to_counts(1)
    one = log_likelihood(short, np.array([[[0.8], [0.8]], [[0.6], [0.6]], [[0.0], [0.0]]]))
    assert one == pytest.approx(log_likelihood(long, np.array([[[0.8]], [[0.6]], [[0.0]]])), abs=1e-12)
    assert one == pytest.approx(7 * np.log(0.64 * 0.6) + 5 * np.log(1 - 0.64 * 0.6), abs=1e-12)


def test_the_synthetic_set_at_its_truth():
    counts = read(path_of(SYNTHETIC_COUNTS))
    assert log_likelihood(counts, synthetic_truth()) == pytest.approx(-6592.522590028446, abs=1e-9)


def test_the_synthetic_histories_agree_bird_by_bird():
    histories = read(path_of(SYNTHETIC_HISTORIES))
    values = synthetic_truth()
    unique, times = np.unique(histories.codes, axis=0, return_counts=True)
    slow = sum(n * forward_log_probability(c, 0, values, 4) for c, n in zip(unique, times, strict=True))
    assert slow == pytest.approx(-6592.522590028446, abs=1e-8)


def maximum(counts, design):
    """Maximise the likelihood over logits; ``design(x)`` gives phi and p (K,). Returns values and deviance."""
    state = state_of(counts)

    def deviance(x):
        phi, p = design(1 / (1 + np.exp(-x)))
        state.values[0], state.values[1], state.values[2] = phi[:, None], p[:, None], 0.0
        return -2 * evaluate(state)

    n = design.__defaults__[0]
    best = minimize(deviance, np.zeros(n), method="BFGS", options={"gtol": 1e-7})
    return 1 / (1 + np.exp(-best.x)), best.fun


ONE = np.ones(6)
FLOOD = np.array([0, 1, 1, 0, 0, 0], bool)
# -2 log L and estimates of the European dipper (Lebreton et al. 1992) as RMark prints them; those with p(.) are also in
# the tests of the R package wiqid, as AIC: 670.8377, 673.7301 and 666.1028. `cell_deviance` is worked out without us.
DIPPER = {
    "phi(.) p(.)": (lambda v, n=2: (v[0] * ONE, v[1] * ONE), 666.8377, {0: 0.56024, 1: 0.90258}),
    "phi(t) p(.)": (lambda v, n=7: (v[:6], v[6] * ONE), 659.7301, {0: 0.62584, 1: 0.45419, 2: 0.47838}),
    "phi(.) p(t)": (lambda v, n=7: (v[6] * ONE, v[:6]), 664.4802, {}),
    "phi(t) p(t)": (lambda v, n=12: (v[:6], v[6:]), 656.9502, {0: 0.71818, 1: 0.43469, 2: 0.47819, 6: 0.69620}),
    "phi(flood) p(.)": (lambda v, n=3: (np.where(FLOOD, v[1], v[0]), v[2] * ONE), 660.1028, {0: 0.60710, 1: 0.46883}),
}


M_ARRAY = np.array([
    [11, 2, 0, 0, 0, 0], [0, 24, 1, 0, 0, 0], [0, 0, 34, 2, 0, 0], [0, 0, 0, 45, 1, 2], [0, 0, 0, 0, 51, 0],
    [0, 0, 0, 0, 0, 52],
])  # fmt: skip
RELEASED = np.array([22, 60, 78, 80, 88, 98])


def cell_deviance(phi, p):
    """-2 log L from the multinomial cells of the m-array, by NumPy alone."""
    cells = np.zeros((6, 7))
    for i in range(6):
        for j in range(i, 6):
            cells[i, j] = np.prod(phi[i : j + 1]) * np.prod(1 - p[i:j]) * p[j]
    cells[:, 6] = 1 - cells.sum(axis=1)
    counts = np.column_stack([M_ARRAY, RELEASED - M_ARRAY.sum(axis=1)])
    return -2 * np.sum(counts[counts > 0] * np.log(cells[counts > 0]))


@pytest.mark.parametrize("name", DIPPER)
def test_the_published_maxima_are_those_of_the_m_array(name):
    design, deviance, _ = DIPPER[name]
    n = design.__defaults__[0]
    found = minimize(lambda x: cell_deviance(*design(1 / (1 + np.exp(-x)))), np.zeros(n), method="BFGS")
    assert found.fun == pytest.approx(deviance, abs=2e-4)


@pytest.mark.parametrize("name", DIPPER)
def test_the_dipper_has_its_published_maxima(name):
    design, deviance, estimates = DIPPER[name]
    counts = read(path_of(DIPPER_ARRAY)).to_counts(1)
    values, found = maximum(counts, design)
    assert found == pytest.approx(deviance, abs=1e-4)
    for place, value in estimates.items():
        assert values[place] == pytest.approx(value, abs=3e-5)


def test_closed_forms_of_seber_for_recoveries():
    """Brownie's model 1 with constant recovery and two years: the maximum is a ratio of counts (Seber 1970)."""
    recovered, released = np.array([[60, 24], [0, 45]]), np.array([1000, 900])
    never = released - recovered.sum(axis=1)
    arrays = ReleaseArrays([0, 1], [0, 0], np.zeros((2, 2), int), recovered, never, [1, 2], tail=True, live=False)
    counts = arrays.to_counts(1)
    # f_2 = 45 / 900 from the second release; first-year recoveries f_1 = 60 / 1000; S_1 f_2 = 24 / 1000
    f1, f2 = 0.06, 0.05
    survival = 0.024 / f2
    lam1 = f1 / (1 - survival)
    values = np.zeros((3, 2, 1))
    values[0] = [[survival], [0.5]]
    values[2] = [[lam1], [f2 / 0.5]]
    top = log_likelihood(counts, values)
    for cell in ((0, 0), (2, 0), (2, 1)):
        for change in (-1e-3, 1e-3):
            other = values.copy()
            other[cell] += change
            assert log_likelihood(counts, other) < top


def test_a_study_without_recaptures_needs_no_p():
    histories = Histories([[1, 2, 0], [1, 0, 2], [1, 0, 0]], years=range(3))
    values = np.array([0.6, 0.0, 0.3])[:, None, None] * np.ones((3, 2, 1))
    expected = np.log(0.4 * 0.3) + np.log(0.6 * 0.4 * 0.3) + np.log(1 - 0.4 * 0.3 - 0.6 * 0.4 * 0.3)
    assert log_likelihood(histories.to_counts(1), values) == pytest.approx(expected, abs=1e-12)
