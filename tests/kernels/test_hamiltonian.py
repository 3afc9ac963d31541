"""Hamiltonian moves keep every tempered density, on the scalar engine with the gradient that a target brings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_paths import INVERSE, NO_REFERENCES, LogRates, coefficients_at, statistics, terms_of

import tempering as tp
from seeds import shifted
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.compiling.functions import bind
from tempering.errors import TargetError
from tempering.kernels import Hamiltonian, RandomWalk, vector
from tempering.kernels import hamiltonian as module
from tempering.kernels import vector_hamiltonian as lockstep
from tempering.kernels.scalar import evaluate
from tempering.kernels.settings import Settings
from tempering.kernels.uniforms import normals_and_uniforms
from tempering.learning.reference import Reference, along_reference
from tempering.target.gradients import WithGradient
from tempering.target.layout import Layout

N, N_STEPS = 1500, 2
COLD = vector.Rung(np.ones(1), -1)
PATH = LogRates()


def log_rates(slope, exposure):
    """Return sum(slope * y - exposure * exp(y)) of y = INVERSE x, with its gradient."""

    def value(x):
        y = INVERSE @ x
        with np.errstate(over="ignore", invalid="ignore"):  # trajectories may run off
            return float(np.sum(slope * y - exposure * np.exp(y)))

    def gradient(x):
        with np.errstate(over="ignore", invalid="ignore"):
            return value(x), INVERSE.T @ (slope - exposure * np.exp(INVERSE @ x))

    return WithGradient(value, gradient)


BASE = log_rates(np.array(PATH.shapes), 1.0)
ENERGY = log_rates(np.array(PATH.counts), PATH.exposure)
FUNCTIONS = (ENERGY, BASE, 0, NO_REFERENCES)


def changes(name, move=None, *, warmer=1.0, n_steps=3, scale=0.6, wide=1.0, n_moves=N_STEPS):
    """Move exact draws at three temperatures; return the changes of the statistics, one row a replicate."""
    own = move if move is not None else Hamiltonian(n_steps).scalar_move
    rng, columns = seeded_rng(name), []
    for rung, k in enumerate(PATH.temperatures):
        draws = PATH.draw(rng, N, k)
        factor = wide * np.linalg.cholesky(1.3 * np.cov(draws.T))
        settings = (np.full(3, scale), np.stack([factor] * 3), np.zeros((3, 3)))
        after, acceptance = draws.copy(), np.zeros(1)
        coefficients = coefficients_at(PATH, warmer * k + (1 - warmer) * 0.5)
        for x in after:
            particle = (x, x.copy(), np.zeros(3), np.zeros(3))
            evaluate(FUNCTIONS, x, particle[2])
            for _ in range(n_moves):
                own(rng, FUNCTIONS, particle, coefficients, settings, rung, acceptance)
        columns.append(statistics(after, draws) - statistics(draws, draws))
    return np.hstack(columns)


@pytest.mark.parametrize("n_steps", [1, 2, 4, 9])
def test_the_longest_move_is_a_quarter_of_a_period(n_steps):
    """The leapfrog steps of a normal distribution are turns by one angle: all of them together forget the start."""
    step = Hamiltonian(n_steps).local_scales[1] / np.sqrt(2.0)

    def position_after(step):
        x, momentum = 1.0, 0.0
        for _ in range(n_steps):
            momentum -= 0.5 * step * x
            x += step * momentum
            momentum -= 0.5 * step * x
        return x

    assert position_after(step) == pytest.approx(0.0, abs=1e-12)
    assert abs(position_after(1.3 * step)) > 0.1


@pytest.mark.slow
def test_every_temperature_is_kept():
    assert_mean_is(0.0, changes("kept"))
    assert_mean_is(0.0, changes("kept with steps by the gradient", wide=10.0))


@pytest.mark.slow
def test_a_gradient_that_is_off_makes_worse_moves_but_no_wrong_ones(monkeypatch):
    right = module.whitened_slope

    def off(*a):
        slope = right(*a)
        return None if slope is None else 1.5 * slope

    monkeypatch.setattr(module, "whitened_slope", off)
    assert_mean_is(0.0, changes("off"))


@pytest.mark.slow
def test_control_the_wrong_temperature_is_seen():
    assert_mean_is_not(0.0, changes("warmer", warmer=0.5))


@pytest.mark.slow
def test_control_accepting_every_trajectory_is_seen():
    body = bind(module.hamiltonian, accept=lambda rng, log_ratio: True)
    assert_mean_is_not(0.0, changes("all accepted", lambda *a: body(*a, n_steps=1), scale=1.2))


@pytest.mark.slow
def test_control_a_potential_that_is_not_counted_is_seen():
    body = bind(module.hamiltonian, tempered=lambda here, coefficients: 0.0)
    assert_mean_is_not(0.0, changes("no potential", lambda *a: body(*a, n_steps=3)))


@pytest.mark.slow
def test_control_a_step_whose_reverse_is_mistaken_is_seen(monkeypatch):
    """Steps are set by the gradient where they begin: unless that is made up for, narrow places hold too much."""
    right, seen = module.log_width, []

    def wider_where_it_is_narrower(slope):
        seen.append(right(slope))
        return seen[0] if len(seen) == 1 else 2 * seen[0] - seen[1]

    def move(*a):
        seen.clear()
        return module.hamiltonian(*a, n_steps=3)

    monkeypatch.setattr(module, "log_width", wider_where_it_is_narrower)
    assert_mean_is_not(0.0, changes("one way", move, wide=4.0, scale=1.0, n_moves=6))


class Told:
    """A generator that says what it was told."""

    def __init__(self, normals, uniform):
        self.normals, self.uniform = list(normals), uniform

    def standard_normal(self, size=None):
        return self.normals.pop(0) if size is None else np.array([self.normals.pop(0) for _ in range(size)])

    def random(self):
        return self.uniform


def acceptances(wide):
    """Return how probable a move is, by the scalar engine and in lockstep, with the same momenta and steps."""
    rng, found = seeded_rng(f"both engines {wide}"), []
    draws, k = PATH.draw(rng, 40, 0.5), coefficients_at(PATH, 0.5)
    factor = wide * np.linalg.cholesky(1.3 * np.cov(draws.T))
    with jax.enable_x64(True):
        density = terms_of(PATH.traced.energy, PATH.traced.base)
        setting, rung = Settings(jnp.array(0.9), jnp.asarray(factor), jnp.zeros(3)), vector.Rung(jnp.asarray(k), -1)
        move = jax.jit(lambda key, x: lockstep.hamiltonian(density, 3)(key, vector.at(density, x), rung, setting)[1])
        for i, x in enumerate(draws):
            key = jax.random.fold_in(jax.random.key(shifted(5)), i)
            normals = np.asarray(normals_and_uniforms(key, 4, 2, float)[0])
            particle, acceptance = (x.copy(), x.copy(), np.zeros(3), np.zeros(3)), np.zeros(1)
            evaluate(FUNCTIONS, x, particle[2])
            settings = (np.full(1, 0.9), factor[None], np.zeros((1, 3)))
            module.hamiltonian(Told(normals, 0.5), FUNCTIONS, particle, k, settings, 0, acceptance, n_steps=3)
            found.append((acceptance[0], float(move(key, x)[0])))
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.parametrize("wide", [1.0, 4.0])
def test_moves_in_lockstep_are_as_probable_as_those_of_the_scalar_engine(wide):
    scalar, in_lockstep = acceptances(wide)
    np.testing.assert_allclose(in_lockstep, scalar, rtol=1e-8)
    assert np.sum(scalar < 0.99) > 5


def test_control_in_lockstep_too_a_step_whose_reverse_is_mistaken_is_seen(monkeypatch):
    monkeypatch.setattr(lockstep, "log_width", lambda slope: jnp.zeros(()))
    scalar, in_lockstep = acceptances(4.0)
    assert np.max(np.abs(in_lockstep - scalar)) > 0.1


class StanLike:
    """What BridgeStan's StanModel offers, keywords and all; NaN where it is told to be."""

    def __init__(self, dimension=6, nan_beyond=np.inf):
        self.dimension, self.nan_beyond, self.n_gradients = dimension, nan_beyond, 0

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        assert isinstance(theta_unc, np.ndarray)  # a tracer is none, nor does ctypes take it
        return -0.5 * float(np.sum((theta_unc - 3.0) ** 2))

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True, out=None):
        self.n_gradients += 1
        slope = 3.0 - theta_unc
        return self.log_density(theta_unc), np.where(theta_unc > self.nan_beyond, np.nan, slope)


