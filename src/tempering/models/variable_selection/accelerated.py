"""The same chains on an accelerator: many in lockstep by JAX, all flips of all chains from one product of matrices.

Memory is O(n p) for the data and O(p) for each chain; no row of the Gram matrix is kept. A step multiplies the n x p
columns by one vector per chain, which reads the columns once for all chains together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.estimators import Estimate
from tempering.models.variable_selection.problem import LinearProblem

BLOCK = 128  # columns per block when one is picked: the sums of blocks first, then one block
STEPS_A_CALL = 500  # then everything is computed afresh, as after `factor.REFRESH` flips


class Lanes(NamedTuple):
    """All chains, leading axis chain; a slot without a column holds -1."""

    members: Any  # (chain, slot)
    inverse: Any  # (chain, slot, slot)
    coefficients: Any  # (chain, slot)
    is_in: Any  # (chain, p)
    schur: Any  # (chain, p)
    cross: Any  # (chain, p)
    rss: Any  # (chain,)


class Fixed(NamedTuple):
    """The data and the prior on the device."""

    columns: Any  # (p, n)
    squares: Any
    cross: Any
    total: Any
    ridge: Any
    log_slab: Any
    log_odds: Any


@dataclass(frozen=True, eq=False)
class AcceleratedResult:
    """Inclusion probabilities with errors between chains, seconds from data to answer, mean number of columns."""

    inclusion: Estimate
    seconds: float
    mean_size: float
    by_chain: Floats


def run_accelerated(
    problem: LinearProblem,
    *,
    chains: int = 64,
    draws: int = 2_000,
    tune: int = 500,
    slots: int = 64,
    explore: float = 5.0,
    rng: int = 0,
) -> AcceleratedResult:
    """Run weighted tempered Gibbs, k = 1, on JAX's default device.

    Parameters
    ----------
    problem : LinearProblem
        With an independent slab, no forced columns and no heredity.
    chains, draws, tune : int
        Chains in lockstep; jumps of each that are kept, and before them.
    slots : int
        Largest number of columns in a model.
    explore : float
        As in `ChainPlan`.
    rng : int

    Returns
    -------
    AcceleratedResult
    """
    if problem.slab.kind != "independent" or problem.forced or problem.heredity != "none":
        raise InputError(
            "An accelerator cannot run a g-prior, a dense slab, forced columns or heredity. Use VariableSelection."
        )
    import time

    started = time.perf_counter()
    with jax.enable_x64(True):
        fixed, p = _fixed(problem)
        lanes = _empty(fixed, chains, slots)
        # the data are an argument: as a constant of the program they would be copied and folded by the compiler
        block = jax.jit(
            partial(_run_block, partial(_step, problem, p, explore)), static_argnums=4, donate_argnums=(1, 2)
        )
        again = jax.jit(_afresh)
        sums = (jax.numpy.zeros((chains, len(fixed.squares))), jax.numpy.zeros((chains, 2)), jax.numpy.zeros(()))
        key = jax.random.key(rng)
        done = 0
        while done < tune + draws:
            n = min(STEPS_A_CALL, (tune if done < tune else tune + draws) - done)
            key, sub = jax.random.split(key)
            lanes, sums, log_totals = block(fixed, lanes, sums, sub, n)
            lanes = again(fixed, lanes)
            done += n
            if done == tune:  # weights are over the typical one from here on
                sums = (0.0 * sums[0], 0.0 * sums[1], jax.numpy.median(log_totals))
        inside, weight = np.asarray(sums[0])[:, :p], np.asarray(sums[1])
    return _answer(inside, weight, time.perf_counter() - started)


def _answer(inside: Floats, weight: Floats, seconds: float) -> AcceleratedResult:
    """Return probabilities from each chain's sums of weighted indicators, and of weights and weighted sizes."""
    chains = len(inside)
    value = inside.sum(axis=0) / weight[:, 0].sum()
    influence = (inside - weight[:, :1] * value) / weight[:, 0].sum()
    error = np.sqrt(np.sum(influence**2, axis=0) * chains / max(chains - 1, 1))
    mean_size = float(weight[:, 1].sum() / weight[:, 0].sum())
    return AcceleratedResult(Estimate(value, error), seconds, mean_size, inside / weight[:, :1])


