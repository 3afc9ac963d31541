"""The loop of a run with two legs: run with everything frozen, learn from all rounds, run twice as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.engines.trace import QUANTUM, Engine, Places, Schedule, Trace
from tempering.errors import EstimatorError
from tempering.kernels.settings import Settings
from tempering.learning import kernel_settings
from tempering.learning.limits import (
    COLD_SHARE,
    DRAWS_OF_A_ROUND,
    DRAWS_OF_A_STAY,
    FIRST_ROUND,
    GAIN,
    LEAST_BLOCK,
    LEAST_ROUNDS,
    SAFE_FREEDOM,
    SAFE_REACH_OF_A_MODE,
    SETTLING,
    STAYING,
    WARM_SHARE,
    WARMER,
    WORTH_OF_A_COORDINATE,
)
from tempering.learning.pilot import Heating, Pilot, gathered, heated, settled
from tempering.learning.pool import Known, Pool, Stage
from tempering.learning.price import Price
from tempering.learning.reference.learnt import learnt_in_a_subspace, learnt_reference
from tempering.learning.reference.modes import Mode, find_modes
from tempering.learning.reference.overlooked import Scouts, striking
from tempering.learning.reference.search import FAR_DRAWS, FIRST_FREEDOM, LOOKING, SEARCH_FREEDOM, scouted
from tempering.learning.reference.spanned import DENSE_UP_TO, Spanned, around_summit, one_around, with_broad
from tempering.learning.reference.surface import Surface, TooManyCalls
from tempering.learning.rounds import Round, Tuned, describe, line_of, rung_before
from tempering.learning.two_legs import (
    SAFE,
    Frame,
    carried_over,
    next_schedule,
    reshaped,
    safe_end_around,
)
from tempering.path import Ladder, Path
from tempering.path.factored import AnyReference
from tempering.path.reference import Reference

Floats = NDArray[np.float64]
Report = Callable[[int, str], None]

NEVER = 1 << 30  # iterations between two local moves, where there are to be none


@dataclass(frozen=True)
class Belief:
    """What is known of the target: the mixture of all that was found, and the summits that were climbed to."""

    quick_end: AnyReference
    safe_end: Reference
    modes: tuple[Mode, ...] = ()
    n_searched: int = 0  # evaluations that the search for them has taken
    has_safe_leg: bool = True  # the path to it
    spanned: Spanned | None = None  # the mixture, where it is of as many numbers as there are draws


@dataclass(frozen=True)
class Begun:
    """What is known before the first round, and where the chains are."""

    stage: Stage
    schedule: Schedule
    belief: Belief
    states: Any
    n_iterations: int = 0


@dataclass(frozen=True)
class Learnt:
    """What has been learnt so far, and where the chains are."""

    pool: Pool
    belief: Belief
    schedule: Schedule
    known: Known
    states: Any


@dataclass(frozen=True)
class Learner:
    """What the loop is made of: an engine of simulated tempering, the simple kernels, and how to look for modes."""

    engine: Engine
    leaves: Sequence[Any]
    frame: Frame
    log_density: Callable[[Any], Any]  # of the target, at flat vectors
    objective: str
    rng: np.random.Generator
    report: Report
    price: Price
    keeps: bool = False  # the draws of the rounds
    modes: tuple[Mode, ...] = ()  # that are known before
    to_draw: Callable[[Trace, Schedule], float] | None = None  # iterations, as far as a round and its schedule tell
    has_one_summit: bool = False  # for sure: no other is looked for
    needs_safe_leg: bool = True
    may_be_product: bool = False  # the quick end

    def run(self, start: Floats, settings: tuple[Settings, ...], n_iterations: int) -> Tuned:
        """Tune for about ``n_iterations`` iterations of every chain, and up to as many again while it pays.

        It does while chains are stuck, and while modes are still being found. No round is longer than what is to be
        drawn: it could not save what it takes.
        """
        begun = None if self.needs_safe_leg else self._at_the_summit(start, settings, n_iterations)
        if begun is None:
            begun = self._pilot(start, settings, self.price.block(n_iterations))
        calls = total = self.price.calls(begun.n_iterations, begun.schedule.local_every)
        now = self._learn(Pool(begun.stage), begun.belief, begun.schedule, begun.states, calls)
        spent, length = begun.n_iterations, _rounded(FIRST_ROUND * n_iterations)
        rounds: list[Round] = []
        kept: list[tuple[Trace, Schedule]] = []
        while True:
            ran = now.schedule
            states, trace = self.engine.run(self._spread(now), ran, length)
            rounds.append(describe(trace, ran))
            self.report(length, line_of(rounds[-1], len(rounds) - 1))
            spent += length
            if self.keeps:
                kept.append((trace, ran))
            calls = self.price.calls(length, ran.local_every)
            total += (1.0 + STAYING) * calls
            states, stay = self._stay(replace(now, states=states), STAYING * calls)
            pool = now.pool.with_round(Stage.of(trace, now.schedule), stay)
            n_modes, scouts = len(now.belief.modes), self._striking(trace, now.schedule.path)
            now = self._learn(pool, now.belief, self._rescaled(now.schedule, trace), states, calls, scouts)
            length *= 2
            finds = len(now.belief.modes) > n_modes and spent < 2 * n_iterations
            if finds or len(rounds) < LEAST_ROUNDS:
                continue
            must_go_round = now.belief.has_safe_leg and self._is_stuck(rounds[-1], spent, n_iterations)
            if spent + length > n_iterations and not must_go_round:
                break
            if self.to_draw is not None and self.to_draw(trace, ran) < length:
                break
        states, _ = self.engine.run(self._at_both_ends(now), now.schedule, SETTLING)
        searched = now.belief.n_searched
        share = searched / (searched + total * self.engine.n_chains)
        self.report(0, f"looking for modes took {share:.0%} of the evaluations")
        return Tuned(
            states,
            now.schedule,
            tuple(rounds),
            spent + SETTLING,
            tuple(kept),
            share_of_search=share,
            modes=now.belief.modes,
            in_equilibrium=partial(self._in_equilibrium, now),
        )

    def _is_stuck(self, last: Round, spent: int, n_iterations: int) -> bool:
        """Whether chains came round too seldom, and there is something left of as much time again."""
        return last.n_round_trips < self.price.enough_trips(n_iterations) and spent < 2 * n_iterations

    def _striking(self, trace: Trace, path: Path) -> Scouts:
        """Return the draws of a round that are highest above its mixture."""
        terms = trace.terms.reshape(-1, trace.terms.shape[-1])
        return striking(trace.values.reshape(len(terms), -1), path.log_target(terms), terms[:, -1])

    def _spread(self, now: Learnt) -> Any:
        """Spread the chains over all rungs, each at a place drawn by its weight there: every round sees every rung."""
        n = self.engine.n_chains
        return self._put(now, (np.arange(n) * len(now.schedule.path) // n).astype(np.int64))

    def _in_equilibrium(self, now: Learnt, n: int) -> tuple[NDArray[np.int64], Places]:
        """Draw rungs and places of ``n`` chains from what all rounds know of the joint law of both."""
        path = now.schedule.path
        log_share = now.known.log_normalisers(path) + now.schedule.log_pseudo_prior
        share = np.exp(log_share - log_share.max())
        rung = np.searchsorted(np.cumsum(share) / share.sum(), (np.arange(n) + self.rng.random()) / n)
        rung = self.rng.permutation(np.minimum(rung, len(path) - 1))
        return rung, now.known.places_on(path, rung, self.rng).along(path)

    def _at_both_ends(self, now: Learnt) -> Any:
        """Put the chains on both ends in turn, where they are drawn afresh if they can be, else by their weight."""
        path = now.schedule.path
        ends = path.ends if len(path.ends) == 2 else (0, len(path) - 1)
        return self._put(now, np.array([ends[i % 2] for i in range(self.engine.n_chains)]))

    def _stay(self, now: Learnt, calls: float) -> tuple[Any, Stage]:
        """Move at the target by local moves alone: half of the chains from where the mixture is lowest under it.

        Fresh draws of a mixture lead to where it has mass, and end a way into a place that it does not know; local
        moves that nothing interrupts get there, from its edge. They are learnt from, and are no draws of the run. Those
        from the edge count as what it has of the target, besides: it may be a trap without mass.
        """
        schedule, n = now.schedule, self.engine.n_chains
        path = schedule.path
        rung = np.full(n, path.target)
        begun = now.known.places_on(path, rung, self.rng)
        edge, share = now.known.edge_of_the_mixture(n - n // 2, self.rng)
        begun = Places(*(np.concatenate([a, b[: n // 2]]) for a, b in zip(edge, begun, strict=True)))
        still = replace(schedule, path=path.without_draws(), local_every=1)
        states = self.engine.on_rung(now.states, rung, begun.along(path))
        length = max(LEAST_BLOCK, round(calls / self.price.calls(1)))
        states, trace = self.engine.run(states, still, length, moving=False)
        counts = np.where(np.arange(n) < len(edge.values), max(share, 1.0 / len(now.known.values)), 1.0)
        return states, Stage.of(trace, schedule, DRAWS_OF_A_STAY, counts)

    def _put(self, now: Learnt, rung: NDArray[np.int64]) -> Any:
        path = now.schedule.path
        return self.engine.on_rung(now.states, rung, now.known.places_on(path, rung, self.rng).along(path))

    @on_one_blas_thread
    def _at_the_summit(self, start: Floats, settings: tuple[Settings, ...], n_iterations: int) -> Begun | None:
        """Climb to the one summit there is; None where draws of its normal approximation are worth too little.

        Nothing is heated then, and the path has no safe leg: there is no mode that it could lead to. In many dimensions
        such draws are worth nothing, though local moves from them settle at once: those are learnt from.
        """
        d = len(start)
        surface = Surface(self.log_density, d)
        if not (modes := find_modes(surface, [start])):
            return None
        quick = around_summit(modes[0])
        belief = Belief(quick, safe_end_around(quick), modes, surface.n_calls, has_safe_leg=False)
        path = self.frame.path(Ladder([1.0]), Ladder([1.0, 0.0]), self.frame.references(belief.safe_end, quick))
        rows = kernel_settings.shaped(settings, self.leaves, modes[0].position, modes[0].factor, len(path))
        schedule = Schedule(path, np.zeros(len(path)), rows, local_every=NEVER)
        states = self.engine.on_rung(self.engine.start(path), 0)
        states, trace = self.engine.run(states, schedule, QUANTUM, moving=False)
        terms = trace.terms.reshape(trace.rung.size, -1)
        log_w = path.log_target(terms) - terms[:, -1]
        log_total = float(logsumexp(log_w))
        if log_total > -np.inf and 2 * log_total - logsumexp(2 * log_w) >= np.log(WORTH_OF_A_COORDINATE * d):
            stage = Stage.of_known(trace, path, np.array([0.0, log_total - np.log(log_w.size)]))
            return Begun(stage, replace(schedule, local_every=1), belief, states)
        if d <= DENSE_UP_TO:
            return None
        return self._settled_from(Begun(Stage.of(trace, schedule), schedule, belief, states), n_iterations)

    def _settled_from(self, begun: Begun, n_iterations: int) -> Begun:
        """Move from draws of the quick end by local moves at the target, and learn from where these settle."""
        path = begun.schedule.path
        alone = self.frame.path(Ladder([1.0]), Ladder([1.0]), path.references)
        run = Heating(
            self.engine, self.leaves, begun.states, lambda _: alone, self.report, self.price.block(n_iterations)
        )
        cold = settled(run, tuple(Settings(*(part[-1:] for part in s)) for s in begun.schedule.settings))
        trace, _ = run.block(alone, cold.settings, _rounded(FIRST_ROUND * n_iterations))
        d = trace.values.shape[-1]
        values = np.concatenate([begun.stage.values, trace.values.reshape(-1, d)])
        terms = np.concatenate([begun.stage.terms, trace.terms.reshape(trace.rung.size, -1)])
        rung = np.repeat([0, path.target], [len(begun.stage.rung), trace.rung.size])
        rows = tuple(Settings(*(np.repeat(part, len(path), axis=0) for part in s)) for s in cold.settings)
        schedule = replace(begun.schedule, settings=rows, local_every=1)
        return Begun(Stage.unweighted(path, values, terms, rung), schedule, begun.belief, run.states, run.n_iterations)

    def _pilot(self, start: Floats, settings: tuple[Settings, ...], length: int) -> Begun:
        """Settle at the target, put the safe end around what is seen there, and heat to it."""
        d = len(start)
        first = one_around(start, np.ones(d), 1)
        belief = Belief(first, first)

        def path_of(ladder: Ladder) -> Path:
            return self.frame.path(ladder, Ladder([1.0]), self.frame.references(belief.safe_end, belief.quick_end))

        states = self.engine.start(path_of(Ladder([1.0])))
        run = Heating(self.engine, self.leaves, states, path_of, self.report, length)
        cold = gathered(run, settled(run, settings), self.rng)
        values = cold.trace.values.reshape(-1, d)
        centre = values.mean(axis=0)
        spread = np.maximum(values.std(axis=0, ddof=1), 1e-6 * (1.0 + np.abs(centre)))
        safe_end = one_around(centre, SAFE_REACH_OF_A_MODE * spread, SAFE_FREEDOM)
        belief = Belief(with_broad(one_around(centre, spread, FIRST_FREEDOM)), safe_end, self.modes)
        last = Places(cold.trace.values[:, -1], cold.trace.terms[:, -1])
        run.states = self.engine.on_rung(run.states, 0, last.along(path_of(Ladder([1.0]))))
        pilot = heated(run, cold, has_base=True)
        path = path_of(pilot.ladder)
        schedule = Schedule(path, np.zeros(len(path)), pilot.settings)
        return Begun(_stage_of(pilot, path), schedule, belief, pilot.states, pilot.n_iterations)

    @on_one_blas_thread
    def _learn(
        self, pool: Pool, belief: Belief, before: Schedule, states: Any, calls: float, scouts: Scouts | None = None
    ) -> Learnt:
        """Learn the mixture, the safe end, both ladders, the pseudo-prior and the shapes of moves from all rounds.

        The last round has made so many ``calls`` of the density in each chain.
        """
        try:
            belief = self._believed(pool, belief, calls, scouts)
            references = self.frame.references(belief.safe_end, belief.quick_end)
            ends = self.frame.path(Ladder([1.0, 0.0]), Ladder([1.0, 0.0]), references)
            states, stage = self._draws_of_the_mixture(pool, ends, before, states)
            unseen = None if belief.spanned is None else belief.spanned.log_density_unseen
            fitted, pool = pool, pool.with_end(stage)
            known = pool.along(ends)
            schedule = next_schedule(
                known if unseen is None else _as_if_unseen(known, fitted, unseen), self.frame, before, self.objective,
                "simulated", self.price.calls_of_a_move, has_safe_leg=belief.has_safe_leg,
            )  # fmt: skip
            return Learnt(pool, belief, reshaped(schedule, self.leaves, known), known, states)
        except EstimatorError:  # rounds that do not overlap: keep what there is, the next one knows more
            return Learnt(pool, belief, before, pool.along(before.path), states)

    def _draws_of_the_mixture(self, pool: Pool, path: Path, before: Schedule, states: Any) -> tuple[Any, Stage]:
        """Draw from a new mixture: its ladder is chosen by where its own mass is, not only where chains have been.

        It has the normaliser of the last one. What earlier draws say of it may be far off: some lie where chains were
        before they had settled, which a new component may cover.
        """
        known, rung = pool.along(path), np.zeros(self.engine.n_chains, dtype=np.int64)
        settings = carried_over(before.settings, before.path, path)
        schedule = Schedule(path, np.zeros(len(path)), settings, local_every=NEVER)
        states = self.engine.on_rung(states, rung, known.places_on(path, rung, self.rng).along(path))
        states, trace = self.engine.run(states, schedule, QUANTUM, moving=False)
        log_z = known.log_normalisers(path)
        if pool.ends:
            log_z[0] = log_z[path.target] + pool.settled.ends[-1].log_normalisers[0]
        return states, Stage.of_known(trace, path, log_z)

    def _believed(self, pool: Pool, belief: Belief, calls: float, scouts: Scouts | None) -> Belief:
        """Look for modes from where chains have been, and fit the mixture to all draws and modes."""
        references = self.frame.references(belief.safe_end, belief.quick_end)
        known = pool.along(self.frame.path(Ladder([1.0, 0.0]), Ladder([1.0, 0.0]), references))
        path = known.path
        log_target = path.log_target(known.terms)
        most = self.price.most_searched(calls * self.engine.n_chains)
        surface = Surface(self.log_density, known.values.shape[1], most_calls=most)
        places = (known.values, log_target)
        if scouts is not None:
            places = (np.concatenate([places[0], scouts[0]]), np.concatenate([places[1], scouts[1]]))
        modes = self._modes(surface, *places, belief)
        log_z = known.log_normalisers(path)  # quick end, target, safe end
        log_normaliser = log_z[path.target] - log_z[0 if pool.ends else -1]
        away = WARMER / np.sqrt(known.values.shape[1])
        warm, cold = (k * path.target_coefficients + (1.0 - k) * path.legs[SAFE].end for k in (1.0 - away, 1.0 + away))
        order = pool.by_halves_of_chains
        log_w = known.log_weights_to_mixture(
            [path.target_coefficients, warm, cold], [1.0 - WARM_SHARE - COLD_SHARE, WARM_SHARE, COLD_SHARE]
        )
        values, log_w, log_z_target = known.values[order], log_w[order], float(log_normaliser)
        quick: AnyReference
        spanned = None
        if known.values.shape[1] > DENSE_UP_TO:
            quick, spanned = learnt_in_a_subspace(
                values, log_w, belief.quick_end.mixture, modes, log_z_target, self.rng
            )
        else:
            quick = learnt_reference(
                values, log_w, belief.quick_end, modes, log_z_target, self.rng, may_be_product=self.may_be_product
            )
        return replace(
            belief, quick_end=quick, safe_end=safe_end_around(quick), modes=modes, spanned=spanned,
            n_searched=belief.n_searched + surface.n_calls,
        )  # fmt: skip

    def _modes(self, surface: Surface, values: Floats, heights: Floats, belief: Belief) -> tuple[Mode, ...]:
        """Climb from draws that no known mode explains, as long as there are calls to spend on it.

        Far draws are looked at too: in many dimensions the safe end, a prior as well, has mass far away, but hardly
        any in one direction.
        """
        modes = belief.modes
        if modes and self.has_one_summit:
            return modes
        if not self.has_one_summit:
            far = replace(belief.safe_end, degrees_of_freedom=np.array([SEARCH_FREEDOM]))
            places = far.sample_many(self.rng, surface.affordable(FAR_DRAWS, LOOKING))
            values = np.concatenate([values, places])
            heights = np.concatenate([heights, surface.values(places)])
        inside = heights > -np.inf
        places, heights = values[inside], heights[inside]
        if not len(places):
            return modes
        try:
            if not modes:
                modes = find_modes(surface, [places[np.argmax(heights)]])
            if self.has_one_summit:
                return modes
            return scouted(surface, modes, None, (places, heights), self.rng) if modes else ()
        except TooManyCalls:  # a surface too rough to climb
            return modes

    def _rescaled(self, schedule: Schedule, trace: Trace) -> Schedule:
        if not schedule.settings:
            return schedule
        mean, count = kernel_settings.acceptance_by_rung(trace, rung_before(trace), len(schedule.path))
        return replace(schedule, settings=kernel_settings.rescaled(schedule.settings, self.leaves, mean, count, GAIN))


def _as_if_unseen(known: Known, fitted: Pool, log_density_unseen: Callable[[Floats], Floats]) -> Known:
    """Return what is known, with the log density of the mixture as it is of draws that it was not fitted to.

    Those that it was fitted to lie nearer to it: by seven nats of a log-Gaussian Cox process in 1,024 dimensions, and
    moves to it were then accepted a tenth as often as expected. Draws of the mixture itself come last, and are others.
    """
    order, terms = fitted.by_halves_of_chains, known.terms.copy()
    terms[order, -1] = log_density_unseen(known.values[order])
    return replace(known, terms=terms)


def _rounded(n: float) -> int:
    return max(1, round(n / QUANTUM)) * QUANTUM


@on_one_blas_thread
def _stage_of(pilot: Pilot, path: Path) -> Stage:
    """Put the rungs of a pilot together, as if they were one round."""
    lengths = [rung.energy.size for rung in pilot.rungs]
    line = path.rungs_of(SAFE)
    values = np.concatenate([rung.trace.values.reshape(n, -1) for rung, n in zip(pilot.rungs, lengths, strict=True)])
    terms = np.concatenate([rung.trace.terms.reshape(n, -1) for rung, n in zip(pilot.rungs, lengths, strict=True)])
    terms = path.with_reference_terms(values, terms)
    rows = np.linspace(0, len(values) - 1, min(len(values), 2 * DRAWS_OF_A_ROUND)).astype(int)
    return Stage.unweighted(path, values[rows], terms[rows], np.repeat(line, lengths)[rows])
