"""`sample_informed`: run informed chains or tempered Gibbs, alone or under a ladder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import SamplerError
from tempering.informed.mover import InformedMover, Mover, Point
from tempering.informed.neighbourhood import Neighbourhood
from tempering.informed.run import InformedRun
from tempering.informed.rung_moves import RUNG_MOVES, Jumper, step_parallel, step_simulated
from tempering.path.ladder import Ladder
from tempering.randomness import seed_of, stream

Floats = NDArray[np.float64]
# Steps of the pseudo-prior's learning end near 1 / visits: Wang-Landau in its 1/t form (Belardinelli & Pereyra 2007)
FIRST_STEP = 1.0


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
    method: str = "simulated",
    balancing: str = "square_root",
    tries: int | None = None,
    rung_moves: str = "lifted",
    log_pseudo_prior: ArrayLike | None = None,
    draws: int = 10_000,
    tune: int = 1_000,
    chains: int = 2,
    rng: np.random.Generator | int | None = None,
) -> InformedRun:
    """Sample a discrete space without rejections.

    Parameters
    ----------
    model : Neighbourhood, or a mover such as TemperedGibbs
        A mover brings its own inverse temperatures.
    ladder : Ladder, sequence of float, float or None
        None is k = 1 alone. A single number below 1 is the tempered form: one chain at pi^k, weighted back.
    method : {"simulated", "parallel"}
    balancing : str
        One of `tempering.informed.BALANCING`.
    tries : int, optional
        Multiple try: neighbours looked at in a step.
    rung_moves : {"lifted", "neighbour"}
        How simulated tempering changes rungs.
    log_pseudo_prior : array_like, shape (n_rungs,), optional
        Learnt while tuning if it is not given.
    draws, tune, chains : int
        Jumps kept and jumps of tuning, of each chain, and the number of chains (of ensembles under "parallel").
    rng : Generator, int or None

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
    mover = model if hasattr(model, "arrive") else _informed(model, ladder, balancing, tries)
    k = np.array(mover.inverse_temperatures, dtype=np.float64)  # type: ignore[union-attr]
    if method not in ("simulated", "parallel"):
        raise SamplerError(f"method must be 'simulated' or 'parallel', but got {method!r}.")
    if rung_moves not in RUNG_MOVES:
        raise SamplerError(f"rung_moves must be one of {', '.join(RUNG_MOVES)}, but got {rung_moves!r}.")
    for name, value, least in (("draws", draws, 1), ("tune", tune, 0), ("chains", chains, 1)):
        if not (isinstance(value, int | np.integer) and value >= least):
            raise SamplerError(f"{name} must be a whole number of at least {least}, but got {value!r}.")
    seed = seed_of(rng)
    if method == "parallel" and k.size > 1:
        ensembles = [_run_parallel(stream(seed, c), mover, k, tune, draws) for c in range(chains)]  # type: ignore[arg-type]
        return _collect([chain for ensemble in ensembles for chain in ensemble], k, k.size)
    given = None if log_pseudo_prior is None else np.asarray(log_pseudo_prior, dtype=np.float64)
    if given is not None and not (given.shape == k.shape and np.isfinite(given).all()):
        raise SamplerError(f"log_pseudo_prior needs a finite number for each of the {k.size} rungs, but got {given}.")
    runs = [
        _run_simulated(stream(seed, c), mover, k, given, rung_moves, tune, draws)  # type: ignore[arg-type]
        for c in range(chains)
    ]
    return _collect(runs, k, 1)


def _informed(model: Any, ladder: Any, balancing: str, tries: int | None) -> InformedMover:
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
    return InformedMover(model, k, balancing, tries)


def _run_simulated(
    rng: np.random.Generator, mover: Mover, k: Floats, given: Floats | None, rung_moves: str, tune: int, draws: int
) -> list[InformedDraw]:
    move_rung = RUNG_MOVES[rung_moves]
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
