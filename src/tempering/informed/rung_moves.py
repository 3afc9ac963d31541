"""One iteration of an informed chain under simulated and under parallel tempering."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tempering.arrays import Floats
from tempering.informed.mover import Mover, Point
from tempering.randomness import accept
from tempering.rungs.simulated import move_lifted, move_to_neighbour

RungMove = Callable[..., tuple[int, int, int]]
RUNG_MOVES: dict[str, RungMove] = {"lifted": move_lifted, "neighbour": move_to_neighbour}


class Jumper(NamedTuple):
    """A chain of simulated tempering."""

    point: Point
    rung: int
    direction: int


def step_simulated(
    rng: np.random.Generator,
    mover: Mover,
    walker: Jumper,
    k: Floats,
    log_pseudo_prior: Floats,
    move_rung: RungMove,
) -> Jumper:
    """Jump, then try to change the rung.

    The law of (x, rung) is p_i pi_i(x) Z_i(x): to a rung move log Z_i(x) is a part of the pseudo-prior.
    """
    state, hint = mover.leave(rng, walker.point, walker.rung)
    point = mover.arrive(rng, state, hint)
    terms, coefficients = np.array([point.energy]), k[:, np.newaxis]
    rung, direction, _ = move_rung(
        rng, walker.rung, walker.direction, terms, coefficients, log_pseudo_prior + point.log_totals
    )
    return Jumper(point, rung, direction)


def step_parallel(
    rng: np.random.Generator, mover: Mover, points: list[Point], k: Floats, first: int
) -> tuple[list[Point], list[bool]]:
    """Jump at every rung, then try to exchange the pairs (first, first + 1), (first + 2, first + 3), ...

    ``points[i]`` sits on rung i. Even and odd pairs in turn (first = 0, 1, 0, ...) is the non-reversible scheme.
    On a bipartite graph, flips of binary coordinates say, replicas that all jump keep their parities relative to each
    other. Every rung's own law is right even so: each side has half of pi_i Z_i.
    """
    moved = []
    for rung, point in enumerate(points):
        state, hint = mover.leave(rng, point, rung)
        moved.append(mover.arrive(rng, state, hint))
    accepted = []
    for lower in range(first, len(moved) - 1, 2):
        accepted.append(accept(rng, log_swap_ratio(moved[lower], moved[lower + 1], lower, k)))
        if accepted[-1]:
            moved[lower], moved[lower + 1] = moved[lower + 1], moved[lower]
    return moved, accepted


def log_swap_ratio(cold: Point, hot: Point, lower: int, k: Floats) -> float:
    """Return the log of pi_i Z_i(y) pi_j Z_j(x) / pi_i Z_i(x) pi_j Z_j(y) for x on rung i = lower and y on i + 1."""
    gap = k[lower] - k[lower + 1]
    at_cold = gap * cold.energy + cold.log_totals[lower] - cold.log_totals[lower + 1]
    at_hot = gap * hot.energy + hot.log_totals[lower] - hot.log_totals[lower + 1]
    return float(at_hot - at_cold)
