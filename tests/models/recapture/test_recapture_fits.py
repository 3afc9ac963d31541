import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from tempering.models.recapture.counts import Counts
from tempering.models.recapture.fits import fit_values
from tempering.models.recapture.jumps import Shapes, _log_density, _logistic
from tempering.models.recapture.likelihood import free_cells, statistics


def test_where_the_likelihood_is_a_beta_law_the_pseudo_counts_are_its_counts():
    """Without vanished birds log L = sum n_1 log v + n_0 log(1 - v)."""
    counts = Counts(
        seen=[[3, 2], [0, 4]],
        missed=[[1, 0], [0, 0]],
        recovered=[[2, 1], [0, 5]],
        vanished=[[0, 0], [0, 0]],
        years=[1, 2],
    )
    cells = free_cells(counts)
    fits = fit_values(statistics(counts), cells, np.zeros_like(cells))
    first, second, both = 1, 2, 3  # sets of classes as bits
    np.testing.assert_allclose(fits.constant[:, 1, first], [5, 1], rtol=1e-3)
    np.testing.assert_allclose(fits.timed[:, 1, first, 0], [3, 1], rtol=1e-3)
    np.testing.assert_allclose(fits.constant[:, 0, second], [4, 5], rtol=1e-3)
    np.testing.assert_allclose(fits.constant[:, 0, both], [10, 8], rtol=1e-3)
    np.testing.assert_allclose(fits.timed[:, 0, second, 0], [0, 0], atol=1e-3)  # no such bird: the prior


def test_the_proposal_without_data_is_the_uniform_law():
    v = np.linspace(0.01, 0.99, 50)
    with jax.enable_x64(True):
        density = _log_density(jnp.asarray(v), *_logistic(Shapes(jnp.ones(50), jnp.ones(50))))
    np.testing.assert_allclose(density, 0.0, atol=1e-12)


def test_the_proposal_density_is_that_of_a_logistic_logit():
    v = np.linspace(0.05, 0.95, 50)
    with jax.enable_x64(True):
        location, scale = _logistic(Shapes(jnp.full(50, 7.0), jnp.full(50, 3.0)))
        density = np.asarray(_log_density(jnp.asarray(v), location, scale))
    exact = stats.logistic.logpdf(np.log(v / (1 - v)), location, scale) - np.log(v * (1 - v))
    np.testing.assert_allclose(density, exact, rtol=1e-10)
    fine = np.linspace(1e-6, 1 - 1e-6, 200_001)
    with jax.enable_x64(True):
        curve = np.exp(np.asarray(_log_density(jnp.asarray(fine), location[0], scale[0])))
    assert abs(np.trapezoid(curve, fine) - 1) < 1e-4
