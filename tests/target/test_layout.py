"""Layouts: any pytree of numbers to a flat vector and back."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempering.errors import TargetError
from tempering.target.layout import Layout


class Pair(NamedTuple):
    left: float
    right: np.ndarray


POSITIONS = {
    "number": (2.5, ("x",), 1),
    "vector": (np.array([1.0, 2.0]), ("x",), 2),
    "matrix": (np.arange(6.0).reshape(2, 3), ("x",), 6),
    "dict": ({"b": np.array([1.0, 2.0]), "a": 3.0}, ("a", "b"), 3),
    "nested": ({"inner": {"z": np.ones((2, 2))}, "outer": [1.0, np.array([2.0])]}, None, 6),
    "named tuple": (Pair(1.0, np.array([2.0, 3.0])), ("left", "right"), 3),
    "integers": (np.array([1, 2, 3]), ("x",), 3),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_come_back_from_flat_vectors(name):
    position, names, size = POSITIONS[name]
    layout = Layout.of(position)
    flat = layout.flatten(position)
    assert flat.dtype == np.float64
    assert flat.shape == (size,) == (layout.size,)
    assert names is None or layout.names == names
    again = layout.flatten(layout.unflatten(flat))
    np.testing.assert_array_equal(again, flat)


def test_nested_names_say_where_a_number_sits():
    layout = Layout.of(POSITIONS["nested"][0])
    assert layout.names == ("inner.z", "outer.0", "outer.1")
    named = layout.named(np.arange(6.0))
    assert {name: a.shape for name, a in named.items()} == {"inner.z": (2, 2), "outer.0": (), "outer.1": (1,)}
    np.testing.assert_array_equal(named["inner.z"], [[0, 1], [2, 3]])


@given(lead=st.lists(st.integers(1, 3), max_size=2))
def test_leading_axes_are_kept(lead):
    layout = Layout.of({"a": 1.0, "b": np.zeros((2, 2))})
    flat = np.arange(5.0 * int(np.prod(lead))).reshape(*lead, 5)
    named = layout.named(flat)
    assert named["a"].shape == tuple(lead)
    assert named["b"].shape == (*lead, 2, 2)
    np.testing.assert_array_equal(named["a"], flat[..., 0])


def test_a_function_of_a_position_becomes_one_of_its_vector():
    layout = Layout.of({"a": 1.0, "b": np.zeros(2)})
    assert layout.on_flat(lambda p: p["a"] + 10 * p["b"][1])(np.array([1.0, 2.0, 3.0])) == 31.0
    vector = Layout.of(np.zeros(2))
    assert vector.on_flat(np.sum) is np.sum
    assert Layout.of(0.0).on_flat(lambda x: x * 2)(np.array([4.0])) == 8.0


def test_a_vector_called_x_is_not_the_vector_itself():
    named, plain = Layout.of({"x": np.zeros(2)}), Layout.of(np.zeros(2))
    assert named.on_flat(lambda position: position["x"].sum())(np.array([1.0, 2.0])) == 3.0
    assert plain.on_flat(np.sum)(np.array([1.0, 2.0])) == 3.0
    assert plain.is_vector
    assert not named.is_vector


def test_equal_layouts_are_one_key():
    one, other = Layout.of({"a": 1.0}), Layout.of({"a": 2.0})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Layout.of({"b": 1.0})
    assert one != Layout.of({"a": np.ones(1)})
    assert one.keyword
    assert not Layout.of({1: 2.0}).keyword


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ({}, "at least one number, but it is empty"),
        ({"a": "text"}, r"real numbers, but 'a' has type .*model object"),
        (np.array([1j]), "'x' has type complex128"),
        (np.array([True]), "'x' has type bool"),
    ],
)
def test_what_is_no_vector_of_numbers_is_refused(position, message):
    with pytest.raises(TargetError, match=message):
        Layout.of(position)


def test_another_shape_is_refused():
    with pytest.raises(TargetError, match=r"same shape, but got \(\(3,\),\) where \(\(2,\),\) was expected"):
        Layout.of(np.zeros(2)).flatten(np.zeros(3))
