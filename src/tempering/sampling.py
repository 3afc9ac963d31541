"""`sample`: from a target to draws of every temperature."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering import progress as progress_bars
from tempering.draws import RunInfo, TemperedDraws
from tempering.engines.trace import LONG_BLOCK, QUANTUM, Engine, Schedule, Trace, joined, shortened
from tempering.errors import SamplerError
from tempering.ladder import Ladder
from tempering.planning import Plan, check_counts, first_log_pseudo_prior, make_plan
from tempering.randomness import stream
from tempering.tuning import kernel_settings
from tempering.tuning.density_of_states import Energies
from tempering.tuning.ladder_choice import choose_ladder
from tempering.tuning.pilot import explore
from tempering.tuning.rounds import Tuned, Tuner, check_spread

PAPER_LADDER = (40, 0.1)  # the paper's default, for runs that are not tuned: geometric, m = 40, k_m = 0.1
REFERENCE_LADDER = (1.0, 0.66, 0.33, 0.0)  # a draw of a good reference is worth half a draw of the target already
LONG_RUN = 100_000  # iterations a chain, from which longer blocks pay for their compilation
REPORTS = 50  # blocks a run is cut into, at the least, for the bar
EXAMPLE_STREAM = 3


def sample(
    target: Any,
    *,
    initial: Any = None,
    ladder: Ladder | Sequence[float] | None = None,
    method: str = "simulated",
    kernel: Any = None,
    draws: int = 10_000,
    tune: int = 5_000,
    chains: int | None = None,
    rng: np.random.Generator | int | None = None,
    engine: str = "auto",
    rung_moves: str | None = None,
    pseudo_prior: str | NDArray[np.float64] = "mbar",
    objective: str = "hybrid",
    reference: Any = None,
    progress: bool = True,
) -> TemperedDraws:
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
    method : {"simulated", "parallel", "sequential"}
        One chain that moves between rungs; coupled chains, one a rung, that exchange theirs; or populations carried
        from hot to cold.
    kernel : kernel, optional
        From `tempering.kernels`; by default a random walk whose scale and shape are tuned rung by rung, and
        Hamiltonian moves from 5 dimensions on where JAX gives gradients.
    draws, tune : int
        Iterations of each chain that are kept, and (about) those spent on tuning before.
    chains : int, optional
        Number of chains (ensembles, for "parallel"); as many as the engine runs well by default.
    rng : int, Generator or None
        The seed of all streams: equal seeds give equal draws.
    engine : {"auto", "vector", "scalar"}
        "vector" for log densities JAX can trace, "scalar" for any other.
    rung_moves : str, optional
        "lifted" or "neighbour" for simulated tempering; "non_reversible", "even_odd" or "random" for parallel.
    pseudo_prior : str or array
        How the weights of the rungs are learnt (`tempering.pseudo_prior`), or their logs.
    objective : {"hybrid", "barrier", "ess"}
        What a tuned ladder is best at (`tempering.tuning.ladder_choice`).
    reference : "fit", or object with ``log_density`` and ``sample``, optional
        Another path, which keeps the masses of narrow modes: k = 0 is a reference density, the user's or one fitted
        to the modes reached from the starting points.
    progress : bool
        Show a bar when the output is a terminal.

    Returns
    -------
    TemperedDraws

    Examples
    --------
    >>> import tempering as tp
    >>> target = tp.Target(lambda x: -0.5 * (x - 3.0) ** 2)
    >>> run = tp.sample(target, initial=0.0, ladder=[1, 0.5], draws=500, tune=320, rng=1, progress=False)
    >>> abs(run.expect(lambda x: x).value - 3.0) < 0.1
    True
    """
    check_counts(draws=draws, tune=tune, chains=chains)
    plan = make_plan(
        target, initial=initial, ladder=ladder, method=method, kernel=kernel, chains=chains, rng=rng, engine=engine,
        rung_moves=rung_moves, reference=reference,
    )  # fmt: skip
    started = time.perf_counter()
    with progress_bars.bar(tune + draws, show=progress) as report:
        report(0, plan.in_words)
        if plan.method == "sequential":
            return _sample_sequentially(plan, draws, report, started)
        if plan.fitted is not None and plan.ladder is None:
            running, tuned = _tune_from_reference(plan, tune, report)
        elif plan.ladder is None and tune > 0:
            running, tuned = _tune_ladder_too(plan, pseudo_prior, objective, tune, report)
        else:
            running, tuned = _tune(plan, pseudo_prior, tune, report)
        trace = draw(running, tuned.states, tuned.schedule, draws, report, is_powered=plan.is_powered)
    return _package(plan, running, tuned, trace, time.perf_counter() - started)


