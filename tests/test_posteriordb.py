"""Reference draws for mixtures: the second method against quadrature, the model against a slow twin, the format."""

import json
import sys
import zipfile
from math import factorial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))  # the benchmarks are no part of the installed package

from benchmarks.posteriordb import __main__ as command
from benchmarks.posteriordb import gibbs, models

from seeds import shifted
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng

Y = np.array([-2.0, -1.2, 0.9, 1.4, 2.1])


def slow_posterior(form, y, means, sds, weights):
    """Return log prior + log likelihood of constrained parameters, by SciPy."""
    total = stats.norm.logpdf(means, 0, form.mean_sd).sum() + stats.dirichlet.logpdf(
        weights, np.full(len(weights), form.concentration)
    )
    if form.sds == "half-normal":
        total += stats.halfnorm.logpdf(sds, scale=2).sum()
    for datum in y:
        total += np.log(np.sum(weights * stats.norm.pdf(datum, means, sds)))
    return total


@pytest.mark.parametrize("name", models.FORMS)
def test_the_density_is_that_of_the_stan_program_with_its_jacobian(name):
    form = models.FORMS[name]
    model, rng = models.Mixture(form, Y), seeded_rng(f"stan {name}")
    x = rng.standard_normal((3, model.dimension))
    k, found, expected = form.n_components, [], []
    for row in x:
        draws = {key: value[0] for key, value in model.constrained(row[None]).items()}
        means = np.array([draws[f"mu[{i + 1}]"] for i in range(k)])
        sds = np.ones(k) if form.sds == "one" else np.array([draws[f"sigma[{i + 1}]"] for i in range(k)])
        first = draws["theta"] if k == 2 else None
        weights = np.array([first, 1 - first]) if k == 2 else np.array([draws[f"theta[{i + 1}]"] for i in range(k)])
        jacobian = np.sum(np.log(weights))
        if form.sds == "half-normal":
            jacobian += np.sum(np.log(sds))
        elif form.sds == "uniform":
            jacobian += np.sum(np.log(sds) + np.log1p(-sds / 10))
        expected.append(slow_posterior(form, Y, means, sds, weights) + jacobian)
        with jax.enable_x64(True):
            at = jnp.asarray(row)
            found.append(float(model.log_likelihood(at) + model.log_prior(at)))
    # the slow twin leaves the uniform prior of deviations out
    height = form.n_components * np.log(10.0) if form.sds == "uniform" else 0.0
    np.testing.assert_allclose(found, np.subtract(expected, height), rtol=1e-9)


@pytest.mark.parametrize("name", models.FORMS)
def test_a_sorted_mixture_has_the_density_of_all_labellings_together(name):
    form = models.FORMS[name]
    every, one, rng = models.Mixture(form, Y), models.Mixture(form, Y, is_sorted=True), seeded_rng(f"sorted {name}")
    k = form.n_components
    x = rng.standard_normal((3, one.dimension))
    free = np.concatenate([one.components(x)[0], x[:, k:]], axis=1)
    with jax.enable_x64(True):
        found = [float(one.log_prior(at) + one.log_likelihood(at)) for at in map(jnp.asarray, x)]
        labelled = [float(every.log_prior(at) + every.log_likelihood(at)) for at in map(jnp.asarray, free)]
    jacobian = x[:, 1:k].sum(axis=1)
    np.testing.assert_allclose(found, labelled + jacobian + np.log(float(factorial(k))), rtol=1e-9)


def test_relabelled_draws_are_the_same_components_in_another_order():
    form = models.FORMS["normal_5"]
    model = models.Mixture(form, Y, is_sorted=True)
    x = seeded_rng("relabel").standard_normal((2000, model.dimension))
    first, second = model.constrained(x), model.relabelled(x, seeded_rng("order"))
    for parts in (("mu",), ("mu", "sigma"), ("sigma", "theta")):  # what belongs together stays together
        sums = [sum(np.prod([d[f"{p}[{i}]"] for p in parts], axis=0) for i in range(1, 6)) for d in (first, second)]
        np.testing.assert_allclose(*sums, rtol=1e-9)
    least = np.argmin([second[f"mu[{i}]"] for i in range(1, 6)], axis=0)
    assert stats.chisquare(np.bincount(least, minlength=5)).pvalue > 1e-6


