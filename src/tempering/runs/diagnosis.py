"""A verdict in words: what the rungs, the journeys between them and the weights say, and what to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.estimators import ess_of_autocorrelation, varies, weighted_estimate
from tempering.estimators.mixture import finite_terms
from tempering.learning.density_of_states import DensityOfStates
from tempering.path import weighted_terms
from tempering.runs.evidence import disagreement_of
from tempering.runs.positions import positions_of
from tempering.runs.tours import FEW_ROUND_TRIPS, FEW_TOURS

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws
    from tempering.runs.sums import TemperedSums

LOW_EXCHANGE = 0.1
FEW_EFFECTIVE_OF_A_LEG = 30.0  # draws, below which a leg has nothing to say by itself
LEGS_DISAGREE = 4.5  # standard errors: the largest of a hundred quantities of a sound run is seldom above 4
INVALID = 1e-2  # of the moves, tuning's too: the safe end reaches far out, where sums overflow
THIN = 0.02  # of the mass: where few tours have so much, as much may lie deeper, and error bars are mostly doubt
LIGHT = 0.01  # of the mass: what few draws have seen of a lighter component says nothing about a run
UNEVEN = 3.0  # times 1 / m, or a third of it
FEW_EFFECTIVE = 100.0
LARGE_R_HAT = 1.05


@dataclass(frozen=True)
class Verdict:
    """Whether a run looks good, and sentences that say what is wrong and what to do.

    Attributes
    ----------
    is_good : bool
        Whether no sentence was needed.
    sentences : tuple of str
    n_round_trips : int
        Journeys from the coldest rung to the hottest and back, of all chains.
    """

    is_good: bool
    sentences: tuple[str, ...]
    n_round_trips: int

    def __str__(self) -> str:
        head = f"The run looks sound{self._since}." if self.is_good else "The run needs attention:"
        return "\n".join([head, *(f"- {sentence}" for sentence in self.sentences)])

    @property
    def _since(self) -> str:
        """Why there is no need to look further, where that is known."""
        return ""


@dataclass(frozen=True)
class Diagnosis(Verdict):
    """What a run looks like, and sentences that say what is wrong and what to do.

    Attributes
    ----------
    barrier : float
        Communication barrier between the ends of the ladder.
    index_ess : float
        Effective sample size, by autocorrelation, of the rung a chain is on.
    ess_by_quantity, r_hat_by_quantity : dict of str to float
        Under the weights, worst coordinate of each named value.
    overlap : ndarray, shape (rung, rung)
    second_eigenvalue : float
    evidence_agrees : bool
    is_log_concave : bool
        Whether the target is proven to be so: then there is one mode, and none is missed by chains that never came
        round.
    """

    barrier: float
    index_ess: float
    ess_by_quantity: dict[str, float]
    r_hat_by_quantity: dict[str, float]
    overlap: Floats
    second_eigenvalue: float
    evidence_agrees: bool
    is_log_concave: bool = False

    @property
    def _since(self) -> str:
        return ": the log density is concave, so that there is one mode" if self.is_log_concave else ""

    @property
    def asks_for_draws(self) -> bool:
        """Whether more draws may mend what is wrong."""
        return any("draw more" in sentence for sentence in self.sentences)

    def _repr_html_(self) -> str:
        from tempering.runs.notebook import diagnosis_html

        return diagnosis_html(self)


@on_one_blas_thread
def diagnosis_of(draws: TemperedDraws) -> Diagnosis:
    """Look at a run from every side."""
    path, fit = draws.path, draws.in_units_of_error.fit
    barrier = sum(_barrier(draws, leg) for leg in range(len(path.legs)))
    index_ess = ess_of_autocorrelation(draws.rung.astype(float)) if len(path) > 1 else float(draws.rung.size)
    quantities = list(_quantities(draws))
    ess, r_hat = _by_quantity(draws, quantities)
    disagreement = disagreement_of(draws)
    sentences = [
        *sentences_about(draws, barrier, ess, r_hat, disagreement),
        *_about_unknown(draws, quantities),
        *_about_legs(draws, quantities),
        *_about_thin_places(draws),
    ]
    return Diagnosis(
        not sentences, tuple(sentences), draws.n_round_trips, barrier, float(index_ess), ess, r_hat,
        fit.overlap, fit.second_eigenvalue, not disagreement, has_one_mode(draws),
    )  # fmt: skip


def sentences_about(
    run: TemperedDraws | TemperedSums,
    barrier: float,
    ess: dict[str, float],
    r_hat: dict[str, float],
    disagreement: str,
) -> list[str]:
    """Say what is wrong with a run, draws or sums, and what to do."""
    return [
        *_about_rungs(run),
        *_about_journeys(run, barrier),
        *_about_weights(run),
        *_about_quantities(ess, r_hat),
        *_about_numbers(run),
        *([disagreement] if disagreement else []),
    ]


def _barrier(draws: TemperedDraws, leg: int) -> float:
    """Return the communication barrier along a leg."""
    ladder = draws.path.legs[leg].ladder
    if len(ladder) == 1:
        return 0.0
    method = "parallel" if draws.chains_per_ensemble > 1 else "simulated"
    return density_of_states(draws, leg).barrier(ladder, method)


def density_of_states(draws: TemperedDraws, leg: int = 0) -> DensityOfStates:
    """Return what is tempered along a leg, as all draws know it."""
    path, fit = draws.path, draws.in_units_of_error.fit
    if not path.has_two_legs:
        return DensityOfStates.from_draws(draws.energy, path.ladder.inverse_temperatures, draws.rung, fit)
    energy = path.energy(draws.terms, leg).ravel()
    log_share = weighted_terms(path.legs[leg].end, draws.terms).ravel() - np.ravel(fit.log_mixture)
    kept = (energy > -np.inf) & fit.possible
    return DensityOfStates.weighted(energy[kept], log_share[kept])


def _travels(draws: TemperedDraws | TemperedSums) -> bool:
    """Whether rows are chains that move between rungs: not populations, joined runs, or draws sorted by rung."""
    return draws.info is not None and draws.info.method in ("simulated", "parallel")


def has_one_mode(draws: TemperedDraws | TemperedSums) -> bool:
    """Whether it is proven that there is one mode; few round trips then say nothing about the run."""
    return draws.info is not None and draws.info.is_log_concave and draws.path.has_two_legs


def _about_rungs(draws: TemperedDraws | TemperedSums) -> list[str]:
    path, m = draws.path, len(draws.path)
    if m == 1 or not _travels(draws):
        return []
    table, k = draws.rungs(), path.inverse_temperatures
    said = []
    exchange = table["exchange_acceptance"].to_numpy()[:-1]
    what = "draw more" if path.has_two_legs else "add rungs there; if the ladder was tuned, tune for longer"
    low = np.flatnonzero(exchange < LOW_EXCHANGE)
    if has_one_mode(draws):
        low = low[low < path.target]  # nothing lies at the end of the safe leg that chains must have seen
    if low.size and not (path.has_two_legs and draws.n_round_trips >= FEW_TOURS):  # slow, and crossed often enough
        i = int(low[np.argmin(exchange[low])])
        said.append(
            f"rungs {i} and {i + 1} (k = {k[i]:.2g} and {k[i + 1]:.2g}) exchange in {exchange[i]:.0%} of proposals"
            + (f", and {low.size - 1} more pairs in less than {LOW_EXCHANGE:.0%}" if low.size > 1 else "")
            + f": {what}."
        )
    never = np.flatnonzero(draws.visits == 0)
    if has_one_mode(draws):
        never = never[never < path.target]
    if never.size:
        said.append(
            f"rung {never[0]} (k = {k[never[0]]:.2g}) was never visited"
            + (f", nor were {never.size - 1} others" if never.size > 1 else "")
            + ": tune for longer."
        )
    share = draws.visits / draws.visits.sum() * m
    odd = np.flatnonzero((draws.visits > 0) & ((share > UNEVEN) | (share < 1 / UNEVEN)))
    if odd.size and not path.has_two_legs:
        said.append(
            f"rung {odd[0]} was visited {share[odd[0]]:.2g} times as often as it should be"
            + (f", and {odd.size - 1} more are uneven" if odd.size > 1 else "")
            + ": the pseudo-prior is not settled; tune for longer."
        )
    moves = table["move_acceptance"].to_numpy()
    stuck = np.flatnonzero(moves < 0.02)
    if stuck.size:
        said.append(
            f"moves on rung {stuck[0]} are accepted {moves[stuck[0]]:.1%} of the time: tune for longer, or take "
            "another kernel (tempering.kernels)."
        )
    return said


def _about_journeys(draws: TemperedDraws | TemperedSums, barrier: float) -> list[str]:
    if len(draws.path) == 1 or draws.n_round_trips >= FEW_ROUND_TRIPS or not _travels(draws) or has_one_mode(draws):
        return []
    if draws.path.has_two_legs:
        return [
            f"chains went from the target to the safe end and back only {draws.n_round_trips} times in all (the "
            f"barrier is {barrier:.1f}), so that a mode which nothing has led to may be missing: draw more."
        ]
    narrower = "" if draws.ladder.hottest == 0 else ", or use a smaller temperature range (raise the smallest k)"
    return [
        f"chains went from cold to hot and back only {draws.n_round_trips} times in all (the barrier is {barrier:.1f}, "
        f"for which about {2 * barrier + 1:.0f} rungs are best): draw more{narrower}."
    ]


def _about_numbers(draws: TemperedDraws | TemperedSums) -> list[str]:
    """Speak of densities that were NaN or +inf, where they were more than a trifle."""
    if draws.info is None:
        return []
    n = draws.info.n_invalid
    if n <= INVALID * draws.info.n_iterations * draws.n_chains:
        return []
    return [
        f"the log density was NaN or +inf, or its gradient NaN, in {n} evaluations, which were taken as outside the "
        "support: return -inf where the density is zero, and look for 0 * inf or logs of negative numbers, also in the "
        "branch that a jnp.where does not take."
    ]


def _about_legs(draws: TemperedDraws, quantities: list[tuple[str, Floats]]) -> list[str]:
    """Compare what the two legs say of the same quantities, each by its own draws alone."""
    path = draws.path
    if not path.has_two_legs or path.target == 0 or draws.chains_per_ensemble > 1:
        return []
    safe, quick = (_weights_of_leg(draws, leg) for leg in (0, 1))
    if safe is None and quick is not None and has_one_mode(draws):
        return []
    if safe is None or quick is None:
        return ["one of the two legs has no draw that counts: draw more."]
    worst, worst_z = "", 0.0
    for name, values in quantities:
        one, other = (weighted_estimate(values, weights) for weights in (safe, quick))
        gap = np.abs(np.ravel(one.value) - np.ravel(other.value))
        error = np.hypot(np.ravel(one.standard_error), np.ravel(other.standard_error))
        moving = (error > 0) & varies(np.ravel(one.value), draws.variance(values))  # not a constant and its rounding
        z = np.max(np.where(moving, gap / np.where(moving, error, 1.0), 0.0), initial=0.0)
        if z > worst_z:
            worst, worst_z = name, float(z)
    if worst_z < LEGS_DISAGREE:
        return []
    return [
        f"the two legs disagree about {worst} by {worst_z:.1f} standard errors: the mixture may have missed something "
        "that chains find only now and then; draw more."
    ]


def _about_thin_places(draws: TemperedDraws) -> list[str]:
    """Speak of mass in places that chains enter seldom, such as the neck of a funnel.

    Of a short run few tours are a large part: what counts is mass beyond their share.
    """
    if draws.missing_mass <= max(THIN, FEW_TOURS / (draws.n_crossings or np.inf)):
        return []
    return [
        f"{draws.thin_mass:.1%} of the mass lies in narrow places that chains seldom enter, and more may lie deeper: "
        "draw more, or write the model in other coordinates (for a hierarchy, effects in units of their scale)."
    ]


def _weights_of_leg(draws: TemperedDraws, leg: int) -> Floats | None:
    """Return the weights of a leg's own draws, summing to one; None where they are worth too few."""
    path, fit = draws.path, draws.in_units_of_error.fit
    rungs = path.rungs_of(leg)
    is_mine = np.isin(draws.rung, rungs[1:])
    terms = finite_terms(draws.terms[is_mine])
    offsets = fit.log_offsets[rungs[1:]]
    used = np.isfinite(offsets)
    if not used.any() or not len(terms):
        return None
    log_mixture = np.logaddexp.reduce(terms @ path.coefficients[rungs[1:]][used].T + offsets[used], axis=1)
    log_w = terms @ path.target_coefficients - log_mixture
    w = np.zeros(draws.rung.shape)
    w[is_mine] = np.exp(log_w - log_w.max())
    w /= w.sum()
    return w if 1.0 / np.sum(w**2) >= FEW_EFFECTIVE_OF_A_LEG else None


