r"""Combination rules: how much each rung's estimate counts (lambda in Eq. 5).

Each rule turns statistics of the rungs into shares: not negative, summing to one, none for a rung without weight. A row
of `RULES`, at the end, makes it known to draws, to sums and to the models at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tempering.errors import EstimatorError
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


DEFAULT_RULE = "mbar"  # the smallest worst case of all rules (benchmarks/default_rule.py)
RULE_WITHOUT_ENERGIES = "screened"  # for draws of which only weights are known: MBAR needs their energies

# An average over weights with k-hat above 0.7 cannot be relied upon at any sample size (Vehtari et al. 2024)
PARETO_K_LIMIT = 0.7
# Self-normalised estimates from few effective draws are biased, which k-hat from a few hundred draws does not
# always see. Mean square errors of E|x|^2 relative to the cold rung's, iid draws of N(0, I_d)^k, 40 rungs,
# k_m = 0.1, T = 20 000, for d = 5, 20, 50, 200: 0.061, 0.182, 0.361, 0.661 with k-hat alone, 0.060, 0.165,
# 0.317, 0.598 with a tenth, 0.062, 0.163, 0.292, 0.537 with a fifth, 0.080, 0.179, 0.292, 0.646 with a half;
# the bias halves from a tenth to a fifth. Plain lambda*: 0.063, 1.6, 15.6, 315.
MINIMUM_ESS_PER_DRAW = 0.2


class CombinationRule(NamedTuple):
    """A row of `RULES`."""

    shares: Callable[[RungStatistics], Floats] | None  # None: each draw has a weight of its own, by MBAR
    looks_at_values: bool = False  # whether the shares depend on what is estimated


def check_rule(rule: str) -> str:
    """Return the rule's name, or say which there are."""
    if not isinstance(rule, str) or rule not in RULES:
        raise EstimatorError(f"rule must be one of {', '.join(RULES)}, but got {rule!r}.")
    return rule


def shares_by(rule: str, statistics: RungStatistics) -> Floats:
    """Return the share of each rung by any rule but ``mbar``."""
    shares = RULES[check_rule(rule)].shares
    if shares is None:
        raise EstimatorError(
            f"The rule {rule!r} weighs single draws: its shares do not follow from statistics of rungs."
        )
    return shares(statistics)


def cold_only(sums: RungSums, cold: int = 0) -> Floats:
    """Use the cold rung alone: simulated tempering as it is usually run.

    Examples
    --------
    >>> cold_only(RungSums.from_log_weights(np.zeros(3), [0, 1, 1]))
    array([1., 0.])
    """
    if not sums.has_weight[cold]:
        raise EstimatorError(
            f"cold_only needs a draw at rung {cold}, but there is none among {int(sums.n_draws.sum())} draws. "
            "Choose another rule, such as 'screened', or sample for longer."
        )
    return np.asarray(np.eye(1, sums.n_rungs, cold)[0])


def pooled(sums: RungSums) -> Floats:
    r"""Weight all draws alike, :math:`\lambda_i = W_i / W`: naive importance tempering (Eq. 2).

    It depends on the constant in log pi, which is arbitrary.

    Examples
    --------
    >>> pooled(RungSums.from_log_weights(np.log([3.0, 1.0]), [0, 1]))
    array([0.75, 0.25])
    """
    _check_some_weight(sums)
    return _normalised(np.exp(sums.log_sum - sums.log_sum.max()))


def equal(sums: RungSums) -> Floats:
    r"""Weight all rungs that have weight alike, :math:`\lambda_i = 1 / m`.

    Examples
    --------
    >>> equal(RungSums.from_log_weights([0.0, 5.0], [0, 3]))
    array([0.5, 0. , 0. , 0.5])
    """
    _check_some_weight(sums)
    return _normalised(sums.has_weight.astype(np.float64))


