"""Two ready neighbourhoods against exact answers: change points by forward sums, decomposable graphs one by one."""

from dataclasses import replace

import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering.errors import EstimatorError, InputError, SamplerError, TargetError
from tempering.estimators import RULES
from tempering.informed import Balancing, Moves, sample_informed
from tempering.informed.decomposable import DecomposableGraphs
from tempering.informed.segmentation import ChangePoints


def sequence():
    rng = seeded_rng("sequence")
    return np.repeat([0.0, 1.4, 0.2, -1.0], [12, 9, 15, 4]) + rng.standard_normal(40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"balancing": "sum"}, "screened"),
        ({"balancing": Balancing("square_root", tries=12), "draws": 2000}, "screened"),
        ({"balancing": "sum", "ladder": [1.0, 0.5, 0.0]}, "mbar"),
        ({"balancing": "barker", "ladder": [1.0, 0.4], "method": "parallel"}, "ess_optimal"),
        ({"balancing": "min", "ladder": 0.7}, "screened"),
    ],
)
def test_change_points_agree_with_forward_and_backward_sums(settings, rule):
    model = ChangePoints(sequence(), 1.0, 2.0, 0.08)
    truth, log_evidence = model.exact()
    run = sample_informed(model, chains=4, rng=3, tuning=tp.Tuning(200), **{"draws": 1000, **settings})
    found = run.expect(rule=rule)
    z = (np.asarray(found.value) - truth) / np.asarray(found.standard_error)
    assert np.abs(z).max() < 7  # of 39 places, errors from 32 batches or more: 3e-6 by Student
    wrong = np.asarray(found.value)[::-1] - truth
    assert np.abs(wrong / np.asarray(found.standard_error)).max() > 10
    if run.inverse_temperatures[-1] == 0.0:
        estimate = run.log_evidence()
        assert abs(estimate.value - (log_evidence - 39 * np.log1p(-0.08)) + log_base(39)) < 6 * estimate.standard_error


@pytest.mark.slow
def test_every_rule_combines_the_rungs_to_the_same_answer():
    model = ChangePoints(sequence(), 1.0, 2.0, 0.08)
    truth = model.exact()[0]
    run = sample_informed(
        model, balancing="sum", ladder=[1.0, 0.8, 0.6], draws=1500, tuning=tp.Tuning(200), chains=4, rng=8
    )
    for rule in RULES:
        found = run.expect(rule=rule)
        z = (np.asarray(found.value) - truth) / np.asarray(found.standard_error)
        assert np.abs(z).max() < 7, rule
        assert run.weights(rule).sum() == pytest.approx(1.0)


def log_base(n):
    """Log of the sum of the unnormalised prior, odds to the number of changes: (1 + odds)^n."""
    return n * np.log1p(0.08 / 0.92)


def test_ratios_of_change_points_are_differences_of_terms():
    model = ChangePoints(sequence())
    state = (4, 12, 30)
    energy, base = model.terms(state)
    moves = model.neighbours(state)
    for index in (0, 3, 11, 20, 38):
        there = model.terms(model.move(state, index))
        assert moves.energy[index] == pytest.approx(there[0] - energy, abs=1e-9)
        assert moves.base[index] == pytest.approx(there[1] - base, abs=1e-12)


def graphs(d=4, n=40):
    rng = seeded_rng("graphs")
    x = np.cumsum(rng.standard_normal((n, d)), axis=1)
    return DecomposableGraphs(x + 0.5 * rng.standard_normal((n, d)), 0.4)


def all_states(model):
    """Return every graph reached by legal flips, with its log posterior."""
    start = model.initial(None)
    found, pending = {}, [start]
    while pending:
        state = pending.pop()
        if state in found:
            continue
        found[state] = sum(model.terms(state))
        moves = model.neighbours(state)
        pending += [model.move(state, int(i)) for i in np.flatnonzero(moves.base > -np.inf)]
    return found


def test_flips_reach_all_61_decomposable_graphs_of_four_nodes_and_no_other():
    model = graphs()
    assert len(all_states(model)) == 61  # of 64; the other three are the cycles of length four


def test_ratios_of_graphs_are_symmetric_and_differences_of_terms():
    model = graphs()
    for state in list(all_states(model))[::5]:
        energy, base = model.terms(state)
        moves = model.neighbours(state)
        for index in np.flatnonzero(moves.base > -np.inf):
            there = model.move(state, int(index))
            after = model.terms(there)
            assert moves.energy[index] == pytest.approx(after[0] - energy, abs=1e-9)
            assert moves.base[index] == pytest.approx(after[1] - base, abs=1e-12)
            assert model.neighbours(there).energy[index] == pytest.approx(-moves.energy[index], abs=1e-9)


