"""The price of an informed jump between trees of a treed Gaussian process; see `benchmarks.informed_price`."""

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from tempering.experiments import exponential, motorcycle
from tempering.models.treed_gp.compiled import entry
from tempering.models.treed_gp.grow_prune import copy_parameters
from tempering.models.treed_gp.layout import (
    CUT,
    GROW,
    LEFT,
    N_INTERNAL,
    N_LEAVES,
    N_RANGES,
    NUGGET,
    PRUNE,
    RANGES,
    RIGHT,
    VARIABLE,
    State,
)
from tempering.models.treed_gp.leaf import log_marginal
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.summary import summarise
from tempering.models.treed_gp.tree import close_children, interval, is_prunable, open_children, well_sized

TUNE, ROUNDS, TREES, SEARCHES = 3_000, 6_000, 60, 6


@entry
def look_at_neighbours(state: State, out: Any) -> int:
    """Write the log likelihood ratios of all neighbours of a tree, values held; return their number."""
    count = 0
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        here = log_marginal(state, node, 1.0)
        for variable in range(state.n_cuts.shape[0]):
            low, high = interval(state, node, variable)
            for cut in range(low + 1, high):
                state.tree[node, VARIABLE], state.tree[node, CUT] = variable, cut
                open_children(state, node)
                left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
                if well_sized(state, left) and well_sized(state, right):
                    out[count] = -here
                    for child in (left, right):
                        copy_parameters(state, node, child)
                        summarise(state, child)
                        out[count] += log_marginal(state, child, 1.0)
                    count += 1
                close_children(state, node)
    for i in range(state.meta[N_INTERNAL]):
        node = state.lists[1, i]
        if is_prunable(state, node):
            left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
            copy_parameters(state, left, node)
            summarise(state, node)
            there = log_marginal(state, node, 1.0)
            out[count] = there - log_marginal(state, left, 1.0) - log_marginal(state, right, 1.0)
            count += 1
    return count


@entry
def leaf_at(state: State, node: int, log_range: float, log_nugget: float) -> float:
    """Return the log marginal likelihood of a leaf at one range for all inputs and a nugget."""
    for j in range(state.integer[N_RANGES]):
        state.leaf[node, RANGES + j] = np.exp(log_range)
    state.leaf[node, NUGGET] = np.exp(log_nugget)
    summarise(state, node)
    return log_marginal(state, node, 1.0)


def evaluations_of_a_maximum(state: State) -> float:
    """Return the mean evaluations of a simplex search for the range and nugget of a tree's leaves."""
    counts = []
    for node in state.lists[0, : state.meta[N_LEAVES]][:SEARCHES]:
        start = np.log(state.leaf[node, [RANGES, NUGGET]])
        found = minimize(
            lambda v, node=node: -leaf_at(state, node, *np.clip(v, -20.0, 5.0)), start, method="Nelder-Mead",
            options={"xatol": 0.05, "fatol": 0.05},
        )  # fmt: skip
        counts.append(found.nfev)
    return float(np.mean(counts))


def prices(seed: int) -> list[dict[str, object]]:
    """Return a row for each of the paper's two sets of data."""
    return [
        price_of_trees("motorcycle accident, n = 133, d = 1", *motorcycle.load(), seed),
        price_of_trees("two-dimensional exponential, n = 80, d = 2", *exponential.load()[:2], seed),
    ]


def price_of_trees(name: str, x: Any, y: Any, seed: int) -> dict[str, object]:
    """Run a chain at the target's own temperature; time it, and then looks at all neighbours of its trees."""
    model, rng = TreedGPModel(x, y), np.random.default_rng(seed)
    state, out = model.initial(rng), np.zeros(100_000)
    look_at_neighbours(state, out)  # compiles
    for _ in range(TUNE):
        model.step(rng, state, 1.0)
    sampling, looking, counts, proposals = 0.0, 0.0, [], np.zeros(2)
    for _ in range(TREES):
        begun = time.process_time()
        for _ in range(ROUNDS // TREES):
            model.step(rng, state, 1.0)
            proposals += state.counters[[GROW, PRUNE]].sum(axis=0)
        sampling += time.process_time() - begun
        begun = time.process_time()
        counts.append(look_at_neighbours(state, out))
        looking += time.process_time() - begun
    tried, accepted = proposals
    jump, rate = looking / TREES, accepted / sampling
    row: dict[str, object] = {
        "model": name,
        "neighbours": float(np.mean(counts)),
        "microseconds_of_an_evaluation": 1e6 * looking / sum(counts),
        "milliseconds_of_an_informed_jump": 1e3 * jump,
        "accepted_share_of_growing_and_pruning": float(accepted / tried),
        "accepted_jumps_per_second_by_reversible_jump": rate,
        "accepted_jumps_in_that_time": rate * jump,
    }
    evaluations = evaluations_of_a_maximum(state)
    return {**row, "evaluations_of_a_maximum": evaluations, "accepted_with_maxima": rate * jump * evaluations}