def sample(model, **options):
    settings = {
        "initial": np.zeros(6),
        "ladder": [1, 0.6],
        "draws": 400,
        "tuning": tp.Tuning(320),
        "chains": 2,
        "rng": 1,
    }
    return tp.sample(tp.Target(model), progress=False, **(settings | options))


def test_an_object_with_a_gradient_is_sampled_by_it():
    model = StanLike()
    run = sample(model)
    assert run.info.engine == "scalar (Python)"
    assert run.info.kernel.startswith("Hamiltonian")
    assert model.n_gradients > 2 * 720 * 4
    mean = run.expect(lambda x: x)
    assert np.all(np.abs(mean.value - 3.0) < 6 * mean.standard_error)
    assert np.all(mean.standard_error < 0.15)
    assert "scalar (Python) engine" in repr(run)


def test_in_few_dimensions_and_by_name_other_kernels_are_taken():
    model = StanLike()
    assert sample(model, initial=np.zeros(2)).info.kernel.startswith("RandomWalk")
    assert sample(model, kernel=RandomWalk()).info.kernel.startswith("RandomWalk")
    assert model.n_gradients == 0


def test_prior_and_likelihood_may_both_bring_gradients():
    target = tp.Target.from_likelihood(ENERGY, BASE)
    run = tp.sample(
        target,
        initial=np.zeros(3),
        ladder=[1, 0.4, 0],
        kernel=Hamiltonian(),
        draws=300,
        tuning=tp.Tuning(320),
        chains=2,
        rng=1,
        progress=False,
        execution=tp.Execution(engine="scalar"),
    )
    y = run.expect(lambda x: np.exp(x @ INVERSE.T))  # gammas: conjugate
    truth = np.add(PATH.shapes, PATH.counts) / (1 + PATH.exposure)
    assert np.all(np.abs(y.value - truth) < 6 * y.standard_error)


