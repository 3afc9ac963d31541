"""Checkpoints and saved runs of every kind: how each is made, in part or as a whole, and how it is read."""

import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execution_cases import LOGISTIC, SELECTION, WALK, WITH_PRIOR, skewed

import tempering as tp
from grouped import grouped
from tempering.io import durable_files, records
from tempering.runs import store as run_store
from tempering.runs.store import ARRAYS
from turns import go_on_by


class StoppedShort(BaseException):
    """Raised in place of a kill."""


@contextmanager
def stopping_at(path, n):
    """Stop a run short once so many draws of each chain are written."""
    write = durable_files.write_atomically

    def watched(target, *parts, **how):
        latest = path / "latest"
        if target.name == "latest" and latest.is_file() and records.read_record(latest)[0]["n_done"] >= n:
            raise StoppedShort
        return write(target, *parts, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "write_atomically", watched)
        go_on_by(patch, 1.0)
        with suppress(StoppedShort):
            yield


@contextmanager
def small_chunks():
    """Write chunks of some dozens of draws."""
    chunk, run_store.CHUNK = run_store.CHUNK, 400
    try:
        yield
    finally:
        run_store.CHUNK = chunk


def arrays_of(run):
    return {name: getattr(run, name) for name in ARRAYS} | {f"value {name}": v for name, v in run.values.items()}


def arrays_of_sums(run):
    return run.sums.totals._asdict() | run.sums.batches._asdict() | {"exchanges": run.index.exchanges}


@dataclass(frozen=True)
class Kind:
    """One kind of checkpoint or saved run."""

    call: Any  # of the checkpoint, or None, and the seed -> arrays of the whole run; None where nothing goes on with it
    read: Any = None  # of the path -> arrays, the first draws of the whole run; None where only the call reads it
    stopped_at: int | None = None
    save: Any = None  # of the path and the seed, where the call has no checkpoint
    name: str = "run"
    part: str = ""  # the folder that ``read`` opens, where it is a run by itself

    def make(self, path, seed=5, stopped_at=None):
        """Make one in full, or up to where it is stopped."""
        with small_chunks():
            if self.save is not None:
                self.save(path, seed)
            elif self.stopped_at is None:
                self.call(path, seed)
            else:
                with stopping_at(path, stopped_at or self.stopped_at):
                    self.call(tp.Checkpoint(path, seconds=0.0), seed)
                    raise AssertionError("the run came to its end")


def lengthy(x):
    """A density whose calls are worth keeping."""
    time.sleep(0.0012)
    return skewed(x)


def load(path):
    return arrays_of(tp.load(path))


def sampled(target, checkpoint, seed, **fixed):
    settings = {"ladder": [1.0, 0.6, 0.25], "draws": 320, "tune": 64, "rng": seed, "progress": False}
    if fixed.get("method") == "sequential":
        del settings["tune"]
    return tp.sample(target, **grouped(**settings | fixed, checkpoint=checkpoint))


def drawn(target, **fixed):
    return lambda checkpoint, seed=5: arrays_of(sampled(target, checkpoint, seed, **fixed))


def summed(target, **fixed):
    keep = tp.Sums({"x": lambda x: x})
    return lambda checkpoint, seed=5: arrays_of_sums(sampled(target, checkpoint, seed, keep=keep, draws=640, **fixed))


def load_sums(path):
    return arrays_of_sums(tp.TemperedSums.load(path))


X = np.linspace(0.0, 1.0, 12)[:, None]
Y = np.sin(6 * X[:, 0]) + np.where(X[:, 0] > 0.5, 2.0, 0.0)


def fitted(seed, checkpoint=None):
    model = tp.models.TreedGP(tempering={"ladder": [1.0, 0.5]}, draws=400, tune=200, chains=2, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, Y, checkpoint=checkpoint)


def treed_gp(checkpoint, seed=5):
    model = fitted(seed, checkpoint)
    return {"mean": model.predict(X), "leaves": model.leaf_probabilities_}


def load_treed_gp(path):
    model = tp.models.TreedGP.load(path)
    return {"mean": model.predict(X), "leaves": model.leaf_probabilities_}


def recapture(checkpoint, seed=5):
    from tempering.data import SYNTHETIC_COUNTS, path_of
    from tempering.models.recapture import read

    study = tp.models.MarkRecapture(method="simulated", draws=96, tune=32, chains=2, ladder=[1.0, 0.5])
    data = read(path_of(SYNTHETIC_COUNTS), "counts")
    return arrays_of(study.fit(data, rng=seed, checkpoint=checkpoint, progress=False).draws)


def load_recapture(path):
    return load(Path(path) / "draws")


SCALAR = {"initial": np.zeros(2), "chains": 2, "engine": "scalar"}
VECTOR = {"initial": np.zeros(3), "chains": 6, "kernel": WALK}
PLAIN = tp.Target(skewed)
KINDS = {
    "python, unfinished": Kind(drawn(PLAIN, **SCALAR), load, 250),
    "python, in an iteration": Kind(drawn(tp.Target(lengthy), draws=24, tune=0, **SCALAR), load, 12),
    "python, finished": Kind(drawn(PLAIN, **SCALAR), load),
    "model, unfinished": Kind(drawn(SELECTION, chains=2, draws=96), load, 40),
    "vector, unfinished": Kind(drawn(LOGISTIC, **VECTOR), load, 100),
    "vector, finished": Kind(drawn(LOGISTIC, **VECTOR), load),
    "sums": Kind(summed(PLAIN, **SCALAR), load_sums, 320),
    "sums, vector": Kind(summed(LOGISTIC, **VECTOR), load_sums, 320),
    "sequential": Kind(drawn(WITH_PRIOR, chains=4, method="sequential", ladder=None, kernel=WALK, draws=2_000), load),
    "treed GP, unfinished": Kind(treed_gp, None, 100),
    "recapture": Kind(recapture, load_recapture, part="draws"),
    "saved run": Kind(None, load, save=lambda path, seed: sampled(PLAIN, None, seed, **SCALAR).save(path)),
    "saved sums": Kind(
        None,
        load_sums,
        save=lambda path, seed: sampled(PLAIN, None, seed, keep=tp.Sums({"x": lambda x: x}), **SCALAR).save(path),
        name="run.sums",
    ),
    "saved treed GP": Kind(None, load_treed_gp, save=lambda path, seed: fitted(seed).save(path), name="run.npz"),
}
