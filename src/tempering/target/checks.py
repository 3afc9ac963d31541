"""Checks of what a user brings, made once before a run: real numbers, a proper prior, a sampler that agrees with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.functions import is_numba
from tempering.compiling.programs import jitted
from tempering.errors import TargetError, TemperingError
from tempering.target.batched import Batched
from tempering.target.layout import Layout
from tempering.target.target import Target

FAR = 1e30  # where a density with a finite integral must have fallen by more than 1 / x
LEAST_FALL = 40.0  # nats, of the 69 that 1 / x falls by
N_DRAWS, N_STEPS = 256, 12  # of a prior's sampler, and Metropolis steps that must leave their law alone
N_STARTS = 32  # draws of the prior that are looked at before chains start from them
CUT = 7.0  # standard errors, of some ten quantities: a false alarm in about 1e10 runs if they were normal


def check_target(target: Target, points: tuple[Any, ...]) -> None:
    """Refuse or warn of what a run would stumble over: at the first starting point, or at a draw of the prior."""
    if points:
        for function in (target.base, target.energy):
            if function is not None:
                check_density(function, points[0])
        check_prior(target, points[0])
    elif target.sample_base is not None and not target.is_checked:
        check_prior(target, drawn(target.sample_base))


def possible_draws(target: Target) -> tuple[Any, ...]:
    """Return draws of the prior with a likelihood above 0, to start from; none where all draws have one.

    Data on part of the prior only, as under Uniform(0, theta), leave most draws of theta impossible.
    """
    assert target.sample_base is not None
    layout = Layout.of(drawn(target.sample_base))
    draws = prior_draws(target.sample_base, layout)
    if draws is None:
        return ()
    log_likelihood = function_of_many(target, "energy", layout)
    values = log_likelihood(draws[:N_STARTS])
    if not np.any(values == -np.inf):
        return ()
    if np.all(values == -np.inf):
        values = log_likelihood(draws)
    if np.all(values == -np.inf):
        raise TargetError(
            f"No chain can start: the likelihood is 0 at each of {len(values)} draws of the prior. Look for data that "
            "the model rules out, or for NaN among them; or pass initial=..., a position where it is above 0."
        )
    possible = draws[: len(values)][values > -np.inf]
    return tuple(layout.unflatten(x) for x in possible[:N_STARTS])


def check_density(function: Callable[[Any], Any], position: Any) -> None:
    """Refuse a log density that does not return one real number at a position."""
    value = _called(function, position) if is_numba(function) else _shape_returned(function, position)
    kind = np.dtype(getattr(value, "dtype", np.asarray(value).dtype)).kind
    if kind == "c":
        raise TargetError(
            "A log density must return a real number, but it returned a complex one. Take the real part, and look for "
            "the root or the log of a negative number."
        )
    if np.shape(value) != () or kind not in "fiub":
        came = f"shape {np.shape(value)}" if kind in "fiub" else type(value).__name__
        raise TargetError(
            f"A log density must return one number, but at a position of shape {_shape(position)} it returned {came}. "
            "Sum over the coordinates, and look for a missing return."
        )


def _shape_returned(function: Callable[[Any], Any], position: Any) -> Any:
    """Return what a function that JAX can trace would return; what any other does return."""
    import jax

    try:
        with jax.enable_x64(True), np.errstate(all="ignore"):
            value = jax.eval_shape(function, position)
        return _called(function, position) if isinstance(function, Batched) else value  # JAX is told its shape
    except TemperingError:
        raise
    except Exception:  # whatever JAX says: a plain function is called as it is
        return _called(function, position)


def _called(function: Callable[[Any], Any], position: Any) -> Any:
    """Call a user's function; what it raises where chains start is one sentence, with the error as its cause."""
    if isinstance(position, dict):  # engines hand over arrays, of no dimensions where a number was given
        import jax

        position = jax.tree.map(np.asarray, position)
    try:
        with np.errstate(all="ignore"):
            return function(position)
    except TemperingError:
        raise
    except Exception as error:
        at = f"names {sorted(position)}" if isinstance(position, dict) else f"shape {np.shape(position)}"
        raise TargetError(
            f"A log density must be defined where chains start, but at the position with {at} it raised "
            f"{type(error).__name__}: {str(error)[:300]}. Give the position the shape and the names that the function "
            "takes, and return -inf outside the support."
        ) from error


