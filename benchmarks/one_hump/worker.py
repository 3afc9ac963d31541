"""One process of `benchmarks.one_hump`: ``python -m benchmarks.one_hump.worker SAMPLER POSTERIOR SEED``.

Prints a record as JSON: processor seconds to a thousand effective draws, imports included, and the answer.
"""

import json
import sys
import time
from typing import Any

import numpy as np

from benchmarks.one_hump.models import Posterior, posterior

WANTED = 1_000  # effective draws
WARM_UP = DRAWS = 1_000  # of each of NUTS's chains
NUTS = {"nuts_1": (1, "sequential"), "nuts_4": (4, "vectorized")}  # one after the other, four take twice as long


def processor() -> float:
    return time.process_time()


def ours(case: Posterior, seed: int) -> dict[str, Any]:
    """Ask for a thousand effective draws; then make the default call in the same process, with what is compiled."""
    import tempering as tp

    if case.prior is None:
        target, where = tp.Target(case.log_density), {"initial": np.zeros(case.dimension)}
    else:
        target, where = tp.Target.from_likelihood(case.log_likelihood, case.log_prior, case.sample_prior), {}
    run = tp.sample(target, rng=seed, until=tp.Until(effective_draws=WANTED), progress=False, **where)
    mean, draws = run.expect(lambda x: x), run.effective_draws()
    record = {"seconds": processor(), "effective_draws": draws, "sound": run.diagnose().is_good}
    record |= {"mean": np.ravel(mean.value).tolist(), "error": np.ravel(mean.standard_error).tolist()}
    record |= {"chains": run.n_chains, "iterations": [run.info.n_iterations - run.n_draws, run.n_draws]}
    begun = processor()
    run = tp.sample(target, rng=seed + 1, progress=False, **where)
    verdict = run.diagnose()
    record |= {"default_seconds": processor() - begun, "default_effective_draws": run.effective_draws()}
    return record | {"default_sound": verdict.is_good, "sentences": list(verdict.sentences)}


class Compiling:
    """The seconds by the clock that JAX spends tracing and compiling."""

    def __init__(self) -> None:
        import jax

        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            self.seconds += seconds


def nuts(case: Posterior, seed: int, chains: int, method: str) -> dict[str, Any]:
    """Warm up, then draw: what compiling takes is counted once, and draws as many times as are needed."""
    import jax
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC
    from numpyro.infer import NUTS as Kernel

    compiling = Compiling()
    kernel = Kernel(potential_fn=lambda x: -case.log_density(x))
    mcmc = MCMC(kernel, num_warmup=WARM_UP, num_samples=DRAWS, num_chains=chains, chain_method=method,
                progress_bar=False)  # fmt: skip
    key, other = jax.random.split(jax.random.PRNGKey(seed))
    start = jax.random.uniform(other, (chains, case.dimension), minval=-2.0, maxval=2.0)  # its init_to_uniform
    mcmc.warmup(key, init_params=start if chains > 1 else start[0])
    jax.block_until_ready(mcmc.last_state.z)
    warm = processor()
    clock, compiled = time.perf_counter(), compiling.seconds
    mcmc.run(mcmc.last_state.rng_key)
    draws = np.asarray(mcmc.get_samples(group_by_chain=True), float)
    clock, spent = time.perf_counter() - clock, processor() - warm
    drawing = spent - (compiling.seconds - compiled) * spent / clock
    each = np.asarray(effective_sample_size(draws))
    worst = float(np.min(each))
    flat = draws.reshape(-1, case.dimension)
    record = {"seconds": warm + drawing * WANTED / worst, "effective_draws": worst, "all_draws": warm + drawing}
    return record | {"mean": flat.mean(axis=0).tolist(), "error": (flat.std(axis=0) / np.sqrt(each)).tolist()}


def main() -> None:
    sampler, name, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    case = posterior(name)
    making = processor()  # the data, NumPy among it: all that a user has
    record = ours(case, seed) if sampler == "tempering" else nuts(case, seed, *NUTS[sampler])
    print(json.dumps({"sampler": sampler, "posterior": name, "seed": seed, "making": making} | record))


if __name__ == "__main__":
    main()
