"""What both engines promise, checked on every row of one table."""

from functools import cache

import blackjax
import jax
import numpy as np
import pytest
from rows import (
    EDGE,
    KERNELS,
    LADDER,
    NEAR_NAN,
    PATH,
    ROWS,
    SWITCH,
    Row,
    build,
    name_of,
    run,
    run_and_count,
    schedule,
)

from tempering import Target
from tempering.compiling.functions import is_numba
from tempering.engines import vector
from tempering.engines.trace import Schedule, joined, shortened
from tempering.errors import NotANumberError, TargetError
from tempering.kernels import BlackJAX
from tempering.path import Path
from tempering.target.layout import Layout

QUICK = ("simulated", "lifted", "random walk")  # of which all engines have a row that is soon compiled


def rows_where(is_wanted):
    """Try these rows; those that take long to compile are slow."""
    rows = filter(is_wanted, ROWS)
    is_quick = {row: row.engine == "python" or row[1:] == QUICK for row in ROWS}
    marked = [pytest.param(row, marks=[] if is_quick[row] else pytest.mark.slow, id=name_of(row)) for row in rows]
    return pytest.mark.parametrize("row", marked)


every_row = rows_where(lambda row: True)
compiled_rows = rows_where(lambda row: row.engine == "numba")


@cache
def reference(row):
    """Return 64 iterations of three chains (or ensembles), in two blocks joined."""
    return joined(run(row, 3, lengths=(32, 32)))


def assert_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, tuple(one), tuple(other))


def first_chains(trace, n):
    return jax.tree.map(lambda a: a[:n], trace)


@every_row
def test_a_trace_has_one_row_a_chain_and_one_column_a_draw(row):
    trace, engine = reference(row), build(row, 3)
    per_ensemble = len(LADDER) if row.method == "parallel" else 1
    assert engine.chains_per_ensemble == per_ensemble
    lead = (3 * per_ensemble, 64)
    assert engine.n_chains == lead[0]
    assert trace.rung.shape == trace.proposed.shape == lead
    assert trace.terms.shape == (*lead, 1)
    assert trace.acceptance.shape[:2] == lead
    assert all(array.shape[:2] == lead for array in engine.positions(trace).values())
    assert np.all((trace.rung >= 0) & (trace.rung < len(LADDER)))
    assert len(np.unique(trace.rung)) == len(LADDER)
    assert np.all(np.isfinite(trace.terms))


@every_row
def test_replicas_of_an_ensemble_sit_on_different_rungs(row):
    if row.method == "parallel":
        seats = reference(row).rung.reshape(3, len(LADDER), -1)
        np.testing.assert_array_equal(np.sort(seats, axis=1), np.arange(3)[None, :, None] + 0 * seats)


@every_row
def test_a_rung_changes_to_the_one_proposed_or_not_at_all(row):
    trace = reference(row)
    before, after, proposed = trace.rung[:, :-1], trace.rung[:, 1:], trace.proposed[:, 1:]
    assert np.all((after == before) | (after == proposed))
    assert np.all(np.abs(proposed - before) <= 1)
    assert np.any(after != before)


@every_row
def test_equal_seeds_give_equal_chains_and_blocks_change_nothing(row):
    assert_equal(run(row, 3)[0], reference(row))


@every_row
def test_another_seed_gives_other_chains(row):
    other = run(row, 3, lengths=(32,), seed=2)[0]
    assert not np.any(other.terms[:, 8:] == reference(row).terms[:, 8:32])


def is_slow_to_compile(row):
    return row.engine == "vector" and row.kernel in ("hmc", "model")


@rows_where(lambda row: not is_slow_to_compile(row))
def test_a_chain_does_not_depend_on_how_many_others_there_are(row):
    fewer = run(row, 2, lengths=(32,))[0]
    assert_equal(fewer, first_chains(shortened(reference(row), 32), len(fewer.rung)))


@every_row
def test_chains_stay_on_their_rungs_when_told_to(row):
    still = run(row, 3, lengths=(32,), moving=False)[0]
    np.testing.assert_array_equal(still.rung, np.broadcast_to(still.rung[:, :1], still.rung.shape))
    np.testing.assert_array_equal(still.proposed, still.rung)


@rows_where(lambda row: row.method == "simulated")
def test_chains_are_put_on_rungs(row):
    engine = build(row, 3)
    for rung in (2, [0, 2, 1]):
        states = engine.on_rung(engine.start(PATH), rung)
        _, trace = engine.run(states, schedule(row.kernel), 32, moving=False)
        np.testing.assert_array_equal(trace.rung[:, -1], np.broadcast_to(rung, 3))


@rows_where(lambda row: row.engine == "vector")
def test_vector_states_are_values_that_can_be_run_again(row):
    engine = build(row, 3)
    states = engine.start(PATH)
    _, once = engine.run(states, schedule(row.kernel), 32)
    _, again = engine.run(states, schedule(row.kernel), 32)
    assert_equal(once, again)


