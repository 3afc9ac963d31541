"""Climb a differentiable surface from many points at once, each step one evaluation of all that are still on their way.

Climbing one by one costs a call from Python for each point and step: on a sensor network it took a third of a run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.learning.reference.surface import Surface

ASCENT = 60  # steps of a rough climb; what has not arrived is climbed properly
FASTER, SLOWER = 1.3, 0.5  # factors of a step whose slope kept its sign, or changed it
REMEMBERED = 10  # steps from which L-BFGS knows the curvature
TOGETHER = 1 / 8  # of the calls that a search may take
ENOUGH_GAIN = 1e-4  # of what the slope promises (Nocedal & Wright 2006, 3.4): else a step is too long
SHORTER = 0.3  # then, so much of it is tried
SHORTEST = 1e-12  # of a step in full: nothing more can be gained along it
FLAT = 1e-6  # slopes at a summit


def ascend(surface: Surface, points: Floats, step: Floats) -> Floats:
    """Climb roughly: by each slope's sign alone, in steps that grow or shrink; points off the support are left out.

    Starting with small steps, a climb stays in the basin it began in (Riedmiller and Braun's resilient steps).
    """
    heights, slopes = surface.values_and_gradients(points)
    x, slopes = points[heights > -np.inf], slopes[heights > -np.inf]
    steps, last = np.broadcast_to(step, x.shape), np.zeros_like(x)
    for _ in range(ASCENT if len(x) else 0):
        sign = np.sign(slopes)
        steps = steps * np.where(sign * last < 0, SLOWER, np.where(sign * last > 0, FASTER, 1.0))
        proposed = x + steps * sign
        heights, ahead = surface.values_and_gradients(proposed)
        inside = (heights > -np.inf)[:, None]
        x, slopes = np.where(inside, proposed, x), np.where(inside, ahead, slopes)
        steps, last = np.where(inside, steps, SLOWER * steps), sign
    return x


def climb_together(surface: Surface, starts: Floats, tolerance: float, most_steps: int) -> tuple[Floats, Floats]:
    """Return the summits above starts on the support, and their heights, by L-BFGS (Nocedal & Wright 2006, 7.2).

    A climb ends where a step gains less than ``tolerance`` of the height, or where it is flat. All of them end when
    they have taken their share of the calls: what is left of these is for what they have led to.
    """
    x = np.array(starts, dtype=float)
    heights, slopes = surface.values_and_gradients(x)
    going = (heights > -np.inf) & (np.max(np.abs(slopes), axis=1, initial=0.0) > FLAT)
    memory = _Memory(x.shape)
    ways = slopes / np.maximum(np.linalg.norm(slopes, axis=1), 1.0)[:, None]  # the first step is no longer than 1
    shares = np.ones(len(x))
    most_calls = surface.n_calls + surface.affordable(len(x) * most_steps, TOGETHER)
    for _ in range(most_steps):
        now = np.flatnonzero(going)
        if now.size == 0 or surface.n_calls > most_calls:
            break
        there = x[now] + shares[now, None] * ways[now]
        found, ahead = surface.values_and_gradients(there)
        gains = found - heights[now]
        enough = gains >= ENOUGH_GAIN * shares[now] * np.sum(slopes[now] * ways[now], axis=1)
        shares[now] *= np.where(enough, 1.0, SHORTER)
        going[now[~enough]] = shares[now[~enough]] > SHORTEST
        up = now[enough]
        if up.size == 0:
            continue
        memory.add(up, there[enough] - x[up], slopes[up] - ahead[enough])
        least = tolerance * np.maximum(np.maximum(np.abs(heights[up]), np.abs(found[enough])), 1.0)
        x[up], heights[up], slopes[up], shares[up] = there[enough], found[enough], ahead[enough], 1.0
        going[up] = (gains[enough] > least) & (np.max(np.abs(slopes[up]), axis=1) > FLAT)
        ways[up] = memory.way_up(up, slopes[up])
    return x, heights


class _Memory:
    """The last steps of every climb, and how much the slope fell along each."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._steps, self._falls = (np.zeros((REMEMBERED, *shape)) for _ in range(2))
        self._weights = np.zeros((REMEMBERED, shape[0]))  # 1 / (step . fall); 0: nothing is known
        self._scale = np.ones(shape[0])

    def add(self, which: NDArray[np.intp], steps: Floats, falls: Floats) -> None:
        """Remember the steps of some climbs, where the surface bent down along them."""
        bend = np.sum(steps * falls, axis=1)
        is_bent = bend > 1e-12 * np.sum(falls**2, axis=1)
        which, steps, falls, bend = which[is_bent], steps[is_bent], falls[is_bent], bend[is_bent]
        for kept, new in ((self._steps, steps), (self._falls, falls), (self._weights, 1.0 / bend)):
            kept[:-1, which] = kept[1:, which]
            kept[-1, which] = new
        self._scale[which] = bend / np.sum(falls**2, axis=1)

    def way_up(self, which: NDArray[np.intp], slopes: Floats) -> Floats:
        """Return Newton's way, as far as the steps know the curvature."""
        steps, falls, weights = (part[:, which] for part in (self._steps, self._falls, self._weights))
        way = slopes.copy()
        shares = np.zeros((REMEMBERED, len(which)))
        for i in reversed(range(REMEMBERED)):
            shares[i] = weights[i] * np.sum(steps[i] * way, axis=1)
            way -= shares[i][:, None] * falls[i]
        way *= self._scale[which][:, None]
        for i in range(REMEMBERED):
            way += (shares[i] - weights[i] * np.sum(falls[i] * way, axis=1))[:, None] * steps[i]
        return way
