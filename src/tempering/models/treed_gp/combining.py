"""From the sums of all rungs and chains to the posterior: shares of the rungs, features, kept trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tempering.engines.trace import Schedule
from tempering.errors import EstimatorError
from tempering.estimators import combined_ess, mbar
from tempering.estimators.autocorrelation import ess_of_autocorrelation_per_rung
from tempering.estimators.pareto import pareto_k_per_rung
from tempering.estimators.rules import shares_by
from tempering.estimators.rung_statistics import RungStatistics
from tempering.estimators.rung_sums import RungSums
from tempering.models.treed_gp.layout import MAX_LEAVES, MOVES, State
from tempering.path.ladder import Ladder

if TYPE_CHECKING:
    from tempering.models.treed_gp.engine import Chain
    from tempering.models.treed_gp.fitting import Remembered
    from tempering.models.treed_gp.sums import Sums

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Posterior:
    """What a fit knows, without the draws themselves.

    ``rows`` are trees drawn from the weighted draws of all rungs: a sample of the posterior, equally
    weighted.
    """

    ladder: Ladder
    log_pseudo_prior: Floats
    rule: str
    sums: RungSums
    shares: Floats
    """Share of each rung in every estimate, lambda_i; by the rule mbar, of each stretch of energies."""
    combined_ess: float
    """Effective sample size of the combined weights, ESS(w^lambda), of Eq. 3."""
    rows: Floats
    best_rows: Floats
    """Recorded tree of the largest posterior density among those of 1, 2, ... leaves; zeros where none was seen."""
    best_values: Floats
    """Their log posterior densities, up to a constant: comparable for one number of leaves alone."""
    leaf_probabilities: Floats
    """P(1, 2, ... leaves)."""
    leaf_probabilities_by_rung: Floats
    """The same at each rung's own temperature, without weights: shape (n_rungs, max_leaves)."""
    splits_per_tree: Floats
    """Expected number of splits on each column."""
    linear_share: float
    """Expected share of the rows in leaves that are linear."""
    cut_probabilities: tuple[Floats, ...]
    """Expected number of splits at each candidate of each column."""
    predictions: Floats | None
    """Mean, variance of the surface and variance of the noise at the fit's points, shape (3, n)."""
    acceptance: dict[str, Floats]
    """Share of accepted proposals of each move, by rung; NaN where none was tried."""
    trace: tuple[Remembered, ...]
    n_round_trips: int
    seconds: float = 0.0
    prediction_r_hat: float = float("nan")
    """How far the chains' predictions are apart, in predictive deviations: sqrt(1 + gap^2); NaN for one chain."""
    map_rows: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Draws of the parameters given the tree `map_leaves` chooses, at k = 1: shape (n, record length)."""

    @property
    def map_leaves(self) -> int:
        """The number of leaves of the largest posterior probability among those whose best tree is known."""
        known = np.flatnonzero(self.best_values > -np.inf)
        mass = np.zeros(len(self.best_values))
        mass[: len(self.leaf_probabilities)] = self.leaf_probabilities[: len(mass)]
        mass[-1] += self.leaf_probabilities[len(mass) :].sum()
        return int(known[np.argmax(mass[known])]) + 1


def mbar_shares(sums: RungSums, traces: Sequence[Remembered], schedule: Schedule, edges: Floats) -> Floats:
    """Return the share of each stretch of energies by MBAR, normalisers from the remembered energies.

    The sums are weighted as if the pseudo-prior were exactly 1 / Z and visits even. What MBAR finds instead is a
    smooth factor of the energy near 1, taken at each stretch's mean energy.
    """
    energy = np.concatenate([t.energy for t in traces])
    rung = np.concatenate([t.rung for t in traces])
    k = schedule.ladder.inverse_temperatures
    fit = mbar(energy, k, rung)
    visits = np.bincount(rung, minlength=len(k))
    with np.errstate(divide="ignore"):
        offsets = np.log(visits) - fit.log_normalisers
    where = np.searchsorted(edges, energy)
    count = np.bincount(where, minlength=len(edges) + 1)
    middle = np.append(edges, edges[-1])
    centre = np.where(count > 0, np.bincount(where, energy, len(edges) + 1) / np.maximum(count, 1), middle)
    log_joint = np.multiply.outer(centre, k)
    factor = logsumexp(log_joint + schedule.log_pseudo_prior, axis=1) - logsumexp(log_joint + offsets, axis=1)
    log_share = sums.log_sum + factor
    return np.asarray(np.exp(log_share - logsumexp(log_share)))


def shares_of(rule: str, sums: RungSums, traces: Sequence[Remembered], ladder: Ladder) -> Floats:
    """Return each rung's share by the named rule; what needs single draws takes them from the traces."""
    if rule == "mbar":
        raise EstimatorError(
            "The rule 'mbar' must be named before the draws are summed, but was not. "
            "Fit TreedGP(tempering=Tempering(rule='mbar'))."
        )

    def pareto_k() -> Floats:
        log_weights = np.concatenate([t.log_weight for t in traces])
        return pareto_k_per_rung(log_weights, np.concatenate([t.rung for t in traces]), len(ladder))

    def autocorrelation() -> Floats:
        length = min(len(t.energy) for t in traces)
        energy = np.stack([t.energy[:length] for t in traces])
        return ess_of_autocorrelation_per_rung(energy, np.stack([t.rung[:length] for t in traces]), len(ladder))

    return shares_by(rule, RungStatistics(sums, pareto_k, autocorrelation))


