"""Lay a study and its model space out for compiled chains."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture import layout as at
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.individuals import Individuals
from tempering.models.recapture.laws import logistic_of
from tempering.models.recapture.layout import (
    DESTINATION,
    FIDELITY,
    LAMBDA,
    MOVEMENT,
    PARAMETERS,
    PHI,
    SENIORITY,
    Floats,
    Ints,
    P,
    pack,
)
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.structures import CONSTANT, sets_of
from tempering.models.recapture.times import TimeStructures

Q = at.N_PARAMETERS
PRIOR_BASE = (0.0, 0.0)
FITTED_BASE = (0.1, 0.05)  # power of the likelihood in its laws, three times as wide; share of the prior


def free_cells(counts: Counts, present: tuple[str, ...] = ()) -> NDArray[np.bool_]:
    """Return which values ``(Q, K, C)`` exist: a bird can be there, and the study can see the event."""
    cells = np.broadcast_to(counts.active.T, (Q, counts.n_intervals, counts.n_columns)).copy()
    if counts.entered is not None:
        cells[[PHI, P, SENIORITY]] = True
        cells[np.arange(Q) != P, 0] = False
        cells[SENIORITY, -1] &= not counts.tail
    for q, name in enumerate(PARAMETERS):
        cells[q] &= name in (present or counts.parameters)
    for t in unseen_intervals(counts):
        cells[P, t] = False
        cells[FIDELITY, t] &= t != counts.n_intervals - 1 or not counts.tail
    if counts.tail:
        cells[[MOVEMENT, DESTINATION], -1] = False
    return cells


def unseen_intervals(counts: Counts) -> list[int]:
    """Return the intervals at whose end nobody looked for live birds."""
    return sorted({*counts.unsampled, *([counts.n_intervals - 1] if counts.tail else [])})


def held_cells(counts: Counts, present: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which values ``(Q, K, C)`` are not free: absent parameters, and p where nobody looked.

    Fidelity after the last occasion cannot be told from survival and is 1; nobody enters or moves then. Before the
    first one nothing lives.
    """
    held = np.zeros((Q, counts.n_intervals, counts.n_columns), bool)
    for q, name in enumerate(PARAMETERS):
        held[q] = name not in present
    held[P, unseen_intervals(counts)] = True
    if counts.tail:
        held[[FIDELITY, SENIORITY, MOVEMENT, DESTINATION], -1] = True
    if counts.entered is not None:
        held[np.arange(Q) != P, 0] = True
    return held


def event_counts(counts: Counts, with_fidelity: bool) -> Floats:
    """Return events of probability v, of probability 1 - v, and birds that vanished, (2 Q + 1, K, C)."""
    seen, missed, recovered, vanished = (
        np.asarray(x, float).T for x in (counts.seen, counts.missed, counts.recovered, counts.vanished)
    )
    missed_alive = missed - missed_before_death(counts) if with_fidelity else missed
    out = np.zeros((2 * Q + 1, *seen.shape))
    out[[PHI, P, LAMBDA]] = seen + missed, seen, recovered
    out[[Q + PHI, Q + P]] = recovered, missed_alive
    out[FIDELITY] = seen + missed_alive if with_fidelity else 0.0
    out[-1] = vanished
    return out


def missed_before_death(counts: Counts) -> Floats:
    """Return the birds, (K, C), known to have survived an interval because they were found dead later."""
    out = np.zeros((counts.n_intervals, counts.n_columns))
    for start, column, end, number in dead_entries(counts):
        c = column
        for t in range(start, end):
            out[t, c] += number
            c = counts.following[c]
    return out


def dead_entries(counts: Counts) -> Ints:
    """Return interval and column of release, interval of death and number of birds next met dead, (M, 4)."""
    if counts.found is None:
        raise InputError(
            "Fidelity needs to know when birds found dead had last been seen, which sufficient statistics do not say. "
            "Fit histories or m- and d-arrays, or leave fidelity out."
        )
    places = np.argwhere(counts.found)
    return np.column_stack([places, counts.found[tuple(places.T)]]).astype(np.int64)


def check_columns(counts: Counts, space: ModelSpace) -> None:
    """Refuse age classes that no bird is ever in."""
    cells = free_cells(counts, space.present)
    for name in space.present:
        idle = [c for c in np.flatnonzero(~cells[PARAMETERS.index(name)].any(axis=0)) if c not in space.idle]
        if len(idle):
            group, age = divmod(int(idle[0]), space.n_classes)
            of = f" (group {space.groups[group]})" if len(space.groups) > 1 else ""
            raise InputError(
                f"Every age class must have an interval in which {name} matters, but class {age + 1} of "
                f"{space.n_classes}{of} has none in these data. Ask for fewer age classes."
            )


