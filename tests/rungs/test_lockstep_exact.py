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
from enumeration import LADDER, LINES, POWERS, TWO_LEGS, drift, normalised

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


def padded(line):
    """Return a line in longer arrays, as the vector engine pads them: rungs beyond the last must not be used."""

    def longer(a):
        return jnp.concatenate([jnp.asarray(a), jnp.full((3, *a.shape[1:]), jnp.nan)])

    sources = jnp.full(len(line) + 3, -1)
    return lockstep.Line(longer(line.coefficients), sources, longer(line.log_pseudo_prior), (), jnp.asarray(len(line)))


def turning_point(accepted, shape):
    """Return the uniform above which ``accepted`` turns true: acceptance is log(1 - u) < log ratio."""

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        yes = accepted(middle)
        return jnp.where(yes, low, middle), jnp.where(yes, middle, high)

    _, high = jax.lax.fori_loop(0, 60, halve, (jnp.zeros(shape), jnp.ones(shape)))
    return jnp.where(accepted(jnp.full(shape, 1e-300)), 0.0, high)


def rung_transitions(move, line):
    """Return {(x, rung, direction): [(probability, state)]} of a lockstep rung move."""
    states = list(product(range(len(line.terms)), range(len(line)), (-1, 1)))

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, 0, None))
    def ends(rung, way, terms, coin):
        def run(u):
            return move(jnp.stack([coin, u]), rung, way, terms, padded(line))

        def accepted(u):
            new, _, proposed = run(u)
            return (new == proposed) & (proposed != rung)

        turn = turning_point(accepted, ())
        return turn, run(turn / 2)[:2], run((1 + turn) / 2)[:2]

    x, rung, way = (jnp.asarray(column) for column in zip(*states, strict=True))
    moves = {state: [] for state in states}
    for coin in (0.25, 0.75):
        turn, below, above = jax.tree.map(np.asarray, ends(rung, way, jnp.asarray(line.terms)[x], coin))
        for j, state in enumerate(states):
            for p, end in ((turn[j], below), (1 - turn[j], above)):
                moves[state].append((p / 2, (state[0], int(end[0][j]), int(end[1][j]))))
    return moves


def law_of(line):
    return normalised(
        {
            (x, i, way): line.log_density(i, x) + line.log_pseudo_prior[i]
            for x, i, way in product(range(len(line.terms)), range(len(line)), (-1, 1))
        }
    )


SIZES = [("powers", 1), ("powers", 2), ("powers", 4), ("two legs", 6)]


def drift_of(move, line=POWERS):
    return drift(law_of(line), rung_transitions(move, line).__getitem__)


@pytest.mark.parametrize(("path", "n_rungs"), SIZES)
@pytest.mark.parametrize("name", MOVES)
def test_a_rung_move_keeps_the_joint_law(name, path, n_rungs):
    assert drift_of(MOVES[name][1], LINES[path].first(n_rungs)) < 1e-15


@pytest.mark.parametrize("term", [0, 1, 2])
def test_control_a_coefficient_of_the_wrong_sign_is_seen(term):
    sign = np.where(np.arange(3) == term, -1.0, 1.0)

    def contrary(uniforms, rung, direction, terms, line):
        changed = line._replace(coefficients=sign * line.coefficients)
        return lockstep.move_lifted(uniforms, rung, direction, terms, changed)

    assert drift_of(contrary, TWO_LEGS) > 1e-3


def test_control_forgetting_the_asymmetry_at_the_ends_is_seen(monkeypatch):
    propose = lockstep.rung_proposal
    monkeypatch.setattr(lockstep, "rung_proposal", lambda *a: (propose(*a)[0], 0.0))
    assert drift_of(lockstep.move_to_neighbour) > 1e-3


def test_control_a_direction_that_does_not_turn_is_seen():
    def straight_on(uniforms, rung, direction, *rest):
        rung, _, proposed = lockstep.move_lifted(uniforms, rung, direction, *rest)
        return rung, direction, proposed

    assert drift_of(straight_on) > 1e-3


class Uniforms:
    """What the scalar functions see in place of a generator: a coin, and a number to accept by."""

    def __init__(self, coin, level):
        self.coin, self.level = coin, level


def decide_by_given_uniforms(monkeypatch, module):
    monkeypatch.setattr(module, "accept", lambda u, log_ratio: bool(np.log1p(-u.level) < log_ratio))
    monkeypatch.setattr(module, "choose", lambda u, n: int(u.coin * n))


@pytest.mark.parametrize(("path", "n_rungs"), SIZES)
@pytest.mark.parametrize("name", MOVES)
def test_scalar_and_lockstep_move_to_the_same_rung(monkeypatch, name, path, n_rungs):
    decide_by_given_uniforms(monkeypatch, simulated)
    slow, fast = MOVES[name]
    rng, line = seeded_rng(f"twins {name}"), LINES[path].first(n_rungs)
    n = 500
    uniforms, terms = rng.random((n, 2)), 3 * rng.standard_normal((n, line.terms.shape[1]))
    terms[::50, 0] = -np.inf  # outside the support of the first term
    rung, way = rng.integers(n_rungs, size=n), rng.choice([-1, 1], size=n)
    lanes = jax.jit(jax.vmap(lambda *a: fast(*a, padded(line))))
    together = np.stack([np.asarray(a) for a in lanes(uniforms, rung, way, terms)], axis=1)
    c, log_p = line.coefficients, line.log_pseudo_prior
    one_by_one = [slow(Uniforms(*uniforms[i]), int(rung[i]), int(way[i]), terms[i], c, log_p) for i in range(n)]
    np.testing.assert_array_equal(together, one_by_one)


