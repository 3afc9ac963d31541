"""What a rule may look at, wherever it comes from: draws, running sums, or a model that keeps sums of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tempering.estimators.arrays import Floats
from tempering.estimators.rung_sums import RungSums


@dataclass(frozen=True, eq=False)
class RungStatistics:
    """Statistics of the weights of each rung; what is dear is computed when it is first asked for.

    Attributes
    ----------
    sums : RungSums
        T_i, W_i and the sums of squared weights.
    find_pareto_k, find_ess_of_autocorrelation : callable
        What computes `pareto_k` and `ess_of_autocorrelation`.
    cold : int
        The rung that is the target.
    """

    sums: RungSums
    find_pareto_k: Callable[[], Floats]
    find_ess_of_autocorrelation: Callable[[], Floats]
    cold: int = 0

    @cached_property
    def pareto_k(self) -> Floats:
        """Pareto k-hat of each rung's weights."""
        return self.find_pareto_k()

    @cached_property
    def ess_of_autocorrelation(self) -> Floats:
        """ESS_rho (Eq. 11) of each rung's own draws, of the values that are to be estimated."""
        return self.find_ess_of_autocorrelation()