class Laws(NamedTuple):
    """Laws of the values of every set, fitted to the data: what proposals draw from.

    ``set_row`` says which row a set has, by its bits. ``pseudo`` and ``marginal`` (Q, set, law, 2) are pseudo-counts,
    by themselves and with a free companion; ``trend`` (Q, set, time, 5); ``slopes`` (Q, M, 2) of individual covariates.
    """

    set_row: Ints
    pseudo: Floats
    marginal: Floats
    trend: Floats
    slopes: Floats | None = None

    @classmethod
    def none(cls, space: ModelSpace, times: TimeStructures) -> "Laws":
        """Return laws that are not fitted yet."""
        masks = all_masks(space)
        rows = np.zeros(2**space.n_columns, np.int64)
        rows[masks] = np.arange(len(masks))
        nothing = np.zeros((Q, len(masks), int(times.n_blocks.sum()), 2))
        return cls(rows, nothing, nothing, np.zeros((Q, len(masks), len(times.names), 5)))


@dataclass(frozen=True)
class Proposals:
    """How jumps between models are made, and what k = 0 is.

    Parameters
    ----------
    step : float
        Deviation of the Gaussian auxiliaries at k = 1; it grows as k^(-1/2) up to 1/2.
    fitted_splits : float
        How often a split or merge takes its values from the fitted laws rather than from Gaussian auxiliaries.
    with_companion : float
        Share of the jumps by fitted laws.
    jumps : int
        Jumps of each parameter in an iteration: four take half as long again for half as many round trips more.
    base : tuple of float
        What k = 0 is: ``PRIOR_BASE``, so that k is a power of the likelihood, or ``FITTED_BASE``, where values have
        wide laws around their fits. From there only the models have to be told apart on the way to k = 1.
    """

    step: float = 0.06
    fitted_splits: float = 0.3
    with_companion: float = 0.5
    jumps: int = 2
    base: tuple[float, float] = PRIOR_BASE


USUAL = Proposals()


def lay_out(
    counts: Counts, space: ModelSpace, times: TimeStructures, laws: Laws, how: Proposals = USUAL,
    individuals: Individuals | None = None,
) -> tuple[Ints, Floats]:  # fmt: skip
    """Return the two flat arrays of a study."""
    whole = _partition_tables(space) | _time_tables(space, times) | _study_tables(counts, space, individuals)
    exists, sums = block_tables(counts, space, times)
    sizes = _sizes(counts, space, times, whole, individuals)
    sizes |= {at.N_SETS: laws.pseudo.shape[1], at.N_LAWS: laws.pseudo.shape[2], at.N_JUMPS: how.jumps}
    whole |= {at.SET_ROW: laws.set_row, at.EXISTS: exists}
    if laws.slopes is None:
        laws = laws._replace(slopes=np.zeros((Q, sizes[at.N_INDIVIDUAL], 2)))
    floats = _counted(counts, space, individuals, sums) | _laws_and_priors(space, times, laws, how)
    return pack(sizes, {k: np.asarray(v, np.int64) for k, v in whole.items()}, floats)


def _sizes(
    counts: Counts, space: ModelSpace, times: TimeStructures, tables: dict[int, Any], individuals: Individuals | None
) -> dict[int, int]:
    """Return sizes and switches."""
    return {
        at.N_INTERVALS: counts.n_intervals, at.N_COLUMNS: counts.n_columns, at.N_TIMES: len(times.names),
        at.N_PARTITIONS: len(space.partitions), at.MOST_SPLITS: tables[at.SPLIT_TO].shape[2],
        at.N_PAIRS: len(tables[at.PAIRS]), at.N_DEAD: len(tables[at.DEAD]),
        at.MOST_OPTIONS: tables[at.OPTIONS].shape[2], at.HAS_FIDELITY: int("F" in space.present),
        at.HAS_LENGTHS: int(counts.has_unequal_lengths),
        at.IS_FLAT: int(all(tuple(space.shape(name)) == (1.0, 1.0) for name in PARAMETERS)),
        at.HAS_ENTRY: int(counts.entered is not None), at.N_STATES: 0 if counts.moves is None else len(counts.stages),
        at.N_CLASSES: counts.n_age_classes, at.N_STRATA: 0 if individuals is None else len(individuals.x),
        at.N_INDIVIDUAL: 0 if individuals is None else len(individuals.names),
    }  # fmt: skip


