"""How narrow a mode may be that nothing leads to, and still be found: one starting point, no prior.

Two normal densities, sixteen deviations of the wider one apart; the narrower one has three fifths of the mass, and the
run begins at the other. A climb leads to the narrow one from within a ball of a few deviations alone, and hot draws hit
it the more seldom the more dimensions there are. A second starting point, or a prior that knows of it, is the remedy.
Found: its mass is right to .05. What is not found is seldom said to be missing.

    python -m benchmarks.narrow [--seeds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import tempering as tp

APART, MASS, NEAR = 16.0, 0.6, 0.05
CASES = (
    (2, 0.05), (2, 0.02), (3, 0.1), (3, 0.05), (4, 0.3), (4, 0.1), (6, 0.5), (6, 0.3), (8, 0.5), (8, 0.3), (12, 0.6),
    (12, 0.4), (20, 0.7), (20, 0.5),
)  # fmt: skip


def density(dimension: int, ratio: float) -> tuple[Any, Any]:
    """Return the log density, and the centre of the narrow mode."""
    centre = np.tile([2.0, -2.0, 1.0, 0.0, 0.5], 4)[:dimension]
    centre = APART * centre / np.linalg.norm(centre)
    log_share = np.log(MASS) - dimension * np.log(ratio)

    def log_density(x: Any) -> Any:
        wide = np.log(1.0 - MASS) - 0.5 * jnp.sum(x**2)
        return jnp.logaddexp(wide, log_share - 0.5 * jnp.sum(((x - centre) / ratio) ** 2))

    return log_density, centre


def case(dimension: int, ratio: float, seeds: int) -> dict[str, Any]:
    """Run the default call with some seeds."""
    log_density, centre = density(dimension, ratio)
    found = sound = 0
    begun = time.process_time()
    for seed in range(1, seeds + 1):
        run = tp.sample(tp.Target(log_density), initial=np.zeros(dimension), rng=seed, progress=False)
        mass = run.expect(lambda x: np.sum((x - centre) ** 2, axis=-1) < (APART / 2) ** 2)
        is_found = abs(float(mass.value) - MASS) < NEAR
        found += is_found
        sound += run.diagnose().is_good and not is_found
    return {
        "dimensions": dimension,
        "its width, of the other's": ratio,
        "runs": seeds,
        "found": found,
        "missed and called sound": sound,
        "processor s": (time.process_time() - begun) / seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for dimension, ratio in CASES:
        rows.append(case(dimension, ratio, options.seeds))
        print("  ".join(f"{key} {value:.3g}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        options.json.write_text(
            json.dumps({"about": {"date": time.strftime("%Y-%m-%d")}, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