def slopes_agree(function, x):
    """Compare a gradient with central differences."""
    h = 1e-6
    numeric = [(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(len(x))]
    value, slope = function.log_density_gradient(x)
    assert value == pytest.approx(float(function(x)), rel=1e-12)
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-7)


def test_a_path_from_a_reference_keeps_the_gradient():
    factors = [np.linalg.cholesky(np.cov(seeded_rng("factors").normal(size=(3, 9)))), 0.5 * np.eye(3)]
    q = Reference([0.7, 0.3], [[0.0, 1.0, -1.0], [2.0, 2.0, 0.5]], factors, [5, 8])
    for target in (tp.Target(ENERGY), tp.Target.from_likelihood(ENERGY, BASE)):
        path = target.with_reference(q)
        for x in seeded_rng("places").normal(size=(5, 3)):
            slopes_agree(path.base, x)
            slopes_agree(path.energy, x)
    run = sample(StanLike(), path=Reference([1.0], [np.full(6, 2.5)], [np.eye(6)], [7]), ladder=[1, 0.5, 0])
    assert run.info.kernel.startswith("Hamiltonian")
    assert abs(run.log_evidence().value - 3 * np.log(2 * np.pi)) < 0.5


def test_named_positions_have_named_gradients():
    class Named:
        def log_density(self, p):
            assert isinstance(p["a"], np.ndarray)
            return -0.5 * float((p["a"] - 1.0) ** 2 + np.sum(p["b"] ** 2))

        def log_density_gradient(self, p):
            return self.log_density(p), {"a": 1.0 - p["a"], "b": -p["b"]}

    run = sample(Named(), initial={"a": 0.0, "b": np.zeros(5)}, kernel=Hamiltonian(3))
    assert abs(run.expect(lambda a, b: a).value - 1.0) < 0.3
    layout = Layout.of({"a": 0.0, "b": np.zeros(5)})
    q = Reference([1.0], [np.full(6, 0.5)], [2 * np.eye(6)], [7])
    path = along_reference(tp.Target(Named()), q, layout)
    for function in (path.base, path.energy):
        slopes_agree(layout.on_flat(function), seeded_rng("named").normal(size=6))


