"""PyMC models as targets: densities to the last digit, priors, names, and evidences against exact values."""

import warnings
from dataclasses import replace
from importlib.metadata import version

import jax
import numpy as np
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
from scipy import integrate, stats

import tempering as tp
from seeds import shifted
from statistical import FALSE_ALARM_RATE
from tempering.doors import pymc as front_door
from tempering.doors.pymc import target_from_pymc
from tempering.errors import InputError, TargetError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ, which PyMC imports, announces its successor
    import pymc as pm


def eight_schools():
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, shape=8)
        theta = pm.Deterministic("theta", mu + tau * z)
        pm.Normal("effect", theta, ERROR, observed=EFFECT)
    return model


def mixture():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=2)
        pm.NormalMixture("y", w=[0.5, 0.5], mu=mu, sigma=1.0, observed=MIXED)
    return model


def poisson():
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyMC says that it will impute what is missing
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Poisson("y", pm.math.exp(a + b * COVARIATE), observed=COUNTS)
    return model


def bimodal_groups():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        effect = pm.NormalMixture("effect", w=[0.5, 0.5], mu=[-2.0, 2.0], sigma=0.5, shape=3)
        pm.Normal("y", mu + effect[:, None], 1.0, observed=GROUPED)
    return model


def constrained():
    """Have a simplex, an interval that depends on another variable, a positive number and a potential."""
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.array([1.0, 2.0, 3.0]))
        high = pm.Gamma("high", 3.0, 1.0)
        low = pm.Uniform("low", 0.0, high)
        pm.Normal("y", pm.math.dot(weights, np.array([0.0, 1.0, 2.0])) + low, 1.0, observed=1.3)
        pm.Potential("extra", -0.1 * high)
    return model


MODELS = {m.__name__: m for m in (eight_schools, mixture, poisson, bimodal_groups, constrained)}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def prior_draw(target, seed=1):
    try:
        return {k: np.asarray(v) for k, v in target.sample_base(jax.random.key(seed)).items()}
    except AttributeError:  # compiled by PyTensor
        return target.sample_base(np.random.default_rng(seed))


@pytest.mark.parametrize(
    "name",
    [
        "eight_schools",
        "bimodal_groups",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("mixture", "constrained")),
    ],
)
def test_prior_and_likelihood_are_the_models(name):
    model = MODELS[name]()
    target, own = target_from_pymc(model), model.compile_logp()
    prior = model.compile_logp(vars=model.free_RVs)
    position = prior_draw(target)
    assert float(target.base(position) + target.energy(position)) == pytest.approx(float(own(position)), rel=1e-10)
    assert float(target.base(position)) == pytest.approx(float(prior(position)), rel=1e-10)


def test_missing_rows_leave_the_likelihood():
    target = target_from_pymc(poisson())
    position = {"a": np.array(0.3), "b": np.array(-0.2)}
    seen = ~np.isnan(COUNTS)
    own = stats.poisson.logpmf(COUNTS[seen], np.exp(0.3 - 0.2 * COVARIATE[seen])).sum()
    assert float(target.energy(position)) == pytest.approx(own, rel=1e-10)
    assert set(prior_draw(target)) == {"a", "b"}


@pytest.mark.slow
def test_prior_draws_have_the_prior_law():
    target = target_from_pymc(constrained())
    positions = jax.vmap(target.sample_base)(jax.random.split(jax.random.key(shifted(1)), 2000))
    values = {name: a[0] for name, a in target.constrain({k: v[None] for k, v in positions.items()}).items()}
    cut = FALSE_ALARM_RATE / 3
    assert stats.kstest(values["high"], stats.gamma(3.0).cdf).pvalue > cut
    assert stats.kstest(values["low"] / values["high"], "uniform").pvalue > cut
    assert stats.kstest(values["weights"][:, 0], stats.beta(1, 5).cdf).pvalue > cut
    assert abs(np.corrcoef(values["high"], values["low"] / values["high"])[0, 1]) < 5 / np.sqrt(2000)


@pytest.mark.slow
def test_pytensors_functions_serve_where_jax_cannot(monkeypatch):
    by_jax = target_from_pymc(constrained())

    def fail(*_):
        raise NotImplementedError

    monkeypatch.setattr(front_door.PyMCModel, "_jax_target", fail)
    target = target_from_pymc(constrained())
    position = target.sample_base(np.random.default_rng(5))
    assert float(target.energy(position)) == pytest.approx(float(by_jax.energy(position)), rel=1e-10)
    assert float(target.base(position)) == pytest.approx(float(by_jax.base(position)), rel=1e-10)
    stacked = {name: np.tile(a, (2, 3, *[1] * np.ndim(a))) for name, a in position.items()}
    for name, values in by_jax.constrain(stacked).items():
        np.testing.assert_allclose(target.constrain(stacked)[name], values, rtol=1e-10)
    high = [float(np.exp(target.sample_base(np.random.default_rng(i))["high_log__"])) for i in range(300)]
    assert stats.kstest(high, stats.gamma(3.0).cdf).pvalue > FALSE_ALARM_RATE


