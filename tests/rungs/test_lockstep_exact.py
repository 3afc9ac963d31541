"""The lockstep twins: exact transition probabilities, and the same decisions as the scalar functions.

A twin is a deterministic function of uniforms. Where its decision turns is found by bisection, so that its
probabilities are measured from the function itself, not from the formula it is meant to follow.
"""

from functools import partial
from itertools import permutations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from enumeration import ENERGY, LADDER, LOG_PSEUDO_PRIOR, drift, normalised

from statistical import assert_mean_is, seeded_rng
from tempering.errors import SamplerError
from tempering.rungs import lockstep, parallel, simulated

MOVES = {
    "neighbour": (simulated.move_to_neighbour, lockstep.move_to_neighbour),
    "lifted": (simulated.move_lifted, lockstep.move_lifted),
}


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def path(n_rungs=len(LADDER)):
    """Return a path in longer arrays, as the vector engine pads them: rungs beyond the last must not be used."""
    beyond = jnp.full(3, jnp.nan)
    parts = (jnp.concatenate([jnp.asarray(a[:n_rungs]), beyond]) for a in (LADDER, LOG_PSEUDO_PRIOR))
    return lockstep.Path(*parts, (), jnp.asarray(n_rungs))


def turning_point(accepted, shape):
    """Return the uniform above which ``accepted`` turns true: acceptance is log(1 - u) < log ratio."""

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        yes = accepted(middle)
        return jnp.where(yes, low, middle), jnp.where(yes, middle, high)

    _, high = jax.lax.fori_loop(0, 60, halve, (jnp.zeros(shape), jnp.ones(shape)))
    return jnp.where(accepted(jnp.full(shape, 1e-300)), 0.0, high)


def rung_transitions(move, n_rungs):
    """Return {(x, rung, direction): [(probability, state)]} of a lockstep rung move."""
    states = list(product(range(len(ENERGY)), range(n_rungs), (-1, 1)))

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, 0, None))
    def ends(rung, way, energy, coin):
        def run(u):
            return move(jnp.stack([coin, u]), rung, way, energy, path(n_rungs))

        def accepted(u):
            new, _, proposed = run(u)
            return (new == proposed) & (proposed != rung)

        turn = turning_point(accepted, ())
        return turn, run(turn / 2)[:2], run((1 + turn) / 2)[:2]

    x, rung, way = (jnp.asarray(column) for column in zip(*states, strict=True))
    moves = {state: [] for state in states}
    for coin in (0.25, 0.75):
        turn, below, above = jax.tree.map(np.asarray, ends(rung, way, jnp.asarray(ENERGY)[x], coin))
        for j, state in enumerate(states):
            for p, end in ((turn[j], below), (1 - turn[j], above)):
                moves[state].append((p / 2, (state[0], int(end[0][j]), int(end[1][j]))))
    return moves


def law_of(n_rungs):
    return normalised(
        {
            (x, i, way): LADDER[i] * ENERGY[x] + LOG_PSEUDO_PRIOR[i]
            for x, i, way in product(range(len(ENERGY)), range(n_rungs), (-1, 1))
        }
    )


@pytest.mark.parametrize("n_rungs", [1, 2, 4])
@pytest.mark.parametrize("name", MOVES)
def test_a_rung_move_keeps_the_joint_law(name, n_rungs):
    transitions = rung_transitions(MOVES[name][1], n_rungs)
    assert drift(law_of(n_rungs), transitions.__getitem__) < 1e-14


def test_control_forgetting_the_asymmetry_at_the_ends_is_seen(monkeypatch):
    propose = lockstep.rung_proposal
    monkeypatch.setattr(lockstep, "rung_proposal", lambda *a: (propose(*a)[0], 0.0))
    transitions = rung_transitions(lockstep.move_to_neighbour, 4)
    assert drift(law_of(4), transitions.__getitem__) > 1e-3


def test_control_a_direction_that_does_not_turn_is_seen():
    def straight_on(uniforms, rung, direction, *rest):
        rung, _, proposed = lockstep.move_lifted(uniforms, rung, direction, *rest)
        return rung, direction, proposed

    assert drift(law_of(4), rung_transitions(straight_on, 4).__getitem__) > 1e-3


class Uniforms:
    """What the scalar functions see in place of a generator: a coin, and a number to accept by."""

    def __init__(self, coin, level):
        self.coin, self.level = coin, level


def decide_by_given_uniforms(monkeypatch, module):
    monkeypatch.setattr(module, "accept", lambda u, log_ratio: bool(np.log1p(-u.level) < log_ratio))
    monkeypatch.setattr(module, "choose", lambda u, n: int(u.coin * n))


@pytest.mark.parametrize("n_rungs", [1, 2, 4])
@pytest.mark.parametrize("name", MOVES)
def test_scalar_and_lockstep_move_to_the_same_rung(monkeypatch, name, n_rungs):
    decide_by_given_uniforms(monkeypatch, simulated)
    slow, fast = MOVES[name]
    rng = seeded_rng(f"twins {name}")
    n = 500
    uniforms, energy = rng.random((n, 2)), 3 * rng.standard_normal(n)
    rung, way = rng.integers(n_rungs, size=n), rng.choice([-1, 1], size=n)
    lanes = jax.jit(jax.vmap(lambda *a: fast(*a, path(n_rungs))))
    together = np.stack([np.asarray(a) for a in lanes(uniforms, rung, way, energy)], axis=1)
    k, log_p = LADDER[:n_rungs], LOG_PSEUDO_PRIOR[:n_rungs]
    one_by_one = [slow(Uniforms(*uniforms[i]), int(rung[i]), int(way[i]), energy[i], k, log_p) for i in range(n)]
    np.testing.assert_array_equal(together, one_by_one)


