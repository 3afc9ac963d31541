"""Options as values: what makes no sense is refused when it is written, and earlier spellings name the new one."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.errors import SamplerError
from tempering.sampling.options import MOVED

TARGET = tp.Target(lambda x: -0.5 * jnp.sum(x**2))


def refused(match, **options):
    with pytest.raises(SamplerError, match=match):
        tp.sample(TARGET, **{"initial": np.zeros(1), "draws": 10**9, "progress": False} | options)


VALUES = {
    "a method": (lambda: tp.Method("gibbs"), "method must be one of .*'parallel'.*but got 'gibbs'"),
    "moves of another method": (lambda: tp.Method("simulated", "random"), "one of .*lifted.*but got 'random'"),
    "iterations": (lambda: tp.Tuning(-1), "iterations must be a whole number of at least 0, but got -1"),
    "iterations of a float": (lambda: tp.Tuning(2e3), r"iterations must be a whole number.*Write 2_000\."),
    "an objective": (lambda: tp.Tuning(objective="barier"), "objective must be one of.*but got 'barier'"),
    "a way of learning": (lambda: tp.Tuning(pseudo_prior="guess"), "pseudo_prior must be one of.*but got 'guess'"),
    "logs with NaN": (lambda: tp.Tuning(pseudo_prior=[0.0, np.nan]), "one finite log value per rung"),
    "no tuning with an objective": (lambda: tp.Tuning(0, objective="ess"), "learns nothing"),
    "no tuning that learns": (lambda: tp.Tuning(0, pseudo_prior="mbar"), "learns nothing"),
    "an engine": (lambda: tp.Execution(engine="gpu"), "engine must be 'auto', 'vector' or 'scalar', but got 'gpu'"),
    "an executor": (lambda: tp.Execution(executor=4), r"must be a concurrent.futures.Executor, but got int"),
    "no devices": (lambda: tp.Execution(devices=[]), "at least one device"),
    "devices by number": (lambda: tp.Execution(devices=2), "at least one device.*but got 2"),
    "devices of the scalar engine": (lambda: tp.Execution("scalar", devices=jax.devices()), "engine='scalar' was"),
    "sums of nothing": (lambda: tp.Sums({}), r"by name, but got \{\}"),
    "sums of a number": (lambda: tp.Sums({"x": 3.0}), "map names to functions"),
    "sums of even iterations": (lambda: tp.Sums({"x": np.sum}, every=4), "every must be odd.*every=3"),
    "sums of none": (lambda: tp.Sums({"x": np.sum}, every=0), "every must be a whole number of at least 1"),
    "sums of half": (lambda: tp.Sums({"x": np.sum}, every=2.0), "every must be a whole number"),
}


@pytest.mark.parametrize("name", VALUES)
def test_what_makes_no_sense_cannot_be_written(name):
    make, match = VALUES[name]
    with pytest.raises(SamplerError, match=match):
        make()


def test_devices_and_an_executor_exclude_each_other():
    with ThreadPoolExecutor(1) as pool, pytest.raises(SamplerError, match="an executor was given"):
        tp.Execution(executor=pool, devices=jax.devices())


TOGETHER = {
    "draws of a float": ({"draws": 1e3}, r"draws must be a whole number.*but got 1000\.0\. Write 1_000\."),
    "draws of True": ({"draws": True}, "draws must be a whole number"),
    "tuning by a number": ({"tuning": 500}, r"tuning must be a tempering\.Tuning, but got 500"),
    "execution by a name": ({"execution": "scalar"}, r"execution must be a tempering\.Execution"),
    "until by a number": ({"until": 500}, r"until must be a tempering\.Until"),
    "an objective with a ladder": (
        {"ladder": [1.0, 0.5], "tuning": tp.Tuning(objective="ess")},
        "objective='ess' is for ladders that are tuned",
    ),
    "logs for a ladder that is tuned": ({"tuning": tp.Tuning(pseudo_prior=[0.0, 1.0])}, "the ladder is to be tuned"),
    "a pseudo-prior of two legs": ({"tuning": tp.Tuning(pseudo_prior="mbar")}, "path of one leg"),
    "a pseudo-prior of coupled chains": (
        {"method": "parallel", "ladder": [1.0, 0.5], "tuning": tp.Tuning(pseudo_prior="mbar")},
        "the method is 'parallel', which has none",
    ),
    "populations that are tuned": ({"method": "sequential", "tuning": tp.Tuning(9)}, "tuning was given"),
    "populations until": ({"method": "sequential", "until": tp.Until(seconds=1)}, "until was given"),
    "sums until": ({"keep": tp.Sums({"x": jnp.sum}), "until": tp.Until(seconds=1)}, "until was given"),
    "rounds in a checkpoint": ({"keep": "rounds", "execution": tp.Execution(checkpoint="kept")}, "of this process"),
    "something to keep": ({"keep": "some"}, "keep must be 'draws', 'rounds', a tempering.Draws or a tempering.Sums"),
    "sums by the earlier name": ({"keep": "sums"}, r"keep=tp\.Sums"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_options_that_do_not_go_together_are_refused_before_the_run(name):
    options, match = TOGETHER[name]
    refused(match, **options)


@pytest.mark.parametrize("name", MOVED)
def test_an_earlier_spelling_names_the_new_one(name):
    where = {"reference": "path", "rung_moves": "method", "quantities": "keep", "sum_every": "keep"}
    group = where.get(name) or ("tuning" if name in ("tune", "objective", "pseudo_prior") else "execution")
    refused(f"The argument {name} has moved: write {group}=", **{name: 3})


@pytest.mark.parametrize(
    ("theirs", "ours"), [("seed", "rng=3"), ("num_samples", "draws=3"), ("burn_in", r"tuning=tp.Tuning\(3\)")]
)
def test_what_other_samplers_call_an_argument_names_ours(theirs, ours):
    refused(f"There is no argument {theirs} here: write {ours}", **{theirs: 3})


def test_an_argument_that_never_was_is_refused_as_python_does():
    with pytest.raises(TypeError, match="unexpected keyword argument 'temperature'"):
        tp.sample(TARGET, initial=0.0, temperature=3)


@pytest.mark.parametrize("value", [tp.Method("parallel", "random"), tp.Tuning(9, pseudo_prior=[0.0, 1.0]), tp.Tuning()])
def test_values_are_frozen_equal_and_travel(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert len({value, value}) == 1
    with pytest.raises(AttributeError):
        value.name = "other"
