"""A BridgeStan model as a target: its gradient is used, and draws come back under the names of the Stan program."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.target.gradients import WithGradient


def density_of_stan(model: Any) -> WithGradient:
    """Return the model's log density with its gradient; what the Stan program rejects has density zero."""
    return WithGradient(partial(_log_density, model), partial(_log_density_gradient, model))


def _log_density(model: Any, x: Any) -> float:
    try:
        return float(model.log_density(x))
    except RuntimeError:  # Stan's own samplers take an exception of the model for a rejection
        return -np.inf


def _log_density_gradient(model: Any, x: Any) -> tuple[float, NDArray[np.float64]]:
    try:
        value, gradient = model.log_density_gradient(x)
    except RuntimeError:
        return -np.inf, np.zeros(np.shape(x))
    return float(value), np.asarray(gradient)


def constrain_by_stan(model: Any) -> Callable[[Any], dict[str, NDArray[np.float64]]]:
    """Return a function from unconstrained positions, leading axes (chain, draw), to arrays by the program's names."""
    return partial(_constrained, model)


def _constrained(model: Any, positions: Any) -> dict[str, NDArray[np.float64]]:
    x = np.asarray(positions, dtype=float)
    rows = [model.param_constrain(np.ascontiguousarray(row), include_tp=True) for row in x.reshape(-1, x.shape[-1])]
    flat = np.reshape(rows, (*x.shape[:-1], -1))
    return {
        name: flat[..., columns].reshape(*x.shape[:-1], *shape)
        for name, columns, shape in _variables(model.param_names(include_tp=True))
    }


def _variables(names: list[str]) -> list[tuple[str, NDArray[np.intp], tuple[int, ...]]]:
    """Group ``theta.1``, ``theta.2``, ... : names, the columns of each in C order, and shapes. Stan counts from 1."""
    places: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    for column, whole in enumerate(names):
        name, *indices = re.split(r"[.:]", whole)  # a colon comes before the parts of a tuple
        places.setdefault(name, []).append((tuple(int(i) for i in indices if i.isdigit()), column))
    found = []
    for name, entries in places.items():
        entries.sort()  # the last index fastest; Stan writes the first fastest
        found.append((name, np.array([column for _, column in entries]), _shape([index for index, _ in entries])))
    return found


def _shape(indices: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that indices fill; the parts of a tuple, which fill none, are one row."""
    if len({len(index) for index in indices}) == 1:
        shape = tuple(max(axis) for axis in zip(*indices, strict=True))
        if math.prod(shape) == len(indices):
            return shape
    return (len(indices),)


def target_of_stan(posterior: Any, prior: Any) -> Any:
    """Split a Stan posterior into prior and likelihood by a second model, so that the evidence is absolute.

    Parameters
    ----------
    posterior : bridgestan.StanModel
    prior : bridgestan.StanModel
        With the same parameters, and without the likelihood: another program, or the same one with data that switch the
        likelihood off, as in ``target += k * normal_lupdf(y | mu, sigma)`` with k = 0.

    Returns
    -------
    Target
        log likelihood = log density of the posterior less that of the prior, constants kept; draws come back under the
        names of the Stan program. The prior is known by its density alone: pass ``initial``.
    """
    from tempering.errors import TargetError
    from tempering.target import Target

    for name, model in (("posterior", posterior), ("prior", prior)):
        if not callable(getattr(model, "param_unc_names", None)):
            raise TargetError(f"{name} must be a bridgestan.StanModel, but got {type(model).__name__}.")
    names = [list(model.param_unc_names()) for model in (posterior, prior)]
    if names[0] != names[1]:
        odd = sorted(set(names[0]) ^ set(names[1])) or names[1]
        raise TargetError(
            f"Both Stan models must have the same parameters, but they differ in {', '.join(odd[:5])}. Declare the "
            "same parameters block in both."
        )
    whole = partial(_normalised, posterior), partial(_normalised_gradient, posterior)
    base = partial(_normalised, prior), partial(_normalised_gradient, prior)

    def log_likelihood(x: Any) -> float:
        log_prior = base[0](x)
        return whole[0](x) - log_prior if log_prior > -np.inf else -np.inf

    def log_likelihood_gradient(x: Any) -> tuple[float, NDArray[np.float64]]:
        (total, slope), (log_prior, slope_of_prior) = whole[1](x), base[1](x)
        return (total - log_prior if log_prior > -np.inf else -np.inf), slope - slope_of_prior

    likelihood = WithGradient(log_likelihood, log_likelihood_gradient)
    return Target.from_likelihood(likelihood, WithGradient(*base), constrain=constrain_by_stan(posterior))


def _normalised(model: Any, x: Any) -> float:
    """Return the log density with its constants, and the Jacobian."""
    try:
        return float(model.log_density(x, propto=False))
    except RuntimeError:
        return -np.inf


def _normalised_gradient(model: Any, x: Any) -> tuple[float, NDArray[np.float64]]:
    try:
        value, gradient = model.log_density_gradient(x, propto=False)
    except RuntimeError:
        return -np.inf, np.zeros(np.shape(x))
    return float(value), np.asarray(gradient)
