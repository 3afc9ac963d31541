"""NumPyro models as targets: densities to the last digit, priors, names, and evidences against exact values."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from front_doors import (
    COUNTS,
    COVARIATE,
    EFFECT,
    ERROR,
    GROUPED,
    MIXED,
    SETTINGS,
    assert_evidence,
    refuses_evidence,
    without_a_constant,
)  # fmt: skip
from scipy import stats

import tempering as tp
from seeds import shifted
from statistical import FALSE_ALARM_RATE
from tempering.doors import numpyro as front_door
from tempering.doors.numpyro import target_from_numpyro
from tempering.errors import InputError, TargetError


def eight_schools(effect, error):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(effect)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("effect", dist.Normal(theta, error), obs=effect)


def mixture(y):
    with numpyro.plate("component", 2):
        mu = numpyro.sample("mu", dist.Normal(0, 3))
    halves = dist.Categorical(probs=jnp.array([0.5, 0.5]))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(halves, dist.Normal(mu, 1.0)), obs=y)


def poisson(x, y):
    a, b = (numpyro.sample(name, dist.Normal(0, 1)) for name in "ab")
    with numpyro.plate("row", len(x)), numpyro.handlers.mask(mask=~np.isnan(y)):
        numpyro.sample("y", dist.Poisson(jnp.exp(a + b * x)), obs=np.nan_to_num(y))


def bimodal_groups(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    sides = dist.Normal(jnp.array([-2.0, 2.0]), 0.5)
    with numpyro.plate("group", len(y), dim=-2):
        effect = numpyro.sample("effect", dist.MixtureSameFamily(dist.Categorical(probs=jnp.array([0.5, 0.5])), sides))
        with numpyro.plate("row", y.shape[1], dim=-1):
            numpyro.sample("y", dist.Normal(mu + effect, 1.0), obs=y)


def constrained(y):
    """Have a simplex, an interval that depends on another site, and a positive number."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    high = numpyro.sample("high", dist.Gamma(3.0, 1.0))
    low = numpyro.sample("low", dist.Uniform(0.0, high))
    numpyro.sample("y", dist.Normal(weights @ jnp.array([0.0, 1.0, 2.0]) + low, 1.0), obs=y)
    numpyro.factor("extra", -0.1 * high)


MODELS = {
    "eight_schools": (eight_schools, (EFFECT, ERROR)),
    "mixture": (mixture, (MIXED,)),
    "poisson": (poisson, (COVARIATE, COUNTS)),
    "bimodal_groups": (bimodal_groups, (GROUPED,)),
    "constrained": (constrained, (1.3,)),
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_prior_and_likelihood_are_the_models(name):
    """Compare with NumPyro's own potential energy, at draws of the prior."""
    model, args = MODELS[name]
    target = target_from_numpyro(model, *args)
    for seed in range(5):
        position = target.sample_base(jax.random.key(seed))
        own = -numpyro.infer.util.potential_energy(model, args, {}, position)
        assert float(target.base(position) + target.energy(position)) == pytest.approx(float(own), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_split_is_where_the_data_come_in(name):
    """The prior of the model without data is the base; what the data add is the energy."""
    model, args = MODELS[name]
    target = target_from_numpyro(model, *args)
    position = target.sample_base(jax.random.key(3))
    hidden = numpyro.handlers.block(model, hide=["effect", "y", "extra"] if name != "bimodal_groups" else ["y"])
    own = -numpyro.infer.util.potential_energy(hidden, args, {}, position)
    assert float(target.base(position)) == pytest.approx(float(own), rel=1e-10)
    assert abs(float(target.energy(position))) > 0.01


@pytest.mark.slow
def test_prior_draws_have_the_prior_law():
    target = target_from_numpyro(constrained, 1.3)
    positions = jax.vmap(target.sample_base)(jax.random.split(jax.random.key(shifted(1)), 2000))
    values = {name: a[0] for name, a in target.constrain({k: v[None] for k, v in positions.items()}).items()}
    cut = FALSE_ALARM_RATE / 3
    assert stats.kstest(values["high"], stats.gamma(3.0).cdf).pvalue > cut
    assert stats.kstest(values["low"] / values["high"], "uniform").pvalue > cut
    assert stats.kstest(values["weights"][:, 0], stats.beta(1, 5).cdf).pvalue > cut
    assert stats.kstest(values["weights"][:, 0], stats.beta(1, 4).cdf).pvalue < 1e-3 * cut  # a control


def test_the_prior_integrates_to_one_with_its_jacobians():
    """The base is the density of prior draws: importance weights of a wide normal average to one."""

    def model():
        numpyro.sample("u", dist.Uniform(-1.0, 3.0))
        numpyro.sample("s", dist.HalfNormal(2.0))

    target = target_from_numpyro(model)
    grid = np.linspace(-18.0, 12.0, 401)
    u, s = np.meshgrid(grid, grid, indexing="ij")
    log_prior = jax.vmap(target.base)({"u": u.ravel(), "s": s.ravel()})
    assert float(jnp.exp(log_prior).sum()) * (grid[1] - grid[0]) ** 2 == pytest.approx(1.0, abs=1e-5)
    assert float(target.energy({"u": 0.0, "s": 0.0})) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "poisson", "bimodal_groups"])
