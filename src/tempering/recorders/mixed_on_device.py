"""Sums of two legs on an accelerator, made where the draws are: those of `MixedSums.from_draws` and `sums_of_trace`.

Draws stay on the device, a block at a time, and only sums travel: with thousands of chains the sums of a trace in NumPy
take ten times as long as the chains.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.compiling.devices import platform_in_use
from tempering.compiling.programs import jitted
from tempering.engines.trace import Schedule
from tempering.estimators.mixture import LOWEST
from tempering.estimators.regeneration import FROM_COLD, FROM_HOT, TourWeights
from tempering.estimators.running.mixed import MixedBatch, MixedSums, RungMixture
from tempering.estimators.running.quantiles import N_VALUES, value_bin
from tempering.estimators.running.rungs import Quantities, groups_of
from tempering.recorders.index_sums import IndexSums


class SoFar(NamedTuple):
    """Sums of a stretch as they are added to."""

    table: Any  # (group, rung, column): of 1, p(s | x), p(T | x) h and p(T | x)^2, by the rung of the draw
    sketch: Any  # (quantity, rung, value)
    tours: Any  # (first, current, between, squares, has_end), each of shape (chain,)
    exchanges: Any  # (rung, 2)
    moves: Any  # (rung, simple kernel, 2)
    seen: Any  # (chain,): which end each chain saw last
    n_round_trips: Any


class Known(NamedTuple):
    """What is frozen while draws are summed, as arrays."""

    coefficients: Any
    log_pseudo_prior: Any
    target: Any
    far_end: Any
    ends: Any  # rungs on which tours end
    centre: Any
    scale: Any

    @classmethod
    def of(cls, schedule: Schedule, quantities: Quantities) -> Known:
        """Collect it."""
        path = schedule.path
        return cls(
            path.coefficients, schedule.log_pseudo_prior, path.target, path.far_end, np.array(path.ends, np.int32),
            quantities.centre, quantities.scale,
        )  # fmt: skip


def is_where_draws_are_summed() -> bool:
    """Whether JAX runs on an accelerator: a processor sums traces as fast, and compiles nothing for it."""
    return platform_in_use() != "cpu"


def nothing_yet(seen: Any, schedule: Schedule, quantities: Quantities, n_parts: int) -> SoFar:
    """Return the sums at the start of a stretch of chains that have seen these ends."""
    n, m, q = len(seen), len(schedule.path), quantities.size
    return SoFar(
        np.zeros((groups_of(n, n_parts), m, 2 + m + q)),
        np.zeros((q, m, N_VALUES)),
        (*np.zeros((4, n)), np.zeros(n, bool)),
        np.zeros((m, 2)),
        np.zeros((m, max(1, len(schedule.settings)), 2)),
        np.asarray(seen, np.int8),
        np.int64(0),  # of the type it will have: the program is compiled once
    )


@lru_cache(maxsize=32)
def build_add(evaluate: Callable[[Any], Any], *, is_lifted: bool) -> Any:
    """Compile ``add(so_far, outputs, before, n, known)``: the first ``n`` rows of a block's outputs are summed.

    ``before`` are the rungs from which the first row came; ``evaluate`` gives the quantities of recorded values.
    """

    def add(so_far: SoFar, outputs: Any, before: Any, n: Any, known: Known) -> SoFar:
        def row(i: Any, carry: tuple[SoFar, Any]) -> tuple[SoFar, Any]:
            recorded, terms, rung, proposed, acceptance = jax.tree.map(lambda a: a[i], outputs)
            sums, before = carry
            h = (evaluate(recorded) - known.centre) / known.scale
            chance = jax.nn.softmax(jnp.maximum(terms, LOWEST) @ known.coefficients.T + known.log_pseudo_prior)
            weight = chance[:, known.target]
            ends = _tour_ends(before, rung, proposed, known.ends, is_lifted=is_lifted)
            seen, arrived = _ends_seen(sums.seen, rung, known.target, known.far_end)
            exchanges, moves = _index(sums, before, rung, proposed, acceptance)
            added = SoFar(
                sums.table + _table(sums.table.shape, rung, chance, weight, h),
                sums.sketch.at[jnp.arange(h.shape[1]), rung[:, None], value_bin(jnp, h)].add(weight[:, None]),
                _followed(sums.tours, weight, ends),
                exchanges,
                moves,
                seen,
                sums.n_round_trips + arrived,
            )
            return added, rung

        return jax.lax.fori_loop(0, n, row, (so_far, before))[0]  # type: ignore[no-any-return]

    return jitted(add)


def _table(shape: tuple[int, ...], rung: Any, chance: Any, weight: Any, h: Any) -> Any:
    """Return the sums of every column over the chains of each group on each rung."""
    n_groups, m, _ = shape
    by_rung = (rung[:, None] == jnp.arange(m)).astype(chance.dtype).reshape(n_groups, -1, m)
    one, w = jnp.ones((len(rung), 1)), weight[:, None]
    columns = jnp.concatenate([one, chance, w * h, w**2], axis=1).reshape(n_groups, -1, shape[2])
    return jnp.einsum("gcr,gck->grk", by_rung, columns, precision=jax.lax.Precision.HIGHEST)


def _tour_ends(before: Any, rung: Any, proposed: Any, ends: Any, *, is_lifted: bool) -> Any:
    """See `tempering.estimators.regeneration.tour_ends`."""
    at = rung[:, None] == ends
    if is_lifted:
        at &= (before[:, None] == ends) & (proposed[:, None] == ends)
    return at.any(axis=1)


def _followed(tours: Any, weight: Any, ends: Any) -> Any:
    """Add a draw to the tour of each chain, and close those that end with it."""
    first, current, between, squares, has_end = tours
    current = current + weight
    inner = jnp.where(ends & has_end, current, 0.0)
    first = jnp.where(ends & ~has_end, current, first)
    return first, jnp.where(ends, 0.0, current), between + inner, squares + inner**2, has_end | ends


def _ends_seen(seen: Any, rung: Any, cold: Any, hot: Any) -> tuple[Any, Any]:
    """See `tempering.estimators.regeneration.round_trips`."""
    at_cold, at_hot, has_far = rung == cold, rung == hot, cold != hot
    arrived = jnp.sum(at_cold & (seen == FROM_HOT)) * has_far
    after = jnp.where(at_cold, FROM_COLD, jnp.where(at_hot & (seen > 0), FROM_HOT, seen))
    return (after * has_far).astype(seen.dtype), arrived


def _index(sums: SoFar, before: Any, rung: Any, proposed: Any, acceptance: Any) -> tuple[Any, Any]:
    """Add what was tried between rungs, and on each."""
    m = len(sums.exchanges)

    def at(rungs: Any) -> Any:
        return (rungs[:, None] == jnp.arange(m)).astype(sums.exchanges.dtype)

    tried = (proposed != before).astype(sums.exchanges.dtype)
    exchanges = at(jnp.minimum(before, proposed)).T @ jnp.stack([tried, tried * (rung == proposed)], axis=1)
    known = ~jnp.isnan(acceptance)
    of_rung = at(before).T
    share = jnp.where(known, acceptance, 0.0).astype(sums.moves.dtype)
    moves = jnp.stack([of_rung @ known.astype(sums.moves.dtype), of_rung @ share], axis=-1)
    return sums.exchanges + exchanges, sums.moves + moves


def sums_of(so_far: SoFar, n: int, schedule: Schedule, quantities: Quantities) -> tuple[MixedSums, IndexSums]:
    """Bring the sums of a stretch of ``n`` iterations over."""
    found = jax.tree.map(partial(np.asarray), so_far)
    path, m, table = schedule.path, len(schedule.path), found.table[:, np.newaxis]
    batch = MixedBatch(table[..., 0], table[..., 1 : 1 + m], table[..., 1 + m : -1])
    first, current, between, squares, has_end = found.tours
    tours = TourWeights(np.where(has_end, first, current), np.where(has_end, current, 0.0), between, squares, has_end)
    mixture = RungMixture(path.coefficients, schedule.log_pseudo_prior, path.target)
    mixed = MixedSums(mixture, quantities, table[..., -1].sum((0, 1)), found.sketch, batch, np.array([n]), tours)
    return mixed, IndexSums(found.exchanges, found.moves, int(found.n_round_trips), n)
