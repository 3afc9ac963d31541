r"""What MBAR knows once it is solved: normalisers, their covariance, overlap, weights and expectations.

Errors come twice: in the form for independent draws (Kong et al. 2003; Shirts & Chodera 2008, Eq. 8), and by
batch means of influences, right for correlated chains. The influence of a draw on a quantity is its direct
one plus what it does through the estimated normalisers, :math:`B (1_{j(t)} - p(t))`: the sandwich of Roy, Tan
& Flegal (2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints, as_log, slices, temper
from tempering.estimators.calibration import Calibration
from tempering.estimators.energy_grid import EnergyNodes
from tempering.estimators.mixture import (
    NULL,
    TemperedDensities,
    TermDensities,
    column_slices,
    log_sum,
    scaled_inverse,
    second_eigenvalue,
)
from tempering.estimators.standard_error import (
    Estimate,
    covariance_of_sum,
    standard_error_of_sum,
    weighted_influences,
)

INFLUENCES_AT_ONCE = 1 << 24  # beyond, influences on normalisers are held as sums over short runs of draws


@dataclass(frozen=True, eq=False)
class Mbar:
    """The fitted mixture; made by `mbar` or `mbar_from_matrix`.

    States are the distinct inverse temperatures, rungs are as they came: several rungs may be one state.
    """

    rung: Ints
    state_of_rung: Ints
    possible: NDArray[np.bool_]
    n_draws: Floats
    log_offsets: Floats
    log_mixture: Floats
    nodes: EnergyNodes
    node_weights: Floats
    densities: TemperedDensities | TermDensities

    @cached_property
    def log_normalisers(self) -> Floats:
        """Log Z of each rung, visited or not, relative to the first one."""
        log_z = self._log_z[self.state_of_rung]
        return np.asarray(log_z - log_z[0])

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of `log_normalisers`, shape (n_rungs, n_rungs), were the draws independent."""
        value, vector = np.linalg.eigh(self._gram)
        root = vector * np.sqrt(np.maximum(value, 0.0))
        null = root.T @ self.n_draws / np.sqrt(self.n_draws.sum())  # the constant, which no data can tell
        distance = np.eye(value.size) - root.T @ (self.n_draws[:, np.newaxis] * root) + np.outer(null, null)
        gap, rotation = np.linalg.eigh(distance)
        inverse = np.where(gap > NULL, 1.0 / np.where(gap > NULL, gap, 1.0), 0.0)
        theta = (root @ rotation * inverse) @ (root @ rotation).T
        contrast = self._contrasts
        return np.asarray(contrast @ theta @ contrast.T)

    def batch_covariance(self, *, chains_per_ensemble: int = 1, batch_length: int | None = None) -> Floats:
        """Return the covariance of `log_normalisers` by batch means, right for correlated chains.

        Parameters
        ----------
        chains_per_ensemble : int
            Consecutive chains that depend on each other, as the replicas of MC3 do.
        batch_length : int, optional
            Length of a batch; chosen from the data where it is not given.
        """
        n_rungs, shape = self.state_of_rung.size, np.atleast_2d(self.rung).shape
        run = max(1, min(shape[1], self.rung.size * n_rungs // INFLUENCES_AT_ONCE))
        starts = np.arange(0, shape[1] - run + 1, run)
        columns = self._normaliser_influences(self._contrasts)
        sums = [np.add.reduceat(column.reshape(shape), starts, axis=1) for column in columns]
        length = None if batch_length is None else max(1, batch_length // run)
        return covariance_of_sum(np.stack(sums, axis=2), chains_per_ensemble=chains_per_ensemble, batch_length=length)

    def log_normaliser_ratio(
        self,
        upper: int = 0,
        lower: int = -1,
        *,
        chains_per_ensemble: int = 1,
        batch_length: int | None = None,
    ) -> Estimate:
        """Return log Z[upper] - log Z[lower] of two rungs, by default cold to hottest, with its standard
        error.

        Parameters
        ----------
        upper, lower : int
            The two rungs.
        chains_per_ensemble, batch_length : int
            As in `batch_covariance`.
        """
        contrast = self._contrasts[upper] - self._contrasts[lower]
        (influence,) = self._normaliser_influences(contrast[np.newaxis])
        error = standard_error_of_sum(
            influence.reshape(np.atleast_2d(self.rung).shape),
            chains_per_ensemble=chains_per_ensemble,
            batch_length=batch_length,
        )
        return Estimate(float(self.log_normalisers[upper] - self.log_normalisers[lower]), float(error))

    @cached_property
    def overlap(self) -> Floats:
        """Overlap matrix (Klimovich, Shirts & Mobley 2015): the probability that a draw of the row's rung is taken
        for one of the column's. Rows sum to one.
        """
        rungs = self.state_of_rung
        per_rung = np.bincount(self.rung.ravel()[self.possible], minlength=rungs.size)
        return self._gram[np.ix_(rungs, rungs)] * per_rung

    @cached_property
    def second_eigenvalue(self) -> float:
        """Second largest eigenvalue of the overlap matrix: at 1 rungs fall apart into groups without overlap."""
        return second_eigenvalue(self._gram, self.n_draws)

    def log_weights(self, target: ArrayLike = 1.0) -> Floats:
        """Return normalised log weights of all draws towards any target, shaped like the draws.

        Parameters
        ----------
        target : float or array_like, shape of the draws
            An inverse temperature, or log density of the target at each draw.
        """
        raw = self._log_target(target) - self.log_mixture
        if not self.possible.all():
            raw[~self.possible] = -np.inf
        largest = raw.max()
        if largest == -np.inf:
            raise EstimatorError(
                "At least one draw must have a positive weight, but all are zero. No draw lies where the "
                "target does: sample for longer or use more rungs."
            )
        raw -= largest
        raw -= np.log(sum(float(np.sum(np.exp(raw[part]))) for part in slices(raw.size)))
        return np.asarray(raw).reshape(self.rung.shape)

    def expectation(
        self,
        values: ArrayLike,
        target: ArrayLike = 1.0,
        *,
        weights: Floats | None = None,
        calibration: Calibration | None = None,
        chains_per_ensemble: int = 1,
        batch_length: int | None = None,
    ) -> Estimate:
        """Estimate an expectation under a target, with the sandwich standard error by batch means.

        Parameters
        ----------
        values : array_like, shape (draw, ...) or (chain, draw, ...)
            h at each draw.
        target : float or array_like, shape of the draws
            An inverse temperature, or log density of the target at each draw.
        weights : ndarray, shape of the draws
            Those of that target, where they are known already.
        calibration : Calibration, optional
            By which those weights agree with what is known.
        chains_per_ensemble, batch_length : int
            As in `combine`.
        """
        w = np.exp(self.log_weights(target)) if weights is None else weights
        h = np.asarray(values, dtype=np.float64)
        trailing = h.shape[self.rung.ndim :]
        mean, direct = weighted_influences(h.reshape(*self.rung.shape, -1), w)
        flat = direct.reshape(len(direct), -1)
        if calibration is not None:
            flat = calibration.residual(flat)
        through = -self._mixture_sums(np.stack([self.nodes.scatter(row) for row in flat]))
        for row, influence in zip(flat, self._indirect(through), strict=True):
            row += influence
        error = standard_error_of_sum(
            np.moveaxis(direct.reshape(-1, *np.atleast_2d(self.rung).shape), 0, 2),
            chains_per_ensemble=chains_per_ensemble,
            batch_length=batch_length,
        )
        return Estimate(mean.reshape(trailing), error.reshape(trailing))

    def _log_target(self, target: ArrayLike) -> Floats:
        given = np.asarray(target, dtype=np.float64)
        if given.ndim == 0 and isinstance(self.densities, TemperedDensities):
            return temper(given, self.nodes.energy)
        if given.ndim == 0 and given == 1.0 and isinstance(self.densities, TermDensities):
            return np.asarray(self.densities.terms @ self.densities.target)
        if given.shape != self.rung.shape:
            raise EstimatorError(
                f"target must be an inverse temperature, for draws that came with an energy, or the target's "
                f"log density at each draw, shape {self.rung.shape}, but its shape is {given.shape}. Pass "
                f"log_density_kn[0] for the first state."
            )
        return as_log("target", given, self.rung.shape).ravel()

    @property
    def _visited(self) -> Ints:
        return np.flatnonzero(self.n_draws)

    @cached_property
    def _contrasts(self) -> Floats:
        """Each rung's state minus the first one's, shape (n_rungs, n_states)."""
        unit = np.eye(self.n_draws.size)[self.state_of_rung]
        return np.asarray(unit - unit[0])

    def _parts(self) -> Iterator[tuple[slice, Floats]]:
        """Yield parts of the nodes with n W of all states: p, and for states without draws W itself."""
        visited = self._visited
        offsets = np.log(self._counts) - self._log_z
        for part in column_slices(self.node_weights.size, self.n_draws.size):
            terms = self.densities.columns(part) + offsets[:, np.newaxis]
            mixture, p = log_sum(terms[visited])
            if visited.size < offsets.size:
                # above 700 only nodes between the draws, which have no weight
                p = np.exp(np.minimum(terms - mixture, 700.0))
            yield part, p

    @property
    def _counts(self) -> Floats:
        return np.maximum(self.n_draws, 1.0)

    @cached_property
    def _log_z(self) -> Floats:
        """Log Z of each state: log n - offset where it has draws, the sum of its weights elsewhere."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_z = np.log(self.n_draws) - self.log_offsets
        for state in np.flatnonzero(self.n_draws == 0).tolist():
            raw = np.where(self.possible, self._log_density(state) - self.log_mixture, -np.inf)
            log_z[state] = logsumexp(raw)
        return log_z

    def _log_density(self, state: int) -> Floats:
        """Return the log density of one state at the draws."""
        if isinstance(self.densities, TemperedDensities):
            return temper(self.densities.inverse_temperatures[state], self.nodes.energy)
        return np.asarray(self.densities.terms @ self.densities.coefficients[state])

    @cached_property
    def _gram(self) -> Floats:
        """Sum over draws of W W', where W_j = q_j / (Z_j sum_r n_r q_r / Z_r); shape (n_states, n_states)."""
        gram = np.zeros((self.n_draws.size, self.n_draws.size))
        for part, p in self._parts():
            gram += (p * self.node_weights[part]) @ p.T
        return gram / self._counts / self._counts[:, np.newaxis]

    @cached_property
    def _inverse_information(self) -> Floats:
        n = self.n_draws[self._visited]
        gram = self._gram[np.ix_(self._visited, self._visited)]
        return scaled_inverse(np.diag(n) - n[:, np.newaxis] * gram * n, n)

    def _mixture_sums(self, amounts: Floats) -> Floats:
        """Return the sums over nodes of amounts, shape (n_quantities, n_nodes), times p."""
        return np.asarray(np.sum([amounts[:, part] @ p[self._visited].T for part, p in self._parts()], axis=0))

    def _indirect(self, through: Floats, direct: Floats | None = None) -> Iterator[Floats]:
        """Yield the influence of every draw on each quantity, but for what is a direct sum over draws.

        Parameters
        ----------
        through : ndarray, shape (n_quantities, n_visited)
            Derivative of each quantity by the offsets.
        direct : ndarray, shape (n_quantities, n_nodes)
            Direct influence, where it is a function known at the nodes; it is used up.
        """
        b = through @ self._inverse_information
        table = np.zeros((len(b), self.node_weights.size)) if direct is None else direct
        for part, p in self._parts():
            table[:, part] -= b @ p[self._visited]
        position = np.cumsum(self.n_draws > 0) - 1
        of_rung, rung = b[:, position[self.state_of_rung]], self.rung.ravel()
        for row, function in zip(of_rung, table, strict=True):
            influence = self.nodes.gather(function)
            for part in slices(rung.size):
                influence[part] += row.take(rung[part])
            if not self.possible.all():
                influence[~self.possible] = 0.0
            yield influence

    def _normaliser_influences(self, contrasts: Floats) -> Iterator[Floats]:
        """Yield the influence of every draw on each contrast of log normalisers."""
        table = np.empty((len(contrasts), self.node_weights.size))
        for part, p in self._parts():
            table[:, part] = (contrasts / self._counts) @ p
        through = -contrasts @ (self._gram[:, self._visited] * self.n_draws[self._visited])
        yield from self._indirect(through, table)
