"""What the kept trees say at new inputs: predictions, joint draws, and criteria for where to look next.

Inputs are in the scale of the data handed in; what is returned is in the model's, the response of mean 0 and range 1.
Callers scale back, deviations rather than variances: squares of large or small units have no room in a float.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread, one_blas_thread
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.prediction import noise_of_tree, parameters_of_points, predict_records
from tempering.models.treed_gp.seams import boxes_of, seams_of, surface_of

_POINTS_AT_ONCE = 4096


def n_workers(n_parts: int) -> int:
    """Return how many threads are worth having."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n_parts, available)


def in_blocks(inputs: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield stretches of the inputs and their places: all trees at all points at once would fill the memory."""
    for first in range(0, max(len(inputs), 1), _POINTS_AT_ONCE):
        where = slice(first, min(first + _POINTS_AT_ONCE, len(inputs)))
        yield where, inputs[where]


def predict_each(model: TreedGPModel, rows: Floats, inputs: Floats) -> Floats:
    """Return mean, surface variance and noise variance of every tree, scaled, shape (n_trees, 3, n_points).

    Parameters
    ----------
    model : TreedGPModel
    rows : ndarray, shape (n_trees, record length)
    inputs : ndarray, shape (n_points, n_columns)
        No more than fit into memory three times for every tree: `in_blocks` cuts many.
    """
    return predict_joined(model, rows, model.data.scale(inputs))


@on_one_blas_thread
def predict_joined(model: TreedGPModel, rows: Floats, points: Floats) -> Floats:
    """Do so at inputs that are scaled."""
    out, state = predict_scaled(model, rows, points), model.allocate()
    for row, (mean, surface, _) in zip(rows, out, strict=True):
        seams = seams_of(model, state, row)
        if seams is not None:
            reduced = seams.reduce(state, points)
            mean -= seams.gap @ reduced
            surface[:] = np.maximum(surface - (reduced**2).sum(axis=0), 0.0)
    return out


def predict_scaled(model: TreedGPModel, rows: Floats, points: Floats) -> Floats:
    """Do so at inputs that are scaled, each leaf by itself: what is known beyond its cuts does not count."""
    out = np.empty((len(rows), 3, len(points)))
    parts = np.array_split(np.arange(len(rows)), n_workers(max(1, len(rows) // 16)))

    def one(part: NDArray[np.intp]) -> None:
        state = model.allocate()
        part_out = np.empty((len(part), 3, len(points)))
        predict_records(state, rows[part], points, part_out)
        out[part] = part_out

    with one_blas_thread(), ThreadPoolExecutor(len(parts)) as threads:
        list(threads.map(one, parts))
    return out


def surface_means(model: TreedGPModel, rows: Floats, inputs: Floats) -> Floats:
    """Return the mean of every tree's surface, scaled, shape (n_trees, n_points), block by block."""
    out = np.empty((len(rows), len(inputs)))
    for where, block in in_blocks(inputs):
        out[:, where] = predict_each(model, rows, block)[:, 0]
    return out


def parameters_each(model: TreedGPModel, rows: Floats, inputs: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return noise and signal variance, ranges and Booleans of every tree's leaf at each input, scaled."""
    n_ranges = int(model.integer[layout.N_RANGES])
    out = np.empty((len(rows), len(inputs), 2 + 2 * n_ranges))
    parameters_of_points(model.allocate(), rows, model.data.scale(inputs), out)
    noise, signal, ranges, active = np.split(out, [1, 2, 2 + n_ranges], axis=2)
    return (noise * signal)[..., 0], signal[..., 0], ranges, active


@on_one_blas_thread
def joint(model: TreedGPModel, row: Floats, inputs: Floats) -> tuple[Floats, Floats, Floats]:
    """Return joint mean and covariance of one tree's surface, and the variance of its noise, scaled."""
    points, state = model.data.scale(inputs), model.allocate()
    mean, covariance, noise = np.empty(len(points)), np.zeros((len(points),) * 2), np.empty(len(points))
    seams, boxes = seams_of(model, state, row), boxes_of(state)
    home = boxes.holding(points)
    for leaf in np.unique(home):
        mine = np.flatnonzero(home == leaf)
        mean[mine], covariance[np.ix_(mine, mine)], _ = surface_of(state, boxes.nodes[leaf], points[mine], points[mine])
    if seams is not None:
        reduced = seams.reduce(state, points)
        mean -= seams.gap @ reduced
        covariance -= reduced.T @ reduced
    noise_of_tree(state, points, noise)
    return mean, covariance, noise


def draw_jointly(
    model: TreedGPModel, rows: Floats, inputs: Floats, n_samples: int, rng: np.random.Generator, *, latent: bool
) -> Floats:
    """Draw responses, or the surface alone, jointly at all inputs, scaled, shape (n_points, n_samples).

    Each sample is from a tree of its own.
    """
    out = np.empty((len(inputs), n_samples))
    which = rng.integers(len(rows), size=n_samples)
    for tree in np.unique(which):
        mean, covariance, noise = joint(model, rows[tree], inputs)
        columns = np.flatnonzero(which == tree)
        values, vectors = np.linalg.eigh(covariance)  # a surface seen at close points is singular to rounding
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        out[:, columns] = mean[:, None] + root @ rng.standard_normal((len(inputs), len(columns)))
        errors = np.sqrt(noise)[:, None] * rng.standard_normal((len(inputs), len(columns)))
        out[:, columns] += 0.0 if latent else errors
    return out


def joint_moments(model: TreedGPModel, rows: Floats, inputs: Floats, *, latent: bool) -> tuple[Floats, Floats]:
    """Return mean and covariance of the mixture of all trees at the inputs, scaled."""
    means, total = np.empty((len(rows), len(inputs))), np.zeros((len(inputs),) * 2)
    for i, row in enumerate(rows):
        means[i], covariance, noise = joint(model, row, inputs)
        total += covariance
        if not latent:
            total[np.diag_indices(len(inputs))] += noise
    away = means - means.mean(axis=0)
    return means.mean(axis=0), np.asarray((total + away.T @ away) / len(rows))


def active_learning_cohn(model: TreedGPModel, rows: Floats, inputs: Floats, reference: Floats) -> Floats:
    """Return the mean fall of the variance over ``reference`` if a response were measured at each input (ALC), scaled.

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
