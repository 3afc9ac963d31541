"""Posterior predictive check of the m- and d-arrays."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tempering.arrays import Floats
from tempering.models.recapture.release_arrays import ReleaseArrays

POOR = 0.025  # of p-values of the check, below which a fit is called poor
DOUBTFUL = 0.1


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

    def __str__(self) -> str:
        words = {"recaptured": "birds seen again", "recovered": "birds found dead", "all": "all encounters"}
        poor = [part for part in self.observed if self.p_value(part) < POOR]
        if not poor:
            verdict = "look like the data" if self.p_value() > DOUBTFUL else "look like the data, if only just"
            return (
                f"Predictive check: data simulated from the fit {verdict} (p = {self.p_value():.2f}; "
                "values near 0 would say that they do not)."
            )
        named = ", ".join(f"{words[part]} (p = {self.p_value(part):.3f})" for part in poor)
        return (
            "Predictive check: THE MODELS DO NOT FIT. Data simulated from the fit are closer to what it expects than "
            f"the real data are, for {named}. Estimates may be biased and intervals too narrow. Think of birds that "
            "leave for good (fidelity), of groups that differ, of more age classes, of trap-shy or trap-happy birds."
        )


def next_encounter_probabilities(values: Floats, start: int, path: Sequence[int]) -> Floats:
    """Return the law of the next encounter after a release: alive by interval, dead by interval, never.

    Parameters
    ----------
    values : (n, Q, K, C)
        Parameter tables, survival over whole intervals.
    start : int
        Interval of the release, from 0.
    path : sequence of int
        The bird's column in that interval and the following ones.

    Returns
    -------
    (n, 2K + 1) array
        Rows sum to one.
    """
    n, _, n_intervals, _ = values.shape
    law = np.zeros((n, 2 * n_intervals + 1))
    here, away = np.ones(n), np.zeros(n)
    for t, column in zip(range(start, n_intervals), path, strict=False):
        phi, p, lam, stays = values[:, :4, t, column].T
        law[:, t] = here * phi * stays * p
        law[:, n_intervals + t] = (here + away) * (1 - phi) * lam
        away = phi * (away + here * (1 - stays))
        here = here * phi * stays * (1 - p)
    law[:, -1] = np.maximum(1 - law.sum(axis=1), 0.0)
    return law


def check_arrays(rng: np.random.Generator, arrays: ReleaseArrays, values: Floats) -> PredictiveCheck:
    """Simulate the arrays once for each parameter table (n, Q, K, C), releases as in the data."""
    n_classes = values.shape[3] // len(arrays.groups)

    def rows() -> Iterator[tuple[Any, Floats]]:
        for row, start in enumerate(arrays.interval):
            counts = np.concatenate([arrays.recaptured[row], arrays.recovered[row], arrays.never[row : row + 1]])
            path = arrays.path(row, n_classes).tolist()
            yield counts, next_encounter_probabilities(values, int(start), path)

    return compared(rng, rows(), arrays.n_intervals, arrays.live, arrays.dead)


def compared(
    rng: np.random.Generator, rows: Iterable[tuple[Any, Floats]], n_alive: int, live: bool, dead: bool
) -> PredictiveCheck:
    """Compare releases with as many that are drawn from their laws.

    A row has the counts of the next encounters, alive (so many places), dead and never, and their laws, one for each
    parameter table.
    """
    parts = {"recaptured": slice(0, n_alive), "recovered": slice(n_alive, -1), "all": slice(None)}
    parts = {part: where for part, where in parts.items() if {"recaptured": live, "recovered": dead}.get(part, True)}
    observed: dict[str, Any] = dict.fromkeys(parts, 0.0)
    replicated: dict[str, Any] = dict.fromkeys(parts, 0.0)
    expected_means = []
    for counts, law in rows:
        expected = counts.sum() * law
        drawn = rng.multinomial(counts.sum(), law / law.sum(axis=1, keepdims=True))
        expected_means.append(expected.mean(axis=0))
        for part, where in parts.items():
            for found, n in ((observed, counts), (replicated, drawn)):
                found[part] = found[part] + ((np.sqrt(n) - np.sqrt(expected)) ** 2)[:, where].sum(axis=1)
    return PredictiveCheck(observed, replicated, np.array(expected_means))
