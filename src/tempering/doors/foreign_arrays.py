"""Arrays from elsewhere: their axes moved and checked, and `from_arrays`, which makes them draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.path import Ladder, Path
from tempering.runs.draws import TemperedDraws

STEADY = 1e-12  # relative change of an inverse temperature below which it is the same


def floats(array: Any, name: str) -> Floats:
    """Return an array of numbers, or say which one is none."""
    try:
        return np.asarray(array, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, but: {error}. Pass an array of them.") from None


def from_arrays(
    values: Mapping[str, ArrayLike],
    inverse_temperatures: ArrayLike,
    energy: ArrayLike,
    *,
    chains_per_ensemble: int = 1,
    is_powered: bool = False,
) -> TemperedDraws:
    """Return draws made anywhere.

    Parameters
    ----------
    values : mapping of str to array_like, shape (chain, draw, ...)
    inverse_temperatures : array_like, shape (chain, draw), or (chain, 1) for rows of one k
        What each draw was made at, in [0, 1].
    energy : array_like, shape (chain, draw)
        What is tempered: log pi where the whole density is, the log likelihood where only that is. Never multiplied
        by k.
    chains_per_ensemble : int
        Neighbouring rows that influenced each other.
    is_powered : bool
        Whether the whole density is tempered; otherwise k = 0 is the prior, and the evidence is absolute.

    Examples
    --------
    >>> run = from_arrays({"x": [[0.0, 1.0, 2.0, 1.0]]}, [[1.0, 0.5, 0.5, 1.0]], [[-0.1, -0.6, -2.1, -0.6]])
    >>> run.ladder
    Ladder(2 rungs, k = 1, 0.5)
    """
    e = floats(energy, "energy")
    if e.ndim != 2:
        raise InputError(f"energy must have the axes (chain, draw), but has shape {e.shape}. Add the missing axis.")
    arrays = {name: np.asarray(value) for name, value in values.items()}
    for name, array in arrays.items():
        check_shape(name, array.shape[:2], ("chain", "draw"), e.shape)
    if np.any(np.isnan(e)) or np.any(e == np.inf):
        chain, draw = np.argwhere(np.isnan(e) | (e == np.inf))[0]
        raise InputError(
            f"energy must be a number or minus infinity, but chain {chain}, draw {draw} has {e[chain, draw]}. "
            "Drop the draws that were never filled."
        )
    ladder, rung = _rungs(np.broadcast_to(floats(inverse_temperatures, "inverse_temperatures"), e.shape))
    return TemperedDraws(
        values=arrays,
        rung=rung,
        terms=e[..., np.newaxis],
        path=Path.of_energy(ladder, is_powered=is_powered),
        log_pseudo_prior=np.zeros(len(ladder)),
        proposed=np.concatenate([rung[:, :1], rung[:, :-1]], axis=1),  # no rung move is known of
        acceptance=np.full((*e.shape, 1), np.nan, np.float32),
        chains_per_ensemble=chains_per_ensemble,
    )


def _rungs(k: Floats) -> tuple[Ladder, NDArray[np.int32]]:
    """Return the distinct inverse temperatures, 1 among them, and the rung of every draw."""
    if not np.all((k >= 0) & (k <= 1)):
        raise InputError(
            f"Inverse temperatures must lie in [0, 1], but they reach from {k.min():g} to {k.max():g}. If these are "
            "temperatures, pass their inverses."
        )
    ladder = -np.unique(-np.append(k.ravel(), 1.0))
    return Ladder(ladder), np.searchsorted(-ladder, -k).astype(np.int32)


def steady(k: ArrayLike) -> Floats:
    """Return the one row of inverse temperatures that all steps share."""
    table = floats(k, "Inverse temperatures")
    if table.ndim < 2:
        return table
    if np.any(np.abs(table - table[-1]) > STEADY * np.abs(table[-1])):
        raise InputError(
            "Inverse temperatures must stay the same while draws are kept, but these change from step to step. "
            "Discard the steps in which they were adapted."
        )
    return np.asarray(table[-1])


def temperatures_along(k: ArrayLike, energy: Floats, axis: int, axes: tuple[str, ...]) -> Floats:
    """Return the inverse temperatures, checked against the axis of the energies that they belong to."""
    found = floats(k, "Inverse temperatures")
    if energy.ndim != len(axes):
        raise InputError(f"Energies must have the axes {axes}, but they have shape {energy.shape}. Move their axes.")
    if found.shape != (energy.shape[axis],):
        raise InputError(
            f"There must be one inverse temperature for each of the {energy.shape[axis]} places on axis {axis} "
            f"({axes[axis]}) of the energies, but got shape {found.shape}. Check the order of the axes: {axes}."
        )
    return found


def check_axes(name: str, array: Floats, n: int, axes: tuple[str, ...]) -> None:
    """Refuse an array with another number of axes."""
    if array.ndim != n:
        raise InputError(f"{name} must have the axes {axes}, but has shape {array.shape}. Move or add axes.")


def check_shape(name: str, found: tuple[int, ...], axes: tuple[str, ...], wanted: tuple[int, ...]) -> None:
    """Refuse an array whose leading axes are not those of the energies."""
    if found != wanted:
        raise InputError(
            f"{name} must lie on the axes {axes} as the energies do, {wanted}, but has {found}. Move its axes."
        )


def named(x: Floats, names: Sequence[str] | None) -> dict[str, Floats]:
    """Split the last axis into named numbers, or keep it whole under the name x."""
    if names is None:
        return {"x": x}
    if len(names) != x.shape[-1]:
        raise InputError(
            f"There must be a name for each of {x.shape[-1]} dimensions, but got {len(names)}: {list(names)}."
        )
    return {name: x[..., i] for i, name in enumerate(names)}


def time_last_of_three(array: NDArray[Any]) -> NDArray[Any]:
    """Turn (step, temperature, walker, ...) into (temperature x walker, step, ...)."""
    moved = np.moveaxis(array, 0, 2)
    return moved.reshape(moved.shape[0] * moved.shape[1], *moved.shape[2:])


def ensembles_first(array: NDArray[Any]) -> NDArray[Any]:
    """Turn (result, replica, batch, ...) into (batch x replica, result, ...)."""
    moved = np.moveaxis(array, (2, 1, 0), (0, 1, 2))
    return moved.reshape(moved.shape[0] * moved.shape[1], *moved.shape[2:])