def rung_sums(sums: Sequence[Sums]) -> RungSums:
    """Merge the sums of weights of several chains."""
    n_strata = len(sums[0].total)
    merged = RungSums.empty(n_strata)
    for one in sums:
        with np.errstate(divide="ignore"):
            log_sum = one.peak[:, 0] + np.log(one.total[:, 0])
            log_squares = 2 * one.peak[:, 0] + np.log(one.squares)
        merged = merged.merge(RungSums(one.n_in_row, log_sum, log_squares))
    return merged


def sums_of_traces(sums: Sequence[Sums], traces: Sequence[Remembered], n_rungs: int) -> RungSums:
    """Return the sums of weights by rung of the remembered draws, with the number of all draws."""
    log_weight = np.concatenate([t.log_weight for t in traces])
    rung = np.concatenate([t.rung for t in traces])
    seen = RungSums.from_log_weights(log_weight, rung, n_rungs)
    n_draws = np.sum([one.n_draws for one in sums], axis=0)
    log_scale = np.log(np.maximum(n_draws, 1) / np.maximum(seen.n_draws, 1))
    return RungSums(n_draws, seen.log_sum + log_scale, seen.log_sum_of_squares + log_scale)


def weighted_means(sums: Sequence[Sums], name: str, column: int, shares: Floats) -> Floats:
    """Return sum_i lambda_i (weighted mean of a quantity on rung i, over all chains): Eq. 5."""
    peak = np.max([one.peak[:, column] for one in sums], axis=0)
    shift = np.where(peak > -np.inf, peak, 0.0)
    totals = np.zeros(len(peak))
    values = np.zeros_like(getattr(sums[0], name))
    for one in sums:
        factor = np.exp(one.peak[:, column] - shift)
        totals += factor * one.total[:, column]
        values += factor.reshape(-1, *[1] * (values.ndim - 1)) * getattr(one, name)
    used = (shares > 0) & (totals > 0)
    scaled = np.where(used, shares, 0.0) / shares[used].sum()
    weights = np.divide(scaled, totals, out=np.zeros_like(scaled), where=used)
    return np.asarray(np.tensordot(weights, values, axes=1))


