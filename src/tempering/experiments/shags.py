r"""Section 3.3: mark-recapture-recovery models of shags, by simulated tempering over 477 144 models.

The paper's data, the shags of the Isle of May, are not published. What is sampled here is a synthetic shag-like
set, simulated from partly published, partly invented values: the paper's setting is repeated, not its data, and
its figures stand beside ours to show that the same happens, not that the numbers agree.
"""

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tempering.data import SYNTHETIC_COUNTS, path_of
from tempering.errors import InputError
from tempering.estimators import ess_of_weights
from tempering.experiments import Report, Row
from tempering.io.checkpoint import Checkpoint, within
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.estimator import anneal, learn_pseudo_prior
from tempering.models.recapture.layout import PARAMETERS
from tempering.models.recapture.model import RecaptureModel, recapture_model
from tempering.models.recapture.reading import read
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.structures import Structure
from tempering.path.ladder import Ladder
from tempering.runs.draws import TemperedDraws
from tempering.runs.joining import join
from tempering.runs.stored import rows_of
from tempering.sampling.options import Execution, Tuning
from tempering.sampling.sample import sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LADDER = Ladder.geometric(rungs=40, hottest=0.1)
N_DRAWS = 10_000_000
N_CHAINS = 128
N_GROUPS = 4  # of chains, a thread each
DISCARDED = 0.1
PAPER = {"T_1": 248_158, "T / m": 225_000, "ESS ess_optimal": 612_026, "sum of ESS_i": 612_020, "ESS naive": 5.43}
SHIFTS = (0.0, 6590.0, 6610.0, 6650.0, 6700.0)
STRUCTURES = (
    ("phi", "{1}(t) {2,3} {4+}"),
    ("phi", "{1}(t) {2} {3} {4+}"),
    ("p", "{1} {2}(t) {3} {4+}(t)"),
    ("p", "{1} {2}(t) {3}(t) {4+}(t)"),
    ("lambda", "{1}(t) {2,3,4+}"),
    ("lambda", "{1}(t) {2} {3,4+}"),
)
NOTES = (
    "Data: synthetic (500 chicks in each of nine cohorts), because the shag data are not published. The "
    "paper's figures are those of its own data.",
    "The naive weights L^(1 - k) depend on the constant in log L, which nobody states: the same draws give "
    "the naive ESS of all the rows 'naive, log L + c'. So the paper's 5.43 cannot be a target. 'naive, over the "
    "pseudo-prior' divides the weights by p(k), which removes the constant. ESS ess_optimal does not depend on it.",
    "Rung moves are lifted (the direction is kept until a rejection); the paper proposes either neighbour.",
    "Spread: for probabilities, the standard error.",
)


@dataclass(frozen=True)
class Outcome:
    """One run and its data."""

    draws: TemperedDraws
    counts: Counts
    space: ModelSpace


def run(
    n_draws: int = N_DRAWS,
    *,
    n_chains: int = N_CHAINS,
    rng: int = 2010,
    figure: str | Path | None = None,
    executor: Executor | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: bool = True,
) -> Report:
    """Repeat the paper's setting on the synthetic set and set its figures beside ours.

    Parameters
    ----------
    n_draws : int
        Iterations in all, over chains, the discarded tenth included; 1e7 in the paper.
    n_chains : int
        Chains they are divided over.
    rng : int
        Seed.
    figure : path, optional
        Where to draw sample sizes by rung and naive sample sizes by constant.
    executor : Executor, optional
        Who runs the chains; the figures are the same whoever does.
    checkpoint : path or Checkpoint, optional
        A folder where the runs are kept while they go on.
    progress : bool
        Show a bar when the output is a terminal.
    """
    outcome = simulate(n_draws, n_chains, rng, Execution(executor=executor, checkpoint=checkpoint), progress)
    title = f"Section 3.3 on synthetic shag-like data: {n_draws} iterations over {n_chains} chains"
    path = None if figure is None else draw_figure(outcome.draws, figure)
    return Report(title, tabulate(outcome), NOTES, path)


