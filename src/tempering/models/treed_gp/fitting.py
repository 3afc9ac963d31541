"""One fit: `tempering.sample` runs the model until its chains agree; then all rungs are put together."""

from __future__ import annotations

import time
import warnings
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.errors import InputError
from tempering.io.checkpoint import Checkpoint
from tempering.models.treed_gp import diagnosis
from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.agreement import prediction_r_hat
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.posterior import Posterior, posterior_of
from tempering.models.treed_gp.settings import Keeping, Tempering
from tempering.models.treed_gp.surfaces import n_workers
from tempering.randomness import stream
from tempering.runs.draws import TemperedDraws
from tempering.sampling.options import Draws, Execution, Tuning
from tempering.sampling.sample import sample
from tempering.sampling.until import Until

TREES, AGREEMENT = 11, 13  # streams
MEMORY = 1e9  # bytes, for the trees of all draws, were all as large as they may be
MOST_COUPLED = 400  # distinct inputs, up to which rungs run side by side
COUPLED_ROUNDS = (375, 125, 1000)
LONG_FIT = 60.0  # seconds from which the user is told beforehand
WORTH_A_TRIAL = 300  # distinct inputs from which a fit is timed beforehand
TRIAL = 1.0  # seconds of that
ENOUGH_ROUND_TRIPS = 10  # of all chains: with fewer, they must agree as closely as the verdict asks
CLOSE_R_HAT = 1.02  # of predictions: what chains differ by then adds a fiftieth to the predictive variance


@dataclass(frozen=True)
class Plan:
    """How long to run, how to temper, and what to keep."""

    tempering: Tempering
    first: int
    """Rounds after which chains may end if they agree."""
    draws: int
    """Rounds at the most."""
    tune: int
    chains: int
    keep: Keeping
    points: Floats | None = None

    def thin(self, model: TreedGPModel, memory: float = MEMORY) -> int:
        """Return how many rounds there are from one draw that is kept to the next."""
        if self.keep.thin is not None:
            return self.keep.thin
        return max(1, int(np.ceil(8.0 * model.record_size * self.draws * self.chains / memory)))


def usual_method(n_distinct: int) -> str:
    """Return how a fit is tempered whose length is left to us.

    On nine splits of six inputs of which two do nothing RMSE was .14 of the deviation by coupled chains, and .31 by
    single ones in a little more time: four of their nine fits were caught in trees that do not predict.
    """
    return "parallel" if n_distinct <= MOST_COUPLED else "simulated"


def usual_rounds(n_distinct: int, method: str = "simulated") -> tuple[int, int, int]:
    """Return how many rounds chains are tuned for, and make at least and at most, where nobody says.

    Tuned for half as long, chains of two ripples in a corner of a plane were cooled too fast to find them, and agreed.
    A round of coupled chains is one of every rung, and takes as long as several. 500 and 250 of them predict no better
    than 375 and 125, in 1.3 times the time (30 data sets, three fresh splits); with 250 and 125 RMSE is 2 % larger.

    Examples
    --------
    >>> usual_rounds(100), usual_rounds(1600), usual_rounds(1_000_000)
    ((2000, 1000, 8000), (1000, 500, 4000), (400, 400, 1600))
    >>> usual_rounds(100, "parallel")
    (375, 125, 1000)
    """
    if method == "parallel":
        return COUPLED_ROUNDS
    scale = min(1.0, (400 / n_distinct) ** 0.5)
    return max(400, int(2000 * scale)), max(400, int(1000 * scale)), max(1600, int(8000 * scale))


