"""Targets in other linear coordinates: the same densities, evidence and draws, whatever positions look like."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering.target.layout import Layout
from tempering.target.whitened import Coordinates, in_coordinates

POSITION = {"b": np.array([1.0, 2.0]), "a": np.array(3.0)}


def coordinates(position, rng):
    """Return coordinates with a factor that is neither triangular nor symmetric."""
    layout = Layout.of(position)
    factor = rng.normal(size=(layout.size, layout.size))
    factor /= np.abs(np.linalg.det(factor)) ** (1 / layout.size)
    return Coordinates(layout, rng.normal(size=layout.size), factor, np.linalg.inv(factor))


def log_density(position):
    return -jnp.sum((position["b"] - 1.0) ** 4) - 2.0 * position["a"] ** 2


@pytest.mark.parametrize("position", [POSITION, np.array([1.0, 2.0, 3.0]), 2.5], ids=["dict", "vector", "number"])
def test_a_position_comes_back_from_its_coordinates(position):
    found = coordinates(position, seeded_rng("back"))
    again = found.layout.flatten(found.placed(found.whitened(jax.tree.map(np.asarray, position))))
    np.testing.assert_allclose(again, found.layout.flatten(position))


def test_a_density_is_that_of_the_position():
    found = coordinates(POSITION, seeded_rng("density"))
    target = in_coordinates(tp.Target(log_density), found)
    z = found.whitened(POSITION)
    np.testing.assert_allclose(target.energy(z), log_density(POSITION), rtol=1e-6)
    assert not np.isclose(target.energy(POSITION), log_density(POSITION))  # coordinates are no positions


def test_draws_of_the_prior_are_the_same_positions_and_shown_as_before():
    shape = (4, 5)
    found = coordinates(POSITION, seeded_rng("prior"))

    def draw(rng):
        return {"b": rng.normal(size=2), "a": np.asarray(rng.normal())}

    plain = tp.Target.from_likelihood(log_density, log_density, draw, constrain=lambda p: {"twice": 2.0 * p["b"]})
    target = in_coordinates(plain, found)
    want, z = draw(np.random.default_rng(1)), target.sample_base(np.random.default_rng(1))
    assert found.layout.flatten(found.placed(z)) == pytest.approx(found.layout.flatten(want))
    many = found.layout.unflatten(np.tile(found.layout.flatten(z), (*shape, 1)))
    np.testing.assert_allclose(target.constrain(many)["twice"], np.tile(2.0 * want["b"], (*shape, 1)))
    shown = in_coordinates(tp.Target(log_density), found).constrain(many)
    assert shown.keys() == {"a", "b"}
    np.testing.assert_allclose(shown["a"], np.full(shape, want["a"]))