@pytest.mark.parametrize(
    "name", ["poisson", *(pytest.param(name, marks=pytest.mark.long) for name in ("mixture", "bimodal_groups"))]
)
def test_evidences_are_exact(name):
    run = tp.sample(target_from_pymc(MODELS[name]()), **SETTINGS)
    assert_evidence(run, name)


@pytest.mark.slow
def test_control_missing_rows_that_count_as_zeros_are_seen(monkeypatch):
    monkeypatch.setitem(globals(), "COUNTS", np.nan_to_num(COUNTS))
    assert refuses_evidence(target_from_pymc(poisson()), "poisson")


@pytest.mark.long
@pytest.mark.parametrize("name", ["mixture", "bimodal_groups", "eight_schools"])
def test_control_the_lost_constant_of_one_row_is_seen(name):
    assert refuses_evidence(without_a_constant(target_from_pymc(MODELS[name]())), name)


@pytest.mark.long
def test_eight_schools_come_back_under_their_names():
    run = tp.sample(target_from_pymc(eight_schools()), **SETTINGS)
    assert_evidence(run, "eight_schools")
    assert set(run.values) == {"mu", "tau", "z", "theta"}
    assert np.all(run.values["tau"] > 0)


@pytest.mark.slow
def test_the_precision_of_the_users_jax_is_left_alone():
    import subprocess
    import sys

    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import jax, pymc as pm\n"
        "from tempering.doors.pymc import target_from_pymc\n"
        "with pm.Model() as model: pm.Normal('x')\n"
        "target_from_pymc(model)\n"
        "assert not jax.config.read('jax_enable_x64')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_tempered_is_refused():
    with pm.Model() as discrete:
        which = pm.Bernoulli("which", 0.5)
        pm.Normal("y", which, 1.0, observed=1.0)
    with pm.Model() as flat:
        pm.Flat("x")
    with pm.Model() as observed:
        pm.Normal("y", 0.0, 1.0, observed=1.0)
    with pm.Model() as ordered:
        pm.Normal("mu", [0.0, 2.0], 1.0, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
    for model, message in [
        (discrete, "'which' is discrete"),
        (flat, "must have a proper prior, but 'x'"),
        (observed, "at least one free variable"),
        (ordered, "'mu' is cut to ordered values"),
    ]:
        with pytest.raises(TargetError, match=message):
            target_from_pymc(model)


def ordered_mixture():
    """Have means in order: the data do not tell them apart, so that the evidence is that of the free ones."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
        pm.Deterministic("gap", mu[1] - mu[0])
        pm.NormalMixture("y", w=[0.5, 0.5], mu=mu, sigma=1.0, observed=MIXED)
    return model


@pytest.mark.long
def test_ordered_priors_are_normalised_and_drawn_in_order():
    model = ordered_mixture()
    target, own = target_from_pymc(model), model.compile_logp(vars=model.free_RVs)
    position = prior_draw(target)
    assert float(target.base(position)) == pytest.approx(float(own(position)) + np.log(2), rel=1e-10)
    positions = jax.vmap(target.sample_base)(jax.random.split(jax.random.key(shifted(2)), 1000))
    values = target.constrain({name: np.asarray(a)[None] for name, a in positions.items()})
    assert np.all(values["gap"] > 0)
    smaller = stats.norm(0, 3).cdf(values["mu"][0, :, 0])
    assert stats.kstest(smaller, stats.beta(1, 2).cdf).pvalue > FALSE_ALARM_RATE  # the first of two order statistics
    assert stats.kstest(smaller, stats.uniform.cdf).pvalue < FALSE_ALARM_RATE  # control: as they were drawn


@pytest.mark.long
def test_every_row_of_an_ordered_prior_has_its_own_orders():
    """Three rows of two values in order: 2! orders each, not 2! in all."""
    with pm.Model() as model:
        start = np.tile([-1.0, 1.0], (3, 1))
        mu = pm.Normal("mu", 0, 3, shape=(3, 2), transform=pm.distributions.transforms.ordered, initval=start)
        pm.Normal("y", mu.sum(), 1.0, observed=0.3)
    target, own = target_from_pymc(model), model.compile_logp(vars=model.free_RVs)
    position = prior_draw(target)
    assert float(target.base(position)) == pytest.approx(float(own(position)) + 3 * np.log(2), rel=1e-10)


@pytest.mark.long
def test_the_evidence_of_an_ordered_mixture_is_that_of_the_free_one():
    assert_evidence(tp.sample(target_from_pymc(ordered_mixture()), **SETTINGS), "mixture")


@pytest.mark.parametrize("log_scale", [0.0, 25.0])  # of the first row: the squares of the others are lost beside it
@pytest.mark.parametrize(
    ("n", "eta"), [(3, 2.5), *(pytest.param(*given, marks=pytest.mark.long) for given in [(2, 2.0), (3, 1.0)])]
)
def test_the_prior_of_a_covariance_integrates_to_one(n, eta, log_scale):
    """Compare with NumPyro's normalised density of the factor of the correlations; PyMC's constant is another."""
    from numpyro.distributions import LKJCholesky

    with pm.Model() as model:
        pm.LKJCholeskyCov("chol", n=n, eta=eta, sd_dist=pm.Exponential.dist(1e-9, shape=n), compute_corr=False)
    target = target_from_pymc(model)
    (name,) = target.model.names
    packed = np.random.default_rng(n).normal(size=n * (n + 1) // 2)
    packed[0] += log_scale
    rows, columns = np.tril_indices(n)
    factor = np.zeros((n, n))
    factor[rows, columns] = np.where(rows == columns, np.exp(packed), packed)
    sd = np.sqrt(np.sum(factor**2, axis=1))
    corr = factor / sd[:, None]
    jacobian = np.sum(np.log(np.diag(corr)) - np.arange(n) * np.log(sd)) + np.sum(packed[rows == columns])
    prior_of_sd = np.sum(np.log(1e-9) - 1e-9 * sd)
    with jax.enable_x64(True):
        exact = float(LKJCholesky(n, eta).log_prob(corr)) + prior_of_sd + jacobian
        found = float(target.base({name: packed}))
    assert found == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
def test_a_covariance_that_is_singular_to_rounding_is_outside_of_the_support():
    """PyMC's own compiled density is zero there; its checks are lost on the way to JAX, which gave NaN."""
    model = correlated(compute_corr=False)
    target = target_from_pymc(model)
    (name,) = target.model.names
    position = {name: np.array([0.0, 1.0, -30.0])}
    energy = float(target.energy(position))
    assert energy < -1e20  # not NaN; PyMC 6, which inverts the factor and not the covariance, has a number for it
    assert energy == -np.inf or int(version("pymc").split(".")[0]) >= 6
    assert np.isfinite(float(target.base(position)))


def angle():
    with pm.Model() as model:
        phi = pm.VonMises("phi", mu=3.0, kappa=2.0)
        pm.VonMises("y", mu=phi, kappa=1.5, observed=[-3.0, 2.5])
    return model


def test_angles_have_a_law_that_integrates_to_one():
    target = target_from_pymc(angle())
    position = prior_draw(target)
    (name,) = position
    grid = np.linspace(-40, 40, 8001)
    mass = integrate.trapezoid([np.exp(float(target.base({name: np.array(z)}))) for z in grid[::20]], grid[::20])
    assert mass == pytest.approx(1.0, abs=1e-3)
    values = target.constrain({name: np.full((1, 1), 0.3)})["phi"]
    assert abs(values[0, 0]) < np.pi


@pytest.mark.long
def test_the_evidence_of_an_angle_is_exact():
    run = tp.sample(target_from_pymc(angle()), **SETTINGS)

    def density(phi):
        log_likelihood = stats.vonmises.logpdf([-3.0, 2.5], 1.5, loc=phi).sum()
        return np.exp(log_likelihood + stats.vonmises.logpdf(phi, 2.0, loc=3.0))

    exact = np.log(integrate.quad(density, -np.pi, np.pi)[0])
    found = run.log_evidence()
    assert abs(found.value - exact) < 6 * found.standard_error < 0.6


def test_labels_that_pymc_extras_has_summed_out():
    extras = pytest.importorskip("pymc_extras")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=2)
        label = pm.Bernoulli("label", 0.5, shape=len(MIXED))
        pm.Normal("y", mu[label], 1.0, observed=MIXED)
    target, summed = target_from_pymc(extras.marginalize(model, ["label"])), target_from_pymc(mixture())
    for seed in range(3):
        position = prior_draw(summed, seed)
        assert float(target.energy(position)) == pytest.approx(float(summed.energy(position)), rel=1e-8)
        assert float(target.base(position)) == pytest.approx(float(summed.base(position)), rel=1e-10)


