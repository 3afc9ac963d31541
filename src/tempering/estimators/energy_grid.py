"""A uniform grid of energies that stands for any number of draws.

Everything MBAR needs of a draw is a smooth function of its energy. Draws are spread over the six nearest
nodes with the weights of Lagrange interpolation, so that a sum over nodes equals the sum over draws up to the
sixth power of the spacing; the same six nodes bring a function known at the nodes back to the draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempering.estimators.arrays import Floats, Ints, slices

OFFSETS = np.arange(-2, 4)  # nodes of a cell's stencil, counted from its left end
# The mixture's shares p(e) are logistic in e with slopes up to the largest k: |p^(6)| < k^6 / 2, and the
# stencil's error is 0.0049 h^6 |p^(6)|: below 1e-11 at h = 0.04 / k.
SPACING = 0.04
MAXIMUM_NODES = 1 << 18
MINIMUM_DRAWS = 1000  # below, a grid saves nothing
FAR = 1e-3  # share of the draws that may lie below a long grid, one node each
DRAWS_AT_ONCE = 1 << 14  # cells, places and powers of a chunk stay in the second-level cache


def _stencil() -> Floats:
    """Return the coefficients (offset, power) of the Lagrange polynomials through the stencil."""
    rows = []
    for offset in OFFSETS:
        others = OFFSETS[OFFSETS != offset]
        rows.append(np.poly(others)[::-1] / np.prod(offset - others))
    return np.array(rows)


STENCIL = _stencil()


@dataclass(frozen=True)
class EnergyGrid:
    """Nodes ``low + spacing * index`` for energies in [low + 2 spacing, low + (n_nodes - 3) spacing]."""

    low: float
    spacing: float
    n_nodes: int

    @classmethod
    def covering(cls, lowest: float, highest: float, largest_k: float) -> EnergyGrid:
        """Return a grid over [lowest, highest], as fine as MBAR needs or as the number of nodes allows."""
        spacing = max(SPACING / largest_k, (highest - lowest) / (MAXIMUM_NODES - 7))
        n_cells = int((highest - lowest) / spacing) + 1
        return cls(lowest - 2 * spacing, spacing, n_cells + 5)

    @property
    def nodes(self) -> Floats:
        """The energies of the nodes."""
        return self.low + self.spacing * np.arange(self.n_nodes, dtype=np.float64)

    def locate(self, energy: Floats) -> tuple[Ints, Floats]:
        """Return the cell of each energy and the place in it, from 0 to 1; below the grid all is put at its end."""
        place = energy - self.low
        place /= self.spacing
        np.maximum(place, 2.0, out=place)
        cell = place.astype(np.intp)
        np.minimum(cell, self.n_nodes - 4, out=cell)
        place -= cell
        return cell, place

    def scatter(self, energy: Floats, amounts: Floats | None = None) -> Floats:
        """Return node weights whose sums equal sums over the draws, each counted once or by its amount."""
        moments = np.zeros((OFFSETS.size, self.n_nodes))
        for part in slices(energy.size, max(DRAWS_AT_ONCE, self.n_nodes)):
            cell, place = self.locate(energy[part])
            power = np.ones(cell.size) if amounts is None else amounts[part].copy()
            for moment in moments:
                moment += np.bincount(cell, power, self.n_nodes)
                power *= place
        weights = np.zeros(self.n_nodes)
        for offset, coefficients in zip(OFFSETS, STENCIL, strict=True):
            weights += np.roll(coefficients @ moments, offset)  # the rim is empty: nothing wraps around
        return weights

    def interpolate(self, table: Floats, energy: Floats) -> Floats:
        """Return a function at the draws, given at the nodes."""
        left, rises = table[2:-3], self._rises(table)
        out = np.empty(energy.size)
        for part in slices(energy.size, DRAWS_AT_ONCE):
            cell, place = self.locate(energy[part])
            cell -= 2
            value = rises[-1].take(cell)
            for coefficient in (*rises[-2::-1], left):
                value *= place
                value += coefficient.take(cell)
            out[part] = value
        return out

    def _rises(self, table: Floats) -> Floats:
        """Return the coefficients (power - 1, cell) of each cell's polynomial, less what it is at its left end.

        Of differences, so that a large constant costs no digits.
        """
        n_cells = self.n_nodes - OFFSETS.size + 1
        rises = np.zeros((OFFSETS.size - 1, n_cells))
        for offset, coefficients in zip(OFFSETS.tolist(), STENCIL, strict=True):
            rise = table[2 + offset : 2 + offset + n_cells] - table[2 : 2 + n_cells]
            for row, coefficient in zip(rises, coefficients[1:].tolist(), strict=True):
                row += coefficient * rise
        return rises


@dataclass(frozen=True, eq=False)
class EnergyNodes:
    """Nodes that stand for draws: those of a grid, then one for each draw that lies off it.

    Without a grid every draw is its own node.
    """

    energy: Floats
    grid: EnergyGrid | None
    off_grid: Ints
    is_exact: bool  # whether sums over nodes equal sums over draws up to rounding

    @property
    def node_energy(self) -> Floats:
        """Energy of each node."""
        if self.grid is None:
            return self.energy
        return np.concatenate([self.grid.nodes, self.energy[self.off_grid]])

    def scatter(self, amounts: Floats) -> Floats:
        """Return amounts at the nodes whose sums equal those over the draws."""
        if self.grid is None:
            return amounts
        on_grid = amounts
        if self.off_grid.size:
            on_grid = amounts.copy()
            on_grid[self.off_grid] = 0.0
        return np.concatenate([self.grid.scatter(self.energy, on_grid), amounts[self.off_grid]])

    def gather(self, table: Floats) -> Floats:
        """Return a function at the draws, given at the nodes."""
        if self.grid is None:
            return table
        values = self.grid.interpolate(table[: self.grid.n_nodes], self.energy)
        values[self.off_grid] = table[self.grid.n_nodes :]
        return values


def stand_in_nodes(energy: Floats, largest_k: float) -> EnergyNodes:
    """Choose nodes for draws of these energies: those of a grid where it is smaller than the draws.

    Parameters
    ----------
    energy : ndarray, shape (n_draws,)
        Minus infinity is allowed, and lies off any grid.
    largest_k : float
        The largest inverse temperature, which bounds how fast anything varies with the energy.
    """
    finite = energy if energy.min() > -np.inf else energy[energy > -np.inf]
    own_nodes = EnergyNodes(energy, None, np.empty(0, np.intp), True)
    if finite.size < MINIMUM_DRAWS:
        return own_nodes
    lowest, highest = float(finite.min()), float(finite.max())
    if (highest - lowest) * largest_k > SPACING * MAXIMUM_NODES:
        far = int(FAR * finite.size)
        lowest = float(np.partition(finite, far)[far])
    grid = EnergyGrid.covering(lowest, highest, largest_k)
    if 2 * grid.n_nodes > energy.size:
        return own_nodes
    is_exact = grid.spacing * largest_k <= SPACING * (1 + 1e-9)
    return EnergyNodes(energy, grid, np.flatnonzero(energy < lowest), is_exact)
