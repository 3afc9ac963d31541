"""The vector code of correlations and factors against NumPy's, and functions without a door from Python."""

import math

import numpy as np
import pytest
import treed_gp_twin as twin

from tempering.models.treed_gp import correlation, factor, lapack, layout
from tempering.models.treed_gp.compiled import digest

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


@pytest.mark.parametrize("n", [1, 2, 4, 5, 11, 16, 37, 80, 133, factor.MOST_ROWS + 3])
def test_factor_and_sides_agree_with_numpy(n):
    rng = np.random.default_rng(n)
    matrix, sides = a_correlation_matrix(n, rng), rng.standard_normal((n, 4))
    work, table, n_rows = laid_out(matrix, sides)
    log_det = factorise(work, n, 4)
    lower = np.linalg.cholesky(matrix)
    assert log_det == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-10)
    np.testing.assert_allclose(np.triu(table[:n, :n]), lower.T, atol=1e-13)
    np.testing.assert_allclose(table[:n, n_rows : n_rows + 4], np.linalg.solve(lower, sides), atol=1e-11)
    others = rng.standard_normal((3, n))
    solved = others.copy()
    solve(work, n, table.shape[1], solved, 3, table.size)
    np.testing.assert_allclose(solved, np.linalg.solve(lower, others.T).T, atol=1e-11)


@pytest.mark.parametrize("n", [6, factor.MOST_ROWS + 1])
def test_a_matrix_without_a_factor_has_an_infinite_determinant(n):
    matrix = np.eye(n)
    matrix[n // 2, n // 2] = -1.0
    work, _, _ = laid_out(matrix, np.ones((n, 2)))
    assert factorise(work, n, 2) == math.inf


def by_ours(distances, family):
    n = len(distances)
    out = np.empty(-(-n // 8) * 8)
    inputs = np.zeros(len(out))
    inputs[:n] = distances
    correlate(np.zeros(1), inputs, 0, n, np.ones(1), 1.0, family, out)
    return out[:n]


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


def test_cached_names_carry_a_digest_of_the_sources():
    assert digest() in factor.factor.__qualname__