@compiled_rows
def test_compiled_chains_are_those_of_plain_python(row):
    """The same source and the same stream; only the order of a sum may differ in the last bits."""
    fast, slow = reference(row), joined(run(row._replace(engine="python"), 3, lengths=(32, 32)))
    np.testing.assert_array_equal(fast.rung, slow.rung)
    np.testing.assert_array_equal(fast.proposed, slow.proposed)
    np.testing.assert_array_equal(fast.acceptance, slow.acceptance)
    np.testing.assert_allclose(fast.values, slow.values, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(fast.terms, slow.terms, rtol=1e-11, atol=1e-12)


@compiled_rows
def test_the_number_of_threads_changes_nothing(row):
    engine = build(row, 3)
    assert engine._threads is not None
    engine._threads = None
    _, one = engine.run(engine.start(PATH), schedule(row.kernel), 32)
    assert_equal(one, shortened(reference(row), 32))


NAN_ROWS = [
    *(r for r in ROWS if r.kernel != "model"),
    Row("vector", "simulated", "lifted", "slice"),
    Row("vector", "simulated", "lifted", "nuts"),
    pytest.param(Row("vector", "simulated", "lifted", "mala"), marks=pytest.mark.long),
    pytest.param(Row("vector", "simulated", "lifted", "barker"), marks=pytest.mark.long),
    pytest.param(Row("vector", "simulated", "lifted", "rmh"), marks=pytest.mark.long),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", NAN_ROWS, ids=lambda row: " ".join(row))
def test_a_density_that_is_not_a_number_is_outside_the_support_and_counted(row):
    traces, n_invalid = run_and_count(row, 3, lengths=(32,) * 8, starts=tuple(NEAR_NAN))
    x = np.concatenate([trace.values for trace in traces], axis=1)
    if row.kernel not in (
        "hmc",
        "nuts",
        "mala",
        "barker",
        "rmh",
    ):  # BlackJAX's kernels keep their proposals to themselves
        assert n_invalid > 0
    assert x[..., 0][x[..., 2] > SWITCH].max() <= EDGE
    assert np.mean(x[..., 2] > SWITCH) > 0.5  # they did stay where it is not a number
    assert all(np.all(np.isfinite(trace.terms)) for trace in traces)


@pytest.mark.parametrize("row", [r for r in ROWS if r.kernel != "model"][::2], ids=name_of)
def test_control_where_all_are_numbers_none_is_counted(row):
    assert run_and_count(row, 3, lengths=(32,))[1] == 0


@pytest.mark.slow
def test_elliptical_slices_stay_inside_too():
    prior = {"mean": np.zeros(2), "cov_matrix": np.eye(2)}
    target = Target.from_likelihood(
        lambda x: jax.numpy.where(x[0] > 1.0, jax.numpy.nan, x[1]), lambda x: -0.5 * jax.numpy.sum(x**2)
    )
    kernel = BlackJAX(blackjax.elliptical_slice, **prior)
    pieces = vector.target_pieces(target, kernel, Layout.of(np.zeros(2)), [np.zeros(2)])
    engine = vector.VectorEngine(pieces, "simulated", "lifted", 1, 3, len(LADDER))
    made, path = schedule("random walk"), Path.from_base(LADDER, can_draw=False)
    smaller = made.settings[0]._replace(factor=made.settings[0].factor[:, :2, :2], centre=np.zeros((3, 2)))
    _, trace = engine.run(engine.start(path), Schedule(path, made.log_pseudo_prior, (smaller,)), 320)
    assert trace.values[..., 0].max() <= 1.0
    assert np.all(np.isfinite(trace.terms))


@pytest.mark.parametrize("engine", ["vector", "numba", "python"])
def test_a_start_outside_the_support_or_not_a_number_is_refused(engine):
    row = Row(engine, "simulated", "lifted", "random walk")
    beyond = np.array([800.0, 0.0, 0.0])  # exp(800) overflows: the density is zero
    with pytest.raises(TargetError, match=r"must start inside the support.*-inf at .*800.*initial"):
        build(row, 3, starts=(NEAR_NAN[0], beyond)).start(PATH)
    with pytest.raises(NotANumberError, match="NaN") as caught:
        build(row, 3, starts=(np.array([1.0, 0.0, 10.0]),)).start(PATH)
    np.testing.assert_array_equal(caught.value.position, [1.0, 0.0, 10.0])


def test_a_kernel_that_needs_jax_is_refused_by_the_scalar_engine():
    with pytest.raises(TargetError, match=r"BlackJAX\(hmc\) needs a log density that JAX can trace"):
        build(Row("python", "simulated", "lifted", "hmc"), 1)


def test_threads_are_not_started_for_one_chain_or_for_plain_python():
    assert build(Row("numba", "simulated", "lifted", "random walk"), 1)._threads is None
    assert build(Row("python", "simulated", "lifted", "random walk"), 3)._threads is None
    assert is_numba(KERNELS["slice"].scalar_move) is False
