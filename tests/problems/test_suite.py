"""The suite: densities, priors, exact draws, quantities and evidences must tell one story."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import Target, problems
from tempering.errors import TargetError

SUITE = problems.suite()
LARGE = ("twin-modes-1000", "cox-32x32", "phi4-chain-400")
SMALL = [name for name in SUITE if name not in LARGE]
VARIANTS = (
    "gmm-40-bare",
    "unequal-modes-20",
    "twin-modes-32",
    "twin-modes-128",
    "two-in-cube-10",
    "normal-1",
    "normal-50",
    "funnel-30",
    "shells-2",
    "shells-30",
    "log-gamma-2",
    "log-gamma-10",
    "spike-and-slab-20",
    "rosenbrock-pairs-10",
    "rosenbrock-pairs-30",
    "many-well-32",
    "many-well-64",
    "phi4-chain-100",
    "cox-16x16",
    "gmm-9",
    "grid-25",
    "ring",
    "eight-gaussians",
    "four-modes",
    "five-modes",
    "two-modes-25",
)  # of the same code as others
ONE_OF_A_KIND = [name for name in SMALL if name not in VARIANTS]
PRIORS = ["gmm-40", "regression-3", "funnel-10", "galaxies", "cox-8x8"]
EXACT = [name for name in SMALL if SUITE[name].exact is not None]
INTEGRABLE = [
    name
    for name in SMALL
    if SUITE[name].evidence is not None and SUITE[name].dimension <= 4 and name not in ("two-in-cube-2", "eggbox")
]
N_EXACT = 4_000


@pytest.fixture(params=SMALL)
def target(request):
    return SUITE[request.param]


def quietly(function, x):
    """Call a density that is NaN or infinite in places, as some of these are on purpose."""
    with np.errstate(all="ignore"):
        return function(x)


def test_names_titles_and_starts(target):
    assert SUITE[target.name] is target
    assert target.title
    assert target.source
    assert target.initial.shape == (target.dimension,)
    assert np.isfinite(target.log_density(target.initial))
    assert target.known or target.evidence is not None


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_numpy_and_jax_agree_on_density_prior_and_quantities(name):
    target = SUITE[name]
    x = 0.9 * target.initial + 0.1 * target.prior.sample(seeded_rng(target.name), 5)
    functions = [target.log_density, target.log_prior, target.log_likelihood, *(q.function for q in target.known)]
    with jax.enable_x64(True):
        traced = jax.jit(lambda x: [function(x) for function in functions])(jnp.asarray(x))
    for function, found in zip(functions, traced, strict=True):
        np.testing.assert_allclose(found, quietly(function, x), rtol=1e-9, atol=1e-9)
    for quantity in target.known:
        assert np.shape(quantity.function(x)[0]) == np.shape(quantity.value)
    lone = [quietly(target.log_density, row) for row in x]
    np.testing.assert_allclose(lone, quietly(target.log_density, x), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIORS)
def test_the_unit_cube_is_mapped_alike_by_numpy_and_jax(name):
    target = SUITE[name]
    u = seeded_rng(f"cube {target.name}").uniform(0.01, 0.99, (4, target.dimension))
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            target.prior.from_unit_cube(jnp.asarray(u)), target.prior.from_unit_cube(u), rtol=1e-9, atol=1e-9
        )
        drawn = target.prior.draw(jax.random.key(1))
    assert drawn.shape == (target.dimension,)
    assert np.isfinite(target.log_prior(np.asarray(drawn)))


def test_masses_add_up_and_every_mode_can_be_told(target):
    if target.modes is None:
        return
    assert np.sum(target.modes.masses) == pytest.approx(1.0, abs=1e-6)
    shares = target.modes.quantity.function(target.initial[None])
    assert np.sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("name", EXACT)
def test_exact_draws_have_the_quantities_that_are_claimed(name):
    target, rng = SUITE[name], seeded_rng(f"exact {name}")
    x = target.sample(rng, N_EXACT)
    assert x.shape == (N_EXACT, target.dimension)
    assert np.all(np.isfinite(target.log_density(x)))
    for quantity in target.known:
        values = np.asarray(quantity.function(x)).reshape(N_EXACT, -1)
        moving = values.std(axis=0) > 1e-9
        if moving.any() and not heavy_tailed(name, quantity.name):
            truth = np.broadcast_to(np.ravel(quantity.value), moving.shape)
            assert_mean_is(truth[moving], values[:, moving])


def heavy_tailed(name, quantity):
    """Whether a mean of this many draws is far from normal: fourth moments barely exist, or rare draws count."""
    return (name == "student-modes-4" and "square" in quantity) or name.startswith("spike-and-slab")


@pytest.mark.parametrize("name", ["gmm-40", "rosenbrock-2", "shells-5", "log-gamma-4", "many-well-8", "eight-schools"])
def test_control_other_truths_are_refused(name):
    target, rng = SUITE[name], seeded_rng(f"control {name}")
    x = target.sample(rng, N_EXACT)
    quantity = target.known[-1]
    values = np.asarray(quantity.function(x)).reshape(N_EXACT, -1)
    wrong = np.ravel(quantity.value) + 0.15 * values.std(axis=0)
    assert_mean_is_not(wrong, values)


SCORED = ["student-modes-4", "funnel-10", "rings-4", "shells-5", "log-gamma-4", "rosenbrock-2", "many-well-8",
          "correlated-10"]  # fmt: skip


def stein(target, x):
    """Return statistics of mean 0 under the density: its score, and 1 + coordinate times score (Stein)."""
    with jax.enable_x64(True):
        score = np.asarray(jax.jit(jax.vmap(jax.grad(target.log_density)))(jnp.asarray(x)))
    return np.hstack([score, 1 + (x - x.mean(axis=0)) * score])


@pytest.mark.parametrize("name", SCORED)
def test_exact_draws_fit_the_slope_of_the_density(name):
    target = SUITE[name]
    assert_mean_is(0.0, stein(target, target.sample(seeded_rng(f"stein {name}"), N_EXACT)))


@pytest.mark.parametrize("name", ["funnel-10", "rings-4", "rosenbrock-2"])
def test_control_draws_that_are_stretched_do_not(name):
    target = SUITE[name]
    x = target.sample(seeded_rng(f"stein control {name}"), N_EXACT)
    assert_mean_is_not(0.0, stein(target, x * 1.15))


@pytest.mark.parametrize("name", INTEGRABLE)
def test_the_prior_weighted_by_the_likelihood_integrates_to_the_evidence(name):
    target, rng = SUITE[name], seeded_rng(f"evidence {name}")
    x = target.prior.sample(rng, 24 * 4000)
    log_likelihood = np.nan_to_num(quietly(target.log_likelihood, x), nan=-np.inf)
    ratio = np.exp(log_likelihood - target.evidence.log_value).reshape(24, -1).mean(axis=1)
    assert_mean_is(1.0, ratio)
    assert_mean_is_not(4.0, ratio)


def test_the_evidence_of_the_eggbox_is_that_of_a_grid():
    target = SUITE["eggbox"]
    grid = np.linspace(0.0, 10 * np.pi, 601)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    weight = np.ones(601)
    weight[[0, -1]] = 0.5
    log_weight = np.log(weight)[:, None] + np.log(weight)
    found = logsumexp(target.log_likelihood(points) + log_weight) - 2 * np.log(600)
    assert found == pytest.approx(target.evidence.log_value, abs=1e-7)
    mode = target.modes.mode_of(points)
    share = np.exp(target.log_likelihood(points) + log_weight - found - 2 * np.log(600))
    np.testing.assert_allclose(np.bincount(mode.ravel(), share.ravel()), target.modes.masses, atol=1e-3)


def test_the_evidence_of_a_needle_in_the_cube_is_that_of_a_grid():
    target = problems.correlated(2)
    middle = (np.arange(2000) + 0.5) / 2000
    points = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1)
    found = logsumexp(target.log_likelihood(points)) - 2 * np.log(2000)
    assert found == pytest.approx(target.evidence.log_value, abs=1e-8 + target.evidence.accuracy)
    unmixed = problems.correlated(2, mixing=0.0)  # control: another needle
    assert abs(found - unmixed.evidence.log_value) > 1.0


@pytest.mark.parametrize(
    ("target", "published"),
    [
        (problems.shells(2), -1.7456419),
        (problems.shells(20), -36.0865476),
        (problems.log_gamma(10), -2.27e-5),
        (problems.spike_and_slab(20), 4.6151205),
        (problems.rosenbrock(), -5.8041324),
        (problems.rosenbrock(5, 10.0, 10.0), -29.9957879),
        (problems.many_well(32), 164.695675),
        (problems.phi4_chain(100, 0.005), -196.63325295),
        (problems.phi4_chain(64, 0.01), -118.94410869),
    ],
)
def test_evidences_are_those_that_others_computed(target, published):
    assert target.evidence.log_value == pytest.approx(published, abs=2e-6)


def test_the_chain_is_that_of_a_sum_over_a_small_grid():
    """Two sites, integrated by brute force."""
    target = problems.phi4_chain(2, 0.3)
    grid = np.linspace(-6, 6, 1201)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    log_p = target.log_density(points)
    total = logsumexp(log_p) + 2 * np.log(grid[1] - grid[0])
    wide = problems.physics_toys.phi4_chain_truth(2, 0.3)
    assert wide.log_evidence == pytest.approx(total, abs=1e-6)
    weight = np.exp(log_p - logsumexp(log_p))
    assert wide.mean[1] == pytest.approx(np.sum(weight * points[..., 1]), abs=1e-6)


def test_densities_that_are_careless_are_nan_where_they_say_so():
    assert np.isnan(quietly(SUITE["walled-modes"].log_density, np.array([11.0, 0.0])))
    careless, proper = SUITE["funnel-3-careless"], problems.funnel(3)
    assert np.isnan(quietly(careless.log_density, np.array([-1600.0, 0.0, 0.0])))
    x = proper.sample(seeded_rng("careless"), 20)
    np.testing.assert_allclose(careless.log_density(x), proper.log_density(x), rtol=1e-9)


def test_relabelling_changes_nothing_but_the_mode_of_the_galaxies():
    target = SUITE["galaxies"]
    x = target.prior.sample(seeded_rng("galaxies"), 6)
    swapped = x[:, [1, 0, 2, 4, 3, 5, 7, 6]]
    np.testing.assert_allclose(target.log_density(swapped), target.log_density(x), rtol=1e-10)
    assert np.all(target.modes.mode_of(swapped) != target.modes.mode_of(x))
    last = x[:, [2, 1, 0, 5, 4, 3, 6, 7]]
    last[:, 6], last[:, 7] = -x[:, 6], x[:, 7] - x[:, 6]  # log ratios to the former first
    np.testing.assert_allclose(target.log_density(last), target.log_density(x), rtol=1e-10)


def test_points_of_a_pattern_are_counted_in_their_cells():
    target = problems.cox_process(4, points=[[0.1, 0.9], [0.1, 0.9], [1.0, 1.0]])
    empty = problems.cox_process(4, points=[[0.1, 0.9], [1.0, 1.0]])
    field = np.arange(16.0) / 10
    assert target.log_likelihood(field) - empty.log_likelihood(field) == pytest.approx(field[3])
    with pytest.raises(TargetError, match="unit square"):
        problems.cox_process(4, points=[[3.0, 0.5]])


def test_an_unknown_name_is_answered_with_near_ones():
    with pytest.raises(TargetError, match="funnel-10"):
        SUITE["funnel-11"]


def test_a_target_for_the_sampler_has_its_prior_where_the_definition_has_one():
    assert not SUITE["eggbox"].target().is_powered
    bare = SUITE["funnel-10"].target()
    assert isinstance(bare, Target)
    assert bare.is_powered


def test_the_table_lists_all():
    table = SUITE.table()
    assert list(table.index) == list(SUITE)
    assert table.loc["eggbox", "modes"] == 18
