"""The draws of all rounds put together, each round with the path it was run along, and weighed by MBAR.

Every term can be evaluated on every draw, references of later rounds too: no log density of the user's is called again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.engines.trace import Places, Schedule, Trace
from tempering.errors import EstimatorError
from tempering.estimators.mbar import mbar_from_terms
from tempering.estimators.mbar_result import Mbar
from tempering.learning.density_of_states import DensityOfStates
from tempering.learning.limits import DRAWS_OF_A_ROUND, ROUNDS_REMEMBERED
from tempering.path import Path, weighted_terms
from tempering.path.factored import AnyReference


@dataclass(frozen=True, eq=False)
class Stage:
    """Some draws of one round, evenly thinned, and what they were made with."""

    path: Path
    log_pseudo_prior: Floats
    values: Floats  # (draw, coordinate); no coordinates for a model object, whose states are its own
    terms: Floats  # (draw, term), of this round's path
    rung: NDArray[np.int64]
    counts: Floats | None = None  # how many draws each one counts as; None: one
    evaluated: dict[AnyReference, Floats] = field(default_factory=dict)  # log densities of the draws, once computed

    def log_density_of(self, reference: AnyReference) -> Floats:
        """Return the log density of every draw under a reference, of whichever round."""
        if reference not in self.evaluated:
            own = [i for i, other in enumerate(self.path.references) if other is reference]
            known = self.terms[:, self.path.n_own_terms + own[0]] if own else reference.log_density(self.values)
            self.evaluated[reference] = known
        return self.evaluated[reference]

    @classmethod
    def of(cls, trace: Trace, schedule: Schedule, most: int = DRAWS_OF_A_ROUND, counts: Floats | None = None) -> Stage:
        """Take a round's draws, chain after chain; those of a chain count as so many each."""
        n = trace.rung.size
        rows = np.linspace(0, n - 1, min(n, most)).astype(int)
        chain, draw = np.unravel_index(rows, trace.rung.shape)
        has_values = isinstance(trace.values, np.ndarray) and schedule.settings
        values = trace.values[chain, draw] if has_values else np.empty((rows.size, 0))
        terms, rung = trace.terms[chain, draw], trace.rung[chain, draw].astype(np.int64)
        return cls(
            schedule.path, np.asarray(schedule.log_pseudo_prior), np.asarray(values, float), terms, rung,
            None if counts is None else counts[chain],
        )  # fmt: skip

    @classmethod
    def of_known(cls, trace: Trace, path: Path, log_normalisers: Floats) -> Stage:
        """Take draws of fixed rungs, whose normalisers are known well enough to begin with."""
        rung, d = trace.rung.ravel().astype(np.int64), trace.values.shape[-1]
        values, terms = trace.values.reshape(-1, d), trace.terms.reshape(trace.rung.size, -1)
        return cls(path, _log_visits(rung, path) - log_normalisers, values, terms, rung)

    @classmethod
    def unweighted(cls, path: Path, values: Floats, terms: Floats, rung: NDArray[np.int64]) -> Stage:
        """Take draws of fixed rungs, whose normalisers are not known yet: neighbours are bridged to neighbours."""
        fit = mbar_from_terms(terms, path.coefficients, rung, path.target_coefficients, is_rough=True)
        return cls(path, _log_visits(rung, path) - fit.log_normalisers, values, terms, rung)

    def every_other(self) -> Stage:
        """Return every other of its draws, as long as some are left."""
        rows = slice(None, None, 2)
        counts = None if self.counts is None else self.counts[rows]
        return replace(
            self, values=self.values[rows], terms=self.terms[rows], rung=self.rung[rows], counts=counts, evaluated={}
        )

    def with_normalisers(self, log_normalisers: Floats) -> Stage:
        """Return the same draws with better normalisers; where there are none, those from before stay."""
        known = np.isfinite(log_normalisers) & np.isfinite(log_normalisers[self.path.target])
        better = np.where(known, log_normalisers - log_normalisers[self.path.target], self.log_normalisers)
        return replace(self, log_pseudo_prior=_log_visits(self.rung, self.path) - better)

    @cached_property
    def log_normalisers(self) -> Floats:
        """Log Z of each rung relative to the target, from how often rungs were visited."""
        log_z = _log_visits(self.rung, self.path) - self.log_pseudo_prior
        return np.asarray(log_z - log_z[self.path.target])


