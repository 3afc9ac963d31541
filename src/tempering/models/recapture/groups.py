"""Where the free values of a structure stand in the table of cells.

A chain holds every parameter as a full table ``(K, A)``: classes of one group share their values, a group
without time dependence has one value in all intervals. Fixed shapes, whatever the model.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from tempering.models.recapture.partitions import PartitionTable

Array = Any


class Groups(NamedTuple):
    """The groups of one parameter.

    ``same`` (A, A), whether two classes share a group; ``is_youngest`` (A,); ``youngest`` (A,), the class
    that stands for a group; ``timed`` (A,); ``exists`` (K, A), the intervals in which a group has a bird to
    speak of; ``code`` (A,), the group as a set of bits.
    """

    same: Array
    is_youngest: Array
    youngest: Array
    timed: Array
    exists: Array
    code: Array

    @property
    def free(self) -> Array:
        """Mark one cell ``(K, A)`` for each free value; the first one for a value without time dependence."""
        first_interval = jnp.arange(self.exists.shape[0])[:, None] == 0
        return self.is_youngest & jnp.where(self.timed, self.exists, first_interval)

    def shared(self, cells: Array) -> Array:
        """Give every class the cell of its youngest, and every interval the first cell if not timed."""
        by_group = self.of_youngest(cells)
        return jnp.where(self.timed, by_group, by_group[..., :1, :])

    def of_youngest(self, cells: Array) -> Array:
        """Give every class the cell of its youngest, by selections: faster than a gather."""
        out = cells
        for j in range(cells.shape[-1] - 1):
            out = jnp.where(self.youngest == j, cells[..., j : j + 1], out)
        return out

    def total(self, cells: Array) -> Array:
        """Sum over the classes of each group; every class gets its group's sum."""
        return cells @ self.same.astype(cells.dtype)


def groups(table: PartitionTable, partition: Array, timed: Array, cells: Array) -> Groups:
    """Look up the groups of a partition; ``cells`` (K, A) are the parameter's free cells."""
    labels = jnp.asarray(table.labels)[partition]
    youngest = jnp.asarray(table.youngest)[partition]
    same = labels[:, None] == labels[None, :]
    classes = jnp.arange(labels.shape[0])
    return Groups(
        same=same,
        is_youngest=youngest == classes,
        youngest=youngest,
        timed=timed,
        exists=(cells[:, None, :] & same).any(axis=-1),
        code=jnp.sum(same << classes, axis=-1),
    )
