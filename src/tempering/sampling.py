"""`sample`: from a target to draws of every temperature."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering import progress as progress_bars
from tempering.draws import RunInfo, TemperedDraws
from tempering.engines.trace import LONG_BLOCK, QUANTUM, Engine, Schedule, Trace, joined, shortened
from tempering.errors import SamplerError, TargetError
from tempering.kernels.composite import leaves
from tempering.kernels.random_walk import RandomWalk
from tempering.ladder import Ladder
from tempering.layout import Layout
from tempering.randomness import seed_of, stream
from tempering.target import Target
from tempering.tuning import kernel_settings
from tempering.tuning.rounds import Tuned, Tuner

RUNG_MOVES = {
    "simulated": ("lifted", "neighbour"),
    "parallel": ("non_reversible", "even_odd", "random"),
}
PAPER_LADDER = (40, 0.1)  # the paper's default: geometric, m = 40, k_m = 0.1
LONG_RUN = 100_000  # iterations a chain, from which longer blocks pay for their compilation
REPORTS = 50  # blocks a run is cut into, at the least, for the bar
CHAINS = {"vector": {"simulated": 32, "parallel": 4}, "scalar": {"simulated": 4, "parallel": 2}}


@dataclass(frozen=True)
class Plan:
    """What a run is made of, once every default has been filled in."""

    target: Any
    layout: Layout | None  # None: a model object, which records what it likes
    kernel: Any
    ladder: Ladder
    method: str
    rung_moves: str
    engine: str
    n_chains: int
    seed: int
    starts: tuple[Any, ...]


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
    pseudo_prior: str | NDArray[np.float64] = "rao_blackwellised",
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
        Inverse temperatures; the paper's geometric ladder with 40 rungs down to 0.1 by default.
    method : {"simulated", "parallel"}
        One chain that moves between rungs, or coupled chains, one a rung, that exchange theirs.
    kernel : kernel, optional
        From `tempering.kernels`; a random walk whose scale and shape are tuned rung by rung by default.
    draws, tune : int
        Iterations of each chain that are kept, and that are spent on tuning before.
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
    _check_counts(draws=draws, tune=tune, chains=chains)
    plan = _plan(target, initial, ladder, method, kernel, chains, rng, engine, rung_moves)
    started = time.perf_counter()
    running = _build_engine(plan)
    states = running.start(len(plan.ladder))
    schedule = _first_schedule(plan, pseudo_prior)
    with progress_bars.bar(tune + draws, show=progress) as report:
        tuner = Tuner(
            running,
            leaves(plan.kernel) if plan.kernel is not None else (),
            pseudo_prior if isinstance(pseudo_prior, str) and _needs_pseudo_prior(plan) else None,
            report,
            is_power=isinstance(target, Target) and target.is_powered,
        )
        tuned = tuner.run(states, schedule, tune)
        trace = draw(running, tuned.states, tuned.schedule, draws, report)
    return _package(plan, running, tuned, trace, time.perf_counter() - started)


def draw(engine: Engine, states: Any, schedule: Schedule, n: int, report: Any) -> Trace:
    """Run with everything frozen, block by block, and keep ``n`` draws of every chain."""
    block = LONG_BLOCK if n >= LONG_RUN else QUANTUM * max(1, n // (REPORTS * QUANTUM))
    traces: list[Trace] = []
    for done in range(0, n, block):
        states, trace = engine.run(states, schedule, block)
        traces.append(trace)
        report(min(block, n - done), "")
    return shortened(joined(traces), n)


def _plan(
    target: Any,
    initial: Any,
    ladder: Ladder | Sequence[float] | None,
    method: str,
    kernel: Any,
    chains: int | None,
    rng: Any,
    engine: str,
    rung_moves: str | None,
) -> Plan:
    if method not in RUNG_MOVES:
        raise SamplerError(f"method must be one of {sorted(RUNG_MOVES)}, but got {method!r}.")
    moves = rung_moves if rung_moves is not None else RUNG_MOVES[method][0]
    if moves not in RUNG_MOVES[method]:
        raise SamplerError(
            f"rung_moves of the method {method!r} must be one of {RUNG_MOVES[method]}, but got {moves!r}."
        )
    steps = ladder if isinstance(ladder, Ladder) else Ladder(ladder) if ladder is not None else None
    steps = steps if steps is not None else Ladder.geometric(*PAPER_LADDER)
    seed = seed_of(rng)
    if isinstance(target, Target):
        target.check_ladder(steps)
        starts = _starts(target, initial, seed)
        layout = Layout.of(starts[0])
        name = _engine_of_target(target, layout, starts[0], engine)
        kernel = kernel if kernel is not None else RandomWalk()
    else:
        _check_model(target)
        starts, layout, kernel = (), None, None
        name = _engine_of_model(target, engine)
    n_chains = chains if chains is not None else CHAINS[name][method]
    return Plan(target, layout, kernel, steps, method, moves, name, n_chains, seed, tuple(starts))


def _starts(target: Target, initial: Any, seed: int) -> list[Any]:
    """Return the user's starting points as a list; one drawn from the prior to learn the shape if there are none."""
    if initial is None:
        if target.sample_base is None:
            raise TargetError(
                "A run needs somewhere to start, but neither initial nor sample_prior was given. Pass initial=..., a "
                "position inside the support."
            )
        return [_draw_from_base(target, seed)]
    if isinstance(initial, list) and not all(isinstance(x, int | float) for x in initial):
        return list(initial)
    return [np.asarray(initial, dtype=float) if isinstance(initial, list) else initial]


