"""The three swap schemes of parallel tempering by their exact transition probabilities."""

from itertools import permutations, product

import numpy as np
import pytest
from enumeration import LADDER, LINES, POWERS, TWO_LEGS, accept, drift, enumerate_decisions, normalised, outcomes

from tempering.compiling.functions import bind
from tempering.engines import loops
from tempering.rungs import parallel

SWAPS = {
    "random": parallel.swap_random,
    "even_odd": parallel.swap_even_odd,
    "non_reversible": parallel.swap_non_reversible,
}


@pytest.fixture(autouse=True)
def _branching(monkeypatch):
    enumerate_decisions(monkeypatch, parallel)


def product_law(line, points=range(3)):
    """Return the law of (positions, rungs): replica r at x_r has the density of its rung; every seating alike."""
    n_rungs = len(line)
    return normalised(
        {
            (xs, rung): sum(line.log_density(i, x) for x, i in zip(xs, rung, strict=True))
            for xs in product(points, repeat=n_rungs)
            for rung in permutations(range(n_rungs))
        }
    )


def after_swap(swap, iteration, xs, rung, line):
    """Return every seating after a swap, with its probability; check who sits where on the way."""
    m = len(rung)

    def run(decisions):
        seats, who, proposed = np.array(rung), np.argsort(rung), np.array(rung)
        swap(decisions, iteration, seats, who, line.terms[list(xs)], line.coefficients, proposed)
        np.testing.assert_array_equal(seats[who], np.arange(m))
        assert sorted(proposed) == list(range(m))
        assert np.all((seats == proposed) | (seats == rung))
        return xs, tuple(int(i) for i in seats)

    return outcomes(run)


@pytest.mark.parametrize("iteration", [0, 1])
@pytest.mark.parametrize("name", SWAPS)
@pytest.mark.parametrize("n_rungs", [1, 2, 4])
def test_a_swap_keeps_the_product_law(name, iteration, n_rungs):
    assert drift_of_swap(SWAPS[name], POWERS.first(n_rungs), iteration) < 1e-15


def around_the_target(n_rungs):
    """Return rungs of both legs, the target among them: the end of the quick leg, the target, the safe leg."""
    return TWO_LEGS.of([0, 2, 3, 5][:n_rungs])


@pytest.mark.parametrize("iteration", [0, 1])
@pytest.mark.parametrize("name", SWAPS)
def test_a_swap_along_two_legs_keeps_the_product_law(name, iteration):
    line = around_the_target(4)
    assert drift_of_swap(SWAPS[name], line, iteration, range(2)) < 1e-15
    assert drift_of_swap(SWAPS[name], around_the_target(3), iteration) < 1e-15


def drift_of_swap(swap, line, iteration=0, points=range(3)):
    return drift(product_law(line, points), lambda s: after_swap(swap, iteration, *s, line))


@pytest.mark.parametrize("term", [0, 1, 2])
@pytest.mark.parametrize("name", SWAPS)
def test_control_a_coefficient_of_the_wrong_sign_is_seen(monkeypatch, name, term):
    sign = np.where(np.arange(3) == term, -1.0, 1.0)
    pair = parallel.swap_pair
    monkeypatch.setattr(parallel, "swap_pair", lambda *a: pair(*a[:-1], sign * a[-1]))
    assert drift_of_swap(SWAPS[name], around_the_target(3)) > 1e-3


@pytest.mark.parametrize("name", SWAPS)
def test_control_terms_exchanged_with_the_wrong_sign_are_seen(monkeypatch, name):
    monkeypatch.setattr(parallel, "accept", lambda decisions, log_ratio: accept(decisions, -log_ratio))
    for line in LINES.values():
        assert drift_of_swap(SWAPS[name], line.first(3)) > 1e-3


@pytest.mark.parametrize("name", SWAPS)
def test_control_a_swap_that_uses_one_energy_alone_is_seen(monkeypatch, name):
    """Simulated tempering's ratio in parallel tempering's place: the other replica's terms are forgotten."""

    def half(decisions, lower, rung, replica, terms, coefficients):
        seen = terms.copy()
        seen[replica[lower]] = 0.0
        return SWAP_PAIR(decisions, lower, rung, replica, seen, coefficients)

    monkeypatch.setattr(parallel, "swap_pair", half)
    for line in LINES.values():
        assert drift_of_swap(SWAPS[name], line.first(3)) > 1e-3


