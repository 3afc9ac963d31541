"""A tree to start from where one leaf cannot hold all data: cut at steps of the response, else at medians.

A chain of hundreds of leaves moves few of its cuts in the rounds it has: where the response steps, it must begin there.
A step is where two lines explain more than a cubic, of as many coefficients, over the quarter of the rows around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.training import TrainingData

Ints = NDArray[np.int64]

LEAF = (-1, -1)
N_PARTS = 4  # of the rows, in each of which a step is looked for
ROUNDING = 1e-12  # of the squares


@dataclass(frozen=True)
class StartingTree:
    """Cuts one node after the other until no leaf is too large, or there are as many leaves as there may be."""

    data: TrainingData
    integer: Ints

    def rules(self) -> list[tuple[int, int]]:
        """Return column and cut of each node in pre-order, (-1, -1) for a leaf."""
        found, waiting = [], [np.arange(len(self.data.x))]
        n_leaves, most = 1, int(self.integer[layout.MAX_LEAVES])
        while waiting:
            rows = waiting.pop()
            is_small = rows.size <= self.integer[layout.MAX_ROWS] or n_leaves >= most
            rule = LEAF if is_small else self.best_rule(rows)
            found.append(rule)
            if rule != LEAF:
                goes_left = self._goes_left(rows, rule)
                waiting += [rows[~goes_left], rows[goes_left]]
                n_leaves += 1
        return found

    def best_rule(self, rows: Ints) -> tuple[int, int]:
        """Return the rule at the largest step; where there is none, at the middle of the widest column."""
        first = int(self.integer[layout.FIRST_SPLIT])
        columns = [j for j in range(first, self.data.rank.shape[1]) if np.ptp(self.data.rank[rows, j]) > 0]
        residual = self._residual(rows)
        steps = [step for j in columns for step in self._steps(rows, j, residual)]
        by_gain = [(j, cut) for _, j, cut in sorted(steps, reverse=True)]
        by_width = [(j, self._middle(rows, j)) for j in sorted(columns, key=lambda j: -np.ptp(self.data.x[rows, j]))]
        for rule in by_gain + by_width:
            goes_left = self._goes_left(rows, rule)
            if self._is_enough(rows[goes_left]) and self._is_enough(rows[~goes_left]):
                return rule
        return LEAF

    def _goes_left(self, rows: Ints, rule: tuple[int, int]) -> NDArray[np.bool_]:
        return np.asarray(self.data.rank[rows, rule[0]] <= rule[1])

    def _is_enough(self, rows: Ints) -> bool:
        """Say whether a leaf has enough rows, and enough distinct ones for its regression, as `tree.has_enough`."""
        if self.data.y[rows, 0].sum() < self.integer[layout.MIN_LEAF]:
            return False
        base = int(self.integer[layout.N_BASE])
        varies = rows.size > base and bool(np.all(np.ptp(self.data.rank[rows, :base], axis=0) > 0))
        return varies or self.integer[layout.CHECK_LEAF] == 0

    def _middle(self, rows: Ints, column: int) -> int:
        ranks = self.data.rank[rows, column]
        return min(int(np.median(ranks)), int(ranks.max()) - 1)

    def _residual(self, rows: Ints) -> Floats:
        """Return what the least-squares plane of the rows leaves of the responses."""
        root = np.sqrt(self.data.y[rows, 0])
        plane = np.column_stack([np.ones(rows.size), self.data.x[rows, : self.integer[layout.N_BASE]]])
        response = self.data.y[rows, 1]
        found = np.linalg.lstsq(plane * root[:, None], response * root, rcond=None)[0]
        return np.asarray(response - plane @ found)

    def _steps(self, rows: Ints, column: int, residual: Floats) -> Iterator[tuple[float, int, int]]:
        """Yield the steps along a column: what lines explain beyond a cubic, the column, and the cut.

        Overlapping quarters of the rows have one each, if it is more than noise would explain (by Schwarz's criterion,
        as of three coefficients). Both sides of the cut hold half of the largest leaf or more: leaves stay few.
        """
        order = np.argsort(self.data.rank[rows, column], kind="stable")
        ranks, x, z = self.data.rank[rows[order], column], self.data.x[rows[order], column], residual[order]
        weight, half = self.data.y[rows[order], 0], int(self.integer[layout.MAX_ROWS]) // 2
        size = rows.size // N_PARTS
        for first in range(0, rows.size - size + 1, size // 2):
            part = slice(first, first + size)
            ends = np.arange(size // 8, size - size // 8)  # the last of the left side
            is_cut = (ranks[part][ends] < ranks[part][ends + 1]) & (first + ends >= half - 1)
            ends = ends[is_cut & (first + ends < rows.size - half)]
            if ends.size == 0:
                continue
            by_lines, end = squares_left_by_lines(x[part], z[part], weight[part], ends)
            by_cubic = squares_left_by_cubic(x[part], z[part], weight[part])
            if size * np.log(by_cubic / by_lines) > 3.0 * np.log(rows.size):
                yield by_cubic - by_lines, column, int(ranks[first + end])


def squares_left_by_lines(x: Floats, z: Floats, weight: Floats, ends: Ints) -> tuple[float, int]:
    """Return what a line on each side of the best cut leaves of the squares, and the last entry of the left side."""
    t = x - x.mean()
    sums = np.cumsum([weight, weight * t, weight * t * t, weight * z, weight * t * z], axis=1)
    explained = _by_a_line(sums[:, ends]) + _by_a_line(sums[:, -1:] - sums[:, ends])
    best = int(np.argmax(explained))
    total = float(np.sum(weight * z * z))
    return max(total - float(explained[best]), ROUNDING * total), int(ends[best])


def squares_left_by_cubic(x: Floats, z: Floats, weight: Floats) -> float:
    """Return what a cubic leaves of the squares."""
    t = (2.0 * x - x[0] - x[-1]) / (x[-1] - x[0])
    root = np.sqrt(weight)
    design = np.polynomial.legendre.legvander(t, 3) * root[:, None]
    found = np.linalg.lstsq(design, z * root, rcond=None)[0]
    return max(float(np.sum((z * root - design @ found) ** 2)), ROUNDING * float(np.sum(weight * z * z)))


def _by_a_line(sums: Floats) -> Floats:
    """Return the squares that a line explains, from sums of w, w x, w x^2, w z and w x z.

    Examples
    --------
    >>> _by_a_line(np.array([[2.0], [1.0], [1.0], [3.0], [2.0]]))  # z = 1 at x = 0 and z = 2 at x = 1
    array([5.])
    """
    w, wx, wxx, wz, wxz = sums
    spread = wxx - wx * wx / w
    slope = np.where(spread > ROUNDING * wxx, wxz - wx * wz / w, 0.0)
    return np.asarray(wz * wz / w + slope * slope / np.maximum(spread, np.finfo(float).tiny))
