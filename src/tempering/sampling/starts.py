"""Where a run starts from: points inside the support, the base, and a reference at k = 0 if one was asked for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import TargetError
from tempering.randomness import stream
from tempering.target import Target
from tempering.target.checks import drawn
from tempering.target.layout import Layout
from tempering.target.target import cold_density

PRIOR_POINTS, PRIOR_POINTS_AT_ONCE = 64, 512  # drawn from a prior to climb from, one by one or by JAX
REFERENCE_STREAM, EXAMPLE_STREAM = 5, 2


def with_reference(
    target: Target, reference: Any, layout: Layout, starts: Sequence[Any], seed: int
) -> tuple[Target, str]:
    """Put a reference, the user's or a fitted one, at k = 0; return the target and the name of its path.

    The target's own path is kept where the fit is poor, and where it has one mode only: a mode that nothing climbed to
    from the user's few points would be hidden.
    """
    from tempering.learning.reference import along_reference, fit_reference

    if not isinstance(reference, str):
        return along_reference(target, reference, layout), "reference"
    points = np.concatenate([[layout.flatten(start) for start in starts], points_of_base(target, layout, seed)])
    fitted = fit_reference(cold_density(target, layout), points, rng=stream(seed, REFERENCE_STREAM))
    if not fitted.is_good or fitted.n_modes < 2:
        return target, "powers" if target.base is None else "prior"
    return along_reference(target, fitted.reference, layout), "reference"


def points_of_base(target: Target, layout: Layout, seed: int) -> NDArray[np.float64]:
    """Draw points to climb from; none where the base cannot be drawn from."""
    if target.sample_base is None:
        return np.empty((0, layout.size))
    together = _many_of_base(target, layout, seed)
    if together is not None:
        return together
    return np.stack([layout.flatten(draw_from_base(target, seed + 1 + i)) for i in range(PRIOR_POINTS)])


def _many_of_base(target: Target, layout: Layout, seed: int) -> NDArray[np.float64] | None:
    """Draw many points at once by JAX keys; None where the base is drawn from in another way."""
    import jax

    assert target.sample_base is not None
    try:
        with jax.enable_x64(True):
            drawn = jax.vmap(target.sample_base)(jax.random.split(jax.random.key(seed + 1), PRIOR_POINTS_AT_ONCE))
            leaves = [np.asarray(leaf, dtype=float) for leaf in jax.tree.leaves(drawn)]
    except Exception:  # a sampler in plain Python may fail in any way of its own when JAX traces it
        return None
    flat = np.concatenate([leaf.reshape(PRIOR_POINTS_AT_ONCE, -1) for leaf in leaves], axis=1)
    return flat if flat.shape[1] == layout.size else None


def inside_or_prior(target: Target, layout: Layout, starts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out starting points off the support, with a warning, where the prior can be drawn from instead."""
    if target.sample_base is None or not starts:
        return starts
    inside = tuple(start for start in starts if _is_inside(target, layout, layout.flatten(start)))
    if len(inside) < len(starts):
        outside = next(start for start in starts if not any(start is kept for kept in inside))
        instead = "draws of the prior" if not inside else "the remaining points"
        warnings.warn(
            f"A chain must start inside the support, but the log density is -inf at {outside}. Starting from "
            f"{instead}.",
            UserWarning,
            stacklevel=4,
        )
    return inside


def side_by_side(starts: tuple[Any, ...], n_chains: int) -> tuple[Any, ...]:
    """Return a starting point for each chain so that neighbours start alike, each point as often as in turn.

    Sums put neighbouring chains into one batch. If each batch had chains of all starting points, batches would agree
    however much the chains differ, and standard errors and R-hat would see nothing of it.

    Examples
    --------
    >>> side_by_side(("left", "right"), 5)
    ('left', 'left', 'left', 'right', 'right')
    """
    if len(starts) < 2 or n_chains <= len(starts):
        return starts
    return tuple(starts[i] for i in sorted(chain % len(starts) for chain in range(n_chains)))


def _is_inside(target: Target, layout: Layout, flat: NDArray[np.float64]) -> bool:
    """Whether the log density is above -inf; what is not a number is left for the engine to speak of."""
    import jax

    with np.errstate(all="ignore"), jax.enable_x64(True):
        return not float(np.asarray(cold_density(target, layout)(flat))) == -np.inf


def draw_from_base(target: Target, seed: int) -> Any:
    """Draw one position from the base, by a JAX key or by a Generator, whichever it takes."""
    if target.sample_base is None:
        raise TargetError(
            "A run needs somewhere to start, but neither initial nor sample_prior was given. Pass initial=..., a "
            "position inside the support."
        )
    return drawn(target.sample_base, seed, stream(seed, EXAMPLE_STREAM))
