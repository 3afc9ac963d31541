"""Functions that only compiled code calls: compiled once for each type, and right."""

import numpy as np
import pytest
from numba import njit

from tempering.compiling.inner_functions import inner_function, is_tried

own_way = pytest.mark.skipif(not is_tried(), reason="this version of Numba compiles them as it does by itself")


def power(x, n):
    found = 1.0
    for _ in range(n):
        found *= x
    return found


def tower(compile_inner):
    """Return a function that Python calls, and the one that it calls with whole numbers written out."""
    lowest = compile_inner(power)

    def cubes(x):
        return lowest(x, 3) + lowest(x, 2)

    middle = compile_inner(cubes)

    @njit
    def top(values):
        total = 0.0
        for x in values:
            total += middle(x) + lowest(x, 1)
        return total

    return top, lowest


def test_a_tower_of_inner_functions_gives_what_python_gives():
    top, _ = tower(lambda function: inner_function(function, error_model="numpy", _nrt=False))
    x = np.array([0.5, -2.0, 3.0])
    assert top(x) == sum(v * v * v + v * v + v for v in x)


@own_way
@pytest.mark.parametrize(("compile_inner", "n"), [(inner_function, 1), (njit, 3)])
def test_whole_numbers_written_out_are_not_compiled_for_one_by_one(compile_inner, n):
    """Numba by itself, the control, does so."""
    top, lowest = tower(compile_inner)
    top(np.ones(2))
    assert len(lowest.overloads) == n


@own_way
def test_inner_functions_have_no_machine_code_of_their_own():
    top, lowest = tower(inner_function)
    top(np.ones(2))
    (found,) = lowest.overloads.values()
    assert found.library.get_pointer_to_function(found.fndesc.mangled_name) == 0
    (found,) = top.overloads.values()
    assert found.library.get_pointer_to_function(found.fndesc.mangled_name) != 0
