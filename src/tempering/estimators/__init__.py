"""Arrays in, arrays out: weights, sample sizes, combination rules, MBAR, evidence and standard errors.

Nothing here knows of a sampler. Draws come as arrays with leading axes (draw,) or (chain, draw), in time
order.
"""

from tempering.estimators.autocorrelation import ess_of_autocorrelation, ess_of_autocorrelation_per_rung
from tempering.estimators.balance import balance_heuristic
from tempering.estimators.combine import Combination, combine, weighted_estimate
from tempering.estimators.mbar import mbar, mbar_from_matrix
from tempering.estimators.mbar_result import Mbar
from tempering.estimators.pareto import generalised_pareto_shape, pareto_k, pareto_k_per_rung
from tempering.estimators.rules import (
    DEFAULT_RULE,
    RULES,
    Rule,
    autocorrelation_adjusted,
    cold_only,
    equal,
    ess_optimal,
    pooled,
    screened,
)
from tempering.estimators.rung_sums import RungSums
from tempering.estimators.standard_error import Estimate, covariance_of_sum, standard_error_of_sum
from tempering.estimators.weights import (
    combined_ess,
    combined_log_weights,
    combined_mean,
    cv2,
    ess_of_weights,
    kish_ess,
    rung_means,
)

__all__ = [
    "DEFAULT_RULE",
    "RULES",
    "Combination",
    "Estimate",
    "Mbar",
    "Rule",
    "RungSums",
    "autocorrelation_adjusted",
    "balance_heuristic",
    "cold_only",
    "combine",
    "combined_ess",
    "combined_log_weights",
    "combined_mean",
    "covariance_of_sum",
    "cv2",
    "equal",
    "ess_of_autocorrelation",
    "ess_of_autocorrelation_per_rung",
    "ess_of_weights",
    "ess_optimal",
    "generalised_pareto_shape",
    "kish_ess",
    "mbar",
    "mbar_from_matrix",
    "pareto_k",
    "pareto_k_per_rung",
    "pooled",
    "rung_means",
    "screened",
    "standard_error_of_sum",
    "weighted_estimate",
]
