"""Tuning on the processor beside an accelerator: the second of two processors plays the one, the first the other."""

import json
import subprocess
import sys

import pytest

RUN = """
import json, os
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
from contextlib import contextmanager
import jax, jax.numpy as jnp, numpy as np
import tempering as tp
import tempering.compiling.devices as devices
import tempering.engines.vector as vector
import tempering.sampling.planning as planning
import tempering.sampling.sample as sample
import tempering.sampling.sum_sampling as sums

@contextmanager
def on_the_other():
    with jax.default_device(jax.devices()[1]):
        yield

for module in (planning, sample, sums):
    module.on_the_processor = on_the_other
planning.has_processor_beside = lambda: True
used, run_block = [], vector.VectorEngine._run_block

def seen(self, states, *more):
    found = run_block(self, states, *more)
    used.append((self.n_units, *(device.id for device in found[0].unit.rung.devices())))
    return found

vector.VectorEngine._run_block = seen
data = {data}

def log_density(x):
    modes = jnp.stack([-0.5 * jnp.sum((x - c) ** 2) for c in (data, -data)])
    return jax.nn.logsumexp(modes, b=np.array([0.3, 0.7]))

run = tp.sample(
    tp.Target(log_density), initial=np.zeros(2), chains=2048, draws=64, rng=1, progress=False,
    keep=tp.Sums({{"right": lambda x: x[..., 0] > 0}}), tuning=tp.Tuning(640),
)
where = {{n: sorted({{device for m, device in used if m == n}}) for n in sorted({{n for n, _ in used}})}}
print(json.dumps([where, float(run.expect("right").value)]))
"""


def printed(data):
    done = subprocess.run([sys.executable, "-c", RUN.format(data=data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["jnp.array([4.0, 4.0])", "jax.device_put(jnp.array([4.0, 4.0]), jax.devices()[0])"])
def test_few_chains_are_tuned_on_the_processor_and_many_run_on_the_accelerator(data):
    where, mass = printed(data)
    assert where.pop("32") == [1]
    assert list(where.values()) == [[0]]
    assert abs(mass - 0.3) < 0.02
