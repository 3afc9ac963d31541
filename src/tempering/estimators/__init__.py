"""Arrays in, arrays out: weights, sample sizes, combination rules, MBAR, evidence and standard errors.

Nothing here knows of a sampler. Draws come as arrays with leading axes (draw,) or (chain, draw), in time
order.
"""

from tempering.estimators.autocorrelation import ess_of_autocorrelation, ess_of_autocorrelation_per_rung
from tempering.estimators.combine import Combination, combine, weighted_estimate
from tempering.estimators.density import DensityCurve, weighted_density
from tempering.estimators.evidence import (
    log_evidence_mbar,
    log_evidence_stepping_stone,
    thermodynamic_integration,
)
from tempering.estimators.mbar import mbar, mbar_from_matrix, mbar_from_terms
from tempering.estimators.mbar_result import Mbar
from tempering.estimators.pareto import generalised_pareto_shape, pareto_k, pareto_k_per_rung
from tempering.estimators.regeneration import RegenerativeEstimate, regenerative_ratio
from tempering.estimators.resampling import resample
from tempering.estimators.rules import (
    DEFAULT_RULE,
    RULES,
    CombinationRule,
    RungStatistics,
    autocorrelation_adjusted,
    cold_only,
    equal,
    ess_optimal,
    pooled,
    screened,
)
from tempering.estimators.rung_sums import RungSums
from tempering.estimators.running.answers import SummedCombination, combine_sums
from tempering.estimators.running.rungs import RunningRungs
from tempering.estimators.standard_error import Estimate, covariance_of_sum, standard_error_of_sum
from tempering.estimators.weighted import (
    WeightedEcdf,
    ks_distance,
    varies,
    weighted_ecdf,
    weighted_hdi,
    weighted_mean,
    weighted_quantile,
    weighted_variance,
)
from tempering.estimators.weights import (
    balance_heuristic,
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
    "CombinationRule",
    "DensityCurve",
    "Estimate",
    "Mbar",
    "RegenerativeEstimate",
    "RungStatistics",
    "RungSums",
    "RunningRungs",
    "SummedCombination",
    "WeightedEcdf",
    "autocorrelation_adjusted",
    "balance_heuristic",
    "cold_only",
    "combine",
    "combine_sums",
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
    "ks_distance",
    "log_evidence_mbar",
    "log_evidence_stepping_stone",
    "mbar",
    "mbar_from_matrix",
    "mbar_from_terms",
    "pareto_k",
    "pareto_k_per_rung",
    "pooled",
    "regenerative_ratio",
    "resample",
    "rung_means",
    "screened",
    "standard_error_of_sum",
    "thermodynamic_integration",
    "varies",
    "weighted_density",
    "weighted_ecdf",
    "weighted_estimate",
    "weighted_hdi",
    "weighted_mean",
    "weighted_quantile",
    "weighted_variance",
]
