"""The modes of a density: where they are, how wide, and roughly how heavy.

Modes are found by climbing from given points. Nothing finds a mode that no given point climbs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from tempering.arrays import Floats
from tempering.learning.reference.climbing import climb_together
from tempering.learning.reference.surface import Surface

Box = tuple[Floats, Floats]

SAME_MODE = 0.5  # standard deviations: nearer than this, two summits are one
NO_DIP = 0.1  # nats: a path without a deeper dip joins two ends of one mode
UNEXPLAINED = 2.0  # nats: so much higher than expected, a point may belong to a mode not yet known
POINTS_ON_PATH = 31
FIRST_STRETCH = 0.1  # of the way to a mode: does it begin downhill?
OFF_SUPPORT = 1e10  # nats below the start: turns a line search back, and its arithmetic stays finite
MAX_CLIMB = 300  # iterations: what has not arrived by then is a ridge, not a summit
AT_SUMMIT, NEAR_SUMMIT = 1e-13, 1e-6  # relative gain of a step, at which a climb ends; most lead to known modes
PROBES = 30  # rounds of the search for the distance at which the log density has dropped by 1/2


@dataclass(frozen=True, eq=False)
class Mode:
    """A summit, its height log pi, and a Cholesky factor of its local covariance."""

    position: Floats
    log_height: float
    factor: Floats

    @property
    def log_mass(self) -> float:
        """Laplace's approximation of the log of the integral over the mode."""
        d = len(self.position)
        return float(self.log_height + 0.5 * d * np.log(2 * np.pi) + np.log(np.diagonal(self.factor)).sum())

    def distance(self, x: Floats) -> float:
        """Return the Mahalanobis distance of a point."""
        return float(np.linalg.norm(self._inverse_factor @ (x - self.position)))

    @cached_property
    def _inverse_factor(self) -> Floats:
        """The inverse of the factor: a search asks for thousands of distances."""
        return np.asarray(np.linalg.inv(self.factor))


def find_modes(
    surface: Surface, points: Iterable[Floats], box: Box | None = None, known: tuple[Mode, ...] = ()
) -> tuple[Mode, ...]:
    """Climb from every point and return the separate modes, those known already first.

    Parameters
    ----------
    surface : Surface
    points : iterable of ndarray, shape (d,)
        Points outside the support, and those next to a known summit, are passed over.
    box : pair of ndarray, shape (d,), optional
        Lower and upper ends, which no climb leaves.
    known : tuple of Mode
        Modes found before.
    """
    modes = list(known)
    places = np.array([point for point in points if not any(mode.distance(point) < SAME_MODE for mode in modes)])
    for near, height in _nearly_climbed(surface, places, box):
        if height == -np.inf or surface.is_exhausted or _is_known(surface, modes, near, height):
            continue
        summit, height = climb(surface, near, box)
        if not _is_known(surface, modes, summit, height):
            factor = local_factor(surface, summit, height)
            if np.all(np.diagonal(factor) > 0) and np.all(np.isfinite(factor)):  # not a point, nor a cliff's edge
                modes.append(Mode(summit, height, factor))
    return tuple(modes)


def _nearly_climbed(surface: Surface, points: Floats, box: Box | None) -> Iterator[tuple[Floats, float]]:
    """Climb from all points to next to their summits: together, where there are gradients and no box."""
    if len(points) > 1 and box is None and surface.is_differentiable:
        yield from zip(*climb_together(surface, points, NEAR_SUMMIT, MAX_CLIMB), strict=True)
        return
    for point in points:
        if not surface.is_exhausted:
            yield climb(surface, point, box, NEAR_SUMMIT)


def _is_known(surface: Surface, modes: Sequence[Mode], summit: Floats, log_height: float) -> bool:
    """Whether a summit, or a place next to it, belongs to a known mode."""
    nearest = sorted((mode.distance(summit), i) for i, mode in enumerate(modes))
    if nearest and nearest[0][0] < SAME_MODE:
        return True
    return any(is_joined(surface, modes[i], summit, log_height) for _, i in nearest)


