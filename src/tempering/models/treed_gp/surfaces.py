"""What the kept trees say at new inputs: predictions, joint draws, and criteria for where to look next.

Everything is in the scale of the data handed in; the trees themselves live in [0, 1].
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tempering.execution.blas_threads import one_blas_thread
from tempering.models.treed_gp.engine import n_workers
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.prediction import joint_of_tree, noise_of_tree, predict_records
from tempering.models.treed_gp.records import load_record

Floats = NDArray[np.float64]

_POINTS_AT_ONCE = 4096


def predict_each(model: TreedGPModel, rows: Floats, inputs: Floats) -> Floats:
    """Return mean, surface variance and noise variance of every tree, shape (n_trees, 3, n_points).

    Parameters
    ----------
    model : TreedGPModel
    rows : ndarray, shape (n_trees, record length)
    inputs : ndarray, shape (n_points, n_columns)
    """
    points = model.data.scale(inputs)
    out = np.empty((len(rows), 3, len(points)))
    parts = np.array_split(np.arange(len(rows)), n_workers(max(1, len(rows) // 16)))

    def one(part: NDArray[np.intp]) -> None:
        state = model.allocate()
        for first in range(0, len(points), _POINTS_AT_ONCE):
            block = points[first : first + _POINTS_AT_ONCE]
            part_out = np.empty((len(part), 3, len(block)))
            predict_records(state, rows[part], block, part_out)
            out[part, :, first : first + _POINTS_AT_ONCE] = part_out

    with one_blas_thread(), ThreadPoolExecutor(len(parts)) as threads:
        list(threads.map(one, parts))
    out[:, 0] = model.data.centre + model.data.spread * out[:, 0]
    out[:, 1:] *= model.data.spread**2
    return out


def joint(model: TreedGPModel, row: Floats, inputs: Floats) -> tuple[Floats, Floats, Floats]:
    """Return joint mean and covariance of one tree's surface, and the variance of its noise."""
    points = model.data.scale(inputs)
    state = model.allocate()
    load_record(state, row)
    mean, covariance, noise = np.empty(len(points)), np.empty((len(points),) * 2), np.empty(len(points))
    joint_of_tree(state, points, mean, covariance)
    noise_of_tree(state, points, noise)
    square = model.data.spread**2
    return model.data.centre + model.data.spread * mean, square * covariance, square * noise


def draw_responses(
    model: TreedGPModel, rows: Floats, inputs: Floats, n_samples: int, rng: np.random.Generator
) -> Floats:
    """Draw responses jointly at all inputs, each sample from a tree of its own, shape (n_points,
    n_samples).
    """
    out = np.empty((len(inputs), n_samples))
    which = rng.integers(len(rows), size=n_samples)
    for tree in np.unique(which):
        mean, covariance, noise = joint(model, rows[tree], inputs)
        columns = np.flatnonzero(which == tree)
        values, vectors = np.linalg.eigh(covariance)  # a surface seen at close points is singular to rounding
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        surface = root @ rng.standard_normal((len(inputs), len(columns)))
        out[:, columns] = mean[:, None] + surface
        out[:, columns] += np.sqrt(noise)[:, None] * rng.standard_normal((len(inputs), len(columns)))
    return out


def active_learning_cohn(model: TreedGPModel, rows: Floats, inputs: Floats, reference: Floats) -> Floats:
    """Return the mean fall of the variance over ``reference`` if a response were measured at each input
    (ALC).

    Within a tree, c(x, y)^2 / (c(x, x) + noise), c the posterior covariance of the surface (section 10).
    """
    n = len(inputs)
    total = np.zeros(n)
    everything = np.concatenate([inputs, reference])
    for row in rows:
        _, covariance, noise = joint(model, row, everything)
        own = np.diag(covariance)[:n] + noise[:n]
        total += (covariance[:n, n:] ** 2).mean(axis=1) / own
    return np.asarray(total / len(rows))


def expected_improvement(each: Floats, best: Floats) -> Floats:
    """Return the expected fall of the surface below the lowest known value, averaged over trees.

    Parameters
    ----------
    each : ndarray, shape (n_trees, 3, n_points)
        From `predict_each`.
    best : ndarray, shape (n_trees,)
        The lowest posterior mean of each tree's surface at the training inputs.
    """
    mean, deviation = each[:, 0], np.sqrt(np.maximum(each[:, 1], 1e-300))
    gap = best[:, None] - mean
    u = gap / deviation
    density = np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi)
    return np.asarray((gap * ndtr(u) + deviation * density).mean(axis=0))


def sobol_indices(
    model: TreedGPModel, rows: Floats, box: Floats, n: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return first-order and total Sobol indices of each tree's surface, both of shape (n_trees, n_columns).

    Inputs are uniform on ``box``, shape (2, n_columns). Saltelli's design with the estimators of Saltelli
    et al. (2010) and Jansen (1999).
    """
    d = box.shape[1]
    a, b = (box[0] + (box[1] - box[0]) * rng.random((n, d)) for _ in range(2))
    mixed = np.repeat(a[None], d, axis=0)
    for j in range(d):
        mixed[j, :, j] = b[:, j]
    means = predict_each(model, rows, np.concatenate([a, b, *mixed]))[:, 0]
    f_a, f_b, f_mixed = means[:, :n], means[:, n : 2 * n], means[:, 2 * n :].reshape(len(rows), d, n)
    variance = np.var(means[:, : 2 * n], axis=1)[:, None]
    variance = np.where(variance > 0, variance, np.inf)
    first = (f_b[:, None] * (f_mixed - f_a[:, None])).mean(axis=2) / variance
    total = 0.5 * ((f_a[:, None] - f_mixed) ** 2).mean(axis=2) / variance
    return first, total
