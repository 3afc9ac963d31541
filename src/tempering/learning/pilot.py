"""The pilot: settle at the target, then heat the chains step by step, by steps that the spread of the energy allows.

Every rung starts where the colder one ended. Heating ends at the base where there is one; a powered-up density is
heated until the communication barrier is as large as chains can cross often, or k is small, and the ladder then ends
at the coldest k at which chains mix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tempering.arrays import Floats
from tempering.engines.trace import QUANTUM, Engine, Places, Schedule, Trace
from tempering.errors import TargetError
from tempering.kernels.settings import Settings
from tempering.learning import kernel_settings
from tempering.learning.density_of_states import Energies
from tempering.learning.kernel_settings import carried_over
from tempering.path import Ladder, Path
from tempering.target import NOT_INTEGRABLE

REJECTION_PER_STEP = 0.5  # of a rung move between neighbouring pilot rungs, predicted from the energy's spread
LEAST_K = 0.01  # how far a powered-up density is heated, unless chains turn out to be trapped there
LARGEST_BARRIER = 3.0  # and the barrier from which the round trips of a default run become too few
MIXED = 1.2  # of `spread_ratio`: an autocorrelation time below a sixth of the test
COLDEST_END = 1 / 16  # of a ladder whose hotter rungs can be crossed: chains that mix in one mode may not know another
# Below it the next step is the base itself, once that is what sets the spread of the energy: k times it falls then. A
# base that is wide where the energy falls as the fourth power of a distance has energies of minus a million.
LEAST_K_WITH_BASE, NEAR_BASE = 2.0**-10, 0.1
SMALLEST_K = 2.0**-40
MOST_PILOT_RUNGS = 200
FEW_CHAINS = 8  # need a whole block for a mean energy; more of them a part of it, a quarter at the least
PARTS = 4  # of a block, at the most; of a short one always, for every call of it is dear
LEAST_BLOCKS_COLD, MOST_BLOCKS_COLD = 4, 24  # for the cold rung, which starts anywhere, to settle
# Nats below another chain's, and one for each coordinate, at which the mass around a chain counts as none: its normal
# approximation from a block of draws may be wrong by that much.
LOST = 30.0
MOST_BLOCKS = 16  # for a rung that starts from its neighbour


@dataclass(frozen=True)
class PilotRung:
    """What was learnt at one inverse temperature."""

    k: float
    settings: tuple[Settings, ...]  # one row each
    energy: Floats
    trace: Trace

    @property
    def local_barrier(self) -> float:
        """Half the mean absolute deviation of the energy (`DensityOfStates.local_barrier`), of the median chain.

        Chains that started far away may be trapped at summits with no mass: the distance to them is no spread of the
        energy, and would make the steps to hotter rungs tiny.
        """
        energy = np.sort(np.atleast_2d(self.energy), axis=1)
        energy = energy[energy[:, -1] > -np.inf]
        if not energy.size:
            return 0.0
        known = energy > -np.inf
        n, last = known.sum(axis=1), energy.shape[1] - 1  # those below the rest are -inf
        rows = np.arange(len(energy))
        medians = (energy[rows, last - n // 2] + energy[rows, last - (n - 1) // 2]) / 2
        deviations = np.abs(energy - np.median(medians), where=known, out=np.zeros_like(energy))
        return float(0.5 * np.median(deviations.sum(axis=1) / n))


@dataclass(frozen=True)
class Pilot:
    """Where the pilot ended: rungs cold to hot, and the states of the chains."""

    rungs: tuple[PilotRung, ...]
    states: Any
    n_iterations: int

    @property
    def ladder(self) -> Ladder:
        """The inverse temperatures that were run."""
        return Ladder([rung.k for rung in self.rungs])

    @property
    def energies(self) -> Energies:
        """The energies of all rungs."""
        k = np.repeat([rung.k for rung in self.rungs], [rung.energy.size for rung in self.rungs])
        return Energies(k, np.concatenate([rung.energy.ravel() for rung in self.rungs]))

    @property
    def settings(self) -> tuple[Settings, ...]:
        """The settings of all rungs, one row each."""
        rows = (rung.settings for rung in self.rungs)
        return tuple(
            Settings(*(np.concatenate(parts) for parts in zip(*setting, strict=True)))
            for setting in zip(*rows, strict=True)
        )

    def settings_for(self, ladder: Ladder) -> tuple[Settings, ...]:
        """Carry the pilot's settings over to a ladder."""
        return carried_over(self.settings, self.ladder, ladder) if self.rungs[0].settings else ()