def climb(surface: Surface, start: Floats, box: Box | None, tolerance: float = AT_SUMMIT) -> tuple[Floats, float]:
    """Return the summit above a start and its height, by L-BFGS-B; -inf when the start is off the support."""
    height = surface.value(start)
    if height == -np.inf:
        return start, height

    def depth(x: Floats) -> float:
        value = surface.value(x)
        return height - value if value > -np.inf else OFF_SUPPORT

    def depth_and_gradient(x: Floats) -> tuple[float, Floats]:
        value, gradient = surface.value_and_gradient(x)
        return (height - value, -gradient) if value > -np.inf else (OFF_SUPPORT, np.zeros_like(x))

    how: Any = {
        "method": "L-BFGS-B",
        "bounds": None if box is None else list(zip(*box, strict=True)),
        "options": {"maxiter": MAX_CLIMB, "ftol": tolerance, "gtol": 1e-6},
    }
    if surface.is_differentiable:
        found = minimize(depth_and_gradient, start, jac=True, **how)
    else:
        found = minimize(depth, start, **how)
    return (found.x, height - float(found.fun)) if found.fun < 0 else (start, height)


def is_joined(surface: Surface, mode: Mode, summit: Floats, log_height: float) -> bool:
    """Whether a straight path without a dip joins a summit to a known mode: then it is no mode of its own."""
    share = np.linspace(0.0, 1.0, POINTS_ON_PATH + 2)[1:-1, None]
    between = surface.values(share * mode.position + (1.0 - share) * summit)
    return bool(between.min() > min(mode.log_height, log_height) - NO_DIP)


def is_parted(surface: Surface, modes: Sequence[Mode], points: Floats, log_heights: Floats) -> NDArray[np.bool_]:
    """Whether the way from each point to its nearest mode begins downhill: a valley may lie between."""
    distance = np.stack([np.linalg.norm(np.linalg.solve(m.factor, (points - m.position).T), axis=0) for m in modes])
    nearest = np.stack([mode.position for mode in modes])[np.argmin(distance, axis=0)]
    ahead = surface.values(points + FIRST_STRETCH * (nearest - points))
    return np.asarray((ahead < log_heights - NO_DIP) & (log_heights > -np.inf))


def is_unexplained(modes: Sequence[Mode], points: Floats, log_heights: Floats) -> NDArray[np.bool_]:
    """Whether points are higher than they would be if the modes were Gaussian and there were no others."""
    falls = [0.5 * np.sum(np.linalg.solve(m.factor, (points - m.position).T) ** 2, axis=0) for m in modes]
    explained = np.logaddexp.reduce([m.log_height - fall for m, fall in zip(modes, falls, strict=True)], axis=0)
    return np.asarray(log_heights > explained + UNEXPLAINED)


def local_factor(surface: Surface, summit: Floats, log_height: float) -> Floats:
    """Return a Cholesky factor of the local covariance: axes from the Hessian, lengths from the surface.

    A Gaussian drops by 1/2 at one standard deviation; so its lengths are the Hessian's. Where the Hessian
    says nothing (a cusp, an edge, a plateau) the measured lengths still do.
    """
    coordinates = np.eye(len(summit))
    scale = np.ones(len(summit))
    if not surface.is_differentiable:  # differences need a length to be taken over
        scale = _lengths(surface, summit, log_height, coordinates, np.ones(len(summit)))
    precision = -surface.hessian(summit, scale)
    if np.all(np.isfinite(precision)):
        curvature, axes = np.linalg.eigh(0.5 * (precision + precision.T))
    else:
        curvature, axes = 1.0 / scale**2, coordinates
    lengths = _lengths(surface, summit, log_height, axes.T, curvature)
    # QR of the root gives the Cholesky factor without squaring its condition number
    triangle = np.asarray(np.linalg.qr((axes * lengths).T, mode="r")).T
    return np.asarray(triangle * np.sign(np.diagonal(triangle)))


def _lengths(surface: Surface, summit: Floats, log_height: float, directions: Floats, curvature: Floats) -> Floats:
    """Return how far along each direction, both ways averaged, the log density has dropped by 1/2."""
    d = len(summit)
    least = 1e-12 * max(float(curvature.max()), 1e-300)
    start = np.where(curvature > least, 1.0 / np.sqrt(np.maximum(curvature, least)), 1.0)
    both = np.concatenate([directions, -directions])
    length = np.tile(start, 2)
    open_ = np.ones(2 * d, dtype=bool)
    for _ in range(PROBES):
        drop = log_height - surface.values(summit + length[open_, None] * both[open_])
        factor = np.sqrt(0.5 / np.clip(drop, 0.5e-2, 0.5e2))  # exact for a parabola; at most tenfold
        length[open_] *= factor
        open_[open_] = np.abs(np.log(factor)) > 0.1
        if not open_.any():
            break
    return np.asarray(np.sqrt(0.5 * (length[:d] ** 2 + length[d:] ** 2)))
