"""A fit that survives a kill: its tuning is read from a journal, and its draws go on from the last chains kept."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from tempering.engines.trace import Schedule
from tempering.execution.context import Context
from tempering.execution.digest import digest
from tempering.execution.identity import described, versions
from tempering.execution.pace import Pace
from tempering.io.checkpoint import decoded, read_latest, write_latest
from tempering.io.encoding import encode
from tempering.models.treed_gp.driver import Trace
from tempering.models.treed_gp.engine import Chain, TreedGPEngine
from tempering.models.treed_gp.model import TreedGPModel


def identify(execution: Context, model: TreedGPModel, plan: Any, seed: int) -> None:
    """Refuse the checkpoint of another fit."""
    if execution.folder is None:
        return
    settings = ("leaf", "temper", "prior", "proposals")
    known = {"model": "TreedGP", "seed": str(seed)}
    known |= {name: digest(np.asarray(getattr(model, name))) for name in ("inputs", "response")}
    known |= {name: described(getattr(model, name)) for name in settings}
    known |= {field.name: described(getattr(plan, field.name)) for field in fields(plan)}
    execution.folder.identify(known | versions())


@dataclass(frozen=True)
class KeptEngine(TreedGPEngine):
    """Chains whose tuning is written down as it goes on, and read where it was done before a kill."""

    execution: Context | None = None
    pace: Pace = field(default_factory=Pace)

    def advance(self, chains: list[Chain], schedule: Schedule, n: int, *, moving: bool = True) -> list[Trace]:
        """Advance all chains by ``n`` rounds, or remember how they did."""
        assert self.execution is not None
        journal, interruption = self.execution.journal, self.execution.interruption
        if journal is None:
            return self._in_pieces(chains, schedule, n, moving=moving)
        call = digest(schedule.ladder.inverse_temperatures, schedule.log_pseudo_prior, n, moving)
        if journal.is_replaying:
            (traces, walks), states_after = journal.replay(call)
            for chain, walk in zip(chains, walks, strict=True):
                chain.walk[:] = walk
            put_back(chains, states_after)
            return list(traces)
        if interruption.requested or self.model.is_large:  # a call that is stopped half way leaves no state to write
            journal.write()
        traces = self._in_pieces(chains, schedule, n, moving=moving)
        walks = [chain.walk.copy() for chain in chains]  # chains may be put on other rungs before they are written

        def states() -> list[Chain]:
            return [replace(chain, walk=walk) for chain, walk in zip(chains, walks, strict=True)]

        journal.record(call, (traces, walks), states)
        return traces

    def _in_pieces(self, chains: list[Chain], schedule: Schedule, n: int, *, moving: bool) -> list[Trace]:
        """Advance all chains by ``n`` rounds, and stop between two pieces if asked to."""
        assert self.execution is not None
        parts: list[list[Trace]] = []
        left = n
        while left > 0 or not parts:
            self.execution.interruption.stop_tuning(self.execution.how_to_go_on)
            n = self.pace.next(left)
            with self.pace.measuring(max(n, 1)):
                parts.append(super().advance(chains, schedule, n, moving=moving))
            left -= n
        return joined(parts)


def joined(parts: list[list[Trace]]) -> list[Trace]:
    """Join the traces of every chain, one list of traces a piece."""
    if len(parts) == 1:
        return parts[0]
    return [Trace(*map(np.concatenate, zip(*of_chain, strict=True))) for of_chain in zip(*parts, strict=True)]


def put_back(chains: list[Chain], states: list[Chain] | None) -> None:
    """Let chains go on from states that were kept."""
    for chain, state in zip(chains, states or (), strict=states is not None):
        chain.take(state)


def write_draws(execution: Context, chains: list[Chain], drawn: Any, n_done: int) -> None:
    """Write chains with their sums, and what is remembered of their draws."""
    if execution.folder is not None:
        write_latest(execution.folder, {"n_done": n_done}, [encode(chains), encode(drawn)])


def read_draws(execution: Context, chains: list[Chain]) -> Any:
    """Let chains go on from the last draws kept, and return what is remembered of them; None where there are none."""
    header, sections = (None, []) if execution.folder is None else read_latest(execution.folder.path)
    if header is None:
        return None
    assert execution.folder is not None
    execution.folder.seconds_before = header["seconds"]
    states, drawn = (decoded(execution.folder.path, section) for section in sections)
    put_back(chains, states)
    return drawn
