"""`sample`: from a target to draws of every temperature."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from tempering.engines.trace import Engine, Trace
from tempering.errors import SamplerError
from tempering.execution.blocks import WholeEngine
from tempering.execution.context import Context, carrying_out
from tempering.execution.drawing import draw_in_blocks
from tempering.execution.journal import JournalEngine, Past
from tempering.execution.keeping import Keeper
from tempering.execution.plan import Plan
from tempering.learning.rounds import Tuned, check_spread
from tempering.path import Ladder
from tempering.path import Path as TemperingPath
from tempering.runs.draws import RunInfo, TemperedDraws
from tempering.runs.store import draws_in_chunk
from tempering.runs.stored import changed, first_draws, load_checkpoint
from tempering.runs.sums import TemperedSums
from tempering.sampling import progress as progress_bars
from tempering.sampling.option_checks import check_devices, check_options, check_plan, wanted_sums
from tempering.sampling.options import Execution, Method, Sums, Tuning, refuse_moved
from tempering.sampling.planning import make_plan
from tempering.sampling.preparing import info_of, prepare
from tempering.sampling.starts import side_by_side
from tempering.sampling.sum_sampling import sample_sums
from tempering.sampling.until import Until, UntilDraws

Kept = Literal["draws", "rounds"]
DRAWS = 10_000  # of each chain, unless a number is given


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
        Iterations of each chain that are kept. By default 10,000, and as many again if the verdict on those asks for
        more (not with a goal, a checkpoint or sums).
    until : Until, optional
        When to end sooner: at a number of effective draws, at a standard error, or after seconds (`tempering.Until`);
        ``draws`` is then the most of each chain.
    chains : int, optional
        Number of chains (ensembles, for "parallel"); as many as the engine runs well by default.
    rng : int, Generator or None
        The seed of all streams: equal seeds give equal draws.
    tuning : Tuning
        How long to tune, and for what (`tempering.Tuning`).
    execution : Execution
        Where the chains run: the engine, an executor, a checkpoint, devices (`tempering.Execution`).
    keep : {"draws", "rounds"} or Sums
        "rounds": the draws of the tuning rounds too, in ``run.rounds``, each with the ladder it was made with;
        `tempering.join` puts them together. `tempering.Sums`: no draws, only sums of the quantities named there.
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
    draws = DRAWS if draws is None else draws
    check_options(how, ladder, draws, until, chains, tuning, execution, keep)
    started = time.perf_counter()
    with carrying_out(execution.executor, execution.checkpoint) as context:
        plan = make_plan(
            target, initial=initial, ladder=ladder, path=path, method=how, kernel=kernel, chains=chains,
            rng=context.seed(rng), engine=execution.engine, keeps_sums=isinstance(keep, Sums),
        )  # fmt: skip
        check_plan(plan, tuning)
        plan = replace(plan, context=context, keep_rounds=keep == "rounds")
        wanted = wanted_sums(plan, keep, draws, execution.devices) if isinstance(keep, Sums) else None
        plan = check_devices(plan, execution.devices, keeps_sums=wanted is not None)
        if wanted is not None and plan.method == "simulated":
            plan = replace(plan, starts=side_by_side(plan.starts, plan.n_chains))
        said = {"draws": draws, "tune": tuning.iterations, "path": path} | tuning.learnt
        if wanted is None:
            done = context.identified(plan, **said)
        else:
            done = context.identified(plan, wanted.functions, **said, **wanted.identity)
        if done is not None:
            return done
        with progress_bars.bar(tuning.iterations + draws, show=progress) as report:
            report(0, plan.in_words)
            if plan.method == "sequential":
                return context.finished(_sample_sequentially(plan, draws, report, started))
            plan, running, tuned = prepare(plan, tuning, report)
            if wanted is not None:
                return sample_sums(plan, running, tuned, wanted, report, started)
            if execution.devices is not None:
                running, tuned = on_devices(running, tuned, execution.devices, context)
            keeper = context.keeper(running, partial(_package, plan, running, tuned, started), draws)
            run = draw(
                context, running, keeper, tuned, draws, report, is_powered=plan.is_powered, until=until,
                reopened=partial(_reopened, execution.checkpoint, plan, said),
            )  # fmt: skip
            if may_go_on and run.go_on is not None and run.diagnose().asks_for_draws:
                report(0, "The verdict asks for more draws: drawing as many again.")
                run = run.more(run.n_draws)
            return run if keep != "rounds" else changed(run, rounds=_package_rounds(plan, running, tuned, started))


def draw(
    context: Context,
    engine: Any,
    keeper: Keeper,
    tuned: Tuned,
    n: int,
    report: Any,
    *,
    is_powered: bool = False,
    until: Until | UntilDraws | None = None,
    reopened: Reopened | None = None,
) -> TemperedDraws:
    """Run with everything frozen, block by block; keep ``n`` draws of every chain, or fewer if a goal is reached.

    ``reopened(n)`` is where the run goes on when it is asked for more.
    """
    schedule, started = tuned.schedule, time.perf_counter()
    watch = progress_bars.Watch(report, engine.name, schedule.path, engine.n_chains)
    report(min(keeper.n_done, n), "")

    def check(trace: Trace) -> None:
        if is_powered:
            check_spread(trace, schedule)

    def see(trace: Trace) -> None:
        report(trace.rung.shape[1] - max(0, keeper.n_done - n), "")
        watch.see(trace.rung, trace.terms)

    def is_enough(is_look: bool) -> bool:
        if until is None:
            return False
        seconds = time.perf_counter() - started
        return until.is_late(seconds) or (is_look and until.is_reached(keeper.so_far, seconds))

    run, states = draw_in_blocks(
        context, engine, keeper, tuned.states, schedule, n, check=check, see=see, is_enough=is_enough,
        next_look=None if until is None else until.next_look,
    )  # fmt: skip
    if states is None:  # stopped on the way
        return run
    run = _counted(run, engine, states)
    if reopened is None or isinstance(states, Past):
        return run
    return changed(run, go_on=partial(_go_on, engine, keeper, replace(tuned, states=states), is_powered, reopened))


Reopened = Callable[[int], AbstractContextManager[tuple[Context, int]]]


@contextmanager
def _reopened(checkpoint: Any, plan: Plan, said: dict[str, Any], n: int) -> Iterator[tuple[Context, int]]:
    """Open the checkpoint of a run again, if it has one, for ``n`` draws; return how many it has room for, too."""
    with carrying_out(None, checkpoint) as context:
        room = n if context.folder is None else max(n, int(context.folder.identity["draws"]))
        context.identified(plan, **(said | {"draws": room}))
        yield context, room


def _go_on(engine: Any, keeper: Keeper, tuned: Tuned, is_powered: bool, reopened: Reopened, n: int) -> TemperedDraws:
    """Go on with a run from copies of the states that it ended with, on the workers it had.

    What has been drawn since, in a checkpoint, is not drawn again.
    """
    blocks = engine.engine
    tuned = replace(tuned, states=blocks.unpacked(blocks.packed(tuned.states)))
    with reopened(n) as (context, room):
        longer = keeper.longer(room, context.folder)
        if longer.n_done < n or context.folder is None:
            until = None if room == n else UntilDraws(n)
            how: Any = {"is_powered": is_powered, "until": until, "reopened": reopened}
            return draw(context, engine, longer, tuned, room, lambda done, line: None, **how)
        run = first_draws(load_checkpoint(context.folder.path), n)
        return changed(run, go_on=partial(_go_on, engine, keeper, tuned, is_powered, reopened))


def _counted(run: TemperedDraws, engine: Any, states: Any) -> TemperedDraws:
    """Say how many evaluations gave no number."""
    if run.info is None or isinstance(states, Past):
        return run
    return changed(run, info=replace(run.info, n_invalid=engine.engine.n_invalid(states)))


def on_devices(engine: Any, tuned: Tuned, devices: Sequence[Any], context: Context) -> tuple[JournalEngine, Tuned]:
    """Go on with the chains spread over devices."""
    whole, states = engine.engine.in_one_piece(tuned.states)
    n = whole.n_chains // whole.chains_per_ensemble
    wide, states = whole.widened(states, n, devices)
    spread = JournalEngine(WholeEngine(wide, n, n), None, context.interruption, "")
    return spread, replace(tuned, states=states)


def _sample_sequentially(plan: Plan, draws: int, report: Any, started: float) -> TemperedDraws:
    """Carry populations from hot to cold, and keep them all."""
    if plan.layout is None or plan.ladder is not None:
        raise SamplerError(
            "method='sequential' needs a Target and chooses its own temperatures, but got "
            + ("a model object." if plan.layout is None else "a ladder.")
            + " Use method='simulated' or 'parallel'."
        )
    from tempering.execution.movers import spread_mover
    from tempering.execution.recipe import kept_target
    from tempering.populations.sequential import sample_sequential

    kept = kept_target(plan.target, plan.layout, plan.context.run or "none")  # which also says where a call has failed
    result = sample_sequential(
        kept, plan.layout, plan.starts, plan.kernel, draws=draws, chains=plan.n_chains, seed=plan.seed,
        report=report, carried_out=partial(spread_mover, plan.context, example=plan.example),
    )  # fmt: skip
    constrain = plan.target.constrain
    info = RunInfo(
        method="sequential",
        engine="vector (JAX)",
        kernel=repr(plan.kernel),
        rung_moves="none",
        seed=plan.seed,
        seconds=time.perf_counter() - started,
        n_iterations=result.rung.shape[1],
    )
    return TemperedDraws(
        values=plan.layout.named(result.values)
        if constrain is None
        else constrain(plan.layout.unflatten(result.values)),
        rung=result.rung,
        terms=result.energy[..., np.newaxis],
        path=TemperingPath.of_energy(result.ladder, is_powered=False),
        log_pseudo_prior=np.zeros(len(result.ladder)),
        proposed=result.rung,
        acceptance=result.acceptance,
        layout=plan.layout,
        settings=result.settings,
        info=info,
    )


def _package(plan: Plan, engine: Engine, tuned: Tuned, started: float, trace: Trace) -> TemperedDraws:
    info = info_of(plan, engine, tuned, started, trace.rung.shape[1])
    return TemperedDraws(
        values=_named_values(plan, engine, trace),
        rung=trace.rung,
        terms=trace.terms,
        path=tuned.schedule.path,
        log_pseudo_prior=tuned.schedule.log_pseudo_prior,
        proposed=trace.proposed,
        acceptance=trace.acceptance,
        chains_per_ensemble=engine.chains_per_ensemble,
        layout=plan.layout,
        settings=tuned.schedule.settings,
        info=info,
        model=getattr(plan.target, "model", None),
    )


def _package_rounds(plan: Plan, engine: Engine, tuned: Tuned, started: float) -> tuple[TemperedDraws, ...]:
    """Return the draws of the tuning rounds, each with the ladder it was made with."""
    return tuple(
        _package(plan, engine, replace(tuned, schedule=schedule, rounds=(), n_iterations=0), started, trace)
        for trace, schedule in tuned.kept
    )


def _named_values(plan: Plan, engine: Engine, trace: Trace) -> Any:
    """Return the values by name, constrained piece by piece: as they would be in a store, to the bit."""
    constrain = getattr(plan.target, "constrain", None)
    if constrain is None:
        return engine.positions(trace)
    length = draws_in_chunk(trace.rung.shape[0], trace.values.shape[-1])
    starts = range(0, max(1, trace.values.shape[1]), length)
    pieces = [constrain(plan.layout.unflatten(trace.values[:, i : i + length])) for i in starts]  # type: ignore[union-attr]
    return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}
