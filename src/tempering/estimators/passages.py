"""What passages from end to end of a leg tell of its evidence, where there are few of them.

Draws of a rung differ by where their chain comes from: one that comes from the hot end has not yet forgotten it. In the
long run as many come as go, and the differences cancel. In a run of few passages they do not, and neither batches nor
chains show it, for all of them lag in the same direction.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from tempering.estimators.arrays import Floats

NOWHERE, FIRST, LAST = 0, 1, 2
FEWEST_DRAWS = 5  # of one origin on either of two rungs, for a ratio of normalisers
STEPS = 2.0 ** np.arange(0, 64, 2)  # nats from the middle, at which the ends of a bracket are looked for
CLOSE = 1e-6  # nats
ENOUGH_DRAWS = 5_000  # of one origin on one rung


def origins(rung: NDArray[np.integer], first: int, last: int) -> NDArray[np.int64]:
    """Return which of two rungs the chain has been on last, at each draw; `NOWHERE` before it has been on either.

    Examples
    --------
    >>> origins(np.array([[1, 0, 1, 2, 1, 0]]), 0, 2).tolist()
    [[0, 1, 1, 2, 2, 1]]
    """
    at = np.where(rung == first, FIRST, np.where(rung == last, LAST, NOWHERE))
    when = np.maximum.accumulate(np.where(at != NOWHERE, np.arange(rung.shape[1]), -1), axis=1)
    return np.where(when >= 0, np.take_along_axis(at, np.maximum(when, 0), axis=1), NOWHERE)


def n_passages(origin: NDArray[np.int64]) -> int:
    """Return how often chains have gone from one of the two rungs to the other."""
    before, after = origin[:, :-1], origin[:, 1:]
    return int(np.sum((before != after) & (before != NOWHERE)))


def bridge(forward: Floats, backward: Floats) -> float:
    """Return log Z_b - log Z_a by Bennett's equation.

    Parameters
    ----------
    forward : ndarray, shape (draw,)
        log p_b - log p_a at draws of a.
    backward : ndarray, shape (draw,)
        log p_a - log p_b at draws of b.

    Examples
    --------
    >>> round(bridge(np.full(3, 2.0), np.full(5, -2.0)), 5)
    2.0
    """
    log_odds = np.log(len(forward) / len(backward))

    def excess(ratio: float) -> float:
        return float(expit(forward - ratio - log_odds).sum() - expit(backward + ratio + log_odds).sum())

    both = np.concatenate([forward, -backward])
    both = both[np.isfinite(both)]
    if not both.size:
        return float("nan")
    middle = float(np.median(both))
    low = next((x for x in middle - STEPS if excess(x) > 0.0), None)
    high = next((x for x in middle + STEPS if excess(x) < 0.0), None)
    if low is None or high is None:
        return float("nan")
    return float(brentq(excess, float(low), float(high), xtol=CLOSE, maxiter=500))


def lag(
    changes: Iterable[Floats], rung: NDArray[np.integer], origin: NDArray[np.int64], leg: NDArray[np.integer]
) -> float:
    """Return by how much log Z at the start of a leg is higher from draws of chains that come from there.

    Higher than from draws of chains that come from the leg's other end. Pairs of rungs that only one kind has been on
    are taken to lag as the others do; where there is no other pair, nothing is known, and the lag may be infinite.

    Parameters
    ----------
    changes : iterable of ndarray, shape (chain, draw)
        By how much the log density of each rung of the leg but the first is above that of the one before it, at every
        draw.
    rung, origin : ndarray, shape (chain, draw)
    leg : ndarray of int
        The leg's rungs in order.
    """
    known, last = [], len(leg) - 1
    for i, change in enumerate(changes):
        found = []
        for kind in (FIRST, LAST):
            here = rung == leg[i] if i == 0 else (rung == leg[i]) & (origin == kind)
            there = rung == leg[i + 1] if i + 1 == last else (rung == leg[i + 1]) & (origin == kind)
            if min(here.sum(), there.sum()) < FEWEST_DRAWS:
                break
            found.append(bridge(_some(change[here]), -_some(change[there])))
        if len(found) == 2 and np.all(np.isfinite(found)):
            known.append(found[1] - found[0])
    if not last:
        return 0.0
    return last * float(np.mean(known)) if known else float("inf")


def _some(values: Floats) -> Floats:
    return values[:: max(1, len(values) // ENOUGH_DRAWS)]
