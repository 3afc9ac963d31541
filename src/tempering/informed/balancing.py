"""Balancing functions by name, in logs: h(r) = r h(1/r), so that pi(x) h(pi(y) / pi(x)) is symmetric in x and y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tempering.arrays import Floats
from tempering.errors import SamplerError, check_count

LogBalancing = Callable[[Floats], Floats]


def _square_root(log_ratio: Floats) -> Floats:
    return 0.5 * log_ratio


def _min(log_ratio: Floats) -> Floats:
    return np.minimum(log_ratio, 0.0)


def _max(log_ratio: Floats) -> Floats:
    return np.where(log_ratio == -np.inf, -np.inf, np.maximum(log_ratio, 0.0))


def _barker(log_ratio: Floats) -> Floats:
    return -np.logaddexp(0.0, -log_ratio)


def _sum(log_ratio: Floats) -> Floats:
    return np.where(log_ratio == -np.inf, -np.inf, np.logaddexp(0.0, log_ratio))


BALANCING: dict[str, LogBalancing] = {
    "square_root": _square_root,
    "min": _min,
    "max": _max,
    "barker": _barker,
    "sum": _sum,
}
"""square_root r^(1/2); min(1, r); max(1, r); barker r / (1 + r); sum 1 + r, which is tempered Gibbs on binary
coordinates. A neighbour without probability, r = 0, gets rate 0 from each: a chain must not step there."""


def log_balancing(name: str) -> LogBalancing:
    """Return ``log h`` as a function of ``log r``.

    Examples
    --------
    >>> log_balancing("barker")(np.log([1.0, 3.0])).round(4)
    array([-0.6931, -0.2877])
    """
    if name not in BALANCING:
        raise SamplerError(f"There is no balancing function {name!r}: choose one of {', '.join(BALANCING)}.")
    return BALANCING[name]


@dataclass(frozen=True)
class Balancing:
    """How the neighbours of a state are weighed against it, and how many of them are looked at.

    Parameters
    ----------
    name : str
        One of `BALANCING`.
    tries : int, optional
        Multiple try: neighbours looked at in a step; by default all.

    Examples
    --------
    >>> Balancing("sum", tries=20)
    Balancing(name='sum', tries=20)
    """

    name: str = "square_root"
    tries: int | None = None

    def __post_init__(self) -> None:
        log_balancing(self.name)
        if self.tries is not None:
            check_count("tries", self.tries, error=SamplerError)


def tempered_form(name: str, power: float) -> LogBalancing:
    """Return ``log h`` of the ratio to a power: balanced for pi^power, not for pi.

    A chain with these rates has the law pi^power Z and needs the weight pi^(1 - power) / Z. `sample_informed` runs it
    as a ladder with the one rung ``k = power``.

    Examples
    --------
    >>> float(tempered_form("min", 0.5)(np.array(-3.0)))
    -1.5
    """
    if not 0.0 < power <= 1.0:
        raise SamplerError(f"The power must lie in (0, 1], but got {power}. 1 is the balancing function itself.")
    plain = log_balancing(name)
    return lambda log_ratio: plain(power * log_ratio)
