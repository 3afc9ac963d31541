r"""Importance tempering on discrete spaces: chains that never reject, with weights in place of rejections.

At a state x every neighbour y gets the rate :math:`h(\pi(y) / \pi(x))`, with h a balancing function,
:math:`h(r) = r h(1/r)`. The chain goes to y with probability proportional to its rate, and x counts with weight
:math:`1 / Z(x)`, one over the sum of the rates: the mean time a jump process with these rates stays (Zanella 2020;
Zhou & Smith 2022; Li, Smith & Zhou 2023). Tempered Gibbs sampling (Zanella & Roberts 2019) is the same idea for
coordinates with known conditionals. Rungs of a ladder multiply their weights into these.
"""

from tempering.informed.balancing import BALANCING, Balancing, log_balancing, tempered_form
from tempering.informed.neighbourhood import Moves, Neighbourhood
from tempering.informed.run import InformedRun, Verdict
from tempering.informed.sampling import sample_informed
from tempering.informed.tempered_gibbs import FiniteConditionals, NormalConditionals, TemperedGibbs

__all__ = [
    "BALANCING",
    "Balancing",
    "FiniteConditionals",
    "InformedRun",
    "Moves",
    "Neighbourhood",
    "NormalConditionals",
    "TemperedGibbs",
    "Verdict",
    "log_balancing",
    "sample_informed",
    "tempered_form",
]
