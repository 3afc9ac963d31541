"""Informed chains by their exact transition matrices: alone, multiple try, simulated and parallel tempering."""

import numpy as np
import pytest

from informed.graphs import ZOO, Graph, WeightedGraph, branch, stationary_law, weighted
from tempering.informed import BALANCING, mover, sampling
from tempering.informed.mover import InformedMover, Point
from tempering.informed.sampling import RUNG_MOVES, Jumper, step_parallel, step_simulated

LADDER = np.array([1.0, 0.55, 0.1])
LOG_PSEUDO_PRIOR = np.array([0.0, 0.7, -0.4])


@pytest.fixture(autouse=True)
def _branching(monkeypatch):
    branch(monkeypatch)


def arrived(chain, state, chosen=None):
    """Return the point of (state, subset looked at), without any decision."""
    moves = chain.model.neighbours(state)
    if chosen is not None:
        moves = type(moves)(moves.energy[list(chosen)], moves.base[list(chosen)])
        moves = chain._correct_degrees(state, np.array(chosen), moves, len(chain.model.at[state]))
    k = chain.inverse_temperatures
    totals = np.array([mover.log_total(chain._rates(state, moves, i)) for i in range(len(k))])
    kept = (None if chosen is None else np.array(chosen), moves)
    return Point(state, chain.model.terms(state)[0], totals, kept)


def name_of(point):
    """Return a point as something hashable."""
    chosen = point.kept[0]
    return point.state, None if chosen is None else tuple(int(i) for i in chosen)


def distance(found, truth):
    return max(abs(found.get(x, 0.0) - p) for x, p in enumerate(truth))


def error_alone(chain):
    """Return how far the weighted law of a chain at one rung is from the target."""
    k = chain.inverse_temperatures[0]

    def step(decisions, name):
        state, hint = chain.leave(decisions, arrived(chain, *name), 0)
        return name_of(chain.arrive(decisions, state, hint))

    chosen = None if chain.tries is None else tuple(range(min(chain.tries, len(chain.model.at[0]))))
    law = stationary_law((0, chosen), step)

    def log_weight(name):
        point = arrived(chain, *name)
        return (1 - k) * point.energy - point.log_totals[0]

    return distance(weighted(law, lambda name: name[0], log_weight), chain.model.law())


@pytest.mark.parametrize("balancing", BALANCING)
@pytest.mark.parametrize("graph", ZOO)
def test_the_weighted_law_is_the_target(graph, balancing):
    assert error_alone(InformedMover(Graph(*ZOO[graph]), np.ones(1), balancing)) < 1e-12


@pytest.mark.parametrize("graph", ZOO)
def test_symmetric_edge_weights_change_the_chain_and_not_the_law(graph):
    assert error_alone(InformedMover(WeightedGraph(*ZOO[graph]), np.ones(1), "sum")) < 1e-12


@pytest.mark.parametrize("balancing", BALANCING)
@pytest.mark.parametrize("power", [0.3, 0.7])
def test_the_tempered_form_is_weighted_back(balancing, power):
    assert error_alone(InformedMover(Graph(*ZOO["lollipop"]), np.array([power]), balancing)) < 1e-12


@pytest.mark.parametrize("graph", ZOO)
def test_control_a_function_that_does_not_balance_is_seen(monkeypatch, graph):
    monkeypatch.setitem(BALANCING, "min", lambda log_ratio: 0.3 * log_ratio)
    assert error_alone(InformedMover(Graph(*ZOO[graph]), np.ones(1), "min")) > 1e-3


@pytest.mark.parametrize("graph", ZOO)
def test_control_edge_weights_that_are_not_symmetric_are_seen(monkeypatch, graph):
    skewed = lambda self, x, moves, k: np.array([0.3 * x + 0.2 * y for y in self.at[x]])  # noqa: E731
    monkeypatch.setattr(WeightedGraph, "log_edge_weights", skewed)
    assert error_alone(InformedMover(WeightedGraph(*ZOO[graph]), np.ones(1), "sum")) > 1e-3


@pytest.mark.parametrize("tries", [2, 3])
@pytest.mark.parametrize("graph", ZOO)
def test_multiple_try_is_exact_whatever_the_degrees(graph, tries):
    assert error_alone(InformedMover(Graph(*ZOO[graph]), np.ones(1), "barker", tries=tries)) < 1e-12


@pytest.mark.parametrize("graph", ["star", "lollipop", "tree"])
def test_control_forgetting_that_degrees_differ_is_seen(monkeypatch, graph):
    monkeypatch.setattr(InformedMover, "_correct_degrees", lambda self, state, chosen, moves, n: moves)
    assert error_alone(InformedMover(Graph(*ZOO[graph]), np.ones(1), "barker", tries=2)) > 1e-3


@pytest.mark.parametrize("graph", ["complete", "cube", "bipartite"])
def test_control_a_way_back_that_may_be_closed_is_seen(monkeypatch, graph):
    subset = mover.subset
    monkeypatch.setattr(mover, "subset", lambda rng, n, size, forced=-1: subset(rng, n, size))
    assert error_alone(InformedMover(Graph(*ZOO[graph]), np.ones(1), "barker", tries=2)) > 1e-3


