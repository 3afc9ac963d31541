"""Random programs: what is proven to be concave lies above its chords, and affine ones on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statistical import seeded_rng
from tempering.target import concavity

N_PROGRAMS, N_CHORDS, DEEPEST = 2000, 60, 5


def soft_plus_by_tail(places):
    """Return log(1 + e^v) as NumPyro writes it, or something alike: the tail of other coordinates."""
    return lambda v: jnp.maximum(v, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(v[places] if places[0] else v)))


def soft_plus_by_pieces(low, high):
    """Return log(1 + e^v) as PyTensor writes it, or with pieces that end too soon."""
    return lambda v: jnp.where(
        v < low, jnp.exp(v), jnp.where(v < high, jnp.log1p(jnp.exp(v)), jnp.where(v < 33.3, v + jnp.exp(-v), v))
    )


def of_one(rng):
    """Return operations on a vector of three numbers, with constants drawn."""
    matrix, c = rng.normal(size=(3, 3)), rng.normal(size=3)
    p, chosen, places = np.abs(c), rng.random(3) < 0.5, rng.integers(0, 3, 3)
    to_one = [jnp.sum, jnp.max, jax.nn.logsumexp, lambda v: v @ v, lambda v: jnp.log(jnp.sum(p * jnp.exp(v)))]
    return [
        jnp.negative, lambda v: matrix @ v, lambda v: np.abs(matrix) @ v, lambda v: c * v, lambda v: p * v,
        lambda v: v + c, lambda v: v / (p + 0.1), jnp.exp, jnp.log, jnp.log1p, jnp.abs, jnp.square, lambda v: v * v,
        lambda v: v**3, lambda v: v**4, lambda v: v**-2, lambda v: 1 / v, lambda v: jnp.maximum(v, c),
        lambda v: jnp.minimum(v, c), jax.nn.softplus, jax.nn.sigmoid, jax.nn.log_sigmoid, jnp.sqrt, jnp.tanh,
        jnp.cumsum, jnp.sort, jnp.sign, lambda v: v[places], lambda v: jnp.where(chosen, v, c),
        lambda v: jnp.where(v > 0, v, c), lambda v: jnp.where(jnp.isfinite(v), v, v**2), soft_plus_by_tail(places),
        soft_plus_by_pieces(rng.choice([-37.0, -2.0]), rng.choice([18.0, 1.0])), jax.nn.log_softmax,
        lambda v: jnp.where(jax.nn.sigmoid(v) <= 1.0, v, v**2), lambda v: jnp.where(jnp.exp(v) == 0.0, v**2, v),
        lambda v: jnp.log(jnp.exp(v)), jax.scipy.special.log_ndtr, lambda v: jax.scipy.special.xlogy(p, v),
        lambda v: jnp.tensordot(v, v, axes=0)[places[0]],
        *(lambda v, f=f: f(v) * jnp.ones(3) for f in to_one),
    ]  # fmt: skip


OF_TWO = (
    jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.logaddexp, jnp.maximum, jnp.minimum,
    lambda v, w: (v @ w) * jnp.ones(3), lambda v, w: jnp.concatenate([v, w])[1:4],
    lambda v, w: jnp.where(np.array([True, False, True]), v, w),
)  # fmt: skip


def program(rng, depth):
    """Return a random function of a vector."""
    if depth == 0:
        return lambda x: x
    first = program(rng, depth - 1)
    if rng.random() < 0.7:
        of = of_one(rng)
        f = of[rng.integers(len(of))]
        return lambda x: f(first(x))
    second, g = program(rng, int(rng.integers(depth))), OF_TWO[rng.integers(len(OF_TWO))]
    return lambda x: g(first(x), second(x))


def proofs(name):
    """Return how many random programs are proven to be concave, and how many of these are not."""
    rng = seeded_rng(name)
    a, b = rng.normal(0, 1.5, (2, N_CHORDS, 3))
    share = rng.random((N_CHORDS, 1))
    n_proven = n_wrong = 0
    with jax.enable_x64(True), np.errstate(all="ignore"):
        for _ in range(N_PROGRAMS):
            inner, sign = program(rng, int(rng.integers(1, DEEPEST + 1))), rng.choice([-1.0, 1.0])

            def f(x, inner=inner, sign=sign):
                return sign * jnp.sum(inner(x))

            bend = concavity.bend_of(jax.make_jaxpr(f)(np.zeros(3)))
            if bend not in ("concave", "affine"):
                continue
            at_a, at_b, between = (np.asarray(jax.vmap(f)(x)) for x in (a, b, share * a + (1 - share) * b))
            above = between - share[:, 0] * at_a - (1 - share[:, 0]) * at_b
            slack = 1e-8 * (1.0 + np.abs(at_a) + np.abs(at_b))
            holds = (above >= -slack) & ((bend == "concave") | (above <= slack))
            n_proven, n_wrong = n_proven + 1, n_wrong + np.any(np.isfinite(at_a + at_b) & ~holds)
    return n_proven, n_wrong


@pytest.mark.slow
def test_what_is_proven_to_be_concave_is():
    n_proven, n_wrong = proofs("programs")
    assert n_proven > 200
    assert n_wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "broken"),
    [("_is_by_place", lambda equation: True), ("RULES", concavity.RULES | {"tanh": lambda part: part})],
)
def test_control_a_rule_that_does_not_hold_is_seen(monkeypatch, name, broken):
    monkeypatch.setattr(concavity, name, broken)
    assert proofs("programs")[1] > 0