@partial(jax.jit, static_argnames="single")
@partial(jax.vmap, in_axes=(0, 0, None, None))
def swap_ends(xs, rung, parity_or_pair, single):
    """Return the probability of every combination of two pairs' decisions, and the seats after it."""
    energy = jnp.asarray(ENERGY)[xs]

    def swap(uniforms):
        return lockstep.swapped(uniforms, parity_or_pair, rung, energy, jnp.asarray(LADDER[:3]), single=single)

    lower = jnp.argsort(rung)[:2]
    turn = turning_point(lambda u: swap(jnp.append(u, 0.5))[0][lower] == jnp.arange(2) + 1, (2,))
    tried = swap(jnp.full(3, 0.5))[1][lower] == jnp.arange(2) + 1
    turn = jnp.where(tried, turn, 1.0)
    corners = jnp.array(list(product((False, True), repeat=2)))
    uniforms = jnp.where(corners, (1 + turn) / 2, turn / 2)
    seats = jax.vmap(lambda u: swap(jnp.append(u, 0.5))[0])(uniforms)
    return jnp.prod(jnp.where(corners, 1 - turn, turn), axis=1), seats


SEATINGS = [(xs, rung) for xs in product((0, 1), repeat=3) for rung in permutations(range(3))]


@pytest.mark.parametrize(("choice", "single"), [(0, False), (1, False), (0, True), (1, True)])
def test_a_swap_keeps_the_product_law(choice, single):
    """Three rungs: pairs (0, 1) and (1, 2), all seatings of all positions of two points."""
    log_law = {s: sum(LADDER[i] * ENERGY[x] for x, i in zip(*s, strict=True)) for s in SEATINGS}
    xs, rung = (jnp.asarray(column) for column in zip(*SEATINGS, strict=True))
    probability, seats = (np.asarray(a) for a in swap_ends(xs, rung, choice, single))
    moves = {
        state: [(p, (state[0], tuple(end.tolist()))) for p, end in zip(probability[j], seats[j], strict=True)]
        for j, state in enumerate(SEATINGS)
    }
    assert drift(normalised(log_law), moves.__getitem__) < 1e-14
    backwards = normalised({state: -value for state, value in log_law.items()})
    assert drift(backwards, moves.__getitem__) > 1e-3


@pytest.mark.parametrize("m", [1, 2, 6])
@pytest.mark.parametrize("single", [True, False])
def test_scalar_and_lockstep_exchange_the_same_seats(monkeypatch, single, m):
    rng = seeded_rng(f"seats {single} {m}")
    k = np.sort(rng.random(m))[::-1].copy()
    n = 100
    uniforms, energy = rng.random((n, m)), 3 * rng.standard_normal((n, m))
    rung, choice = (
        np.array([rng.permutation(m) for _ in range(n)]),
        rng.integers(max(m - 1, 1) if single else 2, size=n),
    )
    lanes = jax.jit(jax.vmap(lambda u, c, r, e: lockstep.swapped(u, c, r, e, jnp.asarray(k), single=single)))
    new, tried = lanes(uniforms, choice, rung, energy)
    swap = parallel.swap_random if single else parallel.swap_non_reversible
    for i, c in enumerate(choice.tolist()):
        seats, proposed = rung[i].copy(), rung[i].copy()
        levels = iter(uniforms[i, c : c + 1] if single else uniforms[i, c::2])
        monkeypatch.setattr(parallel, "accept", lambda u, r, levels=levels: bool(np.log1p(-next(levels)) < r))
        monkeypatch.setattr(parallel, "choose", lambda u, n, c=c: c)
        swap(None, c, seats, np.argsort(rung[i]), energy[i], k, proposed)
        np.testing.assert_array_equal(new[i], seats)
        np.testing.assert_array_equal(tried[i], proposed)


def test_every_scheme_tries_its_pairs_equally_often():
    """Which pairs a key stands for: each pair once in m - 1, each parity by a fair coin, or in turn."""
    keys = jax.random.split(jax.random.key(int(seeded_rng("pairs").integers(2**31))), 4000)
    energy, k, rung = jnp.zeros(4), jnp.asarray(LADDER), jnp.arange(4)

    def tried(swap, iteration):
        _, proposed = jax.jit(jax.vmap(lambda key: swap(key, iteration, rung, energy, k)))(keys)
        return np.asarray(proposed)[:, :3] == np.arange(3) + 1

    assert_mean_is([1 / 3] * 3, tried(lockstep.SWAPS["random"], 0))
    assert_mean_is([1 / 2] * 3, tried(lockstep.SWAPS["even_odd"], 0))
    assert tried(lockstep.SWAPS["non_reversible"], 6).tolist() == [[True, False, True]] * 4000
    assert tried(lockstep.SWAPS["non_reversible"], 7).tolist() == [[False, True, False]] * 4000


def test_unknown_rung_moves_are_refused_by_name():
    with pytest.raises(SamplerError, match=r"'lifted', 'neighbour'.*but got 'sideways'"):
        lockstep.build_simulated_step(None, None, None, "sideways")
    with pytest.raises(SamplerError, match=r"'even_odd', 'non_reversible', 'random'.*but got 'sideways'"):
        lockstep.build_parallel_step(None, None, None, "sideways")
