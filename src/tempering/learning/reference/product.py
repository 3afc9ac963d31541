"""Fit a product of mixtures of single coordinates, some of which follow others, to weighted draws.

Which coordinate follows which is found by what it takes off a coordinate's entropy to know another: its middle by a
square of the other, the log of its width by a line. The rest is a normal mixture for each coordinate, of as many
components as draws that were not fitted to speak for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tempering.learning.reference.from_draws import Split
from tempering.learning.reference.refit import truncated
from tempering.path.factored import Bends, Factored, straightened
from tempering.path.reference import Reference

Floats = NDArray[np.float64]

SIZES = (1, 4)  # components of a coordinate, to choose from; arrays have room for the most
STEPS, MORE_STEPS = 20, 8  # of EM: from a cut of one half of the draws, and with all of them
FIRST_WIDTH = 1.5  # of a component, times the deviation, over their number
FIRST_WIDE = 0.01  # first weight of a wide one
HELD = 2.0  # draws that a component's first width counts for
WIDE = (2.0, 8.0)  # times a coordinate's deviation: components for tails, of which only the weights are fitted
LEAST_WEIGHT = 1e-4  # of one of these
# Share of the draws in which some coordinate that others follow comes from its first wide component: where it goes
# beyond what is known all others are still right, a funnel's neck say.
WIDE_ROOTS = 0.1
LEAST_MASS = 1e-9
DRAWS_OF_A_SEARCH = 1000  # for who follows whom: every pair of coordinates is tried
RELATED = 0.2  # correlation of ranks, below which no other coordinate can be worth as much: 6 errors of none
WORTH_FOLLOWING = 0.1  # nats of a coordinate's entropy
LEVELS = np.linspace(0.01, 0.99, 50)  # quantiles that entropies are worked out from
ENDS = 0.0005  # of a parent's draws lie beyond each end of the range that is seen
BEYOND = (
    0.5  # of that range, to which what is seen in it is carried on at each end: chains may not know a funnel's neck
)
PASSES = 3  # middle and width in turn
SCORINGS = 2  # steps of Fisher's scoring of the width, each time, begun from a regression of logarithms
MOST_SQUARE = 16.0  # of a residual, in units of its width
SURE = 4.0  # standard errors
DRAWS_OF_A_PRODUCT = 2000  # that fit, and that judge


@np.errstate(all="ignore")
def best_product(split: Split, mixture: Reference, least: float = -np.inf) -> Factored | None:
    """Return a product fitted to all draws; None where one fitted to half of them is not good enough.

    That is, where the mean log density of the draws that judge is no more than ``least``, and where draws are so few,
    or so much alike, that there is none.
    """
    split = _some_of(split)
    (values, log_weights), (judging, log_judging) = split.fitting, split.judging
    weights, own = _normalised(log_weights), _normalised(log_judging)
    bends = _bends(values, weights, _parents(values, weights), _ranges(values, weights))
    z = straightened(bends, _follow(bends), values)[0]
    least_wide = _least_wide(bends)
    fits = [_mixtures(z, weights, size, least_wide) for size in SIZES]
    straight, log_volume = straightened(bends, _follow(bends), judging)
    heights = np.array([own @ fit.log_densities(straight) for fit in fits])
    if not heights.max(axis=0).sum() + own @ log_volume > least:
        return None
    found = _joined(fits, np.argmax(heights, axis=0))
    weights = _normalised(split.log_weights)
    bends = _bends(split.values, weights, bends.parents, _ranges(split.values, weights))
    z = straightened(bends, _follow(bends), split.values)[0]
    deviation = found.deviations[:, -1] / WIDE[-1]
    for _ in range(MORE_STEPS):
        found = found.stepped(z, weights, deviation, least_wide)
    parts = np.exp(found.log_weights), found.means, found.deviations
    if not all(np.all(np.isfinite(part)) for part in (*parts, *bends)) or np.any(found.deviations <= 0):
        return None
    return Factored(*parts, bends, mixture)


def _some_of(split: Split) -> Split:
    """Take every so manieth of both halves."""
    rows = np.arange(0, split.half, -(-split.half // DRAWS_OF_A_PRODUCT))
    rows = np.concatenate([rows, split.half + rows])
    return Split(split.values[rows], split.log_weights[rows])


def _least_wide(bends: Bends) -> Floats:
    """Return the least weights of each coordinate's wide components, (component, d)."""
    d = len(bends.parents)
    followed = np.unique(bends.parents[bends.parents != np.arange(d)])
    least = np.full((len(WIDE), d), LEAST_WEIGHT)
    least[0, followed] = WIDE_ROOTS / max(2, len(followed))
    return least


