"""Which loops are compiled in less time: those of Hamiltonian moves on a cheap density. They are the same."""

from types import SimpleNamespace

import numpy as np
import pytest

import tempering as tp
from tempering import kernels, problems
from tempering.engines import vector
from tempering.engines.trace import Schedule
from tempering.execution.recipe import _is_light
from tempering.kernels.settings import starting_settings
from tempering.path import Ladder, Path
from tempering.target.layout import Layout


def plan(dimension=8, dearness=0.05, kernel=None, *, needs_safe_leg=True):
    layout = None if dimension is None else Layout.of(np.zeros(dimension))
    return SimpleNamespace(
        layout=layout, dearness=dearness, kernel=kernel or kernels.Hamiltonian(4), needs_safe_leg=needs_safe_leg
    )


def test_a_loop_is_light_where_it_takes_long_to_compile_and_little_to_run():
    assert _is_light(plan())
    assert not _is_light(plan(kernel=kernels.RandomWalk()))
    assert not _is_light(plan(dearness=0.5))
    assert not _is_light(plan(dimension=100))
    assert not _is_light(plan(dimension=None))  # a model object
    assert _is_light(plan(dimension=40, dearness=0.9, needs_safe_leg=False))  # it ends after some hundred iterations
    assert not _is_light(plan(dimension=40, dearness=0.3, needs_safe_leg=False))
    assert not _is_light(plan(dearness=0.9))


@pytest.mark.slow
def test_a_light_loop_makes_the_same_draws():
    problem, path = problems.skewed(5), Path.powers(Ladder([1.0, 0.5]))
    layout = Layout.of(np.zeros(5))
    settings = starting_settings(path.ladder, np.zeros(5), 0.3, dense=True)
    traces = []
    for is_light in (False, True):
        pieces = vector.target_pieces(
            tp.Target(problem.log_density), kernels.Hamiltonian(4), layout, [np.zeros(5)], is_light=is_light
        )
        engine = vector.VectorEngine(pieces, "simulated", "lifted", 1, 8, 2)
        traces.append(engine.run(engine.start(path), Schedule(path, np.zeros(2), (settings,)), 8)[1])
    np.testing.assert_allclose(traces[0].values, traces[1].values, rtol=1e-9)
    assert np.ptp(traces[0].values) > 0.1
