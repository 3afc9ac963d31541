"""Checks on the arrays that come in, and their one internal shape.

Draws come with leading axes (draw,) or (chain, draw), in time order. Inside, everything is (chain, draw).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import EstimatorError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

DRAWS_AT_ONCE = 1 << 15  # 256 KiB of doubles: a chunk and its temporaries stay in the second-level cache


def slices(n: int, size: int = DRAWS_AT_ONCE) -> Iterator[slice]:
    """Cut ``range(n)`` into consecutive slices of at most ``size``."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def frozen(array: ArrayLike) -> Floats:
    """Return a read-only copy in double precision."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def as_rung(rung: ArrayLike) -> Ints:
    """Check the rung of every draw: integers from 0, leading axes (draw,) or (chain, draw)."""
    rung = np.asarray(rung)
    if rung.ndim not in (1, 2) or rung.size == 0:
        raise EstimatorError(
            f"rung must have the axes (draw,) or (chain, draw) and hold at least one draw, but its shape is "
            f"{rung.shape}. Pass one integer for each draw, in time order."
        )
    if not np.issubdtype(rung.dtype, np.integer):
        raise EstimatorError(
            f"rung must hold integers, but its type is {rung.dtype}. Convert it with rung.astype(int); 0 is cold."
        )
    if rung.min() < 0:
        raise EstimatorError(f"rung must not be negative, but its smallest is {rung.min()}. Rung 0 is the cold one.")
    return rung.astype(np.intp, copy=False)


def count_rungs(rung: Ints, n_rungs: int | None) -> int:
    """Return the number of rungs, which no index may reach."""
    highest = int(rung.max())
    if n_rungs is None:
        return highest + 1
    if highest >= n_rungs:
        raise EstimatorError(
            f"rung must lie below the number of rungs, {n_rungs}, but its largest is {highest}. "
            f"Rungs are counted from 0: check the ladder these draws came from."
        )
    return n_rungs


def as_log(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Check a log quantity: one per draw, minus infinity allowed, NaN and plus infinity not."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EstimatorError(f"{name} must be numbers, but: {error}. Pass one for each draw.") from None
    if array.shape != shape:
        raise EstimatorError(
            f"{name} must have one entry for each draw, shape {shape}, but its shape is {array.shape}. "
            f"Pass arrays with the same leading axes."
        )
    # the maximum of an array with a NaN is NaN: one pass sees both
    if array.size and not array.max() < np.inf:
        n_bad = int(np.sum(np.isnan(array) | (array == np.inf)))
        raise EstimatorError(
            f"{name} must be below infinity and not NaN, but {n_bad} of {array.size} entries are not. "
            f"Minus infinity is allowed (a weight of zero); remove or repair the other draws."
        )
    return array


def as_inverse_temperatures(inverse_temperatures: ArrayLike) -> Floats:
    """Check the inverse temperature of each rung: finite and not negative."""
    k = np.asarray(inverse_temperatures, dtype=np.float64)
    if k.ndim != 1 or k.size == 0 or not np.all(np.isfinite(k)) or k.min() < 0:
        raise EstimatorError(
            f"inverse_temperatures must be a list of finite numbers k >= 0, one for each rung, but got {k}. "
            f"Pass k, not the temperature 1 / k."
        )
    return k


def temper(inverse_temperature: ArrayLike, energy: Floats) -> Floats:
    """Return k * energy, which is 0 at k = 0 even where the energy is minus infinity."""
    k = np.asarray(inverse_temperature, dtype=np.float64)
    if np.min(energy, initial=np.inf) > -np.inf or np.all(k != 0.0):
        return np.asarray(k * energy)
    with np.errstate(invalid="ignore"):
        return np.where(k == 0.0, 0.0, k * energy)


def temper_by_rung(power: Floats, rung: NDArray[np.integer[Any]], energy: Floats) -> Floats:
    """Return power[rung] * energy, which is 0 where the power is, even where the energy is minus infinity.

    Examples
    --------
    >>> temper_by_rung(np.array([0.5, 0.0]), np.array([0, 0, 1]), np.array([3.0, -np.inf, -np.inf]))
    array([ 1.5, -inf,  0. ])
    """
    product = power.take(rung)
    if np.min(energy) > -np.inf:
        product *= energy
    else:
        np.multiply(product, energy, out=product, where=product != 0.0)
    return product
