r"""MBAR: weights per draw from the mixture of all states, normalisers estimated on the way.

The balance heuristic (Eqs. 7 and 8) without its obstacle, the unknown normalisers: Shirts & Chodera (2008),
Geyer (1994), Kong et al. (2003). Tempered draws need no model call: all log densities are k * energy, and
every weight is a function of that one number, so that the equations are solved on a grid of energies.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints, as_inverse_temperatures, as_log, as_rung, count_rungs
from tempering.estimators.energy_grid import EnergyNodes, stand_in_nodes
from tempering.estimators.mbar_result import Mbar
from tempering.estimators.mixture import (
    LOWEST,
    TemperedDensities,
    TermDensities,
    bridge_states,
    finite_terms,
    fit_offsets,
    log_mixture,
)

DRAWS_TO_START_FROM = 2000  # per state: bridges good to a few hundredths, which is all that Newton needs
GOLDEN = (np.sqrt(5) - 1) / 2


def mbar(energy: ArrayLike, inverse_temperatures: ArrayLike, rung: ArrayLike) -> Mbar:
    r"""Estimate the normalisers of all rungs at once, and weights for every draw.

    .. math:: Z_j = \sum_t \frac{e^{k_j E_t}}{\sum_r T_r Z_r^{-1} e^{k_r E_t}}

    Parameters
    ----------
    energy : array_like, shape (draw,) or (chain, draw)
        Energy of each draw, in time order. Minus infinity is allowed at k = 0; elsewhere such a draw cannot
        have occurred, and it is given no weight.
    inverse_temperatures : array_like, shape (n_states,)
        k of each state, in any order. States may repeat, and need not be visited: the ladders of several
        rounds may simply be strung together.
    rung : array_like of int, shape (draw,) or (chain, draw)
        The state each draw came from.

    Returns
    -------
    Mbar

    Examples
    --------
    Draws from N(0, 1/k), that is from the powers of a standard normal density, with Z(k) = (2 pi / k)^(1/2):

    >>> rng, k = np.random.default_rng(1), np.array([1.0, 0.5, 0.2])
    >>> rung = np.repeat([0, 1, 2], 10_000)
    >>> fit = mbar(-0.5 * (rng.normal(size=30_000) / np.sqrt(k[rung])) ** 2, k, rung)
    >>> bool(np.all(np.abs(fit.log_normalisers + 0.5 * np.log(k)) < 0.03))
    True
    """
    k = as_inverse_temperatures(inverse_temperatures)
    rung = np.ascontiguousarray(as_rung(rung))
    count_rungs(rung, k.size)
    e = as_log("energy", energy, rung.shape).ravel()
    negative, state_of_rung = np.unique(-k, return_inverse=True)  # from cold to hot
    unique = 0.0 - negative
    is_own = np.array_equal(state_of_rung, np.arange(k.size))
    state = rung.ravel() if is_own else state_of_rung[rung.ravel()]
    possible = e > -np.inf
    if not possible.all():
        possible |= unique[state] == 0.0
        e = np.where(possible, e, np.max(e, initial=0.0, where=possible))
    n_draws, visited = _count(state, possible.astype(np.float64), unique.size)
    nodes = stand_in_nodes(e, float(k.max()) or 1.0)
    some = _some_draws(state, possible, visited, n_draws)
    counted = possible.astype(np.float64)
    node_weights = nodes.scatter(counted)
    offsets = _fit_nodes(e, unique[visited], n_draws[visited], nodes, node_weights, some)
    if nodes.is_exact:
        on_nodes = TemperedDensities(unique[visited], nodes.node_energy)
        mixture = nodes.gather(log_mixture(on_nodes, offsets, node_weights.size))
    else:  # the nodes are too coarse: once more on the draws, from there
        on_draws = TemperedDensities(unique[visited], e)
        offsets = fit_offsets(on_draws, counted, n_draws[visited], offsets)
        mixture = log_mixture(on_draws, offsets, e.size)
    return Mbar(
        rung=rung,
        state_of_rung=state_of_rung,
        possible=possible,
        n_draws=n_draws,
        log_offsets=_spread(offsets, visited, unique.size),
        log_mixture=mixture,
        nodes=nodes,
        node_weights=node_weights,
        densities=TemperedDensities(unique, nodes.node_energy),
    )


def _fit_nodes(
    energy: Floats, k: Floats, n_draws: Floats, nodes: EnergyNodes, node_weights: Floats, some_draws: list[Ints]
) -> Floats:
    """Return the offsets of the visited states, solved on the nodes."""

    def difference(a: int, b: int, draws: Ints) -> Floats:
        return np.asarray((k[b] - k[a]) * energy[draws])

    start = bridge_states(difference, some_draws, n_draws)
    return fit_offsets(TemperedDensities(k, nodes.node_energy), node_weights, n_draws, start)


def mbar_from_matrix(log_density_kn: ArrayLike, rung: ArrayLike) -> Mbar:
    """Do the same for draws of any kind, from all log densities at all draws.

    Parameters
    ----------
    log_density_kn : array_like, shape (n_states, draw) or (n_states, chain, draw)
        Log density, up to a constant per state, of each state at each draw; minus infinity outside its
        support.
    rung : array_like of int, shape (draw,) or (chain, draw)
        The state each draw came from.

    Returns
    -------
    Mbar
    """
    matrix = np.asarray(log_density_kn, dtype=np.float64)
    as_log("log_density_kn", matrix, (*matrix.shape[:1], *as_rung(rung).shape))
    one_each = np.eye(len(matrix))  # every state's density is a term of its own
    return mbar_from_terms(np.moveaxis(matrix, 0, -1), one_each, rung, one_each[0])


def mbar_from_terms(
    terms: ArrayLike,
    coefficients: ArrayLike,
    rung: ArrayLike,
    target: ArrayLike,
    *,
    log_normalisers: ArrayLike | None = None,
    is_rough: bool = False,
    counts: ArrayLike | None = None,
) -> Mbar:
    """Do the same for draws along any path, whose rungs are log pi_r = c_r . t.

    Parameters
    ----------
    terms : array_like, shape (draw, term) or (chain, draw, term)
        The terms of each draw; minus infinity where it is outside the support of one.
    coefficients : array_like, shape (n_states, term)
        Of every state, not negative.
    rung : array_like of int, shape (draw,) or (chain, draw)
        The state each draw came from.
    target : array_like, shape (term,)
        Coefficients of the target that `Mbar.log_weights` leads to.
    log_normalisers : array_like, shape (n_states,), optional
        To start from; by default states are bridged in the order in which they come, neighbours to neighbours.
    is_rough : bool
        Take what a few steps of Newton's method lead to.
    counts : array_like, shape (draw,), optional
        How many draws each one counts as, positive; one by default.

    Returns
    -------
    Mbar

    Examples
    --------
    >>> rng, k = np.random.default_rng(1), np.array([1.0, 0.5])
    >>> rung = np.repeat([0, 1], 5000)
    >>> terms = -0.5 * (rng.normal(size=(10_000, 1)) / np.sqrt(k[rung])[:, None]) ** 2
    >>> fit = mbar_from_terms(terms, k[:, None], rung, [1.0])
    >>> bool(abs(fit.log_normalisers[1] - 0.5 * np.log(2.0)) < 0.03)
    True
    """
    rung = np.ascontiguousarray(as_rung(rung))
    c = np.asarray(coefficients, dtype=np.float64)
    count_rungs(rung, len(c))
    t = np.asarray(terms, dtype=np.float64)
    as_log("terms", t, (*rung.shape, c.shape[1]))
    flat, state = finite_terms(t.reshape(-1, c.shape[1])), rung.ravel()
    own = np.einsum("ij,ij->i", c[state], flat)
    possible = own > LOWEST * 1e-9
    counted = possible.astype(np.float64) if counts is None else np.where(possible, np.asarray(counts, float), 0.0)
    n_draws, visited = _count(state, counted, len(c))
    densities = TermDensities(c[visited], flat, np.asarray(target, dtype=np.float64))

    if log_normalisers is None:
        start = _bridged(densities, _some_draws(state, possible, visited, n_draws), n_draws[visited])
    else:
        start = np.log(n_draws[visited]) - np.asarray(log_normalisers, dtype=np.float64)[visited]
    if not is_rough and counts is None:
        start = _fit_thinned(densities, possible, n_draws[visited], start)
    offsets = fit_offsets(densities, counted, n_draws[visited], start, is_rough=is_rough)
    return Mbar(
        rung=rung,
        state_of_rung=np.arange(len(c)),
        possible=possible,
        n_draws=n_draws,
        log_offsets=_spread(offsets, visited, len(c)),
        log_mixture=log_mixture(densities, offsets, state.size),
        nodes=EnergyNodes(np.zeros(state.size), None, np.empty(0, np.intp), True),
        node_weights=counted,
        densities=TermDensities(c, flat, densities.target),
    )


def _bridged(densities: TermDensities, some_draws: list[Ints], n_draws: Floats) -> Floats:
    """Return offsets to start from, of states bridged in the order in which they come."""

    def difference(a: int, b: int, draws: Ints) -> Floats:
        found = densities.terms[draws] @ (densities.coefficients[b] - densities.coefficients[a])
        return np.asarray(np.where(np.abs(found) > -LOWEST * 1e-9, np.copysign(np.inf, found), found))

    return bridge_states(difference, some_draws, n_draws)


def _fit_thinned(densities: TermDensities, possible: NDArray[np.bool_], n_draws: Floats, start: Floats) -> Floats:
    """Return offsets fitted to some of the draws, if there are many: Newton's method is then near its end."""
    n = len(densities.terms)
    every = n // (DRAWS_TO_START_FROM * 16)
    if every < 2:
        return start
    rows = np.arange(0, n, every)[possible[::every]]
    thinned = TermDensities(densities.coefficients, densities.terms[rows], densities.target)
    # each state's draws are about as many as its share: what is fitted are the offsets, whatever the thinning
    expected = n_draws * (rows.size / n_draws.sum())
    shift = np.log(expected / n_draws)
    try:
        return np.asarray(fit_offsets(thinned, np.ones(rows.size), expected, start + shift) - shift)
    except EstimatorError:
        return start