def _normalised(log_weights: Floats) -> Floats:
    weights = truncated(np.exp(log_weights - logsumexp(log_weights)))
    return np.asarray(weights / weights.sum())


class Mixtures(NamedTuple):
    """A normal mixture for every coordinate, all (d, component)."""

    log_weights: Floats
    means: Floats
    deviations: Floats

    def log_densities(self, z: Floats) -> Floats:
        """Return the log density of every coordinate of vectors."""
        return np.asarray(logsumexp(self._log_parts(z), axis=0)).T

    def _log_parts(self, z: Floats) -> Floats:
        """Return log weight times density, (component, d, draw)."""
        off = (z.T - self.means.T[..., None]) / self.deviations.T[..., None]
        return np.asarray(
            (self.log_weights - np.log(self.deviations)).T[..., None] - 0.5 * (off**2 + np.log(2 * np.pi))
        )

    def stepped(self, z: Floats, weights: Floats, deviation: Floats, least_wide: Floats) -> Mixtures:
        """Take a step of EM; variances are held up by that of a component in an even cut. The wide ones come last."""
        size = np.sum(self.log_weights > -np.inf, axis=1) - len(WIDE)
        least = (deviation / size) ** 2
        own = self._log_parts(z)
        own -= own.max(axis=0)
        np.exp(own, out=own)
        own *= weights / own.sum(axis=0)
        masses = np.where(self.log_weights.T > -np.inf, own.sum(axis=-1) + LEAST_MASS, 0.0)
        divisor = np.maximum(masses, LEAST_MASS)
        n_effective = divisor**2 / np.maximum(np.einsum("kdt,kdt->kd", own, own), LEAST_MASS**2)
        means = np.einsum("kdt,td->kd", own, z) / divisor
        squares = np.einsum("kdt,td->kd", own, z**2) / divisor - means**2
        variances = (n_effective * np.maximum(squares, 0.0) + HELD * least) / (n_effective + HELD)
        wide = slice(-len(WIDE), None)
        means[wide], variances[wide] = self.means.T[wide], self.deviations.T[wide] ** 2
        masses[wide] = np.maximum(masses[wide], least_wide * masses.sum(axis=0))
        with np.errstate(divide="ignore"):  # of those that there is only room for
            return Mixtures(np.log(masses / masses.sum(axis=0)).T, means.T, np.sqrt(variances).T)


def _mixtures(z: Floats, weights: Floats, size: int, least_wide: Floats) -> Mixtures:
    """Fit so many components to every coordinate, begun from an even cut of its draws."""
    middle = weights @ z / weights.sum()
    deviation = np.sqrt(np.maximum(weights @ (z - middle) ** 2 / weights.sum(), np.finfo(float).tiny))
    means = _quantiles(z, weights, (np.arange(size) + 0.5) / size).T
    means = np.hstack([means, np.repeat(middle[:, None], len(WIDE), axis=1)])
    widths = np.hstack([np.full(size, FIRST_WIDTH / size), WIDE]) * deviation[:, None]
    shares = np.append(np.full(size, 1.0 / size), np.full(len(WIDE), FIRST_WIDE))
    found = Mixtures(np.tile(np.log(shares / shares.sum()), (z.shape[1], 1)), means, widths)
    for _ in range(STEPS):
        found = found.stepped(z, weights, deviation, least_wide)
    return found