@on_one_blas_thread
def fit(
    model: TreedGPModel,
    plan: Plan,
    *,
    rng: np.random.Generator | int | None,
    progress: bool,
    executor: Executor | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
) -> Posterior:
    """Tune, draw and combine.

    Parameters
    ----------
    model : TreedGPModel
    plan : Plan
    rng : int, Generator or None
        Equal seeds give equal fits, whatever the number of threads.
    progress : bool
        Show a bar when the output is a terminal.
    executor : Executor, optional
        Who runs the chains; the fit is the same whoever does.
    checkpoint : path or Checkpoint, optional
        A folder where the fit is kept while it goes on.
    """
    tempering = plan.tempering
    ladder = tempering.fixed_ladder(is_large=model.is_large)
    check_end(model, tempering.hottest if ladder is None else ladder.hottest)
    preflight(model, plan)
    thin = plan.thin(model)
    enough = partial(is_enough, model, tempering.rule)
    run = sample(
        model,
        ladder=ladder,
        method=tempering.method or "simulated",
        draws=plan.draws,
        until=None if plan.first == plan.draws else Until(enough=enough, least=plan.first),
        chains=plan.chains,
        rng=rng,
        tuning=Tuning(plan.tune, hottest=tempering.hottest if ladder is None else None),
        execution=Execution(executor=executor, checkpoint=checkpoint),
        keep=Draws(thin),
        progress=progress,
    )
    assert run.info is not None
    seed, keep = run.info.seed, plan.keep
    found = posterior_of(
        model, run, tempering.rule, keep.trees, stream(seed, TREES), plan.points, -(-keep.predict_every // thin)
    )
    return replace(found, prediction_r_hat=prediction_r_hat(model, run, tempering.rule, stream(seed, AGREEMENT)))


def is_enough(model: TreedGPModel, rule: str, run: TemperedDraws) -> bool:
    """Say whether the chains agree on the predictions, and came round or agree closely, so that draws are enough."""
    assert run.info is not None
    came_round = len(run.ladder) == 1 or run.n_round_trips >= ENOUGH_ROUND_TRIPS
    largest = CLOSE_R_HAT if came_round else diagnosis.CLOSE_R_HAT
    return prediction_r_hat(model, run, rule, stream(run.info.seed, AGREEMENT)) <= largest


def check_end(model: TreedGPModel, hottest: float) -> None:
    """Refuse a ladder that ends where flat coefficients have no proper posterior, or where nothing can be run."""
    m, smallest = int(model.integer[at.N_MEAN]), int(model.integer[at.MIN_LEAF])
    if model.prior.coefficients == "flat" and hottest * smallest < m:
        raise InputError(
            f"With flat coefficients the hottest k times the rows of the smallest leaf must reach the {m} "
            f"coefficients, but {hottest:g} times {smallest} does not. Take coefficients='hierarchical', or "
            f"hottest={min(1.0, m / smallest):.2g}."
        )
    if model.is_large and hottest == 0.0:
        raise InputError(
            f"A ladder that ends at k = 0 needs leaves that can hold all {len(model.data.x)} distinct inputs, but "
            f"max_rows is {model.integer[at.MAX_ROWS]}. Raise max_rows of the prior, or hottest."
        )


def preflight(model: TreedGPModel, plan: Plan) -> float:
    """Estimate the seconds a large fit will take from a chain of its own, which runs for a second; warn if many."""
    if len(model.data.x) <= WORTH_A_TRIAL:
        return 0.0
    rng = np.random.default_rng(1)
    state = model.step(rng, model.initial(rng), 1.0)  # compiled, or read from the cache
    started, a_round, n_rounds = time.perf_counter(), 0.0, 1
    while time.perf_counter() - started < TRIAL:  # the last piece counts: the tree has left its start by then
        before = time.perf_counter()
        for _ in range(n_rounds):
            state = model.step(rng, state, 1.0)
        a_round = (time.perf_counter() - before) / n_rounds
        n_rounds *= 2
    rounds = a_round * -(-plan.chains // n_workers(plan.chains))
    seconds, least = rounds * (plan.tune + plan.draws), rounds * (plan.tune + plan.first)
    if seconds > LONG_FIT:
        span = _duration(seconds) if plan.first >= plan.draws else f"{_duration(least)} to {_duration(seconds)}"
        warnings.warn(
            f"This fit will take about {span}: {model.data.n_rows} rows, {a_round:.2g} s per round, "
            f"up to {plan.tune + plan.draws} rounds, {plan.chains} chains. Fewer draws, leaf='linear' or a smaller "
            "max_rows of the prior would be faster. Ctrl-C ends it early and keeps the draws so far.",
            UserWarning,
            stacklevel=4,
        )
    return seconds


def _duration(seconds: float) -> str:
    if seconds > 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