def draw(engine: Engine, states: Any, schedule: Schedule, n: int, report: Any, *, is_powered: bool = False) -> Trace:
    """Run with everything frozen, block by block, and keep ``n`` draws of every chain."""
    block = LONG_BLOCK if n >= LONG_RUN else QUANTUM * max(1, n // (REPORTS * QUANTUM))
    watch = progress_bars.Watch(report, engine.name, schedule.ladder.inverse_temperatures, engine.n_chains)
    traces: list[Trace] = []
    for done in range(0, n, block):
        states, trace = engine.run(states, schedule, block)
        if is_powered:
            check_spread(trace, schedule)
        traces.append(trace)
        report(min(block, n - done), "")
        watch.see(trace.rung, trace.energy)
    return shortened(joined(traces), n)


def _tune(plan: Plan, pseudo_prior: str | NDArray[np.float64], tune: int, report: Any) -> tuple[Engine, Tuned]:
    """Tune the pseudo-prior and the kernels for a given ladder."""
    ladder = plan.ladder if plan.ladder is not None else Ladder.geometric(*PAPER_LADDER)
    engine = _build_engine(plan, len(ladder))
    learnt = pseudo_prior if isinstance(pseudo_prior, str) and plan.method == "simulated" and len(ladder) > 1 else None
    tuner = Tuner(engine, plan.leaves, learnt, report, is_powered=plan.is_powered)
    schedule = Schedule(ladder, first_log_pseudo_prior(pseudo_prior, ladder), _first_settings(plan, ladder))
    return engine, tuner.run(engine.start(len(ladder)), schedule, tune)


def _tune_ladder_too(
    plan: Plan, pseudo_prior: str | NDArray[np.float64], objective: str, tune: int, report: Any
) -> tuple[Engine, Tuned]:
    """Tune the ladder too: a pilot by simulated tempering's engine, then rounds."""
    explorer = _build_engine(replace(plan, method="simulated", rung_moves="lifted"), 1)
    settings = _first_settings(plan, Ladder([1.0]))
    pilot = explore(explorer, plan.leaves, explorer.start(1), settings, has_base=plan.has_base, report=report)
    known = pilot.energies.density_of_states()
    ladder = choose_ladder(known, pilot.hottest, objective, plan.method)
    schedule = Schedule(ladder, known.log_pseudo_prior(ladder), pilot.settings_for(ladder))
    left = max(tune - pilot.n_iterations, tune // 3)
    if plan.method == "parallel":
        engine = _build_engine(plan, len(ladder))
        tuner = Tuner(engine, plan.leaves, None, report, is_powered=plan.is_powered)
        tuned = tuner.run(engine.start(len(ladder)), schedule, left)
        return engine, replace(tuned, n_iterations=tuned.n_iterations + pilot.n_iterations)
    learnt = pseudo_prior if isinstance(pseudo_prior, str) else "mbar"
    tuner = Tuner(explorer, plan.leaves, learnt, report, is_powered=plan.is_powered, objective=objective)
    states = explorer.on_rung(pilot.states, len(ladder) - 1)  # where the pilot left them
    tuned = tuner.run(states, schedule, left, pilot.energies)
    return explorer, replace(tuned, n_iterations=tuned.n_iterations + pilot.n_iterations)


def _tune_from_reference(plan: Plan, tune: int, report: Any) -> tuple[Engine, Tuned]:
    """Tune along a fitted reference: its judged draws are exact energies at k = 0, and few rungs are enough."""
    ladder = Ladder(REFERENCE_LADDER)
    engine = _build_engine(plan, len(ladder))
    log_p = -plan.fitted.log_normalisers(ladder.inverse_temperatures)
    schedule = Schedule(ladder, log_p - log_p[0], _first_settings(plan, ladder))
    energy = np.asarray(plan.fitted.log_weights, dtype=float)
    learnt = "mbar" if plan.method == "simulated" else None
    tuner = Tuner(engine, plan.leaves, learnt, report, is_powered=False)
    return engine, tuner.run(engine.start(len(ladder)), schedule, tune, Energies(np.zeros(energy.size), energy))


def _sample_sequentially(plan: Plan, draws: int, report: Any, started: float) -> TemperedDraws:
    """Carry populations from hot to cold, and keep them all."""
    if plan.layout is None or plan.ladder is not None:
        raise SamplerError(
            "method='sequential' needs a Target and chooses its own temperatures, but got "
            + ("a model object." if plan.layout is None else "a ladder.")
            + " Use method='simulated' or 'parallel'."
        )
    from tempering.samplers.sequential import sample_sequential

    result = sample_sequential(
        plan.target, plan.layout, plan.starts, plan.kernel, draws=draws, chains=plan.n_chains, seed=plan.seed,
        report=report,
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
        energy=result.energy,
        ladder=result.ladder,
        log_pseudo_prior=np.zeros(len(result.ladder)),
        proposed=result.rung,
        acceptance=result.acceptance,
        layout=plan.layout,
        settings=result.settings,
        is_powered=plan.is_powered,
        info=info,
    )


def _first_settings(plan: Plan, ladder: Ladder) -> tuple[Any, ...]:
    if plan.layout is None:
        return ()
    return kernel_settings.start(plan.leaves, ladder, plan.layout.flatten(plan.example))


def _build_engine(plan: Plan, n_rungs: int) -> Engine:
    common = (plan.method, plan.rung_moves, plan.seed, plan.n_chains, n_rungs)
    if plan.engine == "vector":
        from tempering.engines import vector

        if plan.layout is None:
            return vector.VectorEngine(vector.model_pieces(plan.target), *common)
        pieces = vector.target_pieces(plan.target, plan.kernel, plan.layout, plan.starts)
        return vector.VectorEngine(pieces, *common)
    from tempering.engines import scalar

    if plan.layout is None:
        example = plan.target.initial(stream(plan.seed, EXAMPLE_STREAM))
        return scalar.ScalarEngine(scalar.model_pieces(plan.target, example), *common)
    return scalar.ScalarEngine(scalar.target_pieces(plan.target, plan.kernel, plan.layout, plan.starts), *common)


def _package(plan: Plan, engine: Engine, tuned: Tuned, trace: Trace, seconds: float) -> TemperedDraws:
    info = RunInfo(
        method=plan.method,
        engine=engine.name,
        kernel=repr(plan.kernel) if plan.kernel is not None else type(plan.target).__name__,
        rung_moves=plan.rung_moves,
        seed=plan.seed,
        seconds=seconds,
        rounds=tuned.rounds,
        n_iterations=tuned.n_iterations + trace.rung.shape[1],
        redraws=plan.can_redraw and plan.method == "simulated" and tuned.schedule.ladder.hottest == 0.0,
    )
    constrain = getattr(plan.target, "constrain", None)
    return TemperedDraws(
        values=engine.positions(trace) if constrain is None else constrain(plan.layout.unflatten(trace.values)),  # type: ignore[union-attr]
        rung=trace.rung,
        energy=trace.energy,
        ladder=tuned.schedule.ladder,
        log_pseudo_prior=tuned.schedule.log_pseudo_prior,
        proposed=trace.proposed,
        acceptance=trace.acceptance,
        chains_per_ensemble=engine.chains_per_ensemble,
        layout=plan.layout,
        settings=tuned.schedule.settings,
        is_powered=plan.is_powered,
        info=info,
    )
