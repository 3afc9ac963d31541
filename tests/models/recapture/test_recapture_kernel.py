"""Joint-draw tests (Geweke 2004): model and values from the prior, data given them, then moves that change nothing.

Every kind of space has one: ages, groups, groupings of years, trends, random years, fidelity, unequal intervals. The
moves are compiled, so that controls break what they are told: the temperature, the prior over models, the prior of a
slope, of a deviation, the birds found dead, the lengths of intervals, and the Jacobian of each reversible jump.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numba import njit
from recapture_cases import (
    advance,
    draw_prior,
    evaluate,
    moved_to,
    simulate,
    simulate_histories,
    statistics_of,
    study_of,
    with_constant,
    with_data_over,
    with_set_prior,
)

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.models.recapture import layout as at
from tempering.models.recapture.given import differentiate, slope_of_cell
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.times import time_structures

N_REPLICATES = 1200
N_INTERVALS, N_CHICKS = 4, 10
YEARS = np.arange(N_INTERVALS)
INFORMED = {"phi": (2.0, 3.0), "p": (0.7, 1.5), "lambda": (1.3, 0.8)}
LIVE = ("phi", "p", "lambda")

CASES = {
    "ages": (ModelSpace(3), time_structures(YEARS)),
    "informed": (ModelSpace(3, model_prior="structures", beta=INFORMED), time_structures(YEARS)),
    "groups": (
        ModelSpace(2, "~ age + sex + time", "~ sex", "~ time", groups=("a", "b"), factor="sex"),
        time_structures(YEARS),
    ),
    "years": (
        ModelSpace(2, "~ age + time + flood", "~ flood", "~ 1", times=("flood",)),
        time_structures(YEARS, {"flood": [1, 2]}),
    ),
    "trend": (
        ModelSpace(2, "~ age + ice", "~ time + ice", "~ 1", times=("ice",)),
        time_structures(YEARS, covariates={"ice": [0.3, 2.0, 1.1, 0.4]}),
    ),
    "random": (
        ModelSpace(2, "~ age + random", "~ time + random", "~ 1", times=("random",)),
        time_structures(YEARS, random=True),
    ),
    "additive": (
        ModelSpace(
            1,
            "~ time + sex",
            "~ time + flood + sex",
            "~ 1",
            groups=("a", "b"),
            factor="sex",
            times=("flood", "t+sex", "flood+sex"),
        ),
        time_structures(YEARS, {"flood": [1, 2]}, additive=["t+sex", "flood+sex"]),
    ),
    "distances": (
        ModelSpace(1, "{1+}(t+sex)", "~ 1", "~ 1", groups=("a", "b"), factor="sex", times=("t+sex",)),
        time_structures(YEARS, additive=["t+sex"]),
    ),
    "additive ages": (
        ModelSpace(3, "~ time + age", "~ age", "~ 1", times=("t+age",)),
        time_structures(YEARS, additive=["t+age"]),
    ),
    "fidelity": (
        ModelSpace(2, "~ age + time", "~ time", "~ 1", present=(*LIVE, "F"), fidelity="~ age + time"),
        time_structures(YEARS),
    ),
}
X = (-1.3, 0.1, 1.2)
BY_HISTORY = {
    "trap": ModelSpace(
        2, "~ age", "~ trap + age", "~ 1", groups=("seen", "missed"), stages=("seen", "missed"), idle=(2,)
    ),
    "transient": ModelSpace(1, "~ transient", "~ time", "~ 1", groups=("new", "old"), stages=("new", "old")),
    "mass": ModelSpace(1, "~ time + mass", "~ mass", "~ 1", individual=("mass",)),
}  # spaces that need histories bird by bird
LENGTHS = np.array([1.0, 2.0, 0.5, 1.0])


SEXES = {"groups": ("a", "b"), "factor": "sex", "times": ("t+sex",)}
ONE_MOVE = {
    "flips": (ModelSpace(1, "~ time", "~ 1", "~ 1"), {"with_companion": 0.0}, at.LOGIT_POWER),
    "flips with the companion": (ModelSpace(2, "~ age", "~ 1", "~ time"), {"with_companion": 1.0}, at.LOGIT_POWER),
    "flips to additive effects": (ModelSpace(1, "~ time + sex", "~ 1", "~ 1", **SEXES), {}, at.LOGIT_POWER),
    "splits by fitted laws": (
        ModelSpace(3, "~ age", "~ 1", "~ 1"),
        {"fitted_splits": 1.0, "with_companion": 0.0},
        at.LOGIT_POWER,
    ),
    "splits with the companion": (
        ModelSpace(3, "~ age", "~ 1", "~ age"),
        {"fitted_splits": 1.0, "with_companion": 1.0},
        at.LOGIT_POWER,
    ),
    "splits that keep the mean": (ModelSpace(3, "~ age", "~ 1", "~ 1"), {"fitted_splits": 0.0}, at.LOG_JACOBIAN),
}  # a space in which only one kind of jump is possible, and what its Jacobian is made of


def new_state(space, times):
    """A state of a study in which every cell exists, to draw the prior in."""
    flat = np.full((4, N_INTERVALS, space.n_columns), 0.5)
    if space in BY_HISTORY.values():
        return study_of(
            simulate_histories(seeded_rng("any"), flat, 40, space.n_classes, space.stages, x=X), space, times
        )
    return study_of(simulate(seeded_rng("any data"), flat, 40, space.n_classes), space, times)


def case_of(case):
    if case in BY_HISTORY:
        return BY_HISTORY[case], time_structures(YEARS), {}
    if case in ONE_MOVE:
        space, options, _ = ONE_MOVE[case]
        return space, time_structures(YEARS, additive=space.times), options
    return *CASES[case], {}


@cache
def joint_draws(case, lengths=False):
    """Exact draws of (model, values, data): the prior, then data given it; each with the study of its data."""
    space, times, options = case_of(case)
    rng, empty = seeded_rng(f"joint {case}"), new_state(space, times)
    out = []
    while len(out) < N_REPLICATES:
        state = moved_to(empty, empty)
        draw_prior(rng, state)
        values = state.values[:4].copy()
        if lengths:
            values[0] **= LENGTHS[:, None]
        if case in BY_HISTORY:
            slopes = state.slopes[:4, 0].prod(axis=-1) / np.std(X)  # they are per deviation
            arrays = simulate_histories(rng, values, N_CHICKS + 2, space.n_classes, space.stages, slopes, X)
        else:
            arrays = simulate(rng, values, N_CHICKS, space.n_classes)
        if lengths:
            arrays = replace(arrays, lengths=LENGTHS)
        out.append((state, study_of(arrays, space, times, **options)))
    return out


def differences(case, *, k=1.0, n_steps=4, broken=lambda study: study, at_k=None, lengths=False):
    """Run moves from exact draws and return what changed."""
    rng = seeded_rng(f"moves {case} {k}")
    rows = []
    for state, study in joint_draws(case, lengths):
        divided = study if k == 1.0 else with_data_over(study, k)
        start = moved_to(state, divided)
        evaluate(start)
        before = statistics_of(start)
        moving = moved_to(start, broken(divided))
        evaluate(moving)
        advance(rng, moving, k if at_k is None else at_k, n_steps)
        end = moved_to(moving, divided)
        evaluate(end)
        rows.append(statistics_of(end) - before)
    return np.array(rows)


SHORT = ("ages", "groups", "fidelity", "additive")  # the others, whose parts these share, are run by `make test-long`


def marked(names, short):
    return [name if name in short else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(CASES, SHORT))
def test_moves_keep_the_joint_law_of_model_values_and_data(case):
    assert_mean_is(0.0, differences(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(["ages", "random"], ["ages"]))
def test_moves_keep_it_at_another_temperature(case):
    assert_mean_is(0.0, differences(case, k=0.4))


@pytest.mark.long
def test_moves_keep_it_with_intervals_of_unequal_length():
    assert_mean_is(0.0, differences("ages", lengths=True))


@pytest.mark.long
def test_control_lengths_that_are_forgotten_are_seen():
    def equal(study):
        floats = study.floats.copy()
        start = study.ints[at.LENGTHS]
        floats[start : start + N_INTERVALS] = 1.0
        return study._replace(floats=floats)

    assert_mean_is_not(0.0, differences("ages", lengths=True, broken=equal, n_steps=12))


CONTROLS = {
    "temperature": ("ages", {"at_k": 0.6}),
    "prior over models": ("ages", {"broken": lambda s: with_set_prior(s, 0.7)}),
    "prior over groups": ("groups", {"broken": lambda s: with_set_prior(s, 0.7)}),
    "prior of a slope": ("trend", {"broken": lambda s: with_constant(s, at.SLOPE_SD, 0.3)}),
    "prior of a distance": ("distances", {"broken": lambda s: with_constant(s, at.SLOPE_SD, 0.3)}),
    "prior of a deviation": ("random", {"broken": lambda s: with_constant(s, at.SIGMA_SCALE, 0.2)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("control", marked(CONTROLS, ("temperature", "prior over groups")))
def test_what_is_broken_on_purpose_is_seen(control):
    case, how = CONTROLS[control]
    assert_mean_is_not(0.0, differences(case, n_steps=16, **how))


@pytest.mark.slow
@pytest.mark.parametrize("move", ONE_MOVE)
def test_each_reversible_jump_keeps_the_joint_law_and_needs_its_jacobian(move):
    _, _, place = ONE_MOVE[move]
    assert_mean_is(0.0, differences(move, n_steps=8))
    assert_mean_is_not(0.0, differences(move, n_steps=8, broken=lambda s: with_constant(s, place, 0.0)))


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(BY_HISTORY, ("trap", "mass")))
def test_moves_keep_the_joint_law_of_what_depends_on_captures_and_birds(case):
    assert_mean_is(0.0, differences(case))


def forget_captures(study):
    """Never leave the stage after a release."""
    ints = study.ints.copy()
    ints[ints[at.NEXT] : ints[at.NEXT] + 4] = [1, 1, 3, 3]
    return study._replace(ints=ints)


def forget_masses(study):
    floats, ints = study.floats.copy(), study.ints
    floats[ints[at.INDIVIDUAL] : ints[at.INDIVIDUAL] + ints[at.N_STRATA]] = 0.0
    return study._replace(floats=floats)


@pytest.mark.parametrize(
    ("case", "broken"),
    [
        ("trap", forget_captures),
        ("mass", forget_masses),
        ("mass", lambda s: with_constant(s, at.SLOPE_JACOBIAN, 0.7)),
        pytest.param("mass", lambda s: with_constant(s, at.SLOPE_SD, 0.3), marks=pytest.mark.long),
    ],
)
def test_controls_of_captures_and_birds_are_seen(case, broken):
    assert_mean_is_not(0.0, differences(case, n_steps=24, broken=broken))


@pytest.mark.slow
def test_control_birds_that_stayed_and_are_forgotten_are_seen():
    """Of those seen again alive, and of those found dead, whose chance to have left or stayed is left out."""

    def without(study):
        ints, floats = study.ints.copy(), study.floats.copy()
        ints[at.N_DEAD] = 0
        size = N_INTERVALS * ints[at.N_COLUMNS]
        floats[ints[at.COUNTS] + 3 * size : ints[at.COUNTS] + 4 * size] = 0.0
        size = 2 * ints[at.N_SETS] * ints[at.N_LAWS]
        floats[ints[at.SUMS] + 3 * size : ints[at.SUMS] + 4 * size] = 0.0
        return study._replace(ints=ints, floats=floats)

    assert_mean_is_not(0.0, differences("fidelity", broken=without, n_steps=16))


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(CASES, SHORT))
def test_what_a_chain_carries_along_is_what_it_would_work_out_anew(case):
    rng = seeded_rng(f"carried {case}")
    for state, study in joint_draws(case)[:20]:
        chain = moved_to(state, study)
        evaluate(chain)
        advance(rng, chain, 0.7, 30)
        carried, chi = chain.energy.copy(), chain.chi[:2, :-1].copy()
        assert carried[0] == pytest.approx(evaluate(chain), abs=1e-8)
        assert carried[1] == pytest.approx(chain.energy[1], abs=1e-8)
        np.testing.assert_allclose(chi[0], chain.chi[0, :-1], rtol=1e-10)


@njit
def slopes_of_cells(state, out):
    differentiate(state)
    for q in range(out.shape[0]):
        for t in range(out.shape[1]):
            for c in range(out.shape[2]):
                out[q, t, c] = slope_of_cell(state, q, t, c)


def with_lengths(study, lengths):
    ints, floats = study.ints.copy(), study.floats.copy()
    ints[at.HAS_LENGTHS] = 1
    floats[ints[at.LENGTHS] : ints[at.LENGTHS] + N_INTERVALS] = lengths
    return study._replace(ints=ints, floats=floats)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["ages", "trap"])
@pytest.mark.parametrize("lengths", [np.ones(N_INTERVALS), LENGTHS])
def test_laws_are_moved_by_the_slope_of_the_likelihood(case, lengths):
    """The slope is that of differences; the control forgets the birds that vanished."""
    state, study = joint_draws(case)[0]
    here, h = moved_to(state, with_lengths(study, lengths)), 1e-5
    here.values[:3] = seeded_rng("slopes").uniform(0.2, 0.8, here.values[:3].shape)
    found, wanted, control = (np.zeros(here.values[:3].shape) for _ in range(3))
    slopes_of_cells(here, found)
    for place in np.ndindex(found.shape):
        v = here.values[place]
        for sign in (1, -1):
            here.values[place] = 1 / (1 + (1 - v) / v * np.exp(-sign * h))
            wanted[place] += sign * evaluate(here) / (2 * h)
        here.values[place] = v
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    size = N_INTERVALS * here.ints[at.N_COLUMNS]
    here.floats[here.ints[at.COUNTS] + 2 * at.N_PARAMETERS * size :][:size] = 0.0
    slopes_of_cells(here, control)
    assert np.abs(control - wanted).max() > 0.1


@pytest.mark.slow
def test_a_set_shares_its_values_and_what_is_not_free_stays():
    case, rng = "groups", seeded_rng("shared")
    space, _ = CASES[case]
    for state, study in joint_draws(case)[:20]:
        chain = moved_to(state, study)
        evaluate(chain)
        advance(rng, chain, 0.7, 30)
        for q in range(3):
            labels = space.partitions[chain.structure[q, 0]]
            for c, label in enumerate(labels):
                np.testing.assert_array_equal(chain.values[q, :, c], chain.values[q, :, labels.index(label)])
                if chain.structure[q, 1 + c] == 0:
                    assert np.ptp(chain.values[q, :, c]) == 0
        assert (chain.values[3] == 1.0).all()
