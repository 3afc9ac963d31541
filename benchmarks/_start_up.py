"""One process of `benchmarks.start_up`: two calls of one sampler on one case, each timed, with JAX's compilations.

``python -m benchmarks._start_up SAMPLER CASE STARTED``, where STARTED is the clock when the process was begun. Prints
a record as JSON.
"""

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

COMPILED, HIT = "/jax/core/compile/backend_compile_duration", "/jax/compilation_cache/cache_hits"
DRAWS = 1_000  # of each chain on a posterior on data: starting up is what is measured
TRACED = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")


@dataclass
class Call:
    """Seconds by the clock and of the processor; programs, and the seconds compiling (or loading) and tracing them."""

    wall: float = 0.0
    processor: float = 0.0
    programs: int = 0
    from_disk: int = 0
    compiling: float = 0.0
    tracing: float = 0.0


class Listener:
    """Adds what JAX reports to the present call."""

    def __init__(self) -> None:
        import jax

        self.call = Call()
        jax.monitoring.register_event_duration_secs_listener(self.heard)
        jax.monitoring.register_event_listener(self.happened)

    def heard(self, event: str, seconds: float, **_: Any) -> None:
        if event == COMPILED:
            self.call.programs += 1
            self.call.compiling += seconds
        elif event in TRACED:
            self.call.tracing += seconds

    def happened(self, event: str, **_: Any) -> None:
        if event == HIT:
            self.call.from_disk += 1


def quickstart() -> tuple[Any, dict[str, Any]]:
    """Return the target of the README and where it starts."""
    import jax.numpy as jnp

    import tempering as tp

    centres = 6.0 * jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    widths, masses = jnp.array([1.0, 0.5, 0.8, 0.6]), jnp.array([0.4, 0.3, 0.2, 0.1])

    def log_density(x: Any) -> Any:
        squares = jnp.sum((x - centres) ** 2, axis=-1)
        return jnp.log(jnp.sum(masses / widths**2 * jnp.exp(-0.5 * squares / widths**2)))

    return tp.Target(log_density), {"initial": centres[0]}


def case_of(name: str) -> Any:
    """Return a case of the comparison with peers; the quickstart as one, with a normal prior."""
    from benchmarks.peers import cases

    if name != "quickstart":
        return cases.case_of(name)
    from tempering import problems

    centres = 6.0 * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    mixture = problems.GaussianMixture([0.4, 0.3, 0.2, 0.1], centres, [1.0, 0.5, 0.8, 0.6])
    return cases.of_mixture(name, "the README's four modes, d = 2", mixture, 6.0, 0.003)


def posterior(name: str) -> tuple[Any, dict[str, Any]]:
    """Return a posterior with its prior apart, where it starts, and a tenth of the default draws."""
    from benchmarks.peers.samplers.tempering import target_of

    return target_of(case_of(name)), {"draws": DRAWS}


def import_what_is_used(sampler: str) -> None:
    """Import a sampler as its users do, before anything of the cases."""
    import jax  # noqa: F401

    if sampler == "tempering":
        import tempering

        _ = (tempering.sample, tempering.Target)
    elif sampler == "tfp_exchange":
        import tensorflow_probability.substrates.jax  # noqa: F401
    else:
        importlib.import_module(sampler.split("_")[0])


def caller(sampler: str, name: str) -> Callable[[int], object]:
    """Return the call that is timed, a function of the seed: what a user would write, with the defaults."""
    if sampler == "tempering":
        import tempering as tp

        target, where = quickstart() if name == "quickstart" else posterior(name)
        return lambda seed: tp.sample(target, rng=seed, progress=False, **where).summary()
    module = importlib.import_module(f"benchmarks.peers.samplers.{sampler}")
    case = case_of(name)
    return lambda seed: module.run(case, seed, module.EFFORT)


def first_draws() -> list[tuple[float, float]]:
    """Have the vector engine note when its first block of draws is there, by the clock and by the processor."""
    from tempering.engines.vector import VectorEngine

    noted: list[tuple[float, float]] = []
    run = VectorEngine.run

    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        done = run(self, *arguments, **named)
        noted.append((time.time(), time.process_time()))
        return done

    VectorEngine.run = watched  # type: ignore[method-assign]
    return noted


def timed(call: Callable[[int], object], seed: int, listener: Listener) -> Call:
    listener.call = Call()
    clock, processor = time.perf_counter(), time.process_time()
    call(seed)
    listener.call.wall = time.perf_counter() - clock
    listener.call.processor = time.process_time() - processor
    return listener.call


def main() -> None:
    sampler, name, started = sys.argv[1], sys.argv[2], float(sys.argv[3])
    warnings.simplefilter("ignore")
    import_what_is_used(sampler)
    importing = {"wall": time.time() - started, "processor": time.process_time()}
    call = caller(sampler, name)
    noted = first_draws() if sampler == "tempering" else []
    begun = time.time(), time.process_time()  # making the case is no part of anything
    listener = Listener()
    calls = [timed(call, seed, listener) for seed in (1, 2)]
    if sampler == "tempering":
        from tempering.compiling.keeping import counts

        calls[0].from_disk = counts.loaded
    to_draws = [now - then for now, then in zip(noted[0], begun, strict=True)] if noted else None
    record = {"sampler": sampler, "case": name, "importing": importing, "to_draws": to_draws}
    print(json.dumps(record | {"calls": [asdict(one) for one in calls]}))


if __name__ == "__main__":
    main()