def simulate(
    n_draws: int,
    n_chains: int,
    rng: int,
    execution: Execution = Execution(),
    progress: bool = True,
) -> Outcome:
    """Learn the pseudo-prior from coupled chains, run simulated tempering, discard the first tenth."""
    per_chain = n_draws // n_chains
    if per_chain < 100:
        raise InputError(
            f"The experiment needs at least 100 iterations per chain, but got {n_draws} over {n_chains} chains. "
            f"Ask for {100 * n_chains} draws at least."
        )
    counts = read(path_of(SYNTHETIC_COUNTS), "counts")
    assert isinstance(counts, Counts)
    space = ModelSpace(4)
    model = recapture_model(counts, space, keep_values=False)
    model = replace(model, starts=anneal(model, np.random.default_rng(rng)).states)
    n_pilot = int(np.clip(n_draws // 800, 500, 2000))  # at the paper's length, 40 rungs cost 2 % of the run
    log_p = learn_pseudo_prior(
        model, LADDER, draws=n_pilot, rng=rng, executor=execution.executor,
        checkpoint=within(execution.checkpoint, "pilot"), progress=progress,
    )  # fmt: skip
    draws = sample_groups(model, log_p, per_chain, n_chains, rng + 1, execution=execution, progress=progress)
    return Outcome(draws, counts, space)


def sample_groups(
    model: RecaptureModel,
    log_pseudo_prior: NDArray[np.float64],
    per_chain: int,
    n_chains: int,
    rng: int,
    *,
    n_threads: int | None = None,
    execution: Execution = Execution(),
    progress: bool = True,
) -> TemperedDraws:
    """Run the chains in groups, as many at once as there are cores, and join what each keeps.

    A group's seed is its own, so the draws do not depend on the number of threads.
    """
    sizes = [len(group) for group in np.array_split(np.arange(n_chains), min(N_GROUPS, n_chains))]

    def one(group: int) -> TemperedDraws:
        draws = sample(
            model, ladder=LADDER, draws=per_chain, chains=sizes[group], rng=rng + group,
            tuning=Tuning(0, pseudo_prior=log_pseudo_prior),
            execution=replace(execution, checkpoint=within(execution.checkpoint, f"group {group}")),
            progress=progress and group == 0,
        )  # fmt: skip
        kept = rows_of(draws, int(DISCARDED * per_chain), per_chain)
        return replace(kept, values=model.named(kept.values["x"]))

    with ThreadPoolExecutor(n_threads or os.cpu_count()) as threads:
        return join(list(threads.map(one, range(len(sizes)))), along="chains")


def tabulate(outcome: Outcome) -> tuple[Row, ...]:
    """Make the rows of the report."""
    draws = outcome.draws
    cold, optimal = float(draws.visits[0]), draws.ess("ess_optimal")
    separate = float(np.nansum(draws.rungs()["ess_of_weights"]))
    rows = [
        Row("T_1", PAPER["T_1"], cold),
        Row("T / m", PAPER["T / m"], draws.rung.size / len(draws.ladder)),
        Row("ESS ess_optimal", PAPER["ESS ess_optimal"], optimal),
        Row("ESS ess_optimal / T_1", PAPER["ESS ess_optimal"] / PAPER["T_1"], optimal / max(cold, 1.0)),
        Row("sum of ESS_i", PAPER["sum of ESS_i"], separate),
        Row("ESS ess_optimal - sum of ESS_i", PAPER["ESS ess_optimal"] - PAPER["sum of ESS_i"], optimal - separate),
        Row("ESS screened", None, draws.ess("screened")),
        Row("ESS mbar", None, draws.ess("mbar")),
        *(Row(f"ESS naive, log L + {c:.0f}", PAPER["ESS naive"], naive_ess(draws, c)) for c in SHIFTS),
        Row("ESS naive, over the pseudo-prior", PAPER["ESS naive"], naive_ess(draws, 0.0, corrected=True)),
        *distinct_models(draws),
    ]
    rows += [structure_row(outcome, name, text) for name, text in STRUCTURES]
    return tuple(rows)


def structure_row(outcome: Outcome, name: str, text: str) -> Row:
    """Estimate the probability that a parameter has the structure ``text``."""
    code = outcome.space.code(Structure.parse(text, outcome.space.n_classes))
    has_it = outcome.draws.values["model"][..., PARAMETERS.index(name)] == code
    found = outcome.draws.combination(has_it.astype(float), "ess_optimal")
    return Row(f"P({name}: {text})", None, float(found.estimate), float(found.standard_error))


def naive_ess(draws: TemperedDraws, shift: float, *, corrected: bool = False) -> float:
    """Return the ESS (Eq. 3) of the weights (pi c)^(1 - k), log c = ``shift``; over p(k) if corrected."""
    one_minus_k = 1.0 - draws.ladder.inverse_temperatures[draws.rung]
    log_weights = one_minus_k * (draws.energy + shift)
    if corrected:
        log_weights = log_weights - draws.log_pseudo_prior[draws.rung]
    return float(ess_of_weights(log_weights.ravel()))


def distinct_models(draws: TemperedDraws) -> tuple[Row, Row]:
    """Count the models visited at the cold rung and at all."""
    codes = draws.values["model"].astype(np.int64)
    whole = (codes[..., 0] << 32) + (codes[..., 1] << 16) + codes[..., 2]
    at_cold = len(np.unique(whole[draws.rung == 0]))
    return Row("models visited, cold", None, at_cold), Row("models visited, all rungs", None, len(np.unique(whole)))


def draw_figure(draws: TemperedDraws, path: str | Path) -> Path:
    """Draw sample sizes by rung beside the naive sample size by constant."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plot_rungs(draws, left)
    plot_constant(draws, right)
    path = Path(path)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def plot_rungs(draws: TemperedDraws, ax: "Axes") -> "Axes":
    """Draw visits and the ESS of the weights by inverse temperature."""
    table = draws.rungs()
    ax.plot(table["k"], np.maximum(table["visits"], 1), marker=".", color="#999999", label="visits $T_i$")
    ax.plot(table["k"], np.maximum(table["ess_of_weights"], 1), marker=".", color="#D55E00", label="ESS of weights")
    ax.set_yscale("log")
    ax.set_xlabel("inverse temperature $k$")
    ax.set_ylabel("draws")
    ax.legend(frameon=False)
    return ax


def plot_constant(draws: TemperedDraws, ax: "Axes") -> "Axes":
    """Draw the naive ESS against the arbitrary constant, and the optimal one, which does not depend on it."""
    shifts: NDArray[np.float64] = np.linspace(6560, 6720, 41)
    ax.plot(shifts, [naive_ess(draws, c) for c in shifts], color="#CC79A7", label="naive")
    ax.axhline(draws.ess("ess_optimal"), color="#D55E00", label=r"$\lambda^*$")
    ax.axhline(max(float(draws.visits[0]), 1.0), color="#0072B2", linestyle=":", label="cold draws $T_1$")
    ax.set_yscale("log")
    ax.set_xlabel("constant added to log L")
    ax.set_ylabel("effective sample size")
    ax.legend(frameon=False)
    return ax
