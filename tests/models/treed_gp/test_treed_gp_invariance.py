"""Every move leaves prior x likelihood^k invariant at k = 0, 0.6 and 1; each has a control that must be
seen.
"""

import numpy as np
import pytest
from treed_gp_exact import MOVES, N_STATISTICS, differences
from treed_gp_twin import from_python

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.leaf_moves import propose_positive
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.settings import Prior, Proposals

propose_from_python = from_python(propose_positive)

N_REPLICATES = 10_000
SOUND = MOVES[:-4]


# Between 0 and 1 the exact draws need (a, q) of sigma^2 fixed, a above n (1 - k), and a nugget that cannot
# be large, so that the weights are tame.
TAME = {"sigma2": (30.0, 8.0), "sigma2_rates": (0.0, 0.0), "nugget": (3.0, 20.0, 3.0, 10.0)}


def build(k, *, n_columns=2, leaf="gp_linear", temper="likelihood", n=24, coefficients="hierarchical"):
    """Return a state on skewed data with some replicated inputs, and trees of up to six leaves."""
    rng = np.random.default_rng(5)
    x = np.round(rng.random((n, n_columns)) ** 1.5, 1 if n_columns > 1 else 2)
    z = rng.standard_normal(n) + 3 * x[:, 0]
    constants = {} if k in (0.0, 1.0) else TAME
    # In one dimension only trees of four leaves and more tell their shapes apart: make them common.
    tree = (0.8, 0.7, 4) if n_columns > 1 else (0.97, 0.3, 1)
    prior = Prior(*tree, coefficients=coefficients, **constants)
    proposals = Proposals(window=2.0, tree_moves=0.9, change_reach=2, far_reach=6.0, far_move=0.4)
    model = TreedGPModel(x, z, leaf=leaf, prior=prior, proposals=proposals, temper=temper)
    state = model.allocate()
    return state._replace(y=state.y.copy(), real=state.real.copy())


def changes(label, state, k, name, k_move=None, real=None, n=N_REPLICATES):
    """Return the weighted changes of the statistics under a move."""
    k_move = k if k_move is None else k_move
    real = state.real.copy() if real is None else real
    return differences(seeded_rng(label), state, k, MOVES.index(name), k_move, real, n)


def assert_invariant(rows):
    assert np.ptp(rows) > 0
    assert_mean_is(np.zeros(N_STATISTICS), rows)


@pytest.mark.slow
@pytest.mark.parametrize("k", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("name", SOUND)
def test_move_leaves_the_tempered_posterior_invariant(name, k):
    assert_invariant(changes(f"{name} {k}", build(k), k, name))


@pytest.mark.parametrize("name", ["grow or prune", "swap or rotate", "step"])
@pytest.mark.parametrize("k", [0.0, 0.6])
def test_move_is_invariant_where_the_tree_prior_is_tempered_too(name, k):
    assert_invariant(changes(f"tempered tree {name} {k}", build(k, temper="likelihood_and_tree"), k, name))


@pytest.mark.parametrize("leaf", ["constant", "linear", "gp"])
def test_step_is_invariant_for_every_leaf_model(leaf):
    assert_invariant(changes(f"leaf {leaf}", build(0.6, leaf=leaf), 0.6, "step"))


@pytest.mark.parametrize("choice", ["zero_mean", "fixed"])
def test_step_is_invariant_for_every_prior_of_the_coefficients(choice):
    assert_invariant(changes(f"prior {choice}", build(1.0, coefficients=choice), 1.0, "step"))


@pytest.mark.slow
def test_control_a_prune_that_chooses_its_heir_otherwise_than_grow_is_seen():
    name = "prune that takes after the smaller child"
    state = build(1.0, n_columns=1, leaf="gp")  # whose children may be of very different sizes
    assert_seen(changes("heir control", state, 1.0, name, n=60_000))


def test_control_a_swap_that_moves_cuts_upwards_only_is_seen():
    # At k = 0 nothing but the proposal decides; at k = 1 one swap in four hundred is accepted.
    assert_seen(changes("shift control", build(0.0), 0.0, "swap that moves cuts upwards only"))


def steps_of_a_gamma(label, sign):
    """Return changes of two statistics under Metropolis steps from exact draws of a gamma, near and far proposals."""
    state, rng = build(1.0), seeded_rng(label)
    rows = np.empty((N_REPLICATES, 2))
    for row, x in zip(rows, rng.standard_gamma(2.5, N_REPLICATES), strict=True):
        new, log_back = propose_from_python(rng, state, x)
        accepted = np.log(rng.random()) < 1.5 * np.log(new / x) - (new - x) + sign * log_back
        row[:] = (np.log(new / x), np.tanh(new) - np.tanh(x)) if accepted else (0.0, 0.0)
    return rows


def test_near_and_far_proposals_of_a_positive_number_know_their_way_back():
    assert_mean_is(np.zeros(2), steps_of_a_gamma("positive", 1.0))


def test_control_a_proposal_that_takes_the_way_back_for_the_way_there_is_seen():
    assert_mean_is_not(np.zeros(2), steps_of_a_gamma("positive control", -1.0))


def rotation(label, decay=None):
    """Return the changes under rotation alone, told another decay of the tree prior where one is given."""
    state = build(1.0, n_columns=1, leaf="constant", n=60)
    real = state.real.copy()
    real[layout.BETA] = real[layout.BETA] if decay is None else decay
    return changes(label, state, 1.0, "swap or rotate", real=real, n=30_000)


def test_rotation_is_invariant_in_one_dimension():
    assert_invariant(rotation("rotation"))


def assert_seen(rows):
    assert_mean_is_not(np.zeros(N_STATISTICS), rows)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["grow or prune", "change", "swap or rotate", "ranges", "switches", "slopes", "nuggets", "coefficients", "step"],
)
def test_control_a_move_at_another_temperature_is_seen(name):
    n = 160_000 if name == "swap or rotate" else 40_000  # few trees have two rules to exchange
    assert_seen(changes(f"control {name}", build(1.0), 1.0, name, k_move=0.3, n=n))


WRONG_CONSTANT = {
    "grow or prune": {layout.ALPHA: 0.5},
    "ranges": {layout.RANGE_PRIOR + 3: 3.0},
    "switches": {layout.GAMMA2: 0.1},
    "slopes": {layout.SLOPE: 0.8},
    "nuggets": {layout.NUGGET_PRIOR + 1: 3.0, layout.NUGGET_PRIOR + 3: 3.0},
    "beta0": {layout.BETA0_VARIANCE: 2.0},
    "precision": {layout.WISHART_DOF: 5.0},
    "inverse gammas": {layout.RATE_Q_SIGMA: 5.0},
    "step": {layout.GAMMA2: 0.1},
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG_CONSTANT)
def test_control_a_move_with_another_prior_is_seen(name):
    state = build(1.0)
    real = state.real.copy()
    for at, value in WRONG_CONSTANT[name].items():
        real[at] = value
    assert_seen(changes(f"constant {name}", state, 1.0, name, real=real, n=4 * N_REPLICATES))


def test_control_a_rotation_with_another_tree_prior_is_seen():
    assert_seen(rotation("rotation control", decay=8.0))


@pytest.mark.parametrize("name", ["grow only", "tau2 of another prior"])
def test_control_a_broken_move_is_seen(name):
    assert_seen(changes(f"broken {name}", build(1.0), 1.0, name))
