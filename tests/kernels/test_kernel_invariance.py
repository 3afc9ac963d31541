"""Every kernel keeps every tempered density: exact draws go in, and must come out (level 4), on both engines.

The control that serves them all runs the same move at another inverse temperature. Kernels with a correction
of their own have a control that forgets it.
"""

from functools import cache

import blackjax
import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from exact_paths import NO_REFERENCES, Logistic, LogRates, PoweredUp, coefficients_at, statistics, terms_of
from numba.core.types import FunctionType

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.compiling.functions import bind, compiled
from tempering.engines import scalar_pieces
from tempering.kernels import (
    BlackJAX,
    Cycle,
    Hamiltonian,
    HitAndRunSlice,
    Independence,
    Mixture,
    RandomWalk,
    Slice,
    composite,
    independence,
    random_walk,
    slice_sampling,
    vector,
)
from tempering.kernels.scalar import evaluate
from tempering.kernels.settings import Settings

N = 4000  # exact draws a temperature
N_STEPS = 4
POWERED, BASED, LOGISTIC = PoweredUp(), LogRates(), Logistic()

NATIVE = {
    "random walk": RandomWalk(),
    "slice": Slice(),
    "slice at its limit": Slice(0.03),
    "hit and run": HitAndRunSlice(),
    "independence": Independence(),
    "mixture": Mixture([RandomWalk(), Independence()], [0.7, 0.3]),
    "cycle": Cycle([RandomWalk(), Independence()]),
}
VECTOR = NATIVE | {"hamiltonian": Hamiltonian(3)}  # on the scalar engine: test_hamiltonian.py
NESTED = Cycle([Mixture([RandomWalk(), Slice(), RandomWalk(0.3)], [0.5, 0.2, 0.3]), Independence()])
ADAPTED = {
    "additive_step_random_walk": (BlackJAX(blackjax.additive_step_random_walk), BASED),
    "rmh": (BlackJAX(blackjax.rmh), BASED),
    "mala": (BlackJAX(blackjax.mala), BASED),
    "barker": (BlackJAX(blackjax.barker), BASED),
    "hmc": (BlackJAX(blackjax.hmc, num_integration_steps=3), BASED),
    "nuts": (BlackJAX(blackjax.nuts, max_num_doublings=3), BASED),
    "elliptical_slice": (
        BlackJAX(
            blackjax.elliptical_slice,
            mean=jnp.array(LOGISTIC.mean),
            cov_matrix=jnp.array(LOGISTIC.covariance),
        ),
        LOGISTIC,
    ),
}


@cache
def exact_draws(path, n=N):
    """Return exact draws (temperature, draw, coordinate), and a large set for scaling the statistics."""
    rng = seeded_rng(f"exact {type(path).__name__}")
    return np.stack([path.draw(rng, n, k) for k in path.temperatures])


def settings_of(kernel, path):
    """Return settings by rung for each simple kernel: shapes a little off, centres by half a deviation."""
    draws = exact_draws(path)
    centre = draws.mean(axis=1) + 0.5 * draws.std(axis=1)
    cholesky = np.linalg.cholesky([1.3 * np.cov(x.T) for x in draws])
    made = []
    for leaf in composite.leaves(kernel):
        diagonal = leaf.covariance == "diagonal"
        factor = np.sqrt(np.sum(cholesky**2, axis=2))[:, :, None] if diagonal else cholesky
        made.append(Settings(np.full(len(draws), leaf.starting_scale(3)), factor, centre))
    return tuple(made)


def changes(after, path):
    """Return the changes of the statistics, all temperatures side by side: one row a replicate."""
    rows = zip(exact_draws(path), after, strict=True)
    return np.hstack([statistics(b, a) - statistics(a[: len(b)], a) for a, b in rows])


# --- scalar engine --------------------------------------------------------------------------------

move = evaluate  # until `bind` says which


