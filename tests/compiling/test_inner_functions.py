"""Functions that only compiled code calls: compiled once for each type, and right."""

import gc

import numpy as np
import pytest
from llvmlite.binding import Linkage
from numba import config, njit
from numba.core import codegen
from numba.core.errors import TypingError

from tempering.compiling.inner_functions import inner_function, is_tried, outer_function

own_way = pytest.mark.skipif(not is_tried(), reason="this version of Numba compiles them as it does by itself")


def power(x, n):
    found = 1.0
    for _ in range(n):
        found *= x
    return found


def tower(compile_inner, compile_outer=njit):
    """Return a function that Python calls, and the one that it calls with whole numbers written out."""
    lowest = compile_inner(power)

    def cubes(x):
        return lowest(x, 3) + lowest(x, 2)

    middle = compile_inner(cubes)

    def top(values):
        total = 0.0
        for x in values:
            total += middle(x) + lowest(x, 1)
        return total

    return compile_outer(top), lowest


@pytest.mark.parametrize("compile_outer", [njit, outer_function])
def test_a_tower_of_inner_functions_gives_what_python_gives(compile_outer):
    top, _ = tower(lambda function: inner_function(function, error_model="numpy", _nrt=False), compile_outer)
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


@own_way
@pytest.mark.parametrize(("compile_outer", "are_shown"), [(outer_function, False), (njit, True)])
def test_an_outer_function_shows_none_of_the_inner_ones(compile_outer, are_shown, monkeypatch):
    """Numba by itself, the control, keeps each of them for others, and how it is called must stay as it was."""
    seen, optimise = {}, codegen.CPUCodeLibrary._optimize_final_module

    def look(library):
        seen[library.name] = {f.name: f.linkage for f in library._final_module.functions if not f.is_declaration}
        optimise(library)

    monkeypatch.setattr(codegen.CPUCodeLibrary, "_optimize_final_module", look)
    top, _ = tower(inner_function, compile_outer)
    top(np.ones(2))
    (found,) = (found for name, found in seen.items() if name.endswith("top"))
    inside = {name: linkage for name, linkage in found.items() if "power" in name or "cubes" in name}
    assert set(inside.values()) == {Linkage.linkonce_odr if are_shown else Linkage.internal}
    assert all((".of." in name) is not are_shown for name in inside)


@own_way
@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_collected_after_a_function_was_compiled_as_it_was_before(is_on, monkeypatch):
    seen, optimise = [], codegen.CPUCodeLibrary._optimize_functions
    monkeypatch.setattr(
        codegen.CPUCodeLibrary, "_optimize_functions", lambda *a: (seen.append(gc.isenabled()), optimise(*a))
    )
    (gc.enable if is_on else gc.disable)()
    try:
        top, _ = tower(inner_function, outer_function)
        top(np.ones(2))
        assert gc.isenabled() is is_on
        with pytest.raises(TypingError):
            outer_function(lambda x: x.nothing)(1.0)
        assert gc.isenabled() is is_on
    finally:
        gc.enable()
    assert seen
    assert not any(seen)


lowest_of_all = inner_function(power)


def sum_of_cubes(values):
    total = 0.0
    for x in values:
        total += lowest_of_all(x, 3)
    return total


@own_way
def test_an_outer_function_can_be_called_by_others_and_read_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    for n_hits in (0, 1):
        top = outer_function(sum_of_cubes, cache=True)

        @njit
        def twice(x, top=top):
            return 2 * top(x)

        assert twice(np.array([0.5, -2.0])) == 2 * (0.125 - 8.0)
        assert sum(top.stats.cache_hits.values()) == n_hits
