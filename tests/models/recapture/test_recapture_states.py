"""Birds that move between states: against sums over all that may have happened, and joint draws."""

from itertools import product

import numpy as np
import pytest
from recapture_cases import advance, draw_prior, evaluate, moved_to, statistics_of, study_of

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import InputError
from tempering.models.recapture import MarkRecapture, describe, read
from tempering.models.recapture import layout as at
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.states import StateHistories, transitions
from tempering.models.recapture.times import time_structures

N_OCCASIONS = 4
NAMES = ("A", "B", "C")


def space_of(n_states, phi="~ state", movement="~ state"):
    names = NAMES[:n_states]
    present = ("phi", "p", "psi", "to")[: n_states + 1]
    to = " ".join(f"{{1+ {name}}}" for name in names)
    return ModelSpace(
        1, phi, "~ time", present=present, groups=names, factor="state", movement=movement, destination=to
    )


def study(histories, space):
    counts = histories.to_counts()
    return study_of(counts, space, time_structures(counts.years))


def some_values(n_states):
    values = seeded_rng(f"states {n_states}").uniform(0.1, 0.9, (at.N_PARAMETERS, N_OCCASIONS - 1, n_states))
    values[[at.LAMBDA, at.SENIORITY]], values[at.FIDELITY] = 0.0, 1.0
    return values


def moves_of(values, t):
    n_states = values.shape[-1]
    return transitions(values[at.MOVEMENT, t], values[at.DESTINATION, t] if n_states == 3 else None)


def probability(history, values):
    """Sum over all states that a bird may have been in, dead (0) among them, since its first capture."""
    first = int(np.flatnonzero(history)[0])
    n_states, total = values.shape[-1], 0.0
    for path in product(range(n_states + 1), repeat=len(history) - first - 1):
        states, chance = (history[first], *path), 1.0
        for t in range(first, len(history) - 1):
            here, there = states[t - first], states[t - first + 1]
            phi = values[at.PHI, t, here - 1] if here else 0.0
            if there == 0:
                chance *= (1 - phi) * (history[t + 1] == 0)
            elif here == 0:
                chance = 0.0
            else:
                chance *= phi * moves_of(values, t)[here - 1, there - 1]
                p = values[at.P, t, there - 1]
                chance *= p * (history[t + 1] == there) + (1 - p) * (history[t + 1] == 0)
        total += chance
    return total


@pytest.mark.slow
@pytest.mark.parametrize("n_states", [2, 3])
def test_the_likelihood_sums_over_all_states_unseen(n_states):
    values = some_values(n_states)
    every = [(1, *rest) for rest in product(range(n_states + 1), repeat=N_OCCASIONS - 1)]
    chances = np.array([probability(h, values) for h in every])
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    rng = seeded_rng("birds")
    codes = [h for h in product(range(n_states + 1), repeat=N_OCCASIONS) if any(h[:-1])]
    number = rng.integers(1, 5, len(codes))
    histories = StateHistories(codes, range(N_OCCASIONS), NAMES[:n_states], number)
    state = study(histories, space_of(n_states))
    state.values[: at.N_PARAMETERS] = values
    expected = number @ [np.log(probability(h, values)) for h in codes]
    assert evaluate(state) == pytest.approx(expected, abs=1e-8)
    state.values[at.MOVEMENT] = state.values[at.MOVEMENT][:, ::-1]  # the control: movement of the wrong state
    assert abs(evaluate(state) - expected) > 0.1


def test_birds_taken_away_say_nothing_afterwards():
    values = some_values(2)
    taken = StateHistories([(1, 0, 2, 0), (1, 2, 0, 0)], range(N_OCCASIONS), NAMES[:2], [-3, 2])
    state = study(taken, space_of(2))
    state.values[: at.N_PARAMETERS] = values
    to_third = sum(probability((1, 0, 2, s), values) for s in range(3))
    expected = 3 * np.log(to_third) + 2 * np.log(probability((1, 2, 0, 0), values))
    assert evaluate(state) == pytest.approx(expected, abs=1e-9)