def move_all(rng, one, two, three, references, draws, coefficients, settings, rung, n_steps, acceptance):
    """Move every row of ``draws`` in place, at one rung; the scalar engine's particle, without its loop."""
    functions = (one, two, three, references)
    n = coefficients.size + 1  # the last counts what is not a number
    proposal, here, there = np.empty(3), np.zeros(n), np.zeros(n)
    for i in range(len(draws)):
        particle = (draws[i], proposal, here, there)
        evaluate(functions, draws[i], here)
        for _ in range(n_steps):
            particle = move(rng, functions, particle, coefficients, settings, rung, acceptance)


move_all.__module__ = "tempering.engines.loops"  # compiled with what it calls, as the package's own functions are
FLOATS = numba.float64[::1]


def moved_by_scalar(kernel, path, name, own_move=None, warmer=1.0, n=N):
    """Move exact draws by the scalar kernel, compiled; a control's ``own_move`` runs as plain Python."""
    body = bind(move_all, move=own_move if own_move is not None else composite.scalar_move(kernel))
    made = composite.scalar_settings(kernel, settings_of(kernel, path))
    target = path.compiled
    base = target.base if target.base is not None else scalar_pieces.compiled_zero()
    rng, acceptance = seeded_rng(name), np.zeros(len(composite.leaves(kernel)), np.float32)
    after = []
    for rung, k in enumerate(path.temperatures):
        k = warmer * k + (1 - warmer) * 0.5
        draws = exact_draws(path)[rung, :n].copy()
        c = coefficients_at(path, k)
        arguments = (rng, target.energy, base, 0, NO_REFERENCES, draws, c, made, rung, N_STEPS, acceptance)
        if own_move is None:
            pointer = FunctionType(numba.float64(FLOATS))
            types = [pointer if i in (1, 2) else numba.typeof(a) for i, a in enumerate(arguments)]
            compiled(body, tuple(types))(*arguments)
        else:
            body(*arguments)
        after.append(draws)
    return after


@pytest.mark.slow
@pytest.mark.parametrize("name", NATIVE)
def test_a_compiled_kernel_keeps_every_temperature(name):
    assert_mean_is(0.0, changes(moved_by_scalar(NATIVE[name], BASED, f"scalar {name}"), BASED))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random walk", "slice", "hit and run"])
def test_a_compiled_kernel_keeps_every_power_of_a_density(name):
    assert_mean_is(0.0, changes(moved_by_scalar(NATIVE[name], POWERED, f"powered {name}"), POWERED))


@pytest.mark.slow
@pytest.mark.parametrize("name", NATIVE)
def test_control_a_compiled_kernel_at_the_wrong_temperature_is_seen(name):
    after = moved_by_scalar(NATIVE[name], BASED, f"wrong scalar {name}", warmer=0.5)
    assert_mean_is_not(0.0, changes(after, BASED))


@pytest.mark.parametrize("name", [*(n for n in NATIVE if n != "slice at its limit"), "nested", "of one"])
def test_a_kernel_in_plain_python_keeps_every_temperature(name):
    kernel = (NATIVE | {"nested": NESTED, "of one": Cycle([Slice()])})[name]
    own_move = composite.scalar_move(kernel)
    after = moved_by_scalar(kernel, BASED, f"plain {name}", own_move, n=600)
    assert_mean_is(0.0, changes(after, BASED))


def broken_after(kernel, own_move, name, n=600):
    """Return the changes a broken move makes, in plain Python."""
    return changes(moved_by_scalar(kernel, BASED, name, own_move, n=n), BASED)


def test_control_a_forgotten_proposal_density_is_seen():
    own_move = bind(independence.independence, log_proposal=lambda x, scale, factor, centre: 0.0)
    assert_mean_is_not(0.0, broken_after(Independence(), own_move, "no proposal density", n=N))


def test_control_accepting_everything_is_seen():
    own_move = bind(random_walk.random_walk, accept=lambda rng, log_ratio: True)
    assert_mean_is_not(0.0, broken_after(RandomWalk(), own_move, "all accepted"))


@pytest.mark.slow
def test_control_a_slice_whose_limit_all_goes_to_one_side_is_seen():
    """The limit on stepping out must be shared at random (Neal 2003, Fig. 3)."""

    def one_sided(density, particle, coefficients, direction, end, step, n_steps, level):
        n_steps = 31 if step < 0 else 0
        return slice_sampling._step_out(density, particle, coefficients, direction, end, step, n_steps, level)

    along = bind(slice_sampling.slice_along, _step_out=one_sided)
    own_move = bind(slice_sampling.slice_coordinates, slice_along=along)
    assert_mean_is_not(0.0, broken_after(Slice(0.03), own_move, "one-sided"))


