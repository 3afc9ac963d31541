"""How a study, its model space and a chain's state lie in memory: a few flat arrays that compiled code can index.

A study and its space never change while a chain runs. All of their numbers lie in two arrays, ``ints`` and ``floats``:
first a header of sizes and of the places where each table begins, then the tables. Compiled code reads them by the
functions of `tables`. A state is those two, which all chains share, and arrays of its own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats as Floats

Ints = NDArray[np.int64]

PHI, P, LAMBDA, FIDELITY, SENIORITY, MOVEMENT, DESTINATION = range(7)
PARAMETERS = ("phi", "p", "lambda", "F", "gamma", "psi", "to")
N_PARAMETERS = len(PARAMETERS)

# the header of ``ints``: sizes, switches, then where the tables of both arrays begin
(
    N_INTERVALS, N_COLUMNS, N_TIMES, N_PARTITIONS, MOST_SPLITS, N_PAIRS, N_SETS, N_LAWS, N_DEAD, MOST_OPTIONS,
    HAS_FIDELITY, HAS_LENGTHS, IS_FLAT, HAS_ENTRY, N_STATES, N_CLASSES, N_JUMPS,
    N_STRATA, N_INDIVIDUAL,
    NEXT, ACTIVE, HELD, LABELS, N_BLOCKS, KINDS, OFFSETS, BASES, LEVELS, OPTIONS, N_OPTIONS, FLIPS, FIXED_TIME,
    YOUNGEST, MASKS, N_GROUPS, MAY_SLOPE,
    N_SPLITS, SPLIT_TO, SPLIT_OFF, PAIRS, MERGE_TO, SET_ROW, JUMPS, PRESENT, DEAD, EXISTS, FIRST, LAST,
    COUNTS, SUMS, LENGTHS, SHAPES, COVARIATES, PRIOR, PSEUDO, LINEAR, PER_SET, SLOPE_SD, SIGMA_SCALE, STEP,
    FITTED_SPLITS, LOG_JACOBIAN, LOGIT_POWER, STRATA, INDIVIDUAL, SLOPE_LAWS, SLOPE_JACOBIAN, MARGINAL,
    WITH_COMPANION, ENTERED, MOVES, BASE_POWER, BASE_DOUBT, BASE_LAWS,
    SIZE_OF_HEADER,
) = range(75)  # fmt: skip

CONSTANT, YEARLY = 0, 1  # the first two time structures of every study
BLOCKS, TREND, RANDOM, PARALLEL = range(4)  # kinds of time structures


class State(NamedTuple):
    """A study with its space, and one chain's place in it; moves change the chain's arrays.

    ``structure`` (Q, 1 + C): of each parameter its partition and the time structure of each column; ``hyper`` (Q,
    C, 2), the coefficients behind a column's values where it has any; ``values`` (Q, K, C); each has two rows more,
    for what may have to be put back. ``chi`` (5, K + 1, C): the probabilities never to be met again, their logs,
    both as proposed, and those of birds that have left; ``energy`` (5,): the log likelihood, its part of birds
    found dead that may have left before, of first captures and of states, what a jump has gained so far, that part
    as proposed, and where chi was worked out from; ``slopes`` (Q, M, 2): whether an individual covariate is in, and its
    slope; ``laws`` (C, K, 2): the pseudo-counts that jumps draw from, by the first column of a set and block.
    """

    ints: Ints
    floats: Floats
    structure: Ints
    hyper: Floats
    values: Floats
    chi: Floats
    energy: Floats
    slopes: Floats
    laws: Floats


def pack(sizes: dict[int, int], int_tables: dict[int, Ints], float_tables: dict[int, Floats]) -> tuple[Ints, Floats]:
    """Lay out a study: the header says where each table begins."""
    header = np.zeros(SIZE_OF_HEADER, np.int64)
    for place, size in sizes.items():
        header[place] = size
    at = SIZE_OF_HEADER
    for place, table in int_tables.items():
        header[place], at = at, at + table.size
    at = 0
    for place, floats in float_tables.items():
        header[place], at = at, at + floats.size
    ints = np.concatenate([header, *(np.ravel(t).astype(np.int64) for t in int_tables.values())])
    return ints, np.concatenate([np.ravel(t).astype(np.float64) for t in float_tables.values()])


def empty_state(ints: Ints, floats: Floats) -> State:
    """Return a state with no model yet."""
    n_intervals, n_columns = int(ints[N_INTERVALS]), int(ints[N_COLUMNS])
    return State(
        ints,
        floats,
        np.zeros((N_PARAMETERS + 2, 1 + n_columns), np.int64),
        np.zeros((N_PARAMETERS + 2, n_columns, 2)),
        np.full((N_PARAMETERS + 2, n_intervals, n_columns), 0.5),
        np.ones((5, n_intervals + 1, n_columns)),
        np.zeros(5),
        np.zeros((N_PARAMETERS, max(1, int(ints[N_INDIVIDUAL])), 2)),
        np.zeros((n_columns, n_intervals, 2)),
    )