def _partition_tables(space: ModelSpace) -> dict[int, Any]:
    """Return the partitions of ages and groups, and how they split and merge."""
    tables = [space.table(name) for name in PARAMETERS]
    width = max(t.split_to.shape[1] for t in tables)
    return {
        at.YOUNGEST: np.array([[row.index(label) for label in row] for row in space.partitions]),
        at.MASKS: np.array([_masks(row) for row in space.partitions]),
        at.N_GROUPS: np.array([max(row) + 1 for row in space.partitions]),
        at.N_SPLITS: np.stack([t.n_splits for t in tables]),
        at.SPLIT_TO: np.stack([_widened(t.split_to, width) for t in tables]),
        at.SPLIT_OFF: np.stack([_widened(t.split_off, width) for t in tables]),
        at.PAIRS: tables[0].pairs,
        at.MERGE_TO: np.stack([t.merge_to for t in tables]),
        at.JUMPS: np.array([name in space.present and space.space(name).count > 1 for name in PARAMETERS]),
        at.PRESENT: np.array([name in space.present for name in PARAMETERS]),
    }


def _time_tables(space: ModelSpace, times: TimeStructures) -> dict[int, Any]:
    """Return the ways to vary in time, and which of them each set may have."""
    options, n_options = option_tables(space, times)
    blocks = [np.flatnonzero(row == b) for row in times.labels for b in range(row.max() + 1)]
    return {
        at.LABELS: times.labels,
        at.N_BLOCKS: times.n_blocks,
        at.KINDS: times.kinds,
        at.OFFSETS: times.offsets,
        at.BASES: times.bases,
        at.LEVELS: _levels(space, times),
        at.OPTIONS: options,
        at.N_OPTIONS: n_options,
        at.FLIPS: np.array([space.space(name).fixed is None for name in PARAMETERS]) & (n_options > 1).any(axis=1),
        at.FIXED_TIME: np.array([_fixed(space, times, name) for name in PARAMETERS]),
        at.FIRST: np.array([block[0] for block in blocks]),
        at.LAST: np.array([block[-1] for block in blocks]),
    }


def _study_tables(counts: Counts, space: ModelSpace, individuals: Individuals | None) -> dict[int, Any]:
    """Return which values there are, and where birds are found dead."""
    return {
        at.NEXT: np.array(counts.following),
        at.ACTIVE: free_cells(counts, space.present),
        at.HELD: held_cells(counts, space.present),
        at.MAY_SLOPE: np.zeros((Q, 0)) if individuals is None else individuals.may,
        at.DEAD: dead_entries(counts) if "F" in space.present else np.zeros((0, 4), np.int64),
    }


def _counted(counts: Counts, space: ModelSpace, individuals: Individuals | None, sums: Floats) -> dict[int, Floats]:
    """Return what was counted: of all birds, in blocks, and by strata of individual covariates."""
    nobody: Floats = np.zeros(0)
    moves = counts.moves
    return {
        at.COUNTS: event_counts(counts, "F" in space.present),
        at.SUMS: sums,
        at.LENGTHS: counts.lengths,
        at.MOVES: nobody if moves is None else np.append(moves, moves.sum(-1, keepdims=True), -1),
        at.ENTERED: nobody if counts.entered is None else counts.entered.T,
        at.STRATA: nobody if individuals is None else np.stack([event_counts(c, False) for c in individuals.counts]),
        at.INDIVIDUAL: nobody if individuals is None else individuals.x,
    }


def _laws_and_priors(space: ModelSpace, times: TimeStructures, laws: Laws, how: Proposals) -> dict[int, Floats]:
    """Return priors, the laws that proposals draw from, and the constants of moves."""
    shapes = np.array([space.shape(name) for name in PARAMETERS], float)
    power, doubt = how.base
    return {
        at.SHAPES: shapes,
        at.COVARIATES: times.covariates,
        at.PRIOR: np.stack([_cumulative_prior(space, name) for name in PARAMETERS]),
        at.PSEUDO: laws.pseudo,
        at.MARGINAL: laws.marginal,
        at.LINEAR: laws.trend,
        at.PER_SET: np.array([[space.log_prior_of_set(name, s) for s in all_sets(space)] for name in PARAMETERS]),
        at.SLOPE_SD: np.array([times.slope_sd]),
        at.SIGMA_SCALE: np.array([times.sigma_scale]),
        at.STEP: np.array([how.step]),
        at.FITTED_SPLITS: np.array([how.fitted_splits]),
        at.WITH_COMPANION: np.array([how.with_companion]),
        at.LOG_JACOBIAN: np.array([np.log(2.0)]),  # of (v, u) -> (v + u, v - u)
        at.SLOPE_LAWS: np.asarray(laws.slopes),
        at.SLOPE_JACOBIAN: np.zeros(1),
        at.BASE_POWER: np.array([power]),  # of the likelihood in the laws of a fitted base; 0: the prior
        at.BASE_DOUBT: np.array([doubt]),  # share of the prior in a fitted base
        at.BASE_LAWS: _base_laws(shapes, laws.marginal, power),
        at.LOGIT_POWER: np.array([1.0]),  # of the logit's derivative in densities of values
    }


