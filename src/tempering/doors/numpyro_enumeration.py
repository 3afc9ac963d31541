"""Discrete latent sites of a NumPyro model, summed out by NumPyro's own enumeration (which needs funsor).

The sum over the discrete sites of p(z | x) p(y | z, x) is a likelihood of the continuous ones, x, and is tempered as
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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
    latent : tuple of str
        The continuous latent sites.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sites: Sites,
        latent: tuple[str, ...],
    ) -> None:
        require("funsor", what="Summing out discrete sites", install="funsor")
        from numpyro.infer.util import _guess_max_plate_nesting

        self._first = -_guess_max_plate_nesting(sites) - 1
        self._model, self._args, self._kwargs, self._latent = model, args, kwargs, latent
        self.varying = self._varying(sites)

    def _enumerated(self) -> Any:
        """Return the model with its discrete sites enumerated; anew for each call, since a seed is used up."""
        import jax
        from numpyro import handlers
        from numpyro.contrib.funsor import config_enumerate, enum

        return enum(handlers.seed(config_enumerate(self._model), jax.random.key(0)), self._first)

    def log_joint(self, values: dict[str, Any]) -> Any:
        """Return the log density of data and continuous sites at constrained values, the discrete ones summed out."""
        from numpyro.contrib.funsor import log_density

        return log_density(self._enumerated(), self._args, self._kwargs, values)[0]

    def _varying(self, sites: Sites) -> frozenset[str]:
        """Name the deterministic sites that depend on discrete ones; refuse continuous latent sites that do."""
        from numpyro.contrib.funsor import plate_to_enum_plate
        from numpyro.contrib.funsor import trace as packed_trace
        from numpyro.handlers import substitute

        placed = substitute(self._enumerated(), data={name: sites[name]["value"] for name in self._latent})
        with plate_to_enum_plate():
            found = packed_trace(placed).get_trace(*self._args, **self._kwargs)
        drawn = {name for name, site in found.items() if site["type"] == "sample"}
        for name in self._latent:
            summed = set(found[name]["infer"]["dim_to_name"].values()) & drawn
            if summed:
                raise TargetError(
                    f"A continuous site must not depend on one that is summed out, but {name!r} depends on "
                    f"{sorted(summed)[0]!r}. Declare it before, or write the mixture out (MixtureSameFamily)."
                )
        kinds = [name for name, site in found.items() if site["type"] == "deterministic"]
        return frozenset(name for name in kinds if np.ndim(found[name]["value"]) > np.ndim(sites[name]["value"]))
