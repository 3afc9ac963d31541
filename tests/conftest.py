"""What all tests share."""

import os
import signal
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest
from hypothesis import settings

from seeds import SEED_OFFSET, shift_all

# The same examples each time, unless seeds are shifted; and no limit by the clock, for machines are shared.
settings.register_profile("tempering", derandomize=not SEED_OFFSET, deadline=None)
settings.load_profile("tempering")
if SEED_OFFSET:
    shift_all()
if find_spec("bilby") and sys.version_info < (3, 12):
    # bilby imports pip, to list what is installed. That takes setuptools' distutils away from PyTensor's
    # compiler, unless it was imported before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in ("setuptools._distutils.sysconfig", "pip"):
            import_module(module)


if find_spec("arviz") and "PYTEST_XDIST_WORKER" not in os.environ:
    # ArviZ warns once a day, by a file that it renames when it is imported: two workers at once would be in each
    # other's way, so it is imported before there are any
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module("arviz")


@pytest.fixture(autouse=True, scope="session")
def leave_files_to_the_system():
    """Wait for no disk: tests kill processes but never cut the power, and a file's way to the disk takes long."""
    sync, os.fsync = os.fsync, lambda handle: None
    yield
    os.fsync = sync


@pytest.fixture(autouse=True)
def leave_signals_as_they_were():
    """Undo what a package has done to Ctrl-C: runs heed it only where nobody else does."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    for number, handler in usual.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
