"""Runs in sums against the same runs with their draws kept: both engines, both methods."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import assert_variance_is_one, seeded_rng
from tall_spike import SPIKE, spike
from tempering import problems
from tempering.engines.trace import Trace
from tempering.errors import EstimatorError, SamplerError
from tempering.estimators import RULES
from tempering.estimators.regeneration import round_trips
from tempering.estimators.running.rungs import RunningRungs
from tempering.learning.rounds import swap_acceptance
from tempering.path import Path
from tempering.recorders import summing
from tempering.recorders.index_sums import sums_of_trace
from tempering.recorders.summing import block_shape, length_on_device
from turns import go_on_by

PROBLEM = problems.skewed(2)
KERNEL = tp.kernels.RandomWalk()  # one value: code compiled for it is found again
LADDER = tp.Ladder([1.0, 0.6, 0.3, 0.15])
QUANTITIES = {"x": lambda x: x, "radius": lambda x: (x**2).sum(axis=-1)}
EXACT = [rule for rule in RULES if rule != "autocorrelation_adjusted"]


def plain_density(x):
    return float(PROBLEM.log_density(np.asarray(x)))


SCALAR, VECTOR = tp.Execution(engine="scalar"), tp.Execution(engine="vector")
ROWS = {
    "vector simulated": (PROBLEM.log_density, {"execution": VECTOR, "chains": 24}),
    "vector parallel": (
        PROBLEM.log_density,
        {"execution": VECTOR, "chains": 6, "method": "parallel"},
    ),
    "numba simulated": (PROBLEM.log_density_numba, {"execution": SCALAR, "chains": 3}),
    "numba parallel": (
        PROBLEM.log_density_numba,
        {"execution": SCALAR, "chains": 2, "method": "parallel"},
    ),
    "python simulated": (plain_density, {"execution": SCALAR, "chains": 2}),
}


def run(density, draws=1000, rng=1, **options):
    common = {"initial": np.zeros(2), "ladder": LADDER, "tuning": tp.Tuning(320), "progress": False, "path": "powers"}
    common |= {"kernel": KERNEL}
    target = density if isinstance(density, tp.Target) else tp.Target(density)
    return tp.sample(target, draws=draws, rng=rng, **(common | options))


@pytest.fixture(scope="module", params=list(ROWS))
def both(request):
    density, options = ROWS[request.param]
    if request.param.startswith("python"):
        options = options | {"draws": 300}
    return run(density, **options), run(density, **options, keep=tp.Sums(QUANTITIES))


@pytest.mark.slow
def test_sums_give_what_the_draws_give(both):
    draws, sums = both
    assert isinstance(sums, tp.TemperedSums)
    assert sums.n_chains == draws.n_chains
    assert sums.n_draws == draws.n_draws
    assert np.array_equal(sums.visits, draws.visits)
    for name, function in QUANTITIES.items():
        for rule in EXACT:
            kept, summed = draws.expect(function, rule), sums.expect(name, rule)
            spread = np.std(function(draws.values["x"]), axis=(0, 1))
            # bins are a thirtieth of the cold energies' spread: (a w)^2 / 8 at the most
            assert np.all(np.abs(summed.value - kept.value) < 2e-3 * spread), (name, rule)
            assert np.all(summed.standard_error > 0.4 * kept.standard_error), (name, rule)
            assert np.all(summed.standard_error < 2.5 * kept.standard_error), (name, rule)
    for rule in EXACT:
        assert np.isclose(sums.ess(rule), draws.ess(rule), rtol=1e-3)
        assert np.allclose(sums.shares(rule), draws.shares(rule), atol=3e-3)


@pytest.mark.slow
def test_the_index_process_is_that_of_the_draws(both):
    draws, sums = both
    assert sums.n_round_trips == draws.n_round_trips
    kept, summed = draws.rungs(), sums.rungs()
    assert list(kept.columns) == list(summed.columns)
    for column in ("move_acceptance", "exchange_acceptance"):
        # rates of some of the draws, correlated: a fifth of them at the least, ten to an independent one
        noise = 5 * np.sqrt(0.25 * 50 / draws.visits)
        assert np.all(np.abs(kept[column] - summed[column])[:-1] < noise[:-1]), (column, kept, summed)


def test_evidence_and_quantiles_are_near_those_of_the_draws(both):
    draws, sums = both
    kept, summed = draws.log_evidence().by_method, sums.log_evidence().by_method
    assert kept.keys() == summed.keys()
    for name in kept:
        assert abs(kept[name].value - summed[name].value) < 1e-4, name
    p = np.array([0.1, 0.5, 0.9])
    found, expected = sums.quantile(p, "x"), draws.quantile(p)
    error = 5 * np.std(draws.values["x"], axis=(0, 1)) / np.sqrt(draws.ess("mbar") / 30)
    assert found.shape == expected.shape == (3, 2)
    assert np.all(np.abs(found - expected) < error)


def test_a_summary_and_a_repr_can_be_read(both):
    _, sums = both
    table = sums.summary()
    assert list(table.index) == ["x[0]", "x[1]", "radius"]
    assert np.all(table["5%"] < table["50%"])
    assert np.all(table["50%"] < table["95%"])
    assert "x, radius over" in repr(sums)
    assert sums.names == ("x", "radius")


@pytest.mark.slow
def test_runs_of_two_seeds_are_merged():
    options = {"execution": VECTOR, "chains": 8, "keep": tp.Sums(QUANTITIES)}
    target = tp.Target(PROBLEM.log_density)
    one = run(target, rng=1, **options)
    compiled = summing.build_sums_block.cache_info().misses
    two = run(target, rng=2, **options)
    assert summing.build_sums_block.cache_info().misses == compiled  # found again
    merged = one.merge(two)
    assert np.array_equal(merged.visits, one.visits + two.visits)
    assert merged.n_chains == 16
    assert merged.n_round_trips == one.n_round_trips + two.n_round_trips
    estimates = [s.expect("radius", "ess_optimal") for s in (one, two, merged)]
    assert min(e.value for e in estimates[:2]) < estimates[2].value < max(e.value for e in estimates[:2])
    assert estimates[2].standard_error < max(e.standard_error for e in estimates[:2])
    assert merged.nbytes < 2.1 * one.nbytes
    with pytest.raises(EstimatorError, match="both have the seed 1"):
        one.merge(one)


@pytest.mark.long
def test_memory_is_that_of_a_short_run():
    options = {"execution": VECTOR, "chains": 4, "keep": tp.Sums(QUANTITIES)}
    long, longer = (run(PROBLEM.log_density, draws=n, **options) for n in (10_000, 40_000))
    assert longer.nbytes <= long.nbytes
    assert longer.visits.sum() == 160_000


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"keep": tp.Sums({"x": lambda x: x.sum()})}, "leading axes"),
        ({"keep": tp.Sums({"x": lambda x: 1.0 if x[0, 0, 0] > 0 else 0.0})}, "jax.numpy"),
        ({"keep": tp.Sums({"x": lambda y, z: y})}, "raised TypeError"),
        ({"method": "sequential", "ladder": None}, "is for chains"),
        ({"execution": tp.Execution(devices=jax.devices() * 3)}, "multiple of that of the devices"),
        ({"keep": tp.Sums(QUANTITIES, every=21), "draws": 20}, "the number of draws, 20, but got 21"),
    ],
)
def test_what_cannot_be_summed_is_refused_before_the_run(change, match):
    def never(x):
        return PROBLEM.log_density(x)

    options = {
        "execution": VECTOR,
        "chains": 4,
        "keep": tp.Sums(QUANTITIES),
        "draws": 10**9,
    } | change
    with pytest.raises(SamplerError, match=match):
        run(never, **options)


def test_bad_quantities_are_refused_on_the_scalar_engine_too():
    with pytest.raises(SamplerError, match="leading axes"):
        run(plain_density, execution=SCALAR, keep=tp.Sums({"x": lambda x: x.sum()}), draws=10**9)
    with pytest.raises(SamplerError, match="raised ZeroDivisionError"):
        run(plain_density, execution=SCALAR, keep=tp.Sums({"x": lambda x: 1 / 0}), draws=10**9)
    with pytest.raises(SamplerError, match="vector engine"):
        run(plain_density, execution=tp.Execution(devices=jax.devices()))
    with pytest.raises(SamplerError, match="which sums every draw"):
        run(plain_density, execution=SCALAR, keep=tp.Sums(QUANTITIES, every=3))


@pytest.mark.slow
def test_a_nan_far_into_a_run_is_outside_the_support():
    def density(x):
        return jnp.where(x > 2.5, jnp.nan, -0.5 * x**2)

    sums = tp.sample(
        tp.Target(density),
        initial=0.0,
        ladder=[1.0, 0.9],
        tuning=tp.Tuning(0),
        draws=20_000,
        chains=4,
        rng=3,
        progress=False,
        keep=tp.Sums({"beyond": lambda x: x > 2.5, "inside": lambda x: x <= 2.5}),
    )
    assert sums.expect("beyond").value == 0.0
    assert sums.expect("inside").value == 1.0


@pytest.mark.long
def test_energies_above_all_that_was_known_are_counted():
    options = SPIKE | {"draws": 10_000, "chains": 16}
    kept = tp.sample(tp.Target(spike), **options)
    summed = tp.sample(tp.Target(spike), keep=tp.Sums({"x": lambda x: x}), **options)
    assert kept.energy.max() > 74.0 * 2  # beyond the bins a start at 0 leads to
    assert np.array_equal(kept.visits, summed.visits)
    assert abs(kept.expect(lambda x: x, "ess_optimal").value - summed.expect("x", "ess_optimal").value) < 1e-3


@dataclass(frozen=True)
class Walk:
    """A model object in JAX."""

    def initial(self, key):
        return jax.random.normal(key)

    def step(self, key, x, k):
        to = x + jax.random.normal(key)
        accepted = jax.random.uniform(jax.random.fold_in(key, 1)) < jnp.exp(k * (self.energy(to) - self.energy(x)))
        return jnp.where(accepted, to, x)

    def energy(self, x):
        return -0.5 * (x - 1.0) ** 2

    def record(self, x):
        return {"place": x}


@pytest.mark.slow
def test_model_objects_are_summed_too():
    options = {"ladder": [1.0, 0.5], "draws": 2000, "tuning": tp.Tuning(320), "chains": 16, "rng": 1, "progress": False}
    kept = tp.sample(Walk(), **options)
    summed = tp.sample(Walk(), keep=tp.Sums({"place": lambda place: place}), **options)
    assert np.array_equal(kept.visits, summed.visits)
    assert abs(kept.expect(lambda place: place).value - summed.expect("place").value) < 1e-5


@pytest.mark.long
def test_more_chains_than_tuning_needs_start_from_copies():
    sums = run(PROBLEM.log_density, draws=64, chains=1500, tuning=tp.Tuning(0), keep=tp.Sums(QUANTITIES))
    assert sums.n_chains == 1500
    assert sums.visits.sum() == 1500 * 64


def test_round_trips_go_on_from_block_to_block():
    rung = np.abs(seeded_rng("trips").integers(-1, 2, (5, 400)).cumsum(axis=1)) % 4
    proposed = np.where(rung == 0, 1, rung - 1)
    trace = Trace(None, np.zeros(rung.shape), rung, proposed, np.full((5, 400, 1), 0.5, np.float32))
    path = Path.powers(tp.Ladder([1.0, 0.5, 0.2, 0.1]))
    before, phase, total = np.zeros(5, int), np.zeros(5, np.int8), None
    for start in range(0, 400, 80):
        part = Trace(None, *(a[:, start : start + 80] for a in trace[1:]))
        sums, phase = sums_of_trace(part, before, phase, path)
        before = part.rung[:, -1]
        total = sums if total is None else total.added(sums)
    assert total.n_round_trips == round_trips(rung, 0, 3)[0] > 5
    assert total.n_iterations == 400
    whole = sums_of_trace(trace, np.zeros(5, int), np.zeros(5, np.int8), path)[0]
    assert np.array_equal(whole.exchanges, total.exchanges)
    known = swap_acceptance(trace, 4)
    assert np.allclose(whole.exchange_acceptance, known, atol=0.02)  # the first draw has no rung before it there


def test_blocks_are_long_and_enough():
    shape = block_shape(32, 40, 1, 1, 32, length_on_device(32, 40, 32, 10_000), 1)
    assert shape.n_iterations % shape.every == 0
    assert shape.every % 2 == 1
    assert -(-10_000 // shape.n_iterations) * shape.n_groups >= 100
    assert length_on_device(7, 40, 7, 10_000_000) > 8000
    assert length_on_device(7, 40, 7, 10_000_000, n_parts=50) > 8000


@pytest.mark.slow
@pytest.mark.parametrize("row", ["vector simulated", "vector parallel"])
def test_every_so_many_iterations_are_summed_and_no_other(row):
    density, options = ROWS[row]
    draws = run(density, **options)
    sums = run(density, **options, keep=tp.Sums(QUANTITIES, every=3))
    chosen = np.s_[:, 2::3]
    x = draws.values["x"][chosen]
    expected = RunningRungs.from_draws(
        draws.energy[chosen], draws.rung[chosen], {name: f(x) for name, f in QUANTITIES.items()},
        LADDER.inverse_temperatures, bins=sums.sums.bins, quantities=sums.sums.quantities,
    )  # fmt: skip
    assert np.array_equal(sums.visits, expected.n_draws)
    assert np.allclose(sums.sums.totals.joint, expected.totals.joint, rtol=0, atol=1e-9)
    assert np.allclose(sums.sums.totals.pooled, expected.totals.pooled, rtol=0, atol=1e-9)
    assert sums.n_round_trips == draws.n_round_trips  # of all iterations
    assert sums.n_draws == 1000
    assert sums.n_summed == sums.n_chains * 333
    assert f"1000 draws, {sums.n_summed} of them summed" in repr(sums)
    rates = (draws.rungs()["exchange_acceptance"] - sums.rungs()["exchange_acceptance"]).abs()[:-1]
    assert np.all(rates < 5 * np.sqrt(0.25 * 50 / draws.visits[:-1]))


@pytest.mark.long
def test_standard_errors_are_right_where_some_iterations_are_summed():
    target = tp.Target(lambda x: -0.5 * (x - 1.0) ** 2)
    k = np.array([1.0, 0.5])
    options = {
        "initial": 1.0,
        "ladder": k,
        "tuning": tp.Tuning(0, pseudo_prior=0.5 * np.log(k)),
        "draws": 5120,
        "chains": 32,
        "execution": VECTOR,
        "progress": False,
        "path": "powers",
        "kernel": tp.kernels.RandomWalk(scale=0.4),
        "keep": tp.Sums({"x": lambda x: x}, every=5),
    }
    z, naive = [], []
    for seed in range(64):
        sums = tp.sample(target, rng=seed, **options)
        found = sums.expect("x", "ess_optimal")
        z.append((found.value - 1.0) / found.standard_error)
        naive.append((found.value - 1.0) * np.sqrt(sums.ess("ess_optimal")))
    assert_variance_is_one(np.array(z))
    with pytest.raises(AssertionError):  # as if the draws were independent
        assert_variance_is_one(np.array(naive))


def test_an_accelerator_sums_every_fifth_iteration_of_its_own_accord(monkeypatch):
    assert summing.default_sum_every(1000) == 1
    monkeypatch.setattr(summing, "_place", lambda: "device")
    assert summing.default_sum_every(1000) == 5
    assert [summing.default_sum_every(n) for n in (1, 2, 3, 4, 5)] == [1, 1, 3, 3, 5]
    for sum_every in (1, 3, 5, 7, 45):
        length = length_on_device(10**6, 40, 10**6, 10_000, sum_every)
        shape = block_shape(10**6, 40, 1, 1, 10**6, length, sum_every)
        assert shape.every % (2 * sum_every) == sum_every
        assert shape.n_iterations % shape.every == 0
        # counts of one cell stay exact in single precision
        assert shape.n_iterations // sum_every * (10**6 // shape.n_groups) <= summing.LARGEST_COUNT


DEVICES = """
import jax, numpy as np, jax.numpy as jnp, tempering as tp
assert len(jax.devices()) == 4
target = tp.Target(lambda x: jnp.logaddexp(-2 * (x + 4) ** 2, -0.5 * (x - 4) ** 2))
options = dict(initial=-4.0, ladder=tp.Ladder.geometric(6, 0.02), tuning=tp.Tuning(0), draws=320, chains=16,
               rng=1, progress=False, kernel=tp.kernels.RandomWalk())
