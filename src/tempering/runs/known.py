"""What is known of a run's mixture, exactly, whatever the draws say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempering.estimators.calibration import ENTRIES, Known
from tempering.path.scores import scores
from tempering.runs.positions import positions_of

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws


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
