"""Where the surfaces of neighbouring leaves are one: seams, parts of cuts across which the data say that it goes on.

Given the tree leaves are independent, and what is known beyond a cut is lost to this side of it. Trees cut smooth
surfaces too, where these change their character, and there the loss is for nothing. So predictions join two leaves that
touch at a cut if there is evidence that their surfaces agree: differences at points of the cut are jointly normal, and
their density at 0 after the data over that before is the Bayes factor of a surface that is continuous there (Savage and
Dickey). Joined leaves are conditioned on a difference of 0, as in patchwork kriging (Park & Apley 2018),
which joins all. The chains know nothing of it: trees have the probabilities of leaves that are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtrs

from tempering.arrays import Floats
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.prediction import surface_in_leaf
from tempering.models.treed_gp.records import load_record

if TYPE_CHECKING:
    from tempering.models.treed_gp.model import TreedGPModel

Ints = NDArray[np.int64]

ENOUGH_EVIDENCE = 2.0  # log Bayes factor: with 0 noisy data are joined that should not be, and predicted 1 % worse
MOST_POINTS = 10  # of one seam: 20 changed nothing in one or two inputs, 5 were a little worse
SLACK = 1e-8  # of the variance before the data: differences are 0 to within rounding
MOST_KNOWN = 1000  # trees whose seams a model remembers


@dataclass(frozen=True)
class Boxes:
    """The leaves of a tree as rectangles; those at the edge have no end there."""

    nodes: Ints
    low: Floats
    high: Floats

    def holding(self, points: Floats) -> Ints:
        """Return the number of the leaf that each point lies in."""
        inside = (points[:, None] > self.low) & (points[:, None] <= self.high)
        return np.asarray(np.argmax(inside.all(axis=2), axis=1))


def boxes_of(state: State) -> Boxes:
    """Return the leaves of the tree in a state."""
    leaves: list[tuple[int, Floats, Floats]] = []

    def visit(node: int, low: Floats, high: Floats) -> None:
        if state.tree[node, layout.LEFT] < 0:
            leaves.append((node, low, high))
            return
        column, cut = state.tree[node, layout.VARIABLE], state.tree[node, layout.CUT]
        before, after = state.cuts[column, cut : cut + 2]
        nearer, further = high.copy(), low.copy()
        nearer[column] = further[column] = before + state.leaf[node, layout.PLACE] * (after - before)
        visit(int(state.tree[node, layout.LEFT]), low, nearer)
        visit(int(state.tree[node, layout.RIGHT]), further, high)

    n_columns = state.x.shape[1]
    visit(int(state.meta[layout.ROOT]), np.full(n_columns, -np.inf), np.full(n_columns, np.inf))
    nodes, low, high = zip(*leaves, strict=True)
    return Boxes(np.array(nodes, np.int64), np.stack(low), np.stack(high))


@dataclass(frozen=True)
class Seams:
    """The seams of one tree, and what leaves that are one there say of each other."""

    boxes: Boxes
    points: Floats
    pairs: Ints
    """The two leaves that meet at each point, numbers of `boxes`."""
    factor: Floats
    """L, the covariance of the differences being L L'."""
    gap: Floats
    """L^{-1} times the expected differences."""

    def reduce(self, state: State, points: Floats) -> Floats:
        """Return L^{-1} C, C the covariance of the differences with the surface at points; the tree is in the state.

        The surface's mean falls by its product with `gap`, its covariance by its product with itself.
        """
        home, covariance = self.boxes.holding(points), np.zeros((len(self.points), len(points)))
        for leaf, mine, sign in _by_leaf(self.pairs):
            here = (home == leaf).nonzero()[0]
            if here.size:
                found = surface_of(state, int(self.boxes.nodes[leaf]), points[here], self.points[mine])[1]
                covariance[mine[:, None], here] = sign[:, None] * found.T
        return np.asarray(solve_triangular(self.factor, covariance, lower=True, check_finite=False))


def seams_of(model: TreedGPModel, state: State, row: Floats) -> Seams | None:
    """Load a recorded tree into the state, and return its seams; None if there is none."""
    load_record(state, row)
    cannot = model.is_large or model.has_classes or state.integer[layout.COEFFICIENTS] == layout.FLAT
    if cannot or state.meta[layout.N_LEAVES] == 1:
        return None
    known, key = model.known_seams, row.tobytes()
    try:
        return known[key]
    except KeyError:
        found = _found(state)
    if len(known) >= MOST_KNOWN:  # other threads may be looking: nothing is read again after this
        known.clear()
    known[key] = found
    return found


def _found(state: State) -> Seams | None:
    """Join leaves that touch, the most evident first, while the evidence of all grows by enough."""
    boxes = boxes_of(state)
    places = list(_touching(state, boxes))
    if not places:
        return None
    sizes = [len(points) for _, points in places]
    points = np.concatenate([points for _, points in places])
    pairs = np.repeat([pair for pair, _ in places], sizes, axis=0)
    seams = np.split(np.arange(len(points)), np.cumsum(sizes)[:-1])
    differences = _Differences(state, boxes, points, pairs)
    alone = np.array([differences.evidence(seam) for seam in seams])
    first, *others = alone.argsort()[::-1]
    joined, total = seams[first], alone[first]
    if total <= ENOUGH_EVIDENCE:
        return None
    for number in others:
        more = np.concatenate([joined, seams[number]])
        evidence = differences.evidence(more)
        if evidence > total + ENOUGH_EVIDENCE:
            joined, total = more, evidence
    factor = np.asarray(np.linalg.cholesky(differences.covariance[joined[:, None], joined]), np.float64)
    gap = solve_triangular(factor, differences.mean[joined], lower=True)
    return Seams(boxes, points[joined], pairs[joined], factor, gap)


