"""Choose a neighbouring structure: flip a group's time dependence, split a group, or merge two.

A flip is chosen half of the time, a split and a merge a quarter each; a move that is not available is a
rejection. Only groups with the same time dependence merge, so ``timed``, kept by class, changes in flips
alone.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from tempering.models.recapture.partitions import PartitionTable

Array = Any

FLIP, SPLIT, MERGE = range(3)


class Change(NamedTuple):
    """A proposed structure of one parameter.

    ``kind`` is FLIP, SPLIT or MERGE; ``first`` and ``second`` (A,) mark the classes of the changed groups (a
    flip has no second); ``log_choice`` is the log ratio of the chances to choose the move back and forth.
    """

    kind: Array
    partition: Array
    timed: Array
    first: Array
    second: Array
    log_choice: Array
    possible: Array


def propose_change(table: PartitionTable, uniform: Array, partition: Array, timed: Array) -> Change:
    """Choose a neighbour of a structure; ``uniform`` holds two numbers, for the kind and for the groups."""
    kind = jnp.where(uniform[0] < 0.5, FLIP, jnp.where(uniform[0] < 0.75, SPLIT, MERGE))
    options = [propose(table, uniform[1], partition, timed) for propose in (_flip, _split, _merge)]
    is_kind = [kind == FLIP, kind == SPLIT]
    fields = zip(*(option[1:] for option in options), strict=True)
    return Change(kind, *(jnp.where(is_kind[0], a, jnp.where(is_kind[1], b, c)) for a, b, c in fields))


def n_merges(table: PartitionTable, partition: Array, timed: Array) -> Array:
    """Count the pairs of groups that may merge."""
    return _mergeable(table, partition, timed).sum()


def _mergeable(table: PartitionTable, partition: Array, timed: Array) -> Array:
    a, b = table.pairs.T
    return jnp.asarray(table.can_merge)[partition] & (timed[a] == timed[b])


def _choose(uniform: Array, eligible: Array) -> Array:
    """Return the index of a uniformly chosen eligible entry."""
    rank = jnp.floor(uniform * eligible.sum())
    return jnp.argmax(jnp.cumsum(eligible) > rank)


def _flip(table: PartitionTable, uniform: Array, partition: Array, timed: Array) -> Change:
    youngest = jnp.asarray(table.youngest)[partition]
    group = youngest == _choose(uniform, youngest == jnp.arange(len(youngest)))
    true, zero = jnp.asarray(True), jnp.zeros((), uniform.dtype)
    return Change(jnp.asarray(FLIP), partition, timed ^ group, group, jnp.zeros_like(group), zero, true)


def _split(table: PartitionTable, uniform: Array, partition: Array, timed: Array) -> Change:
    n_splits = jnp.asarray(table.n_splits)[partition]
    which = jnp.minimum(jnp.floor(uniform * n_splits).astype(jnp.int32), table.split_to.shape[1] - 1)
    target = jnp.asarray(table.split_to)[partition, which]
    leaving = jnp.asarray(table.split_off)[partition, which]
    labels = jnp.asarray(table.labels)[partition]
    staying = (labels == labels[jnp.argmax(leaving)]) & ~leaving
    log_choice = _log(n_splits, uniform) - _log(n_merges(table, target, timed), uniform)
    return Change(jnp.asarray(SPLIT), target, timed, staying, leaving, log_choice, n_splits > 0)


def _merge(table: PartitionTable, uniform: Array, partition: Array, timed: Array) -> Change:
    eligible = _mergeable(table, partition, timed)
    pair = _choose(uniform, eligible)
    target = jnp.asarray(table.merge_to)[partition, pair]
    labels = jnp.asarray(table.labels)[partition]
    first, second = (labels == labels[jnp.asarray(table.pairs)[pair, i]] for i in (0, 1))
    n_back = jnp.asarray(table.n_splits)[target]
    log_choice = _log(eligible.sum(), uniform) - _log(n_back, uniform)
    return Change(jnp.asarray(MERGE), target, timed, first, second, log_choice, eligible.any())


def _log(count: Array, like: Array) -> Array:
    """Return log count; a count of 0 belongs to a move that is not possible."""
    return jnp.log(jnp.maximum(count, 1).astype(like.dtype))
