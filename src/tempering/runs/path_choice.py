"""Which path leads to the target: from its own powers or prior, or from a reference fitted to its modes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import EstimatorError, SamplerError, TargetError
from tempering.randomness import stream
from tempering.target import Target
from tempering.target.layout import Layout

PRIOR_POINTS, PRIOR_POINTS_AT_ONCE = 64, 512  # drawn from a prior to climb from, one by one or by JAX
UNASKED: Any = {"draws": 400, "splits": 0}  # effort of a fit that nobody asked for
MOST_SCOUTS = 2048  # places seen by a pilot run along a prior, whose heights must be computed
STARTS_SEEN = 8  # places of a pilot run to climb from at once
ENOUGH = (0.4, 0.7)  # of a fit to one mode that nobody asked for: effective draws a draw at least, Pareto k at most
ENOUGH_WITH_MODES = (0.02, 0.75)  # and to several, where more is to be gained
ENOUGH_OF_DRAWS = (0.005, 1.0)  # and to draws, whose places it knows: one heavy weight more or less matters little
FAIR = 0.3  # effective draws a draw: below, chains are asked what a fit misses, which its own draws cannot tell
MOST_MISSED = 0.1  # of the mass that chains see
REFERENCE_STREAM, REFIT_STREAM, EXAMPLE_STREAM = 5, 6, 2


def with_reference(
    target: Target, reference: Any, layout: Layout, starts: Sequence[Any], seed: int
) -> tuple[Target, Any]:
    """Put a reference, the user's or a fitted one, at k = 0.

    The plain path is kept where the fit is poor, and where it has one mode only: a mode that nothing climbed to from
    the user's few points would be hidden.
    """
    from tempering.learning.reference import along_reference, fit_reference

    if not isinstance(reference, str):
        return along_reference(target, reference, layout), None
    if reference != "fit":
        raise SamplerError(
            f"reference must be 'auto', 'fit', None, or an object with log_density and sample, but got {reference!r}."
        )
    points = np.concatenate([[layout.flatten(start) for start in starts], points_of_base(target, layout, seed)])
    fitted = fit_reference(cold_density(target, layout), points, rng=stream(seed, REFERENCE_STREAM))
    if not fitted.is_good or fitted.n_modes < 2:
        return target, None
    return along_reference(target, fitted.reference, layout), fitted


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


@lru_cache(maxsize=32)
def cold_density(target: Target, layout: Layout) -> Any:
    """Return log pi at k = 1 as a function of flat vectors; kept, so that code compiled for it is found again."""
    energy = layout.on_flat(target.energy)
    if target.base is None:
        return energy
    base = layout.on_flat(target.base)
    return lambda flat: base(flat) + energy(flat)


@dataclass(frozen=True)
class Attempt:
    """A try at another path: its target and reference, None where that is poor, and what the try has cost."""

    target: Target | None
    fitted: Any
    n_calls: int


def with_seen(
    target: Target,
    layout: Layout,
    starts: Sequence[Any],
    seen: tuple[NDArray[np.float64], NDArray[np.float64]],
    cold: NDArray[np.float64] | None,
    seed: int,
    most_calls: int,
) -> Attempt:
    """Put a reference fitted to the modes near places seen, with their energies, at k = 0.

    It is refused where chains that have settled at k = 1, ``cold``, are often at places that it misses.
    """
    from tempering.learning.reference import TooManyCalls, fit_reference
    from tempering.learning.reference.fitted import missed_share
    from tempering.learning.reference.surface import Surface

    given = np.reshape([layout.flatten(start) for start in starts], (-1, layout.size))
    scouts, heights = _scouts(target, layout, seen, seed)
    points = np.concatenate([given, scouts[:: -(-len(scouts) // STARTS_SEEN)]])
    density, rng = cold_density(target, layout), stream(seed, REFERENCE_STREAM)
    try:
        fitted = fit_reference(
            density, points, scouts=scouts, scout_heights=heights, most_calls=most_calls, rng=rng, **UNASKED
        )
    except TooManyCalls as dear:  # a surface too rough to climb
        return Attempt(None, None, dear.n_calls)
    is_taken = fits_one_mode(fitted) if fitted.n_modes == 1 else _is_within(fitted, ENOUGH_WITH_MODES)
    if is_taken and fitted.ess_fraction < FAIR and cold is not None:
        asked = Surface(density, layout.size)
        fitted = replace(fitted, missed=missed_share(asked, fitted, cold), n_calls=fitted.n_calls + asked.n_calls)
        is_taken = fitted.missed <= MOST_MISSED
    return _attempt(target, layout, fitted, is_taken)


def fits_one_mode(fitted: Any) -> bool:
    """Whether a fit is so good that it beats a plain path that has no modes to cross between."""
    return _is_within(fitted, ENOUGH)


def _is_within(fitted: Any, enough: tuple[float, float]) -> bool:
    least, most = enough
    return bool(fitted.ess_fraction >= least and fitted.pareto_k <= most)


def _scouts(
    target: Target, layout: Layout, seen: tuple[NDArray[np.float64], NDArray[np.float64]], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return places to look for modes from; their heights are known where the whole density is powered up."""
    places, energy = seen
    if target.is_powered:
        return places, energy
    return np.concatenate([points_of_base(target, layout, seed), places[:: -(-len(places) // MOST_SCOUTS)]]), None


def with_drawn(
    target: Target,
    layout: Layout,
    weighted: tuple[NDArray[np.float64], NDArray[np.float64]],
    climbed: Any,
    seed: int,
    is_better: Callable[[Any], bool],
) -> Attempt:
    """Put a reference fitted to weighted draws of tuning rounds at k = 0, if it is good and ``is_better``.

    Modes of ``climbed``, a fit that was not good enough, are kept.
    """
    from tempering.learning.reference import fit_to_draws

    density, rng = cold_density(target, layout), stream(seed, REFIT_STREAM)
    try:
        fitted = fit_to_draws(density, *weighted, modes=climbed, draws=UNASKED["draws"], rng=rng)
    except EstimatorError:  # chains that have hardly moved
        return Attempt(None, None, 0)
    return _attempt(target, layout, fitted, _is_within(fitted, ENOUGH_OF_DRAWS) and is_better(fitted))


def with_improved(
    target: Target, layout: Layout, fitted: Any, weighted: tuple[NDArray[np.float64], NDArray[np.float64]], seed: int
) -> Attempt:
    """Put a reference refitted to weighted draws of a tuning round at k = 0; no target where it is no better."""
    from tempering.learning.reference import along_reference, improved_reference

    density, rng = cold_density(target, layout), stream(seed, REFIT_STREAM)
    better = improved_reference(density, fitted, *weighted, draws=UNASKED["draws"], rng=rng)
    if better.reference is fitted.reference:
        return Attempt(None, better, better.n_calls)
    return Attempt(along_reference(target, better.reference, layout), better, better.n_calls)


def _attempt(target: Target, layout: Layout, fitted: Any, is_taken: bool) -> Attempt:
    from tempering.learning.reference import along_reference

    return Attempt(along_reference(target, fitted.reference, layout) if is_taken else None, fitted, fitted.n_calls)


def inside_or_prior(target: Target, layout: Layout, starts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out starting points off the support, with a warning, where the prior can be drawn from instead."""
    if target.sample_base is None or not starts:
        return starts
    inside = tuple(start for start in starts if _is_inside(target, layout, layout.flatten(start)))
    if len(inside) < len(starts):
        outside = next(start for start in starts if not any(start is kept for kept in inside))
        instead = "The prior is drawn from" if not inside else "The others are taken"
        warnings.warn(
            f"A chain must start inside the support, but the log density is -inf at {outside}. {instead} instead.",
            UserWarning,
            stacklevel=4,
        )
    return inside


def _is_inside(target: Target, layout: Layout, flat: NDArray[np.float64]) -> bool:
    """Whether the log density is above -inf; what is not a number is left for the engine to speak of."""
    import jax

    with np.errstate(all="ignore"), jax.enable_x64(True):
        return not float(np.asarray(cold_density(target, layout)(flat))) == -np.inf


def modes_as_starts(target: Target, layout: Layout, fitted: Any) -> tuple[Any, ...]:
    """Return the centres of a fitted reference's components, as far as they lie in the support."""
    centres = fitted.reference.means[:-1]
    return tuple(layout.unflatten(centre) for centre in centres if _is_inside(target, layout, centre))


def draw_from_base(target: Target, seed: int) -> Any:
    """Draw one position from the base, by a JAX key or by a Generator, whichever it takes."""
    if target.sample_base is None:
        raise TargetError(
            "A run needs somewhere to start, but neither initial nor sample_prior was given. Pass initial=..., a "
            "position inside the support."
        )
    import jax

    try:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, target.sample_base(jax.random.key(seed)))
    except (TypeError, AttributeError, ValueError):
        return target.sample_base(stream(seed, EXAMPLE_STREAM))