def drawn(sample: Callable[[Any], Any], seed: int = 0, rng: np.random.Generator | None = None) -> Any:
    """Draw a position from the prior, by a JAX key or a Generator, whichever it takes."""
    try:
        return _drawn_by_key(sample, seed)
    except Exception as by_key:  # a sampler in plain Python
        try:
            return sample(np.random.default_rng(seed) if rng is None else rng)
        except Exception as by_generator:
            raise TargetError(
                "sample_prior must take a JAX key or a NumPy Generator, but with a key it raised "
                f"{type(by_key).__name__}: {by_key}, and with a Generator {type(by_generator).__name__}: "
                f"{by_generator}."
            ) from by_key


def _drawn_by_key(sample: Callable[[Any], Any], seed: int) -> Any:
    """Draw by a JAX key: as one program, or else by operations."""
    import jax

    with jax.enable_x64(True):
        try:
            found = jax.tree.map(lambda part: np.asarray(part)[0], draws_by_key(sample)(_keys(seed)))
        except Exception:
            found = sample(jax.random.key(seed))
        return jax.tree.map(np.asarray, found)


@lru_cache(maxsize=64)
def draws_by_key(sample: Callable[[Any], Any]) -> Any:
    """Compile the draws of a prior, one for each of many keys; of N_DRAWS keys it is the program of these checks."""
    import jax

    return jitted(jax.vmap(sample), is_brief=True)


def _keys(seed: int) -> Any:
    """Return keys, for which JAX need not compile what makes them."""
    import jax

    words = np.random.default_rng(seed).integers(1 << 32, size=(N_DRAWS, 2), dtype=np.uint32)
    return jax.random.wrap_key_data(jax.device_put(words))


def _shape(position: Any) -> Any:
    return {k: np.shape(v) for k, v in position.items()} if isinstance(position, dict) else np.shape(position)


def check_prior(target: Target, position: Any) -> None:
    """Refuse a prior that is flat out to infinity, and warn of a sampler that contradicts it."""
    if target.base is None or target.is_checked:
        return
    _check_once(target, Layout.of(position), tuple(Layout.of(position).flatten(position).tolist()))


@lru_cache(maxsize=64)
def _check_once(target: Target, layout: Layout, start: tuple[float, ...]) -> None:
    log_prior = function_of_many(target, "base", layout)
    here = np.asarray(start)
    if target.sample_base is None:
        _check_proper(log_prior, here)
        return
    draws = prior_draws(target.sample_base, layout)
    if draws is not None:
        _compare(log_prior, draws, layout)


def _check_proper(log_prior: Callable[[Any], NDArray[np.float64]], here: NDArray[np.float64]) -> None:
    """Refuse a prior whose log density does not fall along some coordinate."""
    steps = np.concatenate([np.eye(here.size), -np.eye(here.size)]) * FAR
    values = log_prior(np.concatenate([here[None], here + steps]))
    if not np.isfinite(values[0]):
        return
    fall = values[0] - values[1:]
    flat = np.flatnonzero(np.isfinite(values[1:]) & (fall < LEAST_FALL))
    if flat.size:
        raise TargetError(
            f"A prior must have a finite integral, but log_prior does not fall along coordinate {flat[0] % here.size}: "
            f"it is {values[0]:.4g} at the start and {values[1 + flat[0]]:.4g} at a distance of {FAR:g}, so that k = 0 "
            "is no distribution. Give a proper prior, however wide (tempering.prior.Normal(0, 1e3)), or temper the "
            "whole density: Target(lambda x: log_likelihood(x) + log_prior(x))."
        )