def error_simulated(chain, move_rung, weigh=True):
    """Return the distance of the weighted joint law from p_i pi_i(x), and of the target from pi."""

    def step(decisions, name):
        (state, chosen), rung, way = name
        walker = Jumper(arrived(chain, state, chosen), rung, way)
        walker = step_simulated(decisions, chain, walker, LADDER, LOG_PSEUDO_PRIOR, move_rung)
        return name_of(walker.point), walker.rung, walker.direction

    chosen = None if chain.tries is None else tuple(range(min(chain.tries, len(chain.model.at[0]))))
    law = stationary_law(((0, chosen), 0, 1), step)

    def holding(name):
        return -arrived(chain, *name[0]).log_totals[name[1]] if weigh else 0.0

    joint = weighted(law, lambda name: (name[0][0], name[1]), holding)
    log_joint = LADDER[:, None] * chain.model.energies + chain.model.bases + LOG_PSEUDO_PRIOR[:, None]
    truth = np.exp(log_joint) / np.exp(log_joint).sum()
    error = max(abs(joint[x, i] - truth[i, x]) for i, x in np.ndindex(truth.shape))

    def whole(name):
        return holding(name) + (1 - LADDER[name[1]]) * chain.model.energies[name[0][0]] - LOG_PSEUDO_PRIOR[name[1]]

    return max(error, distance(weighted(law, lambda name: name[0][0], whole), chain.model.law()))


@pytest.mark.parametrize("moves", RUNG_MOVES)
@pytest.mark.parametrize("balancing", BALANCING)
@pytest.mark.parametrize("graph", ["ring", "star", "lollipop", "cube"])
def test_simulated_tempering_over_informed_chains_is_exact(graph, balancing, moves):
    chain = InformedMover(Graph(*ZOO[graph]), LADDER, balancing)
    assert error_simulated(chain, RUNG_MOVES[moves]) < 1e-12


@pytest.mark.parametrize("moves", RUNG_MOVES)
def test_simulated_tempering_over_multiple_try_and_edge_weights_is_exact(moves):
    assert error_simulated(InformedMover(Graph(*ZOO["tree"]), LADDER, "sum", tries=2), RUNG_MOVES[moves]) < 1e-12
    assert error_simulated(InformedMover(WeightedGraph(*ZOO["tree"]), LADDER, "sum"), RUNG_MOVES[moves]) < 1e-12


@pytest.mark.parametrize("moves", RUNG_MOVES)
def test_control_rung_moves_that_forget_the_sums_of_rates_are_seen(moves):
    def forgetful(rng, rung, way, energy, k, log_p):
        return RUNG_MOVES[moves](rng, rung, way, energy, k, LOG_PSEUDO_PRIOR)

    assert error_simulated(InformedMover(Graph(*ZOO["lollipop"]), LADDER, "sum"), forgetful) > 1e-3


def test_control_draws_without_their_weights_are_seen():
    chain = InformedMover(Graph(*ZOO["lollipop"]), LADDER, "sum")
    assert error_simulated(chain, RUNG_MOVES["lifted"], weigh=False) > 1e-3


def error_parallel(chain, n_rungs=2):
    """Return the distance of every rung's weighted law from pi_i; iterations swap the even pairs, then the odd.

    On a bipartite graph all replicas change sides at every jump: the joint law is not the product of the rungs.
    Each side has half of pi_i Z_i, which keeps every rung's own law right all the same.
    """
    k = chain.inverse_temperatures

    def step(decisions, name):
        points, turn = name
        points, _ = step_parallel(decisions, chain, [arrived(chain, *one) for one in points], k, turn)
        return tuple(name_of(point) for point in points), 1 - turn

    law = stationary_law((((0, None),) * n_rungs, 0), step)
    errors = []
    for rung in range(n_rungs):
        own = weighted(
            law,
            lambda name, rung=rung: name[0][rung][0],
            lambda name, rung=rung: -arrived(chain, *name[0][rung]).log_totals[rung],
        )
        errors.append(distance(own, chain.model.law(k[rung])))
    return max(errors)


@pytest.mark.parametrize("balancing", BALANCING)
@pytest.mark.parametrize("graph", ["line", "complete"])
def test_parallel_tempering_over_informed_chains_is_exact(graph, balancing):
    assert error_parallel(InformedMover(Graph(*ZOO[graph]), LADDER[[0, 2]], balancing)) < 1e-12


def test_three_replicas_are_exact():
    triangle = Graph([(0, 1), (1, 2), (0, 2)], 3)
    assert error_parallel(InformedMover(triangle, LADDER, "sum"), n_rungs=3) < 1e-12


def test_control_swaps_that_forget_the_sums_of_rates_are_seen(monkeypatch):
    def forgetful(cold, hot, lower, k):
        return (k[lower] - k[lower + 1]) * (hot.energy - cold.energy)

    monkeypatch.setattr(sampling, "log_swap_ratio", forgetful)
    assert error_parallel(InformedMover(Graph(*ZOO["lollipop"]), LADDER[[0, 2]], "sum")) > 1e-3
