"""Whether the chains agree on what users look at first: the predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tempering.arrays import Floats
from tempering.estimators import resample
from tempering.models.treed_gp.posterior import recorded_by
from tempering.models.treed_gp.records import HEAD
from tempering.models.treed_gp.surfaces import predict_scaled
from tempering.runs.draws import TemperedDraws

if TYPE_CHECKING:
    from tempering.models.treed_gp.model import TreedGPModel

N_TREES = 40  # of each chain
N_POINTS = 100  # halfway between neighbouring training inputs
ROUNDING = 1e-24  # of responses on (0, 1), squared: chains that differ by less agree


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


def prediction_r_hat(model: TreedGPModel, run: TemperedDraws, rule: str, rng: np.random.Generator) -> float:
    """Return sqrt(1 + the mean of B / V): B the variance of the chains' predictive means, V the predictive variance.

    The mean is over points between training inputs: at the inputs themselves data without noise leave nothing to
    differ by. Each point has a V of its own, so that what chains promise where they are most certain counts as much as
    elsewhere. What B would be by the few trees of each chain alone is taken off. 1.05 says that chains differ by a
    third of a predictive deviation; NaN where there is one chain (or ensemble), or one without weight.
    """
    n_units = run.n_chains // run.chains_per_ensemble
    weights = run.weights(rule).reshape(n_units, -1)
    if n_units < 2 or np.any(weights.sum(axis=1) == 0):
        return float("nan")
    rows = recorded_by(run)[..., HEAD:]
    rows = rows.reshape(*weights.shape, -1)
    points = points_between(model.data.x)
    chosen = np.stack([rows[i, resample(weight, N_TREES, rng=rng)] for i, weight in enumerate(weights)])
    each = predict_scaled(model, chosen.reshape(-1, rows.shape[-1]), points)
    mean, surface, noise = np.moveaxis(each.reshape(n_units, N_TREES, 3, -1), 2, 0)
    tree_variance = mean.var(axis=1, ddof=1).mean(axis=0)
    between = mean.mean(axis=1).var(axis=0, ddof=1) - tree_variance / N_TREES
    variance = (surface + noise).mean(axis=(0, 1)) + tree_variance
    return float(np.sqrt(1.0 + max(float(np.mean(between / (variance + ROUNDING))), 0.0)))
