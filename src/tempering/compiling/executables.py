"""Executables of XLA on disk: files named by what they were compiled from, the least recently used removed first.

An entry is a checksum and the executable as XLA itself writes it, compressed. No pickle is read. Entries are
written under another name and then renamed, so that no process ever sees half of one. They are machine code: whoever
can write one can run code as the user. So the folder is the user's own, and one that others could write to is not used.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 256 * 2**20  # about a thousand programs of a run's size, compressed
KEPT_SHARE = 0.8  # of the bytes, after the oldest were removed: not every new entry then has to remove one
ABANDONED = 3600.0  # seconds after which a file that was never renamed is what an interrupted writer left behind
SUFFIX = ".xla"
_FORMAT = b"tempering executable 1\n"
VARIABLE = "TEMPERING_CACHE"  # "off", or a folder
_OFF = ("off", "0", "no", "none", "false")


@dataclass(frozen=True)
class Executables:
    """The entries of one folder.

    Examples
    --------
    >>> import tempfile
    >>> kept = Executables(Path(tempfile.mkdtemp()))
    >>> kept.put("a", b"machine code")
    >>> kept.get("a"), kept.get("b"), len(list(kept.files()))
    (b'machine code', None, 1)
    """

    folder: Path
    most_bytes: int = MOST_BYTES

    @classmethod
    def of_user(cls) -> Executables | None:
        """Return the user's executables; None if nothing is to be kept."""
        folder = cache_folder()
        return None if folder is None else cls(folder / "executables")

    def get(self, key: str) -> bytes | None:
        """Return an executable, now the most recently used; an entry whose checksum is wrong is removed."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        executable = _unpacked(content)
        if executable is None:
            self.remove(key)
            return None
        with suppress(OSError):
            os.utime(path)
        return executable

    def put(self, key: str, executable: bytes) -> None:
        """Keep an executable, and remove what was not used for longest if there are too many bytes."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_packed(executable))
            os.replace(temporary, self._path(key))
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        self._make_room()

    def remove(self, key: str) -> None:
        """Remove an entry, if it is there."""
        with suppress(OSError):
            self._path(key).unlink()

    def clear(self) -> int:
        """Remove all entries, and return how many there were."""
        paths = [path for path, _, _ in self.files()]
        for path in paths:
            with suppress(OSError):
                path.unlink()
        return len(paths)

    def files(self) -> Iterator[tuple[Path, int, float]]:
        """Yield path, bytes and time of last use of every entry, and of what interrupted writers left behind."""
        if not self.folder.is_dir():
            return
        for path in self.folder.iterdir():
            if path.suffix in (SUFFIX, ".tmp"):
                with suppress(OSError):  # another process has removed it
                    found = path.stat()
                    yield path, found.st_size, found.st_mtime

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _make_room(self) -> None:
        being_written = time.time() - ABANDONED
        files = [file for file in self.files() if file[0].suffix == SUFFIX or file[2] < being_written]
        files.sort(key=lambda file: file[2])
        total = sum(size for _, size, _ in files)
        if total <= self.most_bytes:
            return
        for path, size, _ in files:
            if total <= KEPT_SHARE * self.most_bytes:
                break
            with suppress(OSError):
                path.unlink()
            total -= size


def _packed(executable: bytes) -> bytes:
    compressed = zlib.compress(executable, level=1)
    return _FORMAT + hashlib.sha256(compressed).digest() + compressed


def _unpacked(content: bytes) -> bytes | None:
    start = len(_FORMAT)
    checksum, compressed = content[start : start + 32], content[start + 32 :]
    if content[:start] != _FORMAT or hashlib.sha256(compressed).digest() != checksum:
        return None
    try:
        return zlib.decompress(compressed)
    except zlib.error:
        return None


def cache_folder() -> Path | None:
    """Return the folder, made if needed; None where keeping is switched off or no safe folder can be had.

    Examples
    --------
    >>> import os, tempfile
    >>> before = os.environ.get("TEMPERING_CACHE")
    >>> os.environ["TEMPERING_CACHE"] = "off"
    >>> cache_folder() is None
    True
    >>> _ = os.environ.pop("TEMPERING_CACHE") if before is None else os.environ.update(TEMPERING_CACHE=before)
    """
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen.lower() in _OFF:
        return None
    try:
        folder = Path(chosen).expanduser() if chosen else _of_platform() / "tempering"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _is_safe(folder) else None
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None


def _of_platform() -> Path:
    """Return where programs of this platform keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    stated = os.environ.get("XDG_CACHE_HOME", "")
    return Path(stated) if os.path.isabs(stated) else Path.home() / ".cache"


def _is_safe(folder: Path) -> bool:
    """Whether nobody but the user (and root) can put files into a folder."""
    if not hasattr(os, "getuid"):
        return True  # Windows: folders below LOCALAPPDATA are the user's by their access lists
    found = folder.stat()
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & 0o022 and os.access(folder, os.W_OK)