def _quantities(draws: TemperedDraws) -> Iterator[tuple[str, Floats]]:
    """Yield every named value, and which component of the mixture each draw belongs to, one column a component.

    Where there is one mode its components are no places that chains may have missed.
    """
    for name, array in draws.values.items():
        yield f"'{name}'", np.asarray(array, dtype=float).reshape(*draws.rung.shape, -1)
    found = None if has_one_mode(draws) else component_indicators(draws)
    if found is not None:
        yield "the masses of modes", found


def component_indicators(draws: TemperedDraws) -> Floats | None:
    """Return which component of the quick end's mixture each draw belongs to; None where there is only one.

    Components are modes, or parts of bent ones: functions that tell whether chains have all seen the same places.
    """
    path = draws.path
    if not path.references:
        return None
    mixture = path.references[-1].mixture
    if mixture.n_components < 3:  # one, and the broad one
        return None
    positions = positions_of(draws)
    if positions is None:
        return None
    owner = np.argmax(mixture.log_parts(positions.values)[..., :-1], axis=-1)
    masses = np.bincount(owner.ravel(), draws.weights().ravel(), mixture.n_components - 1)
    heavy = np.flatnonzero(masses > LIGHT * masses.sum())
    return np.asarray(owner[..., None] == heavy, dtype=float) if heavy.size > 1 else None


