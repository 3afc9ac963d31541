"""The vector code of correlations and factors against NumPy's, and functions without a door from Python."""

import math
import sys

import numpy as np
import pytest
import treed_gp_twin as twin

from tempering.compiling.inner_functions import is_tried
from tempering.models.treed_gp import correlation, factor, lapack, layout
from tempering.models.treed_gp.compiled import digest
from tempering.models.treed_gp.model import TreedGPModel, step

correlate, factorise, solve = map(twin.from_python, (correlation.correlate, factor.factor, lapack.solve_lower))
EPSILON = 2.0**-52


def laid_out(matrix, sides):
    """Return the work space of `factor` for a matrix and its right-hand sides, garbage elsewhere."""
    n, m = sides.shape
    n_rows = -(-n // 4) * 4
    stride = (n_rows + m + 15) // 8 * 8
    work = np.full(factor.work_length(n, m), np.nan)
    table = work[: n_rows * stride].reshape(n_rows, stride)
    table[:n, :n] = np.triu(matrix)
    table[:n, n_rows : n_rows + m] = sides
    return work, table, n_rows


def a_correlation_matrix(n, rng):
    x = rng.random((n, 2))
    return np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / 0.2) + 0.1 * np.eye(n)


@pytest.mark.parametrize("m", [1, 4, 11])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 11, 16, 37, 80, 133, factor.MOST_ROWS + 3])
def test_factor_and_sides_and_their_products_agree_with_numpy(n, m):
    rng = np.random.default_rng(n)
    matrix, sides = a_correlation_matrix(n, rng), rng.standard_normal((n, m))
    work, table, n_rows = laid_out(matrix, sides)
    log_det = factorise(work, n, m)
    lower = np.linalg.cholesky(matrix)
    assert log_det == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-10)
    np.testing.assert_allclose(np.triu(table[:n, :n]), lower.T, atol=1e-13)
    whitened = np.linalg.solve(lower, sides)
    np.testing.assert_allclose(table[:n, n_rows : n_rows + m], whitened, atol=1e-11)
    products = -work[table.size :][: -(-m // 4) * 4 * table.shape[1]].reshape(-1, table.shape[1])[:m, n_rows:][:, :m]
    np.testing.assert_allclose(np.triu(products), np.triu(whitened.T @ whitened), atol=1e-10)
    others = rng.standard_normal((3, n))
    solved = others.copy()
    solve(work, n, table.shape[1], solved, 3, table.size)
    np.testing.assert_allclose(solved, np.linalg.solve(lower, others.T).T, atol=1e-11)


@pytest.mark.parametrize("wrong", [[3], [2, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("n", [6, factor.MOST_ROWS + 1])
def test_a_matrix_without_a_factor_has_an_infinite_determinant(n, wrong):
    matrix = np.eye(n)
    matrix[wrong, wrong] = -1.0
    work, _, _ = laid_out(matrix, np.ones((n, 2)))
    assert factorise(work, n, 2) == math.inf


def by_ours(distances, family):
    n = len(distances)
    out = np.empty((4, -(-n // 8) * 8))
    inputs = np.zeros(out.shape[1])
    inputs[:n] = distances
    correlate(np.array([0.0, -1.0, 1.0, 0.0]), 4, inputs, 0, n, 1, family, 2.0, out.ravel(), out.shape[1])
    np.testing.assert_array_equal(out[3], out[0])  # the same point
    return out[0, :n]


def test_the_exponential_is_right_to_two_units_in_the_last_place():
    # below e^-20 the square of the distance, not the exponential, loses digits
    distances = np.sqrt(np.concatenate([np.linspace(0, 1e-3, 1001), np.linspace(0, 20, 20_001)]))
    exact = np.exp(-(distances**2))
    assert np.max(np.abs(by_ours(distances, layout.SEPARABLE) / exact - 1)) < 4 * EPSILON
    assert by_ours(np.array([40.0]), layout.SEPARABLE)[0] == pytest.approx(math.exp(-700), rel=1e-12)


@pytest.mark.parametrize(("family", "terms"), [(2, (1,)), (3, (1, 1)), (4, (1, 1, 1 / 3))])
def test_matern_correlations_agree_with_their_formulas(family, terms):
    r = np.linspace(0, 30, 3001)
    exact = np.polynomial.polynomial.polyval(r, terms) * np.exp(-r)
    np.testing.assert_allclose(by_ours(r, family), exact, rtol=1e-14)


def test_a_function_without_a_door_refuses_python():
    with pytest.raises(TypeError, match="compiled code only"):
        factor.rows_of(3)


def test_a_state_goes_through_compiled_code_and_comes_back_itself():
    rng = np.random.default_rng(1)
    state = TreedGPModel(rng.random((30, 2)), rng.random(30)).initial(rng)
    references = [sys.getrefcount(array) for array in state]
    for _ in range(5):
        assert step(rng, state, 0.5) is state
    assert [sys.getrefcount(array) for array in state] == references


@pytest.mark.parametrize("broken", [np.zeros(3, np.float32), np.zeros((3, 2)), np.zeros(6)[::2]])
def test_a_state_of_other_arrays_is_refused(broken):
    rng = np.random.default_rng(1)
    state = TreedGPModel(rng.random((30, 2)), rng.random(30)).initial(rng)
    with pytest.raises(TypeError, match="shared of a state must be a contiguous"):
        step(rng, state._replace(shared=broken), 0.5)


def test_cached_names_carry_a_digest_of_the_sources():
    assert digest() in step.__qualname__


@pytest.mark.skipif(not is_tried(), reason="this version of Numba compiles them as it does by itself")
def test_functions_inside_are_optimised_with_what_calls_them_alone():
    """By themselves too they took a third of a first fit."""
    laid_out_for = laid_out(np.eye(5), np.ones((5, 2)))[0]
    factorise(laid_out_for, 5, 2)
    for inner in (factor.factor, factor.rows_of):
        (found,) = inner.overloads.values()
        assert found.library.get_pointer_to_function(found.fndesc.mangled_name) == 0
