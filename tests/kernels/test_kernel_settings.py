"""What kernels are made of and set to, and what they refuse."""

import blackjax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering import Ladder, Target
from tempering.engines.densities import functions_of
from tempering.errors import TargetError
from tempering.kernels import (
    BlackJAX,
    Cycle,
    HitAndRunSlice,
    Independence,
    Mixture,
    RandomWalk,
    Slice,
    composite,
    vector,
)
from tempering.kernels.scalar import evaluate
from tempering.kernels.settings import Settings, is_dense, starting_settings
from tempering.path.stacked import stacked_references
from tempering.target.layout import Layout

RW, SLICE, IND = RandomWalk(), Slice(), Independence()


def test_scales_start_proportional_to_the_root_of_the_temperature():
    ladder = Ladder([1.0, 0.25, 0.01, 0.0])
    settings = starting_settings(ladder, np.array([1.0, 2.0]), 2.0, dense=True)
    np.testing.assert_allclose(settings.scale, [2.0, 4.0, 20.0, 200.0])
    assert settings.factor.shape == (4, 2, 2)
    np.testing.assert_array_equal(settings.centre, [[1.0, 2.0]] * 4)
    assert is_dense(settings.factor)
    assert not is_dense(starting_settings(ladder, np.zeros(2), 2.0, dense=False).factor)


def test_leaves_are_the_simple_kernels_in_order():
    nested = Cycle([RW, Mixture([SLICE, Cycle([IND, RW])]), HitAndRunSlice()])
    assert composite.leaves(nested) == (RW, SLICE, IND, RW, HitAndRunSlice())
    assert composite.leaves(RW) == (RW,)


def test_settings_nest_as_the_moves_do():
    kernel = Mixture([RW, SLICE, IND], [0.5, 0.2, 0.3])
    settings = [Settings(f"{name} scale", f"{name} factor", f"{name} centre", "how often afresh") for name in "abc"]
    log_p, n_first, one, (log_q, n_second, two, three) = composite.scalar_settings(kernel, settings)
    assert (one, two, three) == tuple(setting[:3] for setting in settings)  # the engine itself draws afresh
    assert (n_first, n_second) == (1, 1)
    assert np.exp(log_p) == pytest.approx(0.5)
    assert np.exp(log_q) == pytest.approx(0.4)  # 0.2 of the 0.5 that is left


def test_a_mixture_applies_each_kernel_as_often_as_it_says():
    """The acceptance of a kernel not tried is NaN: so it is seen which were."""
    kernel = Mixture([RW, RW, RW], [0.5, 0.2, 0.3])
    move = composite.scalar_move(kernel)
    setting = starting_settings(Ladder([1.0]), np.zeros(1), 1.0, dense=False)
    rng = np.random.default_rng(1)
    functions = (lambda x: -0.5 * x[0] ** 2, None, 0, stacked_references([], 1))
    particle = (np.zeros(1), np.zeros(1), np.zeros(2), np.zeros(2))
    tried = np.zeros(3)
    for _ in range(3000):
        acceptance = np.full(3, -1.0)
        move(rng, functions, particle, np.ones(1), composite.scalar_settings(kernel, [setting] * 3), 0, acceptance)
        assert np.sum(~np.isnan(acceptance)) == 1
        tried += ~np.isnan(acceptance)
    np.testing.assert_allclose(tried / 3000, kernel.probabilities, atol=5 * np.sqrt(0.25 / 3000))


def test_targets_of_acceptance():
    assert RW.target_acceptance(1) == pytest.approx(0.44)
    assert RW.target_acceptance(1000) == pytest.approx(0.234, abs=1e-3)
    assert SLICE.target_acceptance(3) is IND.target_acceptance(3) is HitAndRunSlice().target_acceptance(3) is None
    assert BlackJAX(blackjax.mala).target_acceptance(3) == 0.574
    assert RandomWalk(0.7).starting_scale(4) == 0.7
    assert RW.starting_scale(4) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Mixture([]), "one positive probability per kernel.*0 kernels"),
        (lambda: Mixture([RW, SLICE], [0.5, 0.6]), r"summing to one, but got \[0.5, 0.6\]"),
        (lambda: Mixture([RW, SLICE], [1.0, 0.0]), "positive"),
        (lambda: Mixture([RW], [0.5, 0.5]), "for 1 kernels"),
        (lambda: Cycle([]), "at least one kernel"),
        (lambda: BlackJAX(print), "init and build_kernel.*blackjax.hmc"),
        (lambda: BlackJAX(blackjax.hmc, warmth=3), "hmc takes no parameter 'warmth'; it takes"),
    ],
)
def test_kernels_that_make_no_sense_are_refused(build, message):
    with pytest.raises(TargetError, match=message):
        build()


def test_elliptical_slices_refuse_a_prior_that_is_not_theirs():
    kernel = BlackJAX(blackjax.elliptical_slice, mean=np.zeros(2), cov_matrix=np.eye(2))
    target = Target.from_likelihood(jnp.sum, lambda x: -jnp.sum(x**2))  # variance 1/2, not 1

    def density(x):
        return jnp.stack([target.energy(x), target.base(x)])

    with pytest.raises(TargetError, match=r"elliptical_slice is exact for a Gaussian prior.*another function"):
        kernel.vector_move(density)
    kernel.vector_move(lambda x: jnp.stack([jnp.sum(x), -0.5 * jnp.sum(x**2) + 3.0]))


def test_a_term_that_does_not_count_may_be_minus_infinity():
    outside = vector.Particle(np.zeros(1), jnp.array([-jnp.inf, -1.5]), 0)
    assert vector.tempered(outside, vector.Rung(jnp.array([0.0, 1.0]), -1)) == -1.5
    assert vector.tempered(outside, vector.Rung(jnp.array([0.1, 1.0]), -1)) == -jnp.inf


def test_what_is_not_a_number_is_outside_the_support_and_counted_on_both_engines():
    for value in (np.nan, np.inf):
        particle = vector.at(lambda x, value=value: jnp.array([value, -0.5]), np.zeros(1))
        np.testing.assert_array_equal(particle.terms, [-np.inf, -0.5])
        assert particle.n_invalid == 1
        out = np.zeros(3)
        evaluate((lambda x, value=value: value, lambda x: -0.5, 0, stacked_references([], 1)), np.zeros(1), out)
        np.testing.assert_array_equal(out, [-np.inf, -0.5, 1.0])
    assert vector.at(lambda x: jnp.array([-jnp.inf, 0.0]), np.zeros(1)).n_invalid == 0


def test_where_the_base_ends_the_energy_is_not_asked():
    def energy(x):
        raise AssertionError("asked")

    out = np.zeros(3)
    evaluate((energy, lambda x: -np.inf, 0, stacked_references([], 1)), np.zeros(1), out)
    np.testing.assert_array_equal(out, [-np.inf, -np.inf, 0.0])
    target = Target.from_likelihood(lambda x: jnp.log(-1.0 - x[0]), lambda x: jnp.where(x[0] < 0.0, 0.0, -jnp.inf))
    terms = functions_of(target, RW, Layout.of(np.zeros(1))).density((), jnp.ones(1))  # the log is NaN there
    np.testing.assert_array_equal(terms, [-np.inf, -np.inf])


def test_the_adapter_is_imported_when_asked_for():
    import tempering.kernels

    with pytest.raises(AttributeError, match="no attribute 'Gibbs'"):
        _ = tempering.kernels.Gibbs
