"""Whether a run went everywhere: its journeys between the rungs, and how well it knows the time dependence."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempering.runs.diagnosis import FEW_EFFECTIVE, LARGE_R_HAT, weighted_r_hat

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult

FEW_ROUND_TRIPS = 20  # of all ensembles; a rule of thumb, which `benchmarks.recapture_round_trips` is there to replace
NEGLIGIBLE = 0.01  # a probability that is below it by two standard errors needs no warning, whatever its error


@dataclass(frozen=True)
class Doubt:
    """What a run knows of one indicator: its probability, standard error, effective draws and R-hat."""

    probability: float
    standard_error: float
    effective: float
    r_hat: float

    @property
    def is_rough(self) -> bool:
        """Whether the standard error is as large as the probability itself (or that of the opposite)."""
        return self.standard_error > 0 and self.standard_error >= min(self.probability, 1 - self.probability)

    @property
    def is_negligible(self) -> bool:
        """Whether the indicator is settled for all that matters."""
        return min(self.probability, 1 - self.probability) + 2 * self.standard_error < NEGLIGIBLE

    def __str__(self) -> str:
        return f"{self.probability:.3f} ± {self.standard_error:.3f}"


@dataclass(frozen=True)
class Mixing:
    """How a run moved.

    Attributes
    ----------
    n_rungs, n_round_trips : int
        Temperatures, and journeys from the cold one to the hottest and back.
    unvisited : tuple of int
        Rungs without draws.
    indicators : dict of str to Doubt
        What the run knows of each time dependence and each effect that is neither sure nor excluded.

    Examples
    --------
    >>> print(Mixing(10, 240, (), {"time dependence of p 3": Doubt(0.2, 0.01, 830.0, 1.01)}))
    Mixing: 240 round trips, 10 of 10 temperatures visited; 830 effective draws of time dependence of p 3.
    """

    n_rungs: int
    n_round_trips: int
    unvisited: tuple[int, ...]
    indicators: dict[str, Doubt]

    @property
    def in_doubt(self) -> dict[str, Doubt]:
        """The indicators that are neither sure nor excluded."""
        return {name: doubt for name, doubt in self.indicators.items() if not doubt.is_negligible}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong, and what to do about it."""
        said = []
        if self.unvisited:
            said.append(f"rungs {', '.join(map(str, self.unvisited))} were never visited: tune for longer.")
        if self.n_rungs > 1 and self.n_round_trips < FEW_ROUND_TRIPS:
            said.append(
                f"only {self.n_round_trips} round trips between the coldest and the hottest temperature "
                f"({FEW_ROUND_TRIPS} are asked for): draw more."
            )
        rough = [f"{name} ({doubt})" for name, doubt in self.in_doubt.items() if doubt.is_rough]
        if rough:
            said.append(f"the standard error is as large as the probability of {', '.join(rough)}: draw more.")
        few = [
            f"{name} ({doubt.effective:.0f})"
            for name, doubt in self.in_doubt.items()
            if doubt.effective < FEW_EFFECTIVE and not doubt.is_rough
        ]
        if few:
            said.append(f"fewer than {FEW_EFFECTIVE:.0f} effective draws of {', '.join(few)}: draw more.")
        torn = [f"{name} ({doubt.r_hat:.2f})" for name, doubt in self.in_doubt.items() if doubt.r_hat > LARGE_R_HAT]
        if torn:
            said.append(f"chains disagree (R-hat) about {', '.join(torn)}: draw more.")
        return tuple(said)

    @property
    def rare(self) -> tuple[str, ...]:
        """Indicators below one in a hundred that are known only roughly."""
        return tuple(name for name, doubt in self.indicators.items() if doubt.is_negligible and doubt.is_rough)

    def __str__(self) -> str:
        visited = self.n_rungs - len(self.unvisited)
        head = f"Mixing: {self.n_round_trips} round trips, {visited} of {self.n_rungs} temperatures visited"
        if self.in_doubt:
            worst = min(self.in_doubt, key=lambda name: self.in_doubt[name].effective)
            head += f"; {self.in_doubt[worst].effective:.0f} effective draws of {worst}"
        return "\n".join([f"{head}.", *(f"Warning: {sentence}" for sentence in self.warnings)])


def mixing_of(result: "RecaptureResult", rule: str) -> Mixing:
    """Look at the journeys, at every time dependence and at every effect."""
    draws = result.draws
    flags = [
        (f"time dependence of {' '.join(filter(None, (name, *result.label(name, c))))}", flag)
        for name, c, flag in result.time_flags()
    ]
    flags += [
        (f"{effect} in {name}", flag)
        for name in result.parameters
        for effect, flag in result.effect_flags(name)
        if effect != "time"
    ]
    varying = [(name, flag.astype(float)) for name, flag in flags if flag.any() and not flag.all()]
    errors = result.averaging.errors([flag for _, flag in varying], rule)
    weights = draws.weights(rule)
    indicators = {}
    for (name, flag), error in zip(varying, errors, strict=True):
        p = float((weights * flag).sum())
        if p * (1 - p) > 0 and error > 0:
            effective = float(p * (1 - p) / max(float(error) ** 2, 1e-300))
            indicators[name] = Doubt(p, float(error), effective, weighted_r_hat(flag, draws, rule))
    unvisited = tuple(np.flatnonzero(draws.visits == 0).tolist())
    return Mixing(len(draws.ladder), draws.n_round_trips, unvisited, indicators)
