"""Bad input at every door: one or two sentences of ours, never a traceback from three libraries down."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import tempering as tp
from tempering import prior
from tempering.cli.commands import app
from tempering.cli.user_files import find_target, parse_kernel, parse_path, parse_position
from tempering.doors import emcee, foreign, ptemcee, tables
from tempering.doors.arviz import to_arviz
from tempering.doors.bridgestan import target_of_stan
from tempering.doors.csv_draws import combine_csv
from tempering.doors.numpyro import TemperedSampler, target_from_numpyro
from tempering.doors.numpyro import sample as sample_numpyro
from tempering.doors.pymc import target_from_pymc
from tempering.errors import TemperingError
from tempering.path.ladder import parse_ladder
from tempering.target.batched import Batched


def normal(x):
    return -0.5 * jnp.sum(x**2)


def numpyro_model(y):
    """Not called: its arguments are looked at before."""


TARGET = tp.Target(normal)
SPLIT = tp.Target.from_likelihood(normal, lambda x: -0.5 * jnp.sum(x**2))
QUICK = {"ladder": [1.0, 0.5], "draws": 10, "tuning": tp.Tuning(0), "chains": 1, "progress": False}


class Model:
    """A model object without a step."""

    def initial(self, rng):
        return 0.0


class Whole(Model):
    def step(self, rng, state, k):
        return state

    def energy(self, state):
        return 0.0

    def record(self, state):
        return np.zeros(1)


def sample(**options):
    return tp.sample(options.pop("target", TARGET), **{"initial": np.zeros(2), **QUICK, **options})


def likelihood(priors, function=lambda x: 0.0, **options):
    return tp.Target.from_likelihood(function, priors, **options)


def start(initial, target=TARGET):
    return sample(target=target, initial=initial)


K = np.array([1.0, 0.5])
ENERGY = np.zeros((2, 3, 4))
CHAIN = np.zeros((2, 3, 4, 1))

PRIORS = {
    "sd of 0": lambda: prior.Normal(0, 0),
    "sd below 0": lambda: prior.Normal(0, -1),
    "sd NaN": lambda: prior.Normal(0, np.nan),
    "mean of infinity": lambda: prior.Normal(np.inf, 1),
    "mean of text": lambda: prior.Normal("zero", 1),
    "mean of None": lambda: prior.Normal(None, 1),
    "shape below 0": lambda: prior.Normal(0, 1, shape=-2),
    "shape of text": lambda: prior.Normal(0, 1, shape="two"),
    "shape of 1.5": lambda: prior.Normal(0, 1, shape=1.5),
    "uniform upside down": lambda: prior.Uniform(1, 0),
    "uniform of no width": lambda: prior.Uniform(1, 1),
    "uniform without end": lambda: prior.Uniform(0, np.inf),
    "log uniform from 0": lambda: prior.LogUniform(0, 1),
    "log uniform below 0": lambda: prior.LogUniform(-1, 1),
    "student without freedom": lambda: prior.StudentT(0.0),
    "student scale": lambda: prior.StudentT(3.0, 0.0, -1.0),
    "cauchy scale": lambda: prior.Cauchy(0, 0),
    "half normal scale": lambda: prior.HalfNormal(-1),
    "half cauchy scale": lambda: prior.HalfCauchy(0),
    "log normal sd": lambda: prior.LogNormal(0, 0),
    "gamma shape": lambda: prior.Gamma(0),
    "gamma rate": lambda: prior.Gamma(1, -1),
    "inverse gamma": lambda: prior.InverseGamma(-1),
    "exponential rate": lambda: prior.Exponential(0),
    "beta a": lambda: prior.Beta(0, 1),
    "beta bounds": lambda: prior.Beta(1, 1, 3, 2),
    "truncated bounds": lambda: prior.TruncatedNormal(0, 1, 2, 1),
    "von mises": lambda: prior.VonMises(0, -1.0),
    "dirichlet of one": lambda: prior.Dirichlet([1.0]),
    "dirichlet of a number": lambda: prior.Dirichlet(1.0),
    "dirichlet below 0": lambda: prior.Dirichlet([1.0, -1.0]),
    "dirichlet copies": lambda: prior.Dirichlet([1.0, 1.0], shape=2),
    "covariance of another size": lambda: prior.MultivariateNormal([0, 0], np.eye(3)),
    "covariance not positive": lambda: prior.MultivariateNormal([0, 0], -np.eye(2)),
    "covariance not symmetric": lambda: prior.MultivariateNormal([0, 0], [[1.0, 0.5], [0.0, 1.0]]),
    "cube of no function": lambda: prior.UnitCube(3, 2),
    "cube of no size": lambda: prior.UnitCube(abs, 0),
    "cube of half a size": lambda: prior.UnitCube(abs, 1.5),
    "a number for a prior": lambda: likelihood({"a": 3.0}),
    "a class for a prior": lambda: likelihood({"a": prior.Normal}),
    "a name that is no text": lambda: likelihood({1: prior.Normal()}),
    "a discrete prior": lambda: likelihood({"a": stats.poisson(3.0)}),
    "a list with a number": lambda: likelihood([prior.Normal(), 3.0]),
    "scipy without parameters": lambda: likelihood({"a": stats.norm}),
    "names that do not match": lambda: likelihood({"a": prior.Normal(), "b": prior.Normal()}, lambda a, c: 0.0),
    "arguments too few": lambda: likelihood({"a": prior.Normal(), "b": prior.Normal()}, lambda a: 0.0),
    "arguments too many": lambda: likelihood({"a": prior.Normal()}, lambda a, b: 0.0),
    "priors and a sampler": lambda: likelihood({"a": prior.Normal()}, lambda a: 0.0, sample_prior=abs),
    "a start outside a prior": lambda: start({"a": -1.0}, likelihood({"a": prior.Gamma(1.0)}, lambda a: -a)),
    "a start of another shape": lambda: start({"a": [1.0, 2.0]}, likelihood({"a": prior.Gamma(1.0)}, lambda a: -a)),
    "a start without names": lambda: start(1.0, likelihood({"a": prior.Gamma(1.0), "b": prior.Gamma(1.0)}, normal)),
    "a start too short": lambda: start([1.0], likelihood([prior.Normal(), prior.Normal()], normal)),
    "a start for a cube": lambda: start([0.5], likelihood(prior.UnitCube(lambda c: c, 1), normal)),
}
TARGETS = {
    "a number": lambda: tp.Target(3.0),
    "text": lambda: tp.Target("normal"),
    "None": lambda: tp.Target(None),
    "no likelihood": lambda: tp.Target.from_likelihood(None, normal),
    "no prior": lambda: tp.Target.from_likelihood(normal, None),
    "a number for a prior": lambda: tp.Target.from_likelihood(normal, 0.0),
    "a draw for a sampler": lambda: tp.Target.from_likelihood(normal, normal, 0.0),
    "blobs of text": lambda: tp.Target(normal, blobs="a"),
    "blobs of numbers": lambda: tp.Target(normal, blobs=[1]),
    "a complex density": lambda: sample(target=tp.Target(lambda x: 1j * x[0])),
    "a complex density of NumPy": lambda: sample(target=tp.Target(lambda x: complex(np.float64(x[0]), 1.0))),
    "a density of a vector": lambda: sample(target=tp.Target(lambda x: x)),
    "a density without return": lambda: sample(target=tp.Target(lambda x: None)),
    "a density of text": lambda: sample(target=tp.Target(lambda x: "high")),
    "a density with an error": lambda: sample(target=tp.Target(lambda x: {}["a"])),
    "an index too far": lambda: sample(target=tp.Target(lambda x: float(np.asarray(x)[7]))),
    "names the function has not": lambda: start({"a": 0.0}, tp.Target(lambda p: p["b"])),
    "a vector for named ones": lambda: start(np.zeros(2), tp.Target(lambda p: -(p["a"] ** 2))),
    "a flat prior": lambda: start(np.zeros(2), tp.Target.from_likelihood(normal, lambda x: 0.0 * x[0])),
    "a flat prior of NumPy": lambda: start(
        np.zeros(2), tp.Target.from_likelihood(normal, lambda x: float(np.float64(0)))
    ),
    "a half flat prior": lambda: start(
        np.ones(2), tp.Target.from_likelihood(normal, lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf))
    ),
    "k = 0 without a base": lambda: sample(ladder=[1.0, 0.0]),
    "a batch of one number": lambda: Batched(lambda x: 0.0)(np.zeros(2)),
    "a batch of vectors": lambda: Batched(lambda x: x)(np.zeros(2)),
    "a batch of complex numbers": lambda: Batched(lambda x: 1j * x[:, 0])(np.zeros(2)),
    "a batch without its blob": lambda: Batched(lambda x: (x[:, 0],), ("a",))(np.zeros(2)),
}
STARTS = {
    "nowhere to start": lambda: start(None),
    "an empty list": lambda: start([]),
    "text": lambda: start("origin"),
    "a function": lambda: start(np.zeros),
    "True": lambda: start(True),
    "an empty array": lambda: start(np.zeros(0)),
    "an empty dictionary": lambda: start({}),
    "text in a dictionary": lambda: start({"a": "zero"}, tp.Target(lambda p: 0.0)),
    "a complex start": lambda: start(np.array([1j, 0.0])),
    "starts of several shapes": lambda: start([np.zeros(2), np.zeros(3)]),
    "rows or one position": lambda: start(np.zeros((4, 2))),
    "outside the support": lambda: start(np.full(2, -1.0), tp.Target(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf))),
    "where it is NaN": lambda: start(np.full(2, -1.0), tp.Target(lambda x: jnp.log(x[0]) - x[0])),
}
OPTIONS = {
    "method": lambda: sample(method="boiled"),
    "method of None": lambda: sample(method=None),
    "kernel of text": lambda: sample(kernel="nuts"),
    "kernel class": lambda: sample(kernel=tp.kernels.Slice),
    "kernel of a number": lambda: sample(kernel=3),
    "draws of 0": lambda: sample(draws=0),
    "draws below 0": lambda: sample(draws=-5),
    "draws of 100.0": lambda: sample(draws=100.0),
    "draws of text": lambda: sample(draws="many"),
    "draws of True": lambda: sample(draws=True),
    "tune below 0": lambda: sample(tuning=tp.Tuning(-1)),
    "tune of 1.5": lambda: sample(tuning=tp.Tuning(1.5)),
    "chains of 0": lambda: sample(chains=0),
    "chains of 2.0": lambda: sample(chains=2.0),
    "rng of text": lambda: sample(rng="seed"),
    "rng below 0": lambda: sample(rng=-1),
    "engine": lambda: sample(execution=tp.Execution(engine="steam")),
    "rung moves": lambda: sample(method=tp.Method("simulated", "up")),
    "rung moves of the other method": lambda: sample(method=tp.Method("parallel", "lifted")),
    "pseudo-prior": lambda: sample(tuning=tp.Tuning(pseudo_prior="guess")),
    "pseudo-prior of another length": lambda: sample(tuning=tp.Tuning(pseudo_prior=np.zeros(3))),
    "pseudo-prior with NaN": lambda: sample(tuning=tp.Tuning(pseudo_prior=np.array([0.0, np.nan]))),
    "a ladder without cold": lambda: sample(ladder=[0.5, 0.1]),
    "a ladder that rises": lambda: sample(ladder=[1.0, 0.1, 0.5]),
    "a ladder above 1": lambda: sample(ladder=[2.0, 1.0]),
    "a ladder below 0": lambda: sample(ladder=[1.0, -0.5]),
    "an empty ladder": lambda: sample(ladder=[]),
    "a ladder with NaN": lambda: sample(ladder=[1.0, np.nan]),
    "a path by no name": lambda: sample(path="scenic", ladder=None),
    "keep": lambda: sample(keep="all"),
    "sums without quantities": lambda: sample(keep="sums"),
    "sums of nothing": lambda: sample(keep=tp.Sums({})),
    "an executor of text": lambda: sample(execution=tp.Execution(executor="threads")),
    "a model class": lambda: tp.sample(Whole, **QUICK),
    "a model without a step": lambda: tp.sample(Model(), **QUICK),
    "a function for a target": lambda: tp.sample(normal, **QUICK),
    "a number for a target": lambda: tp.sample(3.0, **QUICK),
    "harmonic of none": lambda: tp.Ladder.harmonic(0, 0.1),
    "geometric above 1": lambda: tp.Ladder.geometric(5, 10),
    "geometric to 0": lambda: tp.Ladder.geometric(5, 0),
    "a ladder of text": lambda: tp.Ladder("hot"),
    "a ladder of None": lambda: tp.Ladder(None),
    "a ladder of tables": lambda: tp.Ladder([[1.0, 0.5]]),
    "a run that is not there": lambda: tp.load("nowhere.zarr"),
}
FOREIGN = {
    "ptemcee: axes": lambda: foreign.from_ptemcee(np.zeros((2, 3, 4)), ENERGY, K),
    "ptemcee: temperatures": lambda: foreign.from_ptemcee(CHAIN, ENERGY, [1.0, 0.5, 0.1]),
    "ptemcee: k above 1": lambda: foreign.from_ptemcee(CHAIN, ENERGY, [2.0, 1.0]),
    "ptemcee: shapes": lambda: foreign.from_ptemcee(np.zeros((2, 3, 5, 1)), ENERGY, K),
    "ptemcee: names": lambda: foreign.from_ptemcee(CHAIN, ENERGY, K, names=["a", "b"]),
    "emcee: axes": lambda: foreign.from_emcee(np.zeros(3), ENERGY, K),
    "eryn: axes": lambda: foreign.from_eryn({"a": np.zeros((4, 2, 3))}, np.zeros((4, 2, 3)), K),
    "tfp: shapes": lambda: foreign.from_tfp(np.zeros((5, 3)), np.zeros((5, 2)), K),
    "blackjax: falling": lambda: foreign.from_blackjax_smc(np.zeros((2, 3)), [1.0, 0.5], np.zeros((2, 3))),
    "pigeons: axes": lambda: foreign.from_pigeons(np.zeros((3, 2)), K, np.zeros((3, 2))),
    "csv: no file": lambda: combine_csv("no.csv", energy="e", inverse_temperature="k", values=["x"]),
    "combine: lengths": lambda: tp.combine(np.zeros(3), np.zeros(2), np.zeros(3, int)),
    "combine: rule": lambda: tp.combine(np.zeros(3), np.zeros(3), np.zeros(3, int), rule="best"),
    "combine: rung below 0": lambda: tp.combine(np.zeros(3), np.zeros(3), -np.ones(3, int)),
    "combine: NaN weights": lambda: tp.combine(np.zeros(3), np.full(3, np.nan), np.zeros(3, int)),
}
DOORS = {
    "pymc: no model": lambda: target_from_pymc(3),
    "numpyro: no model": lambda: target_from_numpyro(3),
    "numpyro: not run": lambda: TemperedSampler(normal).get_weighted_samples(),
    "ptemcee: no function": lambda: ptemcee.Sampler(4, 2, 3.0, normal, ntemps=2),
    "ptemcee: no prior": lambda: ptemcee.Sampler(4, 2, normal, None, ntemps=2),
    "ptemcee: walkers": lambda: ptemcee.Sampler(0, 2, normal, normal, ntemps=2),
    "ptemcee: dimensions": lambda: ptemcee.Sampler(4, 1.5, normal, normal, ntemps=2),
    "ptemcee: no ladder": lambda: ptemcee.Sampler(4, 2, normal, normal),
    "ptemcee: no start": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2).run_mcmc(iterations=3),
    "ptemcee: start of a shape": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2).run_mcmc(
        np.zeros((2, 3, 2)), 3
    ),
    "ptemcee: no draws": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2).log_evidence_estimate(),
    "ptemcee: no run": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2).run,
    "ptemcee: Tmax alone": lambda: ptemcee.default_beta_ladder(2, None, np.inf),
    "emcee: no function": lambda: emcee.EnsembleSampler(4, 2, None),
    "emcee: start": lambda: emcee.EnsembleSampler(4, 2, normal).run_mcmc(np.zeros(2), 3),
    "emcee: not run": lambda: emcee.EnsembleSampler(4, 2, normal).get_chain(),
    "emcee: names of blobs": lambda: emcee.EnsembleSampler(4, 2, normal, blob_names=["a"]).run_mcmc(
        np.zeros((4, 2)), 3
    ),
    "stan: parameters": lambda: target_of_stan(Named(["a"]), Named(["a", "b"])),
    "file: no colon": lambda: find_target("model.py"),
    "file: not there": lambda: find_target("no.py:f"),
    "file: no module": lambda: find_target("no_such_module:f"),
    "file: no attribute": lambda: find_target("math:nothing"),
    "file: a number": lambda: find_target("math:pi"),
    "position": lambda: parse_position("here"),
    "position: text": lambda: parse_position('{"a": "b"}'),
    "position: half a list": lambda: parse_position("[1, "),
    "ladder": lambda: parse_ladder("hot,cold"),
    "kernel": lambda: parse_kernel("best"),
    "path": lambda: parse_path("best"),
}


def finished(names=("x",)):
    """Return a run of exact draws, for questions asked of it."""
    x = np.random.default_rng(1).normal(size=(2, 50))
    values = {name: x for name in names}
    return tp.TemperedDraws.of_energies(values, np.tile([0, 1], (2, 25)), -0.5 * x**2, tp.Ladder([1.0, 0.5]))


def shut_down():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    return executor


def on_command_line(*arguments, text="def f(x):\n    return -x * x\n"):
    """Run the command line on a file with this text, called FILE, in a folder called HERE."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "mine.py")
        path.write_text(text)
        told = [a.replace("FILE", str(path)).replace("HERE", folder) for a in arguments]
        if told[0] == "sample" and "-o" not in told:
            told += ["-o", f"{folder}/run.zarr"]
        raise CliRunner().invoke(app, told).exception


