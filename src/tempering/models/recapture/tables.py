"""Read the tables of a study from its flat arrays: one small function for each."""

from collections.abc import Callable
from typing import Any

from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import inner


def whole(place: int, *lengths: int) -> Callable[..., Any]:
    """Return a function of ``ints`` and an index for each axis that reads a table which begins at a ``place``.

    ``lengths`` say where in the header the lengths of all axes but the first one stand.
    """
    second, third = (*lengths, 0, 0)[:2]

    def of_one(i: Any, a: int) -> Any:
        return i[i[place] + a]

    def of_two(i: Any, a: int, b: int) -> Any:
        return i[i[place] + a * i[second] + b]

    def of_three(i: Any, a: int, b: int, c: int) -> Any:
        return i[i[place] + (a * i[second] + b) * i[third] + c]

    return inner((of_one, of_two, of_three)[len(lengths)])


def number(place: int, *lengths: int) -> Callable[..., Any]:
    """Return such a function of ``ints``, ``floats`` and the indices: the table is one of floats."""
    second, third = (*lengths, 0, 0)[:2]

    def of_one(i: Any, f: Any, a: int) -> Any:
        return f[i[place] + a]

    def of_two(i: Any, f: Any, a: int, b: int) -> Any:
        return f[i[place] + a * i[second] + b]

    def of_three(i: Any, f: Any, a: int, b: int, c: int) -> Any:
        return f[i[place] + (a * i[second] + b) * i[third] + c]

    return inner((of_one, of_two, of_three)[len(lengths)])


following = whole(at.NEXT)  # (c): the column a bird is in an interval later
is_held = whole(at.HELD, at.N_INTERVALS, at.N_COLUMNS)  # (q, t, c): whether a cell's value is not free
label = whole(at.LABELS, at.N_INTERVALS)  # (time, t): the block of an interval under a time structure
n_blocks = whole(at.N_BLOCKS)  # (time)
kind_of = whole(at.KINDS)  # (time): BLOCKS, TREND or RANDOM
base_of = whole(at.BASES)  # (time): the time structure that an additive one has its blocks from
level = whole(at.LEVELS, at.N_COLUMNS)  # (time, c): in the factor of an additive time structure
flips = whole(at.FLIPS)  # (q): whether some set may have more than one time structure
fixed_time = whole(at.FIXED_TIME, at.N_COLUMNS)  # (q, c): the only time structure of a column, or -1
youngest = whole(at.YOUNGEST, at.N_COLUMNS)  # (partition, c): the first column of a column's set
mask_of = whole(at.MASKS, at.N_COLUMNS)  # (partition, c): a column's set as bits
n_groups = whole(at.N_GROUPS)  # (partition): the number of sets
n_splits = whole(at.N_SPLITS, at.N_PARTITIONS)  # (q, partition): how many ways there are to split a set
split_to = whole(at.SPLIT_TO, at.N_PARTITIONS, at.MOST_SPLITS)  # (q, partition, n): the partition after that
split_off = whole(at.SPLIT_OFF, at.N_PARTITIONS, at.MOST_SPLITS)  # (q, partition, n): the columns that leave, as bits
merge_to = whole(at.MERGE_TO, at.N_PARTITIONS, at.N_PAIRS)  # (q, partition, n): after the n-th pair has merged, or -1
jumps = whole(at.JUMPS)  # (q): whether a parameter has more than one structure
may_slope = whole(at.MAY_SLOPE, at.N_INDIVIDUAL)  # (q, m): whether a parameter may depend on a covariate
is_present = whole(at.PRESENT)  # (q): whether a parameter is one of this study

# (which, t, c): the events of probability v (q), of probability 1 - v (Q + q), or birds that vanished (2 Q)
count = number(at.COUNTS, at.N_INTERVALS, at.N_COLUMNS)
individual = number(at.INDIVIDUAL, at.N_INDIVIDUAL)  # (stratum, m): a covariate of its birds, standardised
entered = number(at.ENTERED, at.N_COLUMNS)  # (t, c): the birds first caught at the end of an interval
length = number(at.LENGTHS)  # (t): of an interval, in the unit that survival is for
covariate = number(at.COVARIATES, at.N_INTERVALS)  # (time, t): a trend's
cumulative_prior = number(at.PRIOR, at.N_PARTITIONS)  # (q, partition): of the partitions up to this one


@inner
def pair(i: Any, n: int, side: int) -> Any:
    """Return the first column of one of the two sets of the n-th pair."""
    return i[i[at.PAIRS] + 2 * n + side]


@inner
def dead(i: Any, n: int, part: int) -> Any:
    """Return interval, column, interval of death or number of the n-th entry of birds found dead."""
    return i[i[at.DEAD] + 4 * n + part]


