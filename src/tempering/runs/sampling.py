"""`sample`: from a target to draws of every temperature."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from tempering.engines.trace import Engine, Trace
from tempering.errors import SamplerError
from tempering.execution.blocks import WholeEngine
from tempering.execution.checkpoint import Checkpoint
from tempering.execution.context import Execution, carrying_out
from tempering.execution.drawing import draw_in_blocks
from tempering.execution.journal import JournalEngine, Past
from tempering.execution.keeping import Keeper, KeptInMemory
from tempering.io.run_store import draws_in_chunk
from tempering.learning.rounds import Tuned, check_spread
from tempering.path import Ladder
from tempering.path import Path as TemperingPath
from tempering.recorders.quantities import Functions
from tempering.runs import progress as progress_bars
from tempering.runs.draws import RunInfo, TemperedDraws
from tempering.runs.options import Options
from tempering.runs.planning import Plan, check_counts, make_plan
from tempering.runs.preparing import info_of, prepare
from tempering.runs.sum_checks import check_devices, check_keep, check_sum_every
from tempering.runs.sum_sampling import Wanted, sample_sums
from tempering.runs.sums import TemperedSums
from tempering.runs.until import Until, next_look

MOVED = "moved"  # what stands for an argument that has another name now


@overload
def sample(
    target: Any, *, keep: Literal["draws", "rounds"] = "draws", quantities: None = None, **options: Unpack[Options]
) -> TemperedDraws: ...


@overload
def sample(
    target: Any, *, keep: Literal["sums"], quantities: Functions, **options: Unpack[Options]
) -> TemperedSums: ...


def sample(
    target: Any,
    *,
    initial: Any = None,
    ladder: Ladder | Sequence[float] | None = None,
    path: Any = None,
    method: str = "simulated",
    kernel: Any = None,
    draws: int = 10_000,
    until: Until | None = None,
    tune: int = 5_000,
    chains: int | None = None,
    rng: np.random.Generator | int | None = None,
    engine: str = "auto",
    rung_moves: str | None = None,
    pseudo_prior: str | NDArray[np.float64] = "mbar",
    objective: str = "hybrid",
    executor: Executor | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
    keep: str = "draws",
    quantities: Functions | None = None,
    sum_every: int | None = None,
    devices: Sequence[Any] | None = None,
    progress: bool = True,
    reference: Any = MOVED,
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
    method : {"simulated", "parallel", "sequential"}
        One chain that moves between rungs; coupled chains, one a rung, that exchange theirs; or populations carried
        from hot to cold.
    kernel : kernel, optional
        From `tempering.kernels`; by default a random walk whose scale and shape are tuned rung by rung, and
        Hamiltonian moves from 5 dimensions on where JAX gives gradients.
    draws, tune : int
        Iterations of each chain that are kept, and (about) those spent on tuning before. Tuning of a ladder ends
        sooner once there is nothing left to learn, and takes longer where few were given: its pilot needs some 2000.
    until : Until, optional
        Where to end sooner: at effective draws, at a standard error, or after seconds (`tempering.Until`); ``draws`` is
        then the most of each chain.
    chains : int, optional
        Number of chains (ensembles, for "parallel"); as many as the engine runs well by default.
    rng : int, Generator or None
        The seed of all streams: equal seeds give equal draws.
    engine : {"auto", "vector", "scalar"}
        "vector" for log densities JAX can trace, "scalar" for any other.
    rung_moves : str, optional
        "lifted" or "neighbour" for simulated tempering; "non_reversible", "even_odd" or "random" for parallel.
    pseudo_prior : str or array
        How the weights of the rungs are learnt (`tempering.learning.pseudo_prior`), or their logs.
    objective : {"hybrid", "barrier", "ess"}
        What a tuned ladder is best at (`tempering.learning.ladder_choice`).
    executor : concurrent.futures.Executor, optional
        Who runs the chains: threads, spawned processes, Dask's ``Client(...).get_executor()``, mpi4py's
        ``MPIPoolExecutor``. Chains are cut into blocks whose size does not depend on the workers: the draws are the
        same to the bit for every executor, and for none.
    checkpoint : path or Checkpoint, optional
        A folder where the run is kept while it goes on. After a kill the same call goes on from there, and ends with
        the draws it would have had. By default it is written every minute (`Checkpoint` sets another interval).
    keep : {"draws", "rounds", "sums"}
        "rounds": the draws of the tuning rounds too, in ``run.rounds``, each with the ladder it was made with;
        `tempering.join` puts them together. "sums": no draws, only sums whose size does not depend on the length of
        the run, and quantile sketches.
    quantities : mapping of str to callable, optional
        With ``keep="sums"``: the functions of a position whose expectations will be asked for, called as
        `TemperedDraws.expect` calls them. On the vector engine they are compiled: write them with ``jax.numpy``.
    sum_every : int, optional
        With ``keep="sums"`` on the vector engine: sum every so many iterations of a chain, an odd number. By default
        every one on a processor, and every fifth on an accelerator, where summing a draw takes half as long again as
        making it. Round trips are those of all iterations.
    devices : sequence of jax.Device, optional
        Spread the chains of the vector engine over these, as in ``devices=jax.devices()``; tuning runs on the first.
    progress : bool
        Show a bar when the output is a terminal.
    reference
        Was renamed to ``path``.

    Returns
    -------
    TemperedDraws, or TemperedSums with ``keep="sums"``
        With a checkpoint draws stay on disk, and are read when asked for. Ctrl-C ends a run at its next block and
        returns what there is.

    Examples
    --------
    >>> import tempering as tp
    >>> target = tp.Target(lambda x: -0.5 * (x - 3.0) ** 2)
    >>> run = tp.sample(target, initial=0.0, ladder=[1, 0.5], draws=500, tune=320, rng=1, progress=False)
    >>> abs(run.expect(lambda x: x).value - 3.0) < 0.1
    True
    """
    if reference is not MOVED:
        raise SamplerError(
            f"reference={reference!r} is now called path: write path='powers' or path='prior' for the plain "
            "path (it was reference=None), path='reference' for a fitted one, or path=your_object."
        )
    check_counts(draws=draws, tune=tune, chains=chains)
    functions = check_keep(keep, quantities, method, elsewhere=executor is not None or checkpoint is not None)
    started = time.perf_counter()
    with carrying_out(executor, checkpoint) as execution:
        plan = make_plan(
            target, initial=initial, ladder=ladder, path=path, method=method, kernel=kernel, chains=chains,
            rng=execution.seed(rng), engine=engine, rung_moves=rung_moves, keep=keep,
        )  # fmt: skip
        n_chains, stride = plan.n_chains, check_sum_every(sum_every, keep, plan.engine, draws)
        plan = check_devices(replace(plan, execution=execution, keep_rounds=keep == "rounds"), functions, devices)
        arguments: dict[str, Any] = {"pseudo_prior": pseudo_prior, "objective": objective, "path": path}
        wanted = Wanted(functions, draws, n_chains, stride, devices)
        if functions:
            arguments |= wanted.identity
        done = execution.identified(plan, functions, draws=draws, tune=tune, **arguments)
        if done is not None:
            return done
        with progress_bars.bar(tune + draws, show=progress) as report:
            report(0, plan.in_words)
            if plan.method == "sequential":
                return execution.finished(_sample_sequentially(plan, draws, report, started))
            plan, running, tuned = prepare(plan, pseudo_prior, objective, tune, report)
            if functions:
                return sample_sums(plan, running, tuned, wanted, report, started)
            if devices is not None:
                running, tuned = on_devices(running, tuned, devices, execution)
            keeper = execution.keeper(running, partial(_package, plan, running, tuned, started), draws)
            run = draw(execution, running, keeper, tuned, draws, report, is_powered=plan.is_powered, until=until)
            if keep == "rounds":
                run = replace(run, rounds=_package_rounds(plan, running, tuned, started))
            return run