def test_gradients_that_cannot_be_used_are_refused():
    flat = StanLike()
    flat.log_density_gradient = lambda x: (0.0, 0.0)
    with pytest.raises(TargetError, match=r"gradient of shape \(6,\), but the gradient has shape \(\)"):
        sample(flat)
    with pytest.raises(TargetError, match=r"needs the gradient.*brings none.*log_density_gradient"):
        sample(StanLike().log_density, kernel=Hamiltonian())
    with pytest.raises(TargetError, match="n_steps must be a whole number of at least 1, but got 0"):
        Hamiltonian(0)


@pytest.mark.slow
def test_gradients_that_are_not_numbers_are_counted_on_both_engines():
    """Trajectories end there, so that nobody comes to such places: whoever looks at the count is told."""
    run = sample(StanLike(nan_beyond=2.5))
    assert run.values["x"].max() <= 2.5
    assert run.info.n_invalid > 10

    @jax.custom_jvp
    def energy(x):
        return -0.5 * jnp.sum(x**2)

    @energy.defjvp
    def energy_jvp(primals, tangents):
        (x,), (tangent,) = primals, tangents
        return energy(x), jnp.sum(jnp.where(x[0] > 0.5, jnp.nan, -x) * tangent)

    with jax.enable_x64(True):
        setting = Settings(jnp.array(0.3), jnp.ones((2, 1)), jnp.zeros(2))
        start = vector.at(lambda x: energy(x)[None], jnp.array([0.4, 0.0]))
        move = lockstep.hamiltonian(lambda x: energy(x)[None], 2)
        keys = jax.random.split(jax.random.key(shifted(1)), 100)
        after = jax.vmap(lambda key: move(key, start, COLD, setting)[0])(keys)
        after = jax.tree.map(np.asarray, after)
    assert np.all(after.position[:, 0] <= 0.5)
    assert 10 < np.sum(after.n_invalid) < 90


def test_a_branch_that_is_not_taken_off_the_support_is_no_fault_of_the_density():
    """The gradient of ``jnp.where(x > 0, log(x)**2, -inf)`` is NaN below 0; rungs without the target go there."""

    def terms(x):
        inside = jnp.where(x[0] > 0.0, -(jnp.log(x[0]) ** 2), -jnp.inf)
        return jnp.array([inside, -0.5 * jnp.sum(x**2)])

    with jax.enable_x64(True):
        assert jnp.isnan(jax.grad(lambda x: terms(x)[0])(jnp.array([-1.0]))[0])
        setting = Settings(jnp.array(0.3), jnp.ones((1, 1)), jnp.zeros(1))
        start, hot = vector.at(terms, jnp.array([-1.0])), COLD._replace(coefficients=jnp.array([0.0, 1.0]))
        keys = jax.random.split(jax.random.key(shifted(1)), 50)
        move = lockstep.hamiltonian(terms, 2)
        after = jax.vmap(lambda key: move(key, start, hot, setting)[0])(keys)
        assert np.sum(after.n_invalid) == 0


def test_trajectories_end_where_the_density_is_not_a_number_and_it_is_counted():
    model = StanLike()
    model.log_density = lambda x: np.nan if x[0] > 1 else -0.5 * float(x @ x)
    model.log_density_gradient = lambda x: (model.log_density(x), -x)
    run = sample(model)
    assert run.info.kernel.startswith("Hamiltonian")
    assert run.values["x"][..., 0].max() <= 1.0
    assert run.info.n_invalid > 10


def test_trajectories_end_where_the_support_does():
    """Exact draws of two exponentials at k = 1 and at 0.5, one move each: the edge must not repel or attract."""

    def log_density(x):
        return -float(x[0] + 2 * x[1]) if x.min() > 0 else -np.inf

    energy = WithGradient(log_density, lambda x: (log_density(x), np.array([-1.0, -2.0])))
    flat = WithGradient(lambda x: 0.0, lambda x: (0.0, np.zeros(2)))
    rng, columns = seeded_rng("edge"), []
    for k in (1.0, 0.5):
        before = rng.standard_exponential((3000, 2)) / (k * np.array([1.0, 2.0]))
        after = before.copy()
        for x in after:
            particle = (x, x.copy(), np.array([log_density(x), 0.0]), np.zeros(2))
            settings = (np.array([0.5]), np.ones((1, 2, 1)), np.zeros((1, 2)))
            functions = (energy, flat, 0, NO_REFERENCES)
            Hamiltonian(3).scalar_move(rng, functions, particle, np.array([k]), settings, 0, np.zeros(1))
        columns += [after - before, np.exp(-k * after) - np.exp(-k * before)]
    assert np.mean(columns[0] == 0) > 0.1  # some were rejected
    assert_mean_is(0.0, np.hstack(columns))


