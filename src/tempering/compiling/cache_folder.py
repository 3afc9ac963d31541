"""The folder where compiled programs are kept between processes.

A compiled program is machine code: whoever can write it can run code as the user. So the folder is the user's own,
and one that others could write to is not used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "TEMPERING_CACHE"  # "off", or a folder
_OFF = ("off", "0", "no", "none", "false")


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
