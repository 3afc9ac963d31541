"""The samplers there are, and one run of one of them, in a process of its own."""

import importlib
import json
import signal
import subprocess
from types import ModuleType
from typing import Any

from benchmarks.peers.environments import FOLDER, python_of, variables

SAMPLERS = (
    "tempering", "blackjax_tempered", "blackjax_persistent", "numpyro_nuts", "emcee_ensemble", "dynesty_dynamic",
    "ptemcee_parallel", "eryn_parallel", "pymc_smc", "tfp_exchange", "pocomc_flow",
)  # fmt: skip
CLOCK = 6.0  # times the limit in processor seconds that a run may take by the clock, where others use the core too
Record = dict[str, Any]


def module_of(sampler: str) -> ModuleType:
    """Return a sampler's file."""
    return importlib.import_module(f"benchmarks.peers.samplers.{sampler}")


def run_one(sampler: str, case: str, seed: int, effort: int, core: int, limit: float) -> Record:
    """Run one process pinned to a core; a crash, or more than ``limit`` seconds of the processor, is a record too."""
    task = [python_of(module_of(sampler).ENVIRONMENT), "-m", "benchmarks.peers.worker", sampler, case]
    at: Record = {"sampler": sampler, "case": case, "seed": seed, "effort": effort}
    over = at | {"failure": f"did not end within {limit:.0f} s of the processor"}
    try:
        done = subprocess.run(
            [*task, str(seed), str(effort), str(core), str(int(limit))], capture_output=True, text=True, check=False,
            timeout=CLOCK * limit, env=variables(), cwd=FOLDER.parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return over
    except OSError as failure:
        return at | {"failure": f"not installed: {failure}"[:300]}
    lines = done.stdout.strip().splitlines()
    if done.returncode == -signal.SIGXCPU:
        return over
    if done.returncode or not lines:
        return at | {"failure": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:300]}
    record: Record = json.loads(lines[-1])
    return record
