"""The path from a reference to a target: base = log q, energy = log pi - log q.

At k = 0 it is q, which is drawn exactly; at k = 1 it is the target. Since q has the modes' masses, so has
every rung between.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tempering.compiling.functions import is_numba
from tempering.errors import TargetError
from tempering.path.reference import Reference
from tempering.target import Target
from tempering.target.gradients import WithGradient, gradient_of
from tempering.target.layout import Layout


def along_reference(target: Target, reference: Any, layout: Layout | None = None) -> Target:
    """Return the target with a reference at k = 0 of its path.

    Equal arguments give the same target, so that code compiled for it is found again.

    Parameters
    ----------
    target : Target
        Its density at k = 1 is kept: prior times likelihood, for a target made of the two.
    reference : Reference, or object with ``log_density`` and ``sample``
        ``log_density(position)``, normalised for an absolute evidence, and ``sample(rng)``, one exact draw.
    layout : Layout, optional
        How positions lie in the flat vectors of a `Reference`; not needed where positions are vectors.

    Examples
    --------
    >>> import tempering as tp
    >>> q = Reference([1.0], [[0.0, 0.0]], [np.eye(2)], [5])
    >>> path = along_reference(tp.Target(lambda x: -0.5 * (x**2).sum()), q)
    >>> x = np.array([1.0, -1.0])
    >>> bool(np.isclose(path.base(x) + path.energy(x), -1.0))
    True
    """
    for name in ("log_density", "sample"):
        if not callable(getattr(reference, name, None)):
            raise TargetError(
                f"A reference needs log_density(position) and sample(rng), but {type(reference).__name__} "
                f"has no {name}. Pass a tempering.reference.Reference, or an object with both."
            )
    try:
        return _path(target, reference, layout)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        raise TargetError(
            f"A reference must be hashable, so that compiled code can be kept by it, but {type(reference).__name__} is "
            "not. Make it a frozen dataclass, or one with eq=False."
        ) from error


@lru_cache(maxsize=64)
def _path(target: Target, reference: Any, layout: Layout | None) -> Target:
    log_q, sample, log_pi = reference.log_density, reference.sample, _cold(target)
    log_q_gradient = gradient_of(reference)
    if is_numba(log_pi):
        log_q, sample = _compiled(reference)
    elif isinstance(reference, Reference) and layout is not None and not layout.is_vector:
        log_q = lambda position: reference.log_density(_flat(position))  # noqa: E731
        sample = lambda rng: layout.unflatten(reference.sample(rng))  # noqa: E731
        log_q_gradient = _named_gradient(reference, layout)

    def energy(position: Any) -> Any:
        return log_pi(position) - log_q(position)

    if gradient_of(log_pi) is None or log_q_gradient is None:
        return Target.from_likelihood(_like(log_pi, energy), log_q, sample, constrain=target.constrain)
    base = WithGradient(log_q, log_q_gradient)
    rise = WithGradient(energy, _combined(log_pi, base, -1.0))
    return Target.from_likelihood(rise, base, sample, constrain=target.constrain)


def _named_gradient(reference: Reference, layout: Layout) -> Any:
    def gradient(position: Any) -> tuple[float, Any]:
        value, slope = reference.log_density_gradient(_flat(position))
        return value, layout.unflatten(slope)

    return gradient


def _combined(one: Any, other: Any, sign: float) -> Any:
    """Return value and gradient of one function plus or minus another, both with gradients."""
    import jax

    def gradient(position: Any) -> tuple[Any, Any]:
        (a, slope_a), (b, slope_b) = (f.log_density_gradient(position) for f in (one, other))
        return a + sign * b, jax.tree.map(lambda u, v: np.asarray(u) + sign * np.asarray(v), slope_a, slope_b)

    return gradient


def _cold(target: Target) -> Any:
    """Return log pi at k = 1."""
    whole, prior = target.energy, target.base
    if prior is None:
        return whole

    def log_pi(position: Any) -> Any:
        return prior(position) + whole(position)

    if gradient_of(prior) is not None and gradient_of(whole) is not None:
        return WithGradient(log_pi, _combined(prior, whole, 1.0))
    return _like(whole, log_pi) if is_numba(prior) else log_pi


def _like(model: Any, function: Any) -> Any:
    """Compile a function by Numba if the one it is made of is."""
    if not is_numba(model):
        return function
    from numba import njit

    return njit(function)


def _compiled(reference: Any) -> tuple[Any, Any]:
    if isinstance(reference, Reference):
        return reference.log_density_numba, reference.sample_numba
    if is_numba(reference.log_density):
        return reference.log_density, reference.sample
    raise TargetError(
        "A log density compiled by Numba needs a reference compiled by Numba too, but "
        f"{type(reference).__name__}.log_density is not. Compile it by numba.njit, or pass a plain function."
    )


def _flat(position: Any) -> Any:
    """Return the flat vector of a position, for NumPy and JAX arrays alike."""
    import jax

    leaves = jax.tree_util.tree_leaves(position)
    if all(isinstance(leaf, np.ndarray | float | int) for leaf in leaves):
        return np.concatenate([np.ravel(leaf) for leaf in leaves])
    return jax.numpy.concatenate([jax.numpy.ravel(leaf) for leaf in leaves])