def ess_optimal(sums: RungSums) -> Floats:
    r"""Weight each rung by its own effective sample size.

    .. math:: \lambda_i^* \propto \ell_i = W_i^2 / \textstyle\sum_j w_{ij}^2

    which maximises the effective sample size of the combined weights (Proposition 2.1). Since :math:`\ell_i
    \ge 1`, a rung whose weights are worthless still gets a share: `screened` is the safe form.

    Examples
    --------
    >>> ess_optimal(RungSums.from_log_weights([0.0, 0.0, 0.0, -np.inf, 0.0], [0, 0, 0, 1, 1]))
    array([0.75, 0.25])
    """
    _check_some_weight(sums)
    return _normalised(sums.kish_ess)


def screened(sums: RungSums, pareto_k: ArrayLike) -> Floats:
    r"""Weight by effective sample size the rungs whose weights can be trusted.

    A rung is trusted where its effective sample size is at least a fifth of its draws and its Pareto :math:`\hat k`
    is below 0.7, as it always is where the largest weight is below three times the mean. Where no rung is trusted, all
    are used, as by `ess_optimal`.

    Parameters
    ----------
    sums : RungSums
        Sums of the weights of each rung.
    pareto_k : array_like, shape (n_rungs,)
        From `pareto_k_per_rung`.

    Examples
    --------
    >>> screened(RungSums.from_log_weights(np.zeros(5), [0, 0, 0, 1, 1]), [-np.inf, 0.9])
    array([1., 0.])
    """
    _check_some_weight(sums)
    enough = sums.ess_of_weights >= MINIMUM_ESS_PER_DRAW * sums.n_draws
    trusted = sums.has_weight & enough & (np.asarray(pareto_k) < PARETO_K_LIMIT)
    return _normalised(np.where(trusted, sums.kish_ess, 0.0)) if trusted.any() else ess_optimal(sums)


def autocorrelation_adjusted(sums: RungSums, ess_of_autocorrelation: ArrayLike) -> Floats:
    r"""Weight each rung by :math:`T_i^{-1} \mathrm{ESS}_\rho(\theta_i) \, \mathrm{ESS}(w_i)` (the paper's
    discussion).

    Parameters
    ----------
    sums : RungSums
        Sums of the weights of each rung.
    ess_of_autocorrelation : array_like, shape (n_rungs,)
        From `ess_of_autocorrelation_per_rung`: needs the draws in time order.

    Examples
    --------
    >>> autocorrelation_adjusted(RungSums.from_log_weights(np.zeros(4), [0, 0, 1, 1]), [0.5, 1.5])
    array([0.25, 0.75])
    """
    _check_some_weight(sums)
    per_draw = np.asarray(ess_of_autocorrelation) / np.maximum(sums.n_draws, 1)
    return _normalised(per_draw * sums.ess_of_weights)


def _normalised(shares: Floats) -> Floats:
    return np.asarray(shares / shares.sum())


def _check_some_weight(sums: RungSums) -> None:
    if not sums.has_weight.any():
        raise EstimatorError(
            f"At least one draw must have a positive weight, but all {int(sums.n_draws.sum())} log weights "
            f"are minus infinity. No draw lies where the cold distribution does: sample for longer or use "
            f"more rungs."
        )


RULES: Mapping[str, CombinationRule] = MappingProxyType(
    {
        "cold_only": CombinationRule(lambda found: cold_only(found.sums, found.cold)),
        "pooled": CombinationRule(lambda found: pooled(found.sums)),
        "equal": CombinationRule(lambda found: equal(found.sums)),
        "ess_optimal": CombinationRule(lambda found: ess_optimal(found.sums)),
        "screened": CombinationRule(lambda found: screened(found.sums, found.pareto_k)),
        "autocorrelation_adjusted": CombinationRule(
            lambda found: autocorrelation_adjusted(found.sums, found.ess_of_autocorrelation), looks_at_values=True
        ),
        "mbar": CombinationRule(None),
    }
)
