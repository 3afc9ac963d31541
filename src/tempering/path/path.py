"""A path: a line of rungs, each a density built from the same few terms, log pi_r = c_r . t.

One leg leads from the target to a density that can be drawn from or is flat; a path of two legs has the target in
the middle, a density that reaches everywhere at one end and one fitted to what is known at the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.arrays import Floats
from tempering.errors import LadderError
from tempering.path.factored import AnyReference
from tempering.path.ladder import Ladder

NO_SOURCE = -1  # of a rung where nothing can be drawn afresh


def weighted_terms(coefficients: ArrayLike, terms: Floats) -> Floats:
    """Return c . t over the last axis; a term that does not count may be minus infinity.

    Examples
    --------
    >>> weighted_terms([0.0, 2.0], np.array([[-np.inf, 1.0], [3.0, -1.0]]))
    array([ 2., -2.])
    """
    c = np.asarray(coefficients, dtype=np.float64)
    total = np.zeros(np.broadcast_shapes(c.shape, terms.shape)[:-1])
    for i in range(terms.shape[-1]):
        column, factor = terms[..., i], c[..., i]
        with np.errstate(invalid="ignore"):  # infinities of both signs: the sum is not a number, and says so
            if np.ndim(factor) == 0:
                if factor != 0.0:
                    total += factor * column
            else:
                used = factor != 0.0
                total += np.where(used, factor * np.where(used, column, 0.0), 0.0)
    return total


@dataclass(frozen=True, eq=False)
class Leg:
    """One leg: from the target, k = 1, towards the density with the coefficients ``end`` at k = 0.

    Attributes
    ----------
    name : str
        "safe", "quick", or what a path of one leg is.
    end : ndarray, shape (term,)
        Coefficients at k = 0; zeros where the whole density is powered up.
    ladder : Ladder
        Its first rung is the target.
    source : int
        Which term can be drawn from exactly and proposed on every rung; `NO_SOURCE` if none can.
    """

    name: str
    end: Floats
    ladder: Ladder
    source: int = NO_SOURCE

    def coefficients(self, target: Floats) -> Floats:
        """Return the coefficients of every rung of the leg, the target first."""
        k = self.ladder.inverse_temperatures[:, np.newaxis]
        return np.asarray(k * target + (1.0 - k) * self.end)

    @property
    def redraws(self) -> bool:
        """Whether the last rung is drawn from exactly."""
        return self.source != NO_SOURCE and self.ladder.hottest == 0.0


@dataclass(frozen=True, eq=False)
class Path:
    """A line of rungs. With one leg rung 0 is the target; with two it is rung ``target``.

    Parameters
    ----------
    target_coefficients : array_like, shape (term,)
    legs : sequence of Leg
        One, or two: the second leg lies before the target, its end at rung 0.
    terms : sequence of str, optional
        Their names.
    references : sequence of Reference, optional
        Mixtures whose log densities are the last terms.

    Examples
    --------
    >>> safe = Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder([1, 0.5, 0.0]), source=1)
    >>> quick = Leg("quick", np.array([0.0, 0.0, 1.0]), Ladder([1, 0.0]), source=2)
    >>> path = Path([1.0, 1.0, 0.0], [safe, quick])
    >>> len(path), path.target, path.coefficients[:, 0]
    (4, 1, array([0. , 1. , 0.5, 0. ]))
    """

    target_coefficients: Floats
    legs: tuple[Leg, ...]
    terms: tuple[str, ...] = ()
    references: tuple[AnyReference, ...] = ()

    def __init__(
        self,
        target_coefficients: ArrayLike,
        legs: Sequence[Leg],
        terms: Sequence[str] = (),
        references: Sequence[AnyReference] = (),
    ) -> None:
        target = np.array(target_coefficients, dtype=np.float64)
        if len(legs) not in (1, 2) or any(leg.end.shape != target.shape for leg in legs):
            raise LadderError(
                f"A path has one leg or two, with one coefficient for each of {target.size} terms, but got "
                f"{len(legs)} legs with {[leg.end.size for leg in legs]}. Give each leg an end with that many."
            )
        target.setflags(write=False)
        object.__setattr__(self, "target_coefficients", target)
        object.__setattr__(self, "legs", tuple(legs))
        object.__setattr__(self, "terms", tuple(terms))
        object.__setattr__(self, "references", tuple(references))

    @classmethod
    def powers(cls, ladder: Ladder) -> Path:
        """Raise the whole density to powers, as the paper does: t = (log pi), c_r = k_r."""
        return cls([1.0], [Leg("powers", np.zeros(1), ladder)], ("log density",))

    @classmethod
    def of_energy(cls, ladder: Ladder, *, is_powered: bool = True) -> Path:
        """Take one energy that is tempered, whatever stands under it: t = (energy), c_r = k_r."""
        leg = Leg("powers" if is_powered else "base", np.zeros(1), ladder)
        return cls([1.0], [leg], ("energy",))

    @classmethod
    def from_base(cls, ladder: Ladder, *, can_draw: bool) -> Path:
        """Start from the base under a likelihood: t = (log likelihood, log prior), c_r = (k_r, 1)."""
        leg = Leg("base", np.array([0.0, 1.0]), ladder, 1 if can_draw else NO_SOURCE)
        return cls([1.0, 1.0], [leg], ("log likelihood", "log prior"))

    def __len__(self) -> int:
        """Return the number of rungs."""
        return len(self.coefficients)

    @cached_property
    def has_two_legs(self) -> bool:
        """Whether the target stands in the middle."""
        return len(self.legs) == 2

    @cached_property
    def target(self) -> int:
        """The rung that is the target."""
        return len(self.legs[1].ladder) - 1 if self.has_two_legs else 0

    @cached_property
    def coefficients(self) -> Floats:
        """What every rung is made of, shape (rung, term)."""
        return np.asarray(self._along([leg.coefficients(self.target_coefficients) for leg in self.legs]))

    @cached_property
    def inverse_temperatures(self) -> Floats:
        """How near every rung is to the target along its leg: 1 there, 0 at an end."""
        return np.asarray(self._along([leg.ladder.inverse_temperatures for leg in self.legs]))

    def without_draws(self) -> Path:
        """Return the same path, none of whose ends is drawn from."""
        legs = [replace(leg, source=NO_SOURCE) for leg in self.legs]
        return Path(self.target_coefficients, legs, self.terms, self.references)

    @cached_property
    def sources(self) -> NDArray[np.int32]:
        """Which term is proposed from on each rung: the target's own is its quick leg's."""
        parts = [np.full(len(leg.ladder), leg.source, dtype=np.int32) for leg in self.legs]
        line = self._along(parts)
        line[self.target] = self.legs[-1].source
        return np.asarray(line, dtype=np.int32)

    @property
    def leg_names(self) -> list[str]:
        """The leg that every rung of a path of two belongs to."""
        names = ["target"] * len(self)
        for leg in range(len(self.legs)):
            for rung in self.rungs_of(leg)[1:]:
                names[rung] = self.legs[leg].name
        return names

    @cached_property
    def n_own_terms(self) -> int:
        """Number of terms that are no reference's: they come first."""
        return self.target_coefficients.size - len(self.references)

    def _along(self, parts: list[Any]) -> Any:
        """Put what belongs to the rungs of the legs on the line: the second leg reversed, the target once."""
        return parts[0].copy() if len(parts) == 1 else np.concatenate([parts[1][:0:-1], parts[0]])

    def rungs_of(self, leg: int) -> NDArray[np.intp]:
        """Return the rungs of a leg from the target on."""
        n = len(self.legs[leg].ladder)
        return self.target + np.arange(n) if leg == 0 else self.target - np.arange(n)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The rungs at the ends of the line that are drawn from exactly: there a new tour begins."""
        last = [int(self.rungs_of(i)[-1]) for i in range(len(self.legs))]
        return tuple(rung for rung, leg in zip(last, self.legs, strict=True) if leg.redraws)

    @cached_property
    def legs_with_rungs(self) -> tuple[int, ...]:
        """The legs that have rungs besides the target: one of two may have none."""
        return tuple(i for i, leg in enumerate(self.legs) if len(leg.ladder) > 1 or not self.has_two_legs)

    @cached_property
    def far_end(self) -> int:
        """The rung that round trips lead to: the end of the first leg, or of the second where that has no rungs."""
        return len(self) - 1 if len(self.legs[0].ladder) > 1 or not self.has_two_legs else 0

    @cached_property
    def ladder(self) -> Ladder:
        """The ladder of the first leg, the only one or the safe one."""
        return self.legs[0].ladder

    def energy(self, terms: Floats, leg: int = 0) -> Floats:
        """Return what is tempered along a leg, d log pi_r / dk = (c_target - c_end) . t."""
        return weighted_terms(self.target_coefficients - self.legs[leg].end, terms)

    def with_reference_terms(self, values: Floats, terms: Floats) -> Floats:
        """Return the terms with those of the references evaluated at flat positions; what others know is kept."""
        if not self.references:
            return terms
        own = terms[..., : self.n_own_terms]
        return np.concatenate([own, *(q.log_density(values)[..., np.newaxis] for q in self.references)], axis=-1)

    def log_target(self, terms: Floats) -> Floats:
        """Return the log density of the target, up to a constant."""
        return weighted_terms(self.target_coefficients, terms)

    def log_weights(self, terms: Floats, rung: NDArray[Any]) -> Floats:
        """Return the log importance weight of each draw towards the target, (c_target - c_r) . t."""
        return weighted_terms((self.target_coefficients - self.coefficients)[rung], terms)

    @cached_property
    def is_powered(self) -> bool:
        """Whether the whole density is raised to powers, so that normalisers are known only relative to one another."""
        return self.legs[0].name == "powers"

    def __repr__(self) -> str:
        if not self.has_two_legs:
            return repr(self.ladder)
        legs = [self.legs[i] for i in self.legs_with_rungs]
        counts = ", ".join(f"{leg.name} leg {len(leg.ladder) - 1}" for leg in legs)
        return f"Path({len(self)} rungs: target, {counts})"