@inner
def shape(i: Any, f: Any, q: int, side: int) -> Any:
    """Return a or b of the Beta prior."""
    return f[i[at.SHAPES] + 2 * q + side]


@inner
def slope_law(i: Any, f: Any, q: int, m: int, part: int) -> Any:
    """Return mode (0) or precision (1) of a slope as fitted."""
    return f[i[at.SLOPE_LAWS] + 2 * (q * i[at.N_INDIVIDUAL] + m) + part]


@inner
def option(i: Any, q: int, mask: int, n: int) -> Any:
    """Return the n-th time structure that a set may have."""
    return i[i[at.OPTIONS] + (q * i[at.N_SETS] + i[i[at.SET_ROW] + mask]) * i[at.MOST_OPTIONS] + n]


@inner
def n_options(i: Any, q: int, mask: int) -> Any:
    """Return how many time structures a set may have."""
    return i[i[at.N_OPTIONS] + q * i[at.N_SETS] + i[i[at.SET_ROW] + mask]]


@inner
def may_have(i: Any, q: int, mask: int, time: int) -> Any:
    """Whether a set may have a time structure: additive ones need two levels of their factor."""
    for n in range(n_options(i, q, mask)):
        if option(i, q, mask, n) == time:
            return True
    return False


@inner
def count_in_stratum(i: Any, f: Any, s: int, which: int, t: int, c: int) -> Any:
    """Return the events of the birds with one value of the individual covariates."""
    n = 2 * at.N_PARAMETERS + 1
    return f[i[at.STRATA] + ((s * n + which) * i[at.N_INTERVALS] + t) * i[at.N_COLUMNS] + c]


@inner
def next_met(i: Any, f: Any, t: int, c: int, n: int) -> Any:
    """Return the birds released at the start of interval t in column c and next met at place n.

    Places are states by interval, then dead by interval, then never; the last one has all that were released.
    """
    width = i[at.N_INTERVALS] * (i[at.N_STATES] + 1) + 2
    return f[i[at.MOVES] + (t * i[at.N_COLUMNS] + c) * width + n]


@inner
def law_of(i: Any, q: int, mask: int, time: int, block: int) -> Any:
    """Return where the laws of a block of a set stand in their tables."""
    row = i[i[at.SET_ROW] + mask]
    return (q * i[at.N_SETS] + row) * i[at.N_LAWS] + i[i[at.OFFSETS] + time] + block


@inner
def block_exists(i: Any, q: int, mask: int, time: int, block: int) -> Any:
    """Whether a block of a set has a cell that a bird can be in."""
    return i[i[at.EXISTS] + law_of(i, q, mask, time, block)] != 0


@inner
def block_sum(i: Any, f: Any, q: int, mask: int, time: int, block: int, side: int) -> Any:
    """Return the events of probability v (0) or 1 - v (1) in a block; phi's first are times the intervals' lengths."""
    return f[i[at.SUMS] + 2 * law_of(i, q, mask, time, block) + side]


@inner
def first_of(i: Any, time: int, block: int) -> Any:
    """Return the first interval of a block."""
    return i[i[at.FIRST] + i[i[at.OFFSETS] + time] + block]


@inner
def last_of(i: Any, time: int, block: int) -> Any:
    """Return the last interval of a block."""
    return i[i[at.LAST] + i[i[at.OFFSETS] + time] + block]


@inner
def pseudo_count(i: Any, f: Any, which: int, law: int, side: int) -> Any:
    """Return successes (0) or failures (1) that a block is worth, by its place in the tables (`law_of`).

    ``which`` is PSEUDO, or MARGINAL while the companion is free.
    """
    return f[i[which] + 2 * law + side]


@inner
def base_law(i: Any, f: Any, law: int, part: int) -> Any:
    """Return location (0) or scale (1) of the logistic law that a fitted base has for a block."""
    return f[i[at.BASE_LAWS] + 2 * law + part]


@inner
def trend_law(i: Any, f: Any, q: int, mask: int, time: int, part: int) -> Any:
    """Return what a set's trend is like: two means and three entries of the precision."""
    row = i[i[at.SET_ROW] + mask]
    return f[i[at.LINEAR] + ((q * i[at.N_SETS] + row) * i[at.N_TIMES] + time) * 5 + part]


@inner
def constant(i: Any, f: Any, which: int) -> Any:
    """Return a number of its own: SLOPE_SD, SIGMA_SCALE, STEP, FITTED_SPLITS and those behind it in the header."""
    return f[i[which]]


@inner
def per_set(i: Any, f: Any, q: int, mask: int) -> Any:
    """Return what a set adds to the log prior of a model."""
    return f[i[at.PER_SET] + q * i[at.N_SETS] + i[i[at.SET_ROW] + mask]]
