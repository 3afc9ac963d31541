"""A named tuple of arrays as compiled code sees it: by one pointer, every array as it is."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, types

from tempering.compiling.functions import compiled
from tempering.compiling.states import StateType


class Three(NamedTuple):
    flat: np.ndarray
    deep: np.ndarray
    whole: np.ndarray


FIELDS = {
    "flat": types.Array(types.float64, 1, "C"),
    "deep": types.Array(types.float64, 3, "C"),
    "whole": types.Array(types.int64, 2, "C"),
}
THREE = StateType(Three, FIELDS, "three").register()
_state_of_row = THREE.of_row()


def state_of_row(tables, row):
    return _state_of_row(tables, row)


def three(scale=1.0):
    whole = np.arange(6, dtype=np.int64).reshape(3, 2)
    return Three(scale * np.arange(4.0), scale * np.arange(24.0).reshape(2, 3, 4), whole)


@njit
def sizes(state):
    flat, deep, whole = state.flat, state.deep, state.whole
    return (flat.shape, deep.shape, whole.shape, flat.size, deep.size, whole.size, deep.itemsize)


@njit
def change(state):
    state.flat[-1] = state.deep[1, 2, 3] + state.whole[2, 1]
    state.deep[:, 1] *= 2.0
    return state


@njit
def total(state):
    return state.flat.sum() + 10.0 * state.deep.sum() + 100.0 * state.whole.sum()


def test_compiled_code_sees_every_array():
    assert sizes(three()) == ((4,), (2, 3, 4), (3, 2), 4, 24, 6, 8)
    assert total(three()) == sum(10.0**i * part.sum() for i, part in enumerate(three()))


def test_an_array_without_numbers_is_one():
    assert sizes(three()._replace(deep=np.zeros((2, 0, 4))))[1:5] == ((2, 0, 4), (3, 2), 4, 0)


def test_arrays_are_changed_in_place_and_the_same_tuple_comes_back():
    state = three()
    counts = [sys.getrefcount(part) for part in state]
    for _ in range(3):
        assert change(state) is state
    assert state.flat[-1] == 23.0 + 5.0
    np.testing.assert_array_equal(state.deep[:, 1], 8.0 * three().deep[:, 1])
    assert [sys.getrefcount(part) for part in state] == counts


@pytest.mark.parametrize(
    "broken",
    [{"flat": np.zeros(4, np.float32)}, {"deep": np.zeros((3, 4))}, {"whole": np.zeros((3, 4), np.int64)[:, ::2]}],
)
def test_other_arrays_are_refused_after_a_good_call_too(broken):
    total(three())
    with pytest.raises(TypeError, match=f"array {next(iter(broken))} of a state .* Take states from three"):
        total(three()._replace(**broken))
    with pytest.raises(TypeError, match="must be a contiguous"):
        THREE.tables_of([three()._replace(**broken)])


def test_rows_of_tables_are_the_states():
    states = [three(scale) for scale in (1.0, 2.0, 5.0)]
    inside = compiled(state_of_row)
    row = njit(lambda tables, r: total(inside(tables, r)))
    assert [row(THREE.tables_of(states), r) for r in range(3)] == [total(state) for state in states]
