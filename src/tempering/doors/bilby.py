"""A sampler of bilby: ``bilby.run_sampler(likelihood, priors, sampler="tempering")``.

Parameters move in the unit cube of bilby's priors, periodic ones on a circle; those with a reflective boundary end
there. A run is kept in bilby's folder of the sampler while it goes on, and resumed from it.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bilby.core.likelihood import _safe_likelihood_call
from bilby.core.sampler import base_sampler
from bilby.core.sampler.base_sampler import NestedSampler, signal_wrapper
from bilby.core.utils import logger

from tempering.engines.stopping import TERMINATED
from tempering.prior import Uniform, joint_prior
from tempering.sampling.until import Until
from tempering.target import Target
from tempering.target.batched import one_by_one

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws

INSIDE = 1e-15  # of the faces of the cube, where the quantiles of unbounded priors are infinite
DRAWS, MOST_DRAWS = 5_000, 40_000  # of each chain, where no number is given: before the first verdict, and at the most
CONSTRAINT_DRAWS = 10_000  # bilby rounds its factor to the error of one of its ten counts of so many


class Tempering(NestedSampler):  # type: ignore[misc]
    """Importance tempering for bilby.

    Keyword arguments are those of `tempering.sample` (``draws``, ``chains``, ``ladder``, ``method``, ``path``),
    ``tune`` for the iterations of tuning, and bilby's own: ``npool``, ``pool``, ``resume``, ``check_point``,
    ``check_point_delta_t`` (seconds) and ``seed``. The result has draws of equal weight in ``samples``, all weighted
    ones in ``nested_samples``, the evidence and its error. Without ``draws`` a run goes on, as nested samplers do,
    until its verdict asks for no more.
    """

    sampler_name = "tempering"
    sampling_seed_key = "seed"
    default_kwargs = {  # noqa: RUF012 - as bilby has it
        "draws": None,
        "tune": 5000,
        "chains": None,
        "ladder": None,
        "method": "simulated",
        "path": None,
        "progress": True,
        "pool": None,
        "seed": None,
        "resume": True,
        "check_point": True,
        "check_point_delta_t": 600,
    }

    def _translate_kwargs(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Take bilby's other names of the same arguments."""
        for name in self.check_point_equiv_kwargs:
            if name in kwargs:
                kwargs["check_point_delta_t"] = kwargs.pop(name)
        return super()._translate_kwargs(kwargs)  # type: ignore[no-any-return]

    @signal_wrapper  # type: ignore[untyped-decorator]
    def run_sampler(self) -> Any:
        """Sample, and fill in bilby's result."""
        folder = Path(self.get_expected_outputs(self.outdir, self.label)[1][0])
        if not self.kwargs["resume"] and folder.exists():
            shutil.rmtree(folder)
        self._n_evaluations = 0
        self._setup_pool()
        try:
            with self._stopping_once_written():
                run = self._sampled(folder)
        finally:
            self._close_pool()
        self._fill(run)
        shutil.rmtree(folder, ignore_errors=True)
        return self.result

    def _sampled(self, folder: Path) -> Any:
        from tempering.io.checkpoint import Checkpoint
        from tempering.sampling.options import Execution, Tuning
        from tempering.sampling.sample import sample

        options = {k: self.kwargs[k] for k in ("draws", "chains", "ladder", "method", "path", "progress")}
        if options["draws"] is None and options["method"] != "sequential":
            options |= {"draws": MOST_DRAWS, "until": UntilSound()}
        if self.kwargs["check_point"]:
            folder.parent.mkdir(parents=True, exist_ok=True)
            kept = Checkpoint(folder, seconds=float(self.kwargs["check_point_delta_t"]))
            options["execution"] = Execution(checkpoint=kept)
        return sample(self._target(), rng=self.kwargs["seed"], tuning=Tuning(self.kwargs["tune"]), **options)

    @contextmanager
    def _stopping_once_written(self) -> Iterator[None]:
        """Have every signal that ends a run of bilby's write the checkpoint first, then exit with bilby's code.

        The run writes itself at SIGTERM where nobody else listens for it: Ctrl-C and the alarm become one.
        """
        try:
            before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}
            if not self.kwargs["check_point"]:
                raise ValueError("There is nothing to be written")
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        except (ValueError, AttributeError):  # of another thread; on a system without these signals
            yield
            return
        came = [signal.SIGTERM]

        def terminate(number: int, frame: Any) -> None:
            came[0] = signal.Signals(number)
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # the run does not listen yet, or no more
                raise SystemExit(TERMINATED)
            signal.raise_signal(signal.SIGTERM)

        signal.signal(signal.SIGINT, terminate)
        signal.signal(signal.SIGALRM, terminate)
        try:
            yield
        except SystemExit as end:
            if end.code != TERMINATED:
                raise
            self._log_interruption(signum=came[0].value)
            sys.exit(self.exit_code)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _target(self) -> Target:
        periodic = [getattr(self.priors[key], "boundary", None) == "periodic" for key in self.search_parameter_keys]
        prior = joint_prior([Uniform(0.0, 1.0, periodic=p) for p in periodic])
        return Target.from_likelihood(one_by_one(_log_likelihood_of_cube, _Mapping(self)), prior, batched=True)

    def _mapped(self, function: Any, points: Any) -> list[Any]:
        """Evaluate many points, by the pool if there is one, and count them."""
        points = list(points)
        self._n_evaluations += len(points)
        mapping = map if getattr(self, "pool", None) is None else self.pool.map
        return list(mapping(function, points))

    def _fill(self, run: Any) -> None:
        from pandas import DataFrame

        from tempering.estimators import resample

        cube = np.asarray(run.values["x"]).reshape(-1, self.ndim)
        weights, log_likelihood = run.weights().ravel(), np.ravel(run.energy)
        kept = np.flatnonzero(weights > 0)
        theta = np.array([self.prior_transform(np.clip(row, INSIDE, 1 - INSIDE)) for row in cube[kept]])
        chosen = resample(weights[kept], max(1, int(run.ess())), rng=0)
        self.result.sampler_output = run.info
        self.result.samples = theta[chosen]
        self.result.log_likelihood_evaluations = log_likelihood[kept][chosen]
        table = DataFrame(theta, columns=self.search_parameter_keys)
        self.result.nested_samples = table.assign(weights=weights[kept], log_likelihood=log_likelihood[kept])
        self.result.num_likelihood_evaluations = self._n_evaluations
        self._fill_evidence(run.log_evidence())
        verdict = run.diagnose()
        (logger.info if verdict.is_good else logger.warning)(str(verdict))

    def _fill_evidence(self, found: Any) -> None:
        """Give the evidence of the prior as bilby means it: cut to what obeys the constraints, and normalised."""
        value, error = found.value, found.standard_error
        if self.constraint_parameter_keys:
            factor = float(self.priors.normalize_constraint_factor(tuple(self.search_parameter_keys)))
            value += np.log(factor)
            error = float(np.hypot(error, np.sqrt(max(0.0, 1 - 1 / factor) / CONSTRAINT_DRAWS)))
        self.result.log_evidence, self.result.log_evidence_err = float(value), float(error)

    def _verify_external_sampler(self) -> None:
        """Nothing external is needed."""

    def write_current_state(self) -> None:
        """Nothing to do: the run writes itself, into bilby's folder of this sampler."""


