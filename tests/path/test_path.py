"""Paths: what every rung is made of, where legs lie on the line, and that a path comes back from its description."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tempering.errors import LadderError
from tempering.io.encoding import decode, encode
from tempering.path import NO_SOURCE, Ladder, Leg, Path, weighted_terms
from tempering.path.reference import Reference

numbers = st.floats(-3, 3).map(lambda x: round(x, 3))


@st.composite
def ladders(draw):
    inner = draw(st.sets(st.integers(1, 99), max_size=6))
    ends = [[1.0], [1.0, 0.0]][draw(st.integers(0, 1))]
    return Ladder([1.0, *sorted((i / 100 for i in inner), reverse=True), *ends[1:]])


@st.composite
def paths(draw):
    n_terms = draw(st.integers(1, 4))
    vectors = arrays.arrays(float, n_terms, elements=numbers)
    legs = [
        Leg(name, draw(vectors), draw(ladders()), draw(st.integers(NO_SOURCE, n_terms - 1)))
        for name in ("safe", "quick")[: draw(st.integers(1, 2))]
    ]
    return Path(draw(vectors), legs, [f"t{i}" for i in range(n_terms)])


def terms_for(path, n=7, seed=0):
    return np.random.default_rng(seed).normal(size=(n, path.target_coefficients.size))


@given(paths())
def test_the_target_is_on_its_rung_and_the_ends_are_at_the_ends(path):
    c = path.coefficients
    assert len(path) == len(c) == sum(len(leg.ladder) for leg in path.legs) - len(path.legs) + 1
    np.testing.assert_allclose(c[path.target], path.target_coefficients, atol=1e-15)
    assert path.inverse_temperatures[path.target] == 1.0
    for i, leg in enumerate(path.legs):
        last, k = path.rungs_of(i)[-1], leg.ladder.hottest
        assert last == (len(path) - 1 if i == 0 else 0)
        np.testing.assert_allclose(c[last], k * path.target_coefficients + (1 - k) * leg.end, atol=1e-15)


@given(paths())
def test_rungs_of_the_legs_are_the_line_with_the_target_in_both(path):
    found = np.concatenate([path.rungs_of(i) for i in range(len(path.legs))])
    assert sorted({*found.tolist()}) == list(range(len(path)))
    assert found.tolist().count(path.target) == len(path.legs)
    for i, leg in enumerate(path.legs):
        rungs = path.rungs_of(i)
        assert rungs[0] == path.target
        np.testing.assert_array_equal(path.inverse_temperatures[rungs], leg.ladder.inverse_temperatures)
        np.testing.assert_allclose(path.coefficients[rungs], leg.coefficients(path.target_coefficients))
        assert np.all(path.sources[rungs[1:]] == leg.source)
    assert path.sources[path.target] == path.legs[-1].source


@given(paths())
def test_only_ends_that_can_be_drawn_from_begin_tours(path):
    expected = {
        int(path.rungs_of(i)[-1])
        for i, leg in enumerate(path.legs)
        if leg.source != NO_SOURCE and leg.ladder.hottest == 0.0
    }
    assert set(path.ends) == expected


@given(paths(), st.integers(0, 100))
def test_log_weights_lead_from_every_rung_to_the_target(path, seed):
    terms = terms_for(path, seed=seed)
    for r in range(len(path)):
        there = terms @ path.coefficients[r] + path.log_weights(terms, np.full(len(terms), r))
        np.testing.assert_allclose(there, path.log_target(terms), atol=1e-12)
    rung = np.random.default_rng(seed).integers(len(path), size=len(terms))
    each = [path.log_weights(terms[i : i + 1], rung[i : i + 1])[0] for i in range(len(terms))]
    np.testing.assert_allclose(path.log_weights(terms, rung), each)
    assert np.all(path.log_weights(terms, np.full(len(terms), path.target)) == 0.0)


@given(paths())
def test_the_energy_of_a_leg_is_the_slope_of_its_rungs(path):
    """log pi_k = (c_end + k (c_target - c_end)) . t: linear in k, whatever the leg."""
    terms = terms_for(path)
    for i in range(len(path.legs)):
        rungs, energy = path.rungs_of(i), path.energy(terms, i)
        k = path.inverse_temperatures[rungs]
        log_pi = terms @ path.coefficients[rungs].T
        expected = log_pi[:, :1] + np.multiply.outer(energy, k - 1.0)
        np.testing.assert_allclose(log_pi, expected, atol=1e-12)


@given(paths())
def test_a_path_comes_back_as_it_was_stored_to_the_bit(path):
    again = decode(encode(path))
    np.testing.assert_array_equal(again.coefficients, path.coefficients)
    np.testing.assert_array_equal(again.sources, path.sources)
    assert (again.terms, again.target, again.ends) == (path.terms, path.target, path.ends)
    assert [leg.name for leg in again.legs] == [leg.name for leg in path.legs]


def test_references_come_back_too_and_are_the_last_terms():
    q = Reference([0.7, 0.3], [[0.0, 1 / 3], [2.0, -1.0]], [np.eye(2), [[0.1, 0.0], [0.2, 0.3]]], [5, 8])
    quick = Leg("quick", np.array([0.0, 1.0]), Ladder([1, 0]), source=1)
    path = Path([1.0, 0.0], [Leg("safe", np.zeros(2), Ladder([1, 0.1])), quick], references=[q])
    again = decode(encode(path))
    x = np.random.default_rng(1).normal(size=(3, 4, 2))
    terms = again.with_reference_terms(x, np.zeros((3, 4, 2)))
    np.testing.assert_array_equal(terms[..., 1], q.log_density(x))
    assert np.all(terms[..., 0] == 0.0)


vectors = arrays.arrays(float, 3, elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
terms_or_none = arrays.arrays(float, (5, 3), elements=st.sampled_from([-np.inf, -1.5, 0.0, 3.0]))


@given(vectors, terms_or_none)
def test_a_term_that_does_not_count_may_be_minus_infinity(c, terms):
    found = weighted_terms(c, terms)
    for row, value in zip(terms, found, strict=True):
        parts = [a * b for a, b in zip(c, row, strict=True) if a != 0.0]
        with np.errstate(invalid="ignore"):
            np.testing.assert_equal(value, np.sum(parts) if parts else 0.0)
    by_row = weighted_terms(np.tile(c, (5, 1)), terms)
    np.testing.assert_array_equal(by_row, found)


def test_control_plain_products_are_not_numbers_there():
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.array([-np.inf, 1.0]) @ np.array([0.0, 2.0]))
    assert weighted_terms([0.0, 2.0], np.array([-np.inf, 1.0])) == 2.0


def test_paths_of_one_leg_are_the_papers():
    ladder = Ladder([1, 0.5, 0])
    np.testing.assert_array_equal(Path.powers(ladder).coefficients, [[1.0], [0.5], [0.0]])
    assert Path.powers(ladder).is_powered
    based = Path.from_base(ladder, can_draw=True)
    np.testing.assert_array_equal(based.coefficients, [[1.0, 1.0], [0.5, 1.0], [0.0, 1.0]])
    assert (based.ends, based.is_powered, based.target) == ((2,), False, 0)
    assert Path.from_base(ladder, can_draw=False).ends == ()
    assert Path.from_base(Ladder([1, 0.1]), can_draw=True).ends == ()
    assert not Path.of_energy(ladder, is_powered=False).is_powered


@pytest.mark.parametrize("n_legs", [0, 3])
def test_no_leg_or_three_are_refused(n_legs):
    with pytest.raises(LadderError, match=f"one leg or two.*{n_legs} legs"):
        Path([1.0], [Leg("powers", np.zeros(1), Ladder([1]))] * n_legs)


def test_legs_of_other_terms_are_refused():
    with pytest.raises(LadderError, match=r"each of 2 terms, but got 1 legs with \[1\]"):
        Path([1.0, 1.0], [Leg("powers", np.zeros(1), Ladder([1]))])


def test_arrays_cannot_be_changed_behind_a_paths_back():
    path = Path([1.0], [Leg("powers", np.zeros(1), Ladder([1, 0.5]))])
    with pytest.raises(ValueError, match="read-only"):
        path.target_coefficients[0] = 2.0
