"""A lock on a file that the system takes back from a process when it ends, however it ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO, Any

HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # "permission denied" and "deadlock" are Windows' words for it


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