def quadrature():
    """Return E of the lesser mean under the form of known deviations, on a grid of theta and both means."""
    form = models.FORMS["normal_2"]
    theta = (np.arange(60) + 0.5) / 60
    mu = np.linspace(-40, 40, 401)
    log_normal = stats.norm.logpdf(Y[:, None], mu)  # (datum, mu)
    parts = np.exp(log_normal)
    first, second = np.meshgrid(np.arange(401), np.arange(401), indexing="ij")
    prior = stats.norm.pdf(mu, 0, form.mean_sd)
    density = np.zeros((401, 401))
    for t in theta:
        density += np.prod(t * parts[:, first] + (1 - t) * parts[:, second], axis=0)
    density *= prior[:, None] * prior
    lesser = np.minimum(mu[:, None], mu)
    return float(np.sum(density * lesser) / np.sum(density))


@pytest.mark.slow
def test_gibbs_with_relabelling_has_the_mean_that_quadrature_gives():
    form, truth = models.FORMS["normal_2"], quadrature()
    means = []
    for rng in seeded_rng("gibbs").spawn(24):
        found = gibbs.chain(form, Y, 400, 2, rng)
        means.append(np.minimum(found.means[:, 0], found.means[:, 1]).mean())
    assert_mean_is(truth, means)
    assert_mean_is_not(truth + 1.5, means)


def test_labels_are_equally_often_the_least():
    form = models.FORMS["normal_5"]
    y = models.simulated(form, 40, seeded_rng("labels"))
    found = gibbs.chain(form, y, 2000, 1, seeded_rng("labels chain"))
    assert stats.chisquare(np.bincount(np.argmin(found.means, axis=1), minlength=5)).pvalue > 1e-6


@pytest.mark.slow
def test_prior_draws_have_the_priors_moments():
    form = models.FORMS["low_dim_gauss_mix_collapse"]
    model = models.Mixture(form, Y)
    with jax.enable_x64(True):
        x = np.asarray(jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(shifted(1)), 4000)))
    draws = model.constrained(x)
    assert_mean_is([0.0, 0.5, 4.0], np.column_stack([draws["mu[1]"], draws["theta"], draws["sigma[2]"] ** 2]))
    assert_mean_is_not([0.0, 0.5, 5.0], np.column_stack([draws["mu[1]"], draws["theta"], draws["sigma[2]"] ** 2]))


def test_files_are_in_posteriordbs_format(tmp_path):
    form = models.FORMS["normal_2"]
    chains = [command.by_gibbs(form, Y, seed, 1) for seed in (1, 2, 3, 4)]
    others = [command.by_gibbs(form, Y, seed, 1) for seed in (5, 6, 7, 8)]
    rows = command.comparison(form, chains, others)
    command.write(tmp_path, form, chains, command.info(form, rows, [True] * 4, chains))
    with zipfile.ZipFile(tmp_path / f"{form.name}.json.zip") as archive:
        draws = json.loads(archive.read(f"{form.name}.json"))
    assert len(draws) == 4
    assert list(draws[0]) == form.names == ["theta", "mu[1]", "mu[2]"]
    assert len(draws[0]["theta"]) == 1000
    facts = json.loads((tmp_path / f"{form.name}.info.json").read_text())
    assert facts["checks_made"]["methods_agree_within_4_errors"]
    moved = [chain | {"mu[1]": chain["mu[1]"] + 3, "mu[2]": chain["mu[2]"] + 3} for chain in others]
    assert max(abs(row["z"]) for row in command.comparison(form, chains, moved)) > 4


def test_data_are_read_from_json_and_from_zipped_json(tmp_path):
    (tmp_path / "d.json").write_text(json.dumps({"N": 2, "y": [1.0, 2.0]}))
    with zipfile.ZipFile(tmp_path / "d.json.zip", "w") as archive:
        archive.write(tmp_path / "d.json", "d.json")
    for name in ("d.json", "d.json.zip"):
        np.testing.assert_array_equal(models.read_data(tmp_path / name), [1.0, 2.0])
