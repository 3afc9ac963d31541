r"""Table 2: a mixture of two normals, 100 runs of simulated tempering, three ways to combine the rungs.

The target is Eq. 10, 0.6 N(-8, 0.5^2) + 0.4 N(8, 0.9^2). What is compared is the effective sample size of the
combined weights (Eq. 3) and the Kolmogorov-Smirnov distance of the weighted draws from the truth.
"""

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np

from tempering.compiling.blas_threads import one_blas_thread
from tempering.errors import InputError
from tempering.estimators import ks_distance
from tempering.execution.workers import Workers
from tempering.experiments import Report, Row, summarise
from tempering.path.ladder import Ladder
from tempering.problems import NormalMixture, mixture
from tempering.runs.draws import TemperedDraws
from tempering.sampling.options import Execution, Method, Tuning
from tempering.sampling.progress import bar
from tempering.sampling.sample import sample
from tempering.target import Target

RULES = ("cold_only", "pooled", "ess_optimal")
PAPER_ESS = {"cold_only": 2535, "pooled": 17779, "ess_optimal": 22913, "sum": 22910}
PAPER_DISTANCE = {"cold_only": 0.0938, "pooled": 0.0849, "ess_optimal": 0.0836}
PAPER_VARIANCE = {"cold_only": 8.5e-4, "pooled": 1.4e-4, "ess_optimal": 5.2e-5}
LADDER = Ladder.geometric(rungs=40, hottest=3e-5)
N_WORKERS = 2  # threads: compiled chains release the interpreter's lock. The result is the same for any number.
NOTES = (
    "Ladder: geometric, m = 40, k_m = 3e-5. The paper states none; 2535 cold draws of 1e5 mean m = 40, and "
    "of the geometric ladders with even visits this one comes closest to both of its combined sample sizes.",
    "As in the paper: random-walk proposals scaled rung by rung, and one neighbouring rung proposed an "
    "iteration. Every run learns its own pseudo-prior first, from MBAR's normalisers of its tuning rounds: "
    "stochastic approximation and visit counts, as in the paper, take longer to make the visits as even.",
    "The order of the three rules is the paper's. Its K-S means are larger and vary less than ours. A "
    "distance that comes from the error in a mode's mass is half-normal, its mean 1.3 of its deviations; "
    "0.0836 with variance 5.2e-5 is 12 deviations. So the paper's distances have a systematic part, "
    "not explained there, that these runs do not have.",
    "Spread: standard deviation over the runs; for a variance, its standard error.",
)


@dataclass(frozen=True)
class Outcome:
    """What one run gave: sample sizes by rule and summed over rungs, and distances by rule."""

    ess: dict[str, float]
    distance: dict[str, float]


def run(
    n_runs: int = 100,
    n_draws: int = 100_000,
    *,
    n_tune: int = 30_000,
    rng: int = 2010,
    executor: Executor | None = None,
    progress: bool = False,
) -> Report:
    """Repeat the paper's experiment and set its figures beside ours.

    Parameters
    ----------
    n_runs, n_draws : int
        The paper has 100 runs of 1e5 draws.
    n_tune : int
        Iterations before, in which each run learns its own pseudo-prior and step sizes.
    rng : int
        Seed; each run has a stream of its own.
    executor : Executor, optional
        Who does the runs; by default two threads. The figures are the same whoever does.
    progress : bool
        Show a bar when the output is a terminal.
    """
    if n_runs < 2 or n_draws < 1000:
        raise InputError(
            f"Table 2 needs 2 runs of 1000 draws or more, but got {n_runs} of {n_draws}. "
            "The paper has 100 runs of 100000."
        )
    seeds = [int(s) for s in np.random.default_rng(rng).integers(2**62, size=n_runs)]
    runs = [(seed, n_draws, n_tune) for seed in seeds]
    with bar(n_runs, show=progress, title="Table 2") as report, ThreadPoolExecutor(N_WORKERS) as threads:
        outcomes = []
        if executor is None:
            outcomes.append(replicate(*runs.pop(0)))  # by itself: it compiles
            report(1, "")
        workers = Workers(threads if executor is None else executor)
        with one_blas_thread():  # held for all of this process's threads
            outcomes += workers.run(replicate, runs, lambda: report(1, ""))
        workers.close()
    title = f"Table 2: {n_runs} runs of {n_draws} draws from a mixture of two normals"
    return Report(title, tabulate(outcomes), NOTES)


def replicate(seed: int, n_draws: int, n_tune: int) -> Outcome:
    """Do one run, and compare it with the truth; this is what workers do.

    BLAS rounds by the number of its threads, and that of a worker may be another: it gets one.
    """
    problem, target = _problem()
    with one_blas_thread():
        return evaluate(simulate(target, seed, n_draws, n_tune), problem)


@cache
def _problem() -> tuple[NormalMixture, Target]:
    problem = mixture()
    return problem, Target(problem.as_vector.log_density_numba)


def simulate(target: Target, seed: int, n_draws: int, n_tune: int) -> TemperedDraws:
    """Run simulated tempering once, the paper's way."""
    return sample(
        target,
        initial=np.zeros(1),
        ladder=LADDER,
        draws=n_draws,
        tuning=Tuning(n_tune),
        chains=1,
        rng=seed,
        method=Method("simulated", rung_moves="neighbour"),
        execution=Execution(engine="scalar"),
        progress=False,
    )


def evaluate(draws: TemperedDraws, problem: NormalMixture) -> Outcome:
    """Return sample sizes and distances from the truth by rule."""
    position = draws.values["x"].ravel()
    ess, distance = {}, {}
    for rule in RULES:
        if rule == "cold_only" and draws.visits[0] == 0:
            ess[rule], distance[rule] = 0.0, 1.0  # the run never came to the cold rung: no estimate at all
            continue
        combined = draws.combination(draws.energy, rule)
        ess[rule] = combined.ess
        distance[rule] = ks_distance(position, combined.weights.ravel(), problem.cdf)
    ess["sum"] = float(np.nansum(combined.ess_per_rung))
    return Outcome(ess, distance)


def tabulate(outcomes: Sequence[Outcome]) -> tuple[Row, ...]:
    """Summarise runs in the rows of the paper's table."""
    sizes = [summarise(f"ESS {rule}", PAPER_ESS[rule], [o.ess[rule] for o in outcomes]) for rule in PAPER_ESS]
    distances = {rule: [o.distance[rule] for o in outcomes] for rule in RULES}
    means = [summarise(f"K-S mean {rule}", PAPER_DISTANCE[rule], distances[rule]) for rule in RULES]
    variances = [variance_row(f"K-S var {rule}", PAPER_VARIANCE[rule], distances[rule]) for rule in RULES]
    return (*sizes, *means, *variances)


def variance_row(quantity: str, paper: float, values: Sequence[float]) -> Row:
    """Make a row of a variance over runs, with the standard error of that variance.

    Var(s^2) = (m_4 - s^4 (n - 3) / (n - 1)) / n, m_4 being the fourth central moment.
    """
    x = np.asarray(values)
    n, square = len(x), float(np.var(values, ddof=1))
    fourth = float(np.mean((x - x.mean()) ** 4))
    return Row(quantity, paper, square, float(np.sqrt(max(fourth - square**2 * (n - 3) / (n - 1), 0.0) / n)))
