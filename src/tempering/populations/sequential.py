"""Tempered sequential Monte Carlo with every population kept: the paper's "natural extension".

Populations move from the base, k = 0, to the target, k = 1. A pilot population chooses the temperatures, by the
effective sample size of the next weights, and the settings of the kernel. Then independent replicates run with
both fixed: one ladder holds for all, and replicates are the chains of whatever follows. Every step of the kernel
is kept (waste-free SMC: Dau & Chopin 2022, J. R. Statist. Soc. B 84): no model call is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.engines.streams import child
from tempering.engines.vector import traces
from tempering.errors import SamplerError, TargetError
from tempering.estimators.resampling import systematic
from tempering.estimators.standard_error import Estimate
from tempering.kernels.composite import leaves
from tempering.kernels.settings import Settings
from tempering.kernels.vector import Particle
from tempering.learning.reference import along_reference, fit_reference
from tempering.learning.two_legs import safe_end_around
from tempering.path.ladder import Ladder
from tempering.populations.pilot import FirstPass, check_support, chosen, row_of, run_pilot
from tempering.populations.populations import BatchMover, along_longest_axis, build_mover, energy_of
from tempering.randomness import stream
from tempering.target import Target
from tempering.target.layout import Layout
from tempering.target.target import cold_density

REPLICATES, REFERENCE = 1, 7  # streams; the pilot's is 0


@dataclass(frozen=True, eq=False)
class SequentialResult:
    """Every population of every replicate.

    Attributes
    ----------
    values : ndarray, shape (replicate, draw, d)
        Flat positions, from the hottest population to the cold one.
    rung, energy : ndarray, shape (replicate, draw)
    acceptance : ndarray, shape (replicate, draw, simple kernel)
        NaN for the exact draws at k = 0.
    ladder : Ladder
        Ends at k = 0.
    settings : tuple of Settings
        Of each simple kernel, by rung.
    log_evidences : ndarray, shape (replicate,)
        Log of each replicate's estimate of the normaliser; the estimates themselves are unbiased.
    path : Target
        What was sampled: the target given, or the path to it from a fitted reference.
    n_moves : int
        Steps of the kernel from each resampled particle.
    n_pilot : int
        Model calls of the pilot.
    """

    values: Floats
    rung: NDArray[np.int32]
    energy: Floats
    acceptance: NDArray[np.float32]
    ladder: Ladder
    settings: tuple[Settings, ...]
    log_evidences: Floats
    path: Target
    n_moves: int
    n_pilot: int

    @property
    def log_evidence(self) -> Estimate:
        """Log of the mean of the replicates' estimates, and its standard error from their spread."""
        n = len(self.log_evidences)
        log_mean = float(logsumexp(self.log_evidences) - np.log(n))
        spread = float(np.std(np.exp(self.log_evidences - log_mean), ddof=1))
        return Estimate(log_mean, spread / float(np.sqrt(n)))


@dataclass(frozen=True)
class Replicates:
    """How many there are, at least two, for standard errors come from their spread; and how large.

    Parameters
    ----------
    chains : int
        Number of replicates.
    draws : int
        Of each replicate, all populations together: about so many, and enough for each population.
    seed : int
    """

    chains: int = 16
    draws: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.chains < 2:
            raise SamplerError(
                "Standard errors of method='sequential' come from independent replicates, so chains must be at "
                f"least 2, but it is {self.chains}. Take 8 or more."
            )