def _fixed(problem: LinearProblem) -> tuple[Fixed, int]:
    """Put the data on the device, columns of zeros added to fill the last block."""
    data, p = problem.data, problem.n_columns
    more = -p % BLOCK
    pad = partial(np.pad, pad_width=(0, more))
    fixed = Fixed(
        jnp.asarray(np.pad(data.columns, ((0, more), (0, 0)))),
        jnp.asarray(pad(data.squares)),
        jnp.asarray(pad(data.cross)),
        jnp.asarray(data.total),
        jnp.asarray(pad(data.ridge, constant_values=1.0)),
        jnp.asarray(pad(np.log(data.ridge))),
        jnp.asarray(problem.model_prior.log_odds),
    )
    return fixed, p


def _empty(fixed: Fixed, chains: int, slots: int) -> Lanes:
    p = len(fixed.squares)
    wide = jnp.ones((chains, 1))
    return Lanes(
        jnp.full((chains, slots), -1),
        jnp.zeros((chains, slots, slots)),
        jnp.zeros((chains, slots)),
        jnp.zeros((chains, p), dtype=bool),
        wide * (fixed.squares + fixed.ridge),
        wide * fixed.cross,
        jnp.full(chains, fixed.total),
    )


def _log_odds(fixed: Fixed, problem: LinearProblem, p: int, lanes: Lanes) -> Any:
    """Return log odds of all columns given the others, (chain, p)."""
    noise = problem.noise_model
    drop = lanes.cross**2 / lanes.schur
    rss = jnp.maximum(lanes.rss, 0.0)[:, None]
    if noise.is_known:
        gain = 0.5 * drop / noise.variance
    else:
        without = noise.twice_rate + rss + jnp.where(lanes.is_in, drop, 0.0)
        gain = -noise.kappa * jnp.log(jnp.maximum(1.0 - drop / without, 1e-300))
    size = jnp.sum(lanes.members >= 0, axis=1)
    last = len(fixed.log_odds) - 1
    within = fixed.log_odds[jnp.clip(size - 1, 0, last)][:, None]
    without_it = jnp.where(size < lanes.members.shape[1], fixed.log_odds[jnp.clip(size, 0, last)], -jnp.inf)[:, None]
    odds = gain - 0.5 * (jnp.log(lanes.schur) - fixed.log_slab) + jnp.where(lanes.is_in, within, without_it)
    return jnp.where(jnp.arange(odds.shape[1]) < p, odds, -jnp.inf)


def _step(problem: LinearProblem, p: int, explore: float, fixed: Fixed, lanes: Lanes, sums: Any, key: Any) -> Any:
    """Weigh where the chains are, then flip one column of each."""
    odds = _log_odds(fixed, problem, p, lanes)
    inside = jax.nn.sigmoid(odds)
    towards = jnp.where(lanes.is_in, -odds, odds)
    log_rates = jnp.logaddexp(0.0, towards) + jnp.log(inside + explore / p)
    log_rates = jnp.where(towards > -jnp.inf, log_rates, -jnp.inf)
    top = jnp.max(log_rates, axis=1, keepdims=True)
    rates = jnp.exp(log_rates - top)
    chosen, total = _pick(rates, jax.random.uniform(key, (2, len(rates))))
    log_total = jnp.log(total) + top[:, 0]
    weight = jnp.exp(jnp.minimum(sums[2] - log_total, 300.0))
    size = jnp.sum(lanes.members >= 0, axis=1)
    here = jnp.stack([weight, weight * size], axis=1)
    sums = (sums[0] + weight[:, None] * inside, sums[1] + here, sums[2])
    return _flip(fixed, lanes, chosen), sums, log_total


def _pick(rates: Any, uniform: Any) -> tuple[Any, Any]:
    """Pick a column in each chain in proportion to the rates: a block by its sum, then one of its columns."""
    chains = len(rates)
    blocks = rates.reshape(chains, -1, BLOCK)
    heights = jnp.cumsum(jnp.sum(blocks, axis=2), axis=1)
    block = _search(heights, uniform[0])
    within = jnp.cumsum(jnp.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0], axis=1)
    return block * BLOCK + _search(within, uniform[1]), heights[:, -1]


def _search(heights: Any, uniform: Any) -> Any:
    """Return the first place where the cumulative sum is above a uniform share of the last."""
    return jnp.argmax(heights > (uniform * heights[:, -1])[:, None], axis=1)


