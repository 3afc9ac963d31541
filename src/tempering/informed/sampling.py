"""`sample_informed`: run informed chains or tempered Gibbs, alone or under a ladder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tempering.arrays import Floats
from tempering.errors import SamplerError, check_count
from tempering.informed.balancing import Balancing
from tempering.informed.mover import InformedMover, Mover, Point
from tempering.informed.neighbourhood import Neighbourhood
from tempering.informed.run import InformedRun
from tempering.path.ladder import Ladder
from tempering.randomness import accept, seed_of, stream
from tempering.rungs.simulated import move_lifted, move_to_neighbour
from tempering.sampling.options import Method, Tuning, refuse_moved

# Steps of the pseudo-prior's learning end near 1 / visits: Wang-Landau in its 1/t form (Belardinelli & Pereyra 2007)
FIRST_STEP = 1.0
JUMPS_OF_TUNING = 1_000  # of each chain
RungMove = Callable[..., tuple[int, int, int]]
RUNG_MOVES: dict[str, RungMove] = {"lifted": move_lifted, "neighbour": move_to_neighbour}

MOVED = {  # earlier arguments, and how they are written now
    "tries": "balancing=tempering.informed.Balancing('square_root', tries={!r})",
    "tune": "tuning=tp.Tuning({!r})",
    "log_pseudo_prior": "tuning=tp.Tuning(pseudo_prior={!r})",
    "rung_moves": "method=tp.Method('simulated', rung_moves={!r})",
}


class InformedDraw(NamedTuple):
    """One recorded state."""

    value: Any
    rung: int
    energy: float
    log_totals: Floats


def sample_informed(
    model: Neighbourhood | Mover,
    *,
    ladder: Ladder | Sequence[float] | float | None = None,
    method: str | Method = "simulated",
    balancing: str | Balancing = "square_root",
    draws: int = 10_000,
    chains: int = 2,
    tuning: Tuning = Tuning(),
    rng: np.random.Generator | int | None = None,
    **moved: Any,
) -> InformedRun:
    """Sample a discrete space without rejections.

    Parameters
    ----------
    model : Neighbourhood, or a mover such as TemperedGibbs
        A mover brings its own inverse temperatures.
    ladder : Ladder, sequence of float, float or None
        None is k = 1 alone. A single number below 1 is the tempered form: one chain at pi^k, weighted back.
    method : {"simulated", "parallel"} or Method
        `tempering.Method` also says by which moves simulated tempering changes rungs.
    balancing : str or Balancing
        One of `tempering.informed.BALANCING`; `tempering.informed.Balancing` also says how many neighbours to look at.
    draws, chains : int
        Jumps of each chain that are kept, and the number of chains (of ensembles under "parallel").
    tuning : Tuning
        How many jumps of each chain are spent on learning the pseudo-prior, 1,000 by default, or its logs.
    rng : Generator, int or None
    **moved
        Earlier spellings: each raises an error that names the new one.

    Returns
    -------
    InformedRun

    Examples
    --------
    A walk on a ring of five states:

    >>> class Ring:
    ...     log_density = np.log([1.0, 2.0, 3.0, 4.0, 10.0])
    ...     def initial(self, rng): return 0
    ...     def terms(self, x): return self.log_density[x], 0.0
    ...     def neighbours(self, x):
    ...         there = self.log_density[[(x + 1) % 5, (x - 1) % 5]]
    ...         return Moves(there - self.log_density[x], np.zeros(2))
    ...     def move(self, x, index): return (x + 1 - 2 * index) % 5
    ...     def record(self, x): return x
    >>> from tempering.informed import Moves
    >>> run = sample_informed(Ring(), draws=4000, rng=1)
    >>> estimate = run.expect(lambda x: x == 4)
    >>> bool(abs(estimate.value - 0.5) < 4 * estimate.standard_error)
    True
    """
    refuse_moved(moved, "sample_informed", MOVED)
    for name, value in (("draws", draws), ("chains", chains)):
        check_count(name, value, error=SamplerError)
    how = _method(method)
    by = balancing if isinstance(balancing, Balancing) else Balancing(balancing)
    mover: Mover = model if hasattr(model, "arrive") else _informed(model, ladder, by)  # type: ignore[assignment]
    k = np.array(mover.inverse_temperatures, dtype=np.float64)
    tune, given = _tuned(tuning, k.size)
    seed = seed_of(rng)
    if how.name == "parallel" and k.size > 1:
        ensembles = [_run_parallel(stream(seed, c), mover, k, tune, draws) for c in range(chains)]
        return _collect([chain for ensemble in ensembles for chain in ensemble], k, k.size)
    moves = RUNG_MOVES.get(how.rung_moves, move_lifted)  # of a single rung, whatever the method
    runs = [_run_simulated(stream(seed, c), mover, k, given, moves, tune, draws) for c in range(chains)]
    return _collect(runs, k, 1)


def _method(method: str | Method) -> Method:
    how = method if isinstance(method, Method) else Method(method)
    if how.name == "sequential" or (how.name == "parallel" and how.rung_moves != "non_reversible"):
        raise SamplerError(
            f"Informed chains run by method='simulated' or by method='parallel' with its usual moves, but got {how}."
        )
    return how


def _tuned(tuning: Tuning, n_rungs: int) -> tuple[int, Floats | None]:
    """Return the jumps of tuning, and the pseudo-prior if it is given."""
    if tuning.objective is not None or tuning.hottest is not None or isinstance(tuning.pseudo_prior, str):
        raise SamplerError(
            f"Informed chains tune the pseudo-prior of a given ladder, and in one way, but got {tuning}. Give "
            "iterations, or the logs of the pseudo-prior."
        )
    given = None if tuning.pseudo_prior is None else np.asarray(tuning.pseudo_prior, dtype=np.float64)
    if given is not None and given.size != n_rungs:
        raise SamplerError(
            f"pseudo_prior must hold one log value for each of the {n_rungs} rungs, but has {given.size}. Leave it out "
            "to have it learnt."
        )
    return JUMPS_OF_TUNING if tuning.iterations is None else tuning.iterations, given


def _informed(model: Any, ladder: Any, balancing: Balancing) -> InformedMover:
    missing = [name for name in ("initial", "terms", "neighbours", "move", "record") if not hasattr(model, name)]
    if missing:
        raise SamplerError(f"The model lacks the methods {', '.join(missing)}. See tempering.informed.Neighbourhood.")
    if ladder is None:
        k = np.ones(1)
    elif isinstance(ladder, Ladder):
        k = np.asarray(ladder.inverse_temperatures)
    elif np.ndim(ladder) == 0:
        if not (isinstance(ladder, int | float | np.number) and 0.0 < ladder <= 1.0):
            raise SamplerError(f"A single inverse temperature must lie in (0, 1], but got {ladder!r}. Pass 1 for none.")
        k = np.array([float(ladder)])
    else:
        k = np.asarray(Ladder(ladder).inverse_temperatures)
    return InformedMover(model, k, balancing.name, balancing.tries)


def _run_simulated(
    rng: np.random.Generator, mover: Mover, k: Floats, given: Floats | None, move_rung: RungMove, tune: int, draws: int
) -> list[InformedDraw]:
    walker = Jumper(mover.arrive(rng, mover.initial(rng)), 0, 1)
    log_p = np.zeros(k.size) if given is None else np.array(given)
    for t in range(tune):
        walker = step_simulated(rng, mover, walker, k, log_p, move_rung)
        if given is None:
            log_p[walker.rung] -= min(FIRST_STEP, k.size * 10.0 / (t + 1))
    kept = []
    for _ in range(draws):
        kept.append(_draw(mover, walker.point, walker.rung))
        walker = step_simulated(rng, mover, walker, k, log_p, move_rung)
    return kept


def _run_parallel(rng: np.random.Generator, mover: Mover, k: Floats, tune: int, draws: int) -> list[list[InformedDraw]]:
    points = [mover.arrive(rng, mover.initial(rng)) for _ in k]
    kept: list[list[InformedDraw]] = [[] for _ in k]
    for t in range(tune + draws):
        if t >= tune:
            for rung, point in enumerate(points):
                kept[rung].append(_draw(mover, point, rung))
        points, _ = step_parallel(rng, mover, points, k, t % 2)
    return kept


def _draw(mover: Mover, point: Point, rung: int) -> InformedDraw:
    return InformedDraw(mover.record(point.state), rung, point.energy, point.log_totals)


def _collect(chains: list[list[InformedDraw]], k: Floats, chains_per_ensemble: int) -> InformedRun:
    return InformedRun(
        np.array([[draw.value for draw in chain] for chain in chains]),
        np.array([[draw.rung for draw in chain] for chain in chains], dtype=np.intp),
        np.array([[draw.energy for draw in chain] for chain in chains], dtype=np.float64),
        np.array([[draw.log_totals for draw in chain] for chain in chains], dtype=np.float64),
        k,
        chains_per_ensemble,
    )


class Jumper(NamedTuple):
    """A chain of simulated tempering."""

    point: Point
    rung: int
    direction: int


def step_simulated(
    rng: np.random.Generator,
    mover: Mover,
    walker: Jumper,
    k: Floats,
    log_pseudo_prior: Floats,
    move_rung: RungMove,
) -> Jumper:
    """Jump, then try to change the rung.

    The law of (x, rung) is p_i pi_i(x) Z_i(x): to a rung move log Z_i(x) is a part of the pseudo-prior.
    """
    state, hint = mover.leave(rng, walker.point, walker.rung)
    point = mover.arrive(rng, state, hint)
    terms, coefficients = np.array([point.energy]), k[:, np.newaxis]
    rung, direction, _ = move_rung(
        rng, walker.rung, walker.direction, terms, coefficients, log_pseudo_prior + point.log_totals
    )
    return Jumper(point, rung, direction)


def step_parallel(
    rng: np.random.Generator, mover: Mover, points: list[Point], k: Floats, first: int
) -> tuple[list[Point], list[bool]]:
    """Jump at every rung, then try to exchange the pairs (first, first + 1), (first + 2, first + 3), ...

    ``points[i]`` sits on rung i. Even and odd pairs in turn (first = 0, 1, 0, ...) is the non-reversible scheme.
    On a bipartite graph, flips of binary coordinates say, replicas that all jump keep their parities relative to each
    other. Every rung's own law is right even so: each side has half of pi_i Z_i.
    """
    moved = []
    for rung, point in enumerate(points):
        state, hint = mover.leave(rng, point, rung)
        moved.append(mover.arrive(rng, state, hint))
    accepted = []
    for lower in range(first, len(moved) - 1, 2):
        accepted.append(accept(rng, log_swap_ratio(moved[lower], moved[lower + 1], lower, k)))
        if accepted[-1]:
            moved[lower], moved[lower + 1] = moved[lower + 1], moved[lower]
    return moved, accepted


def log_swap_ratio(cold: Point, hot: Point, lower: int, k: Floats) -> float:
    """Return the log of pi_i Z_i(y) pi_j Z_j(x) / pi_i Z_i(x) pi_j Z_j(y) for x on rung i = lower and y on i + 1."""
    gap = k[lower] - k[lower + 1]
    at_cold = gap * cold.energy + cold.log_totals[lower] - cold.log_totals[lower + 1]
    at_hot = gap * hot.energy + hot.log_totals[lower] - hot.log_totals[lower + 1]
    return float(at_hot - at_cold)