@pytest.mark.slow
def test_trajectories_in_lockstep_end_where_the_support_does():
    """The same, of all draws at once."""

    def density(x):
        return jnp.where(jnp.min(x) > 0, -(x[0] + 2 * x[1]), -jnp.inf)[None]

    move = lockstep.hamiltonian(density, 3)
    rng, columns = seeded_rng("edge in lockstep"), []
    with jax.enable_x64(True):
        setting = Settings(jnp.array(0.5), jnp.ones((2, 1)), jnp.zeros(2))
        for k in (1.0, 0.5):
            before = rng.standard_exponential((3000, 2)) / (k * np.array([1.0, 2.0]))
            keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), len(before))
            rung = vector.Rung(jnp.array([k]), -1)
            moved = jax.vmap(lambda key, x, rung=rung: move(key, vector.at(density, x), rung, setting)[0])(keys, before)
            after = np.asarray(moved.position)
            columns += [after - before, np.exp(-k * after) - np.exp(-k * before)]
            np.testing.assert_allclose(moved.terms, [density(x) for x in after], rtol=1e-12)
    assert np.mean(columns[0] == 0) > 0.1  # some were rejected
    assert_mean_is(0.0, np.hstack(columns))


@pytest.mark.slow
def test_a_place_that_is_infinite_only_where_its_gradient_is_taken_is_no_place_to_go():
    """Compiled with its gradient, a very low log density may come out as infinite; by itself it does not."""

    @jax.custom_jvp
    def energy(x):
        return jnp.where(x[0] > 5.0, -1e21, -0.5 * jnp.sum(x**2))

    @energy.defjvp
    def energy_jvp(primals, tangents):
        (x,), (tangent,) = primals, tangents
        return jnp.where(x[0] > 5.0, jnp.inf, energy(x)), -jnp.sum(x * tangent)

    def moved(density, x, step):
        with jax.enable_x64(True):
            setting = Settings(jnp.array(step), jnp.ones((2, 1)), jnp.zeros(2))
            keys = jax.random.split(jax.random.key(shifted(1)), 200)
            start = vector.at(density, jnp.asarray(x))
            move = lockstep.hamiltonian(density, 1)
            return jax.tree.map(np.asarray, jax.vmap(lambda key: move(key, start, COLD, setting)[0])(keys))

    after = moved(lambda x: energy(x)[None], [4.9, 0.0], 0.3)
    assert np.all(after.position[:, 0] <= 5.0)
    assert np.all(np.isfinite(after.terms))
    counted = moved(lambda x: jnp.where(x[0] > 5.0, jnp.nan, -0.5 * jnp.sum(x**2))[None], [4.9, 0.0], 0.3)
    assert np.all(counted.position[:, 0] <= 5.0)
    assert np.all(np.isfinite(counted.terms))
    assert counted.n_invalid.sum() > 0  # what is not a number is not gone to, but counted


def test_a_move_in_lockstep_takes_one_gradient_more_than_steps_and_one_value():
    calls = []

    def density(x):
        jax.debug.callback(lambda: calls.append(1))
        return -0.5 * jnp.sum(x**2)[None]

    with jax.enable_x64(True):
        setting = Settings(jnp.array(0.5), jnp.ones((2, 1)), jnp.zeros(2))
        start = vector.Particle(jnp.ones(2), jnp.array([-1.0]), jnp.array(0, jnp.int32))
        jax.block_until_ready(jax.jit(lockstep.hamiltonian(density, 4))(jax.random.key(1), start, COLD, setting))
        jax.effects_barrier()
    assert len(calls) == 6
