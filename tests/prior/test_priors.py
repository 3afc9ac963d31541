"""Priors by name: densities against SciPy's, Jacobians against integrals, draws against the law, on NumPy and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import tempering as tp
from seeds import shifted
from statistical import FALSE_ALARM_RATE, seeded_rng
from tempering.errors import TargetError
from tempering.prior import joint_prior
from tempering.prior.bijections import Circle
from tempering.target.starting import starting_points

PRIORS = {
    "normal": (tp.prior.Normal(1.0, 2.0), stats.norm(1.0, 2.0)),
    "student": (tp.prior.StudentT(3.0, 1.0, 2.0), stats.t(3.0, 1.0, 2.0)),
    "cauchy": (tp.prior.Cauchy(1.0, 2.0), stats.cauchy(1.0, 2.0)),
    "uniform": (tp.prior.Uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "half normal": (tp.prior.HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    "half cauchy": (tp.prior.HalfCauchy(2.0), stats.halfcauchy(scale=2.0)),
    "log normal": (tp.prior.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    "gamma": (tp.prior.Gamma(0.4, 2.0), stats.gamma(0.4, scale=0.5)),
    "inverse gamma": (tp.prior.InverseGamma(3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
    "exponential": (tp.prior.Exponential(2.0), stats.expon(scale=0.5)),
    "log uniform": (tp.prior.LogUniform(0.1, 10.0), stats.loguniform(0.1, 10.0)),
    "beta": (tp.prior.Beta(0.5, 2.0, -1.0, 3.0), stats.beta(0.5, 2.0, -1.0, 4.0)),
    "truncated": (tp.prior.TruncatedNormal(0.0, 1.0, 2.0, 5.0), stats.truncnorm(2.0, 5.0)),
    "weibull of scipy": (joint_prior({"x": stats.weibull_min(1.7)}).parts["x"], stats.weibull_min(1.7)),
}
OF_JAX = [name for name in PRIORS if "scipy" not in name]


@pytest.mark.parametrize("name", PRIORS)
def test_densities_are_those_of_scipy(name):
    prior, exact = PRIORS[name]
    for x in exact.ppf([0.01, 0.3, 0.9]):
        assert float(prior.log_density(np.asarray(x))) == pytest.approx(float(exact.logpdf(x)), rel=1e-10)


@pytest.mark.parametrize("name", PRIORS)
def test_free_numbers_have_a_density_that_integrates_to_one(name):
    prior, _ = PRIORS[name]
    with np.errstate(all="ignore"):
        mass, _ = integrate.quad(
            lambda u: np.exp(prior.log_density_free(np.asarray(u))), -300, 300, limit=500, points=[0]
        )
    heavy = {"student", "cauchy"}  # which have something beyond 300
    assert mass == pytest.approx(1.0, abs=1e-6 if name not in heavy else 0.01)


def test_control_a_forgotten_jacobian_is_seen():
    prior = tp.prior.HalfNormal(2.0)
    mass, _ = integrate.quad(lambda u: np.exp(prior.log_density(np.exp(np.asarray(u)))), -50, 10, limit=500)
    assert abs(mass - 1.0) > 1.0


@pytest.mark.parametrize("name", PRIORS)
def test_draws_have_the_law(name):
    prior, exact = PRIORS[name]
    rng = seeded_rng(f"draws {name}")
    draws = [float(prior.bijection.forward(np.asarray(prior.sample_free(rng)))) for _ in range(2000)]
    assert stats.kstest(draws, exact.cdf).pvalue > FALSE_ALARM_RATE / 2
    assert stats.kstest([float(prior.sample(rng)) for _ in range(1000)], exact.cdf).pvalue > FALSE_ALARM_RATE / 2
    assert (
        stats.kstest(draws, lambda x: exact.cdf(x + 0.3 * (exact.ppf(0.75) - exact.ppf(0.25)))).pvalue < 1e-6
    )  # control


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_JAX)
def test_jax_gives_the_same(name):
    prior, exact = PRIORS[name]
    with jax.enable_x64(True):
        for u in (-3.0, 0.2, 2.5):
            own, theirs = prior.log_density_free(np.asarray(u)), prior.log_density_free(jnp.asarray(u))
            assert float(own) == pytest.approx(float(theirs), rel=1e-10)
        keys = jax.random.split(jax.random.key(shifted(7)), 2000)
        draws = jax.vmap(lambda key: prior.bijection.forward(prior.sample_free(key)))(keys)
    assert stats.kstest(np.asarray(draws), exact.cdf).pvalue > FALSE_ALARM_RATE


def test_a_simplex_has_the_law_of_dirichlet():
    prior = tp.prior.Dirichlet([0.5, 2.0, 3.0])
    rng = seeded_rng("dirichlet")
    draws = np.array([prior.bijection.forward(prior.sample_free(rng)) for _ in range(2000)])
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-12)
    assert stats.kstest(draws[:, 0], stats.beta(0.5, 5.0).cdf).pvalue > FALSE_ALARM_RATE
    x = np.array([0.2, 0.5, 0.3])
    assert float(prior.log_density(x)) == pytest.approx(stats.dirichlet([0.5, 2.0, 3.0]).logpdf(x), rel=1e-12)
    free = prior.bijection.inverse(x)
    jacobian = np.array(
        [(prior.bijection.forward(free + e) - prior.bijection.forward(free - e))[:2] / 2e-6 for e in 1e-6 * np.eye(2)]
    )
    assert float(prior.bijection.log_jacobian(free)) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)


def test_a_circle_has_no_edge_and_a_density_of_one():
    circle = Circle(0.0, 1.0)
    below, above = circle.inverse(np.asarray(1 - 1e-9)), circle.inverse(np.asarray(1e-9))
    assert np.max(np.abs(below - above)) < 1e-7
    np.testing.assert_allclose(circle.forward(circle.inverse(np.array([0.1, 0.6, 0.9]))), [0.1, 0.6, 0.9], rtol=1e-12)
    for prior in (tp.prior.Uniform(0.0, 5.0, periodic=True), tp.prior.VonMises(1.0, 2.0)):

        def density(r, angle, prior=prior):
            return r * np.exp(prior.log_density_free(r * np.array([np.cos(angle), np.sin(angle)])))

        mass, _ = integrate.dblquad(density, 0, 2 * np.pi, 1e-6, 4.0, epsabs=1e-7)
        assert mass == pytest.approx(1.0, abs=1e-5)
    rng = seeded_rng("von mises")
    prior = tp.prior.VonMises(1.0, 2.0)
    draws = [float(prior.bijection.forward(prior.sample_free(rng))) for _ in range(1000)]
    assert stats.kstest(draws, lambda x: _turned(x)).pvalue > FALSE_ALARM_RATE


def _turned(x):
    """The distribution function of a von Mises number around 1 on [-pi, pi)."""
    law = stats.vonmises(2.0, loc=1.0)
    return law.cdf(x) - law.cdf(-np.pi)


def test_a_normal_vector_has_its_covariance():
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    prior = tp.prior.MultivariateNormal([1.0, -1.0], covariance)
    x = np.array([0.3, 0.4])
    exact = stats.multivariate_normal([1.0, -1.0], covariance)
    assert float(prior.log_density(x)) == pytest.approx(exact.logpdf(x), rel=1e-12)
    draws = np.array([prior.sample(np.random.default_rng(i)) for i in range(4000)])
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.25)


def test_values_go_to_free_numbers_and_back():
    prior = joint_prior(
        {"a": tp.prior.Uniform(0, 2), "b": tp.prior.Normal(0, 1, shape=3), "w": tp.prior.Dirichlet([1, 1])}
    )
    values = {"a": 0.5, "b": np.array([1.0, 2.0, 3.0]), "w": np.array([0.3, 0.7])}
    again = prior.values(prior.unconstrain(values))
    for name, value in values.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-12)
    vector = joint_prior([tp.prior.Uniform(0, 2), tp.prior.Uniform(0, 1, periodic=True), tp.prior.Normal()])
    np.testing.assert_allclose(vector.values(vector.unconstrain([0.5, 0.25, 3.0])), [0.5, 0.25, 3.0], rtol=1e-12)
    stacked = vector.values(np.tile(vector.unconstrain([0.5, 0.25, 3.0]), (2, 5, 1)))
    np.testing.assert_allclose(stacked, np.tile([0.5, 0.25, 3.0], (2, 5, 1)), rtol=1e-12)


SETTINGS = {
    "ladder": [1.0, 0.4, 0.1, 0.0],
    "draws": 600,
    "tuning": tp.Tuning(320),
    "chains": 8,
    "rng": 5,
    "progress": False,
}


def log_evidence_of_box():
    """A normal likelihood inside a box, times a cosine on a circle."""
    from scipy.special import i0

    return np.log(0.1 * np.sqrt(2 * np.pi) * (stats.norm.cdf(7) - stats.norm.cdf(-3)) * i0(3.0))


def check_box(run):
    found = run.log_evidence()
    assert found.is_absolute
    gap = abs(found.value - log_evidence_of_box()) / found.standard_error
    assert gap < 6, f"log evidence {found.value}, {gap:.1f} standard errors off"
    side = run.expect(lambda a, phi: np.cos(phi))
    from scipy.special import i0, i1

    assert abs(side.value - i1(3.0) / i0(3.0)) < 6 * side.standard_error < 0.3


@pytest.mark.long
def test_a_likelihood_and_a_dictionary_are_enough():
    target = tp.Target.from_likelihood(
        lambda a, phi: -0.5 * ((a - 0.3) / 0.1) ** 2 + 3 * jnp.cos(phi),
        {"a": stats.uniform(0, 1), "phi": tp.prior.Uniform(0, 2 * np.pi, periodic=True)},
    )
    run = tp.sample(target, **SETTINGS)
    assert set(run.values) == {"a", "phi"}
    assert np.all((run.values["phi"] >= 0) & (run.values["phi"] <= 2 * np.pi))
    check_box(run)


@pytest.mark.long
def test_control_a_prior_of_twice_the_width_is_seen():
    target = tp.Target.from_likelihood(
        lambda a, phi: -0.5 * ((a - 0.3) / 0.1) ** 2 + 3 * jnp.cos(phi),
        {"a": stats.uniform(0, 2), "phi": tp.prior.Uniform(0, 2 * np.pi, periodic=True)},
    )
    with pytest.raises(AssertionError, match="standard errors off"):
        check_box(tp.sample(target, **SETTINGS))


@pytest.mark.long
def test_numpy_likelihoods_and_unit_cubes_give_the_same_evidence():
    priors = {"a": stats.uniform(0, 1), "phi": tp.prior.Uniform(0, 2 * np.pi, periodic=True)}
    plain = tp.Target.from_likelihood(
        lambda values: -0.5 * ((values["a"] - 0.3) / 0.1) ** 2 + 3 * float(np.cos(values["phi"])), priors
    )
    cube = tp.Target.from_likelihood(
        lambda values: -0.5 * ((values["a"] - 0.3) / 0.1) ** 2 + 3 * np.cos(values["phi"]),
        tp.prior.UnitCube(lambda cube: cube * np.array([1.0, 2 * np.pi]), 2, names=["a", "phi"]),
    )
    for target in (plain, cube):
        check_box(tp.sample(target, **SETTINGS))


def test_starting_points_are_values():
    target = tp.Target.from_likelihood(lambda a: -a, {"a": tp.prior.HalfNormal(1.0)})
    (start,) = starting_points({"a": 0.5}, target)
    assert float(start["a"]) == pytest.approx(np.log(0.5))
    with pytest.raises(TargetError, match="'a' is -1 and its prior is HalfNormal"):
        starting_points({"a": -1.0}, target)
    with pytest.raises(TargetError, match=r"names of the priors, \['a'\], but got \['b'\]"):
        starting_points({"b": 1.0}, target)
    for alone in (0.5, np.array([0.5])):  # one value needs no name
        assert float(starting_points(alone, target)[0]["a"]) == pytest.approx(np.log(0.5))
    two = tp.Target.from_likelihood(lambda a, b: -a, {"a": tp.prior.HalfNormal(1.0), "b": tp.prior.HalfNormal(1.0)})
    with pytest.raises(TargetError, match=r"names of the priors, \['a', 'b'\], but got float"):
        starting_points(0.5, two)


@pytest.mark.slow
def test_chains_start_where_the_data_are_possible():
    """Under Uniform(0, theta) most draws of the prior have no likelihood."""
    target = tp.Target.from_likelihood(
        lambda theta: jnp.where(theta > 12.0, -3 * jnp.log(theta), -jnp.inf), {"theta": tp.prior.Exponential(0.1)}
    )
    starts = starting_points(None, target)
    assert starts
    assert all(float(target.energy(start)) > -np.inf for start in starts)
    everywhere = tp.Target.from_likelihood(lambda theta: -theta, {"theta": tp.prior.Exponential(0.1)})
    assert starting_points(None, everywhere) == ()


@pytest.mark.parametrize(
    ("prior", "shape"),
    [
        (tp.prior.Normal(0.0, 1.0), ()),
        (tp.prior.Uniform(-10 * np.ones(2), 10 * np.ones(2)), (2,)),
        (tp.prior.Dirichlet(np.ones(3)), (3,)),
    ],
)
def test_one_prior_without_a_name_is_the_position_whatever_the_likelihood_calls_it(prior, shape):
    target = tp.Target.from_likelihood(lambda theta: -0.5 * ((theta - 0.3) ** 2).sum(), prior)
    run = tp.sample(target, rng=1, draws=20, tuning=tp.Tuning(64), chains=4, progress=False)
    assert run.values["x"].shape == (4, 20, *shape)
    assert np.shape(run.expect(lambda theta: theta).value) == shape
