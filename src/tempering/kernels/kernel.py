"""What a kernel is: a frozen value with one move for each engine, and what tuning and engines must know of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tempering.path.stacked import References

Vector = NDArray[np.float64]
Particle = tuple[Vector, Vector, Vector, Vector]  # of the scalar engine: position, proposal, and the terms of both
Settings = tuple[Vector, Vector, Vector]  # scale, factor and centre, one row per rung
Joined = tuple[float, int, Any, Any]  # log probability of the first of two kernels, its leaves, the settings of both
Function = Callable[..., Any]  # a user's
Functions = tuple[Function, Function, Any, References]  # energy, base, how to draw from the base or nothing, mixtures
ScalarMove = Callable[[np.random.Generator, Functions, Particle, Vector, Any, int, Vector], Particle]
Density = Callable[[Any], Any]  # of the vector engine: a flat vector to its terms
Move = Callable[[Any, Any, Any, Any], tuple[Any, Any]]  # key, particle, rung and settings to particle and acceptance


@runtime_checkable
class Kernel(Protocol):
    """A move that leaves the density of one rung as it is.

    All of these must be there. What a kernel need not say is in `TRAITS`, with what is taken for granted. One whose
    steps are cut where the density is narrow has ``local_scales``, too: the least and the largest scale to tune to.

    Attributes
    ----------
    covariance : {"auto", "dense", "diagonal", "identity"}
        Which shape tuning learns on each rung; "auto" is dense up to 16 dimensions.
    """

    covariance: str

    def starting_scale(self, dimension: int) -> float:
        """Return the step size tuning starts from, in units of the shape."""

    def target_acceptance(self, dimension: int) -> float | None:
        """Return the acceptance to tune to; None if there is nothing to tune."""

    @property
    def scalar_move(self) -> ScalarMove:
        """The move of the scalar engine, a plain function that Numba can compile.

        ``move(rng, density, particle, coefficients, settings, rung, acceptance)`` changes the particle in place and
        returns it; see `tempering.kernels.scalar` for the helpers.
        """

    def vector_move(self, density: Density) -> Move:
        """Build the move of the vector engine, a function that JAX can trace.

        ``move(key, particle, rung, setting)`` returns the new particle, its acceptance and whether it moved; see
        `tempering.kernels.vector` for the helpers.
        """


TRAITS = {  # attributes that a kernel may have, and what is taken for granted if it has not
    "allocates": True,  # whether the scalar move makes arrays; compiled without counting of references if not
    "needs_gradient": False,  # whether the scalar engine must be given gradients
    "checks_base": False,  # whether it is made for one prior, and runs along the path from that prior only
}


def trait(kernel: object, name: str) -> bool:
    """Return what a kernel says of itself, or what is taken for granted.

    Examples
    --------
    >>> from tempering.kernels import Hamiltonian, Slice
    >>> trait(Hamiltonian(), "needs_gradient"), trait(Slice(), "needs_gradient")
    (True, False)
    """
    return bool(getattr(kernel, name, TRAITS[name]))


def calls_of(kernel: object) -> float:
    """Return how many evaluations of a density a local move is worth: one, unless the kernel has ``calls``.

    Examples
    --------
    >>> from tempering.kernels import Hamiltonian, RandomWalk
    >>> calls_of(RandomWalk()), calls_of(Hamiltonian(4))
    (1.0, 16.0)
    """
    return float(getattr(kernel, "calls", 1.0))


def missing_from(kernel: object) -> list[str]:
    """Return which members a kernel lacks."""
    members = ("covariance", "starting_scale", "target_acceptance", "scalar_move", "vector_move")
    return [name for name in members if not hasattr(type(kernel), name) and name not in getattr(kernel, "__dict__", ())]
