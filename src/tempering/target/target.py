"""What is sampled: a path of densities log pi_k = base + k * energy.

Powering up the whole density (the paper): base = 0, energy = log pi.
Tempering the likelihood only: base = log prior, energy = log likelihood; then k = 0 is the prior itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tempering.errors import TargetError
from tempering.target.gradients import WithGradient, gradient_of
from tempering.target.layout import Layout

if TYPE_CHECKING:
    from tempering.path.ladder import Ladder

LogDensity = Callable[[Any], Any]


@dataclass(frozen=True)
class Target:
    """A log density to be raised to powers k in [0, 1].

    Parameters
    ----------
    log_density : callable
        ``log_density(position)`` returns log pi up to a constant, -inf outside the support. A JAX function, a
        plain Python or NumPy function, a Numba function, or an object with a ``log_density`` method; where it also has
        ``log_density_gradient``, which returns the value and the gradient, gradients are used without JAX. The draws of
        a BridgeStan model come back constrained, under the names of the Stan program.

    Examples
    --------
    >>> import tempering as tp
    >>> tp.Target(lambda x: -0.5 * x**2)
    Target(pi^k)
    """

    energy: LogDensity
    base: LogDensity | None = field(default=None)
    sample_base: Callable[[Any], Any] | None = field(default=None)
    constrain: Callable[[Any], Any] | None = field(default=None)

    def __init__(self, log_density: LogDensity | object) -> None:
        if type(log_density).__module__.partition(".")[0] == "bridgestan":
            from tempering.doors.bridgestan import constrain_by_stan, density_of_stan

            self._set(density_of_stan(log_density), None, None, constrain_by_stan(log_density))
        else:
            self._set(_callable("log_density", log_density), None, None)

    @classmethod
    def from_likelihood(
        cls,
        log_likelihood: LogDensity,
        log_prior: LogDensity,
        sample_prior: Callable[[Any], Any] | None = None,
        *,
        constrain: Callable[[Any], Any] | None = None,
    ) -> Target:
        """Temper the likelihood only: pi_k is proportional to prior * likelihood^k.

        Parameters
        ----------
        log_likelihood, log_prior : callable
            Functions of a position, or objects with ``log_density`` and ``log_density_gradient``. A normalised prior
            makes the evidence absolute.
        sample_prior : callable, optional
            ``sample_prior(rng)`` draws one position from the prior exactly; it gets a JAX key on the vector engine
            and a NumPy ``Generator`` on the scalar one.
        constrain : callable, optional
            Turns positions with leading axes (chain, draw) into the values a user sees, a dict of arrays by name; what
            `tempering.sample` returns holds those. For models whose positions are unconstrained.

        Examples
        --------
        >>> import tempering as tp
        >>> tp.Target.from_likelihood(lambda x: -((x - 3) ** 2), lambda x: -0.5 * x**2)
        Target(base * exp(energy)^k)
        """
        target = cls.__new__(cls)
        sampler = None if sample_prior is None else _function("sample_prior", sample_prior)
        target._set(_callable("log_likelihood", log_likelihood), _callable("log_prior", log_prior), sampler, constrain)
        return target

    @classmethod
    def from_numpyro(cls, model: Callable[..., Any], *args: Any, **kwargs: Any) -> Target:
        """Temper the likelihood of a NumPyro model; see `tempering.doors.numpyro.target_from_numpyro`."""
        from tempering.doors.numpyro import target_from_numpyro

        return target_from_numpyro(model, *args, **kwargs)

    @classmethod
    def from_pymc(cls, model: Any) -> Target:
        """Temper the likelihood of a PyMC model; see `tempering.doors.pymc.target_from_pymc`."""
        from tempering.doors.pymc import target_from_pymc

        return target_from_pymc(model)

    def _set(
        self,
        energy: LogDensity,
        base: LogDensity | None,
        sample_base: Callable[[Any], Any] | None,
        constrain: Callable[[Any], Any] | None = None,
    ) -> None:
        object.__setattr__(self, "energy", energy)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "sample_base", sample_base)
        object.__setattr__(self, "constrain", constrain)

    def with_reference(self, reference: Any) -> Target:
        """Put a normalised reference q at k = 0: base = log q, energy = log pi - log q.

        The one path that keeps the masses of narrow modes. ``reference`` has ``log_density(position)`` and
        ``sample(rng)``; `tempering.learning.reference.fit_reference` makes one.
        """
        from tempering.learning.reference import along_reference

        return along_reference(self, reference)

    @property
    def is_powered(self) -> bool:
        """Whether the whole density is raised to the power k (no base)."""
        return self.base is None

    def check_ladder(self, ladder: Ladder) -> None:
        """Refuse k = 0 when there is no base for it to be."""
        if self.is_powered and ladder.hottest == 0.0:
            raise TargetError(
                "At k = 0 a powered-up density pi^0 is flat and cannot be normalised, but the ladder ends at 0. "
                "End it above 0, or give a base: Target.from_likelihood(log_likelihood, log_prior)."
            )

    def __repr__(self) -> str:
        return "Target(pi^k)" if self.is_powered else "Target(base * exp(energy)^k)"


NOT_INTEGRABLE = (
    "pi^k has a finite integral if pi has moments of order (1 - k) / k + delta for some delta > 0 (Section 2 of the "
    "paper): tails like |x|^-a need k > d / a. Raise the hottest k, or temper the likelihood only "
    "(Target.from_likelihood with a proper prior)."
)


def _callable(name: str, value: Any) -> LogDensity:
    own, with_gradient = getattr(value, "log_density", None), gradient_of(value)
    if callable(own) and with_gradient is not None:
        return WithGradient(own, with_gradient)
    if callable(value):
        return value  # type: ignore[no-any-return]
    if callable(own):
        return own  # type: ignore[no-any-return]
    raise TargetError(
        f"{name} must be a function of a position, or an object with a log_density method, but got "
        f"{type(value).__name__}. Pass the function itself, not its value."
    )


def _function(name: str, value: Any) -> Callable[[Any], Any]:
    if callable(value):
        return value  # type: ignore[no-any-return]
    raise TargetError(
        f"{name} must be a function of a random generator, but got {type(value).__name__}. Pass the function itself, "
        "not a draw."
    )


@lru_cache(maxsize=32)
def cold_density(target: Target, layout: Layout) -> Any:
    """Return log pi at k = 1 as a function of flat vectors; kept, so that code compiled for it is found again."""
    energy = layout.on_flat(target.energy)
    if target.base is None:
        return energy
    base = layout.on_flat(target.base)
    return lambda flat: base(flat) + energy(flat)
