"""Whether a run went everywhere: its journeys between the rungs, and how well it knows the time dependence."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempering.models.recapture.likelihood import PARAMETERS
from tempering.runs.diagnosis import FEW_EFFECTIVE, FEW_ROUND_TRIPS, LARGE_R_HAT, weighted_r_hat

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult

IN_DOUBT = (0.05, 0.95)  # probabilities of time dependence that a run must know well


@dataclass(frozen=True)
class Mixing:
    """How a run moved.

    Attributes
    ----------
    n_rungs, n_round_trips : int
        Temperatures, and journeys from the cold one to the hottest and back.
    unvisited : tuple of int
        Rungs without draws.
    in_doubt : dict of str to (float, float)
        Effective draws and R-hat of each time dependence that is neither sure nor excluded.

    Examples
    --------
    >>> print(Mixing(10, 240, (), {"p 3": (830.0, 1.01)}))
    Mixing: 240 round trips, 10 of 10 temperatures visited; 830 effective draws of the time dependence of p 3.
    """

    n_rungs: int
    n_round_trips: int
    unvisited: tuple[int, ...]
    in_doubt: dict[str, tuple[float, float]]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong, and what to do about it."""
        said = []
        if self.unvisited:
            said.append(f"rungs {', '.join(map(str, self.unvisited))} were never visited: tune for longer.")
        if self.n_rungs > 1 and self.n_round_trips < FEW_ROUND_TRIPS:
            said.append(
                f"only {self.n_round_trips} round trips between the coldest and the hottest temperature: draw more, "
                "or add rungs."
            )
        few = [f"{name} ({n:.0f})" for name, (n, _) in self.in_doubt.items() if n < FEW_EFFECTIVE]
        if few:
            said.append(
                f"fewer than {FEW_EFFECTIVE:.0f} effective draws of the time dependence of {', '.join(few)}: draw more."
            )
        torn = [f"{name} ({r:.2f})" for name, (_, r) in self.in_doubt.items() if r > LARGE_R_HAT]
        if torn:
            said.append(
                f"chains disagree (R-hat) about the time dependence of {', '.join(torn)}: draw more, or heat further."
            )
        return tuple(said)

    def __str__(self) -> str:
        visited = self.n_rungs - len(self.unvisited)
        head = f"Mixing: {self.n_round_trips} round trips, {visited} of {self.n_rungs} temperatures visited"
        if self.in_doubt:
            worst = min(self.in_doubt, key=lambda name: self.in_doubt[name][0])
            head += f"; {self.in_doubt[worst][0]:.0f} effective draws of the time dependence of {worst}"
        return "\n".join([f"{head}.", *(f"Warning: {sentence}" for sentence in self.warnings)])


def mixing_of(result: "RecaptureResult", rule: str) -> Mixing:
    """Look at the journeys, and at every time dependence that is in doubt."""
    draws = result.draws
    table = result.time_dependence(rule)
    places = zip(table["parameter"], table["age_class"], strict=True)
    figures = table[["probability", "standard_error"]].to_numpy(float)
    in_doubt = {}
    for i, ((name, age_class), (p, error)) in enumerate(zip(places, figures, strict=True)):
        if IN_DOUBT[0] < p < IN_DOUBT[1]:
            codes = draws.values["model"][..., PARAMETERS.index(name)]
            flag = (codes >> i % result.space.n_classes & 1).astype(float)
            effective = float(p * (1 - p) / max(error**2, 1e-300))
            in_doubt[f"{name} {age_class}"] = (effective, weighted_r_hat(flag, draws))
    unvisited = tuple(np.flatnonzero(draws.visits == 0).tolist())
    return Mixing(len(draws.ladder), draws.n_round_trips, unvisited, in_doubt)
