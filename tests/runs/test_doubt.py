"""Error bars that are widened by what a run cannot have seen, and the tours that say how much that is."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tempering as tp
from exact_runs import exact_run_on_two_legs
from statistical import seeded_rng
from tempering.estimators import Estimate
from tempering.estimators.running.answers import combine_sums
from tempering.path import Ladder, Leg, Path
from tempering.path.reference import Reference
from tempering.runs.diagnosis import THIN, _about_legs, _about_rungs, _about_thin_places
from tempering.runs.evidence import evidence_of_legs
from tempering.runs.tours import FEW_ROUND_TRIPS, FEW_TOURS, ThinPlaces, effective_pieces, thinly_covered, with_doubt

VALUES = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 12.0]])
WEIGHTS = np.array([[0.3, 0.2, 0.1], [0.1, 0.2, 0.1]])
MEAN = float(np.sum(WEIGHTS * VALUES))
FOUND = Estimate(MEAN, 0.05)


def test_an_event_that_no_piece_has_seen_moves_a_mean_by_its_spread():
    spread = np.sqrt(np.sum(WEIGHTS * (VALUES - MEAN) ** 2))
    assert with_doubt(FOUND, VALUES, WEIGHTS, 8.0).standard_error == pytest.approx(np.hypot(0.05, spread / 8))
    assert with_doubt(FOUND, VALUES, WEIGHTS, None) == FOUND


def test_the_spread_of_an_indicator_is_one_even_if_it_never_changed():
    never = Estimate(0.0, 0.0)
    assert with_doubt(never, np.zeros((2, 3)), WEIGHTS, 40.0).standard_error == pytest.approx(1 / 40)


def test_fewer_than_two_pieces_say_nothing():
    assert with_doubt(FOUND, VALUES, WEIGHTS, 1.9).standard_error == np.inf
    both = Estimate(np.zeros(2), np.zeros(2))
    np.testing.assert_array_equal(with_doubt(both, np.zeros((2, 3, 2)), WEIGHTS, 1.0).standard_error, [np.inf] * 2)


@pytest.mark.parametrize("deeper", [1.0, 0.3])
def test_of_what_thinly_covered_places_add_as_much_may_be_missing_as_lies_deeper(deeper):
    thin = ThinPlaces(np.array([[False, False, False], [False, False, True]]), deeper)
    spread, added = np.sqrt(np.sum(WEIGHTS * (VALUES - MEAN) ** 2)), deeper * 0.1 * (12.0 - MEAN)
    found = with_doubt(FOUND, VALUES, WEIGHTS, 8.0, thin)
    assert found.standard_error == pytest.approx(np.sqrt(0.05**2 + (spread / 8) ** 2 + added**2))
    assert found.value == MEAN
    columns = np.stack([VALUES, -VALUES], axis=-1)
    both = with_doubt(Estimate(np.array([MEAN, -MEAN]), np.full(2, 0.05)), columns, WEIGHTS, 8.0, thin)
    np.testing.assert_allclose(both.standard_error, found.standard_error)


def test_what_lies_on_both_sides_of_a_mean_is_no_less_doubtful_than_on_one():
    """A funnel's neck and its mouth are thin, and far from the mean on either side."""
    x = np.array([[-9.0, 9.0, -1.0, 1.0]])
    thin = ThinPlaces(np.abs(x) > 5.0, 1.0)
    found = with_doubt(Estimate(0.0, 0.0), x, np.full((1, 4), 0.25), 1e9, thin)
    assert found.standard_error == pytest.approx(0.5 * 9.0)


SAFE = Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder([1, 0.5, 0.0]), source=1)
QUICK = Leg("quick", np.array([0.0, 0.0, 1.0]), Ladder([1, 0.0]), source=2)
Q = Reference([1.0], [[0.0]], [np.eye(1)], [5])
PATH = Path([1.0, 1.0, 0.0], [SAFE, QUICK], references=[Q])  # rungs: 0 mixture, 1 target, 2, 3 prior


