"""Reversible jumps of one parameter between structures, at any inverse temperature.

A flip gives a set another time structure, a split makes two sets of one, a merge one of two that have the same time
structure. New values are drawn from fitted laws (`given`), Jacobian 1; or, in splits and merges of blocks, moved by
Gaussian auxiliaries that keep their mean, Jacobian 2 a value (section 5 of the moves). Half of the jumps by fitted laws
draw the companion's values anew as well, given the others: years in which more birds are found dead are years in which
more die, or in which they are found more easily, and the one cannot change without the other; and so it is with ages.
A flip is tried half of the time, a split and a merge a quarter each; a move that is not available is a rejection.
"""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.cells import first_column, is_inside, put, value_of
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.given import companion, look, recall, sets_touching
from tempering.models.recapture.laws import (
    direct_of_set,
    log_base_over_prior,
    log_density_of_set,
    log_normal,
    log_prior_of_set,
    power_of,
    propose_set,
)
from tempering.models.recapture.layout import BLOCKS, State
from tempering.models.recapture.likelihood import keep_gain, total_gain

LARGEST_SIGMA = 0.5
SAVED, SAVED_COMPANION = at.N_PARAMETERS, at.N_PARAMETERS + 1  # rows that keep what may have to be put back


@inner
def jump(rng: Any, state: State, q: int, k: float) -> Any:
    """Try to change the structure of a parameter; return whether it was changed."""
    save(state, q)
    i, f, other = state.ints, state.floats, companion(state, q)
    u, share = rng.random(), 0.5 if tables.flips(i, q) else 0.0
    fitted = u < share or rng.random() < tables.constant(i, f, at.FITTED_SPLITS)
    both = fitted and tables.is_present(i, other) and rng.random() < tables.constant(i, f, at.WITH_COMPANION)
    if both:
        carry(state, other, SAVED_COMPANION)
    if u < share:
        log_ratio = flip(rng, state, q, k, both)
    elif u < share + (1 - share) / 2:
        log_ratio = split(rng, state, q, k, fitted, both)
    else:
        log_ratio = merge(rng, state, q, k, fitted, both)
    accepted = decide(rng, state, q, k, log_ratio)
    if both and not accepted:
        carry(state, SAVED_COMPANION, other)
    return accepted


@inner
def draw_afresh(rng: Any, state: State, q: int, k: float) -> Any:
    """Try to draw all the values of one set afresh from their laws: the quickest way through hot rungs."""
    save(state, q)
    mask = tables.mask_of(state.ints, state.structure[q, 0], random_set(rng, state, q))
    log_ratio = take_out(state, q, mask, 0, k, False) + put_in(rng, state, q, mask, 0, k, False)
    return decide(rng, state, q, k, log_ratio)


@inner
def take_out(state: State, q: int, one: int, two: int, k: float, both: bool) -> Any:
    """Take a set's values out, or two sets', and if asked the companion's that hang together with them.

    Return their log density under the laws that the way back draws them from, over that at k; ``two`` may be 0.
    """
    other = companion(state, q)
    log_ratio = take_out_set(state, q, one, k, both)
    if two:
        log_ratio += take_out_set(state, q, two, k, both)
    if both:
        columns = sets_touching(state, other, one | two)
        log_ratio += count_in_all(state, other, columns, -1.0, k) + log_density_given(state, other, columns, k)
    return log_ratio


@inner
def take_out_set(state: State, q: int, mask: int, k: float, both: bool) -> Any:
    """Do so with one set: its laws are those with a free companion, or as fitted."""
    time = state.structure[q, 1 + first_column(mask)]
    recall(state, q, mask, time, at.MARGINAL if both else at.PSEUDO)
    return log_density_of_set(state, q, mask, time, k) + count_in(state, q, mask, time, -1.0, k)


