"""What chains of either kind have found: inclusion probabilities, coefficients, models, evidence, with errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.errors import EstimatorError
from tempering.estimators import Estimate, standard_error_of_sum
from tempering.estimators.combine import Weighting, estimate_rungs
from tempering.estimators.rung_draws import RungDraws
from tempering.informed.run import Verdict, verdict_of, weigh
from tempering.models.variable_selection.chains import ChainResult

Model = tuple[int, ...]


class FoundModel(NamedTuple):
    """A model, its posterior probability with standard error, and its log prior x marginal likelihood."""

    columns: Model
    probability: float
    standard_error: float
    log_posterior: float


@dataclass(frozen=True, eq=False)
class SelectionPosterior:
    """Weighted draws of models from chains that never reject.

    Attributes
    ----------
    inclusion, coefficients : Estimate
        Of all columns, shape (p,) each; coefficients are averaged over models, zero where a column is out.
    coefficient_squares : ndarray, shape (p,)
        Posterior means of the squared coefficients.
    log_weights, energy, log_prior : ndarray, shape (chain, draw)
        The log weight towards the posterior, log marginal likelihood and log prior of every draw.
    rung : ndarray of int, shape (chain, draw)
    model_id : ndarray of int, shape (chain, draw)
        Equal for draws of one model.
    size : ndarray of int, shape (chain, draw)
    inclusion_by_chain : ndarray, shape (chain, p)
    n_rungs : int
    rule : str
        How rungs are combined.
    """

    inclusion: Estimate
    coefficients: Estimate
    coefficient_squares: Floats
    log_weights: Floats
    energy: Floats
    log_prior: Floats
    rung: NDArray[np.intp]
    model_id: NDArray[np.intp]
    size: NDArray[np.intp]
    first_draws: NDArray[np.intp]  # flat index of the first draw of each model
    models_at: Callable[[NDArray[np.intp]], list[Model]]  # at flat indices of draws
    inclusion_by_chain: Floats
    n_rungs: int
    rule: str

    def expect(self, values: ArrayLike) -> Estimate:
        """Estimate the posterior mean of a number per draw, shape (chain, draw) first."""
        return estimate_rungs(self.seen, values, self.weighing)

    @cached_property
    def seen(self) -> RungDraws:
        """The draws as the estimators see them."""
        return seen_by_weights(self.log_weights, self.rung, self.n_rungs)

    @cached_property
    def weighing(self) -> Weighting:
        """Weights of the draws and shares of the rungs."""
        return weigh(self.seen, self.rule)

    @property
    def weights(self) -> Floats:
        """Weight of every draw, summing to one, shape (chain, draw)."""
        return self.weighing.weights

    @property
    def ess(self) -> float:
        """Effective sample size of the weights alone."""
        return self.weighing.ess

    @cached_property
    def size_probabilities(self) -> Floats:
        """Posterior probabilities of 0, 1, 2, ... columns."""
        return np.asarray(np.bincount(self.size.ravel(), self.weights.ravel()), dtype=np.float64)

    def diagnose(self) -> Verdict:
        """Say in words whether the run can be trusted."""
        return verdict_of(self.seen, self.energy, self.weights, self.inclusion_by_chain)

    def best_models(self, n: int = 10) -> list[FoundModel]:
        """Return the models of the largest posterior probability.

        Ratios between models are known exactly; only the scale, the evidence, is estimated.
        """
        evidence = self.log_evidence()
        found = []
        for i in np.argsort(-self._log_posterior, kind="stable")[:n]:
            log_posterior = float(self._log_posterior[i])
            probability = float(min(np.exp(log_posterior - float(evidence.value)), 1.0))
            error = probability * float(evidence.standard_error)
            found.append(FoundModel(self.model(int(i)), probability, error, log_posterior))
        return found

    def log_evidence(self) -> Estimate:
        """Return the log of the sum over all models of prior x marginal likelihood.

        The sum over a set of models is exact, and the draws know the set's share of the posterior. One half of the
        draws chooses the set, the other half weighs it: chosen and weighed by the same draws, it would look too heavy.
        The sum over all models met is a lower bound: with it probabilities of models never add up to more than one.
        """
        first, second = self._halves()
        values, errors = [], []
        for choosing, weighing in ((first, second), (second, first)):
            chosen = self._heavy_models(self.model_id[choosing])
            is_chosen = np.zeros(len(self.first_draws), dtype=bool)
            is_chosen[chosen] = True
            half = seen_by_weights(self.log_weights[weighing], self.rung[weighing], self.n_rungs)
            share = estimate_rungs(half, is_chosen[self.model_id[weighing]], weigh(half, self.rule))
            mass = float(share.value)
            if not mass > 0.0:
                raise EstimatorError(
                    "The two halves of the draws have no model in common, so that no model's probability can be "
                    "estimated. Run longer."
                )
            values.append(float(logsumexp(self._log_posterior[chosen])) - np.log(mass))
            errors.append(float(share.standard_error) / mass)
        value = max(float(np.mean(values)), float(logsumexp(self._log_posterior)))
        return Estimate(value, float(np.linalg.norm(errors) / 2))

    def _halves(self) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        n_chains, n_draws = self.rung.shape
        if n_chains > 1:
            return (slice(0, n_chains // 2), slice(None)), (slice(n_chains // 2, None), slice(None))
        return (slice(None), slice(0, n_draws // 2)), (slice(None), slice(n_draws // 2, None))

    def _heavy_models(self, ids: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the best of some models, those with half of their posterior mass; a set of all would have no error."""
        seen = np.unique(ids)
        seen = seen[np.argsort(-self._log_posterior[seen], kind="stable")]
        mass = np.cumsum(np.exp(self._log_posterior[seen] - self._log_posterior[seen[0]]))
        return np.asarray(seen[: int(np.searchsorted(mass, 0.5 * mass[-1])) + 1])

    def model(self, model_id: int) -> Model:
        """Return the columns of a model."""
        return self.models_at(self.first_draws[[model_id]])[0]

    def sample_models(self, n: int, rng: np.random.Generator) -> list[Model]:
        """Draw n models from the posterior: a weighted resample of the draws."""
        cumulative = np.cumsum(self.weights.ravel())
        at = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
        return self.models_at(np.minimum(at, cumulative.size - 1))

    @cached_property
    def _log_posterior(self) -> Floats:
        """Log prior x marginal likelihood of each model."""
        return np.asarray((self.energy + self.log_prior).ravel()[self.first_draws])