def test_without_pymc_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pymc", None)
    with pytest.raises(InputError, match=r"pip install 'tempering\[pymc\]'"):
        target_from_pymc(None)


def schools_with_names():
    with pm.Model(coords={"school": list("abcdefgh")}) as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Deterministic("twice", 2 * theta, dims="school")
        pm.Normal("effect", theta, ERROR, observed=EFFECT, dims="school")
    return model


def prior_run(target, n=40):
    """A run of draws of the prior alone: enough for everything that only reads values."""
    from tempering import Ladder, TemperedDraws

    rows = [prior_draw(target, seed) for seed in range(n)]
    stacked = {name: np.stack([row[name] for row in rows])[None] for name in rows[0]}
    values = target.constrain(stacked)
    flat = np.zeros((1, n))
    run = TemperedDraws.of_energies(values, np.zeros((1, n), np.int32), flat, Ladder([1.0]))
    return replace(run, model=target.model)


def test_arviz_gets_dims_coords_and_pointwise_likelihoods():
    run = prior_run(target_from_pymc(schools_with_names()))
    data = run.to_arviz()
    older = int(version("arviz").split(".")[0]) < 1  # what PyMC 5 draws with; PyMC 6 takes trees
    assert type(data).__name__ == ("InferenceData" if older else "DataTree")
    assert data.posterior["theta"].dims == ("chain", "draw", "school")
    assert list(data.posterior["school"].values) == list("abcdefgh")
    assert data.log_likelihood["effect"].dims == ("chain", "draw", "school")
    theta = data.posterior["theta"].to_numpy()
    np.testing.assert_allclose(data.log_likelihood["effect"], stats.norm.logpdf(EFFECT, theta, ERROR), rtol=1e-9)
    np.testing.assert_array_equal(data.observed_data["effect"], EFFECT)


