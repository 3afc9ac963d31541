"""Change points of a sequence: a neighbourhood that adds, removes or shifts one of them.

Segments have a mean each, normal around the sequence's, and a common noise variance that is known: the marginal
likelihood of a segment is closed, and all neighbours come from cumulative sums at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.informed.neighbourhood import Moves

Cuts = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ChangePoints:
    """Where the mean of a sequence changes; a neighbourhood for `sample_informed`.

    Parameters
    ----------
    values : array_like, shape (n,)
    noise : float
        Standard deviation within a segment.
    spread : float
        Prior standard deviation of a segment's mean, in units of the noise.
    probability : float
        Prior probability of a change at each place.

    Examples
    --------
    >>> from tempering.informed import sample_informed
    >>> rng = np.random.default_rng(1)
    >>> y = np.repeat([0.0, 3.0, 1.0], 20) + rng.standard_normal(60)
    >>> run = sample_informed(ChangePoints(y, noise=1.0), balancing="sum", draws=2000, rng=1)
    >>> changes = run.expect()
    >>> (np.argsort(-changes.value)[:2] + 1).tolist()
    [20, 40]
    """

    values: Floats
    noise: float = 1.0
    spread: float = 3.0
    probability: float = 0.02

    def __post_init__(self) -> None:
        y = np.array(self.values, dtype=np.float64)
        if y.ndim != 1 or y.size < 2 or not np.isfinite(y).all():
            raise InputError(
                f"values must be a sequence of at least two finite numbers, but the shape is {y.shape}. Drop gaps."
            )
        if not (self.noise > 0 and self.spread > 0 and 0 < self.probability < 1):
            raise InputError(
                f"noise and spread must be positive and probability lie in (0, 1), but got {self.noise}, "
                f"{self.spread} and "
                f"{self.probability}. Leave them out for the defaults."
            )
        object.__setattr__(self, "values", y)

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        z = (self.values - self.values.mean()) / self.noise
        return np.concatenate([[0.0], np.cumsum(z)]), np.concatenate([[0.0], np.cumsum(z**2)])

    def log_segment(self, start: NDArray[np.intp] | int, end: NDArray[np.intp] | int) -> Floats:
        """Return the log marginal likelihood of values[start:end] as one segment, up to a constant per value."""
        first, second = self._sums
        n = np.asarray(end) - np.asarray(start)
        total, squares = first[end] - first[start], second[end] - second[start]
        v = self.spread**2
        return np.asarray(-0.5 * squares + 0.5 * v * total**2 / (1 + n * v) - 0.5 * np.log1p(n * v))

    def initial(self, rng: np.random.Generator) -> Cuts:
        """Start without any change."""
        return ()

    def terms(self, state: Cuts) -> tuple[float, float]:
        """Return log marginal likelihood and log prior of a segmentation."""
        ends = np.array([0, *state, len(self.values)])
        odds = np.log(self.probability) - np.log1p(-self.probability)
        return float(self.log_segment(ends[:-1], ends[1:]).sum()), len(state) * float(odds)

    def neighbours(self, state: Cuts) -> Moves:
        """Flip each of the n - 1 places: a change added where there is none, removed where there is one."""
        n = len(self.values)
        ends = np.array([0, *state, n])
        place = np.arange(1, n)
        is_cut = np.zeros(n + 1, dtype=bool)
        is_cut[list(state)] = True
        is_cut = is_cut[1:n]
        left = ends[np.searchsorted(ends, place, side="left") - 1]
        right = ends[np.searchsorted(ends, place, side="right")]
        gain = self.log_segment(left, place) + self.log_segment(place, right) - self.log_segment(left, right)
        odds = np.log(self.probability) - np.log1p(-self.probability)
        sign = np.where(is_cut, -1.0, 1.0)
        return Moves(sign * gain, sign * odds)

    def move(self, state: Cuts, index: int) -> Cuts:
        """Flip one place."""
        return tuple(sorted(set(state) ^ {index + 1}))

    def way_back(self, state: Cuts, index: int) -> int:
        """The same flip leads back."""
        return index

    def record(self, state: Cuts) -> Floats:
        """Keep P(change at a place | the others) for all places, shape (n - 1,)."""
        moves = self.neighbours(state)
        towards = moves.energy + moves.base
        is_cut = np.zeros(len(towards), dtype=bool)
        is_cut[np.array(state, dtype=np.intp) - 1] = True
        return np.asarray(1.0 / (1.0 + np.exp(np.clip(np.where(is_cut, towards, -towards), -700, 700))))

    def exact(self) -> tuple[Floats, float]:
        """Return the exact probabilities of changes and the log evidence, by forward and backward sums in O(n^2)."""
        n = len(self.values)
        log_p, log_q = np.log(self.probability), np.log1p(-self.probability)
        forward, backward = np.full(n + 1, -np.inf), np.full(n + 1, -np.inf)
        forward[0] = backward[n] = 0.0
        for t in range(1, n + 1):
            s = np.arange(t)
            between = self.log_segment(s, t) + (t - s - 1) * log_q + np.where(s > 0, log_p, 0.0)
            forward[t] = np.logaddexp.reduce(forward[s] + between)
        for t in range(n - 1, -1, -1):
            s = np.arange(t + 1, n + 1)
            between = self.log_segment(t, s) + (s - t - 1) * log_q + np.where(s < n, log_p, 0.0)
            backward[t] = np.logaddexp.reduce(backward[s] + between)
        inner = np.arange(1, n)
        return np.exp(forward[inner] + backward[inner] + log_p - forward[n]), float(forward[n])
