"""A checkpoint: a folder with what a run has done, from which the same call goes on.

``run.json`` says what run it is, ``tuning/`` holds the engine's answers while tuning, ``draws.zarr`` whole chunks of
draws, and ``latest`` the states after the last draw kept, with the draws that fill no chunk yet; ``latest.before`` is
the one before it. Every file is written beside and renamed when whole, so that there is no moment at which a kill
leaves half a checkpoint; and every file has checksums, so that what a disk has damaged is found, never read. The files
hold arrays and JSON, nothing that runs when it is read.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from tempering.errors import CheckpointError, DamageError, InputError, SamplerError
from tempering.io.durable_files import PARTIAL, HeldElsewhereError, lock, write_atomically
from tempering.io.encoding import Classes, decode
from tempering.io.records import copy_of, opened, read_record, readable, write_record

FORMAT = 2
SECONDS = 60.0
RUN, LATEST, BEFORE, LOCK = "run.json", "latest", "latest.before", "lock"
STORE, TUNING, PROBES, ANSWERS = "draws.zarr", "tuning", "probes", "answers"
OURS = {RUN, f"{RUN}.copy", LATEST, BEFORE, LOCK, STORE, TUNING, PROBES, ANSWERS}


VALUES = "log densities"

Read = Callable[[bytes, Classes | None], Any]


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept while it runs, and how often.

    Parameters
    ----------
    path : path
        A folder; it is made if there is none.
    seconds : float
        How long a run goes on before it is written again: what a kill may cost. It is written at the end too.

    Examples
    --------
    >>> Checkpoint("run.checkpoint", seconds=10)
    Checkpoint(path='run.checkpoint', seconds=10)
    """

    path: str | Path
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        given: Any = self.seconds
        if not isinstance(given, int | float) or not given >= 0:
            raise InputError(f"seconds must be a number, 0 or more, but got {self.seconds!r}. 60 is a good start.")


