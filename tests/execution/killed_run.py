"""A run in a process of its own, to be killed: ``killed_run.py ENGINE CHECKPOINT OUTPUT [SECONDS]``.

It says when it begins. Chunks are small, so that there is always one on its way to the disk.
"""

import sys
import time
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
from numba import njit

import tempering as tp
from tempering.runs import store as run_store

run_store.CHUNK = 2_000
SLOW = ("slow", "slow batched", "slow callback")  # calls long enough for their answers to be kept
WAYS = ("python", "vector", "numba", "parallel", "model", "sequential", "sums", "numba sums", "treed_gp", "recapture")
WAYS += SLOW
CALL = 0.003  # seconds of a slow one


def skewed(x):
    return 1.5 * x[0] - np.exp(x[0]) + 2.5 * x[1] - np.exp(x[1])


def traced(x):
    import jax.numpy as jnp

    return 1.5 * x[0] - jnp.exp(x[0]) + 2.5 * x[1] - jnp.exp(x[1])


def slow(x):
    time.sleep(CALL)
    return skewed(x)


def slow_batched(x):
    time.sleep(CALL)
    return skewed(x.T)


def slow_callback(x):
    import jax

    def answer(x):
        time.sleep(CALL)
        return np.asarray(skewed(np.asarray(x, float)), np.float32)

    return jax.pure_callback(answer, jax.ShapeDtypeStruct((), np.float32), x, vmap_method="sequential")


def sample_slowly(way, checkpoint):
    """Take a hundred calls for an iteration, each of which is kept."""
    common = {"rng": 11, "progress": False, "ladder": (1.0, 0.6, 0.3), "kernel": tp.kernels.RandomWalk()}
    common |= {"initial": [np.full(2, 0.01 * i) for i in range(96)], "tuning": tp.Tuning(0)}
    if way == "slow batched":  # all chains are one call
        execution = tp.Execution("vector", checkpoint=checkpoint)
        return tp.sample(tp.Target(slow_batched, batched=True), chains=4, draws=2_000, execution=execution, **common)
    target = tp.Target(slow_callback if way == "slow callback" else slow)
    execution = tp.Execution("vector" if way == "slow callback" else "scalar", checkpoint=checkpoint)
    return tp.sample(target, chains=32, draws=30, method="parallel", execution=execution, **common)


def sample(way, checkpoint):
    common = {"initial": np.zeros(2), "rng": 11, "progress": False}
    common["execution"] = tp.Execution("scalar" if way == "python" else "auto", checkpoint=checkpoint)
    if way == "vector":
        return tp.sample(tp.Target(traced), chains=40, draws=6_000, tuning=tp.Tuning(1_500), **common)
    if way == "parallel":
        return tp.sample(tp.Target(traced), chains=4, draws=4_000, tuning=tp.Tuning(1_500), method="parallel", **common)
    if way == "numba":
        return tp.sample(tp.Target(njit(skewed)), chains=3, draws=16_000, tuning=tp.Tuning(5_000), **common)
    if way == "model":
        model = tp.problems.variable_selection()
        return tp.sample(
            model, chains=2, ladder=[1, 0.5], draws=1_500, tuning=tp.Tuning(300), **common | {"initial": None}
        )
    if way == "sequential":
        return tp.sample(tp.Target(traced), chains=8, draws=20_000, method="sequential", **common)
    return tp.sample(tp.Target(skewed), chains=2, draws=4_000, tuning=tp.Tuning(1_000), **common)


def arrays_of(run):
    arrays = {name: getattr(run, name) for name in run_store.ARRAYS} | {f"value {n}": v for n, v in run.values.items()}
    return arrays | {"k": run.ladder.inverse_temperatures}


def sum_up(way, checkpoint):
    common = {"initial": np.zeros(2), "rng": 11, "progress": False}
    common["execution"] = tp.Execution("scalar" if way == "python" else "auto", checkpoint=checkpoint)
    common |= {"keep": tp.Sums({"x": lambda x: x, "square": lambda x: (x**2).sum(axis=-1)})}
    if way == "sums":  # along a ladder that is given; those below take two legs
        common |= {"ladder": (1.0, 0.5, 0.2)}
        sums = tp.sample(tp.Target(traced), chains=600, draws=12_000, tuning=tp.Tuning(500), **common)
    else:
        sums = tp.sample(tp.Target(njit(skewed)), chains=3, draws=1_500_000, tuning=tp.Tuning(5_000), **common)
    return dict(arrays_in(sums.sums, "sums")) | {"exchanges": sums.index.exchanges}


def arrays_in(value, name):
    """Return all arrays of a value with fields, however deep, by their places."""
    if is_dataclass(value):
        parts = [(field.name, getattr(value, field.name)) for field in fields(value)]
    elif isinstance(value, tuple):
        parts = list(enumerate(value)) if not hasattr(value, "_asdict") else value._asdict().items()
    elif isinstance(value, dict):
        parts = value.items()
    else:
        return [(name, np.asarray(value))] if isinstance(value, np.ndarray | float | int) else []
    return [found for key, part in parts for found in arrays_in(part, f"{name}.{key}")]


def fit_treed_gp(checkpoint):
    x = np.linspace(0.0, 1.0, 25)[:, None]
    y = np.sin(6 * x[:, 0]) + np.where(x[:, 0] > 0.5, 2.0, 0.0)
    model = tp.models.TreedGP(tempering={"ladder": "tuned"}, draws=3_000, tune=1_000, random_state=1)
    model.fit(x, y, X_predict=x, checkpoint=checkpoint)
    return {"mean": model.predict(x), "running": model.running_prediction_, "leaves": model.leaf_probabilities_}


def fit_recapture(checkpoint):
    from tempering.data import SYNTHETIC_COUNTS, path_of
    from tempering.models.recapture import read

    study = tp.models.MarkRecapture(method="simulated", draws=6_000, tune=160, chains=4, ladder=[1.0, 0.5, 0.2, 0.1])
    data = read(path_of(SYNTHETIC_COUNTS), "counts")
    return arrays_of(study.fit(data, rng=1, checkpoint=checkpoint, progress=False).draws)


def result_of(way, checkpoint):
    if way.endswith("sums"):
        return sum_up(way, checkpoint)
    if way == "treed_gp":
        return fit_treed_gp(checkpoint)
    if way in SLOW:
        return arrays_of(sample_slowly(way, checkpoint))
    return fit_recapture(checkpoint) if way == "recapture" else arrays_of(sample(way, checkpoint))


def main():
    way, checkpoint, output, *seconds = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    kept = None if checkpoint == "none" else tp.Checkpoint(checkpoint, float(seconds[0]) if seconds else 0.0)
    np.savez(Path(output), **result_of(way, kept))


if __name__ == "__main__":
    main()
