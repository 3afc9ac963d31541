"""A target whose answers are known: what every member of the suite offers to any sampler.

Nothing here needs our sampler. Densities and quantities are plain functions of arrays, NumPy or JAX, with the
coordinates on the last axis; priors can be drawn from and be reached from the unit cube.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import TargetError
from tempering.problems.priors import Prior
from tempering.problems.problem import Array, FloatArray, namespace_of

if TYPE_CHECKING:
    from tempering.target import Target

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Quantity:
    """A function of the position and its exact expectation.

    Parameters
    ----------
    name : str
    function : callable
        Takes positions of shape (..., dimension) as NumPy or JAX arrays, and returns shape (...,) or (..., n).
    value : float or array
        The expectation under the target.
    accuracy : float
        How far ``value`` may be from the truth; 0 for a closed form.
    can_be_found : bool
        False where no sampler that starts from ``initial`` or from the prior can be expected to see what matters:
        a narrow mode in many dimensions that nothing leads to.
    """

    name: str
    function: Function
    value: Any
    accuracy: float = 0.0
    can_be_found: bool = True


def squared_length(value: float, accuracy: float = 0.0) -> Quantity:
    """Return the mean of the squared length."""
    return Quantity("squared length", lambda x: namespace_of(x).sum(x * x, axis=-1), value, accuracy)


def chance(name: str, is_so: Function, value: Any, accuracy: float = 0.0) -> Quantity:
    """Return the chance of what a function says of a position."""
    return Quantity(f"P({name})", lambda x: namespace_of(x).where(is_so(x), 1.0, 0.0), value, accuracy)


@dataclass(frozen=True)
class Evidence:
    """The log of a normalising constant, with where it is from and how exact it is.

    With a prior it is the log of the integral of prior times likelihood; without, of the density itself.
    """

    log_value: float
    accuracy: float
    provenance: str


@dataclass(frozen=True)
class Modes:
    """How to tell modes apart, and their masses.

    Parameters
    ----------
    mode_of : callable
        The number of the mode that a position belongs to, shape (...,).
    masses : array, shape (n_modes,)
    shares : callable, optional
        Functions of shape (..., n_modes) whose expectations are ``masses`` exactly, where modes overlap: the chances
        that each component of a mixture made the position. By default ones and zeros by ``mode_of``.
    """

    mode_of: Function
    masses: FloatArray
    shares: Function | None = None
    accuracy: float = 0.0
    can_be_found: bool = True

    def indicator(self, x: Array) -> Any:
        """Return ones and zeros of shape (..., n_modes): which mode a position belongs to."""
        xp = namespace_of(x)
        found = xp.expand_dims(xp.asarray(self.mode_of(x)), -1) == np.arange(len(self.masses))
        return xp.where(found, 1.0, 0.0)

    @property
    def quantity(self) -> Quantity:
        """The masses as a quantity."""
        function = self.indicator if self.shares is None else self.shares
        return Quantity("masses of the modes", function, self.masses, self.accuracy, self.can_be_found)


@dataclass(frozen=True, eq=False)
class KnownTarget:
    r"""A density with known answers, for any sampler.

    Parameters
    ----------
    name : str
        Short and unique, with the dimension where there is a choice: "funnel-10".
    title : str
        One line that says what it is.
    density : callable
        The log likelihood where the definition has a prior, and else the log density, up to a constant that
        ``evidence`` knows. Takes positions of shape (..., dimension), NumPy or JAX.
    prior : Prior
        The prior of the definition or, where ``has_prior`` is false, a wide density for samplers that need one.
    has_prior : bool
        Whether the prior belongs to the definition.
    initial : array, shape (dimension,)
        Where a chain may start.
    quantities : tuple of Quantity
        Exact expectations, besides the masses of modes.
    modes : Modes, optional
    evidence : Evidence, optional
    exact : callable, optional
        ``exact(rng, n)`` returns ``n`` independent draws of the target.
    source : str
        Who defined it.
    window : tuple, optional
        (lowest x, highest x, lowest y, highest y) of a picture of the first two coordinates.

    Examples
    --------
    >>> from tempering import problems
    >>> target = problems.eggbox()
    >>> target.name, target.dimension, target.evidence.log_value
    ('eggbox', 2, 235.85594033)
    >>> u = np.random.default_rng(1).random((5, 2))
    >>> target.log_likelihood(target.prior.from_unit_cube(u)).shape
    (5,)
    """

    name: str
    title: str
    density: Function
    prior: Prior
    has_prior: bool
    initial: FloatArray
    quantities: tuple[Quantity, ...] = ()
    modes: Modes | None = None
    evidence: Evidence | None = None
    exact: Callable[[np.random.Generator, int], FloatArray] | None = None
    source: str = ""
    window: tuple[float, float, float, float] | None = field(default=None)

    def __post_init__(self) -> None:
        initial = np.array(self.initial, dtype=np.float64)
        if initial.shape != (self.prior.dimension,):
            raise TargetError(
                f"{self.name}: the start has shape {initial.shape} and the prior {self.prior.dimension} coordinates. "
                "Make them agree."
            )
        initial.setflags(write=False)
        object.__setattr__(self, "initial", initial)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.prior.dimension

    def log_density(self, x: Array) -> Any:
        """Return the log of the target, not normalised: its integral is ``evidence``."""
        return self.density(x) + self.prior.log_density(x) if self.has_prior else self.density(x)

    def log_likelihood(self, x: Array) -> Any:
        """Return the log of the target over the prior, for samplers that go from the prior to the target."""
        return self.density(x) if self.has_prior else self.density(x) - self.prior.log_density(x)

    def log_prior(self, x: Array) -> Any:
        """Return the log density of the prior."""
        return self.prior.log_density(x)

    @property
    def known(self) -> tuple[Quantity, ...]:
        """All quantities, the masses of modes first."""
        return (self.modes.quantity, *self.quantities) if self.modes is not None else self.quantities

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw ``n`` independent positions from the target."""
        if self.exact is None:
            raise TargetError(f"There is no exact sampler for {self.name}. Compare its quantities instead.")
        return np.asarray(self.exact(rng, n))

    def target(self) -> Target:
        """Return it for `tempering.sample`: with its prior where the definition has one, otherwise as a density."""
        from tempering.target import Target

        if self.has_prior:
            return Target.from_likelihood(self.density, self.prior.log_density, self.prior.draw)
        return Target(self.density)

    def __repr__(self) -> str:
        return f"KnownTarget({self.name!r}, dimension {self.dimension})"
