"""Whether the chains agree on what users look at first: the predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tempering.models.treed_gp.combining import keep_trees, rung_sums
from tempering.models.treed_gp.prediction import predict_records

if TYPE_CHECKING:
    from tempering.models.treed_gp.model import TreedGPModel
    from tempering.models.treed_gp.sums import Sums

Floats = NDArray[np.float64]

N_TREES = 40  # of each chain
N_POINTS = 100  # halfway between neighbouring training inputs


def points_between(x: Floats) -> Floats:
    """Return points halfway between some inputs and their nearest neighbours.

    Examples
    --------
    >>> points_between(np.array([[0.0], [1.0], [4.0]])).ravel()
    array([0.5, 0.5, 2.5])
    """
    some = x[:: -(-len(x) // N_POINTS)]
    squares = np.zeros((len(some), len(x)))
    for column in range(x.shape[1]):
        squares += np.subtract.outer(some[:, column], x[:, column]) ** 2
    squares[squares == 0.0] = np.inf
    return np.ascontiguousarray((some + x[np.argmin(squares, axis=1)]) / 2)


def prediction_r_hat(model: TreedGPModel, sums: Sequence[Sums], shares: Floats, rng: np.random.Generator) -> float:
    """Return sqrt(1 + B / V): B the variance of the chains' predictive means, V the predictive variance.

    Means over points between training inputs: at the inputs themselves data without noise leave nothing to differ by.
    What B would be by the few trees of each chain alone is taken off. 1.05 says that chains differ by a third of a
    predictive deviation; NaN where there is one chain, or one without weight.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        own = [shares * (one.total[:, 0] > 0) for one in sums]
    if len(sums) < 2 or any(share.sum() == 0 for share in own):
        return float("nan")
    points = points_between(model.data.x)
    state = model.allocate()
    means, within, variance = [], [], []
    for one, share in zip(sums, own, strict=True):
        rows = keep_trees([one], rung_sums([one]), share / share.sum(), N_TREES, rng)
        each = np.empty((len(rows), 3, len(points)))
        predict_records(state, rows, points, each)
        means.append(each[:, 0].mean(axis=0))
        within.append(each[:, 0].var(axis=0, ddof=1))
        variance.append((each[:, 1] + each[:, 2]).mean(axis=0))
    tree_variance = np.mean(within, axis=0)
    between = np.var(means, axis=0, ddof=1) - tree_variance / N_TREES
    return float(np.sqrt(1.0 + max(float(np.mean(between)), 0.0) / float(np.mean(variance + tree_variance))))
