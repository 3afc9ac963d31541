"""A journal of an engine's answers: what was computed before a kill is read, not computed again.

All that happens between two calls of an engine is deterministic. So tuning is done again from the journal, its
sampling is not, and it goes on where the journal ends as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tempering.engines.trace import Places, Schedule, Trace
from tempering.errors import CheckpointError
from tempering.execution.blocks import WholeEngine
from tempering.execution.checkpoint import Folder, writing
from tempering.execution.digest import digest
from tempering.execution.interruption import Interruption
from tempering.execution.pickling import pack, unpack
from tempering.path import Path

TUNING = "tuning"


class Past:
    """States in the past of a journal: nobody needs them but the calls that are answered from it."""


PAST = Past()


class Journal:
    """The answers so far, and those to come; written at intervals, a file each time."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files = sorted((folder.path / TUNING).glob("*.pickle"))
        self._n_files = len(self._files)
        self._past = self._read()
        self._next = next(self._past, None)
        self._n_calls = 0
        self._new: list[tuple[str, Any]] = []
        self._states: Callable[[], list[bytes]] = list

    @property
    def is_replaying(self) -> bool:
        """Whether the next answer is known."""
        return self._next is not None

    def replay(self, call: str) -> tuple[Any, list[bytes] | None]:
        """Return the next answer and, where the journal ends, the states after it."""
        assert self._next is not None
        known, answer, states = self._next
        self._n_calls += 1
        if known != call:
            raise CheckpointError(
                f"A run must repeat what its checkpoint {self._folder.path} holds, but step {self._n_calls} of its "
                "tuning comes out otherwise here, though all the arguments agree: another machine, or another version "
                "of NumPy's libraries, rounds differently. Go on where it was begun, or choose another name."
            )
        self._next = next(self._past, None)
        return answer, states if self._next is None else None

    def record(self, call: str, answer: Any, states: Callable[[], list[bytes]]) -> None:
        """Add an answer; ``states()`` packs those after it, and is called before the engine runs again."""
        self._new.append((call, answer))
        self._states = states
        if self._folder.is_due:
            self.write()

    def write(self) -> None:
        """Write what is new."""
        if self._new:
            self._folder.write(f"{TUNING}/{self._n_files:05d}.pickle", pack((self._new, self._states())))
            self._n_files += 1
            self._new = []

    def _read(self) -> Iterator[tuple[str, Any, list[bytes]]]:
        for file in self._files:
            with writing(self._folder.path):
                entries, states = unpack(file.read_bytes())
            for call, answer in entries:
                yield call, answer, states


class JournalEngine:
    """An engine that answers from a journal as far as it goes, and adds to it from there."""

    def __init__(self, engine: WholeEngine, journal: Journal | None, interruption: Interruption, where: str) -> None:
        self.name, self.n_chains, self.chains_per_ensemble = engine.name, engine.n_chains, engine.chains_per_ensemble
        self.engine = engine
        self._journal, self._interruption, self._where = journal, interruption, where

    def start(self, path: Path) -> Any:
        """Return the states of all chains at their starting points."""
        return self.engine.start(path)

    def run(self, states: Any, schedule: Schedule, n: int, *, moving: bool = True) -> tuple[Any, Trace]:
        """Advance all chains by ``n`` iterations, or remember how they did."""
        journal = self._journal
        if journal is None:
            self._interruption.stop_tuning(self._where)
            return self.engine.run(states, schedule, n, moving=moving)
        call = digest(schedule.path.coefficients, schedule.log_pseudo_prior, schedule.settings, n, moving)
        if journal.is_replaying:
            trace, parts = journal.replay(call)
            return (PAST if parts is None else self.engine.unpacked(parts)), trace
        if self._interruption.requested:
            journal.write()
        self._interruption.stop_tuning(self._where)
        after, trace = self.engine.run(states, schedule, n, moving=moving)
        journal.record(call, trace, lambda: self.engine.packed(after))
        return after, trace

    def on_rung(self, states: Any, rung: Any, places: Places | None = None) -> Any:
        """Put every chain on a rung."""
        return states if isinstance(states, Past) else self.engine.on_rung(states, rung, places)

    def n_invalid(self, states: Any) -> int:
        """Return how often a log density was NaN or +inf so far."""
        return 0 if isinstance(states, Past) else self.engine.n_invalid(states)

    def positions(self, trace: Trace) -> Any:
        """Return the recorded values by name."""
        return self.engine.positions(trace)