def seen_by_weights(log_weights: Floats, rung: NDArray[np.intp], n_rungs: int) -> RungDraws:
    """Return draws of which the weights are known, as the estimators see them."""
    return RungDraws(rung, n_rungs, None, None, log_weights, chains_per_ensemble=1, batch_length=None)


def replayed(starts: Sequence[Model], flipped: NDArray[np.int32], index: NDArray[np.intp]) -> list[Model]:
    """Return the models at some flat indices of draws (chain, draw), from where chains started and what they flipped.

    Each chain is gone through once, up to the last draw asked for.
    """
    n = flipped.shape[1]
    found: dict[int, Model] = {}
    for chain in np.unique(index // n):
        inside, done = set(starts[chain]), 0
        for t in np.unique(index[index // n == chain] % n):
            for j in flipped[chain, done:t].tolist():
                inside ^= {j}
            done = int(t)
            found[int(chain) * n + done] = tuple(sorted(inside))
    return [found[int(i)] for i in index]


def posterior_of(results: Sequence[ChainResult], inverse_temperatures: Floats, rule: str) -> SelectionPosterior:
    """Put the chains of the compiled loop together."""
    k = np.asarray(inverse_temperatures, dtype=np.float64)
    rung = np.stack([r.trace.rung for r in results]).astype(np.intp)
    energy = np.stack([r.trace.energy for r in results])
    log_weights = (1.0 - k[rung]) * energy - np.stack([r.trace.log_total for r in results])
    shares = weigh(seen_by_weights(log_weights, rung, k.size), rule).shares
    keys = np.stack([r.trace.key for r in results])
    _, first, ids = np.unique(keys, return_index=True, return_inverse=True)
    inside, mean, square, by_chain = _averages(results, shares)
    return SelectionPosterior(
        inclusion=inside,
        coefficients=mean,
        coefficient_squares=square,
        log_weights=log_weights,
        energy=energy,
        log_prior=np.stack([r.trace.log_prior for r in results]),
        rung=rung,
        model_id=ids.reshape(keys.shape),
        size=np.stack([r.trace.size for r in results]).astype(np.intp),
        first_draws=first,
        models_at=partial(replayed, [r.start for r in results], np.stack([r.trace.flipped for r in results])),
        inclusion_by_chain=by_chain,
        n_rungs=k.size,
        rule=rule,
    )


def _averages(results: Sequence[ChainResult], shares: Floats) -> tuple[Estimate, Estimate, Floats, Floats]:
    """Return inclusion, coefficients, their squares, and inclusion by chain: ratios of sums, errors by batches."""
    scale = np.max([r.sums.log_scale for r in results], axis=0)
    scale = np.where(np.isfinite(scale), scale, 0.0)  # of a rung that no chain has visited
    put = [np.exp(r.sums.log_scale - scale) for r in results]
    weight = np.stack([f[:, None] * r.sums.weight for f, r in zip(put, results, strict=True)])  # (chain, rung, batch)
    per_rung = np.where(shares > 0, shares / np.maximum(weight.sum(axis=(0, 2)), 1e-300), 0.0)  # lambda_i / W_i
    estimates, by_chain = [], np.zeros(0)
    own = np.einsum("r,crb->cb", per_rung, weight)
    for name in ("inside", "mean"):
        parts = [np.einsum("r,rbj->bj", per_rung * f, getattr(r.sums, name)) for f, r in zip(put, results, strict=True)]
        sums = np.stack(parts)  # (chain, batch, column)
        value = sums.sum(axis=(0, 1))
        influence = sums - own[..., None] * value
        if name == "inside":
            by_chain = sums.sum(axis=1) / np.maximum(own.sum(axis=1), 1e-300)[:, None]
        # a batch is one draw to the estimator of the error, which joins as many as correlation asks for
        estimates.append(Estimate(value, standard_error_of_sum(influence)))
    square = sum(np.einsum("r,rj->j", per_rung * f, r.sums.square) for f, r in zip(put, results, strict=True))
    return estimates[0], estimates[1], np.asarray(square), by_chain
