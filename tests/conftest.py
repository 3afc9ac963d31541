"""What all tests share."""

import os

import pytest

from seeds import SEED_OFFSET, shift_all

if SEED_OFFSET:
    shift_all()


@pytest.fixture(autouse=True, scope="session")
def leave_files_to_the_system():
    """Wait for no disk: tests kill processes but never cut the power, and a file's way to the disk takes long."""
    sync, os.fsync = os.fsync, lambda handle: None
    yield
    os.fsync = sync
