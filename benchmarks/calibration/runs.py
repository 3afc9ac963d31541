"""One run of the default call, and what it said about everything that is known."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from tempering.problems.known import KnownTarget, Quantity

MESSAGE = 300  # characters of an error that are kept

Record = dict[str, Any]


def verdict_of(run: Any) -> tuple[bool, list[str]]:
    """Return whether the run calls itself sound, and what it complains about."""
    diagnosis = run.diagnose()
    return bool(diagnosis.is_good), [str(sentence) for sentence in diagnosis.sentences]


def evidence_of(run: Any) -> tuple[float, float, bool]:
    """Return log evidence, its standard error, and whether it is of the target itself and not of a ratio."""
    evidence = run.log_evidence()
    return float(evidence.value), float(evidence.standard_error), bool(getattr(evidence, "is_absolute", True))


def estimate_of(run: Any, quantity: Quantity) -> tuple[Any, Any]:
    """Return estimates and standard errors of a quantity, as flat arrays."""
    estimate = run.expect(quantity.function)
    return np.ravel(np.asarray(estimate.value, float)), np.ravel(np.asarray(estimate.standard_error, float))


def sampled(known: KnownTarget, seed: int, options: Mapping[str, Any], *, with_initial: bool) -> Any:
    """Make the run."""
    import tempering as tp

    start = {"initial": known.initial} if with_initial or not known.has_prior else {}
    return tp.sample(target_for(known), rng=seed, progress=False, **start, **options)


@cache
def target_for(known: KnownTarget) -> Any:
    """Return the same target for every seed, so that what is compiled for the first is there for the others."""
    return known.target()


def record_of(known: KnownTarget, seed: int, options: Mapping[str, Any], *, with_initial: bool = False) -> Record:
    """Return what one run said; an exception is an outcome."""
    record: Record = {"target": known.name, "seed": seed}
    clock, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = sampled(known, seed, options, with_initial=with_initial)
            record["sampling_seconds"] = time.perf_counter() - clock
            record |= answers(run, known)
        except Exception as failure:
            record["error"] = f"{type(failure).__name__}: {failure}"[:MESSAGE]
    return record | {"seconds": time.perf_counter() - clock, "processor_seconds": time.process_time() - processor}


def answers(run: Any, known: KnownTarget) -> Record:
    """Return verdict, evidence and all quantities beside their truths."""
    sound, sentences = verdict_of(run)
    found = []
    for quantity in known.known:
        value, error = estimate_of(run, quantity)
        found.append(
            {
                "name": quantity.name,
                "value": value.tolist(),
                "standard_error": error.tolist(),
                "truth": np.broadcast_to(np.ravel(quantity.value), value.shape).tolist(),
                "accuracy": quantity.accuracy,
                "can_be_found": quantity.can_be_found,
            }
        )
    if known.evidence is not None:
        value, error, is_absolute = evidence_of(run)
        if is_absolute:
            found.append(
                {
                    "name": "log evidence",
                    "value": [value],
                    "standard_error": [error],
                    "truth": [known.evidence.log_value],
                    "accuracy": known.evidence.accuracy,
                    "can_be_found": known.modes is None or known.modes.can_be_found,
                }
            )
    return {"sound": sound, "sentences": sentences, "quantities": found}
