"""The three swap schemes of parallel tempering by their exact transition probabilities."""

from itertools import permutations, product

import numpy as np
import pytest
from enumeration import ENERGY, LADDER, accept, drift, enumerate_decisions, normalised, outcomes

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


def product_law(n_rungs, points=range(len(ENERGY))):
    """Return the law of (positions, rungs): replica r at x_r has pi^k of its rung; every seating alike."""
    return normalised(
        {
            (xs, rung): sum(LADDER[i] * ENERGY[x] for x, i in zip(xs, rung, strict=True))
            for xs in product(points, repeat=n_rungs)
            for rung in permutations(range(n_rungs))
        }
    )


def after_swap(swap, iteration, xs, rung):
    """Return every seating after a swap, with its probability; check who sits where on the way."""
    m = len(rung)

    def run(decisions):
        seats, who, proposed = np.array(rung), np.argsort(rung), np.array(rung)
        swap(decisions, iteration, seats, who, ENERGY[list(xs)], LADDER[:m], proposed)
        np.testing.assert_array_equal(seats[who], np.arange(m))
        assert sorted(proposed) == list(range(m))
        assert np.all((seats == proposed) | (seats == rung))
        return xs, tuple(int(i) for i in seats)

    return outcomes(run)


@pytest.mark.parametrize("iteration", [0, 1])
@pytest.mark.parametrize("name", SWAPS)
@pytest.mark.parametrize("n_rungs", [1, 2, 4])
def test_a_swap_keeps_the_product_law(name, iteration, n_rungs):
    assert drift(product_law(n_rungs), lambda s: after_swap(SWAPS[name], iteration, *s)) < 1e-14


@pytest.mark.parametrize("name", SWAPS)
def test_control_energies_exchanged_with_the_wrong_sign_are_seen(monkeypatch, name):
    monkeypatch.setattr(parallel, "accept", lambda decisions, log_ratio: accept(decisions, -log_ratio))
    assert drift(product_law(3), lambda s: after_swap(SWAPS[name], 0, *s)) > 1e-3


@pytest.mark.parametrize("name", SWAPS)
def test_control_a_swap_that_uses_one_energy_alone_is_seen(monkeypatch, name):
    """Simulated tempering's ratio in parallel tempering's place: the other replica's energy is forgotten."""

    def half(decisions, lower, rung, replica, energy, k):
        seen = energy.copy()
        seen[replica[lower]] = 0.0
        return SWAP_PAIR(decisions, lower, rung, replica, seen, k)

    monkeypatch.setattr(parallel, "swap_pair", half)
    assert drift(product_law(3), lambda s: after_swap(SWAPS[name], 0, *s)) > 1e-3


SWAP_PAIR = parallel.swap_pair


def test_control_a_parity_that_depends_on_the_state_is_seen():
    """Choosing which pairs to try by where a replica sits is no Gibbs move."""

    def tempting(decisions, iteration, rung, *rest):
        parallel.swap_non_reversible(decisions, int(rung[0]), rung, *rest)

    assert drift(product_law(3), lambda s: after_swap(tempting, 0, *s)) > 1e-3


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
            np.array([-1.0, 0.5, 0.2, 2.0]),
            LADDER,
            proposed,
        )
        return tuple((i, i + 1) for i in range(3) if proposed[i] == i + 1)

    return {outcome for _, outcome in outcomes(run)}


@pytest.mark.parametrize("iteration", [0, 1])
@pytest.mark.parametrize("name", SWAPS)
def test_an_iteration_of_the_coupled_loop_keeps_the_product_law(name, iteration):
    """The loop itself: every replica moves at its own rung's temperature, then seats are exchanged."""
    assert drift(product_law(3, range(2)), lambda s: after_iteration(SWAPS[name], iteration, *s)) < 1e-14


def test_control_replicas_that_move_at_their_own_number_are_seen():
    """As if rung and replica were the same thing: right until the first exchange, wrong ever after."""
    law = product_law(3, range(2))

    def mistaken(decisions, functions, x, k, settings, rung, acceptance):
        return two_point_move(decisions, functions, x, LADDER[acceptance], settings, rung, acceptance)

    drifted = drift(law, lambda s: after_iteration(SWAPS["random"], 0, *s, move=mistaken))
    assert drifted > 1e-3


def two_point_move(decisions, functions, x, k, settings, rung, acceptance):
    return 1 - x if accept(decisions, k * (ENERGY[1 - x] - ENERGY[x])) else x


def after_iteration(swap, iteration, xs, rung, move=two_point_move):
    m = len(rung)
    loop = bind(
        loops.couple,
        move=move,
        energy_of=lambda functions, x: ENERGY[x],
        write=lambda functions, x, out: None,
        swap=swap,
        particle_of=loops.item_of,
        put_particle=loops.put_item,
    )

    def run(decisions):
        seats, who, particles = np.array(rung), np.argsort(rung), list(xs)
        numbers = np.arange(m)[:, None]  # in place of acceptances: which replica is moved
        rungs = np.empty((m, 1), int)
        scratch = (np.empty(m), np.empty(m, int))
        out = (np.empty((m, 1)), np.empty((m, 1)), rungs, np.empty((m, 1), int), numbers, *scratch)
        loop(decisions, 0, 0, 0, particles, 0, seats, who, LADDER[:m], iteration, True, out)
        return tuple(particles), tuple(int(i) for i in rungs[:, 0])

    return outcomes(run)


def test_choose_is_not_called_for_a_single_rung():
    assert after_swap(parallel.swap_random, 0, (0,), (0,)) == [(1.0, ((0,), (0,)))]
