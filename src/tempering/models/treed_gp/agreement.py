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
N_POINTS = 100  # of the training inputs


def prediction_r_hat(model: TreedGPModel, sums: Sequence[Sums], shares: Floats, rng: np.random.Generator) -> float:
    """Return sqrt(1 + B / V): B the variance of the chains' predictive means, V the predictive variance.

    Means over training inputs. What B would be by the few trees of each chain alone is taken off. 1.05 says that chains
    differ by a third of a predictive deviation; NaN where there is one chain, or one without weight.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        own = [shares * (one.total[:, 0] > 0) for one in sums]
    if len(sums) < 2 or any(share.sum() == 0 for share in own):
        return float("nan")
    x = model.data.x
    points = np.ascontiguousarray(x[:: -(-len(x) // N_POINTS)])
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
