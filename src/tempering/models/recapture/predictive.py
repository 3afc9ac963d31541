"""Posterior predictive check of the m- and d-arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.models.recapture.release_arrays import ReleaseArrays

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Freeman-Tukey discrepancies, sum (sqrt(count) - sqrt(expected))^2, one a draw from the posterior.

    ``observed`` and ``replicated`` map ``recaptured``, ``recovered`` (where the study has them) and ``all`` to
    arrays (replicate,);
    ``expected`` (R, 2K + 1) is the posterior mean of the expected arrays.
    """

    observed: dict[str, Floats]
    replicated: dict[str, Floats]
    expected: Floats

    def p_value(self, part: str = "all") -> float:
        """Return the share of replicates at least as discrepant as the data: near 0 means a poor fit."""
        return float(np.mean(self.replicated[part] >= self.observed[part]))

    def table(self) -> pd.DataFrame:
        """Tabulate mean discrepancies and p-values."""
        rows = [
            (part, self.observed[part].mean(), self.replicated[part].mean(), self.p_value(part))
            for part in self.observed
        ]
        return pd.DataFrame(rows, columns=["part", "observed", "replicated", "p_value"])


def next_encounter_probabilities(values: Floats, start: int, age: int) -> Floats:
    """Return the law of the next encounter after a release: alive by interval, dead by interval, never.

    Parameters
    ----------
    values : (n, 3, K, A)
        Parameter tables.
    start, age : int
        Interval of the release and age class, both from 0.

    Returns
    -------
    (n, 2K + 1) array
        Rows sum to one.
    """
    n, _, n_intervals, n_classes = values.shape
    law = np.zeros((n, 2 * n_intervals + 1))
    unseen = np.ones(n)
    for t in range(start, n_intervals):
        phi, p, lam = values[:, :, t, min(age + t - start, n_classes - 1)].T
        law[:, t] = unseen * phi * p
        law[:, n_intervals + t] = unseen * (1 - phi) * lam
        unseen = unseen * phi * (1 - p)
    law[:, -1] = np.maximum(1 - law.sum(axis=1), 0.0)
    return law


def check_arrays(rng: np.random.Generator, arrays: ReleaseArrays, values: Floats) -> PredictiveCheck:
    """Simulate the arrays once for each parameter table (n, 3, K, A), releases as in the data."""
    n, n_intervals = len(values), arrays.n_intervals
    classes = arrays.classes(values.shape[3])
    parts: dict[str, Any] = {
        "recaptured": slice(0, n_intervals),
        "recovered": slice(n_intervals, 2 * n_intervals),
        "all": slice(0, 2 * n_intervals + 1),
    }
    for part, collected in (("recaptured", arrays.live), ("recovered", arrays.dead)):
        if not collected:
            del parts[part]
    observed = {part: np.zeros(n) for part in parts}
    replicated = {part: np.zeros(n) for part in parts}
    expected_mean = np.zeros((len(classes), 2 * n_intervals + 1))
    for row, (start, age) in enumerate(zip(arrays.interval, classes, strict=True)):
        law = next_encounter_probabilities(values, int(start), int(age))
        expected = arrays.released[row] * law
        counts = np.concatenate([arrays.recaptured[row], arrays.recovered[row], arrays.never[row : row + 1]])
        drawn = rng.multinomial(arrays.released[row], law / law.sum(axis=1, keepdims=True))
        expected_mean[row] = expected.mean(axis=0)
        for part, where in parts.items():
            observed[part] += ((np.sqrt(counts) - np.sqrt(expected)) ** 2)[:, where].sum(axis=1)
            replicated[part] += ((np.sqrt(drawn) - np.sqrt(expected)) ** 2)[:, where].sum(axis=1)
    return PredictiveCheck(observed, replicated, expected_mean)
