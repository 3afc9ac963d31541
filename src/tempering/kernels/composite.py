"""Kernels made of kernels: one of several at random (mixture), or all in turn (cycle)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempering.compiling.functions import bind
from tempering.errors import TargetError
from tempering.kernels.kernel import Functions, Joined, Kernel, Particle, Vector, calls_of, missing_from
from tempering.randomness import accept


@dataclass(frozen=True)
class Mixture:
    """Apply one of several kernels, chosen at random at each iteration.

    Parameters
    ----------
    kernels : sequence of kernels
    probabilities : sequence of float, optional
        Equal by default.
    """

    kernels: tuple[Any, ...]
    probabilities: tuple[float, ...]

    def __init__(self, kernels: Sequence[Any], probabilities: Sequence[float] | None = None) -> None:
        p = np.full(len(kernels), 1 / max(len(kernels), 1)) if probabilities is None else np.asarray(probabilities)
        if len(kernels) == 0 or len(p) != len(kernels) or np.any(p <= 0) or abs(p.sum() - 1) > 1e-9:
            raise TargetError(
                f"A mixture needs one positive probability per kernel, summing to one, but got {p.tolist()} for "
                f"{len(kernels)} kernels. Leave the probabilities out for equal ones."
            )
        object.__setattr__(self, "kernels", tuple(kernels))
        object.__setattr__(self, "probabilities", tuple(float(x) for x in p))

    @property
    def calls(self) -> float:
        """Evaluations that a move is worth, on average."""
        return sum(p * calls_of(kernel) for p, kernel in zip(self.probabilities, self.kernels, strict=True))


@dataclass(frozen=True)
class Cycle:
    """Apply several kernels one after the other at each iteration."""

    kernels: tuple[Any, ...]

    def __init__(self, kernels: Sequence[Any]) -> None:
        if len(kernels) == 0:
            raise TargetError(
                "A cycle needs at least one kernel, but got none. Pass for example [RandomWalk(), Slice()]."
            )
        object.__setattr__(self, "kernels", tuple(kernels))

    @property
    def calls(self) -> float:
        """Evaluations that a move is worth."""
        return sum(map(calls_of, self.kernels))


AnyKernel = Kernel | Mixture | Cycle


def leaves(kernel: AnyKernel) -> tuple[Any, ...]:
    """Return the simple kernels a kernel is made of, in order."""
    if isinstance(kernel, Mixture | Cycle):
        return tuple(leaf for part in kernel.kernels for leaf in leaves(part))
    return (kernel,)


def checked(kernel: AnyKernel) -> Any:
    """Return the kernel; refuse what is none."""
    for leaf in leaves(kernel):
        missing = missing_from(leaf)
        if 0 < len(missing) < 3:
            raise TargetError(
                f"The kernel {leaf!r} has no {' and no '.join(missing)}: tempering.kernels.Kernel says what it needs."
            )
        if isinstance(leaf, type) or missing:
            came = f"the class {leaf.__name__}" if isinstance(leaf, type) else repr(leaf)
            raise TargetError(
                f"A kernel must be an object such as tempering.kernels.RandomWalk(), but got {came}. Use one of "
                "tempering.kernels (mind the brackets), and wrap what comes from BlackJAX: BlackJAX(blackjax.nuts)."
            )
    return kernel


def scalar_move(kernel: AnyKernel) -> Any:
    """Build the scalar engine's move of any kernel, by joining two at a time."""
    if not isinstance(kernel, Mixture | Cycle):
        return kernel.scalar_move
    first, *rest = kernel.kernels
    if not rest:
        return scalar_move(first)
    second = scalar_move(_without_first(kernel))
    body = either if isinstance(kernel, Mixture) else both
    return bind(body, first=scalar_move(first), second=second)


def scalar_settings(kernel: AnyKernel, settings: Sequence[Any]) -> Any:
    """Nest the leaves' settings as `scalar_move` expects them."""
    if not isinstance(kernel, Mixture | Cycle):
        scale, factor, centre, _ = settings[0]  # the engine itself draws afresh
        return scale, factor, centre
    first, *rest = kernel.kernels
    n_first = len(leaves(first))
    if not rest:
        return scalar_settings(first, settings)
    log_probability = np.log(kernel.probabilities[0]) if isinstance(kernel, Mixture) else 0.0
    return (
        float(log_probability),
        n_first,
        scalar_settings(first, settings[:n_first]),
        scalar_settings(_without_first(kernel), settings[n_first:]),
    )


def _without_first(kernel: Mixture | Cycle) -> Any:
    if isinstance(kernel, Cycle):
        return Cycle(kernel.kernels[1:])
    rest = np.array(kernel.probabilities[1:])
    return Mixture(kernel.kernels[1:], tuple(rest / rest.sum()))


def first(*_: Any) -> Particle:
    """Stand for the first of two kernels until `bind` says which."""
    raise NotImplementedError


second = first


def either(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, settings: Joined,
    rung: int, acceptance: Vector,
) -> Particle:  # fmt: skip
    """Apply one of two moves; the acceptance of the other is NaN."""
    log_probability, n_first, one, other = settings
    acceptance[:] = np.nan
    if accept(rng, log_probability):
        return first(rng, density, particle, coefficients, one, rung, acceptance[:n_first])
    return second(rng, density, particle, coefficients, other, rung, acceptance[n_first:])


def both(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, settings: Joined,
    rung: int, acceptance: Vector,
) -> Particle:  # fmt: skip
    """Apply two moves one after the other."""
    _, n_first, one, other = settings
    particle = first(rng, density, particle, coefficients, one, rung, acceptance[:n_first])
    return second(rng, density, particle, coefficients, other, rung, acceptance[n_first:])