@inner
def put_in(rng: Any, state: State, q: int, one: int, two: int, k: float, both: bool) -> Any:
    """Draw the values that take their place; return the log of the density at k over that of the draw."""
    other = companion(state, q)
    log_ratio = draw_set(rng, state, q, one, k, both)
    if two and log_ratio > -np.inf:
        log_ratio += draw_set(rng, state, q, two, k, both)
    if both and log_ratio > -np.inf:
        columns = sets_touching(state, other, one | two)
        log_ratio -= draw_given(rng, state, other, columns, k)
        if log_ratio > -np.inf:
            log_ratio += count_in_all(state, other, columns, 1.0, k)
    return log_ratio


@inner
def draw_set(rng: Any, state: State, q: int, mask: int, k: float, both: bool) -> Any:
    """Do so with one set."""
    time = state.structure[q, 1 + first_column(mask)]
    recall(state, q, mask, time, at.MARGINAL if both else at.PSEUDO)
    log_ratio = -propose_set(rng, state, q, mask, time, k)
    return log_ratio + count_in(state, q, mask, time, 1.0, k) if log_ratio > -np.inf else log_ratio


@inner
def draw_given(rng: Any, state: State, q: int, columns: int, k: float) -> Any:
    """Draw the values of all sets in some columns from their laws given the rest; return their log density."""
    look(state, q, columns)
    total = 0.0
    for c in range(state.ints[at.N_COLUMNS]):
        if is_first(state, q, columns, c):
            mask = tables.mask_of(state.ints, state.structure[q, 0], c)
            total += propose_set(rng, state, q, mask, state.structure[q, 1 + c], k)
    return total


@inner
def log_density_given(state: State, q: int, columns: int, k: float) -> Any:
    """Return the log density of the companion's values in some columns under their laws given the rest."""
    look(state, q, columns)
    carry(state, SAVED_COMPANION, q)
    total = 0.0
    for c in range(state.ints[at.N_COLUMNS]):
        if is_first(state, q, columns, c):
            mask = tables.mask_of(state.ints, state.structure[q, 0], c)
            total += log_density_of_set(state, q, mask, state.structure[q, 1 + c], k)
    return total


@inner
def count_in(state: State, q: int, mask: int, time: int, sign: float, k: float) -> Any:
    """Add a set's own events to the gain (sign 1) or take them out (-1).

    Return its log density at k without birds, with the same sign.
    """
    state.energy[2] += sign * direct_of_set(state, q, mask, time)
    log_density = log_prior_of_set(state, q, mask, time)
    if k < 1.0:
        log_density += (1 - k) * log_base_over_prior(state, q, mask, time)
    return sign * log_density


@inner
def count_in_all(state: State, q: int, columns: int, sign: float, k: float) -> Any:
    """Do as `count_in` with all sets in some columns."""
    total = 0.0
    for c in range(state.ints[at.N_COLUMNS]):
        if is_first(state, q, columns, c):
            mask = tables.mask_of(state.ints, state.structure[q, 0], c)
            total += count_in(state, q, mask, state.structure[q, 1 + c], sign, k)
    return total


@inner
def is_first(state: State, q: int, columns: int, c: int) -> Any:
    """Whether a column is one of these, and the first of its set."""
    return columns >> c & 1 and tables.youngest(state.ints, state.structure[q, 0], c) == c


@inner
def decide(rng: Any, state: State, q: int, k: float, log_ratio: float) -> Any:
    """Accept what stands in the state with the ratio's probability, or put back what was there."""
    threshold = np.log(rng.random())
    if log_ratio > -np.inf:
        last = state.ints[at.N_INTERVALS] - 1
        gain = total_gain(state, q, state.energy[2], 0, last)
        if threshold < k * gain + log_ratio:
            keep_gain(state, gain, last)
            return True
    restore(state, q)
    return False


@inner
def random_set(rng: Any, state: State, q: int) -> Any:
    """Return the first column of one of the sets, chosen evenly."""
    i, partition = state.ints, state.structure[q, 0]
    rank = int(rng.random() * tables.n_groups(i, partition))
    c = 0
    while True:
        if tables.youngest(i, partition, c) == c:
            if rank == 0:
                return c
            rank -= 1
        c += 1