def test_control_a_slice_that_ignores_its_level_is_seen():
    along = bind(slice_sampling.slice_along, tempered=lambda terms, coefficients: 0.0)
    own_move = bind(slice_sampling.slice_along_direction, slice_along=along)
    assert_mean_is_not(0.0, broken_after(HitAndRunSlice(), own_move, "no level"))


# --- vector engine --------------------------------------------------------------------------------


@cache
def build_mover(kernel, path):
    """Return a compiled function that moves all draws of all temperatures ``N_STEPS`` times."""
    density = terms_of(path.traced.energy, path.traced.base)
    move = vector.build_move(kernel, density)

    def several(key, x, coefficients, settings):
        def once(i, particle):
            return move(jax.random.fold_in(key, i), particle, vector.Rung(coefficients, -1), settings)[0]

        return jax.lax.fori_loop(0, N_STEPS, once, vector.at(density, x)).position

    by_draw = jax.vmap(several, in_axes=(0, 0, None, None))
    return jax.jit(jax.vmap(by_draw), compiler_options={"xla_backend_optimization_level": 0})  # run once or twice


def moved_by_vector(kernel, path, name, warmer=1.0, mover=None):
    k = warmer * np.array(path.temperatures) + (1 - warmer) * 0.5
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(int(seeded_rng(name).integers(2**31))), (len(k), N))
        mover = mover if mover is not None else build_mover(kernel, path)
        coefficients = np.stack([coefficients_at(path, one) for one in k])
        return np.asarray(mover(keys, exact_draws(path), coefficients, settings_of(kernel, path)))


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTOR)
def test_a_vector_kernel_keeps_every_temperature(name):
    assert_mean_is(0.0, changes(moved_by_vector(VECTOR[name], BASED, f"vector {name}"), BASED))


def test_a_vector_kernel_keeps_every_power_of_a_density():
    after = moved_by_vector(RandomWalk(), POWERED, "vector powered")
    assert_mean_is(0.0, changes(after, POWERED))


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTOR)
def test_control_a_vector_kernel_at_the_wrong_temperature_is_seen(name):
    after = moved_by_vector(VECTOR[name], BASED, f"wrong vector {name}", warmer=0.5)
    assert_mean_is_not(0.0, changes(after, BASED))


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTED)
def test_a_blackjax_kernel_keeps_every_temperature(name):
    kernel, path = ADAPTED[name]
    assert_mean_is(0.0, changes(moved_by_vector(kernel, path, name), path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTED)
def test_control_a_blackjax_kernel_at_the_wrong_temperature_is_seen(name):
    kernel, path = ADAPTED[name]
    assert_mean_is_not(0.0, changes(moved_by_vector(kernel, path, f"wrong {name}", warmer=0.5), path))


def test_control_a_vector_proposal_density_forgotten_is_seen(monkeypatch):
    """Without the t's log density, `log1p`, every proposal is taken for a uniform one."""
    monkeypatch.setattr(jnp, "log1p", jnp.zeros_like)
    mover = build_mover.__wrapped__(Independence(), BASED)
    assert_mean_is_not(0.0, changes(moved_by_vector(Independence(), BASED, "forgetful", mover=mover), BASED))


@pytest.mark.slow
def test_control_a_vector_slice_with_a_one_sided_limit_is_seen(monkeypatch):
    """`MAX_STEPS_OUT` times a uniform that is always 0 gives every step to the right."""
    uniform = jax.random.uniform

    def lopsided(key, shape=(), dtype=None):
        return jnp.zeros(()) if dtype is None and shape == () else uniform(key, shape, dtype)

    monkeypatch.setattr(jax.random, "uniform", lopsided)
    mover = build_mover.__wrapped__(Slice(0.03), BASED)
    assert_mean_is_not(0.0, changes(moved_by_vector(Slice(0.03), BASED, "lopsided", mover=mover), BASED))
