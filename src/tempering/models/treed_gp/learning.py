"""Before draws are kept: learn the pseudo-prior, and the ladder where none is given, from energies of all rungs.

Chains first run through the rungs one by one, half of them from cold to hot and half the other way, so that every
rung's energies are seen. Then they travel, in rounds that double. After each round MBAR makes one density of states
of all energies so far, and that gives the pseudo-prior of any ladder. In the end they are cooled, since draws should
begin where they are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tempering.engines.trace import Schedule
from tempering.errors import EstimatorError, SamplerError
from tempering.learning.density_of_states import Energies
from tempering.learning.ladder_choice import choose_ladder
from tempering.learning.rounds import doubling_lengths, flat_schedule
from tempering.models.treed_gp.driver import Trace
from tempering.models.treed_gp.engine import Chain, TreedGPEngine
from tempering.path import Ladder, Path
from tempering.sampling.progress import Report

if TYPE_CHECKING:
    from tempering.models.treed_gp.fitting import Remembered

Floats = NDArray[np.float64]

SHARE_OF_SWEEP = 0.3  # of the tuning, for the runs at fixed rungs
SHARE_OF_COOLING = 0.1  # of the tuning, for the way to the cold rung


def tune(
    engine: TreedGPEngine, ladder: Ladder, n_rounds: int, report: Report, *, is_ours: bool
) -> tuple[list[Chain], Schedule, Energies | None]:
    """Run ``n_rounds`` rounds of each chain to learn how to run the rest; return the energies seen too.

    Parameters
    ----------
    is_ours : bool
        Whether the rungs between the ends, and their number, are ours to choose.
    """
    chains = engine.start(len(ladder))
    schedule = flat_schedule(ladder, ())
    if len(ladder) == 1:
        engine.advance(chains, schedule, n_rounds, moving=False)
        report(n_rounds, "")
        return chains, schedule, None
    n_sweep, n_cooling = int(SHARE_OF_SWEEP * n_rounds), int(SHARE_OF_COOLING * n_rounds)
    known = sweep(engine, chains, schedule, n_sweep)
    schedule = relearnt(schedule, known, is_ours=False)
    report(n_sweep, "")
    for length in doubling_lengths(n_rounds - n_sweep - n_cooling):
        traces = engine.advance(chains, schedule, length)
        known = known.with_newer(energies_of(traces, schedule.ladder))
        before = schedule.ladder
        schedule = relearnt(schedule, known, is_ours=is_ours)
        put_on_nearest(chains, before, schedule.ladder)
        report(length, f"{len(schedule.ladder)} rungs")
    cool(engine, chains, schedule, n_cooling)
    report(n_cooling, "")
    return chains, schedule, known


def cool(engine: TreedGPEngine, chains: list[Chain], schedule: Schedule, budget: int) -> None:
    """Bring every chain to the cold rung, rung by rung.

    Where trees change abruptly along the ladder, a chain may cross but once in ten thousand rounds: a short run that
    began hot would have no cold draws at all.
    """
    m = len(schedule.ladder)
    start = [int(chain.walk[0]) for chain in chains]
    for highest in range(m - 1, -1, -1):
        engine.on_rungs(chains, [min(rung, highest) for rung in start])
        if budget >= m:
            engine.advance(chains, schedule, budget // m, moving=False)
    for chain in chains:
        chain.walk[1] = 1


def sweep(engine: TreedGPEngine, chains: list[Chain], schedule: Schedule, budget: int) -> Energies:
    """Run every chain on every rung, even ones from cold to hot, odd ones from hot to cold; return the energies."""
    m = len(schedule.ladder)
    each = max(2, budget // (2 * m))
    engine.on_rungs(chains, [0 if i % 2 == 0 else m - 1 for i in range(len(chains))])
    engine.advance(chains, schedule, max(2, budget - each * m), moving=False)  # away from the start
    k, energy = [], []
    for step in range(m):
        rungs = [step if i % 2 == 0 else m - 1 - step for i in range(len(chains))]
        engine.on_rungs(chains, rungs)
        for rung, trace in zip(rungs, engine.advance(chains, schedule, each, moving=False), strict=True):
            seen = trace.energy[each // 4 :]
            energy.append(seen)
            k.append(np.full(len(seen), schedule.ladder[rung]))
    return Energies(np.concatenate(k), np.concatenate(energy))


def energies_of(traces: Sequence[Trace | Remembered], ladder: Ladder) -> Energies:
    """Take the energies of a round."""
    energy = np.stack([trace.energy for trace in traces])
    return Energies.of_trace(energy, np.stack([trace.rung for trace in traces]), ladder)


def relearnt(schedule: Schedule, known: Energies, *, is_ours: bool) -> Schedule:
    """Take the pseudo-prior, and the ladder where it is ours to choose, from the density of states."""
    try:
        states = known.density_of_states()
        ladder = choose_ladder(states, schedule.ladder.hottest) if is_ours else schedule.ladder
    except (EstimatorError, SamplerError):  # rungs that do not overlap yet: the next round knows more
        return schedule
    log_z = states.log_normaliser(ladder.inverse_temperatures)
    return replace(schedule, path=Path.powers(ladder), log_pseudo_prior=log_z[0] - log_z)


def put_on_nearest(chains: list[Chain], old: Ladder, new: Ladder) -> None:
    """Put chains on the rungs of a new ladder that are nearest to where they were on the old one."""
    if new is old:
        return
    for chain in chains:
        chain.walk[0] = int(np.argmin(np.abs(new.inverse_temperatures - old[int(chain.walk[0])])))
