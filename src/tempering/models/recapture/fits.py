"""A Beta law for every value a model may have, fitted before sampling.

Given the rest, the likelihood of one value is close to v^s (1 - v)^f. The pseudo-counts s and f are found
for every set of classes, by interval and without time dependence, from the mode and the curvature of the
likelihood on the logit scale, the rest standing at a smoothed fit. At inverse temperature k the value then
has about the law Beta(a + k s, b + k f), which at k = 0 is the prior itself. Wrong fits cost acceptances,
never exactness.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from tempering.models.recapture.groups import Groups
from tempering.models.recapture.likelihood import Statistics, log_likelihood

Array = Any

SPREAD_IN_TIME = 0.7  # logit; how far the smoothed fit lets a year stray from its class
SPREAD_OF_CLASSES = 2.0  # logit; a weak prior on the class means, wider than any plausible value
NEWTON_STEPS = 10
DIFFERENCE = 1e-3  # error h^2 and |log L| 1e-16 / h^2: both far below a pseudo-count


class Fits(NamedTuple):
    """Pseudo-counts for each parameter and set of classes (as bits).

    ``timed`` (2, 3, 2^A, K), by interval; ``constant`` (2, 3, 2^A); first successes, then failures.
    """

    timed: Array
    constant: Array


def fit_values(data: Statistics, cells: Array, held: Array) -> Fits:
    """Fit all values; ``cells`` (3, K, A) are those that exist and ``held`` those that are 0."""
    n_intervals, n_classes = cells.shape[1:]
    sets = (np.arange(2**n_classes)[:, None] >> np.arange(n_classes) & 1).astype(bool)
    one_interval = np.eye(n_intervals, dtype=bool)[:, :, None] & sets[:, None, None, :]
    always = np.broadcast_to(sets[:, None, None, :], (2**n_classes, 1, n_intervals, n_classes))
    chosen = np.concatenate([one_interval, always], axis=1)
    with jax.enable_x64(True):
        centre = _smoothed_fit(data, cells, held)
        log_likelihoods = _profile(data, centre)
        flat = chosen.reshape(-1, n_intervals, n_classes)
        counts = [_pseudo_counts(log_likelihoods, centre, flat & cells[q], q) for q in range(3)]
    table = np.stack(counts, axis=1).reshape(2, 3, 2**n_classes, n_intervals + 1)
    return Fits(table[..., :-1], table[..., -1])


def shapes_of(fits: Fits, shape: Array, k: Array, group: Groups) -> tuple[Array, Array]:
    """Return the two parameters of the fitted Beta law in every cell ``(K, A)`` of one parameter.

    ``fits`` are that parameter's: (2, 2^A, K) and (2, 2^A); ``shape`` is its prior's.
    """
    timed = jnp.swapaxes(fits.timed[:, group.code], 1, 2)
    constant = fits.constant[:, group.code][:, None, :]
    pseudo = jnp.where(group.timed, timed, constant)
    return shape[0] + k * pseudo[0], shape[1] + k * pseudo[1]


def _smoothed_fit(data: Statistics, cells: Array, held: Array) -> Array:
    """Return logits ``(3, K, A)`` that maximise the likelihood with years shrunk towards their class."""
    shape = cells.shape

    def unpack(x: Array) -> tuple[Array, Array]:
        means = x[: 3 * shape[2]].reshape(3, 1, shape[2])
        return means, x[3 * shape[2] :].reshape(shape) * SPREAD_IN_TIME

    def objective(x: Array) -> Array:
        means, effects = unpack(x)
        values = jnp.where(held, 0.0, jax.nn.sigmoid(means + effects))
        penalty = jnp.sum(x[3 * shape[2] :] ** 2) / 2 + jnp.sum((means / SPREAD_OF_CLASSES) ** 2) / 2
        return penalty - log_likelihood(data, values)

    value_and_gradient = jax.jit(jax.value_and_grad(objective))
    start = np.zeros(3 * shape[2] + int(np.prod(shape)))

    def evaluate(x: Array) -> tuple[float, Array]:
        value, gradient = value_and_gradient(x)
        return float(value), np.asarray(gradient, float)

    best = minimize(evaluate, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    means, effects = unpack(jnp.asarray(best.x))
    return np.where(held, -np.inf, np.asarray(means + effects))


def _profile(data: Statistics, centre: Array) -> Any:
    """Return the function (x, cells, q) -> log L with one logit x in the chosen cells, for many at once."""

    def one(x: Array, which: Array, q: Array) -> Array:
        chosen = (jnp.arange(3) == q)[:, None, None] & which
        return log_likelihood(data, jax.nn.sigmoid(jnp.where(chosen, x, centre)))

    return jax.jit(jax.vmap(one, in_axes=(0, 0, None)))


def _pseudo_counts(log_likelihoods: Any, centre: Array, chosen: Array, q: int) -> Array:
    """Return (s, f) for each set of cells ``chosen`` (n, K, A) of parameter ``q`` sharing one value. Shape
    (2, n).

    Newton's method on log L + log v(1 - v) with central differences; a set without cells has the flat
    likelihood: mode 0, curvature 1/2, no pseudo-counts.
    """

    def along(x: Array) -> Array:
        return np.asarray(log_likelihoods(x, chosen, q)) - np.logaddexp(0, x) - np.logaddexp(0, -x)

    mode = np.where(chosen, centre[q], 0.0).sum(axis=(1, 2)) / np.maximum(chosen.sum(axis=(1, 2)), 1)
    for _ in range(NEWTON_STEPS):
        here, up, down = along(mode), along(mode + DIFFERENCE), along(mode - DIFFERENCE)
        curvature = np.maximum(-(up - 2 * here + down) / DIFFERENCE**2, 0.05)
        mode = np.clip(mode + np.clip((up - down) / (2 * DIFFERENCE) / curvature, -1, 1), -12, 12)
    v = 1 / (1 + np.exp(-mode))
    total = curvature / (v * (1 - v))
    return np.maximum(np.stack([total * v - 1, total * (1 - v) - 1]), 0.0)
