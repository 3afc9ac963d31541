"""NumPyro's NUTS: four chains one after the other on the one core, 1000 warm-up iterations, target acceptance 0.8.

All of it is the documentation's default or its first example. It is not made for several modes; it is the bar for one.
"""

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer
from benchmarks.peers.samplers.jax_parts import start

PACKAGE, ENVIRONMENT = "numpyro", "peers"
EFFORT = 1_000
CHAINS, WARM_UP = 4, 1_000
SETTINGS = {
    "effort": "draws a chain",
    "chains": CHAINS,
    "warm-up": WARM_UP,
    "target acceptance": 0.8,
    "start": "draws of the prior, or around the points given",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    key, initial = start(case, seed, CHAINS, anywhere=True)
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(potential_fn=lambda x: -case.log_density(x))
    mcmc = MCMC(kernel, num_warmup=WARM_UP, num_samples=effort, num_chains=CHAINS, chain_method="sequential",
                progress_bar=False)  # fmt: skip
    mcmc.run(key, init_params=initial, extra_fields=("num_steps",))
    steps = float(mcmc.get_extra_fields()["num_steps"].mean())
    return Answer(mcmc.get_samples(), None, None, int(2 * steps * CHAINS * (WARM_UP + effort)))