def _joined(fits: list[Mixtures], best: NDArray[np.intp]) -> Mixtures:
    """Return of every coordinate the mixture that is best, with room for the largest."""
    room = SIZES[-1] + len(WIDE)

    def filled(part: Floats, value: float) -> Floats:
        return np.pad(part, ((0, 0), (room - part.shape[1], 0)), constant_values=value)

    parts = [[filled(part, value) for part, value in zip(fit, (-np.inf, 0.0, 1.0), strict=True)] for fit in fits]
    coordinates = np.arange(len(best))
    return Mixtures(*(np.array(each)[best, coordinates] for each in zip(*parts, strict=True)))


def _quantiles(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of weighted draws, (level, coordinate)."""
    order = np.argsort(values, axis=0)
    found = np.empty((len(levels), values.shape[1]))
    for i, rows in enumerate(order.T):
        ends = np.cumsum(weights[rows])
        found[:, i] = np.interp(levels, (ends - 0.5 * weights[rows]) / ends[-1], values[rows, i])
    return found


def _parents(values: Floats, weights: Floats) -> NDArray[np.int64]:
    """Return which coordinate each follows, itself if none: those that take most off the others' entropies, in turn."""
    n, d = values.shape
    even = (np.arange(DRAWS_OF_A_SEARCH) + 0.5) / DRAWS_OF_A_SEARCH
    x = values[np.minimum(np.searchsorted(np.cumsum(weights) / weights.sum(), even), n - 1)]
    equal = np.full(len(x), 1.0 / len(x))
    alone, ranges = _entropies(x), _ranges(x, equal)
    gains = np.zeros((d, d))  # of each row's coordinate by knowing each column's
    for parent in _possible_parents(x):
        bends = _bends(x, equal, np.full(d, parent), ranges)
        z, _ = straightened(bends, _follow(bends), x)
        gains[:, parent] = alone - _entropies(z) - _log_scales(bends, x).mean(axis=0)
    np.fill_diagonal(gains, 0.0)
    gains[gains < WORTH_FOLLOWING] = 0.0
    parents, gained, is_parent = np.arange(d), np.zeros(d), np.zeros(d, dtype=bool)
    while True:
        more = np.maximum(gains - gained[:, None], 0.0)
        more[is_parent] = 0.0
        worth = np.where(is_parent, 0.0, more.sum(axis=0) - gained)
        best = int(np.argmax(worth))
        if worth[best] <= 0.0:
            return parents
        is_parent[best] = True
        parents[best], gained[best] = best, 0.0
        follows = (more[:, best] > 0) & ~is_parent
        parents[follows], gained[follows] = best, gains[follows, best]


def _possible_parents(x: Floats) -> NDArray[np.intp]:
    """Return the coordinates that have to do with another's middle or width, by correlations of ranks."""
    rank = np.argsort(np.argsort(x, axis=0), axis=0) / (len(x) - 1.0) - 0.5
    causes = [_standard(part) for part in (rank, rank**2)]
    effects = [_standard(part) for part in (rank, np.abs(rank))]
    found = np.max([np.abs(cause.T @ effect) / len(x) for cause in causes for effect in effects], axis=0)
    np.fill_diagonal(found, 0.0)
    return np.flatnonzero(found.max(axis=1) > RELATED)


def _standard(part: Floats) -> Floats:
    centred = part - part.mean(axis=0)
    return np.asarray(centred / centred.std(axis=0))


def _log_scales(bends: Bends, x: Floats) -> Floats:
    u = (np.clip(x[:, bends.parents], bends.lowest, bends.highest) - bends.centres) / bends.widths
    return u * bends.log_scales


def _entropies(z: Floats) -> Floats:
    """Return each coordinate's entropy up to a constant, by the gaps between quantiles."""
    gaps = np.diff(np.quantile(z, LEVELS, axis=0), axis=0)
    return np.asarray(np.log(np.maximum(gaps, 1e-12 * gaps.sum(axis=0) + 1e-300)).mean(axis=0))


def _follow(bends: Bends) -> Floats:
    return np.asarray(np.eye(len(bends.parents))[:, bends.parents])


class Ranges(NamedTuple):
    """Where each coordinate's draws lie."""

    lowest: Floats
    centre: Floats
    highest: Floats
    width: Floats  # of their middle half


def _ranges(values: Floats, weights: Floats) -> Ranges:
    low, left, centre, right, high = _quantiles(values, weights, np.array([ENDS, 0.25, 0.5, 0.75, 1 - ENDS]))
    return Ranges(low, centre, high, np.maximum(right - left, 1e-9 * (high - low) + 1e-300))


def _bends(values: Floats, weights: Floats, parents: NDArray[np.int64], ranges: Ranges) -> Bends:
    """Return how every coordinate follows its parent: its middle by squares weighted by its width, and that by logs."""
    low, centre, high, width = ranges
    is_follower = parents != np.arange(len(parents))
    offsets, slopes, curvatures, log_scales = np.zeros((4, len(parents)))
    for parent in np.unique(parents[is_follower]):
        own = np.flatnonzero((parents == parent) & is_follower)
        u = (np.clip(values[:, parent], low[parent], high[parent]) - centre[parent]) / width[parent]
        found = _regression(values[:, own], weights, u)
        offsets[own], slopes[own], curvatures[own], log_scales[own] = found
    at = parents
    more = BEYOND * (high - low)
    return Bends(
        at, centre[at], width[at], (low - more)[at], (high + more)[at], offsets, slopes, curvatures, log_scales
    )


def _regression(y: Floats, weights: Floats, u: Floats) -> Floats:
    """Return offset, slope and curvature of the middles of all columns, and the slope of the log of their widths.

    What chance may be is left out: carried on into a narrow place it would lead past it.
    """
    features = np.stack([np.ones_like(u), u, u**2], axis=1)
    products = features[:, :, None] * features[:, None, :]
    line = features[:, :2]
    curvature = line.T @ (weights[:, None] * line)
    n_effective = 1.0 / np.sum(weights**2)
    middle = np.zeros((3, y.shape[1]))
    middle[0] = _quantiles(y, weights, np.array([0.5]))[0]
    root = np.sqrt(weights)[:, None]
    for _ in range(PASSES):
        off = np.abs(y - features @ middle)
        least = 1e-6 * off.mean(axis=0) + 1e-300
        log_width = np.linalg.lstsq(root * line, root * np.log(off + least), rcond=None)[0]
        for _ in range(SCORINGS):
            excess = np.minimum((off * np.exp(-line @ log_width)) ** 2, MOST_SQUARE) - 1.0
            log_width += 0.5 * np.linalg.solve(curvature, line.T @ (weights[:, None] * excess))
        error = np.sqrt(0.5 * np.linalg.inv(curvature)[1, 1] / n_effective)
        log_width[1, np.abs(log_width[1]) < SURE * error] = 0.0
        own = n_effective * weights[:, None] * np.exp(-2.0 * line @ log_width)
        left = np.einsum("tab,td->dab", products, own, optimize=True)
        right = np.einsum("ta,td->da", features, own * y, optimize=True)
        middle = _sure(left, right)
    return np.stack([*middle, log_width[1]])


def _sure(left: Floats, right: Floats) -> Floats:
    """Return the coefficients of each column, of the highest degree that is no chance, (coefficient, column)."""
    found = np.zeros(right.shape)
    unsure = np.arange(len(right))
    for degree in range(right.shape[1] - 1, -1, -1):
        some = slice(0, degree + 1)
        inverse = np.linalg.pinv(left[unsure, some, some])
        fitted = (inverse @ right[unsure, some, np.newaxis])[..., 0]
        is_sure = (np.abs(fitted[:, -1]) > SURE * np.sqrt(inverse[:, -1, -1])) | (degree == 0)
        found[unsure[is_sure], some] = fitted[is_sure]
        unsure = unsure[~is_sure]
    return found.T