def on_file(text, *arguments):
    return on_command_line("sample", "FILE:f", "--initial", "0", *arguments, text=text)


GOOD = "def f(x):\n    return -x * x\n"
QUESTIONS = {
    "expect: text": lambda: finished().expect("x"),
    "expect: None": lambda: finished().expect(None),
    "expect: text returned": lambda: finished().expect(lambda x: "a"),
    "expect: complex numbers": lambda: finished().expect(lambda x: 1j * x),
    "expect: an index too far": lambda: finished().expect(lambda x: x[..., 7]),
    "expect: another name": lambda: finished(("a", "b")).expect(lambda c: c),
    "expect: one position": lambda: finished(("a", "b")).expect(lambda p: p["a"]),
    "expect: a sum over draws": lambda: finished().expect(np.sum),
    "quantile of 2": lambda: finished().quantile(2.0),
    "hdi of 1": lambda: finished().hdi(1.0),
    "a name that is not there": lambda: finished().quantile(0.5, "y"),
    "rule of None": lambda: finished().weights(None),
    "rule of a list": lambda: finished().ess(["mbar"]),
    "more than none": lambda: replace(finished(), go_on=abs).more(0),
    "less": lambda: replace(finished(), go_on=abs).more(-3),
    "half a draw more": lambda: replace(finished(), go_on=abs).more(1.5),
    "more of another run": lambda: finished().more(10),
    "join nothing": lambda: tp.join([]),
    "join a number": lambda: tp.join([finished(), 3]),
    "join others": lambda: tp.join([finished(), finished(("a",))]),
    "arviz of no draws": lambda: to_arviz(finished(), n_draws=0),
    "arviz of half a draw": lambda: to_arviz(finished(), n_draws=2.5),
    "arviz of a number": lambda: to_arviz(3),
    "pandas of a number": lambda: tables.to_pandas(3),
    "getdist of text": lambda: tables.write_getdist("run", "chain"),
    "load None": lambda: tp.load(None),
    "load a file": lambda: tp.load(__file__),
    "combine text": lambda: tp.combine(["a"] * 3, np.zeros(3), np.zeros(3, int)),
    "combine nothing": lambda: tp.combine(np.zeros(0), np.zeros(0), np.zeros(0, int)),
    "combine half rungs": lambda: tp.combine(np.zeros(3), np.zeros(3), np.full(3, 1.5)),
    "until text": lambda: tp.Until(seconds="ten"),
    "until nothing": lambda: tp.Until(),
    "until without a quantity": lambda: tp.Until(standard_error=0.1),
    "a checkpoint of a number": lambda: tp.Execution(checkpoint=3),
    "an executor that is shut down": lambda: sample(execution=tp.Execution(executor=shut_down())),
    "parameters that do not fit": lambda: prior.Normal([0.0, 1.0], [1.0, 1.0, 1.0]),
    "a cube that gives text": lambda: sample(
        target=likelihood(prior.UnitCube(lambda c: "a", 2), lambda x: -(x**2)), initial=None
    ),
    "a batch of one for all": lambda: sample(target=tp.Target(lambda x: 0.0, batched=True)),
    "a batch that fails later": lambda: sample(
        target=tp.Target(FailsLater(), batched=True), tuning=tp.Tuning(64), draws=100
    ),
    "harmonic of text": lambda: tp.Ladder.harmonic("ten", 0.1),
    "ptemcee: text for betas": lambda: ptemcee.Sampler(4, 2, normal, normal, betas="hot"),
    "ptemcee: one argument": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2, loglargs=3),
    "ptemcee: no pool": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2, pool=3),
    "emcee: walkers": lambda: emcee.EnsembleSampler(0, 2, normal),
    "emcee: one argument": lambda: emcee.EnsembleSampler(4, 2, normal, args=3),
    "emcee: a batch of one for all": lambda: emcee.EnsembleSampler(4, 2, lambda x: 0.0, vectorize=True).run_mcmc(
        np.ones((4, 2)), 3
    ),
}
AGAIN = {  # what an impatient new user wrote
    "option: seed": lambda: sample(seed=1),
    "option: num_samples": lambda: sample(num_samples=100),
    "option: temperatures": lambda: sample(temperatures=[1, 2]),
    "option: cores": lambda: sample(cores=2),
    "ladder: a number of rungs": lambda: sample(ladder=5),
    "ladder: temperatures": lambda: sample(ladder=[1, 2, 4, 8]),
    "ladder: a class": lambda: sample(ladder=tp.Ladder),
    "rng: a module": lambda: sample(rng=np.random),
    "rng: a list": lambda: sample(rng=[1, 2]),
    "until: a number": lambda: sample(until=100),
    "tuning: a number": lambda: sample(tuning=1000),
    "execution: a pool": lambda: sample(execution=ThreadPoolExecutor(1)),
    "keep: names": lambda: sample(keep=tp.Sums(["x"])),
    "path: a distribution": lambda: sample(path=stats.norm, ladder=None),
    "start: NaN": lambda: start(np.array([np.nan, 0.0])),
    "start: infinity": lambda: start(np.array([np.inf, 0.0])),
    "start: a table": lambda: start(pd.DataFrame({"a": [0.0]})),
    "start: None in an array": lambda: start(np.array([None, 1.0])),
    "start: dates": lambda: start(np.array(["2020-01-01"], dtype="datetime64[D]")),
    "prior: bounds": lambda: likelihood({"a": (0, 1)}, lambda a: 0.0),
    "prior: none": lambda: likelihood({}, lambda: 0.0),
    "prior: several at once": lambda: likelihood({"a": stats.multivariate_normal(np.zeros(2))}, lambda a: 0.0),
    "quantile: text": lambda: finished().quantile("median"),
    "quantile: a percentage": lambda: finished().quantile(50),
    "save: None": lambda: finished().save(None),
    "save: nowhere": lambda: finished().save("/proc/run.zarr"),
    "report: None": lambda: finished().report(None),
    "arviz: a seed of text": lambda: to_arviz(finished(), rng="x"),
    "join: one run": lambda: tp.join(finished()),
    "combine: weights of text": lambda: tp.combine(np.zeros(3), ["a"] * 3, np.zeros(3, int)),
    "plots: a number": lambda: tp.plots.plot_pairs(3),
    "plots: text": lambda: tp.plots.plot_rungs("run"),
    "plots: another name": lambda: tp.plots.plot_pairs(finished(), ["nope"]),
    "ptemcee: no temperatures": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=0),
    "ptemcee: half a temperature": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2.5),
    "ptemcee: Tmax of 0": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2, Tmax=0),
    "ptemcee: text for p0": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2).run_mcmc("here", 3),
    "ptemcee: NaN for p0": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2).run_mcmc(
        np.full((2, 4, 2), np.nan), 3
    ),
    "ptemcee: no thinning": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2).run_mcmc(
        np.zeros((2, 4, 2)), 3, thin=0
    ),
    "emcee: text for a start": lambda: emcee.EnsembleSampler(4, 2, normal).run_mcmc("p0", 10),
    "numpyro: our option": lambda: sample_numpyro(numpyro_model, 1.0, draws=10),
    "numpyro: no data": lambda: sample_numpyro(numpyro_model),
    "numpyro: a model that fails": lambda: target_from_numpyro(lambda: {}["a"]),
    "numpyro: options of text": lambda: sample_numpyro(numpyro_model, 1.0, options="fast"),
    "emcee: a density that fails": lambda: emcee.EnsembleSampler(4, 2, lambda x: {}["a"]).run_mcmc(
        np.zeros((4, 2)), 10
    ),
    "emcee: moves": lambda: emcee.EnsembleSampler(4, 2, normal, moves=[1]),
    "command: no start": lambda: on_command_line("sample", "FILE:f"),
    "command: a tuple": lambda: on_command_line("sample", "FILE:f", "--initial", "(0,1)"),
    "command: NaN": lambda: on_command_line("sample", "FILE:f", "--initial", "NaN"),
    "command: temperatures": lambda: on_file(GOOD, "--ladder", "1,2,4"),
    "command: tabs and blanks": lambda: on_file("def f(x):\n\tif x:\n        return 1\n"),
    "command: another column": lambda: on_command_line(*CSV, text="a,b\n1,2\n"),
    "command: rows of several lengths": lambda: on_command_line(*CSV, text="e,k,x\n1,1\n1,1,1,1\n"),
    "command: temperatures in a file": lambda: on_command_line(*CSV, text="e,k,x\n1,2,1\n1,1,1\n"),
}
CSV = ("combine", "FILE", "--energy", "e", "--inverse-temperature", "k", "--values", "x")
MORE = {  # what passed in silence, or ended three libraries down
    "expect: NaN": lambda: finished().expect(lambda x: np.where(x > 0, x, np.nan)),
    "expect: infinity": lambda: finished().expect(lambda x: np.where(x > 0, x, np.inf)),
    "combine: NaN": lambda: tp.combine([1.0, np.nan, 2.0], np.zeros(3), np.zeros(3, int)),
    "draws without end": lambda: sample(draws=10**15),
    "chains without end": lambda: sample(chains=10**9),
    "kernel: a scale below 0": lambda: sample(kernel=tp.kernels.RandomWalk(scale=-1)),
    "kernel: a scale of 0": lambda: sample(kernel=tp.kernels.Slice(0)),
    "kernel: a scale in words": lambda: sample(kernel=tp.kernels.RandomWalk(scale="big")),
    "kernel: steps in words": lambda: tp.kernels.Hamiltonian("four"),
    "checkpoint: seconds below 0": lambda: tp.Checkpoint("run", seconds=-1),
    "checkpoint: seconds in words": lambda: tp.Checkpoint("run", seconds="often"),
    "plots: names of a number": lambda: tp.plots.plot_pairs(finished(), 3),
    "draws: shapes": lambda: tp.TemperedDraws.of_energies(
        {"x": np.zeros((2, 3))}, np.zeros((2, 4), int), np.zeros((2, 4)), tp.Ladder([1.0])
    ),
    "draws: a rung too far": lambda: tp.TemperedDraws.of_energies(
        {"x": np.zeros((2, 3))}, np.ones((2, 3), int), np.zeros((2, 3)), tp.Ladder([1.0])
    ),
    "likelihood: impossible data": lambda: sample(
        target=likelihood(prior.Normal(), lambda x: jnp.where(x > 1e3, 0.0, -jnp.inf)), initial=None
    ),
    "start: words by name": lambda: start({"a": "one"}, likelihood({"a": prior.Normal()}, lambda a: -(a**2))),
    "stan: no model": lambda: target_of_stan(1, 2),
    "numpyro: a number": lambda: TemperedSampler(3),
    "ptemcee: autocorrelation before a run": lambda: ptemcee.Sampler(
        4, 2, normal, normal, ntemps=2
    ).get_autocorr_time(),
    "ptemcee: a seed in words": lambda: ptemcee.Sampler(4, 2, normal, normal, ntemps=2, random="seed"),
    "emcee: other walkers": lambda: emcee.EnsembleSampler(4, 2, normal).run_mcmc(np.ones((5, 2)), 3),
    "getdist: a number for a place": lambda: tables.write_getdist(finished(), 3),
    "getdist: labels": lambda: tables.to_getdist(finished(), labels=3),
    "parquet: nowhere": lambda: tables.to_parquet(finished(), "/nowhere/run.parquet"),
    "csv: no values": lambda: combine_csv("no.csv", energy="e", inverse_temperature="k", values=[]),
    "blackjax: words": lambda: foreign.from_blackjax_smc("a", "b", "c"),
}
COMMANDS = {
    "a file that exits": lambda: on_file("import sys\nsys.exit(3)\n"),
    "a file with options of its own": lambda: on_file(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', required=True)\np.parse_args()\n"
    ),
    "a file of NULs": lambda: on_file("x = 1\x00\n"),
    "a function without end": lambda: on_file("def f(x):\n    return f(x)\n"),
    "a generator": lambda: on_file("def f(x):\n    yield x\n"),
    "text for a density": lambda: on_file("f = 'normal'\n"),
    "no name for the run": lambda: on_file(GOOD, "-o", ""),
    "a disk that takes nothing": lambda: on_file(GOOD, "-o", "/proc/run.zarr"),
    "true": lambda: on_command_line("sample", "FILE:f", "--initial", "true"),
    "null": lambda: on_command_line("sample", "FILE:f", "--initial", "null"),
    "a ladder with a gap": lambda: on_file(GOOD, "--ladder", "1,,0.5"),
    "no worker": lambda: on_file(GOOD, "--workers", "0"),
    "a checkpoint that is a file": lambda: on_file(GOOD, "--checkpoint", "FILE"),
    "a checkpoint in use": lambda: on_file(GOOD, "--checkpoint", "HERE"),
    "a kernel that is none": lambda: on_file(GOOD + "K = 3\n", "--kernel", "FILE:K"),
    "a kernel that fails": lambda: on_file(GOOD + "def K():\n    return [][0]\n", "--kernel", "FILE:K"),
    "a report of no run": lambda: on_command_line("report", ""),
    "a report of a file": lambda: on_command_line("report", "FILE"),
    "a demo into a file": lambda: on_command_line("demo", "--folder", "FILE"),
    "a table of one run": lambda: on_command_line("reproduce", "table2", "--runs", "1"),
}


class FailsLater:
    """A density of many positions that fails once it has been called some times."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        if self.calls > 40:
            raise ArithmeticError("the emulator is out of its range")
        return -0.5 * np.sum(x**2, axis=1)


class Named:
    def __init__(self, names):
        self.names = names

    def param_unc_names(self):
        return self.names


CASES = {
    f"{group}: {name}": call
    for group, calls in {
        "prior": PRIORS,
        "target": TARGETS,
        "start": STARTS,
        "option": OPTIONS,
        "foreign": FOREIGN,
        "door": DOORS,
        "question": QUESTIONS,
        "command": COMMANDS,
        "again": AGAIN,
        "more": MORE,
    }.items()
    for name, call in calls.items()
}


def test_the_battery_is_large():
    assert len(CASES) >= 320


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_sentence_of_ours(name):
    with pytest.raises(TemperingError) as found:
        CASES[name]()
    said = str(found.value)
    assert 20 < len(said) < 700
    assert said[0].isupper() or re.match(r"[a-z_0-9]+[ =.(:[]|[/.]\S* ", said)  # the name of an argument, or a place
    assert said.rstrip()[-1] in ".)'\""
    assert "Traceback" not in said
    assert "jaxlib" not in said