def _touching(state: State, boxes: Boxes) -> Iterator[tuple[tuple[int, int], Floats]]:
    """Yield leaves that meet at a cut of an input of the process, with points there."""
    for column in range(state.integer[layout.N_BASE]):
        others = np.arange(state.x.shape[1]) != column
        for first, second in np.argwhere(np.equal.outer(boxes.high[:, column], boxes.low[:, column])):
            low = np.maximum(boxes.low[first], boxes.low[second])[others]
            high = np.minimum(boxes.high[first], boxes.high[second])[others]
            inputs = np.concatenate([_inputs(state, boxes.nodes[leaf]) for leaf in (first, second)])
            between = (inputs[:, others] >= low) & (inputs[:, others] <= high)  # none where they lie apart
            points = _spread(inputs[between.all(axis=1)], column, boxes.high[first, column])
            if len(points):
                yield (first, second), points


def _inputs(state: State, node: int) -> Floats:
    return state.x[state.order[state.tree[node, layout.START] : state.tree[node, layout.END]]]


def _spread(inputs: Floats, column: int, place: float) -> Floats:
    """Return projections of inputs onto a cut: that of the nearest, then each the farthest from those before."""
    if not len(inputs):
        return inputs
    points, chosen = inputs.copy(), [int(np.abs(inputs[:, column] - place).argmin())]
    points[:, column] = place
    away = np.full(len(points), np.inf)
    while len(chosen) < MOST_POINTS:
        gap = points - points[chosen[-1]]
        np.minimum(away, np.einsum("ij,ij->i", gap, gap), out=away)
        farthest = int(away.argmax())
        if away[farthest] < 1e-6:
            break
        chosen.append(farthest)
    return points[chosen]


def surface_of(state: State, node: int, points: Floats, others: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, covariance and correlation before the data of one leaf's surface, over the tree in the state."""
    means = np.empty(len(points))
    covariance, correlation = np.empty((2, len(points), len(others)))
    points, others = np.ascontiguousarray(points), np.ascontiguousarray(others)
    surface_in_leaf(state, node, points, others, means, covariance, correlation)
    return means, covariance, correlation


def _by_leaf(pairs: Ints) -> Iterator[tuple[int, Ints, Floats]]:
    """Yield every leaf that has points of a seam, which these are, and its signs there: 1 as the first of a pair."""
    for leaf in range(int(pairs.max()) + 1):
        is_first = pairs[:, 0] == leaf
        mine = (is_first | (pairs[:, 1] == leaf)).nonzero()[0]
        if mine.size:
            yield leaf, mine, np.where(is_first[mine], 1.0, -1.0)


class _Differences:
    """Means and covariances of the differences of two leaves' surfaces at points, after the data and before."""

    def __init__(self, state: State, boxes: Boxes, points: Floats, pairs: Ints) -> None:
        n = len(points)
        self.mean, self.covariance = np.zeros(n), np.zeros((n, n))
        self.prior_mean, self.prior_covariance = np.zeros(n), np.zeros((n, n))
        plane = _Plane(state)
        for leaf, mine, sign in _by_leaf(pairs):
            node, at, signs = int(boxes.nodes[leaf]), (mine[:, None], mine), sign[:, None] * sign
            mean, covariance, correlation = surface_of(state, node, points[mine], points[mine])
            centre, variance = plane.prior(node, points[mine])
            self.mean[mine] += sign * mean
            self.prior_mean[mine] += sign * centre
            self.covariance[at] += signs * covariance
            self.prior_covariance[at] += signs * (state.leaf[node, layout.SIGMA2] * correlation + variance)
        slack = SLACK * self.prior_covariance.diagonal()
        self.covariance.ravel()[:: n + 1] += slack
        self.prior_covariance.ravel()[:: n + 1] += slack

    def evidence(self, chosen: Ints) -> float:
        """Return the log Bayes factor of differences that are 0 at the points chosen."""
        at = chosen[:, None], chosen
        after = _log_density_at_0(self.mean[chosen], self.covariance[at])
        return after - _log_density_at_0(self.prior_mean[chosen], self.prior_covariance[at])


class _Plane:
    """What is believed of the leaves' planes before the data."""

    def __init__(self, state: State) -> None:
        self._state, self._m = state, int(state.integer[layout.N_MEAN])
        m = self._m
        self._centre, precision = np.split(state.shared[layout.BETA0 : layout.BETA0 + m + m * m], [m])
        self._scale = np.linalg.inv(precision.reshape(m, m))

    def prior(self, node: int, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of a leaf's plane at points."""
        state, m, n_ranges = self._state, self._m, int(self._state.integer[layout.N_RANGES])
        parts = state.leaf[node, layout.RANGES + 2 * n_ranges :]
        regressors = np.ones((len(points), m))
        regressors[:, 1:] = points[:, : m - 1]
        regressors *= parts[:m]
        around_own = state.integer[layout.COEFFICIENTS] == layout.AROUND_LEAST_SQUARES
        centre = parts[2 * m : 3 * m] if around_own else self._centre
        spread = state.leaf[node, layout.SIGMA2] * state.leaf[node, layout.TAU2]
        return regressors @ centre, spread * (regressors @ self._scale @ regressors.T)


def _log_density_at_0(mean: Floats, covariance: Floats) -> float:
    """Return the log density of a normal at 0, but for the constant; minus infinity where there is no factor.

    LAPACK is called by itself: for a few points NumPy's and SciPy's own take five times as long.
    """
    factor, failed = dpotrf(covariance, lower=1, clean=0)
    if failed:
        return -np.inf
    whitened, _ = dtrtrs(factor, mean, lower=1)
    return float(-0.5 * whitened @ whitened - np.log(factor.diagonal()).sum())