def _count(state: Ints, counted: Floats, n_states: int) -> tuple[Floats, Ints]:
    """Return the number of usable draws of each state, and the states that have some."""
    n_draws: Floats = np.bincount(state, counted, n_states).astype(np.float64)
    visited = np.flatnonzero(n_draws)
    if visited.size == 0:
        raise EstimatorError(
            f"At least one draw must have positive density under its own rung, but none of {state.size} has. "
            f"Check that energy and rung belong to the same draws."
        )
    return n_draws, visited


def _spread(offsets: Floats, visited: Ints, n_states: int) -> Floats:
    """Return offsets of all states: minus infinity for those without draws, which are no part of the
    mixture.
    """
    spread = np.full(n_states, -np.inf)
    spread[visited] = offsets
    return spread


def _some_draws(state: Ints, possible: NDArray[np.bool_], visited: Ints, n_draws: Floats) -> list[Ints]:
    """Return indices of some draws of each visited state, spread evenly whatever the period of the states."""
    wanted = DRAWS_TO_START_FROM * visited.size
    if state.size > 2 * wanted:
        sample = (np.arange(wanted) * GOLDEN % 1.0 * state.size).astype(np.intp)
    else:
        sample = np.arange(state.size)
    sample = sample[possible[sample]]
    some = [sample[state[sample] == j] for j in visited]
    for position, j in enumerate(visited):
        if some[position].size < min(n_draws[j], DRAWS_TO_START_FROM / 10):
            some[position] = np.flatnonzero((state == j) & possible)[:DRAWS_TO_START_FROM]
    return some
