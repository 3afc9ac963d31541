"""A run with a slow log density, to be told to stop: ``slow_run.py HOW SECONDS CHECKPOINT``."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

import tempering as tp
from tempering.execution import processes
from tempering.sampling import progress


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Slow:
    """A density of plain Python that takes so many seconds."""

    def __init__(self, seconds):
        self.seconds, self.is_new = seconds, True

    def __call__(self, x):
        if self.is_new:
            say("calling")
            self.is_new = False
        if self.seconds > 1e-5:
            time.sleep(self.seconds)
        return 1.5 * x[0] - np.exp(x[0])


class Watch(progress.Watch):
    """Says when the first draws are there."""

    def see(self, *arguments):
        say("drawing")
        super().see(*arguments)


def compiled(seconds):
    from numba import njit

    n = max(1, int(seconds * 1e8))

    @njit
    def density(x):
        total = 0.0
        for i in range(n):
            total += np.sin(i) * 1e-300
        return 1.5 * x[0] - np.exp(x[0]) + total

    return density


def traced(seconds):
    import jax
    import jax.numpy as jnp

    n = max(1, int(seconds * 1e6))

    def density(x):
        total = jax.lax.fori_loop(0, n, lambda i, s: s + jnp.sin(i * 1.0) * 1e-300, 0.0)
        return 1.5 * x[0] - jnp.exp(x[0]) + total

    return density


def main():
    how, seconds, checkpoint = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    progress.Watch = Watch
    density = {"numba": compiled, "vector": traced}.get(how, Slow)(seconds)
    pool = {"threads": lambda: ThreadPoolExecutor(2), "processes": lambda: processes(2)}.get(how, nullcontext)()
    with pool as executor:
        say("ready")
        run = tp.sample(
            tp.Target(density),
            initial=np.zeros(1),
            ladder=[1.0, 0.5],
            chains=4,
            rng=2,
            progress=False,
            tuning=tp.Tuning(0),
            draws=10_000_000,
            execution=tp.Execution(
                engine="vector" if how == "vector" else "scalar",
                executor=executor,
                checkpoint=None if checkpoint == "none" else tp.Checkpoint(checkpoint, seconds=1.0),
            ),
            kernel=tp.kernels.Slice() if how == "slice" else tp.kernels.RandomWalk(),
        )
    say(f"draws {run.n_draws}")


if __name__ == "__main__":
    main()