one, four = (tp.sample(target, **options, execution=tp.Execution(devices=d)) for d in (None, jax.devices()))
assert np.array_equal(one.values["x"], four.values["x"]) and np.array_equal(one.rung, four.rung)
for method in METHODS:
    sums = [tp.sample(target, **options, method=method, execution=tp.Execution(devices=d),
                      keep=tp.Sums({"x": lambda x: x})) for d in (None, jax.devices())]
    a, b = sums
    assert np.array_equal(a.visits, b.visits) and a.n_round_trips == b.n_round_trips
    assert np.allclose(a.sums.totals.joint, b.sums.totals.joint, rtol=0, atol=1e-9)
    assert np.array_equal(a.sums.totals.joint[..., 0], b.sums.totals.joint[..., 0])
    assert np.isclose(a.expect("x").value, b.expect("x").value, rtol=1e-10), (a.expect("x"), b.expect("x"))
try:
    tp.sample(target, **(options | dict(chains=10)), execution=tp.Execution(devices=jax.devices()))
except tp.TemperingError as error:
    assert "chains=12" in str(error), error
else:
    raise AssertionError("10 chains on 4 devices")
print("same")
"""


@pytest.mark.parametrize("method", ["simulated", pytest.param("parallel", marks=pytest.mark.long)])
def test_several_devices_give_what_one_gives(method):
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    program = f"METHODS = ({method!r},)\n{DEVICES}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | environment, check=False
    )
    assert done.stdout.strip() == "same", done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vector", "scalar"])
def test_ctrl_c_ends_a_run_at_its_next_block_with_what_there_is(engine, monkeypatch):
    from tempering.sampling import sum_sampling

    density = PROBLEM.log_density if engine == "vector" else PROBLEM.log_density_numba
    sample_sums = sum_sampling.sample_sums

    def and_then_stop(plan, *arguments):
        def stretches(n_blocks):
            if n_blocks == 2:
                plan.context.interruption(signal.SIGINT, None)
            return 1.0

        go_on_by(monkeypatch, stretches)
        return sample_sums(plan, *arguments)

    monkeypatch.setattr("tempering.sampling.sample.sample_sums", and_then_stop)
    with pytest.warns(UserWarning, match="Stopped by Ctrl-C after"):
        sums = run(density, draws=100_000, chains=2, tuning=tp.Tuning(0), keep=tp.Sums(QUANTITIES))
    assert 0 < sums.n_draws < 100_000
    assert sums.visits.sum() == 2 * sums.n_draws