@inner
def save(state: State, q: int) -> None:
    """Put a parameter's structure, coefficients and values aside; nothing is gained yet."""
    state.energy[2] = 0.0
    carry(state, q, SAVED)


@inner
def restore(state: State, q: int) -> None:
    """Put back what `save` put aside."""
    carry(state, SAVED, q)


@inner
def carry(state: State, here: int, there: int) -> None:
    """Copy one row of structure, coefficients and values to another."""
    n_columns = state.ints[at.N_COLUMNS]
    state.structure[there, 0] = state.structure[here, 0]
    for c in range(n_columns):
        state.structure[there, 1 + c] = state.structure[here, 1 + c]
        state.hyper[there, c, 0] = state.hyper[here, c, 0]
        state.hyper[there, c, 1] = state.hyper[here, c, 1]
        for t in range(state.ints[at.N_INTERVALS]):
            state.values[there, t, c] = state.values[here, t, c]


@inner
def set_time(state: State, q: int, mask: int, time: int) -> None:
    """Give a set a time structure."""
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1:
            state.structure[q, 1 + c] = time


@inner
def flip(rng: Any, state: State, q: int, k: float, both: bool) -> Any:
    """Give a set another time structure; sets and time structures are chosen evenly, so that the choice cancels."""
    i = state.ints
    partition = state.structure[q, 0]
    c = random_set(rng, state, q)
    mask, old = tables.mask_of(i, partition, c), state.structure[q, 1 + c]
    n = tables.n_options(i, q, mask)
    if n == 1:
        return -np.inf
    which = int(rng.random() * (n - 1))
    new = tables.option(i, q, mask, which)
    if new >= old:
        new = tables.option(i, q, mask, which + 1)
    log_ratio = take_out(state, q, mask, 0, k, both)
    set_time(state, q, mask, new)
    return log_ratio + put_in(rng, state, q, mask, 0, k, both)


@inner
def n_merges(state: State, q: int, partition: int) -> Any:
    """Count the pairs of sets that may merge."""
    n = 0
    for which in range(state.ints[at.N_PAIRS]):
        if can_merge(state, q, partition, which):
            n += 1
    return n


@inner
def can_merge(state: State, q: int, partition: int, which: int) -> Any:
    """Whether the sets of a pair may merge: their time structures must be the same."""
    i = state.ints
    if tables.merge_to(i, q, partition, which) < 0:
        return False
    return state.structure[q, 1 + tables.pair(i, which, 0)] == state.structure[q, 1 + tables.pair(i, which, 1)]


@inner
def split(rng: Any, state: State, q: int, k: float, fitted: bool, both: bool) -> Any:
    """Make two sets of one."""
    i, f = state.ints, state.floats
    partition = state.structure[q, 0]
    n = tables.n_splits(i, q, partition)
    if n == 0:
        return -np.inf
    which = int(rng.random() * n)
    leaving, target = tables.split_off(i, q, partition, which), tables.split_to(i, q, partition, which)
    whole, time = tables.mask_of(i, partition, first_column(leaving)), state.structure[q, 1 + first_column(leaving)]
    staying = whole & ~leaving
    if not (tables.may_have(i, q, staying, time) and tables.may_have(i, q, leaving, time)):
        return -np.inf
    log_ratio = np.log(n) - np.log(n_merges(state, q, target))
    log_ratio += tables.per_set(i, f, q, staying) + tables.per_set(i, f, q, leaving) - tables.per_set(i, f, q, whole)
    if fitted or tables.kind_of(i, time) != BLOCKS:
        log_ratio += take_out(state, q, whole, 0, k, both)
        state.structure[q, 0] = target
        return log_ratio + put_in(rng, state, q, staying, leaving, k, both)
    log_ratio += count_in(state, q, whole, time, -1.0, k)
    state.structure[q, 0] = target
    log_ratio += spread_values(rng, state, q, staying, leaving, time, k)
    if log_ratio == -np.inf:
        return log_ratio
    return log_ratio + count_in(state, q, staying, time, 1.0, k) + count_in(state, q, leaving, time, 1.0, k)