class Folder:
    """A checkpoint's folder, held by one process at a time.

    Where the disk can only be read, so can the folder: a run that is done is returned, any other is refused.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path = Path(checkpoint.path)
        self.seconds = checkpoint.seconds
        self._opened = self._written = self._answered = time.monotonic()
        self.seconds_before = 0.0  # spent by calls that were killed
        self.classes: dict[str, type] = {}  # a user's own, of which states may be
        self.values_at: Callable[[Any], list[str]] | None = None  # of the target, at flat positions
        self.answers: Any = None  # of long calls, since the last record: `tempering.execution.answers.AnswersOnDisk`
        self.why_not_written = ""
        self._contents: Callable[[], dict[str, str]] = dict
        self._known = Identity({})
        check_ours(self.path)
        self._lock = self._locked()
        try:
            with readable(self.path / RUN):
                self._known = read_known(self.path) or Identity({})
        except BaseException:
            self.close()
            raise

    @property
    def id(self) -> str:
        """A mark that all files of this run bear, and no other's."""
        return self._known.id

    @property
    def identity(self) -> dict[str, str]:
        """What run it is; empty while it is none yet."""
        return self._known.run

    def _locked(self) -> IO[Any] | None:
        """Take the folder for this process: the system lets go of it when the process ends, however it ends."""
        try:
            with writing(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                return lock(self.path / LOCK)
        except HeldElsewhereError as error:
            raise CheckpointError(
                f"Another process is writing the checkpoint {self.path}. Wait until it ends, or choose another name."
            ) from error
        except CheckpointError as error:
            reason = error.__cause__
            if not isinstance(reason, OSError) or reason.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            if not (self.path / RUN).is_file():
                raise
            self.why_not_written = str(error)
            return None

    def close(self) -> None:
        """Let others have the folder."""
        try:
            if self.answers is not None:
                self.answers.close()
            self._note_changes()
        finally:
            if self._lock is not None:
                self._lock.close()

    def _note_changes(self) -> None:
        """Note which lists and dicts change as the run goes on: counters and caches, by which no run is known."""
        known, now = self._known, self._contents()
        changing = {place for place, found in known.contents.items() if now.get(place, found) != found}
        if self._lock is not None and changing - set(known.changing):
            self._write_known(replace(known, changing=tuple(sorted({*known.changing, *changing}))))

    @property
    def seconds_spent(self) -> float:
        """How long the run has taken, all calls together."""
        return self.seconds_before + time.monotonic() - self._opened

    @property
    def is_due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._written >= self.seconds

    @property
    def seconds_left(self) -> float:
        """How long it is until something must be written, if only the answers of long calls."""
        return max(self._written, self._answered) + self.seconds - time.monotonic()

    def pass_answers(self) -> None:
        """Forget the answers of calls that come before a record that has just been written."""
        if self.answers is not None:
            self.answers.clear()

    def write_answers(self, sections: Sequence[bytes]) -> None:
        """Write what long calls have answered since the last record; the next record is due as before."""
        written = self._written
        self.write_record(ANSWERS, {}, sections)
        self._written, self._answered = written, self._written

    def check_writable(self) -> None:
        """Refuse to go on with a run where nothing can be written."""
        if self.why_not_written:
            raise CheckpointError(self.why_not_written)

    def identify(
        self,
        identity: Mapping[str, str],
        may_be_more: str | None = None,
        contents: Callable[[], dict[str, str]] = dict,
        agree: Callable[[str, str], bool] | None = None,
    ) -> None:
        """Refuse a folder of another run; give a new one its identity. One number may be larger than it was.

        ``contents()`` are digests of the lists and dicts that the user's functions refer to, by place; ``agree`` says
        whether two lists of values of the log density are the same.
        """
        here = Identity(dict(identity), contents(), id=uuid4().hex)
        self._contents = contents
        if not self.identity:
            self._write_known(here)
            return
        there = self._known
        names = sorted(set(there.run) | set(here.run))
        differing = [name for name in names if there.run.get(name) != here.run.get(name)]
        if VALUES in differing and agree is not None and agree(there.run.get(VALUES, ""), here.run.get(VALUES, "")):
            differing.remove(VALUES)
        told = [f"{name}: {there.run.get(name)} there, {here.run.get(name)} here" for name in differing]
        told += [f"{place} has changed" for place in there.changed_in(here)]
        if len(told) == 1 and differing == [may_be_more]:
            if _is_more(*(known.run.get(differing[0], "") for known in (there, here))):
                self.check_writable()
                self._write_known(replace(there, run=here.run))
                return
        if told:
            raise CheckpointError(
                f"The checkpoint {self.path} belongs to another run: {'; '.join(told)}. Repeat the call it was made "
                "by, or choose another name."
            )

    def _write_known(self, known: Identity) -> None:
        for name in (f"{RUN}.copy", RUN):
            self.write(name, json.dumps(known.as_json(), indent=1).encode())
        self._known = known

    def write(self, name: str, *parts: bytes) -> None:
        """Write a file beside and rename it when it is whole and on the disk."""
        target = self.path / name
        with writing(self.path):
            target.parent.mkdir(exist_ok=True)
            write_atomically(target, *parts)
        self._written = time.monotonic()

    def write_record(
        self, name: str, header: Mapping[str, Any], sections: Sequence[bytes], before: str | None = None
    ) -> None:
        """Write a record; the one it replaces is kept under another name, if one is given."""
        target = self.path / name
        with writing(self.path):
            target.parent.mkdir(exist_ok=True)
            marked = dict(header) | {"run": self.id, "name": name}
            write_record(target, marked, sections, None if before is None else self.path / before)
        self._written = time.monotonic()


@dataclass(frozen=True)
class Identity:
    """What is known of a run: its arguments, what its functions refer to, and what of that changes as it goes on."""

    run: dict[str, str]
    contents: dict[str, str] = field(default_factory=dict)
    changing: tuple[str, ...] = ()
    id: str = ""

    def changed_in(self, other: Identity) -> list[str]:
        """Return places whose content is another one there, but for those that change anyway."""
        places = sorted({*self.contents, *other.contents} - {*self.changing, *other.changing})
        return [place for place in places if self.contents.get(place) != other.contents.get(place)]

    def as_json(self) -> dict[str, Any]:
        """Return plain data, with a checksum."""
        found = {"run": self.run, "contents": self.contents, "changing": list(self.changing), "id": self.id}
        return {"format": FORMAT} | found | {"checksum": _checksum(found)}

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Identity:
        """Return what plain data say; raise ValueError where the checksum does not match."""
        parts = {name: found[name] for name in ("run", "contents", "changing", "id") if name in found}
        if _checksum(parts) != found["checksum"]:
            raise ValueError("checksum")
        return cls(dict(parts["run"]), dict(parts["contents"]), tuple(parts["changing"]), parts.get("id", ""))


def _is_more(there: str, here: str) -> bool:
    return there.isdecimal() and here.isdecimal() and int(here) > int(there)


def _checksum(found: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(found, sort_keys=True).encode())


def check_ours(path: Path) -> None:
    """Refuse a file, and a folder that holds something else than a checkpoint."""
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"A checkpoint is a folder, but {path} is a file. Choose another name.")
    try:
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    except OSError as error:
        raise CheckpointError(f"The folder {path} cannot be opened: {error.strerror or error}.") from error
    if names and not names & OURS and not all(name.endswith(PARTIAL) for name in names):
        raise CheckpointError(
            f"A checkpoint needs a folder of its own, but {path} holds something else. Choose another name."
        )
    if names & {LATEST, BEFORE, STORE, TUNING} and not names & {RUN, f"{RUN}.copy"}:
        raise DamageError(
            path / RUN, "it is missing, and so is its copy", "Nothing was changed; put one of them back from a backup."
        )


def read_identity(path: Path) -> dict[str, str] | None:
    """Return what run a folder is a checkpoint of; None if it does not say so yet, or is none."""
    known = read_known(path)
    return None if known is None else known.run


