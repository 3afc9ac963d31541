"""A sampler of bilby: ``bilby.run_sampler(likelihood, priors, sampler="tempering")``.

Parameters move in the unit cube of bilby's priors, periodic ones on a circle; those with a reflective boundary end
there.
"""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from bilby.core.likelihood import _safe_likelihood_call
from bilby.core.sampler import base_sampler
from bilby.core.sampler.base_sampler import NestedSampler, signal_wrapper

from tempering.prior import Uniform, joint_prior
from tempering.target import Target
from tempering.target.batched import one_by_one


class Tempering(NestedSampler):  # type: ignore[misc]
    """Importance tempering for bilby.

    Keyword arguments are those of `tempering.sample` (``draws``, ``chains``, ``ladder``, ``method``, ``path``),
    ``tune`` for the iterations of tuning, and bilby's own: ``npool``, ``resume``, ``check_point``,
    ``check_point_delta_t`` (seconds) and ``seed``.
    The result has draws of equal weight in ``samples``, all weighted ones in ``nested_samples``, the evidence and its
    error.
    """

    sampler_name = "tempering"
    sampling_seed_key = "seed"
    default_kwargs = {  # noqa: RUF012 - as bilby has it
        "draws": 2000,
        "tune": 2000,
        "chains": None,
        "ladder": None,
        "method": "simulated",
        "path": None,
        "progress": True,
        "npool": None,
        "seed": None,
        "resume": True,
        "check_point": True,
        "check_point_delta_t": 600,
    }

    @signal_wrapper  # type: ignore[untyped-decorator]
    def run_sampler(self) -> Any:
        """Sample, and fill in bilby's result."""
        from tempering.execution.checkpoint import Checkpoint
        from tempering.runs.options import Execution, Tuning
        from tempering.runs.sampling import sample

        options = {k: self.kwargs[k] for k in ("draws", "chains", "ladder", "method", "path", "progress")}
        folder = Path(self.outdir) / f"{self.label}_tempering_checkpoint"
        if not self.kwargs["resume"] and folder.exists():
            shutil.rmtree(folder)
        if self.kwargs["check_point"]:
            folder.parent.mkdir(parents=True, exist_ok=True)
            kept = Checkpoint(folder, seconds=float(self.kwargs["check_point_delta_t"]))
            options["execution"] = Execution(checkpoint=kept)
        self._setup_pool()
        try:
            run = sample(self._target(), rng=self.kwargs["seed"], tuning=Tuning(self.kwargs["tune"]), **options)
        finally:
            self._close_pool()
        self._fill(run)
        if folder.exists():
            shutil.rmtree(folder)
        return self.result

    def _target(self) -> Target:
        periodic = [getattr(self.priors[key], "boundary", None) == "periodic" for key in self.search_parameter_keys]
        prior = joint_prior([Uniform(0.0, 1.0, periodic=p) for p in periodic])
        mapping = map if getattr(self, "pool", None) is None else self.pool.map
        return Target.from_likelihood(one_by_one(_log_likelihood_of_cube, mapping), prior, batched=True)

    def _fill(self, run: Any) -> None:
        from pandas import DataFrame

        from tempering.estimators import resample

        cube = np.asarray(run.values["x"]).reshape(-1, self.ndim)
        weights, log_likelihood = run.weights().ravel(), np.ravel(run.energy)
        kept = np.flatnonzero(weights > 0)
        theta = np.array([self.prior_transform(row) for row in cube[kept]])
        chosen = resample(weights[kept], max(1, int(run.ess())), rng=0)
        self.result.sampler_output = run.info
        self.result.samples = theta[chosen]
        self.result.log_likelihood_evaluations = log_likelihood[kept][chosen]
        table = DataFrame(theta, columns=self.search_parameter_keys)
        self.result.nested_samples = table.assign(weights=weights[kept], log_likelihood=log_likelihood[kept])
        evidence = run.log_evidence()
        self.result.log_evidence, self.result.log_evidence_err = evidence.value, evidence.standard_error
        self.calc_likelihood_count()

    def _verify_external_sampler(self) -> None:
        """Nothing external is needed."""

    def write_current_state(self) -> None:
        """Nothing to do: the run keeps itself, in its folder."""

    @classmethod
    def get_expected_outputs(cls, outdir: Any = None, label: Any = None) -> tuple[list[str], list[str]]:
        """Name the folder that a run is kept in until it is done."""
        return [], [str(Path(outdir) / f"{label}_tempering_checkpoint")]


def _log_likelihood_of_cube(cube: Any) -> float:
    """Return the log likelihood at a point of the unit cube, in whichever process bilby has set up."""
    dump: Any = base_sampler._sampling_convenience_dump
    theta = dump.priors.rescale(dump.search_parameter_keys, np.clip(cube, 1e-15, 1 - 1e-15))
    named = dict(zip(dump.search_parameter_keys, theta, strict=True))
    if not dump.priors.evaluate_constraints(named):
        return -np.inf
    parameters = deepcopy(dump.parameters)
    parameters.update(named)
    value = float(_safe_likelihood_call(dump.likelihood, parameters=parameters, use_ratio=dump.use_ratio))
    return value if np.isfinite(value) else -np.inf