def run_of(rung, proposed=None, terms=None, rung_moves="neighbour"):
    rung = np.array(rung)
    terms = np.zeros((*rung.shape, 3)) if terms is None else terms
    return SimpleNamespace(
        rung=rung, proposed=rung if proposed is None else np.array(proposed), terms=terms, path=PATH,
        n_chains=len(rung), chains_per_ensemble=1, info=SimpleNamespace(rung_moves=rung_moves),
        weights=lambda: (rung == PATH.target) / np.sum(rung == PATH.target),
    )  # fmt: skip


def test_a_tour_ends_with_a_draw_at_either_end():
    run = run_of([[1, 0, 1, 2, 3, 1, 1], [2, 1, 1, 1, 1, 2, 2]])
    # pieces: [1, 0], [1, 2, 3], [1, 1] of the one chain, and all of the other
    weights = np.ones((2, 7))
    assert effective_pieces(run, weights) == pytest.approx(14**2 / (2**2 + 3**2 + 2**2 + 7**2))


def test_lifted_moves_end_a_tour_only_where_they_turn_at_the_end():
    """Elsewhere the direction is remembered: at an end just reached, and at one whose way inward was refused."""
    rung, proposed = [[1, 0, 0, 1, 0, 0, 0, 1]], [[1, 0, 0, 1, 0, 1, 0, 1]]
    run = run_of(rung, proposed, rung_moves="lifted")  # turned at draws 2 and 6, not at 5
    assert effective_pieces(run, np.ones((1, 8))) == pytest.approx(8**2 / (3**2 + 4**2 + 1**2))


@pytest.mark.parametrize("longest", [1, 60])
def test_places_that_few_tours_have_come_to_are_thin(longest):
    """Few by their weights there: one that stays for long has to be made up for by others."""
    n = 6 * FEW_TOURS
    height = seeded_rng("thin places").permutation(n)  # of the target over the mixture, in each tour
    lengths = np.where(height == n - 1, longest, 1)
    tour = np.repeat(np.arange(n), lengths + 1)
    rung = np.concatenate([[1] * length + [0] for length in lengths])[None]
    terms = np.zeros((1, rung.size, 3))
    terms[0, :, 0] = np.where(rung[0] == 1, height[tour], -50.0)
    is_thin = thinly_covered(run_of(rung, terms=terms)).is_thin
    n_others = FEW_TOURS - 1  # beside a tour of that length: (m + l)^2 / (m + l^2) is the number wanted
    while (n_others + longest) ** 2 < FEW_TOURS * (n_others + longest**2):
        n_others += 1
    np.testing.assert_array_equal(is_thin[0], (height[tour] >= n - 1 - n_others) & (rung[0] == 1))
    few = 2 * (FEW_TOURS - 1)
    assert thinly_covered(run_of(np.tile([1, 0], FEW_TOURS - 1)[None], terms=terms[:, :few])) is None


@pytest.mark.parametrize(("height", "least", "most"), [("bounded", 0.0, 0.03), ("heavy", 0.9, 1.0)])
def test_a_heavy_tail_of_the_target_over_the_mixture_may_hold_as_much_again_deeper(height, least, most):
    """Of a bounded one nearly nothing lies beyond the highest of a hundred tours."""
    n = 30 * FEW_TOURS
    u = (seeded_rng("tails").permutation(n) + 0.5) / n
    terms = np.zeros((1, 3 * n, 3))
    terms[0, 1::3, 0] = np.log(1.0 - 0.5 * u) if height == "bounded" else -1.2 * np.log(u)
    terms[0, ::3, 0] = terms[0, 2::3, 0] = -50.0
    found = thinly_covered(run_of(np.tile([1, 1, 0], n)[None], terms=terms))
    assert least < found.deeper <= most


def test_a_heavy_tail_that_the_safe_end_has_is_not_deep():
    """A prior of Cauchy's tails, under a mixture of lighter ones: what is left of the target over both is bounded."""
    n = 30 * FEW_TOURS
    u = (seeded_rng("covered").permutation(n) + 0.5) / n
    terms = np.zeros((1, 3 * n, 3))
    terms[0, 1::3, 1] = -1.2 * np.log(u)
    terms[0, ::3, 1] = terms[0, 2::3, 1] = -50.0
    assert thinly_covered(run_of(np.tile([1, 1, 0], n)[None], terms=terms)).deeper < 0.05
    terms[..., 0], terms[..., 1] = terms[..., 1], -20.0  # control: a safe end that is flat there
    assert thinly_covered(run_of(np.tile([1, 1, 0], n)[None], terms=terms)).deeper > 0.9


