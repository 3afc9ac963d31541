"""One table of (engine, sampler, kernel) rows, and one target in the languages of the engines.

The third coordinate is a switch: beyond 5, where no chain comes by itself, the density is flat in it and is
not a number where the first coordinate exceeds 0.3. A chain put there must count how often it was refused.
"""

from functools import cache
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numba import njit

from tempering import Ladder, Target, problems
from tempering.engines import scalar, scalar_pieces, vector
from tempering.engines.trace import Schedule
from tempering.kernels import BlackJAX, Cycle, Independence, Mixture, RandomWalk, Slice
from tempering.kernels.composite import leaves
from tempering.kernels.settings import Settings
from tempering.path import Path
from tempering.target.layout import Layout

LADDER = Ladder([1.0, 0.5, 0.1])
PATH = Path.powers(LADDER)
LOG_PSEUDO_PRIOR = np.array([0.0, -1.5, -5.0])  # near 1 / Z, but not at it
LAYOUT = Layout.of(np.zeros(3))
SHAPES = np.array([1.0, 2.5])
SWITCH, EDGE, SWITCH_SD = 5.0, 0.3, 0.05
STARTS = [np.array([-0.5, 0.3, 0.0]), np.array([0.2, 1.5, 0.01])]
NEAR_NAN = [np.array([-0.5, 0.3, 10.0])]
SELECTION = problems.variable_selection()


def traced(x):
    """The density for JAX."""
    skewed = jnp.sum(SHAPES * x[:2] - jnp.exp(x[:2]))
    far = jnp.where(x[0] > EDGE, jnp.nan, skewed)
    return jnp.where(x[2] > SWITCH, far, skewed - 0.5 * (x[2] / SWITCH_SD) ** 2)


def plain(x):
    """The density in plain Python; compiled, it is Numba's."""
    skewed = SHAPES[0] * x[0] - np.exp(x[0]) + SHAPES[1] * x[1] - np.exp(x[1])
    if x[2] > SWITCH:
        return np.nan if x[0] > EDGE else skewed
    return skewed - 0.5 * (x[2] / SWITCH_SD) ** 2


class TracedModel:
    """A model object for JAX: a random walk of its own on two coordinates."""

    engine = "vector"

    def initial(self, key):
        return {"at": jax.random.normal(key, (2,)), "moves": jnp.zeros((), jnp.int32)}

    def energy(self, state):
        return jnp.sum(SHAPES * state["at"] - jnp.exp(state["at"]))

    def step(self, key, state, k):
        key_step, key_accept = jax.random.split(key)
        there = {"at": state["at"] + jax.random.normal(key_step, (2,)), "moves": state["moves"] + 1}
        log_ratio = k * (self.energy(there) - self.energy(state))
        accepted = jnp.log(jax.random.uniform(key_accept)) < log_ratio
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), there, state)

    def record(self, state):
        return {"at": state["at"], "moves": state["moves"]}


TARGETS = {"vector": Target(traced), "python": Target(plain), "numba": Target(njit(plain))}
MODELS = {"vector": TracedModel(), "python": SELECTION, "numba": SELECTION.compiled}
KERNELS = {
    "random walk": RandomWalk(),
    "slice": Slice(),
    "composite": Cycle([Mixture([RandomWalk(), RandomWalk(0.3)], [0.6, 0.4]), Independence()]),
    "hmc": BlackJAX(blackjax.hmc, num_integration_steps=4),
    "nuts": BlackJAX(blackjax.nuts, max_num_doublings=4),
    "mala": BlackJAX(blackjax.mala),
    "barker": BlackJAX(blackjax.barker),
    "rmh": BlackJAX(blackjax.rmh),
}


class Row(NamedTuple):
    """One way of running a chain."""

    engine: str
    method: str
    rung_moves: str
    kernel: str  # or "model"


ROWS = [
    Row("vector", "simulated", "lifted", "random walk"),
    Row("vector", "simulated", "neighbour", "hmc"),
    Row("vector", "parallel", "non_reversible", "random walk"),
    Row("vector", "parallel", "random", "model"),
    *(
        Row(engine, *rest)
        for engine in ("numba", "python")
        for rest in (
            ("simulated", "lifted", "random walk"),
            ("simulated", "neighbour", "random walk"),  # a slice takes three times as long to compile
            ("simulated", "lifted", "model"),
            ("parallel", "non_reversible", "composite"),
            ("parallel", "random", "model"),
        )
    ),
]


def name_of(row):
    return " ".join(row)


@cache
def schedule(kernel):
    """Return the ladder, a pseudo-prior and settings on every rung for one kernel."""
    shape = np.array([1.2, 0.8, SWITCH_SD])[:, None]
    dense = np.diag(shape[:, 0]) + np.array([[0, 0, 0], [0.3, 0, 0], [0, 0, 0]])
    settings = []
    for leaf in leaves(KERNELS[kernel]) if kernel != "model" else ():
        factor = shape if leaf.covariance == "diagonal" else dense
        scale = leaf.starting_scale(3) / np.sqrt(LADDER.inverse_temperatures)
        settings.append(Settings(scale, np.tile(factor, (3, 1, 1)), np.tile(STARTS[0], (3, 1))))
    log_pseudo_prior = LOG_PSEUDO_PRIOR
    if kernel == "model":
        log_pseudo_prior = -np.array([SELECTION.log_normaliser(k) for k in LADDER])
    return Schedule(PATH, log_pseudo_prior, tuple(settings))


def build(row, n_chains, seed=1, starts=tuple(STARTS)):
    """Build the engine of a row."""
    common = (row.method, row.rung_moves, seed, n_chains, len(LADDER))
    module = vector if row.engine == "vector" else scalar_pieces
    if row.kernel == "model":
        model = MODELS[row.engine]
        example = () if module is vector else (model.initial(np.random.default_rng(0)),)
        pieces = module.model_pieces(model, *example)
    else:
        pieces = module.target_pieces(TARGETS[row.engine], KERNELS[row.kernel], LAYOUT, list(starts))
    engine = vector.VectorEngine if module is vector else scalar.ScalarEngine
    return engine(pieces, *common)


def run(row, n_chains, lengths=(64,), seed=1, starts=tuple(STARTS), **options):
    """Run a row from its start, in blocks; return the traces."""
    return run_and_count(row, n_chains, lengths, seed, starts, **options)[0]


def run_and_count(row, n_chains, lengths=(64,), seed=1, starts=tuple(STARTS), **options):
    """Run a row from its start, in blocks; return the traces, and how often a density was not a number."""
    engine = build(row, n_chains, seed, starts)
    states = engine.start(PATH)
    traces = []
    for n in lengths:
        states, trace = engine.run(states, schedule(row.kernel), n, **options)
        traces.append(trace)
    return traces, engine.n_invalid(states)