def _about_weights(draws: TemperedDraws | TemperedSums) -> list[str]:
    ess = draws.ess()
    if ess >= FEW_EFFECTIVE:
        return []
    what = "draw more" if draws.path.has_two_legs else "draw more, or add rungs near k = 1"
    return [f"all draws together are worth about {ess:.0f} independent cold draws: {what}."]


def _about_quantities(ess: dict[str, float], r_hat: dict[str, float]) -> list[str]:
    said = []
    for name in ess:
        if ess[name] < FEW_EFFECTIVE:
            said.append(f"{name!r} has only {ess[name]:.0f} effective draws: draw more.")
        if r_hat[name] > LARGE_R_HAT:
            said.append(
                f"chains disagree about {name!r} (R-hat {r_hat[name]:.2f}): they have not all seen the same places; "
                "draw more."
            )
    return said


def _about_unknown(draws: TemperedDraws, quantities: list[tuple[str, Floats]]) -> list[str]:
    """Speak of values that are NaN or infinite at draws that count."""
    said, counts = [], draws.weights() > 0
    for name, flat in quantities:
        n = int(np.sum(~np.isfinite(flat).all(axis=-1) & counts))
        if n:
            said.append(f"{name} is NaN or infinite at {n} of {counts.sum()} draws: its mean is not known.")
    return said


