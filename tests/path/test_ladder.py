"""Ladders: frozen values with exact ends, and errors that say what to do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempering import Ladder
from tempering.errors import LadderError, TemperingError

SPACINGS = [Ladder.geometric, Ladder.harmonic, Ladder.sigmoidal]


@pytest.mark.parametrize("spacing", SPACINGS)
@given(rungs=st.integers(2, 300), hottest=st.floats(1e-6, 0.99))
def test_every_spacing_goes_from_one_to_the_hottest_exactly(spacing, rungs, hottest):
    ladder = spacing(rungs, hottest)
    k = ladder.inverse_temperatures
    assert (len(ladder), k[0], k[-1], ladder.hottest) == (rungs, 1.0, hottest, hottest)
    assert np.all(np.diff(k) < 0)


def test_spacings_are_those_of_the_paper():
    """Eq. 4: geometric (1 + rate)^(1 - i), harmonic 1 / (1 + rate (i - 1)); i counts from 1."""
    i = np.arange(1, 6)
    np.testing.assert_allclose(list(Ladder.geometric(5, rate=0.3)), 1.3 ** (1.0 - i), rtol=1e-14)
    np.testing.assert_allclose(list(Ladder.harmonic(5, rate=0.3)), 1 / (1 + 0.3 * (i - 1)), rtol=1e-14)
    sigmoid = 1.01 / (1 + 0.01 * np.exp(0.3 * (i - 1)))
    np.testing.assert_allclose(list(Ladder.sigmoidal(5, rate=0.3)), sigmoid, rtol=1e-14)


@pytest.mark.parametrize("spacing", SPACINGS)
def test_hottest_and_rate_are_two_names_for_one_ladder(spacing):
    by_rate = spacing(7, rate=0.8)
    np.testing.assert_allclose(list(spacing(7, by_rate.hottest)), list(by_rate), rtol=1e-12)


@pytest.mark.parametrize("spacing", SPACINGS)
def test_one_rung_is_the_cold_one(spacing):
    assert list(spacing(1)) == list(spacing(1, 0.1)) == [1.0]


def test_a_ladder_is_a_frozen_value():
    given_k = np.array([1.0, 0.5, 0.0])
    ladder = Ladder(given_k)
    given_k[1] = 0.7
    assert list(ladder) == [1.0, 0.5, 0.0]
    assert ladder[1] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        ladder.inverse_temperatures[1] = 0.6
    with pytest.raises(AttributeError):
        ladder.inverse_temperatures = given_k
    assert ladder == Ladder([1, 0.5, 0])
    assert hash(ladder) == hash(Ladder([1, 0.5, 0]))
    assert ladder != Ladder([1, 0.5])
    assert ladder != [1.0, 0.5, 0.0]


def test_a_long_ladder_is_shown_by_its_ends():
    assert repr(Ladder.geometric(20, 0.1)).startswith("Ladder(20 rungs, k = 1, ")
    assert repr(Ladder.geometric(20, 0.1)).endswith("..., 0.112884, 0.1)")
    assert repr(Ladder([1])) == "Ladder(1 rung, k = 1)"


@pytest.mark.parametrize(
    ("k", "message"),
    [
        ([], r"non-empty sequence.*shape \(0,\).*\[1, 0.5, 0.1\]"),
        ([[1.0, 0.5]], r"shape \(1, 2\)"),
        ([1.0, np.nan], "must be finite, but rung 1"),
        ([0.1, 0.5, 1.0], r"first rung must be the cold one, k = 1, but it is k = 0.1.*reverse the sequence"),
        ([10.0, 1.5], r"k = 1, but it is k = 10.*1 / temperature"),
        ([1.0, 0.5, 0.5], r"strictly decrease, but rung 1 has k = 0.5 and rung 2 has k = 0.5.*drop repeats"),
        ([1.0, -0.1], r"must not be negative, but the hottest is -0.1.*Use 0"),
    ],
)
def test_a_bad_ladder_says_what_must_hold_what_came_and_what_to_do(k, message):
    with pytest.raises(LadderError, match=message) as caught:
        Ladder(k)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TemperingError)


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rungs": 0, "hottest": 0.1}, "at least 1, but got 0"),
        ({"rungs": 2.5, "hottest": 0.1}, "whole number.*2.5"),
        ({"rungs": 3}, "either hottest.*or rate.*neither"),
        ({"rungs": 3, "hottest": 0.1, "rate": 0.1}, "not both"),
        ({"rungs": 3, "hottest": 10}, r"must lie in \(0, 1\), but got 10.*temperature of 10, pass 0.1"),
        ({"rungs": 3, "hottest": 0.0}, r"must lie in \(0, 1\), but got 0.*Ladder\(\[1, ..., 0\]\)"),
        ({"rungs": 3, "rate": -1.0}, "must be positive, but got -1"),
    ],
)
def test_a_bad_spacing_says_so(spacing, arguments, message):
    with pytest.raises(LadderError, match=message):
        spacing(**arguments)
