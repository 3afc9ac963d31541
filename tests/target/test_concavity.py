"""A proof of concavity: given where it holds, never where it does not."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering import problems
from tempering.target.concavity import bend_of, is_log_concave
from tempering.target.layout import Layout

X = np.array([[1.0, 0.5, -1.0], [1.0, -2.0, 0.3], [1.0, 0.1, 0.2], [1.0, 1.5, 2.0]])
Y, SIGNS = np.array([0.0, 2.0, 1.0, 4.0]), np.array([1.0, -1.0, 1.0, 1.0])


def normal(b):
    return -0.5 * jnp.sum(((b - 1.0) / np.array([1.0, 2.0, 3.0])) ** 2)


def pieces(x, low, middle, high, of=None):
    """Return log(1 + e^x) piece by piece."""
    end = jnp.where(x < high, x + jnp.exp(-x), x if of is None else of)
    return jnp.where(x < low, jnp.exp(x), jnp.where(x < middle, jnp.log1p(jnp.exp(x)), end))


def log_prior(b):
    return normal(b) - np.log(6.0) - 1.5 * np.log(2 * np.pi)


def sample_prior(key):
    return 1.0 + np.array([1.0, 2.0, 3.0]) * jax.random.normal(key, (3,))


CONCAVE = {
    "normal": normal,
    "a bowl by a product": lambda b: -jnp.sum(b * b) - jnp.square(b[1]) - jnp.sum(b**4),
    "a bowl by a product of vectors": lambda b: -0.5 * (b @ b) - (lambda e: e @ e)(X @ b),
    "logistic": lambda b: jnp.sum(jax.nn.log_sigmoid(SIGNS * (X @ b))) + normal(b),
    "logistic by hand": lambda b: -jnp.sum(jnp.log1p(jnp.exp(-SIGNS * (X @ b)))),
    "logistic by two logarithms": lambda b: jnp.sum(jnp.log(jax.nn.sigmoid(X @ b))),
    "Bernoulli": lambda b: jnp.sum(SIGNS * (X @ b) - jax.nn.softplus(X @ b)),
    "Poisson": lambda b: jnp.sum(Y * (X @ b) - jnp.exp(X @ b)),
    "Laplace": lambda b: -jnp.sum(jnp.abs(b - 2.0)) / 3.0,
    "several classes": lambda b: jnp.sum(jax.nn.log_softmax(jnp.outer(X[:, 1], b), axis=1)[np.arange(4), [0, 2, 1, 1]]),
    "probit": lambda b: jnp.sum(jax.scipy.special.log_ndtr(SIGNS * (X @ b))),
    "normal distribution function": lambda b: jnp.sum(jax.scipy.stats.norm.logcdf(X @ b, 0.5, 2.0)),
    "a soft plus by its tail": lambda b: -jnp.sum((lambda e: jnp.clip(e, 0) + jnp.log1p(jnp.exp(-jnp.abs(e))))(X @ b)),
    "a soft plus by pieces": lambda b: -jnp.sum(pieces(X @ b, -37.0, 18.0, 33.3)),
    "numbers that are looked at": lambda b: jnp.where(jnp.isfinite(b), -(b**2), b**2).sum(),
    "a probability that is looked at": lambda b: jnp.where(jnp.all(jax.nn.sigmoid(b) <= 1.0), jnp.sum(b), -jnp.inf),
    "a rate that is looked at": lambda b: jnp.sum(jnp.where(jnp.exp(b) == 0.0, jnp.inf, Y[:3] * b - jnp.exp(b))),
    "a logarithm of a rate": lambda b: jnp.sum(jax.scipy.special.xlogy(Y, jnp.exp(X @ b)) - jnp.exp(X @ b)),
    "sum of exponentials": lambda b: b[0] - jnp.log(2.0 * jnp.exp(b[0]) + jnp.exp(b[1] - b[2]) + 0.3),
    "Gumbel": lambda b: jnp.sum(-b - jnp.exp(-b)),
    "flat": lambda b: jnp.zeros(()),
    "pieces": lambda b: -jnp.max(jnp.concatenate([b, 2 * b])) + jnp.min(3 * b),
    "by index": lambda b: -jnp.sum((Y - b[np.array([0, 1, 1, 2])]) ** 2),
    "exponential of a bowl": lambda b: -jnp.exp(jnp.sum(b**2)),
    "by a constant condition": lambda b: jnp.where(Y[:3] > 0.5, -(b**2), -jnp.exp(b)).sum(),
}
OTHERS = {
    "two modes": lambda b: jnp.logaddexp(-jnp.sum(b**2), -jnp.sum((b - 5.0) ** 2)),
    "two modes by hand": lambda b: jnp.log(jnp.exp(-jnp.sum(b**2)) + jnp.exp(-jnp.sum((b - 5.0) ** 2))),
    "two modes by logsumexp": lambda b: jax.nn.logsumexp(jnp.stack([-jnp.sum(b**2), -jnp.sum((b - 5.0) ** 2)])),
    "Cauchy": lambda b: -jnp.sum(jnp.log1p(b**2)),
    "a well between": lambda b: jnp.sum(b**2 - b**4),
    "a difference": lambda b: -((b[0] ** 2 - b[1]) ** 2) - jnp.sum(b**2),
    "a scale": lambda b: -0.5 * jnp.sum(((Y - b[0]) * jnp.exp(-b[1])) ** 2) - 4 * b[1] - b[2] ** 2,
    "convex": lambda b: jnp.sum(b**2),
    "a product": lambda b: b[0] * b[1] - jnp.sum(jnp.abs(b)),
    "a wave": lambda b: jnp.cos(b[0]) - jnp.sum(b**2),
    "classes of a bowl": lambda b: jnp.sum(jax.nn.log_softmax(b**2)),
    "classes, the other way": lambda b: -jnp.sum(jax.nn.log_softmax(b)),
    "distribution function of a bowl": lambda b: jnp.sum(jax.scipy.special.log_ndtr(b**2)),
    "a tail of others": lambda b: -jnp.sum(jnp.maximum(b, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(b[::-1])))),
    "a tail of more": lambda b: -jnp.sum(jnp.maximum(b, 1.0) + jnp.log1p(jnp.exp(-jnp.abs(b)))),
    "pieces that end too soon": lambda b: -jnp.sum(pieces(b, -37.0, 5.0, 33.3)),
    "pieces that begin too late": lambda b: -jnp.sum(pieces(b, -1.0, 18.0, 33.3)),
    "pieces of others": lambda b: -jnp.sum(pieces(b, -37.0, 18.0, 33.3, b[::-1])),
    "a condition on a probability": lambda b: jnp.where(jax.nn.sigmoid(b) <= 0.5, -(b**2), -b).sum(),
    "a condition on a rate": lambda b: jnp.where(jnp.exp(b) >= 1.0, -(b**2), -jnp.exp(b)).sum(),
    "a cube": lambda b: jnp.sum(b**3),
    "mixed signs": lambda b: jnp.sum(SIGNS * b[0] ** 2),
    "by a condition": lambda b: jnp.where(b[0] > 0, -jnp.sum((b - 3) ** 2), -jnp.sum((b + 3) ** 2)),
    "a logarithm of a bowl": lambda b: -jnp.log(1.0 + jnp.sum(b**2)),
    "an exponential of a hill": lambda b: jnp.exp(-jnp.sum(b**2)),
    "a sum of hills": lambda b: jnp.log(jax.nn.sigmoid(b[0]) + jax.nn.sigmoid(-3.0 * b[0])) - jnp.sum(b**2) / 100,
    "a product with hills": lambda b: jnp.log(np.ones(3) @ jax.nn.sigmoid(np.array([3.0, -3.0, 1.0]) * b[0])),
    "a product of hills": lambda b: jnp.log(jax.nn.sigmoid(b) @ jax.nn.sigmoid(-2 * b)),
    "a square of hills": lambda b: jnp.log((lambda e: e @ e)(jax.nn.sigmoid(np.array([3.0, -3.0, 0.0]) * b[0]))),
    "all products of two": lambda b: (
        -jnp.sum(jnp.tensordot(b, b, axes=0) * np.array([[0.0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    ),
    "a product of matrices": lambda b: -jnp.sum((b[:, None] * X[:3]) @ (b[:, None] * X[:3])),
    "whole numbers": lambda b: -jnp.sum(b.astype(int).astype(float) ** 2),
    "steps": lambda b: -jnp.sum(jnp.floor(b) ** 2),
    "a condition as a number": lambda b: -jnp.sum((b > 1.0).astype(float)),
    "a loop": lambda b: jax.lax.fori_loop(0, 3, lambda i, x: x - b[i] ** 2, 0.0),
    "a square of a wave": lambda b: -((jnp.sum(b**2) - 3.0) ** 2),
}


def traced(function):
    with jax.enable_x64(True):
        return jax.make_jaxpr(function)(np.zeros(3))


@pytest.mark.parametrize("name", CONCAVE)
def test_concave_ones_are_proven_and_are_concave(name):
    assert bend_of(traced(CONCAVE[name])) in ("concave", "affine", "constant")
    a, b = seeded_rng(name).normal(0, 2, (2, 200, 3))
    with jax.enable_x64(True):
        f = jax.vmap(CONCAVE[name])
        ends, between = [np.asarray(f(x)) for x in (a, b)], np.asarray(f(0.3 * a + 0.7 * b))
    assert np.all(between >= 0.3 * ends[0] + 0.7 * ends[1] - 1e-9 * (1.0 + np.abs(ends[0]) + np.abs(ends[1])))


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not(name):
    assert bend_of(traced(OTHERS[name])) not in ("concave", "affine", "constant")


def test_no_target_of_several_modes_is_proven_to_be_concave():
    for name, known in problems.suite().items():
        layout = Layout.of(known.initial)
        if is_log_concave(known.target(), layout):
            assert known.modes is None, name


def test_prior_and_likelihood_both_count():
    layout = Layout.of(np.zeros(3))
    two = OTHERS["two modes"]
    for likelihood, prior, expected in ((normal, normal, True), (two, normal, False), (normal, two, False)):
        target = tp.Target.from_likelihood(likelihood, prior, lambda key: jax.random.normal(key, (3,)))
        assert is_log_concave(target, layout) is expected
    assert not is_log_concave(tp.Target(lambda x: -float(np.sum(x**2))), layout)


def test_the_verdict_asks_for_round_trips_unless_there_is_one_mode():
    target = tp.Target.from_likelihood(CONCAVE["logistic by hand"], lambda b: log_prior(b) - 1.0, sample_prior)
    run = tp.sample(target, draws=40, chains=8, rng=1, progress=False)
    assert len(run.path.legs[0].ladder) > 1  # to the prior: its constant is not known
    assert run.n_round_trips < 20
    assert run.info.share_of_search < 0.01  # one climb, to the summit
    found = run.diagnose()
    assert found.is_log_concave
    assert not any("safe end" in sentence for sentence in found.sentences)
    unknown = replace(run, info=replace(run.info, is_log_concave=False)).diagnose()
    assert any("safe end" in sentence for sentence in unknown.sentences)
    assert str(replace(found, is_good=True, sentences=())).startswith("The run looks sound: the log density is concave")
    assert str(replace(unknown, is_good=True, sentences=())) == "The run looks sound."