def test_arvizs_own_functions_take_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        run = prior_run(target_from_pymc(schools_with_names()), 200)
        data = run.to_arviz()
        found = arviz.loo(data)
        assert np.isfinite(found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd)
        assert arviz.summary(data).shape[0] == 1 + 1 + 8 + 8
        assert set(arviz.ess(data).data_vars) == {"mu", "tau", "theta", "twice"}


def test_new_data_are_drawn_for_every_draw():
    target = target_from_pymc(schools_with_names())
    theta = np.tile(np.arange(8.0) * 10, (1, 400, 1))
    values = {"mu": np.zeros((1, 400)), "tau": np.ones((1, 400)), "theta": theta}
    new = target.model.predicted(values, 1)["effect"]
    assert new.shape == (1, 400, 8)
    t = (new[0].mean(axis=0) - theta[0, 0]) / (ERROR / np.sqrt(400))
    assert np.max(np.abs(t)) < 6


@pytest.mark.filterwarnings("ignore")
def test_starting_points_have_the_models_own_names():
    from tempering.target.starting import starting_points

    target = target_from_pymc(schools_with_names())
    (start,) = starting_points({"tau": 5.0}, target)
    assert set(start) == {"mu", "tau_log__", "theta"}
    assert float(start["tau_log__"]) == pytest.approx(np.log(5.0))
    for bad, message in [
        ({"sigma": 1.0}, r"has the names .*'tau'.* but got \['sigma'\]"),
        ({"tau": -1.0}, "inside the support, but 'tau' is -1"),
        ({"tau": [1.0, 2.0]}, "'tau' has 0 axes and the value 1"),
    ]:
        with np.errstate(all="ignore"), pytest.raises(TargetError, match=message):
            starting_points(bad, target)


