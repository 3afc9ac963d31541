"""A journal of an engine's answers: what was computed before a kill is read, not computed again.

All that happens between two calls of an engine is deterministic. So tuning is done again from the journal, its
sampling is not, and it goes on where the journal ends as if nothing had happened.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from tempering.engines.stopping import AbandonedBlock
from tempering.engines.trace import Places, Schedule, Trace, joined
from tempering.errors import CheckpointError, DamageError
from tempering.execution.blocks import WholeEngine
from tempering.execution.digest import digest
from tempering.execution.interruption import Interruption
from tempering.execution.pace import Pace
from tempering.io.checkpoint import TUNING, Folder, read_part
from tempering.io.encoding import decode, encode
from tempering.io.records import readable

ENDING, SET_ASIDE = ".record", ".damaged"


class Past:
    """States in the past of a journal: nobody needs them but the calls that are answered from it."""


PAST = Past()


class Journal:
    """The answers so far, and those to come; written at intervals, a file each time.

    Where a file is damaged, it and those after it are set aside, and the run goes on from the file before.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._n_files = 0
        self._past: Iterator[tuple[str, Any, list[Any]]] | None = None
        self._next: tuple[str, Any, list[Any]] | None = None
        self._n_calls = 0
        self._new: list[tuple[str, Any]] = []
        self._states: Callable[[], list[Any]] = list

    @property
    def is_replaying(self) -> bool:
        """Whether the next answer is known."""
        if self._past is None:  # read when it is first asked for: by then it is known that the folder is this run's
            self._past = self._read()
            self._next = next(self._past, None)
        return self._next is not None

    def replay(self, call: str) -> tuple[Any, list[Any] | None]:
        """Return the next answer and, where the journal ends, the states after it."""
        assert self._next is not None
        assert self._past is not None
        known, answer, states = self._next
        self._n_calls += 1
        if known != call:
            raise CheckpointError(
                f"A run must repeat what its checkpoint {self._folder.path} holds, but step {self._n_calls} of its "
                "tuning comes out otherwise here, though all the arguments agree: another machine, or another version "
                "of NumPy's libraries, rounds differently. Resume it where it was started, or choose another name."
            )
        self._next = next(self._past, None)
        return answer, states if self._next is None else None

    def record(self, call: str, answer: Any, states: Callable[[], list[Any]]) -> None:
        """Add an answer; ``states()`` returns those after it, and is called before the engine runs again."""
        self._new.append((call, answer))
        self._states = states
        if self._folder.is_due:
            self.write()

    def started(self) -> None:
        """Keep what was answered where chains start: a run that goes on begins there again."""
        if self._folder.answers is not None:
            self._folder.answers.hold()
            self._folder.answers.write()

    def frozen(self) -> bytes:
        """Return the states after the last answer as they are now, whatever is done to them from here on."""
        return encode(self._states(), self._folder.classes)

    def write(self, states: bytes | None = None, *, is_between_calls: bool = True) -> None:
        """Write what is new, with the states after it or what they were when they were frozen."""
        if self._new:
            sections = [encode(self._new, self._folder.classes), self.frozen() if states is None else states]
            self._folder.write_record(f"{TUNING}/{self._n_files:05d}{ENDING}", {"n_calls": len(self._new)}, sections)
            self._n_files += 1
            self._new = []
            if is_between_calls:
                self._folder.pass_answers()

    def _read(self) -> Iterator[tuple[str, Any, list[Any]]]:
        folder = self._folder.path / TUNING
        for number, file in enumerate(sorted(folder.glob(f"*{ENDING}"))):
            found = self._read_file(file, number)
            if found is None:
                return
            self._n_files = number + 1
            entries, states = found
            for call, answer in entries:
                yield call, answer, states

    def _read_file(self, file: Path, number: int) -> tuple[Any, list[Any]] | None:
        try:
            if file.name != f"{number:05d}{ENDING}":
                raise DamageError(file.with_name(f"{number:05d}{ENDING}"), "it is missing")
            sections = read_part(file, f"{TUNING}/{file.name}", self._folder.id)[1]
            entries, states = _decoded(file, sections, self._folder)
        except DamageError as damage:
            self._set_aside(number)
            warnings.warn(f"{damage} The run goes on from what comes before it, and does the rest again.", stacklevel=2)
            return None
        return entries, states

    def _set_aside(self, number: int) -> None:
        """Keep files that cannot be used under other names."""
        for file in sorted((self._folder.path / TUNING).glob(f"*{ENDING}")):
            if file.name >= f"{number:05d}":
                file.replace(file.with_name(file.name + SET_ASIDE))


