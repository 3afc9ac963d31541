"""Two legs to one target: from known draws to the next path, its ladders, its pseudo-prior and its moves.

The safe leg starts from a density that reaches everywhere, the quick leg from a mixture fitted to what is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.engines.trace import Schedule
from tempering.kernels.settings import Settings
from tempering.learning import kernel_settings
from tempering.learning.density_of_states import DensityOfStates
from tempering.learning.ladder_choice import choose_ladder, choose_quick_ladder, score_of
from tempering.learning.limits import (
    LEAST_SAFE,
    MOST_FRESH,
    MOST_SAFE,
    OCCUPANCIES,
    SAFE_FREEDOM,
    SAFE_REACH_OF_A_MODE,
    SAFE_REACH_OF_ALL,
)
from tempering.learning.pool import Known
from tempering.learning.reference.refit import factors_of
from tempering.learning.reference.spanned import one_around
from tempering.path import NO_SOURCE, Ladder, Leg, Path
from tempering.path.factored import AnyReference, Factored
from tempering.path.reference import Reference

SAFE, QUICK = 0, 1


@dataclass(frozen=True)
class Frame:
    """What all paths of two legs to one target have in common."""

    has_prior: bool  # then it is the safe end; else a Student distribution is
    can_draw: bool  # from the prior

    @property
    def terms(self) -> tuple[str, str, str]:
        """Names of the terms."""
        safe = "log prior" if self.has_prior else "log safe end"
        return ("log likelihood" if self.has_prior else "log density"), safe, "log quick end"

    def path(self, safe: Ladder, quick: Ladder, references: tuple[AnyReference, ...]) -> Path:
        """Return the path with these ladders; references are the mixtures among the terms, the quick end's last."""
        source = 1 if self.can_draw or not self.has_prior else NO_SOURCE
        return Path(
            [1.0, 1.0, 0.0] if self.has_prior else [1.0, 0.0, 0.0],
            [
                Leg("safe", np.array([0.0, 1.0, 0.0]), safe, source),
                Leg("quick", np.array([0.0, 0.0, 1.0]), quick, 2),
            ],
            self.terms,
            references,
        )

    def example_path(self, start: Floats) -> Path:
        """Return a path with the terms of all others, for its shape."""
        dummy = one_around(start, np.ones(len(start)), 1)
        return self.path(Ladder([1.0]), Ladder([1.0]), self.references(dummy, dummy))

    def references(self, safe_end: Reference, quick_end: AnyReference) -> tuple[AnyReference, ...]:
        """Return the references of a path."""
        return (quick_end,) if self.has_prior else (safe_end, quick_end)


def safe_end_around(quick: AnyReference) -> Reference:
    """Return the safe end of a bare density around what the mixture of all that is known describes.

    It is a Student distribution that reaches far beyond that.
    """
    if isinstance(quick, Factored):
        middle, inside, whole = quick.widths()
        return one_around(
            middle, np.sqrt(SAFE_REACH_OF_A_MODE**2 * inside + SAFE_REACH_OF_ALL**2 * whole), SAFE_FREEDOM
        )
    weights = quick.weights[:-1] / quick.weights[:-1].sum()
    means, factors = quick.means[:-1], quick.factors[:-1]
    centre = means.mean(axis=0)  # every component counts the same: which of them are heavy may not be known yet
    spread = quick.degrees_of_freedom[:-1] / np.maximum(quick.degrees_of_freedom[:-1] - 2.0, 0.5)
    within = np.einsum("c,cij,ckj->ik", weights * np.minimum(spread, 3.0), factors, factors)
    between = (means - centre).T @ (means - centre) / len(means)
    scale = SAFE_REACH_OF_A_MODE**2 * within + SAFE_REACH_OF_ALL**2 * (within + between)
    factor = factors_of(scale[None], quick.n_across)
    return Reference([1.0], centre[None], factor, [SAFE_FREEDOM], quick.n_across, quick.subspace)


def next_schedule(
    known: Known,
    frame: Frame,
    before: Schedule,
    objective: str,
    method: str,
    calls_of_a_move: float = 0.0,
    *,
    has_safe_leg: bool = True,
) -> Schedule:
    """Choose both ladders for what they will do, and all that belongs to them.

    ``known`` is along a path with the references of the next round; its ladders do not matter. A local move takes as
    long as ``calls_of_a_move`` draws of a source. The root of so many are proposed for each, as strata of two prices
    are sampled, times the share of them that is accepted.
    """
    states = [known.density_of_states(leg) for leg in (SAFE, QUICK)]
    safe = choose_ladder(states[SAFE], 0.0 if has_safe_leg else 1.0, objective, method)
    quick = choose_quick_ladder(states[QUICK], objective, method)
    path = frame.path(safe, quick, known.path.references)
    log_z = known.log_normalisers(path)
    aim = aimed_visits(path, states, objective, method)
    log_p = np.log(aim) - log_z
    settings = carried_over(before.settings, before.path, path)
    accepted = acceptance_of_fresh(path, states, [known.share_inside(leg) for leg in (SAFE, QUICK)])
    fresh = np.minimum(np.sqrt(accepted), MOST_FRESH)
    settings = tuple(s._replace(fresh=fresh) for s in settings)
    local_every = 1 + int(aim @ accepted * np.sqrt(calls_of_a_move))
    return Schedule(path, log_p - log_p[path.target], settings, local_every)