def _draw_from_base(target: Target, seed: int) -> Any:
    assert target.sample_base is not None
    import jax

    try:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, target.sample_base(jax.random.key(seed)))
    except (TypeError, AttributeError, ValueError):
        return target.sample_base(stream(seed, 2))


def _engine_of_target(target: Target, layout: Layout, position: Any, engine: str) -> str:
    from tempering.engines import scalar

    _check_engine(engine)
    if engine != "auto":
        return engine
    if scalar.is_numba(target.energy):
        return "scalar"
    from tempering.engines import vector

    return "vector" if vector.traces(target, layout, position) else "scalar"


def _engine_of_model(model: Any, engine: str) -> str:
    """Take the engine a model names, or the one its step can run on."""
    _check_engine(engine)
    if engine != "auto":
        return engine
    if getattr(model, "engine", None) in CHAINS:
        return str(model.engine)
    from tempering.engines.scalar import is_numba

    if is_numba(model.step):
        return "scalar"
    import jax

    try:
        with jax.enable_x64(True):
            key = jax.random.key(0)
            state = jax.eval_shape(model.initial, key)
            jax.eval_shape(model.step, key, state, 1.0)
    except Exception:  # a model in plain Python may fail in any way of its own
        return "scalar"
    return "vector"


def _check_engine(engine: str) -> None:
    if engine not in ("auto", *CHAINS):
        raise SamplerError(f"engine must be 'auto', 'vector' or 'scalar', but got {engine!r}.")


def _check_model(model: Any) -> None:
    missing = [name for name in ("initial", "step", "energy", "record") if not callable(getattr(model, name, None))]
    if missing:
        raise TargetError(
            f"A target is a tempering.Target or a model with initial, step, energy and record, but "
            f"{type(model).__name__} has no {missing[0]}. Wrap a log density: Target(log_density)."
        )


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        least = 0 if name == "tune" else 1
        if count is not None and (int(count) != count or count < least):
            raise SamplerError(f"{name} must be a whole number of at least {least}, but got {count}.")


def _build_engine(plan: Plan) -> Engine:
    common = (plan.method, plan.rung_moves, plan.seed, plan.n_chains, len(plan.ladder))
    if plan.engine == "vector":
        from tempering.engines import vector

        if plan.layout is None:
            return vector.VectorEngine(vector.model_pieces(plan.target), *common)
        own_starts = plan.starts if plan.target.sample_base is None or len(plan.starts) else ()
        pieces = vector.target_pieces(plan.target, plan.kernel, plan.layout, own_starts)
        return vector.VectorEngine(pieces, *common)
    from tempering.engines import scalar

    if plan.layout is None:
        example = plan.target.initial(stream(plan.seed, 3))
        return scalar.ScalarEngine(scalar.model_pieces(plan.target, example), *common)
    return scalar.ScalarEngine(scalar.target_pieces(plan.target, plan.kernel, plan.layout, plan.starts), *common)


def _first_schedule(plan: Plan, pseudo_prior: str | NDArray[np.float64]) -> Schedule:
    settings: tuple[Any, ...] = ()
    if plan.layout is not None:
        centre = plan.layout.flatten(plan.starts[0])
        settings = kernel_settings.start(leaves(plan.kernel), plan.ladder, centre)
    log_p = np.zeros(len(plan.ladder))
    if not isinstance(pseudo_prior, str):
        log_p = np.array(pseudo_prior, dtype=float)
        if log_p.shape != (len(plan.ladder),) or not np.all(np.isfinite(log_p)):
            raise SamplerError(
                f"pseudo_prior must hold one finite log value for each of the {len(plan.ladder)} rungs, but has shape "
                f"{log_p.shape}."
            )
    return Schedule(plan.ladder, log_p, settings)


def _needs_pseudo_prior(plan: Plan) -> bool:
    return plan.method == "simulated" and len(plan.ladder) > 1


def _package(plan: Plan, engine: Engine, tuned: Tuned, trace: Trace, seconds: float) -> TemperedDraws:
    info = RunInfo(
        method=plan.method,
        engine=engine.name,
        kernel=repr(plan.kernel),
        rung_moves=plan.rung_moves,
        seed=plan.seed,
        seconds=seconds,
        rounds=tuned.rounds,
    )
    return TemperedDraws(
        values=engine.positions(trace),
        rung=trace.rung,
        energy=trace.energy,
        ladder=tuned.schedule.ladder,
        log_pseudo_prior=tuned.schedule.log_pseudo_prior,
        proposed=trace.proposed,
        acceptance=trace.acceptance,
        chains_per_ensemble=engine.chains_per_ensemble,
        layout=plan.layout,
        settings=tuned.schedule.settings,
        is_powered=isinstance(plan.target, Target) and plan.target.is_powered,
        info=info,
    )


def with_seed(plan: Plan, seed: int) -> Plan:
    """Return the same plan with another seed."""
    return replace(plan, seed=seed)
