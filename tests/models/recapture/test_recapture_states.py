"""Birds that move between states: against sums over all that may have happened, and joint draws."""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from recapture_cases import advance, draw_prior, evaluate, moved_to, statistics_of, study_of
from scipy import special

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import InputError
from tempering.models.recapture import MarkRecapture, describe, read
from tempering.models.recapture import layout as at
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.movement import counts_by_state, next_met_probabilities, transitions
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.stages import staged_names
from tempering.models.recapture.times import time_structures

N_OCCASIONS = 4
NAMES = ("A", "B", "C")


class Case(NamedTuple):
    """How many states, groups and ages there are, and whether dead birds are found."""

    n_states: int = 2
    n_groups: int = 1
    n_ages: int = 1
    dead: bool = False

    @property
    def states(self):
        return NAMES[: self.n_states]

    @property
    def groups(self):
        return ("f", "m")[: self.n_groups] if self.n_groups > 1 else ("",)

    @property
    def n_columns(self):
        return self.n_groups * self.n_states * self.n_ages

    def column(self, group, state, age):
        return (group * self.n_states + state) * self.n_ages + min(age, self.n_ages - 1)


TWO, THREE = Case(2), Case(3)
OLD_AND_DEAD, GROUPS, ALL = Case(2, 1, 2, True), Case(2, 2), Case(2, 2, 2, True)
CASES = [TWO, THREE, Case(3, 1, 2, True), GROUPS, ALL]


def space_of(case, phi="~ state", movement="~ state"):
    ages = ",".join(str(a + 1) for a in range(case.n_ages))
    return ModelSpace(
        case.n_ages, phi, "~ time", "~ age" if case.dead else "~ 1",
        present=("phi", "p", *(("lambda",) if case.dead else ()), *("psi", "to")[: case.n_states - 1]),
        groups=staged_names(case.groups, case.states), factor="sex", stages=case.states,
        movement=movement, destination=" ".join(f"{{{ages} {name}}}" for name in case.states),
    )  # fmt: skip


def study(histories, space):
    counts = counts_by_state(histories, space.n_classes)
    return study_of(counts, space, time_structures(counts.years))


def histories_of(case, birds):
    """Birds are (group, age, history, number): 0 not seen, the state from 1, or -1 for a bird found dead."""
    groups, ages, rows, numbers = (np.array(x) for x in zip(*birds, strict=True))
    return Histories(
        np.where(rows < 0, 2, np.minimum(rows, 1)), range(N_OCCASIONS), ages, numbers, groups + 1, dead=case.dead,
        groups=case.groups if case.n_groups > 1 else (), states=case.states, seen_in=np.maximum(rows - 1, 0),
    )  # fmt: skip


def some_values(case):
    shape = (at.N_PARAMETERS, N_OCCASIONS - 1, case.n_columns)
    values = seeded_rng(f"states {case}").uniform(0.1, 0.9, shape)
    values[at.SENIORITY], values[at.FIDELITY] = 0.0, 1.0
    values[at.LAMBDA] *= case.dead
    return values


def moves_of(case, values, t, group, age):
    """Where survivors of a group and age go, (from, to)."""
    where = [case.column(group, s, age) for s in range(case.n_states)]
    return transitions(values[at.MOVEMENT, t, where], values[at.DESTINATION, t, where] if case.n_states == 3 else None)


def probability(case, values, group, age, history):
    """Sum over all states that a bird may have been in, dead (0) among them, since its first capture."""
    first = int(np.flatnonzero(history)[0])
    total = 0.0
    for path in product(range(case.n_states + 1), repeat=len(history) - first - 1):
        states, chance = (history[first], *path), 1.0
        for t in range(first, len(history) - 1):
            here, there, seen = states[t - first], states[t - first + 1], history[t + 1]
            if here == 0:
                chance *= there == 0 and seen == 0
                continue
            old = age + t - first
            phi, found = (values[q, t, case.column(group, here - 1, old)] for q in (at.PHI, at.LAMBDA))
            if there == 0:
                chance *= (1 - phi) * (found * (seen == -1) + (1 - found) * (seen == 0))
            else:
                p = values[at.P, t, case.column(group, there - 1, old)]
                chance *= phi * moves_of(case, values, t, group, old)[here - 1, there - 1]
                chance *= p * (seen == there) + (1 - p) * (seen == 0)
        total += chance
    return total


