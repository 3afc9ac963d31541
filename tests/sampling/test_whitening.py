"""When correlations at a summit are taken for those of the target, and what runs in such coordinates say."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering import problems
from tempering.errors import TargetError
from tempering.learning.reference.surface import Surface
from tempering.sampling import whitening as coordinates
from tempering.sampling.whitening import whitening, widths_along_axes
from tempering.target.layout import Layout
from tempering.target.whitened import Coordinates

D = 24
LAG = np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
COVARIANCE = 0.95**LAG * np.outer(1.0 + np.arange(D) % 3, 1.0 + np.arange(D) % 3)
PRECISION = np.linalg.inv(COVARIANCE)
CENTRE = np.linspace(-2.0, 3.0, D)
LOG_Z = 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]


def log_neighbours(x):
    """A normal density of neighbours that are much alike: no few directions make it up."""
    return -0.5 * (x - CENTRE) @ PRECISION @ (x - CENTRE)


def found_for(log_density, start):
    start = np.asarray(start, float)
    return whitening(Surface(log_density, start.size), Layout.of(start), start, seeded_rng("tried"))


def test_a_normal_density_is_round_in_its_coordinates():
    found = found_for(log_neighbours, np.zeros(D))
    np.testing.assert_allclose(found.centre, CENTRE, atol=1e-3)
    np.testing.assert_allclose(np.linalg.det(found.factor), 1.0)
    np.testing.assert_allclose(found.factor @ found.inverse, np.eye(D), atol=1e-9)
    seen = found.factor.T @ PRECISION @ found.factor
    np.testing.assert_allclose(seen, seen[0, 0] * np.eye(D), atol=1e-7 * seen[0, 0])
    assert np.linalg.cond(PRECISION) > 1e3


@pytest.mark.parametrize("name", ["many-well-32", "funnel-30", "shells-30", "rosenbrock-pairs-30", "twin-modes-32"])
def test_coordinates_stay_where_a_summit_says_nothing_of_correlations(name):
    """Without correlations, on a ridge, in a valley that bends: Laplace's approximation is no better or far worse."""
    target = problems.suite()[name]
    assert found_for(target.log_density, target.initial) is None


def test_a_summit_far_below_which_a_climb_begins_is_reached_all_the_same(monkeypatch):
    """Widths from .001 to 1, turned, and a start a hundred deviations away: one climb ends early."""
    turn = np.linalg.qr(seeded_rng("turned").normal(size=(D, D)))[0]
    square = np.logspace(-6, 0, D)

    def student(x):
        return -0.5 * (8.0 + D) * jnp.log1p(jnp.sum((x @ turn) ** 2 / square) / 8.0)

    start = 100.0 * turn @ np.sqrt(square)
    found = found_for(student, start)
    np.testing.assert_allclose(found.centre, 0.0, atol=1e-2)
    monkeypatch.setattr(coordinates, "CLIMBS", 0)
    assert found_for(student, start) is None  # control


def test_widths_are_those_of_the_nearer_way():
    """A box of half the width on one side, a slope, and an axis that changes nothing."""
    edges = np.array([0.5, 2e3, 1.0])

    def log_density(x):
        return jnp.where(jnp.all((x < edges) & (x > -100.0 * edges)), -3e-4 * x[1], -jnp.inf)

    assert widths_along_axes(Surface(log_density, 3), np.zeros(3)).tolist() == [1.0, 1e4, 1.0]
    assert widths_along_axes(Surface(lambda x: -(x[1] ** 4), 2), np.array([7.0, 0.0])).tolist() == [0.0, 10.0]


@pytest.mark.parametrize("name", ["funnel-10", "funnel-30", "rosenbrock-pairs-10", "many-well-8", "twin-modes-32"])
def test_units_stay_where_widths_at_the_start_are_alike(name):
    target = problems.suite()[name]
    start = np.asarray(target.initial, float)
    widths = widths_along_axes(Surface(target.log_density, start.size), start)
    layout = Layout.of(start)
    assert coordinates._in_units(layout, start, widths) is None
    widths[0] *= 1e6  # control
    assert coordinates._in_units(layout, start, widths) is not None


def test_tails_of_a_prior_are_no_unit(monkeypatch):
    """Of 256 draws of a Cauchy distribution the deviation may be thousands of times that of a normal one."""
    draws = np.stack([seeded_rng("one").normal(size=256), seeded_rng("two").standard_cauchy(256)], axis=1)
    draws[0, 1] = 1e5
    assert coordinates._in_units(Layout.of(np.zeros(2)), np.zeros(2), draws.std(axis=0)) is not None  # control
    monkeypatch.setattr(coordinates, "prior_draws", lambda *_: draws)
    plan = SimpleNamespace(dearness=0.0, example=np.zeros(2), target=SimpleNamespace(sample_base=lambda key: key))
    assert coordinates.in_like_units(plan, Layout.of(np.zeros(2))) is plan


