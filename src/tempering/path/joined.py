"""The paths of several runs of one target as one: their rungs side by side, their references among the terms of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.path.path import NO_SOURCE, Path


@dataclass(frozen=True, eq=False, init=False)
class JoinedPath(Path):
    """Paths one after the other. What is said of legs and of the target is said of the last."""

    parts: tuple[Path, ...] = ()

    def __init__(self, parts: Sequence[Path]) -> None:
        last = parts[-1]
        super().__init__(last.target_coefficients, last.legs, last.terms, last.references)
        object.__setattr__(self, "parts", tuple(parts))

    @classmethod
    def of(cls, paths: Sequence[Path]) -> JoinedPath:
        """Write paths in the terms of all: those that they have in common, then the references of each."""
        references = [reference for path in paths for reference in path.references]
        firsts = np.cumsum([0, *(len(path.references) for path in paths)])
        n_own = paths[0].n_own_terms
        names = [*paths[0].terms[:n_own], *(f"reference {i}" for i in range(len(references)))]

        def lifted(path: Path, first: int) -> Path:
            place = np.concatenate([np.arange(n_own), n_own + first + np.arange(len(path.references))])

            def wide(coefficients: Floats) -> Floats:
                found = np.zeros(n_own + len(references))
                found[place] = coefficients
                return found

            legs = [
                replace(leg, end=wide(leg.end), source=NO_SOURCE if leg.source == NO_SOURCE else int(place[leg.source]))
                for leg in path.legs
            ]
            return Path(wide(path.target_coefficients), legs, names, references)

        return cls([lifted(path, int(first)) for path, first in zip(paths, firsts[:-1], strict=True)])

    @cached_property
    def first_rungs(self) -> NDArray[np.int32]:
        """Where the rungs of each part begin."""
        return np.cumsum([0, *(len(part) for part in self.parts[:-1])], dtype=np.int32)

    @cached_property
    def target(self) -> int:
        """The rung that is the target in the last part; those of the others are the same density."""
        return int(self.first_rungs[-1]) + self.parts[-1].target

    @cached_property
    def far_end(self) -> int:
        """The far end of the last part."""
        return int(self.first_rungs[-1]) + self.parts[-1].far_end

    @cached_property
    def coefficients(self) -> Floats:
        """What every rung is made of, shape (rung, term)."""
        return np.concatenate([part.coefficients for part in self.parts])

    @cached_property
    def inverse_temperatures(self) -> Floats:
        """How near every rung is to the target along its leg."""
        return np.concatenate([part.inverse_temperatures for part in self.parts])

    @cached_property
    def sources(self) -> NDArray[np.int32]:
        """Which term is proposed from on each rung."""
        return np.concatenate([part.sources for part in self.parts])

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The rungs at the ends of the parts that are drawn from exactly."""
        return tuple(
            int(first) + end for first, part in zip(self.first_rungs, self.parts, strict=True) for end in part.ends
        )

    @property
    def leg_names(self) -> list[str]:
        """The leg that every rung belongs to."""
        return [name for part in self.parts for name in part.leg_names]

    def __repr__(self) -> str:
        return f"JoinedPath({len(self)} rungs of {len(self.parts)} runs)"