def keep_trees(sums: Sequence[Sums], merged: RungSums, shares: Floats, n_kept: int, rng: np.random.Generator) -> Floats:
    """Draw equally weighted trees: rungs by their shares (systematic), chains by their weight on the rung."""
    positions = (np.arange(n_kept) + rng.random()) / n_kept
    rungs = np.minimum(np.searchsorted(np.cumsum(shares), positions), len(shares) - 1)
    rows = []
    used: dict[tuple[int, int], int] = {}
    for rung in rungs:
        with np.errstate(divide="ignore"):
            log_w = np.array([one.peak[rung, 0] + np.log(one.total[rung, 0]) for one in sums])
        p = np.exp(log_w - merged.log_sum[rung])
        chain = int(rng.choice(len(sums), p=p / p.sum()))
        slot = used.get((int(rung), chain), 0)
        used[int(rung), chain] = slot + 1
        kept = sums[chain].kept[rung]
        rows.append(kept[slot % len(kept)])
    return np.array(rows)


def combine(
    chains: Sequence[Chain],
    traces: Sequence[Remembered],
    schedule: Schedule,
    edges: Floats,
    rule: str,
    n_kept: int,
    rng: np.random.Generator,
) -> Posterior:
    """Combine all rungs of all chains."""
    sums = [chain.sums for chain in chains]
    merged = rung_sums(sums)
    ladder = schedule.ladder
    if edges.size:
        shares, by_rung = mbar_shares(merged, traces, schedule, edges), sums_of_traces(sums, traces, len(ladder))
    else:
        shares, by_rung = shares_of("cold_only" if rule == "mbar" else rule, merged, traces, ladder), merged
    state = chains[0].state
    leaves, splits, linear, cuts = split_features(weighted_means(sums, "features", 0, shares), state)
    counters = np.sum([chain.state.counters for chain in chains], axis=0)
    with np.errstate(invalid="ignore"):
        accepted = {name: counters[:, i, 1] / counters[:, i, 0] for i, name in enumerate(MOVES)}
    best_rows, best_values = best_trees(sums)
    return Posterior(
        ladder=ladder,
        log_pseudo_prior=schedule.log_pseudo_prior,
        rule=rule,
        sums=by_rung,
        shares=shares,
        combined_ess=combined_ess(merged, shares),
        rows=keep_trees(sums, merged, shares, n_kept, rng),
        best_rows=best_rows,
        best_values=best_values,
        leaf_probabilities=leaves,
        leaf_probabilities_by_rung=_by_rung(traces, len(ladder), len(leaves)),
        splits_per_tree=splits,
        linear_share=linear,
        cut_probabilities=cuts,
        predictions=_predictions(sums, shares),
        acceptance=accepted,
        trace=tuple(traces),
        n_round_trips=sum(t.n_round_trips for t in traces),
    )


def best_trees(sums: Sequence[Sums]) -> tuple[Floats, Floats]:
    """Return the best tree of each number of leaves over all chains, and its log posterior density."""
    values = np.stack([one.best_value for one in sums])
    chain = np.argmax(values, axis=0)
    rows = np.stack([sums[c].best[i] for i, c in enumerate(chain)])
    return rows, values.max(axis=0)


def split_features(features: Floats, state: State) -> tuple[Floats, Floats, float, tuple[Floats, ...]]:
    """Take the vector of features apart: leaves, splits by column, linear share, cuts by column."""
    n_leaves, n_columns = int(state.integer[MAX_LEAVES]), len(state.n_cuts)
    rest = features[n_leaves + n_columns + 1 :]
    cuts = tuple(np.split(rest, np.cumsum(state.n_cuts)[:-1]))
    linear = float(features[n_leaves + n_columns])
    return features[:n_leaves], features[n_leaves : n_leaves + n_columns], linear, cuts


def _by_rung(traces: Sequence[Remembered], n_rungs: int, n_leaves: int) -> Floats:
    counts = np.zeros((n_rungs, n_leaves))
    for trace in traces:
        np.add.at(counts, (trace.rung, trace.n_leaves - 1), 1.0)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))


def _predictions(sums: Sequence[Sums], shares: Floats) -> Floats | None:
    if sums[0].predictions.shape[-1] == 0:
        return None
    mean, square, surface, noise = weighted_means(sums, "predictions", 1, shares)
    return np.stack([mean, surface + np.maximum(square - mean**2, 0.0), noise])
