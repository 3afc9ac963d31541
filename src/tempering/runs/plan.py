"""What a run is made of: everything that `tempering.sample` was told, once every default has been filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    path: str  # one of `PATHS` in `tempering.runs.planning`; "reference": the target has one at k = 0
    method: str
    rung_moves: str
    engine: str
    n_chains: int
    seed: int
    starts: tuple[Any, ...]  # empty: drawn from the prior
    example: Any = None  # a position, for its shape
    keep_rounds: bool = False  # whether the draws of the tuning rounds are kept
    context: Any = None  # by whom it is carried out: `tempering.execution.context.Context`

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
            return self.path in ("prior", "reference")
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
        if not isinstance(self.target, Target) or self.target.base is None:
            return Path.powers(ladder)
        if self.path == "powers":
            return Path([1.0, 1.0], [Leg("powers", np.zeros(2), ladder)], ("log likelihood", "log prior"))
        return Path.from_base(ladder, can_draw=self.can_redraw)
