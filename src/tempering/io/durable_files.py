"""Files that survive a kill and a power cut: written beside, seen to the disk, and renamed when whole; and locks.

The system takes a lock back from a process when it ends, however it ends.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

PARTIAL = ".partial"
WAITS = (0.01, 0.03, 0.1, 0.3, 1.0)  # seconds
HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # "permission denied" and "deadlock" are Windows' words for it


def write_atomically(target: Path, *parts: bytes, before: Path | None = None) -> None:
    """Write a file beside, see it to the disk, and rename it; the file it replaces is kept as ``before``, if named."""
    partial = target.with_name(target.name + PARTIAL)
    try:
        partial.unlink(missing_ok=True)  # a link there would be followed
        with partial.open("xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            sync_handle(file.fileno())
        if before is not None and target.exists():
            _replace(target, before)
        _replace(partial, target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _replace(source: Path, target: Path) -> None:
    """Rename a file over another; wait for those who read that one, where they are in the way: on Windows."""
    for seconds in WAITS if os.name == "nt" else ():
        try:
            source.replace(target)
            return
        except PermissionError:
            time.sleep(seconds)
    source.replace(target)


def clear(path: Path) -> None:
    """Remove what is left in a place, whatever it is; of a link the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync_handle(handle: int) -> None:
    """See an open file to the disk. On macOS ``fsync`` leaves it in the drive's own memory, F_FULLFSYNC does not."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
        except OSError:  # a file system that does not know it
            pass
    os.fsync(handle)


def sync_file(path: Path) -> None:
    """See a file that has been written to the disk."""
    with path.open("rb" if os.name == "posix" else "r+b") as file:  # Windows syncs only what it may write
        sync_handle(file.fileno())


def sync_folder(path: Path) -> None:
    """See a folder's names to the disk; Windows opens no folder, and writes names by itself."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        sync_handle(handle)
    finally:
        os.close(handle)


def sync_files(files: Iterable[Path]) -> None:
    """See files and the names of all of them to the disk."""
    folders = set()
    for file in files:
        sync_file(file)
        folders.add(file.parent)
    for folder in folders:
        sync_folder(folder)


def sync_tree(root: Path) -> None:
    """See a folder with all that is in it to the disk."""
    for path in [root, *root.rglob("*")]:
        sync_folder(path) if path.is_dir() else sync_file(path)


class HeldElsewhereError(Exception):
    """Another process holds the lock."""


def lock(file: Path) -> IO[Any]:
    """Open a file and lock it; close it to let it go. OSError where it cannot be opened for writing."""
    opened = open(file, "a+b", opener=_open)
    try:
        _take(opened)
    except OSError as error:
        opened.close()
        if error.errno in HELD:
            raise HeldElsewhereError from error
        raise
    return opened


def _open(file: str, flags: int) -> int:
    """Follow no link: a folder that came from elsewhere must not name files elsewhere."""
    return os.open(file, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _take(file: IO[Any]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
