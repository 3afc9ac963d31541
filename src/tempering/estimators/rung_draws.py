"""The draws of all rungs as arrays, checked once, with what the rules need of them computed once.

Arrays are kept in the order of (chain, draw), whatever their order in memory was: nothing behind copies them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tempering.errors import EstimatorError
from tempering.estimators.arrays import (
    Floats,
    Ints,
    as_inverse_temperatures,
    as_log,
    as_rung,
    count_rungs,
    temper_by_rung,
)
from tempering.estimators.calibration import Calibration, Known, calibrated
from tempering.estimators.mbar import mbar, mbar_from_terms
from tempering.estimators.mbar_result import Mbar
from tempering.estimators.pareto import pareto_k_per_rung
from tempering.estimators.rung_sums import RungSums


@dataclass(frozen=True, eq=False)
class RungDraws:
    """Rung and energy, or log weight, of every draw; made by `RungDraws.of`.

    Attributes
    ----------
    rung : ndarray, shape (draw,) or (chain, draw)
    n_rungs : int
    energy : ndarray or None, shape of rung
    inverse_temperatures : ndarray or None, shape (n_rungs,)
    terms, coefficients : ndarray or None, shapes (..., term) and (n_rungs, term)
        Of a path whose rungs are not powers of one energy, in the place of those.
    cold : int
        The rung that is the target.
    target : ndarray or None, shape (term,)
        Coefficients of the target, where no rung has them.
    known : callable, optional
        What is known of one of the densities, exactly, for MBAR's weights to agree with; asked for when they are.
    given_log_weights : ndarray or None, shape of rung
        None: (1 - k) * energy, or (c_cold - c) . t.
    chains_per_ensemble, batch_length : int
        What the standard error counts as one; as in `combine`.
    """

    rung: Ints
    n_rungs: int
    energy: Floats | None
    inverse_temperatures: Floats | None
    given_log_weights: Floats | None
    chains_per_ensemble: int
    batch_length: int | None
    terms: Floats | None = None
    coefficients: Floats | None = None
    cold: int = 0
    target: Floats | None = None
    known: Callable[[], Known | None] | None = None

    @classmethod
    def of(
        cls,
        log_weights: ArrayLike | None,
        rung: ArrayLike,
        *,
        energy: ArrayLike | None = None,
        inverse_temperatures: ArrayLike | None = None,
        chains_per_ensemble: int = 1,
        batch_length: int | None = None,
    ) -> RungDraws:
        """Check arrays as they come to `combine`."""
        index = np.ascontiguousarray(as_rung(rung))
        k = None if inverse_temperatures is None else as_inverse_temperatures(inverse_temperatures)
        n_rungs = count_rungs(index, None if k is None else k.size)
        e = None if energy is None else np.ascontiguousarray(as_log("energy", energy, index.shape))
        given = None if log_weights is None else as_log("log_weights", log_weights, index.shape)
        if given is None and (e is None or k is None):
            raise _missing("log_weights=None")
        return cls(index, n_rungs, e, k, given, chains_per_ensemble, batch_length)

    @classmethod
    def along(
        cls,
        terms: ArrayLike,
        coefficients: ArrayLike,
        rung: ArrayLike,
        cold: int,
        *,
        target: Floats | None = None,
        chains_per_ensemble: int = 1,
        batch_length: int | None = None,
    ) -> RungDraws:
        """Take draws along any path, with the terms of each draw and the coefficients of each rung."""
        index = np.ascontiguousarray(as_rung(rung))
        c = np.asarray(coefficients, dtype=np.float64)
        count_rungs(index, len(c))
        t = np.ascontiguousarray(as_log("terms", terms, (*index.shape, c.shape[1])))
        return cls(
            index,
            len(c),
            None,
            None,
            None,
            chains_per_ensemble,
            batch_length,
            t,
            c,
            cold,
            c[cold] if target is None else target,
        )

    @property
    def units(self) -> dict[str, Any]:
        """What the standard error counts as one, by keyword."""
        return {"chains_per_ensemble": self.chains_per_ensemble, "batch_length": self.batch_length}

    @property
    def log_weights(self) -> Floats:
        """Log importance weight of each draw towards the cold distribution, up to a constant per rung."""
        if self.given_log_weights is not None:
            return self.given_log_weights
        if self.terms is not None:
            assert self.coefficients is not None
            assert self.target is not None
            return _beyond(self.target - self.coefficients, self.terms, self.rung)
        assert self.energy is not None
        assert self.inverse_temperatures is not None
        return temper_by_rung(1.0 - self.inverse_temperatures, self.rung, self.energy)

    @cached_property
    def sums(self) -> RungSums:
        """The sums of the weights of each rung."""
        return RungSums.from_log_weights(self.log_weights, self.rung, self.n_rungs)

    @cached_property
    def pareto_k(self) -> Floats:
        """Pareto k-hat of each rung's weights."""
        return pareto_k_per_rung(self.log_weights, self.rung, self.n_rungs)

    @cached_property
    def fit(self) -> Mbar:
        """The mixture of all rungs, with the normalisers estimated."""
        if self.terms is not None:
            assert self.coefficients is not None
            assert self.target is not None
            return mbar_from_terms(self.terms, self.coefficients, self.rung, self.target)
        if self.energy is None or self.inverse_temperatures is None:
            raise _missing("rule='mbar'")
        return mbar(self.energy, self.inverse_temperatures, self.rung)

    @cached_property
    def calibration(self) -> Calibration | None:
        """What MBAR's weights are multiplied by, so that they agree with what is known."""
        found = None if self.known is None else self.known()
        return None if found is None else calibrated(self.fit.log_mixture, self.fit.possible, found)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return values, leading axes those of the draws, in double precision."""
        try:
            h = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise EstimatorError(f"values must be numbers, but: {error}. Pass one for each draw.") from None
        if h.shape[: self.rung.ndim] != self.rung.shape:
            raise EstimatorError(
                f"values must have the draws' leading axes, {self.rung.shape}, but their shape is {h.shape}. "
                f"Put chain and draw first, the axes of one value behind them."
            )
        return h


def _beyond(change: Floats, terms: Floats, rung: Ints) -> Floats:
    """Return change[rung] . t, where a term that does not count may be minus infinity."""
    total = np.zeros(rung.shape)
    for i in range(terms.shape[-1]):
        total += temper_by_rung(change[:, i], rung, np.ascontiguousarray(terms[..., i]))
    return total


def _missing(who: str) -> EstimatorError:
    return EstimatorError(
        f"{who} needs energy and inverse_temperatures, but at least one of them is None. Pass the energy of "
        f"each draw and k of each rung, as in combine(values, None, rung, energy=..., "
        f"inverse_temperatures=...)."
    )
