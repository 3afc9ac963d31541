r"""MBAR from binned energies: the equations of `tempering.estimators.mbar`, solved on nodes that stand for draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints, temper
from tempering.estimators.mixture import (
    TemperedDensities,
    bridge_states,
    fit_offsets,
    log_sum,
    scaled_inverse,
    second_eigenvalue,
)
from tempering.estimators.running.bins import BatchSums, EnergyBins, nodes_of

STAND_INS = 400  # of each rung's draws, to start Newton's method from


@dataclass(frozen=True, eq=False)
class RunningMbar:
    """The fitted mixture of all rungs; made by `fit_mbar`.

    Attributes
    ----------
    energy, count : ndarray, shape (node,)
        Nodes that stand for the draws of all rungs together.
    bin_of_node : ndarray, shape (node,)
    n_draws : ndarray, shape (rung,)
    log_normalisers : ndarray, shape (rung,)
        Relative to the cold rung's.
    """

    inverse_temperatures: Floats
    energy: Floats
    count: Floats
    bin_of_node: Ints
    n_bins: int
    n_draws: Floats
    log_normalisers: Floats

    @cached_property
    def _visited(self) -> Ints:
        return np.flatnonzero(self.n_draws)

    @cached_property
    def _counts(self) -> Floats:
        return np.maximum(self.n_draws, 1.0)

    @cached_property
    def log_mixture(self) -> Floats:
        """Log density of the mixture at the nodes."""
        return np.asarray(log_sum(self._terms[self._visited])[0])

    @cached_property
    def _terms(self) -> Floats:
        offsets = np.log(self._counts) - self.log_normalisers
        return temper(self.inverse_temperatures[:, np.newaxis], self.energy) + offsets[:, np.newaxis]

    @cached_property
    def shares_of_nodes(self) -> Floats:
        """Shares n W of all rungs at the nodes, shape (rung, node); for rungs without draws, W itself."""
        return np.asarray(np.exp(np.minimum(self._terms - self.log_mixture, 700.0)))

    @cached_property
    def weights(self) -> Floats:
        """Weight towards the cold rung of one draw at each node; over all draws they sum to one."""
        k = self.inverse_temperatures[0]
        log_w = temper(k, self.energy) - self.log_mixture
        return np.asarray(np.exp(log_w - logsumexp(log_w, b=self.count)))

    @cached_property
    def weight_of_bins(self) -> Floats:
        """Mean weight of a draw in each bin; 0 in an empty one."""
        return self.mean_over_bins(self.weights)

    @cached_property
    def _gram(self) -> Floats:
        p = self.shares_of_nodes
        return np.asarray((p * self.count) @ p.T / self._counts / self._counts[:, np.newaxis])

    @cached_property
    def overlap(self) -> Floats:
        """Overlap matrix, as `tempering.estimators.Mbar.overlap`."""
        return self._gram * self.n_draws

    @cached_property
    def second_eigenvalue(self) -> float:
        """Second largest eigenvalue of the overlap matrix, as `tempering.estimators.Mbar.second_eigenvalue`."""
        return second_eigenvalue(self._gram, self.n_draws)

    @property
    def ess(self) -> float:
        """Effective sample size of the weights (Eq. 3)."""
        n = float(self.count.sum())
        cv2 = max(n * float(np.sum(self.count * self.weights**2)) - 1.0, 0.0) * n / max(n - 1.0, 1.0)
        return n / (1.0 + cv2)

    def mean_over_bins(self, at_nodes: Floats) -> Floats:
        """Return the mean over the draws of each bin of functions at the nodes, shape (..., node)."""
        rows = np.atleast_2d(at_nodes)
        sums = np.stack([np.bincount(self.bin_of_node, row * self.count, self.n_bins) for row in rows])
        n = np.bincount(self.bin_of_node, self.count, self.n_bins)
        means = sums / np.where(n > 0, n, 1.0)
        return np.asarray(means.reshape(*np.shape(at_nodes)[:-1], self.n_bins))

    def influence_on_means(self, mean: Floats, node_values: Floats, batches: BatchSums) -> Floats:
        """Return the influence of every batch on means of quantities, shape (group, time, quantity).

        Parameters
        ----------
        mean : ndarray, shape (quantity,)
        node_values : ndarray, shape (node, quantity)
            Sums of each quantity over the draws that a node stands for.
        """
        amounts = self.weights[:, np.newaxis] * (node_values - self.count[:, np.newaxis] * mean)
        through = -(self.shares_of_nodes[self._visited] @ amounts).T
        counts, values = batches.pooled[..., 0], batches.pooled[..., 1:]
        direct = np.einsum("b,gtbq->gtq", self.weight_of_bins, values - counts[..., np.newaxis] * mean)
        return np.asarray(direct + self._through_normalisers(through, batches))

    def influence_on_ratio(self, upper: int, lower: int, batches: BatchSums) -> Floats:
        """Return the influence of every batch on log Z[upper] - log Z[lower], shape (group, time)."""
        contrast = np.zeros(self.n_draws.size)
        contrast[upper] += 1.0
        contrast[lower] -= 1.0
        function = self.mean_over_bins((contrast / self._counts) @ self.shares_of_nodes)
        through = -contrast @ (self._gram[:, self._visited] * self.n_draws[self._visited])
        direct = np.einsum("b,gtb->gt", function, batches.pooled[..., 0])
        return np.asarray(direct + self._through_normalisers(through[np.newaxis], batches)[..., 0])

    def _through_normalisers(self, through: Floats, batches: BatchSums) -> Floats:
        """Return what batches do through the estimated normalisers (Roy, Tan & Flegal 2018)."""
        visited = self._visited
        n = self.n_draws[visited]
        gram = self._gram[np.ix_(visited, visited)]
        b = through @ scaled_inverse(np.diag(n) - n[:, np.newaxis] * gram * n, n)
        p = self.mean_over_bins(self.shares_of_nodes[visited])
        return np.asarray(batches.count[..., visited] @ b.T - batches.pooled[..., 0] @ (b @ p).T)


def fit_mbar(k: Floats, joint: Floats, bins: EnergyBins) -> RunningMbar:
    """Solve MBAR's equations for the counts and energy moments of (rung, bin).

    Parameters
    ----------
    k : ndarray, shape (rung,)
    joint : ndarray, shape (rung, bin, 3)
        Sums of 1, d and d^2, see `tempering.estimators.running.bins`.
    bins : EnergyBins
    """
    n_draws = joint[..., 0].sum(axis=1)
    visited = np.flatnonzero(n_draws)
    if visited.size == 0:
        raise EstimatorError("MBAR needs at least one draw, but there is none. Add draws first.")
    pooled = nodes_of(np, joint.sum(axis=0), bins)
    there = pooled.count > 0
    energy, count = pooled.energy[there], pooled.count[there]
    bin_of_node = np.broadcast_to(np.arange(joint.shape[1])[:, np.newaxis], there.shape)[there]
    densities = TemperedDensities(k[visited], energy)
    start = _start(k[visited], joint[visited], bins, n_draws[visited])
    offsets = fit_offsets(densities, count, n_draws[visited], start)
    log_z = np.empty(k.size)
    log_z[visited] = np.log(n_draws[visited]) - offsets
    mixture = log_sum(densities.columns(slice(None)) + offsets[:, np.newaxis])[0]
    for rung in np.flatnonzero(n_draws == 0).tolist():
        log_z[rung] = logsumexp(temper(k[rung], energy) - mixture, b=count)
    return RunningMbar(k, energy, count, bin_of_node, joint.shape[1], n_draws, log_z - log_z[0])


def _start(k: Floats, joint: Floats, bins: EnergyBins, n_draws: Floats) -> Floats:
    """Bridge neighbours by stand-ins drawn evenly from each rung's nodes."""
    nodes = nodes_of(np, joint, bins)
    stand_ins = []
    for energy, count in zip(nodes.energy, nodes.count, strict=True):
        cumulated = np.cumsum(count.ravel())
        at = (np.arange(STAND_INS) + 0.5) / STAND_INS * cumulated[-1]
        stand_ins.append(energy.ravel()[np.searchsorted(cumulated, at)])
    flat = np.concatenate(stand_ins)

    def difference(a: int, b: int, draws: Ints) -> Floats:
        return np.asarray((k[b] - k[a]) * flat[draws])

    indices = [np.arange(STAND_INS) + STAND_INS * i for i in range(k.size)]
    return bridge_states(difference, indices, n_draws)
