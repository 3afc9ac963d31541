"""The samplers there are, and runs of one of them, in a process of their own."""

import importlib
import json
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from benchmarks.peers.environments import python_of, variables

SAMPLERS = (
    "tempering", "blackjax_tempered", "blackjax_persistent", "numpyro_nuts", "emcee_ensemble", "dynesty_dynamic",
    "ptemcee_parallel", "eryn_parallel", "pymc_smc", "tfp_exchange", "pocomc_flow", "nautilus_importance",
    "ultranest_reactive", "jaxns_nested", "reddemcee_parallel", "tempest_persistent",
)  # fmt: skip
CLOCK = 6.0  # times the limit in processor seconds that a run may take by the clock, where others use the core too
Record = dict[str, Any]


def module_of(sampler: str) -> ModuleType:
    """Return a sampler's file."""
    return importlib.import_module(f"benchmarks.peers.samplers.{sampler}")


def run_seeds(sampler: str, case: str, seeds: Sequence[int], effort: int, core: int, limit: float) -> list[Record]:
    """Run one process pinned to a core; a crash, or more than ``limit`` seconds of the processor, is a record too.

    There is a record for every seed: those that were not reached say why.
    """
    task = [python_of(module_of(sampler).ENVIRONMENT), "-m", "benchmarks.peers.worker", sampler, case]
    numbers = [",".join(map(str, seeds)), str(effort), str(core), str(int(limit))]
    over = f"did not end within {limit:.0f} s of the processor"
    try:
        with subprocess.Popen(
            [*task, *numbers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables(),
            cwd=tempfile.gettempdir(),  # where logs that some leave behind do no harm
        ) as process:  # fmt: skip
            said, complaints, failure = *_all_that_was_said(process, CLOCK * limit), over
    except OSError as refused:
        said, complaints, failure = "", "", f"not installed: {refused}"[:300]
    else:
        if process.returncode not in (-signal.SIGXCPU, -signal.SIGKILL):
            failure = (complaints.strip().splitlines() or [f"exit status {process.returncode}"])[-1][:300]
    records: list[Record] = [json.loads(line) for line in said.splitlines() if line.startswith('{"sampler"')]
    if records and "failure" in records[-1]:
        failure = records[-1]["failure"]
    at: Record = {"sampler": sampler, "case": case, "effort": effort}
    return records + [at | {"seed": seed, "failure": failure} for seed in seeds[len(records) :]]


def _all_that_was_said(process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """Return what a process printed, also if it has to be killed after so long by the clock."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()
