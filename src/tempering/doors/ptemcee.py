"""ptemcee's sampler in shape and name: programs written for it run with one import changed.

A walker is an ensemble of ours, one replica at each temperature, that exchange by parallel tempering; moves are tuned
random walks instead of stretches. Functions are plain NumPy; a pool's ``map`` is used if one is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tempering.arrays import Floats
from tempering.errors import SamplerError, TargetError, check_count
from tempering.target import Target
from tempering.target.batched import Batched, one_by_one

TUNE_PER_CALL = 640  # iterations by which the moves of a first call are tuned; they are not kept


def default_beta_ladder(ndim: int, ntemps: int | None = None, Tmax: float | None = None) -> Floats:
    """Return inverse temperatures from 1 down, spaced so that a quarter of exchanges are accepted on a normal density.

    With ``Tmax=inf`` the last is 0.
    """
    if ntemps is None and Tmax is None:
        raise TargetError("A ladder needs ntemps or Tmax, but neither was given. Pass one of them, or betas.")
    if ntemps is not None:
        counted("ntemps", ntemps)
    if Tmax is not None and not (isinstance(Tmax, int | float | np.number) and Tmax > 1):
        raise TargetError(f"Tmax must be a temperature above 1, but got {Tmax!r}. Pass one, or np.inf for the prior.")
    step = 1.0 + 2.0 * np.sqrt(np.log(4.0)) / np.sqrt(ndim)
    ends_at_zero = Tmax is not None and np.isinf(Tmax)
    finite = None if Tmax is None or np.isinf(Tmax) else float(Tmax)
    if ntemps is None:
        assert finite is not None or ends_at_zero
        if finite is None:
            raise TargetError("An infinite Tmax needs ntemps, but none was given. Pass the number of temperatures.")
        ntemps = int(np.log(finite) / np.log(step) + 2)
    n = ntemps - 1 if ends_at_zero else ntemps
    betas = step ** -np.arange(n) if finite is None else np.geomspace(1.0, 1.0 / finite, n)
    return np.append(betas, 0.0) if ends_at_zero else betas


class Sampler:
    """Parallel tempering with ptemcee's arguments and attributes.

    Parameters
    ----------
    nwalkers, dim : int
        Walkers at each temperature, and dimensions.
    logl, logp : callable
        Log likelihood and log prior of a vector; ``loglargs``, ``loglkwargs`` and the like go with them.
    ntemps, Tmax, betas
        The ladder: a number of temperatures, the highest one, or the inverse temperatures themselves.
    threads : int
        Ignored; give a pool.
    pool : optional
        With a ``map``, as ``multiprocessing.Pool`` has: used for the likelihoods.
    a, adaptation_lag, adaptation_time
        Accepted and without effect: moves are tuned random walks, and the ladder stays as it is given.
    random : numpy.random.RandomState, Generator or int, optional

    Attributes
    ----------
    chain : ndarray, shape (temperature, walker, step, dim)
    loglikelihood, logprobability : ndarray, shape (temperature, walker, step)
    betas : ndarray, shape (temperature,)
    run : TemperedDraws
        All draws since the last ``reset``, for everything ptemcee does not have: ``run.expect``, ``run.summary``.
    """

    def __init__(
        self,
        nwalkers: int,
        dim: int,
        logl: Any,
        logp: Any,
        ntemps: int | None = None,
        Tmax: float | None = None,
        betas: ArrayLike | None = None,
        threads: int = 1,
        pool: Any = None,
        a: float = 2.0,
        loglargs: Sequence[Any] = (),
        logpargs: Sequence[Any] = (),
        loglkwargs: Mapping[str, Any] | None = None,
        logpkwargs: Mapping[str, Any] | None = None,
        adaptation_lag: int = 10_000,
        adaptation_time: int = 100,
        random: Any = None,
    ) -> None:
        self.nwalkers, self.dim = counted("nwalkers", nwalkers), counted("dim", dim)
        self._betas = _from_1_down(default_beta_ladder(self.dim, ntemps, Tmax) if betas is None else betas)
        mapping = mapping_of(pool)
        likelihood, prior = Called("logl", logl, loglargs, loglkwargs), Called("logp", logp, logpargs, logpkwargs)
        self._log_prior = one_by_one(prior)
        self._target = Target.from_likelihood(
            _Inside(one_by_one(likelihood, mapping), self._log_prior), self._log_prior, batched=True
        )
        self._rng = _generator(random)
        self._blocks: list[_Block] = []
        self._last: Floats | None = None

    @property
    def ntemps(self) -> int:
        """Number of temperatures."""
        return len(self._betas)

    @property
    def betas(self) -> Floats:
        """Inverse temperatures, from 1 down."""
        return self._betas.copy()

    def reset(self, random: Any = None, betas: ArrayLike | None = None, time: Any = None) -> None:
        """Forget all draws, but not where the walkers are."""
        self._blocks = []
        if random is not None:
            self._rng = _generator(random)
        if betas is not None:
            self._betas = _from_1_down(betas)

    def run_mcmc(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run, and return the last positions, log posteriors and log likelihoods; arguments of `sample`."""
        return list(self.sample(*args, **kwargs))[-1]

    def sample(
        self,
        p0: ArrayLike | None = None,
        iterations: int = 1,
        thin: int = 1,
        storechain: bool = True,
        adapt: bool = False,
        swap_ratios: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        """Run, and yield positions (temperature, walker, dim), log posteriors and log likelihoods of every step.

        Parameters
        ----------
        p0 : array_like, shape (temperature, walker, dim), or (walker, dim) for all temperatures
            Where walkers start; by default where they are.
        iterations, thin : int
        storechain : bool
            Whether the attributes take in these draws.
        adapt : bool
            Without effect on the ladder, with a warning.
        swap_ratios : bool
            Yield the shares of accepted exchanges too.
        """
        for name, count in (("iterations", iterations), ("thin", thin)):
            counted(name, count)
        if adapt:
            warnings.warn("adapt=True moves no temperatures here: the ladder stays as it is.", stacklevel=3)
        block = self._block(self._positions(p0), iterations, thin)
        self._last = block.chain[:, :, -1]
        if storechain:
            self._blocks.append(block)
        swaps = self.tswap_acceptance_fraction if swap_ratios else None
        for i in range(block.chain.shape[2]):
            step = (block.chain[:, :, i], block.log_posterior[:, :, i], block.log_likelihood[:, :, i])
            yield (*step, swaps) if swap_ratios else step

    def _positions(self, p0: ArrayLike | None) -> Floats:
        given = self._last if p0 is None else as_positions("p0", p0)
        if given is None:
            raise SamplerError("Walkers need somewhere to start, but no p0 was given. Pass (ntemps, nwalkers, dim).")
        whole = np.broadcast_to(given, (self.ntemps, *given.shape)) if given.ndim == 2 else given
        if whole.shape != (self.ntemps, self.nwalkers, self.dim):
            raise TargetError(
                f"p0 must have the axes (temperature, walker, dimension), {(self.ntemps, self.nwalkers, self.dim)}, "
                f"but has shape {given.shape}. Pass one position for each walker at each temperature."
            )
        return np.asarray(whole)

    def _block(self, p0: Floats, iterations: int, thin: int) -> _Block:
        from tempering.sampling.options import Tuning
        from tempering.sampling.sample import sample

        starts = [p0[t, w] for w in range(self.nwalkers) for t in range(self.ntemps)]
        run = sample(
            self._target, initial=starts, ladder=self._betas.tolist(), method="parallel", draws=iterations,
            tuning=Tuning(TUNE_PER_CALL), chains=self.nwalkers, rng=self._rng, progress=False,
        )  # fmt: skip
        return _Block.of(run, self, thin)

    def _joined(self, name: str) -> Any:
        if not self._blocks:
            return None
        return np.concatenate([getattr(block, name) for block in self._blocks], axis=2)

    @property
    def chain(self) -> Any:
        """All stored positions, (temperature, walker, step, dim)."""
        return self._joined("chain")

    @property
    def flatchain(self) -> Any:
        """All stored positions, (temperature, walker * step, dim)."""
        return None if not self._blocks else self.chain.reshape(self.ntemps, -1, self.dim)

    @property
    def loglikelihood(self) -> Any:
        """Log likelihoods, (temperature, walker, step)."""
        return self._joined("log_likelihood")

    @property
    def logprobability(self) -> Any:
        """Tempered log posteriors, (temperature, walker, step)."""
        return self._joined("log_posterior")

    @property
    def acceptance_fraction(self) -> Floats:
        """Share of accepted moves, (temperature, walker)."""
        return np.asarray(np.mean([block.acceptance for block in self._blocks], axis=0))

    @property
    def tswap_acceptance_fraction(self) -> Floats:
        """Share of accepted exchanges between neighbours, one for each temperature but the last; that is NaN."""
        if not self._blocks:
            return np.full(self.ntemps, np.nan)
        return np.asarray(np.mean([b.run.rungs()["exchange_acceptance"] for b in self._blocks], axis=0))

    @property
    def run(self) -> Any:
        """The draws of all calls since the last reset, with our answers."""
        from tempering.doors.foreign import from_ptemcee

        if not self._blocks:
            raise SamplerError("There are no draws, since the sampler has not run. Call run_mcmc first.")
        if len(self._blocks) == 1:
            return self._blocks[0].run
        return from_ptemcee(self.chain, self.loglikelihood, self._betas)

    def log_evidence_estimate(self, logls: Any = None, fburnin: float = 0.1) -> tuple[float, float]:
        """Return the log evidence and its standard error, by MBAR over the temperatures after a burn-in.

        Down to the smallest beta: end the ladder at 0 (``Tmax=inf``) for the evidence of a normalised prior.
        """
        from tempering.doors.foreign import from_ptemcee

        found = self.loglikelihood if logls is None else np.asarray(logls, dtype=float)
        if found is None:
            raise SamplerError("There are no draws, since the sampler has not run. Call run_mcmc first.")
        first = int(fburnin * found.shape[2] + 0.5)
        evidence = from_ptemcee(found[:, :, first:, None], found[:, :, first:], self._betas).mbar
        ratio = evidence.log_normaliser_ratio(chains_per_ensemble=found.shape[0] * found.shape[1])
        return float(ratio.value), float(ratio.standard_error)

    def get_autocorr_time(self, window: int = 50) -> Floats:
        """Return the autocorrelation time of every dimension at every temperature, (temperature, dim)."""
        from tempering.estimators import ess_of_autocorrelation

        chain = self.chain
        if chain is None:
            raise SamplerError("There are no draws, since the sampler has not run. Call run_mcmc first.")
        n = chain.shape[1] * chain.shape[2]
        return np.array([[n / ess_of_autocorrelation(c[..., i]) for i in range(self.dim)] for c in chain])

    @property
    def acor(self) -> Floats:
        """The autocorrelation times, (temperature, dim)."""
        return self.get_autocorr_time()


@dataclass(frozen=True, eq=False)
class Called:
    """A function with its further arguments; a value of its own, so that a pool can be sent it."""

    name: str
    function: Any
    args: Any = ()
    kwargs: Any = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            came = type(self.function).__name__
            raise TargetError(f"{self.name} must be a function, but got {came}. Pass it itself.")
        try:
            object.__setattr__(self, "args", tuple(self.args or ()))
            object.__setattr__(self, "kwargs", dict(self.kwargs or {}))
        except (TypeError, ValueError):
            raise TargetError(
                f"The further arguments of {self.name} must be a list and a dictionary, but got {self.args!r:.40} and "
                f"{self.kwargs!r:.40}. Write args=[a, b] even for one."
            ) from None

    def __call__(self, x: Any) -> Any:
        return self.function(x, *self.args, **self.kwargs)


def counted(name: str, count: Any) -> int:
    """Return a number of walkers or dimensions."""
    check_count(name, count, error=TargetError)
    return int(count)


def as_positions(name: str, positions: Any) -> Floats:
    """Return where walkers start, as numbers."""
    try:
        return np.asarray(positions, dtype=float)
    except (TypeError, ValueError):
        came = type(positions).__name__
        raise TargetError(
            f"{name} must hold the numbers that walkers start at, but got {came}. Pass an array."
        ) from None


def mapping_of(pool: Any) -> Any:
    """Return the map of a pool, or Python's own."""
    if pool is not None and not callable(getattr(pool, "map", None)):
        raise TargetError(f"pool must have a map, as multiprocessing.Pool has, but got {type(pool).__name__}.")
    return map if pool is None else pool.map


def _from_1_down(betas: Any) -> Floats:
    try:
        return np.sort(np.atleast_1d(np.asarray(betas, dtype=float)))[::-1]
    except (TypeError, ValueError):
        raise TargetError(f"betas must be inverse temperatures, but got {betas!r:.40}. Write [1, 0.5, 0.1].") from None


@dataclass(frozen=True, eq=False)
class _Inside:
    """A likelihood of many positions that is only asked where the prior is not zero, as ptemcee does."""

    log_likelihood: Any
    log_prior: Any

    def __call__(self, positions: Any) -> Floats:
        prior = np.asarray(self.log_prior(positions), dtype=float)
        inside = np.isfinite(prior)
        found = np.full(len(prior), -np.inf)
        if inside.any():
            found[inside] = self.log_likelihood(positions[inside])
        return found


@dataclass(frozen=True, eq=False)
class _Block:
    """The draws of one call, sorted by temperature."""

    run: Any
    chain: Floats
    log_likelihood: Floats
    log_posterior: Floats
    acceptance: Floats

    @classmethod
    def of(cls, run: Any, sampler: Sampler, thin: int) -> _Block:
        m, w = sampler.ntemps, sampler.nwalkers
        rung = run.rung.reshape(w, m, -1)
        order = np.argsort(rung, axis=1, kind="stable")[:, :, ::thin]
        x = run.values["x"].reshape(w, m, run.n_draws, -1)[:, :, ::thin]
        energy = run.energy.reshape(w, m, -1)[:, :, ::thin]
        chain = np.take_along_axis(x, order[..., None], axis=1).transpose(1, 0, 2, 3)
        log_likelihood = np.take_along_axis(energy, order, axis=1).transpose(1, 0, 2)
        flat = np.ascontiguousarray(chain).reshape(-1, chain.shape[-1])
        prior = np.asarray(sampler._log_prior(flat), dtype=float).reshape(log_likelihood.shape)
        moved = np.nanmean(run.acceptance, axis=-1).reshape(w, m, -1)
        by_rung = [np.nanmean(np.where(rung == r, moved, np.nan), axis=(1, 2)) for r in range(m)]
        tempered = sampler._betas[:, None, None] * log_likelihood + prior
        return cls(run, chain, log_likelihood, tempered, np.array(by_rung))


def _generator(random: Any) -> np.random.Generator:
    if isinstance(random, np.random.Generator):
        return random
    if isinstance(random, int | np.integer) or random is None:
        return np.random.default_rng(random)
    if not callable(getattr(random, "randint", None)):  # a RandomState, as ptemcee takes
        raise TargetError(f"random must be a whole number or a generator of NumPy, but got {random!r}. Pass 1.")
    return np.random.default_rng(random.randint(2**31 - 1))


__all__ = ["Batched", "Sampler", "default_beta_ladder"]