def correlated(compute_corr=True):
    with pm.Model() as model:
        sd = pm.Exponential.dist(1.0)
        if compute_corr:
            chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)
        else:
            packed = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd, compute_corr=False)
            chol = pm.math.expand_packed_triangular(2, packed)
        pm.MvNormal("y", 0, chol=chol, observed=np.array([[1.0, 2.0], [0.0, 0.5]]))
    return model


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.parametrize("compute_corr", [True, False])
def test_correlation_matrices_have_their_prior(compute_corr):
    model = correlated(compute_corr)
    target, own = target_from_pymc(model), model.compile_logp()
    positions = jax.vmap(target.sample_base)(jax.random.split(jax.random.key(shifted(1)), 400))
    one, other = ({name: np.asarray(a)[i] for name, a in positions.items()} for i in (0, 1))
    gap = sum(float(term(one) - term(other)) for term in (target.base, target.energy))
    assert gap == pytest.approx(float(own(one) - own(other)), rel=1e-8)  # PyMC's constant is another
    values = target.constrain({name: np.asarray(a)[None] for name, a in positions.items()})
    first = values["chol"][0, :, 0]  # the deviation of the first coordinate: exponential
    assert stats.kstest(first, stats.expon.cdf).pvalue > FALSE_ALARM_RATE


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.parametrize("compute_corr", [True, False])
def test_the_evidence_of_a_covariance_is_exact(compute_corr):
    """By a grid over both log deviations and the correlation, 2 r ~ 2 beta(2, 2) - 1 under LKJ of eta = 2."""
    run = tp.sample(target_from_pymc(correlated(compute_corr)), **SETTINGS)
    log_sd, r = np.linspace(-7.0, 5.0, 161), np.linspace(-1.0, 1.0, 402)[1:-1]
    a, b, c = np.meshgrid(log_sd, log_sd, r, indexing="ij", sparse=True)
    y = np.array([[1.0, 2.0], [0.0, 0.5]])
    xx, yy, xy = np.sum(y[:, 0] ** 2), np.sum(y[:, 1] ** 2), np.sum(y[:, 0] * y[:, 1])
    rest = 1.0 - c**2
    distance = (xx * np.exp(-2 * a) + yy * np.exp(-2 * b) - 2 * c * xy * np.exp(-a - b)) / rest
    log_likelihood = -2 * np.log(2 * np.pi) - 2 * (a + b) - np.log(rest) - 0.5 * distance
    log_prior = a - np.exp(a) + b - np.exp(b) + np.log(0.75 * rest)
    cell = (log_sd[1] - log_sd[0]) ** 2 * (r[1] - r[0])
    exact = np.log(np.sum(np.exp(log_likelihood + log_prior)) * cell)
    evidence = run.log_evidence()
    assert abs(evidence.value - exact) < 5 * evidence.standard_error
    assert evidence.standard_error < 0.05
    assert run.info.n_invalid == 0
    assert run.diagnose().is_good, run.diagnose()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyMC 6 warns of its own random variables
def test_likelihoods_that_change_from_call_to_call_are_refused():
    with pm.Model() as minibatch:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=pm.Minibatch(np.arange(100.0), batch_size=10), total_size=100)
    with pm.Model() as simulator:
        mu = pm.Normal("mu")
        pm.Simulator("s", lambda rng, a, size: rng.normal(a, 1, size=10), mu, observed=np.zeros(10), epsilon=1.0)
    for model, message in [(minibatch, "takes a Minibatch"), (simulator, "is a Simulator")]:
        with pytest.raises(TargetError, match=message):
            target_from_pymc(model)


@pytest.mark.long
def test_a_model_is_sampled_into_all_groups():
    data = front_door.sample(mixture(), **{**SETTINGS, "draws": 400})
    groups = {"posterior", "sample_stats", "log_likelihood", "posterior_predictive", "prior", "prior_predictive"}
    found = data.children if hasattr(data, "children") else data.groups()  # a tree, or what ArviZ before 1.0 takes
    assert groups | {"observed_data", "tempered"} == set(found)
    assert data.attrs["log_evidence_is_absolute"] == 1


@pytest.mark.long
def test_data_that_rule_out_most_of_the_prior_are_no_obstacle():
    """Under Uniform(0, theta): the posterior of theta is a cut gamma, known by quadrature."""
    with pm.Model() as model:
        theta = pm.Exponential("theta", 0.1)
        pm.Uniform("y", 0, theta, observed=[1.0, 3.0, 12.0])
    run = tp.sample(target_from_pymc(model), **SETTINGS)
    found = run.log_evidence()
    exact = np.log(integrate.quad(lambda t: 0.1 * np.exp(-0.1 * t) / t**3, 12, np.inf)[0])
    assert abs(found.value - exact) < 6 * found.standard_error < 0.6


@pytest.mark.long
def test_centred_eight_schools_run_at_all_defaults():
    run = tp.sample(target_from_pymc(schools_with_names()), rng=1, progress=False)
    assert run.diagnose().is_good


@pytest.mark.long
def test_student_posteriors_run_at_all_defaults():
    with pm.Model() as model:
        mu = pm.StudentT("mu", nu=3, mu=0, sigma=2, shape=4)
        pm.StudentT("y", nu=4, mu=mu, sigma=1.0, observed=np.array([0.5, -1.0, 2.0, 8.0]))
    run = tp.sample(target_from_pymc(model), rng=1, progress=False)
    assert run.diagnose().is_good
