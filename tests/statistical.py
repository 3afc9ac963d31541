"""Checks on random output, each with a stated false-alarm rate.

Levels 4, 5 and 7 of the testing rules in ``docs/design.md``. Red means bug: nobody loosens a cut.

Where an estimate is compared with its own standard error the cut is 5 of them, 6e-7 if errors are well known, or 6,
which is 1.2e-6 by Student's t for errors from 32 batches, the fewest there are; of 39 quantities it is 7, 3e-6.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from seeds import SEED_OFFSET

FALSE_ALARM_RATE = 1e-6  # per assertion, divided over its quantities


def seeded_rng(name: str) -> np.random.Generator:
    """Give each test a stream of its own, from its name."""
    return np.random.default_rng([SEED_OFFSET, *name.encode()])


def worst_t(truth: Any, replicates: Any) -> float:
    """Return the largest |t| of independent replicates against ``truth``."""
    x = np.asarray(replicates, float).reshape(len(replicates), -1)
    standard_error = x.std(axis=0, ddof=1) / np.sqrt(len(x))
    difference = x.mean(axis=0) - np.ravel(truth)
    t = np.where(difference == 0.0, 0.0, np.abs(difference) / np.where(standard_error > 0, standard_error, 1e-300))
    return float(t.max())


def student_cut(n_replicates: int, n_quantities: int, false_alarm_rate: float = FALSE_ALARM_RATE) -> float:
    """Return the two-sided Student cut, Bonferroni-divided over the quantities."""
    return float(stats.t.isf(false_alarm_rate / n_quantities / 2, n_replicates - 1))


def assert_mean_is(truth: Any, replicates: Any, *, false_alarm_rate: float = FALSE_ALARM_RATE) -> None:
    """Check that independent replicates (first axis) have mean ``truth``."""
    x = np.asarray(replicates, float).reshape(len(replicates), -1)
    cut = student_cut(*x.shape, false_alarm_rate)
    t = worst_t(truth, x)
    assert t < cut, f"worst |t| {t:.1f} over {x.shape[1]} quantities; the cut is {cut:.1f} with {len(x)} replicates"


def assert_mean_is_not(truth: Any, replicates: Any, *, margin: float = 1.3) -> None:
    """Check that a control is rejected, by a margin over the cut of `assert_mean_is`."""
    x = np.asarray(replicates, float).reshape(len(replicates), -1)
    cut = student_cut(*x.shape)
    t = worst_t(truth, x)
    assert t > margin * cut, f"the control was not seen: worst |t| {t:.1f}, needed {margin * cut:.1f}"


def assert_variance_is_one(z: Any, *, false_alarm_rate: float = FALSE_ALARM_RATE) -> None:
    """Check that independent z-scores have variance 1 (chi-square cut)."""
    z = np.asarray(z, float)
    statistic = float(np.sum(z**2))
    p = 2 * min(stats.chi2.cdf(statistic, z.size), stats.chi2.sf(statistic, z.size))
    assert p > false_alarm_rate, f"sum of {z.size} squared z-scores is {statistic:.1f}; two-sided p = {p:.1e}"


def stationary_differences(
    step: Callable[[Any, Any], Any],
    draw_target: Callable[[Any], Any],
    statistics: Callable[[Any], Any],
    rng: np.random.Generator,
    n_replicates: int = 4000,
) -> Any:
    """Return statistics(after) - statistics(before) from exact draws of the target, one row a replicate."""
    rows = []
    for _ in range(n_replicates):
        before = draw_target(rng)
        old = np.asarray(statistics(before), float)
        rows.append(np.asarray(statistics(step(rng, before)), float) - old)
    return np.array(rows)
