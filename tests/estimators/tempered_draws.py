"""Draws whose truth is known, and strategies for draws of any kind: shared by the tests of the estimators."""

import numpy as np
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.special import ndtr

UNEVEN = np.array([1.0, 0.8, 0.55, 0.3])  # a ladder
OCCUPANCY = np.array([0.2, 0.35, 0.25, 0.2])


def normal_draws(rng, k, n_draws, dimension=1, mean=1.0):
    """Draw iid from powers of exp(-|x - mean|^2 / 2): values, energy, rung; Z(k) ~ k^(-dimension / 2)."""
    k = np.asarray(k)
    rung = rng.integers(0, k.size, n_draws)
    noise = rng.normal(size=(n_draws, dimension)) / np.sqrt(k[rung])[:, None]
    return mean + noise, -0.5 * np.sum(noise**2, axis=1), rung


def ar1(rng, rho, shape):
    """Draw stationary AR(1) series with unit variance along the last axis."""
    innovation = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    innovation[..., 0] /= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], innovation, axis=-1)


def correlated_draws(rng, n_chains, n_draws, rho=0.8, rung_rho=0.9):
    """Draw N(1, 1/k) at rungs that wander slowly and unevenly: values, energy, rung; E x = 1, E x^2 = 2."""
    rung = np.searchsorted(np.cumsum(OCCUPANCY)[:-1], ndtr(ar1(rng, rung_rho, (n_chains, n_draws))))
    noise = ar1(rng, rho, (n_chains, n_draws)) / np.sqrt(UNEVEN[rung])
    return 1.0 + noise, -0.5 * noise**2, rung


log_weight = st.one_of(st.floats(-30, 30), st.just(-np.inf), st.floats(-5000, 5000))


@st.composite
def weighted_rungs(draw, minimum_per_rung=0, elements=log_weight):
    """Draw log weights and rungs, some rungs perhaps empty, at least one weight positive."""
    parts = draw(st.lists(st.lists(elements, min_size=minimum_per_rung, max_size=12), min_size=1, max_size=5))
    rung = np.concatenate([np.full(len(part), i) for i, part in enumerate(parts)]).astype(int)
    log_weights = np.array([w for part in parts for w in part])
    if not np.any(log_weights > -np.inf):
        rung, log_weights = np.append(rung, 0), np.append(log_weights, 0.0)
    order = draw(st.permutations(range(rung.size)))
    return log_weights[list(order)], rung[list(order)], len(parts)
