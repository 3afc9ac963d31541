"""Read the tables of a study from its flat arrays: one small function for each."""

from typing import Any

from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import inner

Array = Any


@inner
def following(i: Array, c: int) -> Any:
    """Return the column a bird of column ``c`` is in an interval later."""
    return i[i[at.NEXT] + c]


@inner
def is_active(i: Array, q: int, t: int, c: int) -> Any:
    """Whether a bird can be in a cell and the study can see the event."""
    return i[i[at.ACTIVE] + (q * i[at.N_INTERVALS] + t) * i[at.N_COLUMNS] + c] != 0


@inner
def is_held(i: Array, q: int, t: int, c: int) -> Any:
    """Whether a cell's value is not free."""
    return i[i[at.HELD] + (q * i[at.N_INTERVALS] + t) * i[at.N_COLUMNS] + c] != 0


@inner
def label(i: Array, time: int, t: int) -> Any:
    """Return the block of an interval under a time structure."""
    return i[i[at.LABELS] + time * i[at.N_INTERVALS] + t]


@inner
def n_blocks(i: Array, time: int) -> Any:
    """Return the number of blocks of a time structure."""
    return i[i[at.N_BLOCKS] + time]


@inner
def kind_of(i: Array, time: int) -> Any:
    """Return BLOCKS, TREND or RANDOM."""
    return i[i[at.KINDS] + time]


@inner
def base_of(i: Array, time: int) -> Any:
    """Return the time structure that an additive one has its blocks from."""
    return i[i[at.BASES] + time]


@inner
def level(i: Array, time: int, c: int) -> Any:
    """Return the level of a column in the factor of an additive time structure."""
    return i[i[at.LEVELS] + time * i[at.N_COLUMNS] + c]


@inner
def option(i: Array, q: int, mask: int, n: int) -> Any:
    """Return the n-th time structure that a set may have."""
    return i[i[at.OPTIONS] + (q * i[at.N_SETS] + i[i[at.SET_ROW] + mask]) * i[at.MOST_OPTIONS] + n]


@inner
def n_options(i: Array, q: int, mask: int) -> Any:
    """Return how many time structures a set may have."""
    return i[i[at.N_OPTIONS] + q * i[at.N_SETS] + i[i[at.SET_ROW] + mask]]


@inner
def may_have(i: Array, q: int, mask: int, time: int) -> Any:
    """Whether a set may have a time structure: additive ones need two levels of their factor."""
    for n in range(n_options(i, q, mask)):
        if option(i, q, mask, n) == time:
            return True
    return False


@inner
def flips(i: Array, q: int) -> Any:
    """Whether some set of a parameter may have more than one time structure."""
    return i[i[at.FLIPS] + q] != 0


@inner
def fixed_time(i: Array, q: int, c: int) -> Any:
    """Return the only time structure of a column, or -1."""
    return i[i[at.FIXED_TIME] + q * i[at.N_COLUMNS] + c]


@inner
def youngest(i: Array, partition: int, c: int) -> Any:
    """Return the first column of a column's set."""
    return i[i[at.YOUNGEST] + partition * i[at.N_COLUMNS] + c]


@inner
def mask_of(i: Array, partition: int, c: int) -> Any:
    """Return a column's set as bits."""
    return i[i[at.MASKS] + partition * i[at.N_COLUMNS] + c]


@inner
def n_groups(i: Array, partition: int) -> Any:
    """Return the number of sets."""
    return i[i[at.N_GROUPS] + partition]


@inner
def n_splits(i: Array, q: int, partition: int) -> Any:
    """Return how many ways there are to split a set."""
    return i[i[at.N_SPLITS] + q * i[at.N_PARTITIONS] + partition]


@inner
def split_to(i: Array, q: int, partition: int, n: int) -> Any:
    """Return the partition after the n-th split."""
    return i[i[at.SPLIT_TO] + (q * i[at.N_PARTITIONS] + partition) * i[at.MOST_SPLITS] + n]


@inner
def split_off(i: Array, q: int, partition: int, n: int) -> Any:
    """Return the columns that leave in the n-th split, as bits."""
    return i[i[at.SPLIT_OFF] + (q * i[at.N_PARTITIONS] + partition) * i[at.MOST_SPLITS] + n]


@inner
def pair(i: Array, n: int, side: int) -> Any:
    """Return the first column of one of the two sets of the n-th pair."""
    return i[i[at.PAIRS] + 2 * n + side]


@inner
def merge_to(i: Array, q: int, partition: int, n: int) -> Any:
    """Return the partition after the n-th pair has merged, or -1 where it may not."""
    return i[i[at.MERGE_TO] + (q * i[at.N_PARTITIONS] + partition) * i[at.N_PAIRS] + n]


@inner
def jumps(i: Array, q: int) -> Any:
    """Whether a parameter has more than one structure."""
    return i[i[at.JUMPS] + q] != 0


@inner
def dead(i: Array, n: int, part: int) -> Any:
    """Return interval, column, interval of death or number of the n-th entry of birds found dead."""
    return i[i[at.DEAD] + 4 * n + part]


@inner
def count(i: Array, f: Array, which: int, t: int, c: int) -> Any:
    """Return the events of probability v (q), of probability 1 - v (Q + q), or birds that vanished (2 Q)."""
    return f[i[at.COUNTS] + (which * i[at.N_INTERVALS] + t) * i[at.N_COLUMNS] + c]