def _log_visits(rung: NDArray[np.int64], path: Path) -> Floats:
    """Return the log of how often each rung was visited; half a time counts as the least."""
    return np.asarray(np.log(np.maximum(np.bincount(rung, minlength=len(path.coefficients)), 0.5)))


@dataclass(frozen=True, eq=False)
class Pool:
    """The pilot, which has run all rungs, the last rounds with their stays at the target, and draws of their mixtures.

    Of rounds only the last few are remembered, for those before were further from equilibrium. Of the pilot half of
    the draws are forgotten with every round that is added: where chains have not come to since, it is all that is
    known, but modes that local moves do not cross between are as chains were started there.
    """

    pilot: Stage
    rounds: tuple[Stage, ...] = ()
    stays: tuple[Stage, ...] = ()
    ends: tuple[Stage, ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All of them."""
        return (self.pilot, *self.rounds, *self.stays, *self.ends)

    def with_round(self, drawn: Stage, stay: Stage) -> Pool:
        """Add a round and its stay at the target."""
        before = self.settled
        return replace(
            before,
            pilot=before.pilot.every_other(),
            rounds=(*before.rounds, drawn)[-ROUNDS_REMEMBERED:],
            stays=(*before.stays, stay)[-ROUNDS_REMEMBERED:],
        )

    def with_end(self, stage: Stage) -> Pool:
        """Add exact draws of a mixture."""
        settled = self.settled
        return replace(settled, ends=(*settled.ends, stage)[-ROUNDS_REMEMBERED:])

    @cached_property
    def values(self) -> Floats:
        """Positions of all draws."""
        return np.concatenate([stage.values for stage in self.stages])

    @property
    def by_halves_of_chains(self) -> NDArray[np.intp]:
        """All draws, those of the first half of every round's chains first: neighbours in a chain are alike."""
        starts = np.cumsum([0, *(len(stage.rung) for stage in self.stages)])
        middles = [(a + b) // 2 for a, b in pairwise(starts)]
        first = [np.arange(a, b) for a, b in zip(starts, middles, strict=False)]
        second = [np.arange(a, b) for a, b in zip(middles, starts[1:], strict=True)]
        return np.concatenate([*first, *second])

    @cached_property
    def own_terms(self) -> Floats:
        """The terms that do not depend on a reference."""
        return np.concatenate([stage.terms[:, : stage.path.n_own_terms] for stage in self.stages])

    @cached_property
    def log_mixture(self) -> Floats:
        """Log of the density that all draws together are drawn from, up to a constant: over what each counts as."""
        return np.where(self._fit.possible, self._fit.log_mixture - np.log(self._counts), np.inf)

    @cached_property
    def _counts(self) -> Floats:
        return np.concatenate([np.ones(len(s.rung)) if s.counts is None else s.counts for s in self.stages])

    @property
    def settled(self) -> Pool:
        """The same draws, of which is known what they told of all rungs: the next fit begins from there."""
        cuts = np.cumsum([len(stage.log_pseudo_prior) for stage in self.stages])[:-1]
        found = np.split(self._fit.log_normalisers, cuts)
        pilot, *others = (stage.with_normalisers(z) for stage, z in zip(self.stages, found, strict=True))
        n, m = len(self.rounds), len(self.rounds) + len(self.stays)
        return Pool(pilot, tuple(others[:n]), tuple(others[n:m]), tuple(others[m:]))

    @cached_property
    def _fit(self) -> Mbar:
        references = list(dict.fromkeys(q for stage in self.stages for q in stage.path.references))
        rows, rung, start, first = [], [], [], 0
        for stage in self.stages:
            rows.append(_embedded(stage.path, self.own_terms.shape[1], references))
            rung.append(stage.rung + first)
            start.append(stage.log_normalisers)
            first += len(stage.log_pseudo_prior)
        target = np.zeros(self.own_terms.shape[1] + len(references))
        return mbar_from_terms(
            self._terms_with(references), np.concatenate(rows), np.concatenate(rung), target,
            log_normalisers=np.concatenate(start), is_rough=True, counts=self._counts,
        )  # fmt: skip

    def along(self, path: Path) -> Known:
        """Say what the draws know of a path, whichever references it has."""
        return Known(path, self.values, self._terms_with(path.references), self.log_mixture)

    def _terms_with(self, references: Sequence[AnyReference]) -> Floats:
        """Return the own terms of all draws, and their log densities under references."""
        columns = [np.concatenate([stage.log_density_of(q) for stage in self.stages]) for q in references]
        return np.column_stack([self.own_terms, *columns])


def _embedded(path: Path, n_own: int, references: list[AnyReference]) -> Floats:
    """Return the coefficients of a path's rungs for the own terms and all references of all rounds."""
    rows = np.zeros((len(path.coefficients), n_own + len(references)))
    rows[:, :n_own] = path.coefficients[:, :n_own]
    for i, reference in enumerate(path.references):
        rows[:, n_own + references.index(reference)] += path.coefficients[:, n_own + i]
    return rows


@dataclass(frozen=True, eq=False)
class Known:
    """All draws with their terms along a path, and the log of the density they are drawn from."""

    path: Path
    values: Floats
    terms: Floats
    log_mixture: Floats

    def log_weights(self, coefficients: Floats) -> Floats:
        """Return the log weight of every draw towards densities with coefficients of shape (..., term)."""
        return weighted_terms(coefficients[..., np.newaxis, :], self.terms) - self.log_mixture

    def log_weights_to_mixture(self, rows: Sequence[Floats], shares: Sequence[float]) -> Floats:
        """Return the log weight of every draw towards a mixture of densities, each given by its coefficients."""
        log_w = self.log_weights(np.stack(rows))
        parts = np.log(shares)[:, np.newaxis] + log_w - logsumexp(log_w, axis=1, keepdims=True)
        return np.asarray(np.logaddexp.reduce(parts, axis=0))

    def log_normalisers(self, path: Path) -> Floats:
        """Return log Z of every rung of a path with the same terms, up to one constant."""
        return np.array([logsumexp(self.log_weights(c)) for c in path.coefficients])  # all at once would take much room

    def density_of_states(self, leg: int) -> DensityOfStates:
        """Return what is tempered along a leg, as the draws know it."""
        energy = self.path.energy(self.terms, leg)
        log_share = self.log_weights(self.path.legs[leg].end)
        kept = (energy > -np.inf) & (log_share > -np.inf)
        if not kept.any():
            raise EstimatorError("No draw lies where the target has mass: sample for longer.")
        return DensityOfStates.weighted(energy[kept], log_share[kept])

    def share_inside(self, leg: int) -> float:
        """Return the share of the density at a leg's end that lies where the target has mass."""
        energy = self.path.energy(self.terms, leg)
        log_share = self.log_weights(self.path.legs[leg].end)
        inside = logsumexp(log_share[energy > -np.inf])
        return float(np.exp(inside - logsumexp(log_share)))

    def places_on(self, path: Path, rung: NDArray[np.int64], rng: np.random.Generator) -> Places:
        """Draw one of the draws for each of some rungs of a path with the same terms, by its weight there."""
        rows = np.empty(rung.size, dtype=np.intp)
        for r in np.unique(rung):
            log_w = self.log_weights(path.coefficients[r])
            w = np.exp(log_w - np.max(log_w))
            mine = np.flatnonzero(rung == r)
            rows[mine] = rng.choice(w.size, mine.size, p=w / w.sum())
        return Places(self.values[rows], self.terms[rows])

    def edge_of_the_mixture(self, n: int, rng: np.random.Generator) -> tuple[Places, float]:
        """Draw some of the draws at which the quick end's mixture is lowest under the target; and say what share of
        the target these have.
        """
        log_ratio = self.path.log_target(self.terms) - self.terms[:, -1]
        log_ratio = np.where(np.isfinite(log_ratio) & np.isfinite(self.log_mixture), log_ratio, -np.inf)
        lowest = np.argsort(-log_ratio, kind="stable")[: max(n, len(log_ratio) // 100)]
        rows = rng.choice(lowest, n)
        log_w = self.log_weights(self.path.target_coefficients)
        share = float(np.exp(logsumexp(log_w[lowest]) - logsumexp(log_w)))
        return Places(self.values[rows], self.terms[rows]), share

    def effective(self, coefficients: Floats) -> float:
        """Return the effective number of draws towards a density, by their weights alone."""
        log_w = self.log_weights(coefficients)
        return float(np.exp(2 * logsumexp(log_w) - logsumexp(2 * log_w)))
