"""Packages that only some parts need: found, or named in one sentence, before anything runs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tempering.errors import InputError


def is_installed(module: str) -> bool:
    """Say whether a module can be imported, without importing it.

    Examples
    --------
    >>> is_installed("numpy"), is_installed("no_such_module")
    (True, False)
    """
    import sys

    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def require(module: str, *, what: str, install: str) -> None:
    """Refuse to begin if a module is missing, and say how to install it.

    Parameters
    ----------
    module : str
        The name it is imported by.
    what : str
        What needs it, at the beginning of a sentence: "A PyMC model".
    install : str
        What pip is to install: "tempering[pymc]".
    """
    if not is_installed(module):
        raise InputError(f"{what} needs {module}, which is not installed. Run: pip install '{install}'.")


def imported(module: str, *, what: str, install: str) -> Any:
    """Import a module that only some parts need; see `require`."""
    require(module, what=what, install=install)
    try:
        return import_module(module)
    except ImportError as error:  # there, but something under it is not
        raise InputError(
            f"{what} needs {module}, which cannot be imported: {error}. Run: pip install --upgrade '{install}'."
        ) from error