def test_edges_have_their_exact_probabilities():
    model = graphs()
    states = all_states(model)
    log_posterior = np.array(list(states.values()))
    weight = np.exp(log_posterior - log_posterior.max())
    truth = weight / weight.sum() @ np.array([model.record(state) for state in states])
    run = sample_informed(model, balancing="sum", draws=1500, tuning=tp.Tuning(200), chains=4, rng=2)
    found = run.expect()
    z = (np.asarray(found.value) - truth) / np.maximum(np.asarray(found.standard_error), 1e-6)
    assert np.abs(z).max() < 7
    unweighted = run.values.mean(axis=(0, 1))
    assert np.abs((unweighted - truth) / np.maximum(np.asarray(found.standard_error), 1e-6)).max() > 10


def test_multiple_try_needs_the_way_back():
    with pytest.raises(SamplerError, match="way_back"):
        sample_informed(graphs(), balancing=Balancing(tries=3), draws=10)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="two finite numbers"):
        ChangePoints(np.array([1.0]))
    with pytest.raises(InputError, match="2 to 62"):
        DecomposableGraphs(np.ones((5, 1)))
    with pytest.raises(SamplerError, match="balancing"):
        sample_informed(graphs(), balancing="cubic")
    with pytest.raises(SamplerError, match="method"):
        sample_informed(graphs(), method="serial")
    for data in (np.ones((5, 3)), np.full((5, 3), np.nan)):
        with pytest.raises(InputError, match="every column must vary"):
            DecomposableGraphs(data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 0}, "draws"),
        ({"draws": 2.5}, "draws"),
        ({"method": "sequential"}, "usual moves"),
        ({"method": tp.Method("parallel", rung_moves="random")}, "usual moves"),
        ({"tuning": tp.Tuning(100, objective="ess")}, "in one way"),
        ({"chains": 0}, "chains"),
        ({"ladder": "hot"}, "single inverse temperature"),
        ({"ladder": 2.0}, "single inverse temperature"),
        ({"ladder": [1, 0.5], "tuning": tp.Tuning(pseudo_prior=[0.0])}, "each of the 2 rungs"),
        ({"tune": 5}, r"write tuning=tp.Tuning\(5\)"),
        ({"tries": 5}, "tries=5"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(SamplerError, match=message):
        sample_informed(graphs(), **settings)


def test_a_model_without_its_methods_is_named():
    with pytest.raises(SamplerError, match="initial, terms, neighbours, move, record"):
        sample_informed(object())


def test_ratios_that_are_no_numbers_are_named():
    model = graphs()

    class Broken(DecomposableGraphs):
        def neighbours(self, state):
            return Moves(np.full(6, np.nan), np.zeros(6))

    with pytest.raises(TargetError, match="NaN"):
        sample_informed(Broken(model.data), draws=10)


@pytest.mark.slow
def test_the_verdict_sees_what_is_wrong_and_nothing_else():
    model = ChangePoints(sequence(), 1.0, 2.0, 0.08)
    good = sample_informed(model, balancing="sum", draws=1500, tuning=tp.Tuning(200), chains=4, rng=3)
    assert good.diagnose(lambda changes: changes).is_good, good.diagnose(lambda changes: changes)
    short = sample_informed(
        model, balancing="square_root", draws=30, tuning=tp.Tuning(0), chains=2, ladder=[1, 0.5, 0], rng=3
    )
    found = short.diagnose()
    assert not found.is_good
    assert "independent" in str(found)
    assert found.n_round_trips < 20


def test_a_run_without_a_cold_draw_is_not_answered_from_hot_ones_alone():
    """Hot rungs by themselves would answer, and state a small error."""
    run = sample_informed(ChangePoints(sequence(), 1.0, 2.0, 0.08), ladder=[1.0, 0.4], chains=2, draws=50, rng=1)
    hot = replace(run, rung=np.ones_like(run.rung))
    with pytest.raises(EstimatorError, match="no draw is on it"):
        hot.expect()
    assert not hot.diagnose().is_good
    assert "cold rung" in str(hot.diagnose())
    assert np.all(np.isfinite(run.expect().value))  # control
