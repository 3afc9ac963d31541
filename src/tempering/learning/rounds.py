"""Rounds of doubling length: run with everything frozen, then replace the settings by better ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.engines.trace import QUANTUM, Engine, Places, Schedule, Trace
from tempering.errors import EstimatorError, TargetError
from tempering.estimators.combine import weigh_rungs
from tempering.estimators.regeneration import round_trips
from tempering.estimators.rung_draws import RungDraws
from tempering.learning import kernel_settings
from tempering.learning.density_of_states import DRAWS_KEPT, Energies
from tempering.learning.ladder_choice import aimed_occupancy, choose_ladder
from tempering.learning.pseudo_prior import Seen, from_mean_energies, log_conditional_occupancy, method_named
from tempering.learning.reference.modes import Mode
from tempering.learning.settling import has_settled
from tempering.path import Ladder, Path
from tempering.target import NOT_INTEGRABLE

SHARE_OF_START = 0.3  # of the budget, for the fixed-rung runs
SHARE_OF_SHORT = 0.4  # of what is left, for short rounds that bring the pseudo-prior near
SHARE_OF_COOLING = 0.1  # of the budget of chains that are cooled in the end
LEAST_STAY = 8  # iterations on a rung on the way down or up
N_ROUNDS = 4
RULES_OF_A_LINE = ("cold_only", "ess_optimal", "mbar")
RUNAWAY = 1e8  # times the cold rung's spread: no power of a density that can be normalised is so wide


@dataclass(frozen=True)
class Round:
    """What one round showed, for the report."""

    n_iterations: int
    occupancy: Floats
    acceptance: Floats  # of the first simple kernel, by rung
    swap_acceptance: Floats  # of rung moves between i and i + 1
    n_round_trips: int
    barrier: float  # the sum of the rejections of rung moves
    ess_of_weights: dict[str, float]  # by rule


@dataclass(frozen=True)
class Tuned:
    """Where tuning ended: states to go on from, and what to run them with."""

    states: Any
    schedule: Schedule
    rounds: tuple[Round, ...]
    n_iterations: int
    kept: tuple[tuple[Trace, Schedule], ...] = ()  # the draws of the rounds, if they were asked for
    known: Energies | None = None  # the energies that the rounds, and what was known before, have shown
    n_invalid: int = 0
    share_of_search: float = 0.0  # of the evaluations: those that went into looking for modes
    modes: tuple[Mode, ...] = ()  # that were found
    in_equilibrium: Callable[[int], tuple[NDArray[np.int64], Places]] | None = None  # rungs and places of more chains


@dataclass(frozen=True)
class Tuner:
    """One tuning run: the engine, the simple kernels, how the pseudo-prior is learnt, and who is told."""

    engine: Engine
    leaves: Sequence[Any]
    pseudo_prior: str | None  # None: it is given, or the method needs none
    report: Callable[[int, str], None]  # (iterations done, a line or "")
    path_of: Callable[[Ladder], Path] = Path.powers
    is_powered: bool = True
    objective: str | None = None  # of the ladder; None: it is given, and stays
    keeps: bool = False  # the draws of the rounds
    aims: bool = False  # at visits by usefulness on a ladder that stays; one that is chosen has them anyway
    anneals: bool = False  # chains that start anywhere: from the hottest rung down first, and down to the target last

    def run(self, states: Any, schedule: Schedule, n_iterations: int, known: Energies | None = None) -> Tuned:
        """Tune for about ``n_iterations`` iterations of every chain; ``known`` are energies of a pilot run.

        A ladder that is ours to choose is tuned no longer once a round would change next to nothing.
        """
        budget = n_iterations // QUANTUM * QUANTUM
        if budget == 0:
            return Tuned(states, schedule, (), 0, known=known)
        spent = 0
        cooling = int(SHARE_OF_COOLING * budget) // len(schedule.path) if self.anneals and len(schedule.path) > 1 else 0
        if self.pseudo_prior is not None and known is None:
            start = self._start_annealed if self.anneals else self._start_cold_to_hot
            states, schedule, known, spent = start(states, schedule, budget)
            budget = max(budget - spent - cooling * len(schedule.path), QUANTUM)
        is_stepwise = self.pseudo_prior is not None and self.pseudo_prior != "mbar"
        short = int(SHARE_OF_SHORT * budget) // QUANTUM if is_stepwise else 0
        lengths = doubling_lengths(budget - short * QUANTUM)
        for number in range(short):
            states, trace = self.engine.run(states, schedule, QUANTUM)
            schedule = self._improved(schedule, trace, number, short + len(lengths), reshape=number % 8 == 7)
            self.report(QUANTUM, "")
        rounds: list[Round] = []
        kept: list[tuple[Trace, Schedule]] = []
        aim: Floats | None = None
        for number, length in enumerate(lengths):
            before, aim_before = schedule, aim
            states, trace = self.engine.run(states, schedule, length)
            schedule = self._improved(schedule, trace, short + number, short + len(lengths))
            rounds.append(describe(trace, before))
            if self.keeps:
                kept.append((trace, before))
            if known is not None:
                energy = before.path.energy(trace.terms)
                known = known.with_newer(Energies.of_trace(energy, trace.rung, before.ladder))
                schedule, aim = self._relearnt(schedule, known)
            if schedule.path is not before.path:
                states = self.engine.on_rung(states, _nearest(before.ladder, schedule.ladder, trace.rung[:, -1]))
            self.report(length, line_of(rounds[-1], number))
            if aim_before is not None and has_settled(
                rounds[-1].occupancy, aim_before, rounds[-1].n_round_trips, before, schedule
            ):
                break
        used = short * QUANTUM + sum(done.n_iterations for done in rounds)
        self.report(budget - used, "")  # not needed
        if cooling:
            states = self._cooled(states, schedule, cooling)
            used += cooling * len(schedule.path)
        return Tuned(states, schedule, tuple(rounds), spent + used, tuple(kept), known)

    def _start_cold_to_hot(self, states: Any, schedule: Schedule, budget: int) -> tuple[Any, Schedule, Energies, int]:
        """Run every rung by itself, each from where the colder one ended; integrate the mean energies.

        The trapezium rule is a start; the energies are kept for what is learnt from the rounds.
        """
        m = len(schedule.ladder)
        n_blocks = max(1, int(SHARE_OF_START * budget / m / QUANTUM))
        mean_energy = np.zeros(m)
        kept: list[Floats] = []
        used = 0
        for rung in range(m):
            states = self.engine.on_rung(states, rung)
            blocks = n_blocks if rung else n_blocks + 4
            for block in range(blocks):
                states, trace = self.engine.run(states, schedule, QUANTUM, moving=False)
                schedule = self._rescaled(schedule, trace, gain=1.0 / (1 + block // 2), spread_from=rung)
                self._check_spread(trace, schedule)
            energy = schedule.path.energy(trace.terms[:, QUANTUM // 4 :])
            mean_energy[rung] = np.mean(energy[energy > -np.inf]) if np.any(energy > -np.inf) else 0.0
            kept.append(energy)
            used += blocks * QUANTUM
            self.report(blocks * QUANTUM, "")
        log_p = from_mean_energies(schedule.ladder, mean_energy)
        k = np.repeat(schedule.ladder.inverse_temperatures, [e.size for e in kept])
        known = Energies(k, np.concatenate([e.ravel() for e in kept]))
        schedule = replace(schedule, log_pseudo_prior=log_p)
        return states, self._relearnt(schedule, known)[0], known, used

    def _start_annealed(self, states: Any, schedule: Schedule, budget: int) -> tuple[Any, Schedule, Energies, int]:
        """Run every rung by itself, from the hottest down to the target and up again; keep the energies of both ways.

        Where a model changes abruptly along the ladder, chains that are heated and chains that are cooled differ.
        """
        m = len(schedule.ladder)
        each = max(LEAST_STAY, int(SHARE_OF_START * budget / (2 * m)))
        k, kept = [], []
        for rung in [*range(m - 1, -1, -1), *range(m)]:
            states, trace = self.engine.run(self.engine.on_rung(states, rung), schedule, each, moving=False)
            kept.append(schedule.path.energy(trace.terms[:, each // 4 :]).ravel())
            k.append(np.full(kept[-1].size, schedule.ladder[rung]))
        self.report(2 * m * each, "")
        known = Energies(np.concatenate(k), np.concatenate(kept))
        means = [np.mean(e[e > -np.inf]) if np.any(e > -np.inf) else 0.0 for e in kept]
        mean_energy = (np.array(means[m - 1 :: -1]) + np.array(means[m:])) / 2
        schedule = replace(schedule, log_pseudo_prior=from_mean_energies(schedule.ladder, mean_energy))
        return states, self._relearnt(schedule, known)[0], known, 2 * m * each

    def _cooled(self, states: Any, schedule: Schedule, each: int) -> Any:
        """Bring every chain to the target, rung by rung: in a short run one that began hot might never get there."""
        states, trace = self.engine.run(states, schedule, each)
        for highest in range(len(schedule.path) - 2, -1, -1):
            states = self.engine.on_rung(states, np.minimum(trace.rung[:, -1], highest))
            states, _ = self.engine.run(states, schedule, each, moving=False)
        self.report(each * len(schedule.path), "")
        return states

    def _improved(
        self, schedule: Schedule, trace: Trace, number: int, n_rounds: int, *, reshape: bool = True
    ) -> Schedule:
        seen = Seen(schedule.ladder, trace.rung, schedule.path.energy(trace.terms), number)
        schedule = self._rescaled(schedule, trace, gain=1.0 / (1 + number) ** 0.6)
        self._check_spread(trace, schedule)
        if schedule.settings and reshape:
            schedule = replace(schedule, settings=self._reshaped(schedule, trace, seen))
        if self.pseudo_prior is not None and self.pseudo_prior != "mbar":
            method = method_named(self.pseudo_prior, n_rounds)
            schedule = replace(schedule, log_pseudo_prior=method(schedule.log_pseudo_prior, seen))
        return schedule

    def _relearnt(self, schedule: Schedule, known: Energies) -> tuple[Schedule, Floats | None]:
        """Take the pseudo-prior, and the ladder where it is ours to choose, from the density of states.

        Return the occupancies aimed at too, relative to 1/m; None where all are to be alike.
        """
        if self.pseudo_prior != "mbar" and self.objective is None:
            return schedule, None
        try:
            states = known.density_of_states()
        except EstimatorError:  # rungs that do not overlap yet: keep what there is, the next round knows more
            return schedule, None
        old = schedule.ladder
        if self.objective is None:
            settings = kernel_settings.with_fresh(schedule.settings, states, old)
            aim = aimed_occupancy(states, old) if self.aims else np.ones(len(old))
            log_p = states.log_pseudo_prior(old) + np.log(aim / aim[0])
            return replace(schedule, log_pseudo_prior=log_p, settings=settings), None
        ladder = choose_ladder(states, old.hottest, self.objective)
        aim = aimed_occupancy(states, ladder)
        log_p = states.log_pseudo_prior(ladder) + np.log(aim / aim[0])
        carried = kernel_settings.carried_over(schedule.settings, old, ladder)
        settings = kernel_settings.with_fresh(carried, states, ladder)
        return Schedule(self.path_of(ladder), log_p, settings), aim

    def _rescaled(self, schedule: Schedule, trace: Trace, gain: float, spread_from: int | None = None) -> Schedule:
        if not schedule.settings:
            return schedule
        before = rung_before(trace) if spread_from is None else trace.rung
        mean, count = kernel_settings.acceptance_by_rung(trace, before, len(schedule.ladder))
        if spread_from is not None:  # hotter rungs, not yet run, start from what this one has learnt
            mean[spread_from:], count[spread_from:] = mean[spread_from], count[spread_from]
        return replace(schedule, settings=kernel_settings.rescaled(schedule.settings, self.leaves, mean, count, gain))

    def _reshaped(self, schedule: Schedule, trace: Trace, seen: Seen) -> Any:
        """Shapes of all rungs from all draws, weighted by each rung's conditional probability of the draw."""
        values = trace.values.reshape(-1, trace.values.shape[-1])
        energy = seen.energy.ravel()
        kept = np.flatnonzero(energy > -np.inf)
        kept = kept[:: max(1, len(kept) // kernel_settings.DRAWS_FOR_SHAPE)]
        occupied = -log_conditional_occupancy(schedule.log_pseudo_prior, seen)
        log_p = schedule.log_pseudo_prior + np.clip(occupied, -50, 50)
        log_joint = np.multiply.outer(schedule.ladder.inverse_temperatures, energy[kept]) + log_p[:, None]
        log_weights = log_joint - np.logaddexp.reduce(log_joint, axis=0)
        return kernel_settings.reshaped(schedule.settings, self.leaves, values[kept], log_weights)

    def _check_spread(self, trace: Trace, schedule: Schedule) -> None:
        if self.is_powered:
            check_spread(trace, schedule)


def check_spread(trace: Trace, schedule: Schedule) -> None:
    """Stop a chain that runs off to infinity on a hot rung."""
    if not schedule.settings:
        return
    cold = float(np.min(schedule.settings[0].scale))
    furthest = float(np.max(np.abs(trace.values)))
    if not np.isfinite(furthest) or furthest > RUNAWAY * max(cold, 1.0):
        rung = int(trace.rung.ravel()[np.argmax(np.max(np.abs(trace.values), axis=-1))])
        raise TargetError(
            f"Every rung must have a density that can be normalised, but on rung {rung}, k = "
            f"{schedule.ladder[rung]:.3g}, a chain has run off to {furthest:.1e}. {NOT_INTEGRABLE}"
        )


def _nearest(old: Ladder, new: Ladder, rung: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the rungs of the new ladder nearest to where chains were on the old one."""
    k = old.inverse_temperatures[rung]
    return np.asarray(np.argmin(np.abs(np.subtract.outer(k, new.inverse_temperatures)), axis=1))


def doubling_lengths(budget: int) -> list[int]:
    """Split a budget into rounds of doubling length, multiples of the quantum, the last taking what is left.

    Examples
    --------
    >>> doubling_lengths(3200)
    [192, 384, 768, 1856]
    """
    units = budget // QUANTUM
    if units <= 0:
        return []
    n = min(N_ROUNDS, int(np.log2(units + 1)))
    first = units // (2**n - 1)
    lengths = [first * 2**i for i in range(n)]
    lengths[-1] += units - sum(lengths)
    return [QUANTUM * length for length in lengths]


def rung_before(trace: Trace) -> NDArray[np.int32]:
    """Return the rung each move was made on; the first draw's is taken to be its own."""
    return np.concatenate([trace.rung[:, :1], trace.rung[:, :-1]], axis=1)


@on_one_blas_thread
def describe(trace: Trace, schedule: Schedule) -> Round:
    """Summarise a round."""
    m = len(schedule.path)
    visits = np.bincount(trace.rung.ravel(), minlength=m)
    acceptance, _ = kernel_settings.acceptance_by_rung(trace, rung_before(trace), m)
    accepted = swap_acceptance(trace, m)
    return Round(
        trace.rung.shape[1],
        visits / visits.sum(),
        acceptance[:, 0],
        accepted,
        round_trips(trace.rung, schedule.path.target, schedule.path.far_end)[0],
        float(np.sum(1.0 - accepted[~np.isnan(accepted)])),
        _ess_by_rule(trace, schedule.path),
    )


def _ess_by_rule(trace: Trace, path: Path) -> dict[str, float]:
    """Return the effective sample size of the weights of a round under the rules that the line names.

    That of many draws is worked out from some of them: a line is not worth what MBAR of all of them takes.
    """
    some = slice(None, None, max(1, trace.rung.size // DRAWS_KEPT))
    rung = trace.rung[:, some]
    try:
        draws = rung_draws_of(path, trace.terms[:, some], rung)
    except EstimatorError:  # energies that are no numbers
        return dict.fromkeys(RULES_OF_A_LINE, 0.0)
    found = {}
    for rule in RULES_OF_A_LINE:
        try:
            found[rule] = trace.rung.size / rung.size * float(weigh_rungs(draws, rule).ess)
        except EstimatorError:  # no draw that counts yet, or rungs that do not overlap
            found[rule] = 0.0
    return found


def swap_acceptance(trace: Trace, n_rungs: int) -> Floats:
    """Return the share of accepted rung moves between rungs i and i + 1; NaN where none was proposed."""
    before, after, proposed = trace.rung[:, :-1], trace.rung[:, 1:], trace.proposed[:, 1:]
    tried = proposed != before
    lower = np.minimum(before, proposed)[tried]
    n_tried = np.bincount(lower, minlength=n_rungs)[: n_rungs - 1]
    n_accepted = np.bincount(lower[(after == proposed)[tried]], minlength=n_rungs)[: n_rungs - 1]
    return np.where(n_tried > 0, n_accepted / np.maximum(n_tried, 1), np.nan)


def rung_draws_of(path: Path, terms: Floats, rung: NDArray[np.int32], **units: Any) -> RungDraws:
    """Return draws as the estimators see them: by one energy where the path has one leg, else by their terms."""
    if path.has_two_legs:
        return RungDraws.along(terms, path.coefficients, rung, path.target, **units)
    k = path.ladder.inverse_temperatures
    return RungDraws.of(None, rung, energy=path.energy(terms), inverse_temperatures=k, **units)


def line_of(done: Round, number: int) -> str:
    """Write one line about a round."""
    m = len(done.occupancy)
    accepted = done.acceptance[~np.isnan(done.acceptance)]
    swaps = done.swap_acceptance[~np.isnan(done.swap_acceptance)]
    parts = [f"round {number + 1}: {done.n_iterations} iterations, {m} rungs"]
    parts.append(f"occupancy x m {done.occupancy.min() * m:.2f} to {done.occupancy.max() * m:.2f}")
    if accepted.size:
        parts.append(f"acceptance min {accepted.min():.2f} mean {accepted.mean():.2f}")
    if swaps.size:
        parts.append(f"rung moves min {swaps.min():.2f} mean {swaps.mean():.2f}")
    parts.append(f"round trips {done.n_round_trips}, barrier {done.barrier:.1f}")
    parts.append("ESS " + ", ".join(f"{rule} {ess:.0f}" for rule, ess in done.ess_of_weights.items()))
    return ", ".join(parts)