def sample_sequential(
    target: Target,
    layout: Layout,
    starts: Sequence[Any],
    kernel: Any,
    replicates: Replicates,
    *,
    report: Callable[[int, str], None] = lambda done, line: None,
    carried_out: Callable[[BatchMover, Target, Any], BatchMover] = lambda mover, path, kernel: mover,
) -> SequentialResult:
    """Run independent replicates of tempered SMC and keep every population.

    Parameters
    ----------
    target : Target
        If its base cannot be sampled (a bare density, or a prior without ``sample_prior``), a wide Student distribution
        around the modes above the starts takes its place at k = 0.
    layout : Layout
    starts : sequence of positions
        Not needed when the base can be sampled.
    kernel : kernel
        From `tempering.kernels`.
    replicates : Replicates
    report : callable
        Called with (draws done, a line).
    carried_out : callable
        Called with the mover of populations, their path and the kernel; returns a mover that works elsewhere.

    Returns
    -------
    SequentialResult
    """
    chains, seed = replicates.chains, replicates.seed
    path = _samplable(target, layout, starts, seed)
    with jax.enable_x64(True):
        mover = carried_out(build_mover(path, kernel, layout), path, kernel)
        pilot = run_pilot(mover, leaves(kernel), seed, layout)
        report(0, str(pilot))
        sizes = pilot.sizes(replicates.draws, layout.size)
        populations, acceptance, log_evidences = run_replicates(mover, pilot, sizes, chains, seed, report)
    m, n = len(pilot.k), populations.terms.shape[1]
    rung = np.repeat(np.arange(m, dtype=np.int32)[::-1], n // m)
    settings = [Settings(*map(np.concatenate, zip(*rows, strict=True))) for rows in zip(*pilot.settings, strict=True)]
    return SequentialResult(
        values=populations.position,
        rung=np.tile(rung, (chains, 1)),
        energy=energy_of(populations),
        acceptance=acceptance,
        ladder=Ladder(pilot.k[::-1]),
        settings=tuple(Settings(*(part[::-1] for part in setting)) for setting in settings),
        log_evidences=log_evidences,
        path=path,
        n_moves=sizes[1],
        n_pilot=pilot.n_calls,
    )


def run_replicates(
    mover: BatchMover,
    pilot: FirstPass,
    sizes: tuple[int, int],
    n_replicates: int,
    seed: int,
    report: Callable[[int, str], None],
) -> tuple[Particle, NDArray[np.float32], Floats]:
    """Run replicates along the pilot's temperatures, hot to cold, and keep every population.

    Returns
    -------
    populations, acceptance, log_evidences
        With leading axes (replicate, draw), and (replicate,).
    """
    rngs = [stream(seed, REPLICATES, r) for r in range(n_replicates)]
    key = child(seed, REPLICATES)
    n_ancestors, n_moves = sizes
    n = n_ancestors * n_moves

    def by_replicate(a: NDArray[Any]) -> NDArray[Any]:
        """Bring (step, replicate x ancestor, ...) to (replicate, particle, ...)."""
        rows = np.moveaxis(a.reshape(len(a), n_replicates, -1, *a.shape[2:]), 0, 1)
        return np.ascontiguousarray(rows.reshape(n_replicates, n, *a.shape[2:]))

    drawn = mover.draw(child(key, 0), n_replicates * n)
    population = jax.tree.map(lambda a: a.reshape(n_replicates, n, *a.shape[1:]), drawn)
    populations, acceptances, log_evidences = [population], [], np.zeros(n_replicates)
    for rung in range(1, len(pilot.k)):
        log_weights = (pilot.k[rung] - pilot.k[rung - 1]) * energy_of(population)
        check_support(energy_of(population))
        log_evidences += logsumexp(log_weights, axis=1) - np.log(n)
        ancestors = _ancestors(rngs, population, log_weights, n_ancestors)
        settings = row_of(pilot.settings[rung])
        moved, accepted = mover.move(child(key, rung), ancestors, pilot.k[rung], settings, n_moves)
        population = jax.tree.map(by_replicate, moved)
        populations.append(population)
        acceptances.append(by_replicate(accepted).astype(np.float32))
        report(n, "")
    everything = jax.tree.map(lambda *a: np.concatenate(a, axis=1), *populations)
    unmoved = np.full_like(acceptances[0], np.nan)
    return everything, np.concatenate([unmoved, *acceptances], axis=1), log_evidences


def _ancestors(rngs: Sequence[np.random.Generator], population: Particle, log_weights: Floats, n: int) -> Particle:
    """Resample ``n`` particles of each replicate, one replicate after the other."""
    parts = []
    for r, (rng, log_w) in enumerate(zip(rngs, log_weights, strict=True)):
        order = np.argsort(along_longest_axis(population.position[r]), kind="stable")
        parts.append(chosen(Particle(*(part[r] for part in population)), order[systematic(rng, log_w[order], n)]))
    return Particle(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _samplable(target: Target, layout: Layout, starts: Sequence[Any], seed: int) -> Target:
    """Return a path whose base can be drawn from: the target's own, or one from a fitted reference."""
    if len(starts) and not traces(target, layout, starts[0]):
        raise TargetError(
            "method='sequential' moves whole populations at once and needs a log density that JAX can trace, but "
            "it cannot trace this one. Write it with jax.numpy, or take method='simulated'."
        )
    if target.sample_base is not None:
        return target
    points = np.stack([layout.flatten(start) for start in starts])
    fitted = fit_reference(cold_density(target, layout), points, rng=stream(seed, REFERENCE))
    q = fitted.reference if fitted.is_good else safe_end_around(fitted.reference)  # narrow modes keep their masses
    return along_reference(target, q, layout)