@pytest.mark.parametrize(("n_round_trips", "n_said"), [(FEW_TOURS - 1, 1), (FEW_TOURS, 0)])
def test_a_slow_exchange_is_spoken_of_where_chains_come_round_seldom(n_round_trips, n_said):
    run = SimpleNamespace(
        path=PATH, info=SimpleNamespace(method="simulated", is_log_concave=False), visits=np.full(4, 100),
        n_round_trips=n_round_trips,
        rungs=lambda: pd.DataFrame({"exchange_acceptance": [0.5, 0.01, 0.5, np.nan], "move_acceptance": [0.5] * 4}),
    )  # fmt: skip
    assert len(_about_rungs(run)) == n_said


def test_the_verdict_speaks_of_thin_places_beyond_a_trifle_and_beyond_the_share_of_their_tours():
    many, few = 2 * FEW_TOURS / THIN, 0.2 * FEW_TOURS / THIN
    for mass, n_crossings, n_said in ((2 * THIN, many, 1), (THIN / 2, many, 0), (2 * THIN, few, 0)):
        assert (
            len(_about_thin_places(SimpleNamespace(thin_mass=mass, missing_mass=mass, n_crossings=n_crossings)))
            == n_said
        )


@pytest.mark.parametrize(("step", "disagrees"), [(2.0**-50, False), (0.01, True)])
def test_legs_are_compared_by_what_varies_and_not_by_rounding(step, disagrees):
    run = exact_run_on_two_legs("rounding")
    steps = seeded_rng("steps").integers(4, size=run.rung.shape) + 2 * (run.rung < run.path.target)
    said = _about_legs(run, [("one", (1.0 + step * steps)[..., None])])
    assert bool(said) == disagrees, said


def test_sums_of_an_indicator_that_never_changed_are_as_doubtful_as_its_draws():
    run = tp.sample(
        tp.Target(lambda x: -0.5 * float(x) ** 2), initial=0.0, ladder=[1, 0.5, 0.2], draws=400, chains=2, rng=3,
        tuning=tp.Tuning(128), execution=tp.Execution(engine="scalar"), progress=False,
        keep=tp.Sums({"far": lambda x: x > 100.0, "x": lambda x: x}),
    )  # fmt: skip
    assert run.n_round_trips > 10
    assert run.expect("far").value == 0.0
    assert run.expect("far").standard_error == pytest.approx(1 / run.n_round_trips)
    own = combine_sums(run.sums, "x", "mbar", run.mbar)
    spread = np.sqrt(run.variance("x")[0])
    assert spread == pytest.approx(1.0, abs=0.25)
    assert run.expect("x").standard_error == pytest.approx(np.hypot(own.standard_error, spread / run.n_round_trips))


@pytest.mark.parametrize(
    ("quick", "n_round_trips", "value", "error"),
    [
        (12.0, FEW_ROUND_TRIPS - 1, 10.0, np.hypot(0.1, 2.0)),
        (12.0, FEW_ROUND_TRIPS, 10.0, 0.1),  # a prior may not be normalised
        (10.6, FEW_ROUND_TRIPS, 10.0, np.hypot(0.1, 0.6)),  # five errors: neither chance nor a constant for certain
        (10.1, FEW_ROUND_TRIPS - 1, 10.1, 0.05),
    ],
)
def test_a_gap_between_the_legs_is_an_error_of_the_evidence_where_round_trips_are_few_or_the_gap_is(
    quick, n_round_trips, value, error
):
    legs = [Leg("safe", np.eye(3)[1], Ladder([1.0, 0.5, 0.0]), 1), Leg("quick", np.eye(3)[2], Ladder([1.0, 0.0]), 2)]
    path = Path([1.0, 1.0, 0.0], legs, ("log likelihood", "log prior", "log quick end"))
    found = evidence_of_legs(
        path, lambda rung: Estimate(quick, 0.05) if rung == 0 else Estimate(10.0, 0.1), np.ones(4), None, n_round_trips
    )
    assert found.value == value
    assert found.standard_error == pytest.approx(error)
