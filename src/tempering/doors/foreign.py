"""Draws of other samplers, in the arrays those samplers hand out, as `TemperedDraws`.

Each reader only moves axes: a row of the result is one walker (or replica) at one place of its array, in time order,
and walkers that saw each other are one ensemble, so that standard errors do not take them for independent. Where a row
stays on its rung, as in all of these, round trips cannot be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tempering.arrays import Floats
from tempering.doors.csv_draws import read_numbers
from tempering.doors.foreign_arrays import (
    check_axes,
    check_shape,
    ensembles_first,
    floats,
    from_arrays,
    named,
    steady,
    temperatures_along,
    time_last_of_three,
)
from tempering.errors import InputError
from tempering.runs.draws import TemperedDraws

__all__ = [
    "from_arrays",
    "from_blackjax_smc",
    "from_csv",
    "from_emcee",
    "from_eryn",
    "from_pigeons",
    "from_ptemcee",
    "from_tfp",
]


def from_ptemcee(
    chain: ArrayLike, log_likelihood: ArrayLike, betas: ArrayLike, *, names: Sequence[str] | None = None
) -> TemperedDraws:
    """Read ptemcee's ``sampler.chain``, ``sampler.loglikelihood`` and ``sampler.betas``.

    Parameters
    ----------
    chain : array_like, shape (temperature, walker, step, dimension)
    log_likelihood : array_like, shape (temperature, walker, step)
        Not ``logprobability``, which has the prior in it.
    betas : array_like, shape (temperature,)
        After adaptation: ptemcee must have run with ``adapt=False`` while these draws were made.
    names : sequence of str, optional
        One for each dimension; otherwise the position is called ``x``.
    """
    x, e = floats(chain, "chain"), floats(log_likelihood, "log_likelihood")
    axes = ("temperature", "walker", "step")
    k = temperatures_along(betas, e, 0, axes)
    check_axes("chain", x, 4, (*axes, "dimension"))
    check_shape("chain", x.shape[:3], axes, e.shape)
    rows = e.shape[0] * e.shape[1]
    values = named(x.reshape(rows, e.shape[2], x.shape[3]), names)
    k_rows = np.repeat(k, e.shape[1])[:, None]
    return from_arrays(values, k_rows, e.reshape(rows, -1), chains_per_ensemble=rows)


def from_eryn(
    chain: Mapping[str, ArrayLike] | ArrayLike,
    log_like: ArrayLike,
    betas: ArrayLike,
    *,
    inds: Mapping[str, ArrayLike] | None = None,
) -> TemperedDraws:
    """Read Eryn's ``get_chain()``, ``get_log_like()``, ``get_betas()`` and, for changing dimensions, ``get_inds()``.

    Parameters
    ----------
    chain : mapping of str to array_like, shape (step, temperature, walker, leaf, dimension)
        One array a branch. Values come back as (row, step, leaf, dimension).
    log_like : array_like, shape (step, temperature, walker)
    betas : array_like, shape (step, temperature) or (temperature,)
        They must not change: discard the steps in which Eryn adapted them.
    inds : mapping of str to array_like of bool, shape (step, temperature, walker, leaf), optional
        Which leaves exist; the others become NaN, and ``n_<branch>`` counts those which do.
    """
    branches = chain if isinstance(chain, Mapping) else {"x": chain}
    e = floats(log_like, "log_like")
    axes = ("step", "temperature", "walker")
    k = temperatures_along(steady(betas), e, 1, axes)
    values: dict[str, Any] = {}
    for name, array in branches.items():
        x = floats(array, "its values")
        check_axes(f"chain[{name!r}]", x, 5, (*axes, "leaf", "dimension"))
        check_shape(f"chain[{name!r}]", x.shape[:3], axes, e.shape)
        if inds is not None:
            exists = np.asarray(inds[name], dtype=bool)
            check_shape(f"inds[{name!r}]", exists.shape, (*axes, "leaf"), x.shape[:4])
            x = np.where(exists[..., None], x, np.nan)
            values[f"n_{name}"] = time_last_of_three(exists.sum(axis=-1))
        values[name] = time_last_of_three(x)
    rows = e.shape[1] * e.shape[2]
    return from_arrays(values, np.repeat(k, e.shape[2])[:, None], time_last_of_three(e), chains_per_ensemble=rows)


def from_emcee(
    chains: ArrayLike,
    energies: ArrayLike,
    inverse_temperatures: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    is_powered: bool = True,
) -> TemperedDraws:
    """Read ensembles that were run one for each inverse temperature, in emcee's order of axes.

    Parameters
    ----------
    chains : array_like, shape (temperature, step, walker, dimension)
        ``get_chain()`` of each ensemble, stacked.
    energies : array_like, shape (temperature, step, walker)
        Of what was tempered, before it was multiplied by k: ``get_log_prob() / k`` where that is the whole density.
    inverse_temperatures : array_like, shape (temperature,)
    names : sequence of str, optional
    is_powered : bool
        False where only the likelihood was tempered.
    """
    x, e = floats(chains, "chains"), floats(energies, "energies")
    axes = ("temperature", "step", "walker")
    k = temperatures_along(inverse_temperatures, e, 0, axes)
    check_axes("chains", x, 4, (*axes, "dimension"))
    check_shape("chains", x.shape[:3], axes, e.shape)
    n, steps, walkers = e.shape
    values = named(x.transpose(0, 2, 1, 3).reshape(n * walkers, steps, -1), names)
    rows = e.transpose(0, 2, 1).reshape(n * walkers, steps)
    return from_arrays(values, np.repeat(k, walkers)[:, None], rows, chains_per_ensemble=walkers, is_powered=is_powered)


def from_tfp(
    states: Mapping[str, ArrayLike] | ArrayLike,
    target_log_prob: ArrayLike,
    inverse_temperatures: ArrayLike,
    *,
    is_powered: bool = True,
) -> TemperedDraws:
    """Read a trace of TensorFlow Probability's ``ReplicaExchangeMC``.

    Parameters
    ----------
    states : mapping of str to array_like, or array_like, shape (result, replica, ...) or (result, replica, batch, ...)
        ``kernel_results.post_swap_replica_states``, traced.
    target_log_prob : array_like, shape (result, replica) or (result, replica, batch)
        Untempered log density of those states; the log likelihood where ``untempered_log_prob_fn`` kept the prior.
        Compute it from the states: ``kernel_results.potential_energy`` belongs to the states before the exchange.
    inverse_temperatures : array_like, shape (replica,) or (result, replica)
        ``kernel_results.inverse_temperatures``.
    is_powered : bool
        False with ``untempered_log_prob_fn``.
    """
    e = floats(target_log_prob, "target_log_prob")
    axes = ("result", "replica", "batch")[: e.ndim]
    k = temperatures_along(steady(inverse_temperatures), e, 1, axes)
    parts = states if isinstance(states, Mapping) else {"x": states}
    values = {}
    for name, array in parts.items():
        x = floats(array, "its values")
        check_shape(name, x.shape[: e.ndim], axes, e.shape)
        values[name] = ensembles_first(x if e.ndim == 3 else x[:, :, None])
    rows = ensembles_first(e if e.ndim == 3 else e[:, :, None])
    k_rows = np.tile(k, len(rows) // len(k))[:, None]
    return from_arrays(values, k_rows, rows, chains_per_ensemble=len(k), is_powered=is_powered)


def from_blackjax_smc(
    particles: Mapping[str, ArrayLike] | ArrayLike, tempering_param: ArrayLike, log_likelihood: ArrayLike
) -> TemperedDraws:
    """Read the states of BlackJAX's tempered SMC, stacked over its steps, the first state among them or not.

    The particles of a state were moved at the inverse temperature of the state *before*; its own weights carry them
    to the next. So they are read at the former, and the weights are ours. All steps of a population hang together:
    the standard errors see neighbours' kinship (resampling leaves siblings side by side) and no more.

    Parameters
    ----------
    particles : mapping of str to array_like, or array_like, shape (step, particle, ...)
        ``state.particles`` of every step.
    tempering_param : array_like, shape (step,)
        ``state.tempering_param`` (``lmbda`` in older versions); it rises to 1.
    log_likelihood : array_like, shape (step, particle)
        Of every particle; BlackJAX does not keep it.
    """
    e = floats(log_likelihood, "log_likelihood")
    own = temperatures_along(tempering_param, e, 0, ("step", "particle"))
    if np.any(np.diff(own) < 0):
        raise InputError(
            f"tempering_param must rise from the prior to 1, but it is {own}. Stack the states in the order they came."
        )
    moved_at = np.concatenate([[0.0], own[:-1]])
    parts = particles if isinstance(particles, Mapping) else {"x": particles}
    values = {}
    for name, array in parts.items():
        x = floats(array, "its values")
        check_shape(name, x.shape[:2], ("step", "particle"), e.shape)
        values[name] = x.reshape(1, e.size, *x.shape[2:])
    return from_arrays(values, np.repeat(moved_at, e.shape[1])[None], e.reshape(1, -1))


def from_pigeons(
    sample_array: ArrayLike,
    inverse_temperatures: ArrayLike,
    energy: Callable[[Floats], ArrayLike] | ArrayLike,
    *,
    names: Sequence[str] | None = None,
) -> TemperedDraws:
    """Read Pigeons' ``sample_array(pt)`` of a run with ``extended_traces = true``.

    Parameters
    ----------
    sample_array : array_like, shape (iteration, variable, chain)
        The last variable is the log density of the chain's own distribution and is not used: the energy cannot be
        had from it at the reference.
    inverse_temperatures : array_like, shape (chain,)
        ``pt.shared.tempering.schedule.grids``; from the reference (0) to the target (1), or in any other order.
    energy : callable, or array_like of shape (iteration, chain)
        Log target minus log reference; a function gets positions of shape (iteration, chain, variable).
    names : sequence of str, optional
        Of the variables without the log density.
    """
    a = floats(sample_array, "sample_array")
    check_axes("sample_array", a, 3, ("iteration", "variable", "chain"))
    x = a[:, :-1].transpose(0, 2, 1)
    k = temperatures_along(inverse_temperatures, x[..., 0], 1, ("iteration", "chain"))
    e = floats(energy(x) if callable(energy) else energy, "energy")
    if e.shape != x.shape[:2]:
        raise InputError(
            f"energy must have the axes (iteration, chain), {x.shape[:2]}, but has shape {e.shape}. Move its axes."
        )
    return from_arrays(named(x.swapaxes(0, 1), names), k[:, None], e.T, chains_per_ensemble=len(k))


def from_csv(
    path: str | Path,
    *,
    energy: str,
    inverse_temperature: str,
    values: Sequence[str],
    chain: str | None = None,
    is_powered: bool = True,
) -> TemperedDraws:
    """Read a CSV file with a header and one draw per row, in time order.

    Parameters
    ----------
    path : path
    energy, inverse_temperature : str
        Columns of the energy and of k.
    values : sequence of str
        Columns of the values.
    chain : str, optional
        A column that tells chains apart; they must be equally long. Without it all draws are one chain.
    is_powered : bool
        False where the energy is a log likelihood and k = 0 the prior.
    """
    columns = read_numbers(Path(path), [energy, inverse_temperature, *values, *([] if chain is None else [chain])])
    n = len(columns[energy])
    labels, first = np.unique(columns[chain] if chain is not None else np.zeros(n), return_inverse=True)
    lengths = np.bincount(first)
    if np.any(lengths != lengths[0]):
        raise InputError(
            f"Chains must be equally long, but in {path} they have {lengths.min()} to {lengths.max()} draws. Cut the "
            "longer ones, or read each chain by itself."
        )
    order = np.argsort(first, kind="stable")
    table = {name: column[order].reshape(len(labels), -1) for name, column in columns.items()}
    return from_arrays(
        {name: table[name] for name in values}, table[inverse_temperature], table[energy], is_powered=is_powered
    )