def draw(
    execution: Execution,
    engine: Any,
    keeper: Keeper,
    tuned: Tuned,
    n: int,
    report: Any,
    *,
    is_powered: bool = False,
    until: Until | None = None,
) -> TemperedDraws:
    """Run with everything frozen, block by block; keep ``n`` draws of every chain, or fewer if a goal is reached."""
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
        execution, engine, keeper, tuned.states, schedule, n, check=check, see=see, is_enough=is_enough,
        next_look=None if until is None else next_look,
    )  # fmt: skip
    if states is None:  # stopped on the way
        return run
    run = _counted(run, engine, states)
    if not isinstance(keeper, KeptInMemory):
        return run
    return replace(run, go_on=partial(_go_on, engine, keeper, replace(tuned, states=states), is_powered))


def _go_on(engine: Any, keeper: KeptInMemory, tuned: Tuned, is_powered: bool, n: int) -> TemperedDraws:
    """Go on with a run in memory from copies of the states that it ended with, on the workers it had."""
    blocks = engine.engine
    tuned = replace(tuned, states=blocks.unpacked(blocks.packed(tuned.states)))
    with carrying_out(None, None) as execution:
        return draw(execution, engine, keeper.longer(n), tuned, n, lambda done, line: None, is_powered=is_powered)


def _counted(run: TemperedDraws, engine: Any, states: Any) -> TemperedDraws:
    """Say how many evaluations gave no number."""
    if run.info is None or isinstance(states, Past):
        return run
    return replace(run, info=replace(run.info, n_invalid=engine.engine.n_invalid(states)))


def on_devices(engine: Any, tuned: Tuned, devices: Sequence[Any], execution: Execution) -> tuple[JournalEngine, Tuned]:
    """Go on with the chains spread over devices."""
    whole, states = engine.engine.in_one_piece(tuned.states)
    n = whole.n_chains // whole.chains_per_ensemble
    wide, states = whole.widened(states, n, devices)
    spread = JournalEngine(WholeEngine(wide, n, n), None, execution.interruption, "")
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
    from tempering.populations.sequential import sample_sequential

    result = sample_sequential(
        plan.target, plan.layout, plan.starts, plan.kernel, draws=draws, chains=plan.n_chains, seed=plan.seed,
        report=report, carried_out=partial(spread_mover, plan.execution, example=plan.example),
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
