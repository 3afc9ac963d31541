"""Update every free value of a model once, leaving prior x likelihood^k invariant (section 5.1 moves).

Values that vary with time go interval by interval. A bird is in one class at a time, so the groups of an
interval touch different birds: given all other intervals they are independent, and all are moved at once,
exactly. A cell of interval t enters chi of an earlier cell s as chi_s = alpha_s + beta_s chi_t, alpha and
beta being carried along. Values without time dependence go one by one, each with a full recursion.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from tempering.models.recapture.groups import Groups
from tempering.models.recapture.likelihood import Statistics, affine_parts, never_met

Array = Any


class Sources(NamedTuple):
    """The cells that birds can vanish from, and where such a bird would be in each interval.

    ``cell`` (S, 2), interval and class; ``place`` (K, S), its class in interval t; ``entered`` (K, S),
    whether the cell is not later than t; ``member`` (K, S, A), both as an indicator.
    """

    cell: Array
    place: Array
    entered: Array
    member: Array


class Walk(NamedTuple):
    """Random-walk proposals of a sweep, all ``(3, K, A)``: new values, and log uniforms to decide with."""

    proposed: Array
    log_uniform: Array


def sources(active: Array) -> Sources:
    """Follow each active cell ``(K, A)`` through time."""
    n_intervals, n_classes = active.shape
    cell = np.argwhere(active)
    t = np.arange(n_intervals)[:, None]
    place = np.clip(cell[:, 1] + t - cell[:, 0], 0, n_classes - 1)
    entered = t >= cell[:, 0]
    member = (place[:, :, None] == np.arange(n_classes)) & entered[:, :, None]
    return Sources(cell, place, entered, member.astype(float))


def log_prior_ratio(shapes: Array, new: Array, old: Array) -> Array:
    """Return log Beta(new) - log Beta(old) in each cell; ``shapes`` is (3, 2)."""
    a, b = shapes[:, 0, None, None], shapes[:, 1, None, None]
    return (a - 1) * (jnp.log(new) - jnp.log(old)) + (b - 1) * (jnp.log1p(-new) - jnp.log1p(-old))


def propose(uniform: Array, values: Array, widths: Array, groups: list[Groups]) -> Walk:
    """Propose v + width * U(-1, 1); classes of a group and years of a constant move together.

    ``uniform`` is (2, 3, K, A).
    """
    step, decide = (jnp.stack([g.shared(u) for g, u in zip(groups, half, strict=True)]) for half in uniform)
    return Walk(values + widths * (2 * step - 1), jnp.log(decide))


def sweep_timed(
    data: Statistics,
    src: Sources,
    shapes: Array | None,
    k: Array,
    values: Array,
    walk: Walk,
    groups: list[Groups],
) -> Array:
    """Move all values that vary with time, from the first interval to the last."""
    inside = (walk.proposed > 0) & (walk.proposed < 1)
    moving = jnp.stack([g.timed & g.exists for g in groups]) & inside
    new, old = jnp.where(moving, walk.proposed, 0.5), jnp.where(moving, values, 0.5)
    log_odds = data.ones * (jnp.log(new) - jnp.log(old)) + data.zeros * (jnp.log1p(-new) - jnp.log1p(-old))
    known = k * jnp.stack([g.total(x) for g, x in zip(groups, log_odds, strict=True)]) - walk.log_uniform
    if shapes is not None:
        known = known + log_prior_ratio(shapes, new, old)
    chi = never_met(values)
    after = jnp.concatenate([chi[1:], jnp.ones_like(chi[:1])])
    after = jnp.concatenate([after[:, 1:], after[:, -1:]], axis=1)
    vanished = data.vanished[src.cell[:, 0], src.cell[:, 1]]

    def interval(carry: Any, x: Any) -> Any:
        alpha, beta, current = carry
        now, trial, can, bonus, follow, place, entered, member = x

        def log_chi(v: Array) -> Array:
            a, b = affine_parts(v)
            return jnp.log(jnp.where(entered, alpha + beta * _pick(a + b * follow, place), 1.0))

        for q, group in enumerate(groups):
            moved = now.at[q].set(jnp.where(can[q], trial[q], now[q]))
            candidate = log_chi(moved)
            gain = group.total((vanished * (candidate - current)) @ member)
            accepted = group.of_youngest(can[q] & (k * gain + bonus[q] > 0))
            now = jnp.where(accepted, moved, now)
            current = jnp.where(_pick(accepted, place) & entered, candidate, current)
        a, b = affine_parts(now)
        step_alpha, step_beta = alpha + beta * _pick(a, place), beta * _pick(b, place)
        alpha, beta = jnp.where(entered, step_alpha, alpha), jnp.where(entered, step_beta, beta)
        return (alpha, beta, current), now

    by_interval = [jnp.swapaxes(x, 0, 1) for x in (values, walk.proposed, moving, known)]
    start = (jnp.zeros_like(vanished), jnp.ones_like(vanished), jnp.log(chi[src.cell[:, 0], src.cell[:, 1]]))
    _, moved = jax.lax.scan(interval, start, (*by_interval, after, src.place, src.entered, src.member))
    return jnp.swapaxes(moved, 0, 1)


def _pick(by_class: Array, place: Array) -> Array:
    """Return ``by_class[place]`` by selections: faster than a gather."""
    out = by_class[-1]
    for j in range(by_class.shape[0] - 1):
        out = jnp.where(place == j, by_class[j], out)
    return out


def sweep_constant(
    data: Statistics,
    held: Array,
    shapes: Array | None,
    k: Array,
    values: Array,
    walk: Walk,
    groups: list[Groups],
) -> Array:
    """Move the values without time dependence, one after the other."""
    same = jnp.stack([g.same for g in groups])
    turn = jnp.stack([g.is_youngest & ~g.timed for g in groups])
    n_ones = jnp.stack([g.total(x.sum(axis=0)) for g, x in zip(groups, data.ones, strict=True)])
    n_zeros = jnp.stack([g.total(x.sum(axis=0)) for g, x in zip(groups, data.zeros, strict=True)])
    old, new = values[:, 0, :], walk.proposed[:, 0, :]
    allowed = turn & (new > 0) & (new < 1)
    new, old = jnp.where(allowed, new, 0.5), jnp.where(allowed, old, 0.5)
    known = (
        k * (n_ones * (jnp.log(new) - jnp.log(old)) + n_zeros * (jnp.log1p(-new) - jnp.log1p(-old)))
        - walk.log_uniform[:, 0, :]
    )
    if shapes is not None:
        known = known + log_prior_ratio(shapes, new[:, None], old[:, None])[:, 0]

    def one(carry: Any, place: Any) -> Any:
        table, part = carry
        q, j = place
        chosen = (jnp.arange(3) == q)[:, None] & same[q, j] & allowed[q, j]
        moved = jnp.where(chosen[:, None, :] & ~held, new[q, j], table)
        candidate = jnp.sum(xlogy(data.vanished, never_met(moved)))
        accepted = k * (candidate - part) + known[q, j] > 0
        return (jnp.where(accepted, moved, table), jnp.where(accepted, candidate, part)), None

    places = np.argwhere(~held.all(axis=1)).T
    start = jnp.sum(xlogy(data.vanished, never_met(values)))
    (values, _), _ = jax.lax.scan(one, (values, start), tuple(places))
    return values
