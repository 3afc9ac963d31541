"""Where chains start: what a user passes as ``initial``, as a tuple of positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tempering.errors import TargetError
from tempering.target import Target
from tempering.target.checks import possible_draws


def starting_points(initial: Any, target: Target) -> tuple[Any, ...]:
    """Return the user's starting points; none where they are to be drawn.

    A list holds several positions. A list of plain numbers is one vector where the log density takes vectors, and
    several numbers where it takes numbers. An array with one axis more than a position holds several, one a row. Where
    the target knows a model's own values, these are what a user gives.
    """
    points = _points(initial, target)
    for point in points:
        if np.asarray(point).dtype.kind == "f" and not np.all(np.isfinite(point)):
            raise TargetError(f"A chain must start at finite numbers, but got {point}. Pass another initial position.")
        if isinstance(point, Mapping):
            for name, value in point.items():
                if not isinstance(value, Mapping) and np.asarray(value).dtype.kind not in "fiub":
                    raise TargetError(f"A chain must start at numbers, but {name!r} is {value!r}. Pass numbers.")
    if target.unconstrain is not None:
        points = tuple(target.unconstrain(point) for point in points)
    if not points and target.sample_base is not None:
        return possible_draws(target)
    return points


def _points(initial: Any, target: Target) -> tuple[Any, ...]:
    if initial is None:
        return ()
    if isinstance(initial, str | bytes | bool) or callable(initial):
        raise TargetError(
            f"initial must be a position, numbers or a dictionary of them, but got {type(initial).__name__}. Pass "
            "where chains start, or leave it out to start from the prior."
        )
    if not isinstance(initial, list):
        return _rows(initial.to_numpy() if hasattr(initial, "to_numpy") else initial, target)  # of pandas
    if not initial:
        raise TargetError(
            "initial must hold at least one position, but got an empty list. Pass a position, or leave it out to start "
            "from the prior."
        )
    if not all(_is_number(x) for x in initial):
        return tuple(np.asarray(x, dtype=float) if _is_vector(x) else x for x in initial)
    vector = np.asarray(initial, dtype=float)
    if not _gives_one_number(target, vector) and _gives_one_number(target, vector[0]):
        return tuple(float(x) for x in vector)
    return (vector,)


def _rows(initial: Any, target: Target) -> tuple[Any, ...]:
    """Return an array's rows where they are the positions, the array itself where it is one; refuse where both fit."""
    if isinstance(initial, Mapping) or not hasattr(initial, "shape") or np.ndim(initial) < 2:
        return (initial,)
    rows_fit, whole_fits = _gives_one_number(target, initial[0]), _gives_one_number(target, initial)
    if not rows_fit:
        return (initial,)
    if not whole_fits:
        return tuple(initial)
    raise TargetError(
        f"initial has shape {np.shape(initial)}: the log density takes it both as one position and as "
        f"{len(initial)} positions, one a row. Pass list(initial) for several, or [initial] for one."
    )


def check_value(value: Any, position: Any) -> None:
    """Refuse a log density that does not return one number."""
    found = np.asarray(value)
    if found.shape == () and found.dtype.kind in "fiub":
        return
    came = f"shape {found.shape}" if found.dtype.kind in "fiub" else type(value).__name__
    raise TargetError(
        f"A log density must return one number, but at a position of shape {np.shape(position)} it returned {came}. "
        "Sum over the coordinates, and look for a missing return."
    )


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | np.number) and not isinstance(x, bool)


def _is_vector(x: Any) -> bool:
    return isinstance(x, list | tuple) and len(x) > 0 and all(_is_number(part) for part in x)


def _gives_one_number(target: Target, position: Any) -> bool:
    import jax

    if target.unconstrain is not None:
        try:
            target.unconstrain(position)
        except Exception:  # no position of the model's
            return False
        return True
    try:
        with jax.enable_x64(True), np.errstate(all="ignore"):
            return all(np.shape(f(position)) == () for f in (target.base, target.energy) if f is not None)
    except Exception:  # whatever the user's function says about a position that is none of its own
        return False