def _by_quantity(
    draws: TemperedDraws, quantities: list[tuple[str, Floats]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return effective draws and split R-hat of each named value under the weights, its worst coordinate."""
    ess, r_hat = {}, {}
    for label, flat in quantities:
        name = label.strip("'")
        mean = draws.estimate(flat)
        with np.errstate(invalid="ignore"):
            variance = draws.variance(flat)
        error = np.ravel(mean.standard_error)
        moving = (error > 0) & varies(np.ravel(mean.value), variance)
        ess[name] = float(np.min(variance[moving] / error[moving] ** 2)) if moving.any() else float(draws.rung.size)
        found = [weighted_r_hat(flat[..., i], draws) for i in np.flatnonzero(moving)]
        r_hat[name] = max(found, default=1.0)
    return ess, r_hat


def spread_between(means: Floats, shares: Floats) -> Any:
    """Return the variance between means whose weights are shares; with equal ones it is the usual, unbiased one.

    Examples
    --------
    >>> round(float(spread_between(np.array([1.0, 2.0, 4.0]), np.full(3, 1 / 3))), 6)  # np.var(..., ddof=1)
    2.333333
    """
    others = 1.0 - shares @ shares
    return shares @ (means - shares @ means) ** 2 / others if others > 0 else means[0] * np.inf


def weighted_r_hat(values: Floats, draws: TemperedDraws, rule: str | None = None) -> float:
    """Return the split R-hat of one quantity under the weights; NaN where there is only one unit to compare.

    Halves of chains (of ensembles, for coupled ones) give self-normalised means; their variance is set against the
    variance of the quantity. Each counts by its weight: one that was on hot rungs all the while has little to say.
    A population, carried from hot to cold, has no halves alike: it is compared whole.
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

    w, h = halves(weights), halves(np.where(weights > 0, values, 0.0))  # draws that do not count may be infinite
    total = w.sum(axis=1)
    kept = total > 0
    if kept.sum() < 2:
        return float("inf")
    w, h, total = w[kept], h[kept], total[kept]
    mean, share = np.sum(w * h, axis=1) / total, total / total.sum()
    if not np.all(np.isfinite(mean)):
        return float("nan")
    within = share @ (np.sum((np.sqrt(w) * (h - mean[:, None])) ** 2, axis=1) / total)
    between = spread_between(mean, share)
    if not varies(share @ mean, within + between):
        return 1.0
    return float(np.sqrt(1.0 + between / within)) if within > 0 else float("inf")