def _flip(fixed: Fixed, lanes: Lanes, j: Any) -> Lanes:
    """Put column j of each chain in or take it out; both are one rank-one change with opposite signs."""
    at = jnp.arange(len(j))
    leaving = lanes.is_in[at, j]
    slot = jnp.where(leaving, jnp.argmax(lanes.members == j[:, None], axis=1), jnp.argmax(lanes.members < 0, axis=1))
    used = lanes.members >= 0
    chosen = jnp.where(used[:, :, None], fixed.columns[jnp.maximum(lanes.members, 0)], 0.0)  # (chain, slot, n)
    column = fixed.columns[j]
    here = jnp.arange(used.shape[1]) == slot[:, None]
    near = jnp.einsum("csn,cn->cs", chosen, column)
    entering = jnp.where(here, 1.0, -jnp.einsum("cst,ct->cs", lanes.inverse, near))
    pivot = lanes.inverse[at, slot, slot]
    going = lanes.inverse[at, :, slot] / jnp.where(leaving, pivot, 1.0)[:, None]
    u = jnp.where(leaving[:, None], going, entering)
    rest = jnp.einsum("cs,csn->cn", u, chosen) + jnp.where(leaving[:, None], 0.0, column)
    schur = jnp.where(leaving, 1.0 / jnp.where(leaving, pivot, 1.0), lanes.schur[at, j])
    cross = jnp.where(leaving, lanes.coefficients[at, slot] * schur, lanes.cross[at, j])
    sign = jnp.where(leaving, -1.0, 1.0)
    v = rest @ fixed.columns.T
    inverse = lanes.inverse + (sign / schur)[:, None, None] * u[:, :, None] * u[:, None, :]
    coefficients = lanes.coefficients + (sign * cross / schur)[:, None] * u
    gone = here & leaving[:, None]
    inverse = jnp.where(gone[:, :, None] | gone[:, None, :], 0.0, inverse)
    members = jnp.where(here, jnp.where(leaving, -1, j)[:, None], lanes.members)
    moved = lanes._replace(
        members=members,
        inverse=inverse,
        coefficients=jnp.where(gone, 0.0, coefficients),
        is_in=lanes.is_in.at[at, j].set(~leaving),
        schur=(lanes.schur - (sign / schur)[:, None] * v**2).at[at, j].set(schur),
        cross=(lanes.cross - (sign * cross / schur)[:, None] * v).at[at, j].set(cross),
        rss=lanes.rss - sign * cross**2 / schur,
    )
    return _see_members(moved, fixed)


def _see_members(lanes: Lanes, fixed: Fixed) -> Lanes:
    """Write what each member adds to the others; no column's Schur complement is below its ridge."""
    at = jnp.arange(len(lanes.members))[:, None]
    used = lanes.members >= 0
    index = jnp.where(used, lanes.members, lanes.schur.shape[1])  # out of bounds: dropped
    diagonal = jnp.where(used, jnp.diagonal(lanes.inverse, axis1=1, axis2=2), 1.0)
    schur = jnp.maximum(lanes.schur, fixed.ridge).at[at, index].set(1.0 / diagonal, mode="drop")
    cross = lanes.cross.at[at, index].set(lanes.coefficients / diagonal, mode="drop")
    return lanes._replace(schur=schur, cross=cross)


def _run_block(step: Any, fixed: Fixed, lanes: Lanes, sums: Any, key: Any, n: int) -> Any:
    def body(carry: Any, one: Any) -> Any:
        lanes, sums, log_total = step(fixed, carry[0], carry[1], one)
        return (lanes, sums), log_total

    (lanes, sums), log_totals = jax.lax.scan(body, (lanes, sums), jax.random.split(key, n))
    return lanes, sums, log_totals[-1]


def _afresh(fixed: Fixed, lanes: Lanes) -> Lanes:
    """Compute everything again from the members, chain by chain: rounding does not pile up."""

    def one(members: Any) -> Any:
        used = members >= 0
        at = jnp.maximum(members, 0)
        chosen = jnp.where(used[:, None], fixed.columns[at], 0.0)
        precision = chosen @ chosen.T + jnp.diag(jnp.where(used, fixed.ridge[at], 1.0))
        inverse = jnp.where(used[:, None] & used[None, :], jnp.linalg.inv(precision), 0.0)
        near = jnp.where(used, fixed.cross[at], 0.0)
        coefficients = inverse @ near
        rows = chosen @ fixed.columns.T  # (slot, p)
        schur = fixed.squares + fixed.ridge - jnp.sum(rows * (inverse @ rows), axis=0)
        return inverse, coefficients, schur, fixed.cross - coefficients @ rows, fixed.total - near @ coefficients

    inverse, coefficients, schur, cross, rss = jax.lax.map(one, lanes.members)
    fresh = lanes._replace(inverse=inverse, coefficients=coefficients, schur=schur, cross=cross, rss=rss)
    return _see_members(fresh, fixed)
