"""Run a plan in whitened coordinates, where that is worth while."""

from __future__ import annotations

from dataclasses import replace

from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.execution.plan import Plan
from tempering.kernels.kernel import trait
from tempering.learning.kernel_settings import DENSE_UP_TO
from tempering.learning.reference.surface import Surface
from tempering.learning.whitening import whitening
from tempering.randomness import stream
from tempering.target.target import cold_density
from tempering.target.whitened import in_coordinates

WHITENING_STREAM = 7
MOST_DIMENSIONS = 2048  # a summit's curvature takes a gradient each, and a move d^2 operations


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
