"""A verdict in words: what the rungs, the journeys between them and the weights say, and what to change."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.estimators import ess_of_autocorrelation
from tempering.learning.density_of_states import DensityOfStates

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws

Floats = NDArray[np.float64]

LOW_EXCHANGE = 0.1
FEW_ROUND_TRIPS = 20
UNEVEN = 3.0  # times 1 / m, or a third of it
FEW_EFFECTIVE = 100.0
LARGE_R_HAT = 1.05


@dataclass(frozen=True)
class Diagnosis:
    """What a run looks like, and sentences that say what is wrong and what to do.

    Attributes
    ----------
    is_good : bool
        Whether no sentence was needed.
    sentences : tuple of str
    n_round_trips : int
    barrier : float
        Communication barrier between the ends of the ladder.
    index_ess : float
        Effective sample size, by autocorrelation, of the rung a chain is on.
    ess_by_quantity, r_hat_by_quantity : dict of str to float
        Under the weights, worst coordinate of each named value.
    overlap : ndarray, shape (rung, rung)
    second_eigenvalue : float
    evidence_agrees : bool
    """

    is_good: bool
    sentences: tuple[str, ...]
    n_round_trips: int
    barrier: float
    index_ess: float
    ess_by_quantity: dict[str, float]
    r_hat_by_quantity: dict[str, float]
    overlap: Floats
    second_eigenvalue: float
    evidence_agrees: bool

    def _repr_html_(self) -> str:
        from tempering.report.notebook import diagnosis_html

        return diagnosis_html(self)

    def __str__(self) -> str:
        head = "The run looks sound." if self.is_good else "The run needs attention:"
        return "\n".join([head, *(f"- {sentence}" for sentence in self.sentences)])


def diagnosis_of(draws: TemperedDraws) -> Diagnosis:
    """Look at a run from every side."""
    k = draws.ladder.inverse_temperatures
    fit = draws.in_units_of_error.fit
    states = DensityOfStates.from_draws(draws.energy, k, draws.rung, fit)
    method = "parallel" if draws.chains_per_ensemble > 1 else "simulated"
    barrier = states.barrier(draws.ladder, method) if len(k) > 1 else 0.0
    index_ess = ess_of_autocorrelation(draws.rung.astype(float)) if len(k) > 1 else float(draws.rung.size)
    ess, r_hat = _by_quantity(draws)
    disagreement = _evidence_disagreement(draws)
    sentences = [
        *_about_rungs(draws),
        *_about_journeys(draws, barrier),
        *_about_weights(draws),
        *_about_quantities(ess, r_hat),
        *([disagreement] if disagreement else []),
    ]
    return Diagnosis(
        not sentences, tuple(sentences), draws.n_round_trips, barrier, float(index_ess), ess, r_hat,
        fit.overlap, fit.second_eigenvalue, not disagreement,
    )  # fmt: skip


def _travels(draws: TemperedDraws) -> bool:
    """Whether rows are chains that move between rungs: not populations, nor draws from elsewhere sorted by rung."""
    return draws.info is not None and draws.info.method != "sequential"


def _about_rungs(draws: TemperedDraws) -> list[str]:
    if len(draws.ladder) == 1 or not _travels(draws):
        return []
    table = draws.rungs()
    said = []
    exchange = table["exchange_acceptance"].to_numpy()[:-1]
    for i in np.flatnonzero(exchange < LOW_EXCHANGE).tolist():
        said.append(
            f"rungs {i} and {i + 1} exchange in {exchange[i]:.0%} of proposals: add rungs between k = "
            f"{draws.ladder[i]:.2g} and {draws.ladder[i + 1]:.2g}, or let the ladder be tuned (ladder=None)."
        )
    share = draws.visits / draws.rung.size * len(draws.ladder)
    for i in np.flatnonzero(draws.visits == 0).tolist():
        said.append(f"rung {i} (k = {draws.ladder[i]:.2g}) was never visited: tune for longer.")
    odd = np.flatnonzero((draws.visits > 0) & ((share > UNEVEN) | (share < 1 / UNEVEN)))
    if odd.size:
        said.append(
            f"rung {odd[0]} was visited {share[odd[0]]:.2g} times as often as it should be"
            + (f", and {odd.size - 1} more are uneven" if odd.size > 1 else "")
            + ": the pseudo-prior is not settled; raise tune."
        )
    moves = table["move_acceptance"].to_numpy()
    stuck = np.flatnonzero(moves < 0.02)
    if stuck.size:
        said.append(
            f"moves on rung {stuck[0]} are accepted {moves[stuck[0]]:.1%} of the time: tune for longer, or take "
            "another kernel (tempering.kernels)."
        )
    return said


def _about_journeys(draws: TemperedDraws, barrier: float) -> list[str]:
    if len(draws.ladder) == 1 or draws.n_round_trips >= FEW_ROUND_TRIPS or not _travels(draws):
        return []
    return [
        f"chains went from cold to hot and back only {draws.n_round_trips} times in all (the barrier is {barrier:.1f}, "
        f"for which about {2 * barrier + 1:.0f} rungs are best): draw more, or bring the hottest k nearer to 1."
    ]


def _about_weights(draws: TemperedDraws) -> list[str]:
    ess = draws.ess()
    if ess >= FEW_EFFECTIVE:
        return []
    return [
        f"all draws together weigh as much as {ess:.0f} cold ones: rungs near k = 1 are too few or too seldom "
        "visited; draw more or add rungs there."
    ]


def _about_quantities(ess: dict[str, float], r_hat: dict[str, float]) -> list[str]:
    said = []
    for name in ess:
        if ess[name] < FEW_EFFECTIVE:
            said.append(f"'{name}' has only {ess[name]:.0f} effective draws: draw more.")
        if r_hat[name] > LARGE_R_HAT:
            said.append(
                f"chains disagree about '{name}' (R-hat {r_hat[name]:.2f}): they have not all seen the same modes; "
                "draw more, or heat further."
            )
    return said


def _by_quantity(draws: TemperedDraws) -> tuple[dict[str, float], dict[str, float]]:
    """Return effective draws and split R-hat of each named value under the weights, its worst coordinate."""
    ess, r_hat = {}, {}
    for name, array in draws.values.items():
        flat = np.asarray(array, dtype=float).reshape(*draws.rung.shape, -1)
        mean = draws.estimate(flat)
        variance = np.ravel(draws.mean(flat**2)) - np.ravel(mean.value) ** 2
        error = np.ravel(mean.standard_error)
        moving = (error > 0) & (variance > 0)
        ess[name] = float(np.min(variance[moving] / error[moving] ** 2)) if moving.any() else float(draws.rung.size)
        r_hat[name] = max(weighted_r_hat(flat[..., i], draws) for i in range(flat.shape[2]))
    return ess, r_hat


def weighted_r_hat(values: Floats, draws: TemperedDraws, rule: str | None = None) -> float:
    """Return the split R-hat of one quantity under the weights; NaN where there is only one unit to compare.

    Halves of chains (of ensembles, for coupled ones) give self-normalised means; their variance is set against the
    variance of the quantity. A population, carried from hot to cold, has no halves alike: it is compared whole.
    """
    weights = draws.weights() if rule is None else draws.weights(rule)
    n = draws.n_chains // draws.chains_per_ensemble
    parts = 1 if draws.info is not None and draws.info.method == "sequential" else 2
    half = draws.n_draws // parts
    if n * parts < 2:
        return float("nan")

    def halves(a: Any) -> Floats:
        grouped = a[:, : parts * half].reshape(n, draws.chains_per_ensemble, parts, half)
        return np.asarray(grouped.transpose(0, 2, 1, 3).reshape(parts * n, -1))

    w, h = halves(weights), halves(values)
    total = w.sum(axis=1)
    kept = total > 0
    if kept.sum() < 2:
        return float("inf")
    w, h, total = w[kept], h[kept], total[kept]
    mean = np.sum(w * h, axis=1) / total
    within = np.mean(np.sum(w * (h - mean[:, None]) ** 2, axis=1) / total)
    between = np.var(mean, ddof=1)
    return float(np.sqrt(1.0 + between / within)) if within > 0 else (1.0 if between == 0 else float("inf"))


def _evidence_disagreement(draws: TemperedDraws) -> str:
    if len(draws.ladder) == 1:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the disagreement is one of the sentences
        return draws.log_evidence().disagreement
