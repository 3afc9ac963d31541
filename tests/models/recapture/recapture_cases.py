"""Slow, obvious twins and exact simulations for the mark-recapture tests."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from tempering.models.recapture.fits import Fits
from tempering.models.recapture.kernel import Kernel
from tempering.models.recapture.likelihood import LAMBDA, PHI, P, Statistics
from tempering.models.recapture.prior_draws import sample_prior
from tempering.models.recapture.spaces import ModelSpace


def forward_log_probability(codes, age, values, n_classes, tail=False, released=True):
    """Log probability of one history by the forward algorithm over (alive, newly dead, dead).

    ``values`` (3, K, A). ``codes[t + 1] = 2`` is a death reported in interval t.
    """
    n_intervals = len(codes) - 1
    start = int(np.flatnonzero(codes)[0])
    stop = n_intervals if released else int(np.flatnonzero(codes)[-1])
    alive, gone = 1.0, 0.0
    for t in range(start, stop):
        j = min(age + t - start, n_classes - 1)
        phi, p, lam = values[:, t, j]
        if tail and t == n_intervals - 1:
            p = 0.0
        code = codes[t + 1]
        dies = alive * (1 - phi)
        if code == 1:
            alive, gone = alive * phi * p, 0.0
        elif code == 2:
            alive, gone = 0.0, dies * lam
        else:
            alive, gone = alive * phi * (1 - p), gone + dies * (1 - lam)
    return np.log(alive + gone)


def all_histories(n_intervals, tail=False):
    """List every history of a bird marked at the first occasion."""
    for middle in product((0, 1, 2), repeat=n_intervals):
        dead = [t for t, code in enumerate(middle) if code == 2]
        if dead and (len(dead) > 1 or any(middle[dead[0] + 1 :])):
            continue
        if tail and middle[-1] == 1:
            continue
        yield (1, *middle)


def simulate(rng, values, n_chicks):
    """Draw sufficient statistics of ``n_chicks`` marked each year, for many parameter tables (R, 3, K, A)."""
    n_replicates, _, n_intervals, n_classes = values.shape
    seen, missed, recovered, vanished = np.zeros((4, n_replicates, n_intervals, n_classes))
    for start in range(n_intervals):
        shape = (n_replicates, n_chicks)
        alive, met_again, last = np.ones(shape, bool), np.ones(shape, bool), np.full(shape, start)
        for t in range(start, n_intervals):
            phi, p, lam = (values[:, q, t, min(t - start, n_classes - 1), None] for q in (PHI, P, LAMBDA))
            survives = rng.random(shape) < phi
            sighted = alive & survives & (rng.random(shape) < p)
            found = alive & ~survives & (rng.random(shape) < lam)
            for u in range(start, t):
                missed[:, u, min(u - start, n_classes - 1)] += ((sighted | found) & (last <= u)).sum(axis=1)
            seen[:, t, min(t - start, n_classes - 1)] += sighted.sum(axis=1)
            recovered[:, t, min(t - start, n_classes - 1)] += found.sum(axis=1)
            last = np.where(sighted, t + 1, last)
            met_again &= ~found
            alive &= survives
        for u in range(start, n_intervals):
            vanished[:, u, min(u - start, n_classes - 1)] += (met_again & (last == u)).sum(axis=1)
    ones = np.stack([seen + missed, seen, recovered], axis=1)
    zeros = np.stack([recovered, missed, np.zeros_like(seen)], axis=1)
    return Statistics(ones, zeros, vanished)


def chick_cells(n_intervals, n_classes):
    """Cells that exist when only chicks are marked, every year. Shape (3, K, A)."""
    return np.broadcast_to(np.arange(n_intervals)[:, None] >= np.arange(n_classes), (3, n_intervals, n_classes))


def rough_fits(n_intervals, n_classes, strength=6.0):
    """Pseudo-counts that fit nothing well: exactness must not depend on them."""
    rng = np.random.default_rng(5)
    timed = strength * rng.random((2, 3, 2**n_classes, n_intervals))
    return Fits(timed, 2 * strength * rng.random((2, 3, 2**n_classes)))


def small_kernel(space=None, n_intervals=4, fitted_share=0.5, sigma=0.2):
    """A kernel on a small design where every kind of move is accepted often."""
    space = space or ModelSpace(3)
    cells = chick_cells(n_intervals, space.n_classes)
    fits = rough_fits(n_intervals, space.n_classes)
    return Kernel(space, cells, np.zeros_like(cells), fits, fitted_share, fitted_share, sigma)


def prior_states(kernel, n_replicates, seed):
    """Draw states from the prior, with an empty data set."""
    nothing = Statistics(*(jnp.zeros(s) for s in ((3, *kernel.cells.shape[1:]),) * 2 + (kernel.cells.shape[1:],)))
    keys = jax.random.split(jax.random.key(seed), n_replicates)
    return jax.jit(jax.vmap(lambda key: sample_prior(kernel, key, nothing)))(keys)


def empty_statistics(n_intervals, n_classes):
    """No birds at all: the likelihood is 1."""
    shape = (n_intervals, n_classes)
    return Statistics(jnp.zeros((3, *shape)), jnp.zeros((3, *shape)), jnp.zeros(shape))


def model_codes(state, n_classes):
    """Codes of the structures, as a model records them."""
    bits = (np.asarray(state.timed) << np.arange(n_classes)).sum(axis=-1)
    return (np.asarray(state.partition) << n_classes) + bits
