"""emcee's sampler in shape and name: a function ``log_prob``, its ``args``, ``vectorize=True``, blobs, a pool.

What it returns are draws of equal weight, resampled from the weighted draws of all rungs, since emcee's
tools know no weights. The run itself is in ``sampler.run``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.doors.ptemcee import Called, as_positions, counted, mapping_of
from tempering.errors import SamplerError, TargetError, TemperingError
from tempering.estimators import resample
from tempering.target import Target
from tempering.target.batched import one_by_one


class EnsembleSampler:
    """Tempered sampling with emcee's arguments.

    Parameters
    ----------
    nwalkers, ndim : int
        Chains, and dimensions.
    log_prob_fn : callable
        ``log_prob_fn(x, *args, **kwargs)`` of a vector, or of many with ``vectorize``; it may return blobs beside it.
    pool : optional
        With a ``map``.
    args, kwargs
        Passed on to the function.
    vectorize : bool
        Whether the function takes an array of shape (n, ndim) and returns n numbers.
    blob_names : sequence of str, optional
        Names of the blobs; ``blob_0``, ``blob_1``, ... by default.
    **options
        Those of `tempering.sample`.
    """

    def __init__(
        self,
        nwalkers: int,
        ndim: int,
        log_prob_fn: Any,
        pool: Any = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        vectorize: bool = False,
        blob_names: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        for name in ("moves", "backend", "live_dangerously", "parameter_names", "postprocess_fn"):
            if name in options:
                raise SamplerError(f"{name} is emcee's own and has no effect on tempered chains. Leave it out.")
        called = Called("log_prob_fn", log_prob_fn, args, kwargs)
        self.nwalkers, self.ndim, self._options = counted("nwalkers", nwalkers), counted("ndim", ndim), options
        self._many = called if vectorize else one_by_one(called, mapping_of(pool))
        self._blob_names = None if blob_names is None else tuple(blob_names)
        self._run: Any = None

    def run_mcmc(self, initial_state: ArrayLike, nsteps: int, *, progress: bool = False, **others: Any) -> Any:
        """Sample from starting points (walker, ndim), and return the last draws of equal weight."""
        from tempering.sampling.sample import sample

        x = as_positions("initial_state", getattr(initial_state, "coords", initial_state))  # an emcee.State has them
        if x.shape != (self.nwalkers, self.ndim):
            raise TargetError(
                f"initial_state must have the axes (walker, dimension), ({self.nwalkers}, {self.ndim}), but has shape "
                f"{x.shape}. Pass one position for each walker."
            )
        target = Target(self._many, batched=True, blobs=self._blobs(x))
        options = {"chains": self.nwalkers, "draws": nsteps, "progress": progress, **self._options, **others}
        self._run = sample(target, initial=list(x), **options)
        return self.get_chain()[-1]

    def _blobs(self, x: NDArray[np.float64]) -> tuple[str, ...]:
        """Ask the function once whether it returns blobs."""
        try:
            with np.errstate(all="ignore"):
                output = self._many(x[:1])
        except TemperingError:
            raise
        except Exception as error:
            raise TargetError(
                f"log_prob_fn must return a number where walkers start, but at {x[0]} it raised "
                f"{type(error).__name__}: {error}. Return -inf outside the support."
            ) from error
        n = len(output) - 1 if isinstance(output, tuple) else 0
        names = self._blob_names if self._blob_names is not None else tuple(f"blob_{i}" for i in range(n))
        if len(names) != n:
            raise TargetError(f"There must be a name for each blob, but {n} came and {len(names)} are named. Name all.")
        return names

    @property
    def run(self) -> Any:
        """The run: `tempering.TemperedDraws`."""
        if self._run is None:
            raise SamplerError("There are no draws, since the sampler has not run. Call run_mcmc first.")
        return self._run

    def _picked(self, array: NDArray[Any], flat: bool, discard: int = 0, thin: int = 1) -> NDArray[Any]:
        """Return draws of equal weight, (step, walker, ...), the same ones at every call."""
        counted("thin", thin)
        whole = np.asarray(array)
        n = max(1, int(self.run.ess()) // self.nwalkers)
        chosen = resample(self.run.weights().ravel(), n * self.nwalkers, rng=0)
        order = np.random.default_rng(0).permutation(chosen)
        found = whole.reshape(-1, *whole.shape[2:])[order]
        return np.asarray(found if flat else found.reshape(n, self.nwalkers, *whole.shape[2:]))[discard::thin]

    def get_chain(self, *, flat: bool = False, discard: int = 0, thin: int = 1) -> NDArray[np.float64]:
        """Return positions of equal weight, (step, walker, ndim), resampled from the weighted draws of all rungs."""
        return self._picked(self.run.values["x"], flat, discard, thin)

    def get_log_prob(self, *, flat: bool = False, discard: int = 0, thin: int = 1) -> NDArray[np.float64]:
        """Return the log densities of the same draws."""
        return self._picked(self.run.path.log_target(self.run.terms), flat, discard, thin)

    def get_blobs(self, *, flat: bool = False, discard: int = 0, thin: int = 1) -> dict[str, NDArray[Any]] | None:
        """Return the blobs of the same draws by name; None where there are none."""
        names = [name for name in self.run.values if name != "x"]
        return {n: self._picked(self.run.values[n], flat, discard, thin) for n in names} or None
