"""What `tempering.sample` can be told in detail: the method, the tuning, where chains run, and what is kept.

Each is a frozen value that is checked when it is made, so that a mistake is reported before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import SamplerError, check_count
from tempering.execution.workers import check_executor
from tempering.io.checkpoint import Checkpoint, as_checkpoint
from tempering.learning.ladder_choice import check_objective
from tempering.learning.pseudo_prior import check_method
from tempering.recorders.quantities import check_functions

RUNG_MOVES = {  # by method; the first is the default
    "simulated": ("lifted", "neighbour"),
    "parallel": ("non_reversible", "even_odd", "random"),
    "sequential": ("none",),
}
ENGINES = ("auto", "vector", "scalar")


@dataclass(frozen=True)
class Method:
    """How chains change their rung.

    Parameters
    ----------
    name : {"simulated", "parallel", "sequential"}
        One chain that moves between rungs; coupled chains, one per rung, that exchange theirs; or populations carried
        from hot to cold.
    rung_moves : str, optional
        "lifted" (the default) or "neighbour" for simulated tempering; "non_reversible" (the default), "even_odd" or
        "random" for parallel.

    Examples
    --------
    >>> Method("parallel", rung_moves="even_odd")
    Method(name='parallel', rung_moves='even_odd')
    """

    name: str = "simulated"
    rung_moves: str = ""

    def __post_init__(self) -> None:
        if self.name not in RUNG_MOVES:
            raise SamplerError(f"method must be one of {sorted(RUNG_MOVES)}, but got {self.name!r}.")
        known = RUNG_MOVES[self.name]
        object.__setattr__(self, "rung_moves", self.rung_moves or known[0])
        if self.rung_moves not in known:
            raise SamplerError(
                f"rung_moves of the method {self.name!r} must be one of {known}, but got {self.rung_moves!r}."
            )


@dataclass(frozen=True)
class Tuning:
    """What is learnt before any draw is kept.

    Parameters
    ----------
    iterations : int, optional
        About how many iterations of each chain are spent, by default 5000 (2500 of 32 chains on two legs), and
        fewer where the density is dear; 0 runs with the paper's ladder and untuned moves. Tuning of a ladder ends
        sooner once there is nothing left to learn, and takes longer if few were given: its pilot needs some 2000. On
        two legs no round is longer than what is to be drawn, unless a number is given.
    objective : {"hybrid", "barrier", "ess"}, optional
        What to optimise when the ladder is tuned (`tempering.learning.ladder_choice`); "hybrid" by default.
    pseudo_prior : str or sequence of float, optional
        For a given ladder and simulated tempering: how the weights of the rungs are learnt
        (`tempering.learning.pseudo_prior`), "mbar" by default; or their logs, one per rung.
    hottest : float, optional
        The smallest inverse temperature of a ladder of one leg that is tuned: of a model object, or with a path; by
        default the prior's, 0, or the coldest at which chains mix.

    Examples
    --------
    >>> Tuning(2_000, objective="barrier").iterations
    2000
    """

    iterations: int | None = None
    objective: str | None = None
    pseudo_prior: str | Sequence[float] | NDArray[np.float64] | None = None
    hottest: float | None = None

    def __post_init__(self) -> None:
        if self.iterations is not None:
            check_count("iterations", self.iterations, least=0, error=SamplerError)
        if self.hottest is not None and not 0.0 <= self.hottest < 1.0:
            raise SamplerError(f"hottest must lie in [0, 1), but got {self.hottest!r}. It is 1 / temperature.")
        if self.objective is not None:
            check_objective(self.objective)
        if isinstance(self.pseudo_prior, str):
            check_method(self.pseudo_prior)
        elif self.pseudo_prior is not None:
            object.__setattr__(self, "pseudo_prior", _log_values(self.pseudo_prior))
        if self.iterations == 0 and (self.objective is not None or isinstance(self.pseudo_prior, str)):
            raise SamplerError(
                "Tuning with iterations=0 learns nothing, so objective and a way of learning the pseudo-prior have no "
                "effect. Leave them out, or give iterations."
            )

    @property
    def learnt(self) -> dict[str, Any]:
        """What is learnt and how, defaults filled in: a part of what a checkpoint is known by."""
        given = self.pseudo_prior
        pseudo_prior = given or "mbar" if given is None or isinstance(given, str) else np.array(given)
        known = {} if self.hottest is None else {"hottest": self.hottest}
        return {"objective": self.objective or "hybrid", "pseudo_prior": pseudo_prior} | known


@dataclass(frozen=True)
class Execution:
    """Where chains run and where the run is kept. The draws are the same to the bit for every executor.

    Parameters
    ----------
    engine : {"auto", "vector", "scalar"}
        "vector" for log densities that JAX can trace, "scalar" for any other; by default whichever the target needs.
    executor : concurrent.futures.Executor, optional
        Workers that run the chains: threads, spawned processes, Dask's ``Client(...).get_executor()``, mpi4py's
        ``MPIPoolExecutor``. Chains are cut into blocks whose size does not depend on the workers.
    checkpoint : path or Checkpoint, optional
        A folder where the run is kept while it runs. After a kill the same call resumes from there, and ends with the
        draws it would have had. It is written every minute (`Checkpoint` sets another interval).
    devices : sequence of jax.Device, optional
        Spread the chains of the vector engine over these, as in ``devices=jax.devices()``; tuning runs on the first.

    Examples
    --------
    >>> Execution(engine="scalar", checkpoint="night-run").checkpoint
    'night-run'
    """

    engine: str = "auto"
    executor: Executor | None = None
    checkpoint: str | Path | Checkpoint | None = None
    devices: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SamplerError(f"engine must be 'auto', 'vector' or 'scalar', but got {self.engine!r}.")
        if self.executor is not None:
            check_executor(self.executor)
        if self.checkpoint is not None:
            as_checkpoint(self.checkpoint)
        if self.devices is not None:
            object.__setattr__(self, "devices", _several(self.devices))
            if self.engine == "scalar" or self.executor is not None:
                raise SamplerError(
                    "devices are for chains of the vector engine that run in this process, but "
                    + ("engine='scalar'" if self.engine == "scalar" else "an executor")
                    + " was given. Leave one of the two out."
                )

    @property
    def is_elsewhere(self) -> bool:
        """Whether an executor runs the chains, or a checkpoint keeps them."""
        return self.executor is not None or self.checkpoint is not None


@dataclass(frozen=True)
class Sums:
    """Keep no draws, only sums whose size does not depend on the length of the run, and quantile sketches.

    Parameters
    ----------
    quantities : mapping of str to callable
        The functions of a position whose expectations will be asked for, called as `TemperedDraws.expect` calls them.
        On the vector engine they are compiled: write them with ``jax.numpy``.
    every : int, optional
        On the vector engine, with a ladder: sum every so many iterations of a chain, an odd number. By default every
        one on a processor, and every fifth on an accelerator, where summing a draw takes half as long again as making
        it. Round trips are those of all iterations.

    Examples
    --------
    >>> list(Sums({"mean": lambda x: x}).quantities)
    ['mean']
    """

    quantities: Mapping[str, Callable[..., Any]]
    every: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantities", check_functions(self.quantities))
        if self.every is not None:
            check_count("every", self.every, error=SamplerError)
            if self.every % 2 == 0:
                raise SamplerError(
                    f"every must be odd, since exchanges of even and odd pairs take turns, but got {self.every}. Write "
                    f"every={self.every - 1}."
                )


@dataclass(frozen=True)
class Draws:
    """Keep draws, one of every so many iterations.

    Parameters
    ----------
    every : int
        Iterations of a chain from one that is kept to the next. Round trips are counted by the draws that are kept.

    Examples
    --------
    >>> Draws(every=5)
    Draws(every=5)
    """

    every: int = 1

    def __post_init__(self) -> None:
        check_count("every", self.every, error=SamplerError)


MOVED = {  # earlier arguments of `sample`, and how they are written now
    "reference": "path='powers' or path='prior' for the plain path (it was reference=None), path='reference' for a "
    "fitted one, or path=your_object",
    "tune": "tuning=tp.Tuning({!r})",
    "objective": "tuning=tp.Tuning(objective={!r})",
    "pseudo_prior": "tuning=tp.Tuning(pseudo_prior={!r})",
    "rung_moves": "method=tp.Method(name, rung_moves={!r})",
    "engine": "execution=tp.Execution(engine={!r})",
    "executor": "execution=tp.Execution(executor=...)",
    "checkpoint": "execution=tp.Execution(checkpoint={!r})",
    "devices": "execution=tp.Execution(devices=...)",
    "quantities": "keep=tp.Sums(quantities)",
    "sum_every": "keep=tp.Sums(quantities, every={!r})",
}

ELSEWHERE = {  # what other samplers call our arguments
    "rng={!r}": ("seed", "random_seed", "random_state", "rng_key"),
    "draws={!r}": ("num_samples", "n_samples", "nsteps", "n_steps", "n_draws", "iterations"),
    "chains={!r}": ("num_chains", "n_chains", "nchains", "nwalkers", "walkers"),
    "tuning=tp.Tuning({!r})": ("num_warmup", "n_tune", "warmup", "burnin", "burn_in"),
    "ladder=[1, 0.5, 0.1], inverse temperatures from 1 down": ("betas", "temperatures", "ntemps", "n_temps"),
    "initial={!r:.40}": ("initvals", "init_params", "initial_position", "start", "p0", "x0"),
    "progress={!r}": ("progressbar", "progress_bar", "verbose"),
    "execution=tp.Execution(executor=...)": ("cores", "pool", "n_jobs", "workers"),
}


def refuse_moved(given: Mapping[str, Any], who: str = "sample", moved: Mapping[str, str] = MOVED) -> None:
    """Say how an earlier argument, or one of another sampler, is written; refuse any other as Python would."""
    for name, value in given.items():
        if name in moved:
            raise SamplerError(f"The argument {name} has moved: write {moved[name].format(value)}.")
        for ours, theirs in ELSEWHERE.items():
            if name in theirs:
                raise SamplerError(f"There is no argument {name} here: write {ours.format(value)}.")
        raise TypeError(f"{who}() got an unexpected keyword argument {name!r}")


def _log_values(values: Any) -> tuple[float, ...]:
    log_p = np.array(values, dtype=float)
    if log_p.ndim != 1 or not np.all(np.isfinite(log_p)):
        raise SamplerError(
            f"pseudo_prior must hold one finite log value per rung, but got {values!r}. Pass logs, or leave it out to "
            "have it learnt."
        )
    return tuple(log_p.tolist())


def _several(devices: Any) -> tuple[Any, ...]:
    found = tuple(devices) if isinstance(devices, Sequence) and not isinstance(devices, str) else ()
    if not found:
        raise SamplerError(f"devices must be a list of at least one device, as jax.devices() is, but got {devices!r}.")
    return found