def is_checkpoint(path: Path) -> bool:
    """Whether a folder is a checkpoint, however damaged."""
    return any((path / name).is_file() for name in (RUN, f"{RUN}.copy", LATEST, BEFORE))


def is_of_sums(path: Path) -> bool:
    """Whether a checkpoint is of a run in sums."""
    identity = read_identity(path)
    return identity is not None and identity.get("keep") == "sums"


def read_known(path: Path) -> Identity | None:
    """Return what is known of the run of a checkpoint, from either copy; None if it does not say so yet."""
    damages = []
    for file in (path / RUN, copy_of(path / RUN)):
        if not os.path.lexists(file):
            continue
        try:
            with opened(file) as source:
                found = json.load(source)
            version = found["format"]
            known = Identity.of_json(found) if version == FORMAT else None
        except Exception:  # bytes may be wrong in any way
            damages.append(DamageError(file, "it does not say which run it belongs to"))
            continue
        if known is None:
            raise CheckpointError(
                f"The checkpoint {path} has format {version}, but this version reads format {FORMAT}. Go on with the "
                "version that began it, or choose another name."
            )
        for damage in damages:
            warnings.warn(f"{damage} Its copy, {file.name}, is whole and is used instead.", stacklevel=3)
        return known
    if damages:
        raise damages[0]
    return None


def write_latest(folder: Folder, header: Mapping[str, Any], sections: Sequence[bytes]) -> None:
    """Write how far a run has come: a header that says so, with the time it took, and what it goes on from."""
    folder.write_record(LATEST, dict(header) | {"seconds": folder.seconds_spent}, sections, BEFORE)


def read_latest(path: Path) -> tuple[dict[str, Any] | None, list[bytes]]:
    """Return the header and the sections of what was written last, or, where that is damaged, of what came before it.

    None if nothing was written.
    """
    latest, before = path / LATEST, path / BEFORE
    if not os.path.lexists(latest) and not os.path.lexists(before):
        return None, []
    run = id_of(path)
    try:
        earlier = read_part(before, LATEST, run)
    except DamageError:
        earlier = None
    try:
        found = read_part(latest, LATEST, run)
        with readable(latest):
            if earlier is not None and earlier[0]["n_done"] > found[0]["n_done"]:
                raise DamageError(latest, f"it is older than {before.name}")
        return found
    except DamageError as damage:
        if earlier is None:
            raise DamageError(damage.file, damage.why, _without_latest(path)) from damage
        warnings.warn(f"{damage} The run goes on from the record before it, {before.name}.", stacklevel=3)
        return earlier


def decoded(path: Path, section: bytes, classes: Classes | None = None, read: Read = decode) -> Any:
    """Return what a section of the last record holds."""
    with readable(path / LATEST):
        return read(section, classes)


def read_part(file: Path, name: str, run: str) -> tuple[dict[str, Any], list[bytes]]:
    """Read a record of a run's checkpoint; raise `DamageError` where it is another run's, or of another name there."""
    header, sections = read_record(file)
    if header.pop("run", "") != run:
        raise DamageError(file, "it belongs to another run")
    if header.pop("name", name) != name:
        raise DamageError(file, "it is another file of this run")
    return header, sections


def id_of(path: Path) -> str:
    """Return the mark that all files of a checkpoint's run bear."""
    known = read_known(path)
    return "" if known is None else known.id


def _without_latest(path: Path) -> str:
    return (
        f"There is no record before it. Nothing was changed. Whole chunks of draws are in {path / STORE}; to draw "
        f"again from the end of tuning, delete {LATEST}, {BEFORE} and {STORE} there and repeat the call."
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk, or whatever else keeps a file from being written, into an error that says what is left."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {path} cannot be written: {error.strerror or error}. What was written before is whole: "
            "make room, and the same call goes on from there."
        ) from error


def remove(path: str | Path) -> None:
    """Delete a checkpoint, and nothing else."""
    folder = Path(path)
    if not folder.is_dir() or read_identity(folder) is None:
        raise CheckpointError(f"{folder} is not a checkpoint: nothing was deleted.")
    shutil.rmtree(folder)


def as_checkpoint(value: str | Path | Checkpoint) -> Checkpoint:
    """Take a path for a checkpoint written every minute."""
    if not isinstance(value, str | PathLike | Checkpoint):
        raise SamplerError(
            f"checkpoint must be a folder or a tempering.execution.Checkpoint, but got {type(value).__name__}. Pass a "
            "name, as checkpoint='night-run'."
        )
    return value if isinstance(value, Checkpoint) else Checkpoint(value)


def within(value: str | Path | Checkpoint | None, name: str) -> Checkpoint | None:
    """Return the checkpoint of one of several runs that are kept in one folder; None where there is none.

    Examples
    --------
    >>> within(Checkpoint("study", seconds=10), "pilot").path.as_posix()
    'study/pilot'
    """
    if value is None:
        return None
    whole = as_checkpoint(value)
    return Checkpoint(Path(whole.path) / name, whole.seconds)
