"""A checkpoint: a folder with what a run has done, from which the same call goes on.

``run.json`` says what run it is, ``tuning/`` holds the engine's answers while tuning, ``draws.zarr`` whole chunks of
draws, and ``latest`` the states after the last draw kept, with the draws that fill no chunk yet. Every file is
written beside and renamed when whole: there is no moment at which a kill leaves half a checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tempering.errors import CheckpointError

FORMAT = 1
SECONDS = 60.0
LATEST = "latest"


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
    """A checkpoint's folder, held by one process at a time."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path = Path(checkpoint.path)
        self.seconds = checkpoint.seconds
        self._opened = self._written = time.monotonic()
        self.seconds_before = 0.0  # spent by calls that were killed
        found = read_identity(self.path)
        if found is None and self.path.exists() and any(self.path.iterdir()):
            raise CheckpointError(
                f"A checkpoint must be a folder of its own, but {self.path} holds something else. Choose another name."
            )
        self.identity: dict[str, str] = {} if found is None else found
        self._lock = self._locked(_locks())

    def _locked(self, locks: Any) -> IO[str]:
        """Take the folder for this process: the system lets go of it when the process ends, however it ends."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "lock").open("w")
        try:
            locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
        except OSError as error:
            file.close()
            raise CheckpointError(
                f"A checkpoint must belong to one run, but another process is writing {self.path}. Wait for it, or "
                "choose another name."
            ) from error
        return file

    def close(self) -> None:
        """Let others have the folder."""
        self._lock.close()

    @property
    def seconds_spent(self) -> float:
        """How long the run has taken, all calls together."""
        return self.seconds_before + time.monotonic() - self._opened

    @property
    def is_due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._written >= self.seconds

    def identify(self, identity: Mapping[str, str]) -> None:
        """Refuse a folder of another run; give a new one its identity."""
        if not self.identity:
            self.write("run.json", json.dumps({"format": FORMAT, "run": dict(identity)}, indent=1).encode())
            self.identity = dict(identity)
            return
        names = sorted(set(self.identity) | set(identity))
        differing = [name for name in names if self.identity.get(name) != identity.get(name)]
        if differing:
            told = "; ".join(
                f"{name}: {self.identity.get(name)} there, {identity.get(name)} here" for name in differing
            )
            raise CheckpointError(
                f"{self.path} must be a checkpoint of this very run, but it is of another: {told}. Repeat the call it "
                "was made by, or choose another name."
            )

    def write(self, name: str, *parts: bytes) -> None:
        """Write a file beside and rename it when it is whole and on the disk."""
        target = self.path / name
        with writing(self.path):
            target.parent.mkdir(exist_ok=True)
            write_atomically(target, *parts)
        self._written = time.monotonic()


def _locks() -> Any:
    """Return the system's file locks, or say that there are none."""
    try:
        import fcntl
    except ImportError as error:
        raise CheckpointError(
            "A checkpoint needs file locks that the system takes back from a killed process (POSIX, the module fcntl), "
            "but this system has none. Run on Linux or macOS (on Windows: in WSL), or leave checkpoint= out."
        ) from error
    return fcntl


def read_identity(path: Path) -> dict[str, str] | None:
    """Return what run a folder is a checkpoint of; None if it is none."""
    file = path / "run.json"
    if not file.is_file():
        leftover = {"lock"} | {entry.name for entry in path.glob("*.partial")} if path.is_dir() else set()
        if path.is_dir() and {entry.name for entry in path.iterdir()} <= leftover:  # killed before it had a name
            return {}
        return None
    try:
        found = json.loads(file.read_text())
        known, identity = found["format"], found["run"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} must say what run it is of, but it cannot be read: {error}.") from error
    if known != FORMAT:
        raise CheckpointError(f"{path} must be of format {FORMAT}, but it is of format {known}. Start a new one.")
    return dict(identity)


def write_latest(folder: Folder, header: Mapping[str, Any], sections: Sequence[bytes]) -> None:
    """Write how far a run has come: a line that says so, with the time it took, and what it goes on from."""
    known = {"seconds": folder.seconds_spent, "lengths": [len(section) for section in sections]}
    folder.write(LATEST, json.dumps(dict(header) | known).encode() + b"\n", *sections)


def read_latest(path: Path) -> tuple[dict[str, Any] | None, list[bytes]]:
    """Return the header and the sections of what was written last; None if nothing was."""
    file = path / LATEST
    if not file.is_file():
        return None, []
    with file.open("rb") as source:
        header = json.loads(source.readline())
        return header, [source.read(length) for length in header["lengths"]]


def write_atomically(target: Path, *parts: bytes) -> None:
    """Write a file beside, see it to the disk, and rename it."""
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def sync_folder(path: Path) -> None:
    """See a folder's names to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk, or whatever else keeps a file from being written, into an error that says what is left."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"A checkpoint must be written to {path}, but: {error.strerror or error}. What was written before is "
            "whole: make room, and the same call goes on from there."
        ) from error


def remove(path: str | Path) -> None:
    """Delete a checkpoint, and nothing else."""
    folder = Path(path)
    if read_identity(folder) is None:
        raise CheckpointError(f"{folder} must be a checkpoint, but it is none: nothing was deleted.")
    shutil.rmtree(folder)


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
