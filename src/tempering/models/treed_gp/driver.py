"""The compiled loop: simulated tempering of one chain, with running sums."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.models.treed_gp.compiled import Array, Ints, compiled, entry
from tempering.models.treed_gp.hierarchy import log_prior_of_shared
from tempering.models.treed_gp.layout import LOG_DET, N_LEAVES, RUNG, TEMPER_TREE, State
from tempering.models.treed_gp.leaf import log_marginal_without_prior, log_prior_of_sigma2
from tempering.models.treed_gp.leaf_prior import log_prior_of_leaf
from tempering.models.treed_gp.model import energy_of, run_round
from tempering.models.treed_gp.reference import fill_reference
from tempering.models.treed_gp.sums import Sums, add_draw, add_prediction
from tempering.models.treed_gp.tree import log_places_prior, log_tree_prior


@compiled
def move_rung(
    rng: np.random.Generator,
    walk: Ints,
    inverse_temperatures: Array,
    log_pseudo_prior: Array,
    energy_here: float,
) -> int:
    """Propose the next rung in the current direction, and turn round after a rejection; return the proposal.

    The lifted walk keeps (rung, direction) invariant with both directions equally likely, so that no factor
    is due at the ends, where the proposal beyond is a rejection.
    """
    here, there = walk[0], walk[0] + walk[1]
    if there < 0 or there >= inverse_temperatures.shape[0]:
        walk[1] = -walk[1]
        return int(here)
    log_ratio = (inverse_temperatures[there] - inverse_temperatures[here]) * energy_here
    log_ratio += log_pseudo_prior[there] - log_pseudo_prior[here]
    if math.log(rng.random()) < log_ratio:
        walk[0] = there
    else:
        walk[1] = -walk[1]
    return int(there)


@compiled
def log_marginals(state: State, k: float) -> float:
    """Return log m_k of all leaves."""
    total = state.meta[N_LEAVES] * log_prior_of_sigma2(state)
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        if not state.leaf[node, LOG_DET] < math.inf:
            return -math.inf
        total += log_marginal_without_prior(state, node, k)
    return float(total)


@compiled
def log_prior(state: State) -> float:
    """Return the log prior density of all that is not integrated out, up to a constant."""
    total = log_tree_prior(state) + log_places_prior(state) + log_prior_of_shared(state)
    for i in range(state.meta[N_LEAVES]):
        total += log_prior_of_leaf(state, state.lists[0, i])
    return total


@compiled
def log_weight_of(state: State, k: float, cold: float) -> float:
    """Return the log importance weight towards k = 1 with beta and sigma^2 integrated out: log m_1 - log m_k.

    It is the log of the mean of L^(1 - k) over their conditional at k, so that it varies less. It belongs to the
    other parameters; beta and sigma^2 are then drawn at k = 1. ``cold`` is log m_1.
    """
    if k == 1.0 or cold == -math.inf:
        return 0.0 if k == 1.0 else -math.inf
    tempered = log_marginals(state, k)
    if tempered == -math.inf:
        return -math.inf
    total = cold - tempered
    if state.integer[TEMPER_TREE] != 0:
        total += (1.0 - k) * log_tree_prior(state)
    return total


@compiled
def log_mixture_weight(e: float, inverse_temperatures: Array, log_pseudo_prior: Array) -> float:
    """Return log of e^E / sum_r p_r e^(k_r E): the weight of a draw of the chain, whatever rung it is on (Eq. 8)."""
    peak, total = -math.inf, 0.0
    for r in range(inverse_temperatures.shape[0]):
        term = log_pseudo_prior[r] + inverse_temperatures[r] * e
        if term > peak:
            total = total * math.exp(peak - term) + 1.0
            peak = term
        else:
            total += math.exp(term - peak)
    return e - peak - math.log(total)


@compiled
def stratum_of(e: float, edges: Array) -> int:
    """Return how many edges lie below an energy."""
    low, high = 0, edges.shape[0]
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < e:
            low = middle + 1
        else:
            high = middle
    return low


class Trace(NamedTuple):
    """Energy, log weight, rung, proposed rung and number of leaves after each round of a block."""

    energy: NDArray[np.float64]
    log_weight: NDArray[np.float64]
    rung: NDArray[np.int32]
    proposed: NDArray[np.int32]
    n_leaves: NDArray[np.int32]


def empty_trace(n_rounds: int) -> Trace:
    """Return an unwritten trace."""
    whole = [np.zeros(n_rounds, np.int32) for _ in range(3)]
    return Trace(np.zeros(n_rounds), np.zeros(n_rounds), *whole)


FRESH = -1.0


@entry
def run_block(
    rng: np.random.Generator,
    state: State,
    walk: Ints,
    inverse_temperatures: Array,
    log_pseudo_prior: Array,
    moves: bool,
    edges: Array,
    trace: Trace,
    sums: Sums,
    thin: int,
) -> None:
    """Run as many rounds as the trace holds; ``thin`` 0 keeps no sums.

    Sums are kept by rung; where there are ``edges``, by stretches of energy, with the weights of the mixture of all
    rungs. At k = 0 a draw from the prior itself takes the place of the round: then a new tour begins; `FRESH` in the
    place of k asks for one whatever is tempered.
    """
    for t in range(trace.energy.shape[0]):
        state.meta[RUNG] = walk[0]
        k = inverse_temperatures[walk[0]]
        if k < 0.0 or (k == 0.0 and state.integer[TEMPER_TREE] == 0):
            fill_reference(rng, state)
        else:
            run_round(rng, state, k)
        e = energy_of(state)
        trace.proposed[t] = walk[0]
        if moves:
            trace.proposed[t] = move_rung(rng, walk, inverse_temperatures, log_pseudo_prior, e)
        rung = walk[0]
        trace.energy[t] = e
        trace.rung[t] = rung
        trace.n_leaves[t] = state.meta[N_LEAVES]
        if thin == 0:
            continue
        cold = log_marginals(state, 1.0)
        log_weight = log_weight_of(state, inverse_temperatures[rung], cold)
        trace.log_weight[t] = log_weight
        if t % thin == 0:
            row = rung
            if edges.shape[0] > 0:
                row = stratum_of(e, edges)
                log_weight = log_mixture_weight(e, inverse_temperatures, log_pseudo_prior)
            sums.n_draws[rung] += 1
            add_draw(rng, state, sums, row, log_weight, cold + log_prior(state))


@entry
def predict_draw(
    state: State,
    sums: Sums,
    trace: Trace,
    inverse_temperatures: Array,
    log_pseudo_prior: Array,
    edges: Array,
    points: Array,
) -> None:
    """Add the predictions of the last draw of a trace to the sums; nothing random, so that the chain goes on alike."""
    e, row, log_weight = trace.energy[-1], int(trace.rung[-1]), trace.log_weight[-1]
    if edges.shape[0] > 0:
        row = stratum_of(e, edges)
        log_weight = log_mixture_weight(e, inverse_temperatures, log_pseudo_prior)
    add_prediction(state, sums, row, log_weight, points, np.empty((3, points.shape[0])))
