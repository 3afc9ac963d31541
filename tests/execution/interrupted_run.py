"""A run in a process of its own, to be interrupted: ``interrupted_run.py TUNE DRAWS [WORKERS] [CHECKPOINT]``."""

import sys
from contextlib import nullcontext

import numpy as np

import tempering as tp
from tempering.execution import context, journal, processes
from tempering.sampling import progress


def skewed(x):
    return 1.5 * x[0] - np.exp(x[0])


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Watch(progress.Watch):
    """Says when the first draws are there."""

    def see(self, *arguments):
        say("drawing")
        super().see(*arguments)


class Engine(journal.JournalEngine):
    """Says when the first iterations of tuning are done."""

    def _run_piece(self, *arguments, **how):
        found = super()._run_piece(*arguments, **how)
        say("tuning")
        return found


def main():
    tune, draws, workers, *checkpoint = sys.argv[1:]
    progress.Watch, context.JournalEngine = Watch, Engine
    pool = nullcontext()
    if int(workers):
        pool = processes(int(workers))
    with pool as executor:
        say("ready")
        run = tp.sample(
            tp.Target(skewed),
            initial=np.zeros(1),
            ladder=[1.0, 0.5],
            execution=tp.Execution(
                engine="scalar", executor=executor, checkpoint=checkpoint[0] if checkpoint else None
            ),
            chains=3,
            rng=2,
            progress=False,
            tuning=tp.Tuning(int(tune)),
            draws=int(draws),
        )
    say(f"draws {run.n_draws} {run.energy.sum()!r}")


if __name__ == "__main__":
    main()