def _decoded(file: Path, sections: list[bytes], folder: Folder) -> Any:
    with readable(file):
        entries, states = (decode(section, folder.classes) for section in sections)
        return [(str(call), answer) for call, answer in entries], list(states)


class JournalEngine:
    """An engine that answers from a journal as far as it goes, and adds to it from there.

    Long calls are run in pieces by the clock, and each piece is an answer of its own.
    """

    def __init__(
        self, engine: WholeEngine, journal: Journal | None, interruption: Interruption, where: str,
        pace: Pace | None = None,
    ) -> None:  # fmt: skip
        self.name, self.n_chains, self.chains_per_ensemble = engine.name, engine.n_chains, engine.chains_per_ensemble
        self.engine = engine
        self.pace = Pace() if pace is None else pace
        self._journal, self._interruption, self._where = journal, interruption, where

    def start(self, *arguments: Any) -> Any:
        """Return the states of all chains at their starting points."""
        try:
            with self._interruption.at_once():
                states = self.engine.start(*arguments)
            if self._journal is not None:
                self._journal.started()
            return states
        except BaseException:
            if self._journal is not None:
                self._journal.write(is_between_calls=False)
            raise

    def kept(self, states: Any) -> Any:
        """Return states that are needed again after later answers: a journal has those at its end alone."""
        journal = self._journal
        if journal is None:
            return states
        if journal.is_replaying:
            return self.engine.from_parts(journal.replay("states")[0])
        journal.record("states", self.engine.parts(states), lambda: self.engine.parts(states))
        return states

    def run(self, states: Any, schedule: Schedule, n: int, *, moving: bool = True) -> tuple[Any, Trace]:
        """Advance all chains by ``n`` iterations, or remember how they did."""
        traces: list[Trace] = []
        left = n
        call = (
            "" if self._journal is None else digest(*(getattr(schedule, f.name) for f in fields(schedule)), n, moving)
        )
        while left > 0:
            if self._journal is not None and self._journal.is_replaying:
                trace, parts = self._journal.replay(f"{call} {left}")
                states = PAST if parts is None else self.engine.from_parts(parts)
            else:
                piece = self.pace.next(left)
                states, trace = self._run_piece(states, schedule, piece, f"{call} {left}", moving=moving)
            traces.append(trace)
            left -= trace.rung.shape[1]
        return states, joined(traces)

    def _run_piece(self, states: Any, schedule: Schedule, n: int, call: str, *, moving: bool) -> tuple[Any, Trace]:
        """Run and record; whatever ends the run here, what was recorded before is written."""
        journal = self._journal
        kept = journal.frozen() if journal is not None and self.engine.changes_in_place(states) else None
        try:
            self._interruption.stop_tuning(self._where)
            with self.pace.measuring(n), self._interruption.abandoning():
                after, trace = self.engine.run(states, schedule, n, moving=moving)
        except AbandonedBlock:
            if journal is not None:
                journal.write(kept, is_between_calls=False)
            self._interruption.stop_tuning(self._where)
            raise
        except BaseException:
            if journal is not None:
                journal.write(kept, is_between_calls=False)
            raise
        if journal is not None:
            journal.record(call, trace, lambda: self.engine.parts(after))
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
