"""Run a plan in coordinates in which its target is about as wide in all directions: from the curvature at a summit.

Local moves learn a width for each coordinate, and beyond some hundred dimensions mixtures do too. A field on a grid, or
a chain of coupled sites, is as stiff along some directions that no coordinate shows as it is soft along others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.execution.plan import Plan
from tempering.kernels.kernel import trait
from tempering.learning.kernel_settings import DENSE_UP_TO
from tempering.learning.reference.modes import climb
from tempering.learning.reference.surface import Surface
from tempering.randomness import stream
from tempering.target.layout import Layout
from tempering.target.target import cold_density
from tempering.target.whitened import Coordinates, in_coordinates

WHITENING_STREAM = 7
MOST_DIMENSIONS = 2048  # a summit's curvature takes a gradient each, and a move d^2 operations
N_TRIED = 64  # draws of both approximations
LEAST_GAIN = 1.0  # nats: the nearer one has to be nearer by this


@on_one_blas_thread
def whitened(plan: Plan) -> Plan:
    """Return the plan in coordinates whitened at a summit: for local moves that learn no correlations by themselves."""
    layout = plan.layout
    if layout is None or not DENSE_UP_TO < layout.size <= MOST_DIMENSIONS or plan.path != "two_legs":
        return plan
    if plan.engine != "vector" or not any(trait(leaf, "needs_gradient") for leaf in plan.leaves):
        return plan
    surface = Surface(cold_density(plan.target, layout), layout.size)
    found = whitening(surface, layout, layout.flatten(plan.example), stream(plan.seed, WHITENING_STREAM))
    if found is None:
        return plan
    starts = tuple(found.whitened(start) for start in plan.starts)
    return replace(plan, target=in_coordinates(plan.target, found), starts=starts, example=found.whitened(plan.example))


def whitening(surface: Surface, layout: Layout, start: Floats, rng: np.random.Generator) -> Coordinates | None:
    """Return coordinates whitened by the curvature at the summit above a start; None where this says nothing.

    It does where Laplace's approximation is nearer to the target than one without correlations, the best of its kind
    for a normal density, both by the mean of log pi - log q over their draws.
    """
    summit, height = climb(surface, start, None)
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
