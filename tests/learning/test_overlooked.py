"""Modes that only a few draws have met: climbed to from there, and worth beginning anew if the mixture lacks them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from seeds import shifted
from statistical import seeded_rng
from tempering.learning.reference.modes import find_modes
from tempering.learning.reference.overlooked import overlooked, striking
from tempering.learning.reference.search import assembled
from tempering.learning.reference.surface import Surface
from tempering.sampling.tuning import tune

NARROW = 0.02  # standard deviation; the other mode's is 1


def log_density(x, mass):
    """Return the log density of two normals in the plane, the narrow one with so much of the mass."""
    normal = jax.scipy.stats.norm.logpdf
    wide = jnp.log1p(-mass) + jnp.sum(normal(x, -4.0, 1.0))
    return jnp.logaddexp(wide, jnp.log(mass) + jnp.sum(normal(x, 5.0, NARROW)))


def surface_of(mass):
    return Surface(lambda x: log_density(x, mass), 2, most_calls=10_000)


def looked_at(mass, starts, known_to_mixture=()):
    """Look at one draw in the narrow mode, with a mixture of the modes that these starts, and those, lead to."""
    surface = surface_of(mass)
    modes = find_modes(surface, starts)
    mixture = assembled(find_modes(surface, [*starts, *known_to_mixture]))
    scouts = np.array([[5.0 + NARROW, 5.0]]), np.array([float(log_density(jnp.array([5.0 + NARROW, 5.0]), mass))])
    return modes, overlooked(surface, modes, mixture, 0.0, scouts, seeded_rng("overlooked"))


def test_a_mode_that_the_mixture_lacks_is_found_from_one_draw():
    modes, found = looked_at(0.5, [np.array([-4.0, -4.0])])
    assert len(modes) == 1
    assert len(found) == 2
    new = max(found, key=lambda mode: float(mode.position[0]))
    np.testing.assert_allclose(new.position, 5.0, atol=1e-4)
    assert new.log_mass == pytest.approx(np.log(0.5), abs=0.01)


def test_control_what_the_mixture_knows_or_has_no_mass_is_not_begun_anew_for():
    assert looked_at(0.5, [np.array([-4.0, -4.0]), np.array([5.0, 5.0])])[1] == ()
    assert looked_at(0.5, [np.array([-4.0, -4.0])], known_to_mixture=[np.array([5.0, 5.0])])[1] == ()
    assert looked_at(1e-4, [np.array([-4.0, -4.0])])[1] == ()


def test_the_draws_that_stand_out_are_those_highest_above_the_mixture():
    log_target, log_mixture = np.array([0.0, -1.0, -np.inf, -5.0]), np.array([0.0, -9.0, -np.inf, -5.5])
    places, heights = striking(np.arange(4.0)[:, np.newaxis], log_target, log_mixture)
    assert places[:, 0].tolist() == [1.0, 3.0, 0.0]
    assert heights.tolist() == [-1.0, -5.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [13, 14])
def test_a_run_that_meets_a_narrow_mode_late_begins_anew_with_it(seed):
    """With seed 13 one draw in 320,000 had met it, and .0002 ± .0003 was called sound."""
    box = {name: tp.prior.Uniform(-10.0, 10.0) for name in "ab"}
    target = tp.Target.from_likelihood(lambda p: log_density(jnp.stack([p["a"], p["b"]]), 0.5), box)
    run = tp.sample(target, rng=shifted(seed), progress=False)
    mass, evidence = run.expect(lambda a, b: (a > 0) * 1.0), run.log_evidence()
    assert abs(mass.value - 0.5) < 5 * mass.standard_error < 0.05
    assert abs(evidence.value + np.log(400.0)) < 5 * evidence.standard_error < 0.05


def test_a_run_that_is_stopped_while_it_begins_anew_returns_the_draws_it_has(monkeypatch):
    tuned = []

    def stopped_at_second(*arguments):
        tuned.append(arguments)
        if len(tuned) == 2:
            raise KeyboardInterrupt
        return tune(*arguments)

    monkeypatch.setattr("tempering.sampling.sample.tune", stopped_at_second)
    monkeypatch.setattr("tempering.sampling.sample.overlooked_modes", lambda *_: (None,))
    run = tp.sample(tp.Target(lambda x: -0.5 * x**2), initial=0.0, rng=shifted(1), progress=False)
    assert len(tuned) == 2
    assert tuned[1][-1] == (None,)
    assert abs(run.expect(lambda x: x).value) < 0.05
