"""What is looked at before a run: a prior and its sampler that agree, and the split of two Stan models."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tempering as tp
from tempering.target.checks import check_target


def normal(x):
    return -0.5 * jnp.sum(x**2)


def said_of(log_prior, sample_prior):
    target = tp.Target.from_likelihood(normal, log_prior, sample_prior)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_target(target, ())
    return [str(w.message) for w in said]


AGREEING = {
    "jax": (normal, lambda key: jax.random.normal(key, (2,))),
    "numpy": (lambda x: float(-0.5 * np.sum(np.asarray(x) ** 2)), lambda rng: rng.standard_normal(2)),
    "bounded": (
        lambda x: jnp.where(jnp.all(abs(x) < 1), 0.0, -jnp.inf),
        lambda key: jax.random.uniform(key, (2,), minval=-1),
    ),
    "heavy": (lambda x: -jnp.sum(jnp.log1p(x**2)), lambda key: jax.random.cauchy(key, (2,))),
}
CONTRADICTING = {
    "wider": (normal, lambda key: 3.0 * jax.random.normal(key, (2,))),
    "narrower": (normal, lambda key: 0.4 * jax.random.normal(key, (2,))),
    "elsewhere": (normal, lambda key: 1.0 + jax.random.normal(key, (2,))),
    "outside": (lambda x: jnp.where(jnp.all(x > 0), -jnp.sum(x), -jnp.inf), lambda key: jax.random.normal(key, (2,))),
    "of numpy": (lambda x: float(-0.5 * np.sum(np.asarray(x) ** 2)), lambda rng: 3 * rng.standard_normal(2)),
}


@pytest.mark.parametrize("name", AGREEING)
def test_a_sampler_that_draws_from_the_prior_is_taken_in_silence(name):
    assert said_of(*AGREEING[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTRADICTING)
def test_a_sampler_that_contradicts_the_prior_is_warned_of(name):
    (said,) = said_of(*CONTRADICTING[name])
    assert said.startswith("sample_prior must draw from log_prior, but")


class Stan:
    """mu ~ normal(0, 2), and y ~ normal(mu, 1) if there are data, as BridgeStan shows it."""

    def __init__(self, y=()):
        self.y = np.asarray(y, dtype=float)

    def param_unc_names(self):
        return ["mu"]

    param_names = lambda self, **_: ["mu"]  # noqa: E731

    def param_constrain(self, x, **_):
        return np.asarray(x)

    def log_density(self, x, *, propto=True, jacobian=True):
        assert not propto
        return float(stats.norm.logpdf(x[0], 0, 2) + stats.norm.logpdf(self.y, x[0], 1).sum())

    def log_density_gradient(self, x, *, propto=True, jacobian=True):
        return self.log_density(x, propto=propto), np.array([-x[0] / 4 + np.sum(self.y - x[0])])


def test_two_stan_models_give_prior_and_likelihood():
    y = np.array([1.0, 2.5])
    target = tp.Target.from_stan(Stan(y), Stan())
    x = np.array([0.3])
    assert float(target.energy(x)) == pytest.approx(stats.norm.logpdf(y, 0.3, 1).sum())
    assert float(target.base(x)) == pytest.approx(stats.norm.logpdf(0.3, 0, 2))
    _value, slope = target.energy.log_density_gradient(x)
    assert slope[0] == pytest.approx(np.sum(y - 0.3))
    run = tp.sample(
        target, initial=x, ladder=[1.0, 0.3, 0.0], draws=400, tuning=tp.Tuning(320), chains=2, rng=1, progress=False
    )
    found = run.log_evidence()
    exact = stats.multivariate_normal(np.zeros(2), np.eye(2) + 4.0).logpdf(y)
    assert found.is_absolute
    assert abs(found.value - exact) < 6 * found.standard_error < 1.0