def block_tables(counts: Counts, space: ModelSpace, times: TimeStructures) -> tuple[Ints, Floats]:
    """Return, for each parameter, set and block, whether it exists (Q, R, L) and its own events (Q, R, L, 2)."""
    cells, held = free_cells(counts, space.present), held_cells(counts, space.present)
    events = event_counts(counts, "F" in space.present)
    events[0] *= counts.lengths[:, None]
    masks = np.array(all_masks(space))
    in_set = (masks[:, None] >> np.arange(counts.n_columns) & 1).astype(float)
    in_block = np.concatenate([row == np.arange(row.max() + 1)[:, None] for row in times.labels]).astype(float)
    exists = np.einsum("lk,qkc,rc->qrl", in_block, cells, in_set) > 0
    ones, zeros = (
        np.einsum("lk,qkc,rc->qrl", in_block, np.where(held, 0.0, events[start : start + Q]), in_set)
        for start in (0, Q)
    )
    return exists.astype(np.int64), np.stack([ones, zeros], axis=-1)


def all_masks(space: ModelSpace) -> list[int]:
    """Return every set that occurs in a partition, as bits."""
    return sorted({mask for row in space.partitions for mask in _masks(row)})


def all_sets(space: ModelSpace) -> list[list[int]]:
    """Return every set that occurs in a partition, as columns."""
    return [[c for c in range(space.n_columns) if mask >> c & 1] for mask in all_masks(space)]


def _masks(row: tuple[int, ...]) -> list[int]:
    return [sum(1 << c for c, label in enumerate(row) if label == mine) for mine in row]


def _widened(table: Ints, width: int) -> Ints:
    return np.pad(table, ((0, 0), (0, width - table.shape[1])))


def option_tables(space: ModelSpace, times: TimeStructures) -> tuple[Ints, Ints]:
    """Return the time structures (Q, set, n) that each set may have, in order, and how many there are."""
    found = [[space.space(name).options_of(s) for s in all_sets(space)] for name in PARAMETERS]
    n = np.array([[len(options) for options in rows] for rows in found])
    out = np.zeros((*n.shape, n.max()), np.int64)
    for place in np.ndindex(n.shape):
        out[place][: n[place]] = sorted(times.names.index(time) for time in found[place[0]][place[1]])
    return out, n


def _base_laws(shapes: Floats, marginal: Floats, power: float) -> Floats:
    """Return location and scale of the logits' laws in a fitted base (Q, R, L, 2)."""
    a, b = np.moveaxis(shapes[:, None, None] + power * marginal, -1, 0)
    law: Any = logistic_of
    return np.stack(law.py_func(a, b), axis=-1)


def _levels(space: ModelSpace, times: TimeStructures) -> Ints:
    factors = [name.partition("+")[2] for name in times.names]
    level = space.space("phi").level
    return np.array([[level(c, factor) if factor else 0 for c in range(space.n_columns)] for factor in factors])


def _fixed(space: ModelSpace, times: TimeStructures, name: str) -> list[int]:
    fixed = space.space(name).fixed
    if fixed is not None:
        return [times.names.index(time) for time in fixed.times]
    only = space.space(name).options == (CONSTANT,)
    return [0 if only else -1] * space.n_columns


def _cumulative_prior(space: ModelSpace, name: str) -> Floats:
    mine = space.space(name)
    permitted = set(mine.partitions)
    is_allowed = np.array([row in permitted for row in space.partitions])
    log_share = np.array(
        [
            sum(np.log(len(mine.options_of(s))) + space.log_prior_of_set(name, s) for s in sets_of(row))
            for row in space.partitions
        ]
    )
    share = np.where(is_allowed, np.exp(log_share - log_share[is_allowed].max()), 0.0)
    if mine.fixed is not None:
        share = is_allowed.astype(float)
    return np.asarray(np.cumsum(share) / share.sum())