def test_evidences_are_exact(name):
    model, args = MODELS[name]
    run = tp.sample(target_from_numpyro(model, *args), **SETTINGS)
    assert_evidence(run, name)
    if name == "mixture":  # the labels are exchangeable, so that each order has half of the mass
        first = run.expect(lambda mu: mu[..., 0] < mu[..., 1])
        assert abs(first.value - 0.5) < 6 * first.standard_error < 0.5
    if name == "bimodal_groups":
        assert set(run.values) == {"mu", "effect"}
        assert run.values["effect"].shape[2:] == (3, 1)


@pytest.mark.slow
def test_control_missing_rows_that_count_as_zeros_are_seen():
    assert refuses_evidence(target_from_numpyro(poisson, COVARIATE, np.nan_to_num(COUNTS)), "poisson")


@pytest.mark.parametrize(
    "name", ["mixture", *(pytest.param(name, marks=pytest.mark.long) for name in ("bimodal_groups", "eight_schools"))]
)
def test_control_the_lost_constant_of_one_row_is_seen(name):
    model, args = MODELS[name]
    assert refuses_evidence(without_a_constant(target_from_numpyro(model, *args)), name)


@pytest.mark.slow
def test_eight_schools_come_back_under_their_names():
    run = tp.sample(target_from_numpyro(eight_schools, EFFECT, ERROR), **SETTINGS)
    assert_evidence(run, "eight_schools")
    assert set(run.values) == {"mu", "tau", "z", "theta"}
    assert np.all(run.values["tau"] > 0)
    np.testing.assert_allclose(
        run.values["theta"], run.values["mu"][..., None] + run.values["tau"][..., None] * run.values["z"], rtol=1e-9
    )
    estimate = run.expect(lambda theta, **_: theta[..., 0])
    assert run.summary().loc["theta[0]", "mean"] == pytest.approx(float(estimate.value), rel=1e-9)


def test_what_cannot_be_tempered_is_refused():
    def discrete():
        numpyro.sample("which", dist.Bernoulli(0.5))

    def improper():
        numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))

    def scaled():
        with numpyro.handlers.scale(scale=2.0):
            numpyro.sample("x", dist.Normal(0, 1))

    def observed():
        numpyro.sample("y", dist.Normal(0, 1), obs=1.0)

    def subsampled():
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("row", 6, subsample_size=3):
            numpyro.sample("y", dist.Normal(mu, 1), obs=np.zeros(3))

    for model, message in [
        (subsampled, "the plate 'row' takes 3 of 6. Leave subsample_size out"),
        (discrete, "'which' is discrete"),
        (improper, "must have a proper prior, but 'x' has a flat one"),
        (scaled, "'x' is, by a subsampled plate"),
        (observed, "at least one latent site"),
    ]:
        with pytest.raises(TargetError, match=message):
            target_from_numpyro(model)


