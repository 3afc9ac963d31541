"""Where draws are, as the flat vectors that a path's mixtures know, and what is known of the mixture there.

A user's values may be functions of these vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempering.arrays import Floats
from tempering.estimators.calibration import ENTRIES, Known
from tempering.path.scores import scores
from tempering.target.whitened import Coordinates

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws

N_COMPARED = 64  # draws whose densities tell whether values are the positions themselves


@dataclass(frozen=True, eq=False)
class Positions:
    """Flat vectors, (chain, draw, coordinate), and the coordinates they are in, where those are not the user's own."""

    values: Floats
    coordinates: Coordinates | None = None

    def seen_from(self, other: Positions) -> Floats:
        """Return them in the coordinates of another run."""
        if self.coordinates is other.coordinates:
            return self.values
        plain = self.values if self.coordinates is None else self.coordinates.flat_position(self.values)
        return plain if other.coordinates is None else other.coordinates.flat_whitened(plain)


def positions_of(draws: TemperedDraws) -> Positions | None:
    """Return where draws are; None where they were read from a file and their values are functions of that."""
    if draws.positions is not None:
        return draws.positions
    layout, path = draws.layout, draws.path
    if layout is None or tuple(draws.values) != layout.names or not path.references:
        return None
    if [np.shape(draws.values[name])[2:] for name in layout.names] != list(layout.shapes):
        return None
    lead = draws.rung.shape
    flat = np.concatenate([np.asarray(draws.values[name]).reshape(*lead, -1) for name in layout.names], axis=-1)
    rows = np.linspace(0, draws.rung.size - 1, min(N_COMPARED, draws.rung.size)).astype(int)
    recorded = draws.terms.reshape(draws.rung.size, -1)[rows, -1]
    is_same = np.allclose(path.references[-1].log_density(flat.reshape(draws.rung.size, -1)[rows]), recorded)
    return Positions(flat) if is_same else None


def known_of_mixture(draws: TemperedDraws) -> Known | None:
    """Return the density of the mixture at all draws, and functions of mean zero under it.

    None where there is no mixture, where it was fitted to some of these draws (joined runs), where draws lie the other
    way (populations), and where positions are not known.
    """
    is_run = draws.info is not None and draws.info.method in ("simulated", "parallel")
    if not is_run or not draws.path.references or draws.rung.size > ENTRIES:
        return None
    positions = positions_of(draws)
    if positions is None:
        return None
    mixture, n = draws.path.references[-1], draws.rung.size
    flat = positions.values.reshape(n, -1)
    return Known(draws.terms[..., -1].ravel(), lambda most: scores(mixture, flat, most))
