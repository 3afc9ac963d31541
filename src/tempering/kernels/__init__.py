"""Kernels: moves at one fixed inverse temperature, each with settings of its own on every rung."""

from tempering.kernels.composite import Cycle, Mixture
from tempering.kernels.hamiltonian import Hamiltonian
from tempering.kernels.independence import Independence
from tempering.kernels.kernel import Kernel
from tempering.kernels.random_walk import RandomWalk
from tempering.kernels.slice_sampling import HitAndRunSlice, Slice

__all__ = [
    "BlackJAX",
    "Cycle",
    "Hamiltonian",
    "HitAndRunSlice",
    "Independence",
    "Kernel",
    "Mixture",
    "RandomWalk",
    "Slice",
]


def __getattr__(name: str) -> object:
    """Import the BlackJAX adapter, and JAX with it, when it is asked for."""
    if name == "BlackJAX":
        from tempering.kernels.blackjax import BlackJAX

        return BlackJAX
    raise AttributeError(f"module 'tempering.kernels' has no attribute {name!r}")