def _compare(log_prior: Callable[[Any], NDArray[np.float64]], x: NDArray[np.float64], layout: Layout) -> None:
    """Warn if Metropolis steps towards the prior carry the sampler's draws away: then it draws from something else."""
    start = log_prior(x)
    if np.mean(start == -np.inf) > 0:
        _warn(f"{np.mean(start == -np.inf):.0%} of its draws have a log prior of -inf")
        return
    if not np.all(np.isfinite(start)):
        return
    rng, here, value = np.random.default_rng(1), x, start
    spread = np.subtract(*np.percentile(x, [75, 25], axis=0)) / 1.35
    scale = np.where(spread > 0, spread, 1.0) * 2.4 / np.sqrt(x.shape[1])
    for _ in range(N_STEPS):
        there = here + scale * rng.standard_normal(here.shape)
        new = log_prior(there)
        accepted = np.log(rng.random(len(here))) < np.where(np.isfinite(new), new, -np.inf) - value
        here, value = np.where(accepted[:, None], there, here), np.where(accepted, new, value)
    worst, name, before, after = 0.0, "", 0.0, 0.0
    centre, width = np.median(x, axis=0), np.where(spread > 0, spread, 1.0)
    for measure in (np.tanh, lambda z: np.log1p(abs(z))):  # bounded, or nearly: heavy tails do not matter
        old, moved = measure((x - centre) / width), measure((here - centre) / width)
        change = moved - old
        t = abs(change.mean(axis=0)) / (change.std(axis=0, ddof=1) / np.sqrt(len(x)) + 1e-12)
        i = int(np.argmax(t))
        if t[i] > worst:
            worst, name = float(t[i]), _coordinate(layout, i)
            before, after = float(np.std(x[:, i])), float(np.std(here[:, i]))
    if worst > CUT:
        _warn(
            f"steps that keep log_prior change the law of its draws, that of {name} most (by {worst:.0f} standard "
            f"errors; the deviation goes from {before:.3g} to {after:.3g} in {N_STEPS} steps)"
        )


def _coordinate(layout: Layout, i: int) -> str:
    sizes = [int(np.prod(shape)) for shape in layout.shapes]
    for name, size in zip(layout.names, sizes, strict=True):
        if i < size:
            return name if size == 1 else f"{name}[{i}]"
        i -= size
    raise AssertionError("more coordinates than the layout has")


def _warn(what: str) -> None:
    warnings.warn(
        f"sample_prior must draw from log_prior, but {what}. Evidence and hot rungs would be wrong: write both for the "
        "same prior.",
        stacklevel=2,
    )


@lru_cache(maxsize=32)
def mapped(target: Target, names: tuple[str, ...], layout: Layout) -> Any:
    """Compile functions of a target, of many flat positions: of as many as chains it is the program they start by."""
    import jax

    functions = [layout.on_flat(getattr(target, name)) for name in names]
    return jitted(jax.vmap(lambda x: tuple(function(x) for function in functions)), is_brief=True)


def function_of_many(target: Target, name: str, layout: Layout) -> Callable[[Any], NDArray[np.float64]]:
    """Return a target's function of many flat positions: mapped by JAX where it can be, else one by one."""
    import jax

    names = own_names(target) if name == "energy" else (name,)  # both, as chains start

    def of_many(x: Any) -> NDArray[np.float64]:
        try:
            with jax.enable_x64(True):
                return np.asarray(mapped(target, names, layout)(np.asarray(x, dtype=float))[0], dtype=float)
        except Exception:
            function = layout.on_flat(getattr(target, name))
            return np.array([float(_called(function, row)) for row in x])

    return of_many


def own_names(target: Target) -> tuple[str, ...]:
    """Return the names of a target's functions, in the order of the terms."""
    return ("energy",) if target.base is None else ("energy", "base")


def prior_draws(sample: Callable[[Any], Any], layout: Layout) -> NDArray[np.float64] | None:
    """Draw some positions, by JAX keys or by a generator; None if the shapes are not those of positions."""
    import jax

    try:
        with jax.enable_x64(True):
            many = draws_by_key(sample)(_keys(0))
            leaves = [np.asarray(leaf, dtype=float).reshape(N_DRAWS, -1) for leaf in jax.tree.leaves(many)]
        flat = np.concatenate(leaves, axis=1)
    except Exception:
        rng = np.random.default_rng(0)
        try:
            flat = np.stack([layout.flatten(sample(rng)) for _ in range(N_DRAWS)])
        except Exception:  # the run itself says what is wrong with it
            return None
    return flat if flat.shape == (N_DRAWS, layout.size) else None