def simulate(rng, values, n):
    """Release birds in every state at every occasion and follow them."""
    n_states, out = values.shape[-1], []
    for start, first in product(range(N_OCCASIONS - 1), range(n_states)):
        for _ in range(n):
            history, here = np.zeros(N_OCCASIONS, int), first
            history[start] = 1 + first
            for t in range(start, N_OCCASIONS - 1):
                if rng.random() > values[at.PHI, t, here]:
                    break
                here = int(rng.choice(n_states, p=moves_of(values, t)[here]))
                history[t + 1] = (1 + here) * (rng.random() < values[at.P, t, here])
            out.append(history)
    return StateHistories(out, range(N_OCCASIONS), NAMES[:n_states])


def differences(n_states, broken, n_steps, n_replicates=700):
    """What moves change, from exact draws of model, values and birds."""
    rng, space = seeded_rng(f"joint states {n_states}"), space_of(n_states, "~ state + time", "~ state + time")
    empty = study(simulate(rng, some_values(n_states), 2), space)
    rows = []
    for _ in range(n_replicates):
        state = moved_to(empty, empty)
        draw_prior(rng, state)
        start = moved_to(state, study(simulate(rng, state.values[: at.N_PARAMETERS], 4), space))
        evaluate(start)
        before = statistics_of(start)
        moving = moved_to(start, broken(start))
        evaluate(moving)
        advance(rng, moving, 1.0, n_steps)
        end = moved_to(moving, start)
        evaluate(end)
        rows.append(statistics_of(end) - before)
    return np.array(rows)


def forget_the_unseen(state):
    """Leave out the birds never seen again."""
    floats, ints = state.floats.copy(), state.ints
    n_states, n_intervals = ints[at.N_COLUMNS], ints[at.N_INTERVALS]
    width = n_intervals * n_states + 1
    floats[ints[at.MOVES] :][: n_intervals * n_states * width].reshape(-1, width)[:, -1] = 0.0
    return state._replace(floats=floats)


@pytest.mark.slow
@pytest.mark.parametrize("n_states", [2, 3])
def test_moves_keep_the_joint_law_of_states_and_birds(n_states):
    assert_mean_is(0.0, differences(n_states, lambda study: study, 4))


@pytest.mark.slow
def test_control_birds_never_seen_again_that_are_forgotten_are_seen():
    assert_mean_is_not(0.0, differences(2, forget_the_unseen, 12))


@pytest.mark.long
def test_a_fit_finds_who_moves(tmp_path):
    """Birds of A leave, birds of B stay: survival alike, movement not; read from a file of MARK."""
    values = np.zeros((at.N_PARAMETERS, N_OCCASIONS - 1, 2))
    values[at.PHI], values[at.P], values[at.MOVEMENT] = 0.8, 0.6, [0.5, 0.1]
    birds = simulate(seeded_rng("movers"), values, 60)
    file = tmp_path / "sites.inp"
    file.write_text("".join(f"{''.join('0AB'[c] for c in row)} 1;\n" for row in birds.codes))
    data = read(file, first_year=2001)
    assert "States: A" in describe(data)
    study = MarkRecapture(1, "~ state", "~ 1", movement="~ state", draws=300, tune=100)
    result = study.fit(data, rng=1, progress=False)
    table = result.transitions().set_index(["from", "to"])
    for pair, truth in {("A", "B"): 0.5, ("B", "A"): 0.1}.items():
        assert table.loc[pair, "lower"] < truth < table.loc[pair, "upper"]
    effects = result.effects().set_index(["parameter", "effect"])["probability"]
    assert effects["psi", "state"] > 0.95 > effects["phi", "state"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("ABCD 1;\nA00B 1;", "two or three states"), ("A0B 1;\nAB 1;", "3 occasions"), ("A0B 1 2;", "one frequency")],
)
def test_files_with_states_that_are_misread_are_refused(tmp_path, text, message):
    file = tmp_path / "bad.inp"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read(file)