@inner
def count_in_stratum(i: Array, f: Array, s: int, which: int, t: int, c: int) -> Any:
    """Return the events of the birds with one value of the individual covariates."""
    n = 2 * at.N_PARAMETERS + 1
    return f[i[at.STRATA] + ((s * n + which) * i[at.N_INTERVALS] + t) * i[at.N_COLUMNS] + c]


@inner
def individual(i: Array, f: Array, s: int, m: int) -> Any:
    """Return an individual covariate of the birds of a stratum, standardised."""
    return f[i[at.INDIVIDUAL] + s * i[at.N_INDIVIDUAL] + m]


@inner
def may_slope(i: Array, q: int, m: int) -> Any:
    """Whether a parameter may depend on an individual covariate."""
    return i[i[at.MAY_SLOPE] + q * i[at.N_INDIVIDUAL] + m] != 0


@inner
def slope_law(i: Array, f: Array, q: int, m: int, part: int) -> Any:
    """Return mode (0) or precision (1) of a slope as fitted."""
    return f[i[at.SLOPE_LAWS] + 2 * (q * i[at.N_INDIVIDUAL] + m) + part]


@inner
def entered(i: Array, f: Array, t: int, c: int) -> Any:
    """Return the birds first caught at the end of an interval."""
    return f[i[at.ENTERED] + t * i[at.N_COLUMNS] + c]


@inner
def next_met(i: Array, f: Array, t: int, c: int, n: int) -> Any:
    """Return the birds released at the start of interval t in column c and next met at place n.

    Places are states by interval, then dead by interval, then never; the last one has all that were released.
    """
    width = i[at.N_INTERVALS] * (i[at.N_STATES] + 1) + 2
    return f[i[at.MOVES] + (t * i[at.N_COLUMNS] + c) * width + n]


@inner
def length(i: Array, f: Array, t: int) -> Any:
    """Return the length of an interval, in the unit that survival is for."""
    return f[i[at.LENGTHS] + t]


@inner
def shape(i: Array, f: Array, q: int, side: int) -> Any:
    """Return a or b of the Beta prior."""
    return f[i[at.SHAPES] + 2 * q + side]


@inner
def covariate(i: Array, f: Array, time: int, t: int) -> Any:
    """Return a trend's covariate."""
    return f[i[at.COVARIATES] + time * i[at.N_INTERVALS] + t]


@inner
def cumulative_prior(i: Array, f: Array, q: int, partition: int) -> Any:
    """Return the prior probability of the partitions up to this one."""
    return f[i[at.PRIOR] + q * i[at.N_PARTITIONS] + partition]


@inner
def law_of(i: Array, q: int, mask: int, time: int, block: int) -> Any:
    """Return where the laws of a block of a set stand in their tables."""
    row = i[i[at.SET_ROW] + mask]
    return (q * i[at.N_SETS] + row) * i[at.N_LAWS] + i[i[at.OFFSETS] + time] + block


@inner
def block_exists(i: Array, q: int, mask: int, time: int, block: int) -> Any:
    """Whether a block of a set has a cell that a bird can be in."""
    return i[i[at.EXISTS] + law_of(i, q, mask, time, block)] != 0


@inner
def block_sum(i: Array, f: Array, q: int, mask: int, time: int, block: int, side: int) -> Any:
    """Return the events of probability v (0) or 1 - v (1) in a block; phi's first are times the intervals' lengths."""
    return f[i[at.SUMS] + 2 * law_of(i, q, mask, time, block) + side]


@inner
def first_of(i: Array, time: int, block: int) -> Any:
    """Return the first interval of a block."""
    return i[i[at.FIRST] + i[i[at.OFFSETS] + time] + block]


@inner
def last_of(i: Array, time: int, block: int) -> Any:
    """Return the last interval of a block."""
    return i[i[at.LAST] + i[i[at.OFFSETS] + time] + block]


@inner
def is_present(i: Array, q: int) -> Any:
    """Whether a parameter is one of this study."""
    return i[i[at.PRESENT] + q] != 0


@inner
def pseudo_count(i: Array, f: Array, which: int, law: int, side: int) -> Any:
    """Return successes (0) or failures (1) that a block is worth, by its place in the tables (`law_of`).

    ``which`` is PSEUDO, or MARGINAL while the companion is free.
    """
    return f[i[which] + 2 * law + side]


@inner
def base_law(i: Array, f: Array, law: int, part: int) -> Any:
    """Return location (0) or scale (1) of the logistic law that a fitted base has for a block."""
    return f[i[at.BASE_LAWS] + 2 * law + part]


@inner
def trend_law(i: Array, f: Array, q: int, mask: int, time: int, part: int) -> Any:
    """Return what a set's trend is like: two means and three entries of the precision."""
    row = i[i[at.SET_ROW] + mask]
    return f[i[at.LINEAR] + ((q * i[at.N_SETS] + row) * i[at.N_TIMES] + time) * 5 + part]


@inner
def constant(i: Array, f: Array, which: int) -> Any:
    """Return a number of its own: SLOPE_SD, SIGMA_SCALE, STEP, FITTED_SPLITS and those behind it in the header."""
    return f[i[which]]


@inner
def per_set(i: Array, f: Array, q: int, mask: int) -> Any:
    """Return what a set adds to the log prior of a model."""
    return f[i[at.PER_SET] + q * i[at.N_SETS] + i[i[at.SET_ROW] + mask]]