@dataclass(frozen=True)
class UntilSound(Until):
    """The end of a run whose verdict asks for no more draws: looked at after some, twice as many, and so on."""

    def __post_init__(self) -> None:
        """Take no goals: the verdict has its own."""

    def next_look(self, n_done: int) -> int:
        """Return at how many iterations a run is looked at next.

        Examples
        --------
        >>> [UntilSound().next_look(n) for n in (0, 4999, 5000, 12_000)]
        [5000, 5000, 10000, 20000]
        """
        return DRAWS << (n_done // DRAWS).bit_length()

    def is_reached(self, so_far: Callable[[], TemperedDraws], seconds: float) -> bool:
        """Ask the verdict."""
        return not so_far().diagnose().asks_for_draws


@dataclass(frozen=True)
class _Mapping:
    """The sampler's way to evaluate many points; a checkpoint is known by none of the sampler's own state."""

    sampler: Any = field(compare=False)

    def __call__(self, function: Any, points: Any) -> list[Any]:
        return self.sampler._mapped(function, points)  # type: ignore[no-any-return]


def _log_likelihood_of_cube(cube: Any) -> float:
    """Return the log likelihood at a point of the unit cube, in whichever process bilby has set up."""
    dump: Any = base_sampler._sampling_convenience_dump
    theta = dump.priors.rescale(dump.search_parameter_keys, np.clip(cube, INSIDE, 1 - INSIDE))
    named = dict(zip(dump.search_parameter_keys, theta, strict=True))
    if not dump.priors.evaluate_constraints(named):
        return -np.inf
    parameters = deepcopy(dump.parameters)
    parameters.update(named)
    value = float(_safe_likelihood_call(dump.likelihood, parameters=parameters, use_ratio=dump.use_ratio))
    return value if np.isfinite(value) else -np.inf