def test_without_numpyro_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numpyro", None)
    with pytest.raises(InputError, match=r"pip install 'tempering\[numpyro\]'"):
        target_from_numpyro(mixture, MIXED)


def imputed(y):
    """Leave values that are not seen open, by NumPyro's obs_mask."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=jnp.nan_to_num(y), obs_mask=~np.isnan(y))


def imputed_counts(y):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Poisson(rate), obs=jnp.nan_to_num(y).astype(int), obs_mask=~np.isnan(y))


HOLES = np.array([1.0, np.nan, 0.5, np.nan, 2.0])


def test_values_left_open_have_a_law_and_the_rest_its_likelihood():
    target = target_from_numpyro(imputed, HOLES)
    position = target.sample_base(jax.random.key(2))
    assert set(position) == {"mu", "y_unobserved"}
    mu, hidden = float(position["mu"]), np.asarray(position["y_unobserved"])
    seen = ~np.isnan(HOLES)
    assert float(target.energy(position)) == pytest.approx(stats.norm.logpdf(HOLES[seen], mu, 1.0).sum(), rel=1e-10)
    exact = stats.norm.logpdf(mu, 0, 2) + stats.norm.logpdf(hidden, mu, 1.0).sum()  # one law for all five
    assert float(target.base(position)) == pytest.approx(exact, rel=1e-10)
    values = target.constrain({name: np.asarray(a)[None, None] for name, a in position.items()})
    np.testing.assert_allclose(values["y"][0, 0], np.where(seen, HOLES, hidden), rtol=1e-12)


def test_missing_counts_are_summed_out():
    target = target_from_numpyro(imputed_counts, HOLES.round())
    position = target.sample_base(jax.random.key(2))
    assert set(position) == {"rate"}
    rate = float(np.exp(position["rate"]))
    seen = HOLES.round()[~np.isnan(HOLES)]
    assert float(target.energy(position)) == pytest.approx(stats.poisson.logpmf(seen, rate).sum(), rel=1e-10)


def walk(y):
    """A chain of positive states, one after another, by NumPyro's scan."""
    from numpyro.contrib.control_flow import scan

    scale = numpyro.sample("scale", dist.HalfNormal(1.0))

    def step(state, y):
        state = numpyro.sample("state", dist.LogNormal(0.5 * jnp.log(state), scale + 0.1))
        numpyro.sample("y", dist.Normal(state, 1.0), obs=y)
        return state, state

    scan(step, 1.0, y)


@pytest.mark.slow
def test_scans_are_models_too():
    y = np.array([1.0, 0.5, 2.0])
    target = target_from_numpyro(walk, y)
    for seed in range(3):
        position = target.sample_base(jax.random.key(seed))
        assert position["state"].shape == (3,)
        own = -numpyro.infer.util.potential_energy(walk, (y,), {}, position)
        assert float(target.base(position) + target.energy(position)) == pytest.approx(float(own), rel=1e-10)
    state = np.exp(np.asarray(position["state"]))
    assert float(target.energy(position)) == pytest.approx(stats.norm.logpdf(y, state, 1.0).sum(), rel=1e-10)


@pytest.mark.long
def test_correlation_matrices_are_models_too():
    def model(y):
        root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
        numpyro.sample("y", dist.MultivariateNormal(0.0, scale_tril=root), obs=y)

    y = np.array([[1.0, 2.0], [0.0, 0.5]])
    target = target_from_numpyro(model, y)
    position = target.sample_base(jax.random.key(1))
    own = -numpyro.infer.util.potential_energy(model, (y,), {}, position)
    assert float(target.base(position) + target.energy(position)) == pytest.approx(float(own), rel=1e-10)


def test_a_masked_prior_is_refused():
    def model():
        with numpyro.handlers.mask(mask=False):
            x = numpyro.sample("x", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(x, 1), obs=1.0)

    with pytest.raises(TargetError, match="that of 'x' is masked"):
        target_from_numpyro(model)