def test_coordinates_of_coordinates_lead_back_to_positions():
    rng = seeded_rng("twice")
    layout = Layout.of(np.zeros(3))
    first, second = (
        Coordinates(layout, rng.normal(size=3), factor, np.linalg.inv(factor)) for factor in rng.normal(size=(2, 3, 3))
    )
    z, both = rng.normal(size=(5, 3)), second.after(first)
    np.testing.assert_allclose(both.flat_position(z), first.flat_position(second.flat_position(z)))
    np.testing.assert_allclose(both.flat_whitened(both.flat_position(z)), z)


def test_a_density_that_a_coordinate_does_not_change_is_refused():
    def log_density(position):
        return -0.5 * position["a"] ** 2 - 0.5 * jnp.sum(position["b"][:2] ** 2)

    start = {"a": 0.0, "b": np.zeros(3)}
    with pytest.raises(TargetError, match=r"b\[2\] does not change it"):
        tp.sample(tp.Target(log_density), initial=start, rng=1, progress=False)


def unlike(units):
    """Two normals in so many units, a quarter and three quarters of the mass."""
    units = np.asarray(units)

    def log_density(x):
        z = x / units
        return jnp.logaddexp(jnp.log(0.25) - 0.5 * jnp.sum(z**2), jnp.log(0.75) - 0.5 * jnp.sum((z - 12.0) ** 2))

    log_z = np.log(2 * np.pi) + np.log(units).sum()
    run = tp.sample(tp.Target(log_density), initial=np.zeros(2), rng=1, draws=2_000, progress=False)
    mass, evidence = run.expect(lambda x: x[..., 0] > 6.0 * units[0]), run.log_evidence()
    moves = run.rungs()["move_acceptance"].to_numpy()[1:-1]
    return mass, evidence.value - log_z, evidence.standard_error, moves


@pytest.mark.slow
@pytest.mark.parametrize("units", [(1e-5, 1e4), (1e-7, 1e-7), (1e6, 1e6)])
def test_units_do_not_matter(monkeypatch, units):
    mass, error, standard_error, moves = unlike(units)
    assert abs(mass.value - 0.75) < 5 * mass.standard_error < 0.01
    assert abs(error) < 5 * standard_error < 0.02
    assert np.all((moves > 0.15) & (moves < 0.6))
    monkeypatch.setattr(coordinates, "in_like_units", lambda plan, _: plan)
    moves = unlike(units)[3]
    assert not np.all((moves > 0.15) & (moves < 0.6))  # control


@pytest.mark.slow
def test_units_of_a_prior_do_not_matter():
    """A straight line through points, its slope 10^-4 and its level 10^3, by the reach of the prior."""
    x, slope, level = np.linspace(0.0, 1e6, 20), 1e-4, 1e3
    y = level + slope * x + 5.0 * seeded_rng("line").normal(size=20)
    design, scale = np.stack([x, np.ones(20)], axis=1), np.array([1e-3, 1e4])
    target = tp.Target.from_likelihood(
        lambda b: -0.5 * jnp.sum(((y - design @ b) / 5.0) ** 2) - 20 * np.log(5.0 * np.sqrt(2 * np.pi)),
        lambda b: -0.5 * jnp.sum((b / scale) ** 2) - np.log(2 * np.pi * scale.prod()),
        lambda key: scale * jax.random.normal(key, (2,)),
    )
    run = tp.sample(target, rng=2, draws=2_000, progress=False)
    covariance = np.linalg.inv(design.T @ design / 25.0 + np.diag(scale**-2.0))
    mean = run.expect(lambda b: b)
    assert np.all(np.abs(mean.value - covariance @ design.T @ y / 25.0) < 5 * mean.standard_error)
    assert np.all(mean.standard_error < 0.02 * np.sqrt(np.diagonal(covariance)))
    whole = 25.0 * np.eye(20) + design @ np.diag(scale**2) @ design.T
    log_z = -0.5 * (y @ np.linalg.solve(whole, y) + np.linalg.slogdet(2 * np.pi * whole)[1])
    evidence = run.log_evidence()
    assert abs(evidence.value - log_z) < 5 * evidence.standard_error


def test_a_start_off_the_support_says_nothing():
    assert found_for(lambda x: jnp.where(x[0] > 1.0, log_neighbours(x), -jnp.inf), np.zeros(D)) is None


def log_prior(position):
    return -0.5 * (jnp.sum(position["left"] ** 2) + position["right"] ** 2) / 100.0 - 0.5 * D * jnp.log(200 * jnp.pi)


