"""`sample`: from a target to draws of every temperature."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from tempering.execution.context import carrying_out
from tempering.path import Ladder
from tempering.runs.diagnosis import FEW_ROUND_TRIPS
from tempering.runs.draws import TemperedDraws
from tempering.runs.stored import changed
from tempering.runs.sums import TemperedSums
from tempering.sampling import progress as progress_bars
from tempering.sampling.draw_sampling import chains_of, draw, on_devices, package_rounds, reopened
from tempering.sampling.effort import usual_effort
from tempering.sampling.option_checks import check_devices, check_options, check_plan, check_room, wanted_sums
from tempering.sampling.options import Draws, Execution, Method, Sums, Tuning, refuse_moved
from tempering.sampling.planning import make_plan
from tempering.sampling.preparing import prepare
from tempering.sampling.starts import side_by_side
from tempering.sampling.sum_sampling import sample_sums
from tempering.sampling.until import Until

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
    how = method if isinstance(method, Method) else Method(method)
    may_go_on = draws is None and until is None and execution.checkpoint is None and execution.devices is None
    check_options(how, ladder, draws, until, chains, tuning, execution, keep)
    started = time.perf_counter()
    with carrying_out(execution.executor, execution.checkpoint) as context:
        plan = make_plan(
            target, initial=initial, ladder=ladder, path=path, method=how, kernel=kernel, chains=chains,
            rng=context.seed(rng), engine=execution.engine, keeps_sums=isinstance(keep, Sums),
        )  # fmt: skip
        usual = usual_effort(plan.engine, plan.method, plan.target, plan.layout)
        if draws is None:
            draws = usual.draws
            until = until if until is not None or usual.effective_draws is None else Until(usual.effective_draws)
        tune = usual.iterations if tuning.iterations is None else tuning.iterations
        tuning = replace(tuning, iterations=tune)
        check_plan(plan, tuning)
        plan = replace(plan, context=context, keep_rounds=keep == "rounds")
        wanted = wanted_sums(plan, keep, draws, execution.devices) if isinstance(keep, Sums) else None
        plan = check_devices(plan, execution.devices, keeps_sums=wanted is not None)
        if wanted is not None and plan.method == "simulated":
            plan = replace(plan, starts=side_by_side(plan.starts, plan.n_chains))
        every = keep.every if isinstance(keep, Draws) else 1
        draws = max(1, draws // every)
        if until is None and execution.checkpoint is None and not isinstance(keep, Sums):
            check_room(plan, draws)
        said = {"draws": draws, "tune": tune, "path": path} | tuning.learnt | ({} if every == 1 else {"every": every})
        if wanted is None:
            done = context.identified(plan, **said)
        else:
            done = context.identified(plan, wanted.functions, **said, **wanted.identity)
        if done is not None:
            return done
        with progress_bars.bar(tune + draws, show=progress) as report:
            report(0, plan.in_words)
            if plan.method == "sequential":
                from tempering.sampling.sequential_sampling import sample_sequentially

                return context.finished(sample_sequentially(plan, draws, report, started))
            plan, running, tuned = prepare(plan, tuning, report)
            if wanted is not None:
                return sample_sums(plan, running, tuned, wanted, report, started)
            if execution.devices is not None:
                running, tuned = on_devices(running, tuned, execution.devices, context)
            recorder = context.recorder(chains_of(plan, running, tuned, started, every), draws)
            run = draw(context, recorder, report, until, partial(reopened, execution.checkpoint, plan, said))
            may_help = usual.effective_draws is None or 2 * run.n_round_trips >= FEW_ROUND_TRIPS  # of a dear density
            if may_go_on and run.go_on is not None and may_help and run.diagnose().asks_for_draws:
                report(0, "The verdict asks for more draws: drawing as many again.")
                run = run.more(run.n_draws)
            return run if keep != "rounds" else changed(run, rounds=package_rounds(plan, running, tuned, started))
