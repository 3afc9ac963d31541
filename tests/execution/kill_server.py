"""Kill a run over and over, in all its phases: ``kill_server.py WAY FOLDER KILLS SEED``.

The runs are forked from one process that has imported everything, so that a kill costs no new start of Python. A kill
comes at a random moment after the run has written something; every third one comes from within, in the middle of a
write. When there have been enough, the run is left alone, and must end with what it would have had. The last line of
the output is a JSON object that counts the kills by where they fell, and those that left answers of long calls behind.
"""

import json
import os
import shutil
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import jax
import numpy as np
from killed_run import result_of

import tempering as tp
from tempering.io import durable_files
from tempering.io.checkpoint import ANSWERS

LONGEST, SHARE = 1.0, 0.1  # from a sign of life to the kill: seconds, or of the whole run's time, whichever is longer
PATIENCE = 300.0  # seconds that a run may take without one
MOST_STEPS = 40  # of writes, after which a run kills itself


def forked(action):
    """Run an action in a child; return its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of forks: here none of its threads has been started
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        action()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def run_to_end(way, checkpoint, output):
    warnings.simplefilter("ignore")
    kept = None if checkpoint is None else tp.Checkpoint(checkpoint, seconds=0.0)
    np.savez(output, **result_of(way, kept))


def dying_in_a_write(way, checkpoint, output, steps):
    """Run, and be killed at the so manieth step of a write: before a file is synced, or before it is renamed."""
    left = [steps]

    def count(function):
        def counted(*arguments, **how):
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **how)

        return counted

    durable_files.sync_handle = count(durable_files.sync_handle)
    Path.replace, Path.rename = count(Path.replace), count(Path.rename)
    run_to_end(way, checkpoint, output)


def signs_of_life(checkpoint):
    """Return what a checkpoint has been written last."""
    found = []
    for file in checkpoint.rglob("*"):
        try:
            found += [(file.stat().st_mtime_ns, str(file))] if file.name != "lock" else []
        except FileNotFoundError:  # renamed meanwhile
            continue
    return max(found, default=None)


def phase_of(checkpoint):
    is_drawing = any(checkpoint.rglob("latest")) or any(checkpoint.rglob("latest.before"))
    return "drawing" if is_drawing else "tuning"


def ended(child, wait=True):
    found, status = os.waitpid(child, 0 if wait else os.WNOHANG)
    return status if found else None


def killed_from_outside(child, checkpoint, rng, longest):
    """Kill a child some time after it has shown a sign of life; None if it has come to its end before."""
    before, started = signs_of_life(checkpoint), time.monotonic()
    while signs_of_life(checkpoint) == before and time.monotonic() - started < PATIENCE:
        if (status := ended(child, wait=False)) is not None:
            return status
        time.sleep(0.01)
    until = time.monotonic() + rng.uniform(0.0, longest)
    while time.monotonic() < until:
        if (status := ended(child, wait=False)) is not None:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def main():
    way, folder, kills, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    rng = np.random.default_rng(seed)
    counts = {"tuning": 0, "drawing": 0, "in a write": 0, "started again": 0, "with answers": 0}
    started = time.monotonic()
    assert ended(forked(lambda: run_to_end(way, None, folder / "reference.npz"))) == 0
    longest = max(LONGEST, SHARE * (time.monotonic() - started))  # a loaded machine comes no further in a second
    checkpoint, output = folder / "checkpoint", folder / "result.npz"
    n = 0
    while n < kills:
        if n % 3 == 2:
            steps = int(rng.integers(1, MOST_STEPS))
            status = ended(forked(lambda steps=steps: dying_in_a_write(way, checkpoint, output, steps)))
            where = "in a write"
        else:
            child = forked(lambda: run_to_end(way, checkpoint, output))
            status = killed_from_outside(child, checkpoint, rng, longest)
            where = phase_of(checkpoint)
        if status == 0:  # done before it was killed often enough: again
            counts["started again"] += 1
            shutil.rmtree(checkpoint)
            continue
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
        counts[where] += 1
        counts["with answers"] += (checkpoint / ANSWERS).exists()
        n += 1
    assert ended(forked(lambda: run_to_end(way, checkpoint, output))) == 0
    with np.load(folder / "reference.npz") as one, np.load(output) as two:
        assert sorted(one) == sorted(two)
        for name in one:
            np.testing.assert_array_equal(one[name], two[name], strict=True, err_msg=name)
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
