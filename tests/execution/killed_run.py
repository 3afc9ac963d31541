"""A run in a process of its own, to be killed: ``killed_run.py ENGINE CHECKPOINT OUTPUT [SECONDS]``.

It says when it begins. Chunks are small, so that there is always one on its way to the disk.
"""

import sys
from pathlib import Path

import numpy as np
from numba import njit

import tempering as tp
from tempering.io import run_store

run_store.CHUNK = 2_000
WAYS = ("python", "vector", "numba", "parallel", "model", "sequential")


def skewed(x):
    return 1.5 * x[0] - np.exp(x[0]) + 2.5 * x[1] - np.exp(x[1])


def traced(x):
    import jax.numpy as jnp

    return 1.5 * x[0] - jnp.exp(x[0]) + 2.5 * x[1] - jnp.exp(x[1])


def sample(way, checkpoint):
    common = {"initial": np.zeros(2), "rng": 11, "progress": False, "checkpoint": checkpoint, "reference": None}
    if way == "vector":
        return tp.sample(tp.Target(traced), chains=40, draws=30_000, tune=3_000, **common)
    if way == "parallel":
        return tp.sample(tp.Target(traced), chains=4, draws=20_000, tune=3_000, method="parallel", **common)
    if way == "numba":
        return tp.sample(tp.Target(njit(skewed)), chains=3, draws=40_000, tune=10_000, **common)
    if way == "model":
        model = tp.problems.variable_selection()
        return tp.sample(model, chains=2, ladder=[1, 0.5], draws=3_000, tune=500, **(common | {"initial": None}))
    if way == "sequential":
        return tp.sample(tp.Target(traced), chains=8, draws=60_000, method="sequential", **common)
    return tp.sample(tp.Target(skewed), chains=2, draws=6_000, tune=1_500, engine="scalar", **common)


def main():
    way, checkpoint, output, *seconds = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    kept = None if checkpoint == "none" else tp.Checkpoint(checkpoint, float(seconds[0]) if seconds else 0.0)
    run = sample(way, kept)
    arrays = {name: getattr(run, name) for name in run_store.ARRAYS} | {f"value {n}": v for n, v in run.values.items()}
    np.savez(Path(output), k=run.ladder.inverse_temperatures, **arrays)


if __name__ == "__main__":
    main()