def log_likelihood(position):
    x = jnp.concatenate([position["left"], jnp.atleast_1d(position["right"])])
    return log_neighbours(x)


def draw_prior(key):
    x = 10.0 * jax.random.normal(key, (D,))
    return {"left": x[:-1], "right": x[-1]}


POSTERIOR = np.linalg.inv(PRECISION + np.eye(D) / 100.0)
MEAN = POSTERIOR @ PRECISION @ CENTRE
WHOLE = COVARIANCE + 100.0 * np.eye(D)
EVIDENCE = LOG_Z - 0.5 * np.linalg.slogdet(2 * np.pi * WHOLE)[1] - 0.5 * CENTRE @ np.linalg.solve(WHOLE, CENTRE)


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["draws", "sums"])
def test_a_posterior_is_met_in_its_own_names(keep):
    target = tp.Target.from_likelihood(log_likelihood, log_prior, draw_prior)
    shown = {"left": lambda left, right: left, "right": lambda left, right: right}
    run = tp.sample(
        target, rng=1, tuning=tp.Tuning(960), draws=960, chains=16, progress=False,
        keep="draws" if keep == "draws" else tp.Sums(shown),
    )  # fmt: skip
    left, right = (run.expect(f) for f in shown.values()) if keep == "draws" else (run.expect(n) for n in shown)
    z = (np.append(left.value, right.value) - MEAN) / np.append(left.standard_error, right.standard_error)
    assert np.max(np.abs(z)) < 6.0
    assert np.max(np.append(left.standard_error, right.standard_error) / np.sqrt(np.diagonal(POSTERIOR))) < 0.1
    evidence = run.log_evidence()
    assert abs(evidence.value - EVIDENCE) < 5 * evidence.standard_error < 0.5


LONG = 144  # beyond what mixtures of all coordinates are fitted in


def log_chain(x):
    """Sites of a chain that are much like their neighbours, held at 0 at both ends: a condition of 5,000."""
    steps = jnp.diff(jnp.concatenate([jnp.zeros(1), x, jnp.zeros(1)]))
    return -0.5 * jnp.sum((x - 1.0) ** 2) - 0.5 * 1_250.0 * jnp.sum(steps**2)


def chain_truth():
    """Return the mean and the log integral."""
    precision = np.eye(LONG) * (1.0 + 2_500.0) - 1_250.0 * (np.eye(LONG, k=1) + np.eye(LONG, k=-1))
    mean = np.linalg.solve(precision, np.ones(LONG))
    return mean, 0.5 * (mean @ precision @ mean - LONG + LONG * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1])


def run_of_the_chain():
    how = {"tuning": tp.Tuning(640), "draws": 1_280, "chains": 8, "rng": 1, "progress": False}
    return tp.sample(tp.Target(log_chain), initial=np.zeros(LONG), **how)


@pytest.mark.slow
def test_a_stiff_chain_of_sites_is_sampled_from(monkeypatch):
    """Control: in plain coordinates four leapfrog steps go a twentieth of the way, and no mixture is near."""
    mean, log_z = chain_truth()
    run = run_of_the_chain()
    found, evidence = run.expect(lambda x: x), run.log_evidence()
    assert abs(evidence.value - log_z) < 5 * evidence.standard_error < 1.0
    assert np.max(np.abs(found.value - mean) / found.standard_error) < 6.0
    monkeypatch.setattr("tempering.sampling.sample.whitened", lambda plan: plan)
    plain = run_of_the_chain()
    assert np.mean(plain.expect(lambda x: x).standard_error) > 3.0 * np.mean(found.standard_error)


@pytest.mark.slow
def test_workers_checkpoints_and_more_draws_change_nothing(tmp_path):
    size = {"tuning": tp.Tuning(320), "chains": 8, "rng": 1, "progress": False, "initial": np.zeros(D)}
    target = tp.Target(log_neighbours)
    whole = tp.sample(target, draws=96, **size)
    with ThreadPoolExecutor(2) as pool:
        spread = tp.sample(target, draws=96, execution=tp.Execution(executor=pool, checkpoint=tmp_path / "run"), **size)
    np.testing.assert_array_equal(spread.values["x"], whole.values["x"])
    again = tp.sample(target, draws=96, execution=tp.Execution(checkpoint=tmp_path / "run"), **size)
    np.testing.assert_array_equal(again.values["x"], whole.values["x"])
    longer = tp.sample(target, draws=64, **size).more(32)
    np.testing.assert_array_equal(longer.values["x"], whole.values["x"])
    np.testing.assert_allclose(whole.terms[0, 0, 0], log_neighbours(whole.values["x"][0, 0]), rtol=1e-5)
