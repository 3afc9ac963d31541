"""Movement between states: the counts that its likelihood needs (`states`), who goes where, and a predictive check."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.figures import FIGURES
from tempering.models.recapture.histories import ADULT, Histories
from tempering.models.recapture.layout import DESTINATION, LAMBDA, MOVEMENT, PHI, P
from tempering.models.recapture.predictive import PredictiveCheck, compared
from tempering.models.recapture.stages import staged_names

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult


def counts_by_state(data: Histories, n_classes: int) -> Counts:
    """Count releases by column and next encounters by interval and state; there is no other sufficient statistic."""
    n_states, n_intervals = len(data.states), data.n_intervals
    groups = staged_names(data.groups if len(data.groups) > 1 else ("",), data.states)
    moves = np.zeros((n_intervals, len(groups) * n_classes, n_intervals * (n_states + 1) + 1), np.int64)
    rows = zip(data.codes, data.seen_in, data.age, data.number, data.group, strict=True)
    for codes, seen_in, age, number, group in rows:
        met = np.flatnonzero(codes)
        for here, there in zip(met, [*met[1:], None], strict=True):
            if codes[here] == 2 or here == n_intervals or (there is None and number < 0):
                continue
            completed = n_classes - 1 if age == ADULT else min(int(age + here - met[0]), n_classes - 1)
            column = ((group - 1) * n_states + seen_in[here]) * n_classes + completed
            place = -1
            if there is not None:
                dead, alive = n_intervals * n_states + there - 1, (there - 1) * n_states + seen_in[there]
                place = dead if codes[there] == 2 else alive
            moves[here, column, place] += abs(number)
    nothing = np.zeros((len(groups) * n_classes, n_intervals), np.int64)
    return Counts(
        nothing, nothing, nothing, nothing, data.years[:-1], data.tail, dead=data.dead, groups=groups, notes=data.notes,
        lengths=np.diff(data.years).astype(float) if data.lengths is None else data.lengths,
        unsampled=tuple(t - 1 for t in data.unsampled if t > 0), stages=data.states, moves=moves,
    )  # fmt: skip


def transitions(psi: NDArray[np.float64], to: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return matrices (..., from, to) of the movement of survivors.

    Examples
    --------
    >>> transitions(np.array([0.2, 0.5]), None)
    array([[0.8, 0.2],
           [0.5, 0.5]])
    """
    n = psi.shape[-1]
    out = np.zeros((*psi.shape, n))
    for r in range(n):
        others = [s for s in range(n) if s != r]
        out[..., r, r] = 1 - psi[..., r]
        shares = [np.ones_like(psi[..., r])] if to is None else [to[..., r], 1 - to[..., r]]
        for s, share in zip(others, shares, strict=True):
            out[..., r, s] = psi[..., r] * share
    return out


def next_met_probabilities(counts: Counts, values: NDArray[np.float64], start: int, c: int) -> NDArray[np.float64]:
    """Return the law of the next encounter after a release in a column, for every table of values (n, Q, K, C).

    It goes over states by interval, dead by interval, and never, as the columns of ``counts.moves``.
    """
    n_states, n_ages, k = len(counts.stages), counts.n_age_classes, counts.n_intervals
    where = np.array([c - c // n_ages % n_states * n_ages + s * n_ages for s in range(n_states)])
    here = np.broadcast_to((where == c).astype(float), (len(values), n_states))
    law = np.zeros((len(values), k * (n_states + 1) + 1))
    for t in range(start, k):
        phi, p, found, psi, to = (values[:, q, t][:, where] for q in (PHI, P, LAMBDA, MOVEMENT, DESTINATION))
        law[:, k * n_states + t] = (here * (1 - phi) * found).sum(axis=1)
        there = np.einsum("nr,nrs->ns", here * phi, transitions(psi, to if n_states > 2 else None))
        law[:, t * n_states : (t + 1) * n_states] = there * p
        here = there * (1 - p)
        where = np.array(counts.following)[where]
    law[:, -1] = np.maximum(1 - law.sum(axis=1), 0.0)
    return law


def check_moves(rng: np.random.Generator, counts: Counts, values: NDArray[np.float64]) -> PredictiveCheck:
    """Simulate the next encounters once for each parameter table, releases as in the data."""
    released = np.argwhere(counts.moves.sum(axis=2))
    rows = ((counts.moves[t, c], next_met_probabilities(counts, values, int(t), int(c))) for t, c in released)
    return compared(rng, rows, counts.n_intervals * len(counts.stages), counts.live, counts.dead)


def transition_table(result: "RecaptureResult", rule: str, interval: float) -> pd.DataFrame:
    """Tabulate the probability that a survivor moves, by group and age, averaged over years and models."""
    counts = result.counts
    if counts.moves is None:
        raise InputError("The data have no states. Read histories with a letter for each state.")
    states, n_ages = counts.stages, counts.n_age_classes
    places, columns = [], []
    for first in range(0, counts.n_columns, n_ages * len(states)):
        for age, name in enumerate(counts.class_names()):
            where = [first + s * n_ages + age for s in range(len(states))]
            psi, to = (
                np.stack([result._mean_over_years(q, c) for c in where], axis=-1) if q in result.parameters else None
                for q in ("psi", "to")
            )
            assert psi is not None
            matrix = transitions(psi, to)
            group = counts.groups[first // n_ages].removesuffix(states[0]).strip()
            for r, s in np.ndindex(len(states), len(states)):
                places.append((group, name, states[r], states[s]))
                columns.append(matrix[..., r, s])
    table = pd.DataFrame(places, columns=["group", "age_class", "from", "to"])
    table = table.assign(**dict(zip(FIGURES, result.averaging.figures(columns, rule, interval).T, strict=True)))
    one = [name for name in ("group", "age_class") if table[name].nunique() == 1]
    return table.drop(columns=one)