def is_possible(history):
    """Whether nothing follows a death, and the first entry is a live bird."""
    dead = [t for t, code in enumerate(history) if code == -1]
    first = next((code for code in history if code), -1)
    return first > 0 and len(dead) <= 1 and not (dead and any(history[dead[0] + 1 :]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_likelihood_sums_over_all_states_unseen(case):
    values = some_values(case)
    codes = [*range(-1 if case.dead else 0, case.n_states + 1)]
    every = [(1, *rest) for rest in product(codes, repeat=N_OCCASIONS - 1) if is_possible((1, *rest))]
    chances = np.array([probability(case, values, 0, 0, h) for h in every])
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    rng = seeded_rng("birds")
    possible = [h for h in product(codes, repeat=N_OCCASIONS) if is_possible(h) and any(h[:-1])]
    birds = [(int(rng.integers(case.n_groups)), int(rng.integers(2)), h, int(rng.integers(1, 5))) for h in possible]
    state = study(histories_of(case, birds), space_of(case))
    state.values[: at.N_PARAMETERS] = values
    expected = sum(n * np.log(probability(case, values, group, age, h)) for group, age, h, n in birds)
    assert evaluate(state) == pytest.approx(expected, abs=1e-8)
    counts = counts_by_state(histories_of(case, birds), case.n_ages)
    laws = [next_met_probabilities(counts, values[None], t, c)[0] for t, c in np.ndindex(counts.moves.shape[:2])]
    moves = counts.moves.reshape(len(laws), -1)
    assert special.xlogy(moves, laws).sum() == pytest.approx(expected, abs=1e-8)
    for q in (at.PHI, at.P, at.MOVEMENT, *([at.LAMBDA] if case.dead else [])):  # controls: values of the wrong column
        kept = state.values[q].copy()
        state.values[q] = kept[:, ::-1]
        assert abs(evaluate(state) - expected) > 0.1
        state.values[q] = kept


def test_birds_taken_away_say_nothing_afterwards():
    values = some_values(TWO)
    taken = histories_of(TWO, [(0, 0, (1, 0, 2, 0), -3), (0, 0, (1, 2, 0, 0), 2)])
    state = study(taken, space_of(TWO))
    state.values[: at.N_PARAMETERS] = values
    to_third = sum(probability(TWO, values, 0, 0, (1, 0, 2, s)) for s in range(3))
    expected = 3 * np.log(to_third) + 2 * np.log(probability(TWO, values, 0, 0, (1, 2, 0, 0)))
    assert evaluate(state) == pytest.approx(expected, abs=1e-9)


def simulate(rng, case, values, n):
    """Release birds of every group in every state at every occasion, chicks and adults in turn, and follow them."""
    out = []
    for start, group, first in product(range(N_OCCASIONS - 1), range(case.n_groups), range(case.n_states)):
        for bird in range(n):
            age = bird % case.n_ages
            history, here = np.zeros(N_OCCASIONS, int), first
            history[start] = 1 + first
            for t in range(start, N_OCCASIONS - 1):
                old = age + t - start
                column = case.column(group, here, old)
                if rng.random() > values[at.PHI, t, column]:
                    history[t + 1] = -1 if rng.random() < values[at.LAMBDA, t, column] else 0
                    break
                here = int(rng.choice(case.n_states, p=moves_of(case, values, t, group, old)[here]))
                history[t + 1] = (1 + here) * (rng.random() < values[at.P, t, case.column(group, here, old)])
            out.append((group, age, history, 1))
    return histories_of(case, out)


def differences(case, broken, n_steps, n_replicates=700):
    """What moves change, from exact draws of model, values and birds."""
    factors = "".join([" + sex"] * (case.n_groups > 1) + [" + age"] * (case.n_ages > 1))
    rng, space = (
        seeded_rng(f"joint states {case}"),
        space_of(case, f"~ state + time{factors}", f"~ state + time{factors}"),
    )
    empty = study(simulate(rng, case, some_values(case), 2), space)
    rows = []
    for _ in range(n_replicates):
        state = moved_to(empty, empty)
        draw_prior(rng, state)
        start = moved_to(state, study(simulate(rng, case, state.values[: at.N_PARAMETERS], 4), space))
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
    """Leave out the birds never met again."""
    floats, ints = state.floats.copy(), state.ints
    width = ints[at.N_INTERVALS] * (ints[at.N_STATES] + 1) + 2
    size = ints[at.N_INTERVALS] * ints[at.N_COLUMNS] * width
    floats[ints[at.MOVES] :][:size].reshape(-1, width)[:, -2] = 0.0
    return state._replace(floats=floats)


@pytest.mark.slow
@pytest.mark.parametrize("case", [TWO, THREE, OLD_AND_DEAD, GROUPS])
def test_moves_keep_the_joint_law_of_states_and_birds(case):
    assert_mean_is(0.0, differences(case, lambda study: study, 4))


@pytest.mark.slow
@pytest.mark.parametrize("case", [TWO, OLD_AND_DEAD])
def test_control_birds_never_seen_again_that_are_forgotten_are_seen(case):
    assert_mean_is_not(0.0, differences(case, forget_the_unseen, 12))


@pytest.mark.long
def test_a_fit_finds_who_moves(tmp_path):
    """Birds of A leave, birds of B stay, males more often; dead birds are found; read from a file of MARK (LDLD)."""
    case = GROUPS._replace(dead=True)
    values = np.zeros((at.N_PARAMETERS, N_OCCASIONS - 1, 4))
    values[at.PHI], values[at.P], values[at.LAMBDA], values[at.MOVEMENT] = 0.8, 0.6, 0.3, [0.4, 0.1, 0.8, 0.1]
    birds = simulate(seeded_rng("movers"), case, values, 60)
    file = tmp_path / "sites.inp"
    file.write_text("".join(map(as_pairs, birds.codes, birds.seen_in, birds.group)))
    with pytest.raises(InputError, match="--ldld"):
        read(file, groups=2)
    data = read(file, groups=2, ldld=True, first_year=2001, tail=False)
    assert "States: A" in describe(data)
    np.testing.assert_array_equal(counts_by_state(data, 1).moves, counts_by_state(birds, 1).moves)
    study = MarkRecapture(1, "~ state", "~ 1", "~ 1", movement="~ state + group", groups="group", draws=300, tune=100)
    result = study.fit(data, rng=1, progress=False)
    table = result.transitions().set_index(["group", "from", "to"])
    for place, truth in {("1", "A", "B"): 0.4, ("2", "A", "B"): 0.8, ("2", "B", "A"): 0.1}.items():
        assert table.loc[place, "lower"] < truth < table.loc[place, "upper"]
    effects = result.effects().set_index(["parameter", "effect"])["probability"]
    assert effects["psi", "state"] > 0.95 > effects["phi", "state"]
    assert effects["psi", "group"] > 0.95
    assert 0.1 < result.predictive_check(rng=1).p_value() < 0.99
    stuck = read(file, groups=2, ldld=True, first_year=2001, tail=False)  # the control: who stays is said not to move
    seen_in = stuck.seen_in.copy()
    seen_in[:, -1] = 1 - seen_in[:, -1]
    wrong = MarkRecapture(1, "~ state", "~ 1", "~ 1", movement="~ state", groups="group", draws=300, tune=100)
    swapped = wrong.fit(replace(stuck, seen_in=seen_in), rng=1, progress=False)
    assert "THE MODELS DO NOT FIT" in str(swapped.predictive_check(rng=1))
    found = result.means().set_index("parameter").loc["lambda"].iloc[0]
    assert found["lower"] < 0.3 < found["upper"]


def as_pairs(codes, seen_in, group):
    """Write a bird as MARK does: its state, then whether it was found dead before the next occasion."""
    live = ["AB"[s] if code == 1 else "0" for code, s in zip(codes, seen_in, strict=True)]
    dead = ["01"[int(code == 2)] for code in (*codes[1:], 0)]
    return "".join(a + b for a, b in zip(live, dead, strict=True)) + (" 1 0;\n" if group == 1 else " 0 1;\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ABCD 1;\nA00B 1;", "two or three states"),
        ("A0B 1;\nAB 1;", "as many occasions"),
        ("A0B 1 2;", "frequencies of 2 groups"),
        ("A0B1 1;\nA000 1;", "--ldld"),
        ("A01B0 1;\nA0000 1;", "letters or digits, not both"),
    ],
)
def test_files_with_states_that_are_misread_are_refused(tmp_path, text, message):
    file = tmp_path / "bad.inp"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read(file)
