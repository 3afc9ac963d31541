"""What a run is made of: everything that `tempering.sample` was told, once every default has been filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tempering.kernels.composite import leaves
from tempering.path import Ladder, Leg, Path
from tempering.target import Target
from tempering.target.layout import Layout


@dataclass(frozen=True)
class Plan:
    """What a run is made of, once every default has been filled in."""

    target: Any
    layout: Layout | None  # None: a model object, which records what it likes
    kernel: Any
    ladder: Ladder | None  # None: to be tuned
    path: str  # one of `PATHS`; "reference": the target has one at k = 0
    method: str
    rung_moves: str
    engine: str
    seed: int
    starts: tuple[Any, ...]  # empty: drawn from the prior
    example: Any  # a position, for its shape
    context: Any  # by whom it is carried out: `tempering.execution.context.Context`
    n_chains: int = 0  # that are tuned
    dearness: float = 0.0  # the share of an iteration's time that calls of the log density take
    is_log_concave: bool = False  # proven: there is one mode
    tunes_beside: bool = False  # on the processor, few chains of a run whose many are on an accelerator
    width: float = 1.0  # of the target along its axes, where that is far from 1: moves begin as long
    needs_safe_leg: bool = True  # to find modes, or to know the evidence under a prior whose constant is not known

    @property
    def leaves(self) -> tuple[Any, ...]:
        """The simple kernels that are tuned."""
        return leaves(self.kernel) if self.kernel is not None else ()

    @property
    def in_words(self) -> str:
        """One line about method, engine, chains and kernel."""
        what = self.kernel if self.kernel is not None else type(self.target).__name__
        return f"{self.method} on the {self.engine} engine, {self.n_chains} chains, {what!r}"

    @property
    def is_powered(self) -> bool:
        """Whether the whole density is raised to powers on one leg."""
        return isinstance(self.target, Target) and self.path == "powers"

    @property
    def has_base(self) -> bool:
        """Whether one leg can reach k = 0: a base under a likelihood, or a model that can sample its reference."""
        if isinstance(self.target, Target):
            return self.path in ONE_LEG and ONE_LEG[self.path].reaches_base
        return callable(getattr(self.target, "sample_reference", None))

    @property
    def can_redraw(self) -> bool:
        """Whether the base can be drawn from exactly, so that runs split into tours."""
        if not isinstance(self.target, Target):
            return self.has_base
        if self.engine == "scalar":
            from tempering.engines.scalar_pieces import can_draw_base

            assert self.layout is not None
            return can_draw_base(self.target, self.layout)
        return self.target.sample_base is not None

    def path_of(self, ladder: Ladder) -> Path:
        """Return the path of one leg with a ladder."""
        return ONE_LEG[self.path].of(self, ladder)


class OneLeg(NamedTuple):
    """A path of one leg: a row of `ONE_LEG`."""

    of: Callable[[Plan, Ladder], Path]
    needs_base: bool = False  # a prior, or a reference: something that stands under what is tempered
    reaches_base: bool = False  # whether the leg may end at k = 0


def _powers(plan: Plan, ladder: Ladder) -> Path:
    if not isinstance(plan.target, Target) or plan.target.base is None:
        return Path.powers(ladder)
    return Path([1.0, 1.0], [Leg("powers", np.zeros(2), ladder)], ("log likelihood", "log prior"))


def _from_base(plan: Plan, ladder: Ladder) -> Path:
    return Path.from_base(ladder, can_draw=plan.can_redraw)


ONE_LEG = {  # by the name that `tempering.sample` takes; a row is all that a new path of one leg needs
    "powers": OneLeg(_powers),
    "prior": OneLeg(_from_base, needs_base=True, reaches_base=True),
    "reference": OneLeg(_from_base, reaches_base=True),  # the base is made: `tempering.sampling.starts.with_reference`
}
PATHS = ("two_legs", *ONE_LEG)