SWAP_PAIR = parallel.swap_pair


def test_control_a_parity_that_depends_on_the_state_is_seen():
    """Choosing which pairs to try by where a replica sits is no Gibbs move."""

    def tempting(decisions, iteration, rung, *rest):
        parallel.swap_non_reversible(decisions, int(rung[0]), rung, *rest)

    assert drift_of_swap(tempting, POWERS.first(3)) > 1e-3


def test_the_schemes_try_the_pairs_they_say():
    tried = {name: [pairs_tried(swap, t) for t in (0, 1)] for name, swap in SWAPS.items()}
    assert tried["non_reversible"] == [{((0, 1), (2, 3))}, {((1, 2),)}]
    assert tried["even_odd"] == [{((0, 1), (2, 3)), ((1, 2),)}] * 2
    assert tried["random"] == [{((0, 1),), ((1, 2),), ((2, 3),)}] * 2


def pairs_tried(swap, iteration):
    def run(decisions):
        proposed = np.arange(4)
        swap(
            decisions,
            iteration,
            np.arange(4),
            np.arange(4),
            np.array([-1.0, 0.5, 0.2, 2.0])[:, None],
            LADDER[:, None],
            proposed,
        )
        return tuple((i, i + 1) for i in range(3) if proposed[i] == i + 1)

    return {outcome for _, outcome in outcomes(run)}


@pytest.mark.parametrize("iteration", [0, 1])
@pytest.mark.parametrize("path", LINES)
@pytest.mark.parametrize("name", SWAPS)
def test_an_iteration_of_the_coupled_loop_keeps_the_product_law(name, path, iteration):
    """The loop itself: every replica moves at its own rung's temperature, then seats are exchanged."""
    line = around_the_target(3) if path == "two legs" else POWERS.first(3)
    law = product_law(line, range(2))
    assert drift(law, lambda s: after_iteration(SWAPS[name], iteration, *s, line)) < 1e-15


def test_control_replicas_that_move_at_their_own_number_are_seen():
    """As if rung and replica were the same thing: right until the first exchange, wrong ever after."""
    line = POWERS.first(3)
    law = product_law(line, range(2))

    def mistaken(decisions, functions, x, coefficients, settings, rung, acceptance):
        return two_point_move(decisions, functions, x, line.coefficients[acceptance], settings, rung, acceptance)

    drifted = drift(law, lambda s: after_iteration(SWAPS["random"], 0, *s, line, move=mistaken))
    assert drifted > 1e-3


def two_point_move(decisions, functions, x, coefficients, settings, rung, acceptance):
    terms = functions[0]
    change = sum(c * (b - a) for c, a, b in zip(coefficients, terms[x], terms[1 - x], strict=True) if c != 0.0)
    return 1 - x if accept(decisions, change) else x


def after_iteration(swap, iteration, xs, rung, line, move=two_point_move):
    m, n_terms = len(rung), line.terms.shape[1]

    def write_terms(functions, x, out):
        out[:] = functions[0][x]
        return True

    loop = bind(
        loops.couple,
        move=move,
        write_terms=write_terms,
        write=lambda functions, x, out: None,
        swap=swap,
        particle_of=loops.item_of,
        put_particle=loops.put_item,
    )

    def run(decisions):
        seats, who, particles = np.array(rung), np.argsort(rung), list(xs)
        numbers = np.arange(m)[:, None]  # in place of acceptances: which replica is moved
        rungs = np.empty((m, 1), int)
        scratch = (np.empty((m, n_terms)), np.empty(m, int))
        out = (np.empty((m, 1)), np.empty((m, 1, n_terms)), rungs, np.empty((m, 1), int), numbers, *scratch)
        loop(decisions, line.terms, 0, 0, (), (particles, seats, who, iteration), (0, line.coefficients, True), out)
        return tuple(particles), tuple(int(i) for i in rungs[:, 0])

    return outcomes(run)


def test_choose_is_not_called_for_a_single_rung():
    assert after_swap(parallel.swap_random, 0, (0,), (0,), POWERS.first(1)) == [(1.0, ((0,), (0,)))]