def aimed_visits(path: Path, states: list[DensityOfStates], objective: str, method: str) -> Floats:
    """Return the share of the visits that each rung is to have: by usefulness, and the safe leg never too few.

    Within a leg as the root of what a draw is worth; between legs by what each brings per model call.
    """
    shares = np.zeros(len(path))
    scores = []
    for leg in (SAFE, QUICK):
        ladder = path.legs[leg].ladder
        useful = states[leg].ess_fraction(ladder.inverse_temperatures)
        aim = np.clip(np.sqrt(useful / np.mean(useful)), *OCCUPANCIES)
        rungs = path.rungs_of(leg)
        scores.append(max(score_of(states[leg], ladder, objective, method), 1e-12) if len(ladder) > 1 else 0.0)
        shares[rungs[1:]] = aim[1:] / max(aim[1:].sum(), 1e-300)
    others = 1.0 - 1.0 / len(path) * 1.5
    least = LEAST_SAFE / others if len(path.legs[SAFE].ladder) > 1 else 0.0
    safe = float(np.clip(scores[SAFE] / (scores[SAFE] + scores[QUICK]), least, MOST_SAFE))
    shares[path.rungs_of(SAFE)[1:]] *= safe * others
    shares[path.rungs_of(QUICK)[1:]] *= (1.0 - safe) * others
    shares[path.target] = 1.0 - others
    return np.asarray(shares / shares.sum())


def acceptance_of_fresh(path: Path, states: list[DensityOfStates], inside: list[float]) -> Floats:
    """Return the share of the draws of its source that each rung accepts.

    They are proposed by its root: where one in a hundred is accepted, every tenth proposal, for it may cross to a mode.
    """
    accepted = np.zeros(len(path))
    for leg in (SAFE, QUICK):
        if path.legs[leg].source != NO_SOURCE:
            accepted[path.rungs_of(leg)] = states[leg].acceptance_of_fresh(path.legs[leg].ladder) * inside[leg]
    return accepted


def carried_over(settings: tuple[Settings, ...], old: Path, new: Path) -> tuple[Settings, ...]:
    """Carry settings from one path to another, leg by leg; a leg that is new begins with those of the target."""
    parts = []
    for leg in (SAFE, QUICK):
        rungs = old.rungs_of(leg)
        rows = tuple(_rows_of(s, rungs) for s in settings)
        parts.append(kernel_settings.carried_over(rows, old.legs[leg].ladder, new.legs[leg].ladder))

    def on_line(safe: Any, quick: Any) -> Any:
        return None if safe is None else np.concatenate([quick[:0:-1], safe])

    return tuple(
        Settings(*(on_line(a, b) for a, b in zip(safe, quick, strict=True)))
        for safe, quick in zip(parts[SAFE], parts[QUICK], strict=True)
    )


def _rows_of(settings: Settings, rungs: Any) -> Settings:
    parts: Any = (None if part is None else part[rungs] for part in settings)
    return Settings(*parts)


def nearest_rungs(old: Path, new: Path, rung: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rungs of a new path nearest to where chains were on the old one: the same leg, the nearest k."""
    k = old.inverse_temperatures[rung]
    is_quick = rung < old.target
    found = np.empty(rung.shape, dtype=np.int64)
    for leg, mine in ((SAFE, ~is_quick), (QUICK, is_quick)):
        rungs = new.rungs_of(leg)
        gaps = np.abs(np.subtract.outer(k[mine], new.legs[leg].ladder.inverse_temperatures))
        found[mine] = rungs[np.argmin(gaps, axis=-1)]
    return found


def reshaped(schedule: Schedule, leaves: Any, known: Known) -> Schedule:
    """Learn the shapes of all rungs from all draws, weighted towards each."""
    if not schedule.settings:
        return schedule
    inside = np.flatnonzero(np.isfinite(known.log_mixture))
    rows = inside[:: max(1, len(inside) // kernel_settings.DRAWS_FOR_SHAPE)]
    some = replace(known, values=known.values[rows], terms=known.terms[rows], log_mixture=known.log_mixture[rows])
    log_weights = some.log_weights(schedule.path.coefficients)
    reached: Any = np.isfinite(log_weights).any(axis=1)
    log_weights[~reached] = log_weights[schedule.path.target] if reached[schedule.path.target] else 0.0
    return replace(schedule, settings=kernel_settings.reshaped(schedule.settings, leaves, some.values, log_weights))
