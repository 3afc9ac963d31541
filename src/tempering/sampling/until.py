"""When to stop drawing: at effective draws, at a standard error, or after seconds, whichever comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import SamplerError

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws

FIRST_LOOK = 128  # iterations; each look is made after half as many more of them, since looking takes time too
GROWTH = 1.5


def _is_above_0(goal: Any) -> bool:
    return isinstance(goal, int | float | np.number) and not isinstance(goal, bool) and bool(goal > 0)


@dataclass(frozen=True)
class Until:
    """A goal for `tempering.sample`: drawing ends at the first of these that is reached, or at ``draws``.

    Parameters
    ----------
    effective_draws : float, optional
        Variance over squared standard error of every coordinate, the worst of them.
    standard_error : float, optional
        Of the cold expectation of ``quantity``, its largest component.
    quantity : callable, optional
        A function of the position, as `TemperedDraws.expect` takes it.
    seconds : float, optional
        By the clock, from the beginning of the drawing.
    enough : callable, optional
        A function of the draws so far, as `sample` would return them, that says whether they are enough.
    least : int
        Iterations before the draws are looked at for the first time; then they are after half as many more each time.

    Examples
    --------
    >>> Until(effective_draws=1000, seconds=60).seconds
    60
    """

    effective_draws: float | None = None
    standard_error: float | None = None
    quantity: Callable[..., Any] | None = None
    seconds: float | None = None
    enough: Callable[[TemperedDraws], bool] | None = None
    least: int = FIRST_LOOK

    def __post_init__(self) -> None:
        goals = (self.effective_draws, self.standard_error, self.seconds)
        is_open = all(goal is None for goal in goals) and self.enough is None
        if is_open or not all(goal is None or _is_above_0(goal) for goal in goals):
            raise SamplerError(
                f"Until needs effective_draws, a standard_error with its quantity, or seconds, each above 0, but got "
                f"{goals}. Write for example Until(effective_draws=1000)."
            )
        if (self.standard_error is None) != (self.quantity is None):
            raise SamplerError(
                "A standard error is that of a quantity, but only one of the two was given. Write for example "
                "Until(standard_error=0.01, quantity=lambda x: x > 0)."
            )

    def next_look(self, n_done: int) -> int:
        """Return at how many iterations a run is looked at next: fixed numbers, so that no clock says how long it gets.

        Examples
        --------
        >>> [Until(seconds=1).next_look(n) for n in (0, 128, 170)]
        [128, 192, 192]
        """
        look = self.least
        while look <= n_done:
            look = int(np.ceil(GROWTH * look))
        return look

    def is_late(self, seconds: float) -> bool:
        """Whether a run has taken as many seconds as it was given."""
        return self.seconds is not None and seconds >= self.seconds

    def is_reached(self, so_far: Callable[[], TemperedDraws], seconds: float) -> bool:
        """Whether a run that has taken so many seconds may end; its draws are looked at only if they have to be."""
        if self.is_late(seconds):
            return True
        if self.effective_draws is None and self.quantity is None and self.enough is None:
            return False
        run = so_far()
        if self.enough is not None and self.enough(run):
            return True
        if self.quantity is not None and self.standard_error is not None:
            error = np.max(np.asarray(run.expect(self.quantity).standard_error))
            if error <= self.standard_error:
                return True
        return self.effective_draws is not None and run.effective_draws() >= self.effective_draws


@dataclass(frozen=True)
class UntilDraws:
    """The end of a run at a number of draws of each chain, where there is room for more."""

    n: int

    def next_look(self, n_done: int) -> int:
        """Return at how many iterations a run is looked at next: at its end."""
        return self.n

    def is_late(self, seconds: float) -> bool:
        """No clock counts."""
        return False

    def is_reached(self, so_far: Callable[[], TemperedDraws], seconds: float) -> bool:
        """At the one look it is there."""
        return True
