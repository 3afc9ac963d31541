"""Run a plan in coordinates in which its target is about as wide in all directions: by units, and by curvature.

Local moves learn a width for each coordinate, and beyond some hundred dimensions mixtures do too. A field on a grid, or
a chain of coupled sites, is as stiff along some directions that no coordinate shows as it is soft along others. And
moves that begin as long in a coordinate of width 10^-5 as in one of 10^4 learn nothing of the second.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.errors import TargetError
from tempering.execution.plan import Plan
from tempering.kernels.kernel import trait
from tempering.learning.kernel_settings import DENSE_UP_TO
from tempering.learning.reference.modes import climb
from tempering.learning.reference.surface import Surface
from tempering.randomness import stream
from tempering.target.checks import prior_draws
from tempering.target.layout import Layout
from tempering.target.target import cold_density
from tempering.target.whitened import Coordinates, in_coordinates

WHITENING_STREAM = 7
MOST_DIMENSIONS = 2048  # a summit's curvature takes a gradient each, and a move d^2 operations
N_TRIED = 64  # draws of both approximations
LEAST_GAIN = 1.0  # nats: the nearer one has to be nearer by this
UNLIKE = 1e3  # widths that differ by more, or are so far from 1, are told of: 10^4 moves learnt, 10^9 they did not
MOST_LOOKED_ALONG = 64  # dimensions: a look takes fifty evaluations along each axis
DEAR = 0.5  # share of an iteration's time that is spent in the density, beyond which there is no such look
LEAST_POWER, MOST_POWER = -12, 12  # of ten, the steps of a look
CLIMBS = 10  # of a summit, each from where the last one ended
CLIMBED = 1e-6  # nats, by which the last climb rose


@on_one_blas_thread
def whitened(plan: Plan) -> Plan:
    """Return the plan in coordinates of like widths, and in many dimensions whitened at a summit."""
    layout = plan.layout
    if layout is None or plan.engine != "vector" or plan.path != "two_legs":
        return plan
    plan = in_like_units(plan, layout)
    has_gradient = any(trait(leaf, "needs_gradient") for leaf in plan.leaves)
    if not DENSE_UP_TO < layout.size <= MOST_DIMENSIONS or not has_gradient:
        return plan  # local moves learn correlations by themselves
    surface = Surface(cold_density(plan.target, layout), layout.size)
    start = layout.flatten(plan.example)
    return _in(plan, whitening(surface, layout, start, stream(plan.seed, WHITENING_STREAM)))


def _in(plan: Plan, found: Coordinates | None) -> Plan:
    """Return a plan in other coordinates, if there are any."""
    if found is None:
        return plan
    starts = tuple(found.whitened(start) for start in plan.starts)
    return replace(plan, target=in_coordinates(plan.target, found), starts=starts, example=found.whitened(plan.example))


def in_like_units(plan: Plan, layout: Layout) -> Plan:
    """Return the plan in units of the target's widths, where these differ so much that moves could not learn them.

    They are looked for at the start, not at the summit above it: a funnel has none, and is the narrower the further one
    climbs. Those of a prior that can be drawn from are how far its middle half reaches. Where all are small, or large,
    moves begin so.
    """
    if layout.size > MOST_LOOKED_ALONG or plan.dearness > DEAR:
        return plan
    place = layout.flatten(plan.example)
    if plan.target.sample_base is not None:
        draws = prior_draws(plan.target.sample_base, layout)
        if draws is None:
            return plan
        quarters = np.quantile(draws, [0.25, 0.75], axis=0)  # a Cauchy distribution has no deviation
        return _in(plan, _in_units(layout, place, quarters[1] - quarters[0]))
    surface = Surface(cold_density(plan.target, layout), layout.size)
    if not surface.is_differentiable:
        return plan
    widths = widths_along_axes(surface, place)
    _check_depends_on_all(widths, layout)
    found = _in_units(layout, place, widths)
    width = float(np.exp(np.mean(np.log(widths))))
    is_usual = not np.isfinite(width) or 1.0 / UNLIKE < width < UNLIKE
    return _in(plan if is_usual else replace(plan, width=width), found)


def _in_units(layout: Layout, centre: Floats, widths: Floats) -> Coordinates | None:
    """Return coordinates in units of these widths, of the same volume; None where they are alike, or not known."""
    if not np.all(np.isfinite(widths) & (widths > 0)) or np.ptp(np.log(widths)) < np.log(UNLIKE):
        return None
    units = np.exp(np.log(widths) - np.mean(np.log(widths)))
    return Coordinates(layout, centre, np.diag(units), np.diag(1.0 / units))


def widths_along_axes(surface: Surface, place: Floats) -> Floats:
    """Return the power of ten at which the log density has changed by 1 along each axis, the nearer way.

    It is inf where none is known, and 0 along an axis that changes nothing at all.

    Examples
    --------
    >>> surface = Surface(lambda x: -0.5 * (1e8 * x[0] ** 2 + 1e-8 * x[1] ** 2), 2)
    >>> widths_along_axes(surface, np.zeros(2)).tolist()
    [0.001, 100000.0]
    """
    d = place.size
    steps = 10.0 ** np.arange(LEAST_POWER, MOST_POWER + 1)
    ways = np.concatenate([np.eye(d), -np.eye(d)])
    places = place + steps[:, None, None] * ways
    change = np.abs(surface.values(places.reshape(-1, d)) - surface.value(place)).reshape(steps.size, 2, d)
    reached = np.any(change > 1.0, axis=1)
    widths = np.where(reached.any(axis=0), steps[np.argmax(reached, axis=0)], np.inf)
    return np.where(np.all(change == 0.0, axis=(0, 1)), 0.0, widths)


def _check_depends_on_all(widths: Floats, layout: Layout) -> None:
    """Refuse a log density that one coordinate does not change, however far: it has no finite integral."""
    if np.all(widths > 0.0):
        return
    i = int(np.argmin(widths))
    names = [name for name, shape in zip(layout.names, layout.shapes, strict=True) for _ in range(math.prod(shape))]
    first = names.index(names[i])
    where = f"{names[i]}[{i - first}]" if names.count(names[i]) > 1 else names[i]
    raise TargetError(
        f"A log density must fall off in every direction, but {where} does not change it, up to 1e{MOST_POWER} from "
        "where chains start: it cannot be normalised. Use that coordinate in the density, give it a prior, or leave it "
        "out."
    )


def whitening(surface: Surface, layout: Layout, start: Floats, rng: np.random.Generator) -> Coordinates | None:
    """Return coordinates whitened by the curvature at the summit above a start; None where this says nothing.

    It does where Laplace's approximation is nearer to the target than one without correlations, the best of its kind
    for a normal density, both by the mean of log pi - log q over their draws.
    """
    summit, height = _climbed(surface, start)
    if height == -np.inf:
        return None
    precision = -surface.hessian(summit, np.ones(start.size))
    try:
        root = np.linalg.cholesky(0.5 * (precision + precision.T))
    except np.linalg.LinAlgError:  # a ridge, or no number
        return None
    factor, deviations = np.linalg.inv(root).T, 1.0 / np.sqrt(np.diagonal(precision))
    log_size = -np.mean(np.log(np.diagonal(root)))
    z = rng.standard_normal((N_TRIED, start.size))
    with_correlations = np.mean(surface.values(summit + z @ factor.T)) + start.size * log_size
    without = np.mean(surface.values(summit + z * deviations)) + np.sum(np.log(deviations))
    if not with_correlations > without + LEAST_GAIN:
        return None
    return Coordinates(layout, summit, factor * np.exp(-log_size), root.T * np.exp(log_size))


def _climbed(surface: Surface, start: Floats) -> tuple[Floats, float]:
    """Return a summit and its height, by climbs from where the last one ended: those from far down end early."""
    place, height = climb(surface, start, None)
    for _ in range(CLIMBS):
        before, (place, height) = height, climb(surface, place, None)
        if not height > before + CLIMBED:
            break
    return place, height
