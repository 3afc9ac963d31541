"""What an engine hands back after a block of iterations, and what it needs to run one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tempering.kernels.settings import Settings
from tempering.path import Ladder, Path

Rungs = int | NDArray[np.integer[Any]]  # one for all chains, or one each

QUANTUM = 32  # iterations: what tuning learns from at the least


@dataclass(frozen=True)
class Schedule:
    """Everything that tuning may change between blocks, and nothing does within one."""

    path: Path
    log_pseudo_prior: NDArray[np.float64]
    settings: tuple[Settings, ...] = field(default=())  # one per simple kernel
    local_every: int = 1  # iterations: how often a kernel of many calls moves; draws of sources are proposed at each

    @property
    def ladder(self) -> Ladder:
        """The ladder of the path's first leg."""
        return self.path.ladder


class Trace(NamedTuple):
    """Draws of a block; leading axes are (chain, draw). Replicas of one ensemble are neighbouring chains."""

    values: Any  # (chain, draw, coordinate), or a dict of such for a vector model
    terms: NDArray[np.float64]  # (chain, draw, term)
    rung: NDArray[np.int32]
    proposed: NDArray[np.int32]  # the rung proposed; equal to the rung before when none was
    acceptance: NDArray[np.float32]  # (chain, draw, simple kernel); NaN where a kernel was not tried


class Places(NamedTuple):
    """Where chains are: flat positions and their terms, one row per chain."""

    values: NDArray[np.float64]  # (chain, coordinate)
    terms: NDArray[np.float64]  # (chain, term)

    def along(self, path: Path) -> Places:
        """Return the same places with the terms of a path's references."""
        return Places(self.values, path.with_reference_terms(self.values, self.terms))

    def of(self, rows: slice | NDArray[Any]) -> Places:
        """Return the places of some chains."""
        return Places(self.values[rows], self.terms[rows])


class Model(Protocol):
    """A user's model: a state of any kind, moved by a step of its own, with an energy and what is recorded.

    Random numbers come by a NumPy ``Generator``, or by a key where all is written in JAX. It may have ``names`` of what
    is recorded, and ``sample_reference``, which draws a state at k = 0.
    """

    @property
    def step(self) -> Callable[..., Any]:
        """Return the next state: ``step(rng, state, k)``."""

    @property
    def energy(self) -> Callable[..., Any]:
        """Return what is tempered, of a state."""

    @property
    def record(self) -> Callable[..., Any]:
        """Return what is kept of a state."""

    @property
    def initial(self) -> Callable[..., Any]:
        """Return the state that a chain starts from: ``initial(rng)``."""

    def __hash__(self) -> int:
        """What is compiled for a model is found again by it."""


class Engine(Protocol):
    """How chains are executed. States are opaque; equal seeds give equal chains, whatever their number."""

    name: str
    n_chains: int  # rows of a trace
    chains_per_ensemble: int

    def start(self, path: Path) -> Any:
        """Return the states of all chains at their starting points, on the rung that is the target."""

    def run(self, states: Any, schedule: Schedule, n: int, *, moving: bool = True) -> tuple[Any, Trace]:
        """Advance all chains by ``n`` iterations; with ``moving=False`` every chain stays on its rung."""

    def on_rung(self, states: Any, rung: Rungs, places: Places | None = None) -> Any:
        """Put every chain on a rung, one for all or one each (simulated tempering only), perhaps at other places."""

    def n_invalid(self, states: Any) -> int:
        """Return how often a log density was NaN or +inf so far."""

    def positions(self, trace: Trace) -> dict[str, NDArray[np.float64]]:
        """Return the recorded values by name."""


def trimmed(trace: Trace) -> Trace:
    """Cut the values of a block: `joined` fills rows up again."""
    return trace._replace(values=trimmed_rows(trace.values))


def trimmed_rows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Leave out what follows the last number that is not zero in the longest row.

    Examples
    --------
    >>> trimmed_rows(np.array([[[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]]])).shape
    (1, 2, 2)
    """
    used = np.flatnonzero(np.any(values, axis=(0, 1)))
    return np.ascontiguousarray(values[..., : int(used[-1]) + 1 if used.size else 1])


def joined(traces: list[Trace]) -> Trace:
    """Join blocks in time."""
    if len(traces) == 1:
        return traces[0]
    widths = {trace.values.shape[-1] for trace in traces if not isinstance(trace.values, dict)}
    if len(widths) > 1:  # some were trimmed
        room = max(widths)
        traces = [t._replace(values=np.pad(t.values, [(0, 0), (0, 0), (0, room - t.values.shape[-1])])) for t in traces]
    return by_array(lambda *parts: np.concatenate(parts, axis=1), *traces)


def shortened(trace: Trace, n: int) -> Trace:
    """Keep the first ``n`` draws of every chain."""
    return by_array(lambda a: a[:, :n], trace)


def thinned(trace: Trace, every: int) -> Trace:
    """Keep the last of every so many draws of every chain."""
    if every == 1:
        return trace
    return by_array(lambda a: a[:, every - 1 :: every].copy(), trace)


def by_array(function: Callable[..., NDArray[Any]], *traces: Trace) -> Trace:
    """Return what a function makes of the arrays of a trace one by one, or of those of several in the same place."""

    def made(*parts: Any) -> Any:
        if isinstance(parts[0], dict):
            return {name: function(*(part[name] for part in parts)) for name in parts[0]}
        return function(*parts)

    return Trace(*map(made, *traces))
