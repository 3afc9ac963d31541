"""`sample`: from a target to draws of every temperature."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from tempering.compiling.devices import on_the_processor
from tempering.execution.context import carrying_out
from tempering.path import Ladder
from tempering.runs.draws import TemperedDraws
from tempering.runs.stored import changed
from tempering.runs.sums import TemperedSums
from tempering.runs.tours import FEW_ROUND_TRIPS
from tempering.sampling import progress as progress_bars
from tempering.sampling.call import Call
from tempering.sampling.draw_sampling import chains_of, draw, reopened
from tempering.sampling.options import Draws, Execution, Method, Sums, Tuning, refuse_moved
from tempering.sampling.packaging import package_rounds
from tempering.sampling.planning import make_plan
from tempering.sampling.sum_sampling import compiled_meanwhile, sample_sums
from tempering.sampling.tuning import overlooked_modes, tune
from tempering.sampling.until import Until
from tempering.sampling.whitening import whitened

Kept = Literal["draws", "rounds"] | Draws


@overload
def sample(
    target: Any, *, initial: Any = ..., ladder: Ladder | Sequence[float] | None = ..., path: Any = ...,
    method: str | Method = ..., kernel: Any = ..., draws: int | None = ..., until: Until | None = ...,
    chains: int | None = ..., rng: np.random.Generator | int | None = ..., tuning: Tuning = ...,
    execution: Execution = ..., keep: Kept = ..., progress: bool = ...,
) -> TemperedDraws: ...  # fmt: skip


@overload
def sample(
    target: Any, *, initial: Any = ..., ladder: Ladder | Sequence[float] | None = ..., path: Any = ...,
    method: str | Method = ..., kernel: Any = ..., draws: int | None = ..., until: Until | None = ...,
    chains: int | None = ..., rng: np.random.Generator | int | None = ..., tuning: Tuning = ...,
    execution: Execution = ..., keep: Sums, progress: bool = ...,
) -> TemperedSums: ...  # fmt: skip


def sample(
    target: Any,
    *,
    initial: Any = None,
    ladder: Ladder | Sequence[float] | None = None,
    path: Any = None,
    method: str | Method = "simulated",
    kernel: Any = None,
    draws: int | None = None,
    until: Until | None = None,
    chains: int | None = None,
    rng: np.random.Generator | int | None = None,
    tuning: Tuning = Tuning(),
    execution: Execution = Execution(),
    keep: Kept | Sums = "draws",
    progress: bool = True,
    **moved: Any,
) -> TemperedDraws | TemperedSums:
    """Draw from every temperature of a target.

    Parameters
    ----------
    target : Target or model object
        A `tempering.Target`, or an object with ``initial(rng)``, ``step(rng, state, k)``, ``energy(state)`` and
        ``record(state)`` for states of any kind.
    initial : position, or list of positions, optional
        Where chains start: one position for all, or a list taken in turn. Not needed when the prior can be sampled.
    ladder : Ladder or sequence of float, optional
        Inverse temperatures; by default they are tuned, their number too.
    path : {"two_legs", "powers", "prior", "reference"} or object with ``log_density`` and ``sample``, optional
        What leads to the target. By default two legs, one from a density that reaches everywhere (the prior, or a
        wide Student distribution) and one from a mixture fitted to all that is found; with a ladder, the powers of the
        density or the path from its prior. "reference" puts a mixture fitted to the modes that the starting points
        climb to at k = 0, an object its own density.
    method : {"simulated", "parallel", "sequential"} or Method
        One chain that moves between rungs; coupled chains, one per rung, that exchange theirs; or populations carried
        from hot to cold. `tempering.Method` also says by which moves.
    kernel : kernel, optional
        From `tempering.kernels`; by default a random walk whose scale and shape are tuned rung by rung, and
        Hamiltonian moves from 5 dimensions on if JAX gives gradients.
    draws : int, optional
        Iterations of each chain that are kept. By default 10,000, fewer of a density that takes more than some 100,000
        operations, and as many again if the verdict on those asks for more (not with a goal, a checkpoint or sums).
    until : Until, optional
        When to end sooner: at a number of effective draws, at a standard error, or after seconds (`tempering.Until`);
        ``draws`` is then the most of each chain.
    chains : int, optional
        Number of chains (ensembles, for "parallel"); by default as many as the engine runs well, and fewer where the
        density is dear.
    rng : int, Generator or None
        The seed of all streams: equal seeds give equal draws.
    tuning : Tuning
        How long to tune, and for what (`tempering.Tuning`).
    execution : Execution
        Where the chains run: the engine, an executor, a checkpoint, devices (`tempering.Execution`).
    keep : {"draws", "rounds"}, Draws or Sums
        "rounds": the draws of the tuning rounds too, in ``run.rounds``, each with the ladder it was made with;
        `tempering.join` puts them together. `tempering.Draws`: one of every so many. `tempering.Sums`: no draws, only
        sums of the quantities named there.
    progress : bool
        Show a bar when the output is a terminal.
    **moved
        Earlier spellings: each raises an error that names the new one.

    Returns
    -------
    TemperedDraws, or TemperedSums with ``keep=Sums(...)``
        With a checkpoint draws stay on disk, and are read when asked for. Ctrl-C ends a run at its next block and
        returns what there is.

    Examples
    --------
    >>> import tempering as tp
    >>> target = tp.Target(lambda x: -0.5 * (x - 3.0) ** 2)
    >>> tuning = tp.Tuning(iterations=320)
    >>> run = tp.sample(target, initial=0.0, ladder=[1, 0.5], draws=500, tuning=tuning, rng=1, progress=False)
    >>> abs(run.expect(lambda x: x).value - 3.0) < 0.1
    True
    """
    refuse_moved(moved)
    steps = ladder if isinstance(ladder, Ladder) or ladder is None else Ladder(ladder)
    how = method if isinstance(method, Method) else Method(method)
    call = Call(initial, steps, path, how, kernel, draws, until, chains, rng, tuning, execution, keep)
    with carrying_out(execution.executor, execution.checkpoint) as context:
        plan, wanted = make_plan(target, call, context)
        done = context.identified(plan, wanted.quantities, **wanted.identity)
        if done is not None:
            return done
        with progress_bars.bar(wanted.tune + wanted.draws, show=progress) as report:
            report(0, plan.in_words)
            if plan.method == "sequential":
                from tempering.sampling.sequential_sampling import sample_sequentially

                return context.finished(sample_sequentially(plan, wanted.draws, report))
            asked = plan
            with on_the_processor() if plan.tunes_beside else nullcontext():
                plan = whitened(plan)
                with compiled_meanwhile(plan, wanted):
                    engine, tuned = tune(plan, wanted, report)
            if wanted.quantities is not None:
                return sample_sums(plan, wanted, engine, tuned, report)

            def drawn() -> TemperedDraws:
                recorder = context.recorder(chains_of(plan, wanted, engine, tuned), wanted.draws)
                return draw(context, recorder, report, wanted.until, partial(reopened, asked, wanted))

            def with_rounds(run: TemperedDraws) -> TemperedDraws:
                return changed(run, rounds=package_rounds(plan, engine, tuned)) if wanted.keeps_rounds else run

            run = drawn()
            if call.leaves_draws_open and (modes := overlooked_modes(plan, tuned, run)):
                report(0, "Draws have led to a mode that the mixture lacks: tuning and drawing again with it.")
                try:
                    engine, tuned = tune(plan, wanted, report, modes)
                except KeyboardInterrupt:  # there are draws to return
                    return with_rounds(run)
                run = drawn()
            if call.leaves_draws_open and more_would_help(run, is_dear=wanted.until is not None):
                report(0, "The verdict asks for more draws: drawing as many again.")
                run = run.more(run.n_draws)
            return with_rounds(run)


def more_would_help(run: TemperedDraws, *, is_dear: bool) -> bool:
    """Whether the verdict on a run asks for as many draws again; of a dear density, only if they could satisfy it."""
    if run.go_on is None or (is_dear and 2 * run.n_round_trips < FEW_ROUND_TRIPS):
        return False
    return run.diagnose().asks_for_draws