def test_starting_points_have_the_models_own_names():
    from tempering.target.starting import starting_points

    target = target_from_numpyro(eight_schools, EFFECT, ERROR)
    (start,) = starting_points({"tau": 5.0}, target)
    assert float(start["tau"]) == pytest.approx(np.log(5.0))
    assert set(start) == {"mu", "tau", "z"}
    with pytest.raises(TargetError, match=r"has the names \['mu', 'tau', 'z'\], but got \['sigma'\]"):
        starting_points({"sigma": 1.0}, target)
    with pytest.raises(TargetError, match="inside the support, but 'tau' is -1"):
        starting_points({"tau": -1.0}, target)


@pytest.mark.slow
def test_a_sampler_has_the_methods_of_numpyros_nested_one():
    sampler = front_door.TemperedSampler(poisson, **{**SETTINGS, "draws": 300})
    sampler.run(jax.random.key(shifted(1)), COVARIATE, COUNTS)
    draws, log_weights = sampler.get_weighted_samples()
    assert draws["a"].shape == log_weights.shape == (8 * 300,)
    assert np.exp(log_weights).sum() == pytest.approx(1.0)
    equal = sampler.get_samples(jax.random.key(shifted(2)), 500)
    assert equal["b"].shape == (500,)
    mean = np.sum(np.exp(log_weights) * draws["b"])
    assert abs(equal["b"].mean() - mean) < 0.2
    data = sampler.result.to_arviz()
    assert data.log_likelihood["y"].dims == ("chain", "draw", "row")
    assert data.log_likelihood.sizes["row"] == len(COUNTS)


def labelled(y, marked=True):
    """The mixture, its labels written out."""
    with numpyro.plate("component", 2):
        mu = numpyro.sample("mu", dist.Normal(0, 3))
    with numpyro.plate("row", len(y)):
        infer = {"enumerate": "parallel"} if marked else {}
        label = numpyro.sample("label", dist.Bernoulli(0.5), infer=infer)
        numpyro.deterministic("centre", mu[label])
        numpyro.sample("y", dist.Normal(mu[label], 1.0), obs=y)
    numpyro.deterministic("gap", mu[1] - mu[0])


def test_marked_discrete_sites_are_summed_out():
    pytest.importorskip("funsor")
    target, summed = target_from_numpyro(labelled, MIXED), target_from_numpyro(mixture, MIXED)
    positions = jax.vmap(summed.sample_base)(jax.random.split(jax.random.key(shifted(3)), 5))
    np.testing.assert_allclose(jax.vmap(target.energy)(positions), jax.vmap(summed.energy)(positions), rtol=1e-10)
    np.testing.assert_allclose(jax.vmap(target.base)(positions), jax.vmap(summed.base)(positions), rtol=1e-10)
    values = target.constrain({name: np.asarray(a)[None] for name, a in positions.items()})
    assert set(values) == {"mu", "gap"}  # what depends on labels is not one value
    assert target.model.pointwise(values) == {}
    assert target.model.predicted(values, 1)["y"].shape == (1, 5, len(MIXED))


def test_discrete_sites_that_are_not_summed_out_are_refused_by_name():
    def above(y):
        which = numpyro.sample("which", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
        x = numpyro.sample("x", dist.Normal(2.0 * which, 1.0))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    with pytest.raises(TargetError, match=r"'label' is discrete\. Have it summed out"):
        target_from_numpyro(labelled, MIXED, marked=False)
    pytest.importorskip("funsor")
    with pytest.raises(TargetError, match="'x' depends on 'which'"):
        target_from_numpyro(above, 1.0)


def test_axes_that_enumeration_does_not_know_are_told():
    pytest.importorskip("funsor")

    def loose(y):
        mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]))
        with numpyro.plate("row", len(y)):
            label = numpyro.sample("label", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(mu[label], 1.0), obs=y)

    with pytest.raises(TargetError, match=r"every axis of a site must be declared, by a plate or by \.to_event"):
        target_from_numpyro(loose, MIXED)


@pytest.mark.long
def test_the_evidence_of_a_labelled_mixture_is_exact():
    pytest.importorskip("funsor")
    assert_evidence(tp.sample(target_from_numpyro(labelled, MIXED), **SETTINGS), "mixture")
