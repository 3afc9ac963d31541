"""Putting functions together and compiling them: names that follow contents, and one source for both."""

import types

import numba
import numpy as np
import pytest

from tempering.compiling import functions as compiling
from tempering.compiling.functions import bind, compiled, when_compiled
from tempering.kernels import slice_sampling
from tempering.rungs import simulated


def own(function):
    """Make a function one of the package's, so that what calls it compiles it."""
    function.__module__ = compiling.__name__  # one that exists: code kept on disk is found again by it
    return function


WIDTH = 2.0


def helper(x):
    raise NotImplementedError


@own
def double(x):
    return WIDTH * x


@own
def treble(x):
    return 3.0 * x


@own
def body(x):
    return helper(x) + 1.0


def test_bind_makes_a_copy_that_calls_the_given_piece():
    assert bind(body, helper=double)(5.0) == 11.0
    assert bind(body, helper=treble)(5.0) == 16.0
    assert bind(body, helper=double) is bind(body, helper=double)
    with pytest.raises(NotImplementedError):
        body(5.0)


def test_compiled_copies_compute_the_same():
    for piece in (double, treble):
        bound = bind(body, helper=piece)
        for allocates in (True, False):
            assert compiled(bound, (numba.float64,), allocates=allocates)(5.0) == bound(5.0)


def half(x):
    return 0.5 * x


def quarter(x):
    return half(half(x))


def test_a_function_of_the_user_s_is_compiled_with_what_it_is_bound_into_and_with_its_own_helpers():
    bound = bind(body, helper=quarter)
    assert compiled(bound, (numba.float64,))(6.0) == bound(6.0) == 2.5


def test_names_of_copies_follow_what_they_call_and_the_constants_they_use():
    digest = compiling._digest
    assert digest(bind(body, helper=double)) != digest(bind(body, helper=treble))
    wider = types.FunctionType(double.__code__, {**double.__globals__, "WIDTH": 4.0}, "double")
    wider.__module__ = double.__module__
    assert digest(wider) != digest(double)
    assert digest(bind(body, helper=wider)) != digest(bind(body, helper=double))
    assert digest(simulated.move_lifted) == digest(simulated.move_lifted)
    counted, uncounted = (compiled(bind(body, helper=double), (numba.float64,), allocates=a) for a in (True, False))
    assert counted.py_func.__qualname__ != uncounted.py_func.__qualname__


def test_the_limit_of_the_slice_is_part_of_its_name(monkeypatch):
    """A cached slice sampler must not outlive its constant."""
    before = compiling._digest(slice_sampling.slice_coordinates)
    monkeypatch.setattr(slice_sampling, "MAX_STEPS_OUT", 7)
    assert compiling._digest(slice_sampling.slice_coordinates) != before


def test_loops_stand_in_for_arrays_when_compiled():
    @own
    def by_loops(x):
        return -1.0

    @when_compiled(by_loops)
    @own
    def by_arrays(x):
        return float(np.sum(x))

    assert by_arrays(np.ones(3)) == 3.0
    assert compiled(by_arrays, (numba.float64[::1],))(np.ones(3)) == -1.0
