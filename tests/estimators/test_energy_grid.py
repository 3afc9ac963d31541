import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from tempering.estimators import energy_grid
from tempering.estimators.energy_grid import EnergyGrid, stand_in_nodes


@settings(max_examples=30)
@given(st.floats(-1e4, 1e4), st.floats(0.0, 300.0), st.integers(0, 2**32))
def test_sums_over_nodes_equal_sums_over_draws(low, width, seed):
    rng = np.random.default_rng(seed)
    energy = low + width * rng.random(2000)
    grid = EnergyGrid.covering(energy.min(), energy.max(), 1.0)
    assert grid.scatter(energy).sum() == pytest.approx(2000, rel=1e-12)
    centre = low + width / 3
    for function in (lambda e: expit(e - centre), lambda e: np.exp(-((e - centre) ** 2) / 8)):
        assert grid.scatter(energy) @ function(grid.nodes) == pytest.approx(function(energy).sum(), abs=1e-8)
        np.testing.assert_allclose(grid.interpolate(function(grid.nodes), energy), function(energy), atol=1e-10)


def test_the_error_falls_with_the_sixth_power_of_the_spacing():
    energy = np.random.default_rng(1).random(500) * 40
    errors = []
    for spacing in (0.8, 0.4):
        grid = EnergyGrid(-2 * spacing, spacing, int(40 / spacing) + 6)
        errors.append(np.abs(grid.interpolate(expit(grid.nodes - 20), energy) - expit(energy - 20)).max())
    assert 35 < errors[0] / errors[1] < 90


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_gather_and_scatter_are_transposes(seed):
    rng = np.random.default_rng(seed)
    energy = rng.normal(0, 3, 5000)
    energy[rng.integers(0, 5000, 5)] = -np.inf
    nodes = stand_in_nodes(energy, 1.0)
    assert nodes.grid is not None
    table, amounts = rng.normal(size=nodes.node_energy.size), rng.normal(size=5000)
    assert nodes.gather(table) @ amounts == pytest.approx(table @ nodes.scatter(amounts), abs=1e-9)


def test_far_energies_are_nodes_of_their_own(monkeypatch):
    monkeypatch.setattr(energy_grid, "MAXIMUM_NODES", 1 << 12)
    energy = np.random.default_rng(1).normal(0, 5, 20_000)
    energy[:3] = [-np.inf, -1e6, -1e5]
    nodes = stand_in_nodes(energy, 1.0)
    assert set(nodes.off_grid) >= {0, 1, 2}
    assert nodes.off_grid.size <= 25
    assert nodes.scatter(np.ones(20_000)).sum() == pytest.approx(20_000)
    square = np.where(nodes.node_energy > -40, nodes.node_energy**2, -1.0)
    np.testing.assert_array_equal(nodes.gather(square)[:3], [-1.0, -1.0, -1.0])


def test_few_draws_are_their_own_nodes():
    nodes = stand_in_nodes(np.linspace(0, 1e5, 3000), 1.0)
    assert nodes.grid is None
    np.testing.assert_array_equal(nodes.node_energy, nodes.gather(nodes.energy))