@dataclass
class Heating:
    """The pilot's one moving part: the chains, and the count of what they have done.

    ``path_of`` gives the path of a ladder; its first leg is the one that is heated along.
    """

    engine: Engine
    leaves: Sequence[Any]
    states: Any
    path_of: Callable[[Ladder], Path]
    report: Callable[[int, str], None]
    length: int = QUANTUM  # iterations of a block
    n_iterations: int = field(default=0)

    def path_to(self, k: float) -> Path:
        """Return the shortest path that has a rung at k: its last."""
        return self.path_of(Ladder([1.0]) if k == 1.0 else Ladder([1.0, k]))

    def block(self, path: Path, settings: tuple[Settings, ...], n: int) -> tuple[Trace, Floats]:
        """Run all chains at the end of a path's first leg; return their trace and energies."""
        m, rung = len(path), int(path.rungs_of(0)[-1])
        rows = tuple(Settings(*(np.repeat(a, m, axis=0) for a in s)) for s in settings)
        states = self.engine.on_rung(self.states, rung)
        self.states, trace = self.engine.run(states, Schedule(path, np.zeros(m), rows), n, moving=False)
        self.n_iterations += n
        self.report(n, "")
        return trace, path.energy(trace.terms)

    def settle(self, k: float, settings: tuple[Settings, ...], least: int, most: int) -> PilotRung:
        """Run at one k, tuning, until the mean energy turns: then its drift is down to its noise."""
        means: list[float] = []
        path = self.path_to(k)
        for block in range(most):
            trace, energy = self.block(path, settings, self.length)
            settings = self._tuned(settings, trace, gain=1.0 / (1 + block // 2))
            parts = PARTS if self.length < QUANTUM else min(max(len(energy) // FEW_CHAINS, 1), PARTS)
            means += [float(np.mean(_finite(part))) for part in np.array_split(energy, parts, axis=1)]
            has_turned = len(means) >= 4 and (means[-1] - means[-2]) * (means[1] - means[0]) <= 0
            if block + 1 >= least and has_turned and np.ptp(_finite(energy)) > 0:
                break
        return PilotRung(k, settings, energy, trace)

    def _tuned(self, settings: tuple[Settings, ...], trace: Trace, gain: float) -> tuple[Settings, ...]:
        """Adapt one rung's scales to what a block showed."""
        if not settings:
            return settings
        mean, count = kernel_settings.acceptance_by_rung(trace, np.zeros_like(trace.rung), 1)
        return kernel_settings.rescaled(settings, self.leaves, mean, count, gain)


def settled(run: Heating, start: tuple[Settings, ...]) -> PilotRung:
    """Let the chains settle at the target."""
    return run.settle(1.0, start, LEAST_BLOCKS_COLD, MOST_BLOCKS_COLD)


def gathered(run: Heating, cold: PilotRung, rng: np.random.Generator) -> PilotRung:
    """Move the chains that are trapped at summits without mass to where others are, and settle again.

    What such chains see would poison all that is learnt: at hotter rungs their energies, hundreds of nats too low, are
    taken for the usual ones, and the constants of all rungs with them.
    """
    path = run.path_to(1.0)
    mass = log_masses(cold.trace.values, path.log_target(cold.trace.terms))
    lost = mass < np.max(mass) - LOST - cold.trace.values.shape[-1]
    if not np.any(lost):
        return cold
    source = np.arange(len(mass))
    source[lost] = rng.choice(source[~lost], np.sum(lost))
    places = Places(cold.trace.values[source, -1], cold.trace.terms[source, -1])
    run.states = run.engine.on_rung(run.states, int(path.rungs_of(0)[-1]), places.along(path))
    return run.settle(1.0, cold.settings, LEAST_BLOCKS_COLD, MOST_BLOCKS_COLD)


def log_masses(values: Floats, log_target: Floats) -> Floats:
    """Return the log mass around each chain, up to a constant: as of a normal distribution with its deviations.

    Parameters
    ----------
    values : ndarray, shape (chain, draw, coordinate)
    log_target : ndarray, shape (chain, draw)

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> width = np.array([1.0, 0.1])[:, np.newaxis]
    >>> x = width * rng.standard_normal((2, 1000))
    >>> mass = log_masses(x[..., np.newaxis], -0.5 * (x / width) ** 2 - np.log(width) - [[0.0], [3.0]])
    >>> (mass[1] - mass[0]).round(1)
    np.float64(-3.0)
    """
    spread = np.std(values, axis=1)
    moved = np.any(spread > 0, axis=1)
    usual = np.median(spread[moved], axis=0) if np.any(moved) else np.ones(values.shape[-1])
    spread = np.where(moved[:, np.newaxis], spread, usual)
    mass: Floats = np.mean(log_target, axis=1) + np.sum(np.log(np.maximum(spread, 1e-300)), axis=1)
    return mass


def heated(run: Heating, cold: PilotRung, *, has_base: bool, hottest: float | None = None) -> Pilot:
    """Heat step by step, to the ``hottest`` k where it is given, else to the base if there is one."""
    if not has_base:
        _check_varies(cold.energy)
    rungs = [cold]
    end = hottest if hottest is not None else 0.0 if has_base else LEAST_K
    barrier = 0.0
    while rungs[-1].k > end and len(rungs) < MOST_PILOT_RUNGS:
        last = rungs[-1]
        k = _next_k(last, end)
        barrier += (last.k - k) * last.local_barrier
        if not has_base and hottest is None and barrier > LARGEST_BARRIER:
            break
        stretch = np.sqrt(last.k / k) if k > 0 else 1.0
        settings = tuple(s._replace(scale=s.scale * stretch) for s in last.settings)
        rungs.append(run.settle(k, settings, 1, MOST_BLOCKS))
        _check_finite_spread(rungs[-1], rungs[0], has_base)
    return Pilot(tuple(rungs), run.states, run.n_iterations)


def coldest_that_mixes(run: Heating, pilot: Pilot) -> tuple[float, Pilot]:
    """Return where the ladder of a powered-up density may end, and the pilot after the test.

    Cool again, by halves of the temperature, as long as each chain sees in a short run what all of them see: hotter
    rungs would only be in the way. Chains that are trapped apart, or too slow to tell, end it where they are.
    """
    rungs = pilot.rungs
    if not rungs[0].settings:
        return rungs[-1].k, pilot
    length = QUANTUM * max(2, rungs[0].settings[0].centre.shape[1])
    mixing, tested = rungs[-1].k, rungs[-1].k / 2
    for rung in reversed(rungs):
        if rung.k < 1.9 * tested and rung.k < 1.0:
            continue
        tested = rung.k
        if rung.k > COLDEST_END:
            break
        trace, _ = run.block(run.path_to(rung.k), rung.settings, length)
        if spread_ratio(trace.values) > MIXED:
            break
        mixing = rung.k
    return mixing, replace(pilot, states=run.states, n_iterations=run.n_iterations)


def spread_ratio(values: Floats) -> float:
    """Return the variance over all chains relative to that within a chain, worst coordinate first.

    For chains of L draws with autocorrelation time t it is about 1 / (1 - t / L); large where chains are trapped.

    Parameters
    ----------
    values : ndarray, shape (chain, draw, coordinate)
    """
    total = np.var(values, axis=(0, 1))
    within = np.mean(np.var(values, axis=1), axis=0)
    moving = total > 0
    return float(np.max(total[moving] / np.maximum(within[moving], 1e-300))) if np.any(moving) else 1.0


def _next_k(last: PilotRung, end: float) -> float:
    """Step so that a rung move would be rejected about half of the time, and at most halve k."""
    k = max(last.k - REJECTION_PER_STEP / max(last.local_barrier, 1e-12), last.k / 2)
    if end == 0.0:
        is_near = last.k * last.local_barrier < NEAR_BASE or k < SMALLEST_K
        return 0.0 if k < LEAST_K_WITH_BASE and is_near else k
    return k if k > end * 1.05 else end


def _finite(energy: Floats) -> Floats:
    kept = energy[energy > -np.inf]
    return kept if kept.size else np.zeros(1)


def _check_varies(energy: Floats) -> None:
    """Refuse a density that is the same everywhere: no power of it can be normalised, and none is any warmer."""
    if energy.size > 1 and np.all(energy == energy.flat[0]):
        raise TargetError(
            f"A log density must differ from place to place, but it was {energy.flat[0]:g} at all "
            f"{energy.size} positions tried. A constant cannot be normalised: check that it uses its argument."
        )


def _check_finite_spread(rung: PilotRung, cold: PilotRung, has_base: bool) -> None:
    """Stop a chain that runs off to infinity on a hot rung of a powered-up density."""
    if has_base or not cold.settings:
        return
    furthest = float(np.max(np.abs(rung.trace.values)))
    wide = 1e8 * max(float(cold.settings[0].scale[0]), 1.0)
    if not np.isfinite(furthest) or furthest > wide:
        raise TargetError(
            f"Every rung must have a density that can be normalised, but at k = {rung.k:.3g} a chain has run off to "
            f"{furthest:.1e}. {NOT_INTEGRABLE}"
        )
