"""What is sampled: a path of densities log pi_k = base + k * energy.

Powering up the whole density (the paper): base = 0, energy = log pi.
Tempering the likelihood only: base = log prior, energy = log likelihood; then k = 0 is the prior itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

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
    batched : bool
        Whether the function takes many positions in one call, with one leading axis, and returns one number for each.
        All chains then move in lockstep, and are evaluated in one call: for NumPy code that is fast on arrays,
        emulators, or another framework's GPU.
    blobs : sequence of str
        Names of extra outputs: the function returns ``(log_density, blob, ...)``, and the blobs of every draw come back
        under these names beside the values.

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
    unconstrain: Callable[[Any], Any] | None = field(default=None, compare=False)  # of a user's starting points
    model: Any = field(default=None, compare=False, repr=False)  # of another package, and its names of dimensions
    coordinates: ClassVar[Any] = None  # linear ones that positions are given in, where they are not the user's own
    is_checked: bool = field(default=False, compare=False)  # prior and its sampler are known to agree

    def __init__(self, log_density: LogDensity | object, *, batched: bool = False, blobs: Sequence[str] = ()) -> None:
        if batched or blobs:
            density = _batched("log_density", log_density, batched, blobs)
            self._set(density, None, None, _beside(density, None))
        elif type(log_density).__module__.partition(".")[0] == "bridgestan":
            from tempering.doors.bridgestan import constrain_by_stan, density_of_stan

            self._set(density_of_stan(log_density), None, None, constrain_by_stan(log_density))
        else:
            self._set(_callable("log_density", log_density), None, None)

    @classmethod
    def from_likelihood(
        cls,
        log_likelihood: LogDensity,
        log_prior: Any,
        sample_prior: Callable[[Any], Any] | None = None,
        *,
        constrain: Callable[[Any], Any] | None = None,
        batched: bool = False,
        blobs: Sequence[str] = (),
    ) -> Target:
        """Temper the likelihood only: pi_k is proportional to prior * likelihood^k.

        Parameters
        ----------
        log_likelihood : callable
            A function of a position, or an object with ``log_density`` and ``log_density_gradient``. With priors by
            name: of a dictionary of the values, or of arguments with the names.
        log_prior : callable, or priors by name
            A function of a position; a normalised one makes the evidence absolute. Or a dictionary of priors
            (`tempering.prior`, or frozen distributions of ``scipy.stats``), a list of them for the entries of a vector,
            one prior of the whole position, or a `tempering.prior.UnitCube`: bounds and periodic coordinates are then
            taken care of, chains start from the prior, and nothing else is needed.
        sample_prior : callable, optional
            ``sample_prior(rng)`` draws one position from the prior exactly; it gets a JAX key on the vector engine
            and a NumPy ``Generator`` on the scalar one, and wherever ``batched`` is set.
        constrain : callable, optional
            Turns positions with leading axes (chain, draw) into the values a user sees, a dict of arrays by name; what
            `tempering.sample` returns holds those. For models whose positions are unconstrained.
        batched, blobs
            As for `Target`; a ``log_prior`` that is a function takes many positions too.

        Examples
        --------
        >>> import tempering as tp
        >>> tp.Target.from_likelihood(lambda x: -((x - 3) ** 2), lambda x: -0.5 * x**2)
        Target(base * exp(energy)^k)
        >>> tp.Target.from_likelihood(lambda x: -((x - 3) ** 2), {"x": tp.prior.Normal(0, 1)})
        Target(base * exp(energy)^k)
        """
        from tempering.prior.joint import joint_prior

        target = cls.__new__(cls)
        prior = None if callable(log_prior) or not log_prior else joint_prior(log_prior)
        if prior is not None:
            return target._from_prior(log_likelihood, prior, sample_prior, batched, blobs)
        base = _callable("log_prior", log_prior)
        sampler = None if sample_prior is None else _function("sample_prior", sample_prior)
        if batched or blobs:
            from tempering.target.batched import Batched, draw_by_generator

            energy = _batched("log_likelihood", log_likelihood, batched, blobs)
            base = Batched(base, name="log_prior") if batched else base
            sampler = None if sampler is None or not batched else draw_by_generator(sampler)
            target._set(energy, base, sampler, _beside(energy, constrain))
        else:
            target._set(_callable("log_likelihood", log_likelihood), base, sampler, constrain)
        return target

    def _from_prior(
        self, log_likelihood: Any, prior: Any, sample_prior: Any, batched: bool, blobs: Sequence[str]
    ) -> Target:
        """Fill in a target whose prior is known by name."""
        from tempering.prior.joint import called_with

        if sample_prior is not None:
            raise TargetError("Priors by name are drawn from as they are, but sample_prior was given. Leave it out.")
        likelihood = _callable("log_likelihood", log_likelihood)
        if prior.has_names:
            likelihood = called_with(likelihood, prior.names)
        constrain = prior.constrain
        if batched or blobs:
            energy: Any = _batched("log_likelihood", likelihood, batched, blobs, prior.values)
            constrain = _beside(energy, constrain)
        else:
            energy = _Through(likelihood, prior.values)
        self._set(energy, prior.log_density, prior.sample, constrain)
        object.__setattr__(self, "unconstrain", prior.unconstrain)
        object.__setattr__(self, "is_checked", True)
        return self

    @classmethod
    def from_numpyro(cls, model: Callable[..., Any], *args: Any, **kwargs: Any) -> Target:
        """Temper the likelihood of a NumPyro model; see `tempering.doors.numpyro.target_from_numpyro`."""
        from tempering.doors.numpyro import target_from_numpyro

        return target_from_numpyro(model, *args, **kwargs)

    @classmethod
    def from_stan(cls, posterior: Any, prior: Any) -> Target:
        """Temper the likelihood of a Stan program; see `tempering.doors.bridgestan.target_of_stan`."""
        from tempering.doors.bridgestan import target_of_stan

        return target_of_stan(posterior, prior)  # type: ignore[no-any-return]

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
        for name, value in (("unconstrain", None), ("model", None), ("is_checked", False)):
            object.__setattr__(self, name, value)

    def with_model(self, model: Any, unconstrain: Callable[[Any], Any] | None = None) -> Target:
        """Return the same target, which knows the model of another package that it was made from."""
        known = copy(self)
        for name, value in (("model", model), ("unconstrain", unconstrain), ("is_checked", True)):
            object.__setattr__(known, name, value)
        return known

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


@dataclass(frozen=True)
class _Through:
    """A likelihood of values, as a function of the free numbers they are made from."""

    log_likelihood: LogDensity
    values: Callable[[Any], Any]

    def __call__(self, position: Any) -> Any:
        return self.log_likelihood(self.values(position))


def _batched(
    name: str, function: Any, batched: bool, blobs: Sequence[str], prepare: Callable[[Any], Any] | None = None
) -> Any:
    from tempering.target.batched import Batched, one_by_one

    if isinstance(blobs, str) or not all(isinstance(blob, str) for blob in blobs):
        raise TargetError(f"blobs must be a list of names, but got {blobs!r}. Name each extra output.")
    called = _callable(name, function)
    return Batched(called if batched else one_by_one(called), tuple(blobs), prepare, name)


def _beside(energy: Any, constrain: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return how positions are shown, with the blobs beside them."""
    if not energy.blobs:
        return constrain

    def with_blobs(positions: Any) -> dict[str, Any]:
        shown = constrain(positions) if constrain is not None else positions
        return {**(shown if isinstance(shown, dict) else {"x": shown}), **energy.extras(positions)}

    return with_blobs


@lru_cache(maxsize=32)
def cold_density(target: Target, layout: Layout) -> Any:
    """Return log pi at k = 1 as a function of flat vectors; kept, so that code compiled for it is found again."""
    energy = layout.on_flat(target.energy)
    if target.base is None:
        return energy
    base = layout.on_flat(target.base)
    return lambda flat: base(flat) + energy(flat)
