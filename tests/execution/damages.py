"""Checkpoints and saved runs of every kind, ways of damaging them, and what may come of it."""

import shutil
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from execution_cases import LOGISTIC, SELECTION, WALK, WITH_PRIOR, skewed

import tempering as tp
from grouped import grouped
from tempering.errors import TemperingError
from tempering.io import durable_files, records
from tempering.runs import store as run_store
from tempering.runs.store import ARRAYS
from tempering.sampling import sum_sampling


class StoppedShort(BaseException):
    """Raised in place of a kill."""


@contextmanager
def stopping_at(path, n):
    """Stop a run short once so many draws of each chain are written."""
    write, chunk, turn = durable_files.write_atomically, run_store.CHUNK, sum_sampling.next_turn

    def watched(target, *parts, **how):
        latest = path / "latest"
        if target.name == "latest" and latest.is_file() and records.read_record(latest)[0]["n_done"] >= n:
            raise StoppedShort
        return write(target, *parts, **how)

    records.write_atomically, run_store.CHUNK, sum_sampling.next_turn = watched, 400, lambda *_: 1.0
    try:
        yield
    except StoppedShort:
        pass
    finally:
        records.write_atomically, run_store.CHUNK, sum_sampling.next_turn = write, chunk, turn


def arrays_of(run):
    return {name: getattr(run, name) for name in ARRAYS} | {f"value {name}": v for name, v in run.values.items()}


def arrays_of_sums(run):
    return run.sums.totals._asdict() | run.sums.batches._asdict() | {"exchanges": run.index.exchanges}


@dataclass(frozen=True)
class Kind:
    """One kind of checkpoint or saved run: how it is made, in part or as a whole, and how it is read."""

    call: Any  # of the checkpoint, or None -> arrays of the whole run
    read: Any = None  # of the path -> arrays, some of the whole run's first draws; None where only the call reads it
    stopped_at: int | None = None

    def make(self, path):
        if self.stopped_at is None:
            return self.call(path)
        with stopping_at(path, self.stopped_at):
            self.call(tp.Checkpoint(path, seconds=0.0))
            raise AssertionError("the run came to its end")
        return None


def load(path):
    return arrays_of(tp.load(path))


def drawn(target, **fixed):
    def call(checkpoint):
        settings = {"ladder": [1.0, 0.6, 0.25], "draws": 320, "tuning": tp.Tuning(64), "rng": 5, "progress": False}
        return arrays_of(tp.sample(target, **grouped(**settings | fixed, checkpoint=checkpoint)))

    return call


def summed(checkpoint):
    run = tp.sample(
        tp.Target(skewed),
        initial=np.zeros(2),
        ladder=[1.0, 0.5],
        draws=640,
        tuning=tp.Tuning(64),
        chains=2,
        rng=3,
        execution=tp.Execution(engine="scalar", checkpoint=checkpoint),
        progress=False,
        keep=tp.Sums({"x": lambda x: x}),
    )
    return arrays_of_sums(run)


X = np.linspace(0.0, 1.0, 12)[:, None]
Y = np.sin(6 * X[:, 0]) + np.where(X[:, 0] > 0.5, 2.0, 0.0)


def fitted(**settings):
    ladder = {"ladder": [1.0, 0.5]}
    return tp.models.TreedGP(tempering=ladder, draws=400, tune=200, chains=2, random_state=1, **settings)


def treed_gp(checkpoint):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted().fit(X, Y, checkpoint=checkpoint)
    return {"mean": model.predict(X), "leaves": model.leaf_probabilities_}


def saved_treed_gp(path):
    if path is not None and not Path(path).exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted().fit(X, Y).save(path)
    return {"mean": tp.models.TreedGP.load(path).predict(X)} if path is not None else {}


def recapture(checkpoint):
    from tempering.data import SYNTHETIC_COUNTS, path_of
    from tempering.models.recapture import read

    study = tp.models.MarkRecapture(method="simulated", draws=96, tune=32, chains=2, ladder=[1.0, 0.5])
    data = read(path_of(SYNTHETIC_COUNTS), "counts")
    return arrays_of(study.fit(data, rng=1, checkpoint=checkpoint, progress=False).draws)


