"""Windows and macOS, by stand-ins for what they do otherwise: what is asked of them, not what they do."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tempering as tp
from tempering.errors import CheckpointError
from tempering.io import checkpoint as checkpoints
from tempering.io import durable_files


def density(x):
    return 1.5 * x[0] - np.exp(x[0])


def run(path=None, draws=200):
    return tp.sample(
        tp.Target(density),
        initial=np.zeros(1),
        ladder=[1.0, 0.5],
        draws=draws,
        tuning=tp.Tuning(64),
        chains=2,
        rng=4,
        execution=tp.Execution(engine="scalar", checkpoint=path),
        progress=False,
    )


def beside(module, **changed):
    """Return a module with some of its names changed, for one of its users alone."""
    kept = {name: getattr(module, name) for name in dir(module) if not name.startswith("O_NOFOLLOW")}
    return SimpleNamespace(**kept | changed)


class Locks:
    """Windows' module of locks: one byte, held by whoever came first; made of the locks there are here."""

    LK_NBLCK = 2
    asked: list[tuple[int, int]] = []  # noqa: RUF012

    def locking(self, handle, mode, n):
        self.asked.append((mode, n))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error


@pytest.fixture
def windows(monkeypatch):
    """No locks of Unix, no folder can be opened; files are not synced read-only, nor replaced while they are read."""
    run()  # others import what they need of Unix now

    def open_file(path, flags, *mode):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        return os.open(path, flags, *mode)

    def fsync(handle):
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")

    replace, in_the_way = Path.replace, [0]

    def while_read(source, target):
        in_the_way[0] += 1
        is_ours = Path(target).name in ("latest", "latest.before", "run.json", "run.json.copy", "record", "record.copy")
        if is_ours and Path(target).exists() and in_the_way[0] % 3:
            raise PermissionError(errno.EACCES, "The process cannot access the file because it is used by another")
        return replace(source, target)

    asked = Locks.asked = []
    monkeypatch.setattr(durable_files, "os", beside(os, name="nt", open=open_file, fsync=fsync))
    monkeypatch.setattr(durable_files, "WAITS", (0.0,) * 3)
    monkeypatch.setattr(Path, "replace", while_read)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Locks())
    return asked


def test_a_run_is_kept_gone_on_with_saved_and_loaded_on_windows(windows, tmp_path):
    whole = run(draws=320)
    run(tp.Checkpoint(tmp_path / "run", seconds=0.0))
    np.testing.assert_array_equal(run(tmp_path / "run", draws=320).terms, whole.terms)
    np.testing.assert_array_equal(tp.load(tmp_path / "run").terms, whole.terms)
    for _ in range(2):
        whole.save(tmp_path / "saved.zarr")
    np.testing.assert_array_equal(tp.load(tmp_path / "saved.zarr").terms, whole.terms)
    assert set(windows) == {(Locks.LK_NBLCK, 1)}


def test_a_folder_is_held_by_one_on_windows(windows, tmp_path):
    folder = checkpoints.Folder(tp.Checkpoint(tmp_path / "run"))
    with pytest.raises(CheckpointError, match="Another process is writing"):
        run(tmp_path / "run")
    folder.close()
    run(tmp_path / "run")


def test_control_the_stand_ins_refuse_what_windows_refuses(windows, tmp_path, monkeypatch):
    (tmp_path / "latest").write_bytes(b"old")
    monkeypatch.setattr(durable_files.os, "name", "posix")
    with pytest.raises(PermissionError):
        durable_files.sync_folder(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        durable_files.sync_file(tmp_path / "latest")
    with pytest.raises(PermissionError):
        durable_files.write_atomically(tmp_path / "latest", b"new")
    assert (tmp_path / "latest").read_bytes() == b"old"


def test_a_file_that_stays_in_the_way_on_windows_is_told_and_left(windows, tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(errno.EACCES, "Permission denied")

    run(tmp_path / "run")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(CheckpointError, match="cannot be written: Permission denied"):
        run(tmp_path / "run", draws=320)
    assert tp.load(tmp_path / "run").n_draws == 200


@pytest.fixture
def macos(monkeypatch):
    """Return what is asked of ``fcntl``: its own way of seeing a file to the disk."""
    asked = []
    ours = beside(fcntl, F_FULLFSYNC=51, fcntl=lambda handle, what: asked.append(what))
    monkeypatch.setattr(durable_files, "sys", beside(sys, platform="darwin"))
    monkeypatch.setitem(sys.modules, "fcntl", ours)
    return asked


def test_files_and_folders_are_seen_through_the_drive_on_macos(macos, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(durable_files, "os", beside(os, fsync=synced.append))
    whole = run()
    np.testing.assert_array_equal(run(tmp_path / "run").terms, whole.terms)
    assert set(macos) == {51}
    assert len(macos) > 10
    assert not synced


def test_a_file_system_that_knows_no_full_sync_gets_the_usual_one(macos, tmp_path, monkeypatch):
    def refuse(handle, what):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    synced = []
    monkeypatch.setattr(sys.modules["fcntl"], "fcntl", refuse)
    monkeypatch.setattr(durable_files, "os", beside(os, fsync=synced.append))
    durable_files.write_atomically(tmp_path / "file", b"text")
    assert len(synced) == 2  # the file, and the folder with its name
    assert (tmp_path / "file").read_bytes() == b"text"


WITHOUT = """
import sys
sys.modules["fcntl"] = sys.modules["resource"] = None
import signal
del signal.SIGALRM, signal.SIGKILL
import tempering as tp
import tempering.execution, tempering.io.checkpoint, tempering.sampling.sample, tempering.cli.commands
"""


def test_nothing_that_windows_lacks_is_imported():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
