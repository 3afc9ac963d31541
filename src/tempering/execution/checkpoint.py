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
import shutil
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tempering.errors import CheckpointError, DamageError
from tempering.execution.locks import HeldElsewhereError, lock
from tempering.io.durable_files import PARTIAL, write_atomically
from tempering.io.records import copy_of, read_record, write_record

FORMAT = 2
SECONDS = 60.0
RUN, LATEST, BEFORE, LOCK = "run.json", "latest", "latest.before", "lock"
STORE, TUNING = "draws.zarr", "tuning"
OURS = {RUN, f"{RUN}.copy", LATEST, BEFORE, LOCK, STORE, TUNING}


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


class Folder:
    """A checkpoint's folder, held by one process at a time.

    Where the disk can only be read, so can the folder: a run that is done is returned, any other is refused.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path = Path(checkpoint.path)
        self.seconds = checkpoint.seconds
        self._opened = self._written = time.monotonic()
        self.seconds_before = 0.0  # spent by calls that were killed
        self.classes: dict[str, type] = {}  # a user's own, of which states may be
        self.why_not_written = ""
        check_ours(self.path)
        self._lock = self._locked()
        try:
            self.identity: dict[str, str] = read_identity(self.path) or {}
        except BaseException:
            self.close()
            raise

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
        if self._lock is not None:
            self._lock.close()

    @property
    def seconds_spent(self) -> float:
        """How long the run has taken, all calls together."""
        return self.seconds_before + time.monotonic() - self._opened

    @property
    def is_due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._written >= self.seconds

    def check_writable(self) -> None:
        """Refuse to go on with a run where nothing can be written."""
        if self.why_not_written:
            raise CheckpointError(self.why_not_written)

    def identify(self, identity: Mapping[str, str], may_be_more: str | None = None) -> None:
        """Refuse a folder of another run; give a new one its identity. One number may be larger than it was."""
        if not self.identity:
            self._write_identity(identity)
            return
        names = sorted(set(self.identity) | set(identity))
        differing = [name for name in names if self.identity.get(name) != identity.get(name)]
        if differing == [may_be_more] and _is_more(
            *(known.get(differing[0], "") for known in (self.identity, identity))
        ):
            self.check_writable()
            self._write_identity(identity)
            return
        if differing:
            told = "; ".join(
                f"{name}: {self.identity.get(name)} there, {identity.get(name)} here" for name in differing
            )
            raise CheckpointError(
                f"The checkpoint {self.path} belongs to another run: {told}. Repeat the call it was made by, or choose "
                "another name."
            )

    def _write_identity(self, identity: Mapping[str, str]) -> None:
        known = {"format": FORMAT, "run": dict(identity), "checksum": _checksum(identity)}
        for name in (f"{RUN}.copy", RUN):
            self.write(name, json.dumps(known, indent=1).encode())
        self.identity = dict(identity)

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
            write_record(target, header, sections, None if before is None else self.path / before)
        self._written = time.monotonic()


def _is_more(there: str, here: str) -> bool:
    return there.isdecimal() and here.isdecimal() and int(here) > int(there)


def _checksum(identity: Mapping[str, str]) -> int:
    return zlib.crc32(json.dumps(dict(identity), sort_keys=True).encode())


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
    file = path / RUN
    damages = []
    for place in (file, copy_of(file)):
        if not place.is_file():
            continue
        try:
            found = json.loads(place.read_bytes())
            known, identity = found["format"], dict(found["run"])
            is_sound = known != FORMAT or found["checksum"] == _checksum(identity)
        except (ValueError, KeyError, TypeError, OSError):
            known, identity, is_sound = FORMAT, {}, False
        if not is_sound:
            damages.append(DamageError(place, "it does not say which run it belongs to"))
            continue
        if known != FORMAT:
            raise CheckpointError(
                f"The checkpoint {path} has format {known}, but this version reads format {FORMAT}. Go on with the "
                "version that began it, or choose another name."
            )
        for damage in damages:
            warnings.warn(f"{damage} Its copy, {place.name}, is whole and is used instead.", stacklevel=3)
        return identity
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
    if not latest.is_file() and not before.is_file():
        return None, []
    try:
        return read_record(latest)
    except DamageError as damage:
        try:
            found = read_record(before)
        except DamageError:
            raise DamageError(damage.file, damage.why, _without_latest(path)) from damage
        warnings.warn(f"{damage} The run goes on from the record before it, {before.name}.", stacklevel=3)
        return found


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


def repair(path: str | Path) -> None:
    """Write those damaged files of a checkpoint or a saved run again whose content is known from elsewhere in it.

    What cannot be mended is told as a `tempering.errors.DamageError`.
    """
    from tempering.io.run_store import RunStore

    folder = Path(path)
    store = folder / STORE if (folder / STORE).is_dir() else folder
    RunStore(store, mode="r+")


def as_checkpoint(value: str | Path | Checkpoint) -> Checkpoint:
    """Take a path for a checkpoint written every minute."""
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