@partial(jax.jit, static_argnames="single")
@partial(jax.vmap, in_axes=(0, 0, None, None, None, None))
def swap_ends(xs, rung, parity_or_pair, coefficients, terms, single):
    """Return the probability of every combination of two pairs' decisions, and the seats after it."""

    def swap(uniforms):
        return lockstep.swapped(uniforms, parity_or_pair, rung, terms[xs], coefficients, single=single)

    lower = jnp.argsort(rung)[:2]
    turn = turning_point(lambda u: swap(jnp.append(u, 0.5))[0][lower] == jnp.arange(2) + 1, (2,))
    tried = swap(jnp.full(3, 0.5))[1][lower] == jnp.arange(2) + 1
    turn = jnp.where(tried, turn, 1.0)
    corners = jnp.array(list(product((False, True), repeat=2)))
    uniforms = jnp.where(corners, (1 + turn) / 2, turn / 2)
    seats = jax.vmap(lambda u: swap(jnp.append(u, 0.5))[0])(uniforms)
    return jnp.prod(jnp.where(corners, 1 - turn, turn), axis=1), seats


SEATINGS = [(xs, rung) for xs in product((0, 1), repeat=3) for rung in permutations(range(3))]


@pytest.mark.parametrize("path", LINES)
@pytest.mark.parametrize(("choice", "single"), [(0, False), (1, False), (0, True), (1, True)])
def test_a_swap_keeps_the_product_law(choice, single, path):
    """Three rungs, of both legs if there are two: pairs (0, 1) and (1, 2), all seatings, positions of two points."""
    line, kept = LINES[path], [0, 1, 2] if path == "powers" else [0, 2, 4]
    log_law = {s: sum(line.log_density(kept[i], x) for x, i in zip(*s, strict=True)) for s in SEATINGS}
    xs, rung = (jnp.asarray(column) for column in zip(*SEATINGS, strict=True))
    arrays = (jnp.asarray(line.coefficients[kept]), jnp.asarray(line.terms))
    probability, seats = (np.asarray(a) for a in swap_ends(xs, rung, choice, *arrays, single))
    moves = {
        state: [(p, (state[0], tuple(end.tolist()))) for p, end in zip(probability[j], seats[j], strict=True)]
        for j, state in enumerate(SEATINGS)
    }
    assert drift(normalised(log_law), moves.__getitem__) < 1e-15
    backwards = normalised({state: -value for state, value in log_law.items()})
    assert drift(backwards, moves.__getitem__) > 1e-3


@pytest.mark.parametrize("n_terms", [1, 3])
@pytest.mark.parametrize("m", [1, 2, 6])
@pytest.mark.parametrize("single", [True, False])
def test_scalar_and_lockstep_exchange_the_same_seats(monkeypatch, single, m, n_terms):
    rng = seeded_rng(f"seats {single} {m} {n_terms}")
    c_by_rung = rng.random((m, n_terms))
    n = 100
    uniforms, terms = rng.random((n, m)), 3 * rng.standard_normal((n, m, n_terms))
    rung, choice = (
        np.array([rng.permutation(m) for _ in range(n)]),
        rng.integers(max(m - 1, 1) if single else 2, size=n),
    )
    lanes = jax.jit(jax.vmap(lambda u, c, r, t: lockstep.swapped(u, c, r, t, jnp.asarray(c_by_rung), single=single)))
    new, tried = lanes(uniforms, choice, rung, terms)
    swap = parallel.swap_random if single else parallel.swap_non_reversible
    for i, c in enumerate(choice.tolist()):
        seats, proposed = rung[i].copy(), rung[i].copy()
        levels = iter(uniforms[i, c : c + 1] if single else uniforms[i, c::2])
        monkeypatch.setattr(parallel, "accept", lambda u, r, levels=levels: bool(np.log1p(-next(levels)) < r))
        monkeypatch.setattr(parallel, "choose", lambda u, n, c=c: c)
        swap(None, c, seats, np.argsort(rung[i]), terms[i], c_by_rung, proposed)
        np.testing.assert_array_equal(new[i], seats)
        np.testing.assert_array_equal(tried[i], proposed)


@pytest.mark.slow
def test_every_scheme_tries_its_pairs_equally_often():
    """Which pairs a key stands for: each pair once in m - 1, each parity by a fair coin, or in turn."""
    keys = jax.random.split(jax.random.key(int(seeded_rng("pairs").integers(2**31))), 4000)
    terms, c_by_rung, rung = jnp.zeros((4, 1)), jnp.asarray(LADDER)[:, None], jnp.arange(4)

    def tried(swap, iteration):
        _, proposed = jax.jit(jax.vmap(lambda key: swap(key, iteration, rung, terms, c_by_rung)))(keys)
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