@inner
def merge(rng: Any, state: State, q: int, k: float, fitted: bool, both: bool) -> Any:
    """Make one set of two."""
    i, f = state.ints, state.floats
    partition = state.structure[q, 0]
    n = n_merges(state, q, partition)
    if n == 0:
        return -np.inf
    rank, which = int(rng.random() * n), -1
    while rank >= 0:
        which += 1
        if can_merge(state, q, partition, which):
            rank -= 1
    first, second = (
        tables.mask_of(i, partition, tables.pair(i, which, 0)),
        tables.mask_of(i, partition, tables.pair(i, which, 1)),
    )
    time = state.structure[q, 1 + tables.pair(i, which, 0)]
    target = tables.merge_to(i, q, partition, which)
    log_ratio = np.log(n) - np.log(tables.n_splits(i, q, target))
    log_ratio += (
        tables.per_set(i, f, q, first | second) - tables.per_set(i, f, q, first) - tables.per_set(i, f, q, second)
    )
    if fitted or tables.kind_of(i, time) != BLOCKS:
        log_ratio += take_out(state, q, first, second, k, both)
        state.structure[q, 0] = target
        return log_ratio + put_in(rng, state, q, first | second, 0, k, both)
    log_ratio += count_in(state, q, first, time, -1.0, k) + count_in(state, q, second, time, -1.0, k)
    log_ratio += gather_values(state, q, first, second, time, k)
    state.structure[q, 0] = target
    return log_ratio + count_in(state, q, first | second, time, 1.0, k)


@inner
def sigma_of(state: State, k: float) -> Any:
    """Return the deviation of the Gaussian auxiliaries at a temperature."""
    power = power_of(state, k)
    step = tables.constant(state.ints, state.floats, at.STEP)
    return min(step / np.sqrt(power), LARGEST_SIGMA) if power > 0.0 else LARGEST_SIGMA


@inner
def spread_values(rng: Any, state: State, q: int, staying: int, leaving: int, time: int, k: float) -> Any:
    """Give two sets v + u and v - u, u Gaussian; return log Jacobian over density, minus infinity where refused."""
    sigma, log_jacobian = sigma_of(state, k), tables.constant(state.ints, state.floats, at.LOG_JACOBIAN)
    log_ratio = 0.0
    for block in range(tables.n_blocks(state.ints, time)):
        if tables.block_exists(state.ints, q, staying, time, block) and tables.block_exists(
            state.ints, q, leaving, time, block
        ):
            v, u = value_of(state, q, staying, time, block), sigma * rng.standard_normal()
            if not (is_inside(v + u) and is_inside(v - u)):
                return -np.inf
            put(state, q, staying, time, block, v + u)
            put(state, q, leaving, time, block, v - u)
            log_ratio += log_jacobian - log_normal(u, 0.0, sigma)
    return log_ratio


@inner
def gather_values(state: State, q: int, first: int, second: int, time: int, k: float) -> Any:
    """Give one set the mean of two; return the log of the density over the Jacobian of the way back."""
    sigma, log_jacobian = sigma_of(state, k), tables.constant(state.ints, state.floats, at.LOG_JACOBIAN)
    log_ratio = 0.0
    for block in range(tables.n_blocks(state.ints, time)):
        one, two = value_of(state, q, first, time, block), value_of(state, q, second, time, block)
        in_first = tables.block_exists(state.ints, q, first, time, block)
        in_second = tables.block_exists(state.ints, q, second, time, block)
        v = one if in_first else two
        if in_first and in_second:
            v = (one + two) / 2
            log_ratio += log_normal((one - two) / 2, 0.0, sigma) - log_jacobian
        put(state, q, first | second, time, block, v)
    return log_ratio
