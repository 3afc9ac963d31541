"""Discrete latent sites of a NumPyro model, summed out by NumPyro's own enumeration (which needs funsor).

The sum over the discrete sites of p(z | x) p(y | z, x) is a likelihood of the continuous ones, x, and is tempered as
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from tempering.doors.numpyro_sites import Sites
from tempering.errors import TargetError
from tempering.requirements import require


def marked(sites: Sites, discrete: Iterable[str]) -> tuple[str, ...]:
    """Return the discrete sites that the model says are to be summed out: ``infer={"enumerate": "parallel"}``."""
    return tuple(name for name in discrete if sites[name]["infer"].get("enumerate") == "parallel")


class Enumeration:
    """A model whose discrete sites are summed out.

    Parameters
    ----------
    model, args, kwargs
        The model, and what it is called with.
    sites : dict
        A trace of it.
    latent, summed : tuple of str
        The continuous latent sites, and the discrete ones that are summed out.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sites: Sites,
        latent: tuple[str, ...],
        summed: tuple[str, ...],
    ) -> None:
        require("funsor", what="Summing out discrete sites", install="funsor")
        from numpyro.infer.util import _guess_max_plate_nesting

        self._first = -_guess_max_plate_nesting(sites) - 1
        self._model, self._args, self._kwargs = model, args, kwargs
        fixed = {name: sites[name]["value"] for name in latent}
        self._check(fixed)
        self.varying = self._varying(sites, summed, fixed)

    def _enumerated(self) -> Any:
        """Return the model with its discrete sites enumerated; anew for each call, since a seed is used up."""
        from numpyro import handlers
        from numpyro.contrib.funsor import config_enumerate, enum

        return enum(handlers.seed(config_enumerate(self._model), jax.random.key(0)), self._first)

    def log_joint(self, values: dict[str, Any]) -> Any:
        """Return the log density of data and continuous sites at constrained values, the discrete ones summed out."""
        from numpyro.contrib.funsor import log_density

        return log_density(self._enumerated(), self._args, self._kwargs, values)[0]

    def _check(self, fixed: dict[str, Any]) -> None:
        """Refuse continuous latent sites that depend on discrete ones."""
        from numpyro.contrib.funsor import plate_to_enum_plate
        from numpyro.contrib.funsor import trace as packed_trace
        from numpyro.handlers import substitute

        try:
            with plate_to_enum_plate():
                found = packed_trace(substitute(self._enumerated(), data=fixed)).get_trace(*self._args, **self._kwargs)
        except Exception as error:  # whatever NumPyro and funsor make of it
            raise TargetError(
                f"NumPyro's enumeration, by which discrete sites are summed out, raised {type(error).__name__}: "
                f"{error}. Under it every axis of a site must be declared, by a plate or by .to_event(1)."
            ) from error
        drawn = {name for name, site in found.items() if site["type"] == "sample"}
        for name in fixed:
            on = set(found[name]["infer"]["dim_to_name"].values()) & drawn
            if on:
                raise TargetError(
                    f"A continuous site must not depend on one that is summed out, but {name!r} depends on "
                    f"{min(on)!r}. Declare it before, or write the mixture out (MixtureSameFamily)."
                )

    def _varying(self, sites: Sites, summed: tuple[str, ...], fixed: dict[str, Any]) -> frozenset[str]:
        """Name the deterministic sites that change with the value of a discrete one: they are not one number."""
        from numpyro import handlers

        def deterministic(given: dict[str, Any]) -> dict[str, Any]:
            placed = handlers.substitute(handlers.seed(self._model, jax.random.key(0)), data={**fixed, **given})
            found = handlers.trace(placed).get_trace(*self._args, **self._kwargs)
            return {name: site["value"] for name, site in found.items() if site["type"] == "deterministic"}

        usual = deterministic({})
        others = [
            deterministic({name: np.broadcast_to(value, np.shape(sites[name]["value"]))})
            for name in summed
            for value in sites[name]["fn"].enumerate_support(expand=True)
        ]
        changed = (n for n in usual for other in others if not np.array_equal(usual[n], other[n], equal_nan=True))
        return frozenset(changed)