def saved(path):
    if not Path(path).exists():
        drawn(tp.Target(skewed), initial=np.zeros(2), chains=2, engine="scalar")(None)
        run = tp.sample(
            tp.Target(skewed),
            initial=np.zeros(2),
            ladder=[1.0, 0.5],
            draws=320,
            tuning=tp.Tuning(64),
            chains=2,
            rng=4,
            execution=tp.Execution(engine="scalar"),
            progress=False,
        )
        run.save(path)
    return load(path)


PLAIN = {"initial": np.zeros(2), "chains": 2, "execution": tp.Execution(engine="scalar")}
VECTOR = {"initial": np.zeros(3), "chains": 6, "kernel": WALK}
KINDS = {
    "python, unfinished": Kind(drawn(tp.Target(skewed), **PLAIN), load, 150),
    "python, finished": Kind(drawn(tp.Target(skewed), **PLAIN), load),
    "model, unfinished": Kind(drawn(SELECTION, chains=2, draws=96), load, 40),
    "vector, unfinished": Kind(drawn(LOGISTIC, **VECTOR), load, 100),
    "vector, finished": Kind(drawn(LOGISTIC, **VECTOR), load),
    "sums": Kind(summed, lambda path: dict.fromkeys(()) if tp.TemperedSums.load(path) else {}, 320),
    "sequential": Kind(drawn(WITH_PRIOR, chains=4, method="sequential", ladder=None, kernel=WALK, draws=2_000), load),
    "treed GP, unfinished": Kind(treed_gp, None, 100),
    "treed GP, saved": Kind(saved_treed_gp, saved_treed_gp),
    "recapture": Kind(recapture, lambda path: load(path / "draws")),
    "saved run": Kind(saved, saved),
}


def files_of(path):
    """Return the files that hold something."""
    if path.is_file():
        return [path]
    kept = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "lock"]
    return [file for file in kept if not file.name.endswith(".partial")]


def flip(rng, data):
    where = int(rng.integers(8 * len(data)))
    changed = bytearray(data)
    changed[where // 8] ^= 1 << where % 8
    return bytes(changed)


def zero(rng, data):
    """Lose a sector of the disk."""
    start = int(rng.integers(max(1, len(data))))
    return data[:start] + bytes(min(512, len(data) - start)) + data[start + 512 :]


DAMAGES = {
    "flip": flip,
    "zero": zero,
    "truncate": lambda rng, data: data[: int(rng.integers(len(data)))],
    "empty": lambda rng, data: b"",
    "delete": None,
    "swap in an older one": lambda rng, data: data[::-1],
}


def damage(rng, path):
    """Damage one file; return what was done."""
    files = [file for file in files_of(path) if file.stat().st_size]
    file = files[int(rng.integers(len(files)))]
    how = list(DAMAGES)[int(rng.integers(len(DAMAGES)))]
    if DAMAGES[how] is None:
        file.unlink()
    else:
        file.write_bytes(DAMAGES[how](rng, file.read_bytes()))
    return f"{how}: {file.relative_to(path.parent)}"


def outcome(use, path, whole):
    """Use what was damaged: "right", "told" with the name of what is damaged, or what is wrong."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            found = use(path)
        except TemperingError as error:
            return "told" if str(path) in str(error) else f"no file is named: {error}"
        except Exception as error:
            return f"raw: {type(error).__name__}: {error}"
    for name, array in found.items():
        known = whole[name]
        if np.shape(array)[:2] != np.shape(known)[:2] and np.ndim(known) > 1:
            known = known[:, : np.shape(array)[1]]
        if not np.array_equal(array, known, equal_nan=np.asarray(known).dtype.kind == "f"):
            return f"silent: {name} differs"
    return "right"


def sweep(name, folder, n, rng):
    """Damage one kind in ``n`` ways; return what came of each, by the way it was used."""
    kind = KINDS[name]
    path = folder / "intact"
    if name == "treed GP, saved":
        path = folder / "intact.npz"
    kind.make(path)
    whole = kind.call(None) if name not in ("treed GP, saved", "saved run") else kind.read(path)
    results = []
    copy = folder / ("copy" + path.suffix)
    for _ in range(n):
        shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
        what = damage(rng, copy)
        uses = [kind.read] if kind.read is not None else []
        if name != "recapture" and not name.endswith("saved") and name != "saved run":
            uses.append(kind.call)
        for use in uses:
            results.append((what, outcome(use, copy, whole)))
        shutil.rmtree(copy) if copy.is_dir() else copy.unlink(missing_ok=True)
    return results
