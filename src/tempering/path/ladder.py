"""Temperature ladders: 1 = k_1 > k_2 > ... > k_m >= 0 (Section 2 of the paper).

A ladder is a validated, frozen value. Rung 0 is the cold one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError, LadderError


@dataclass(frozen=True, eq=False)
class Ladder:
    """Hold inverse temperatures from cold (k = 1) to hot.

    Parameters
    ----------
    inverse_temperatures : sequence of float
        The first must be 1; the rest strictly decrease and stay at or above 0.

    Examples
    --------
    >>> Ladder([1, 0.5, 0.1])
    Ladder(3 rungs, k = 1, 0.5, 0.1)
    """

    inverse_temperatures: NDArray[np.float64]

    def __init__(self, inverse_temperatures: Sequence[float] | NDArray[np.float64]) -> None:
        try:
            k = np.array(inverse_temperatures, dtype=np.float64)
        except (TypeError, ValueError):
            raise LadderError(
                f"A ladder must hold inverse temperatures, but got {inverse_temperatures!r}. Write [1, 0.5, 0.1], or "
                "Ladder.geometric(rungs, hottest)."
            ) from None
        _check(k)
        k.setflags(write=False)
        object.__setattr__(self, "inverse_temperatures", k)

    @classmethod
    def geometric(cls, rungs: int, hottest: float | None = None, *, rate: float | None = None) -> Ladder:
        """Space log k evenly: k_i = (1 + rate)^(1 - i).

        Give either the ``hottest`` inverse temperature or the paper's ``rate``, Delta_k.

        Examples
        --------
        >>> Ladder.geometric(3, 0.25)
        Ladder(3 rungs, k = 1, 0.5, 0.25)
        """
        _check_spacing(rungs, hottest, rate)
        if rungs == 1:
            return cls([1.0])
        if rate is not None:
            return cls((1.0 + rate) ** -np.arange(rungs, dtype=float))
        assert hottest is not None
        return cls(_end_at(hottest ** np.linspace(0.0, 1.0, rungs), hottest))

    @classmethod
    def harmonic(cls, rungs: int, hottest: float | None = None, *, rate: float | None = None) -> Ladder:
        """Space 1 / k evenly: k_i = 1 / (1 + rate (i - 1)).

        Examples
        --------
        >>> Ladder.harmonic(3, 0.2)
        Ladder(3 rungs, k = 1, 0.333333, 0.2)
        """
        _check_spacing(rungs, hottest, rate)
        if rungs == 1:
            return cls([1.0])
        if rate is not None:
            return cls(np.asarray(1.0 / (1.0 + rate * np.arange(rungs)), dtype=np.float64))
        assert hottest is not None
        return cls(_end_at(1.0 / np.linspace(1.0, 1.0 / hottest, rungs), hottest))

    @classmethod
    def sigmoidal(cls, rungs: int, hottest: float | None = None, *, rate: float | None = None) -> Ladder:
        """Space the logit of k / 1.01 evenly: dense at both ends.

        k_i = 1.01 / (1 + 0.01 exp{rate (i - 1)}), the third spacing offered by the paper's program.

        Examples
        --------
        >>> Ladder.sigmoidal(3, 0.1)
        Ladder(3 rungs, k = 1, 0.775931, 0.1)
        """
        _check_spacing(rungs, hottest, rate)
        if rungs == 1:
            return cls([1.0])
        if rate is None:
            assert hottest is not None
            rate = float(np.log((1.01 - hottest) / (0.01 * hottest))) / (rungs - 1)
            return cls(_end_at(1.01 / (1.0 + 0.01 * np.exp(rate * np.arange(rungs))), hottest))
        return cls(_end_at(1.01 / (1.0 + 0.01 * np.exp(rate * np.arange(rungs))), None))

    @property
    def hottest(self) -> float:
        """The smallest inverse temperature, k_m."""
        return float(self.inverse_temperatures[-1])

    def __len__(self) -> int:
        return len(self.inverse_temperatures)

    def __iter__(self) -> Iterator[float]:
        return iter(self.inverse_temperatures.tolist())

    def __getitem__(self, rung: int) -> float:
        return float(self.inverse_temperatures[rung])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ladder) and np.array_equal(self.inverse_temperatures, other.inverse_temperatures)

    def __hash__(self) -> int:
        return hash(self.inverse_temperatures.tobytes())

    def __repr__(self) -> str:
        shown = [f"{k:.6g}" for k in self]
        if len(shown) > 6:
            shown = [*shown[:3], "...", *shown[-2:]]
        return f"Ladder({len(self)} rung{'s' if len(self) > 1 else ''}, k = {', '.join(shown)})"


def _end_at(k: NDArray[np.float64], hottest: float | None) -> NDArray[np.float64]:
    """Make the two ends exact, which rounding may have missed by a bit."""
    k[0] = 1.0
    if hottest is not None:
        k[-1] = hottest
    return k


def _check(k: NDArray[np.float64]) -> None:
    if k.ndim != 1 or k.size == 0:
        raise LadderError(
            f"A ladder is a non-empty sequence of inverse temperatures, but got shape {k.shape}. "
            "Pass for example [1, 0.5, 0.1]."
        )
    if not np.all(np.isfinite(k)):
        raise LadderError(
            f"Inverse temperatures must be finite, but rung {_first(~np.isfinite(k))} is not. Remove or repair it."
        )
    if k[0] != 1.0:
        advice = (
            "reverse the sequence if yours goes from hot to cold."
            if k[-1] == 1.0
            else "inverse temperatures are 1 / temperature, and the first must be 1."
        )
        raise LadderError(
            f"The first rung must be the cold one, k = 1, but it is k = {k[0]:g}. Rungs go from cold to hot: {advice}"
        )
    steps = np.diff(k)
    if np.any(steps >= 0):
        i = _first(steps >= 0)
        raise LadderError(
            f"Inverse temperatures must strictly decrease, but rung {i} has k = {k[i]:g} and rung {i + 1} has "
            f"k = {k[i + 1]:g}. Sort them from 1 downwards and drop repeats."
        )
    if k[-1] < 0:
        raise LadderError(
            f"Inverse temperatures must not be negative, but the hottest is {k[-1]:g}. Use 0 for the base itself."
        )


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(mask)[0])


def _check_spacing(rungs: int, hottest: float | None, rate: float | None) -> None:
    if not isinstance(rungs, int | float | np.number) or int(rungs) != rungs or rungs < 1:
        raise LadderError(
            f"The number of rungs must be a whole number of at least 1, but got {rungs}. Pass for example 10."
        )
    if rungs == 1:
        return
    if (hottest is None) == (rate is None):
        raise LadderError(
            "Give either hottest (the smallest inverse temperature) or rate (the paper's Delta_k), not "
            + ("both." if hottest is not None else "neither.")
        )
    if hottest is not None and not 0.0 < hottest < 1.0:
        advice = f": for a hottest temperature of {hottest:g}, pass {1 / hottest:g}" if hottest > 1 else ""
        raise LadderError(
            f"The hottest inverse temperature must lie in (0, 1), but got {hottest:g}. It is k_m = 1 / temperature"
            f"{advice}. A ladder that ends at 0 is written out: Ladder([1, ..., 0])."
        )
    if rate is not None and not rate > 0.0:
        raise LadderError(
            f"The rate Delta_k must be positive, but got {rate:g}. "
            "Give hottest in its place if you know where the ladder should end."
        )


def parse_ladder(text: str | None) -> list[float] | None:
    """Read inverse temperatures, separated by commas."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"A ladder must be numbers separated by commas, but got {text!r}. Write 1,0.5,0.1.") from error
