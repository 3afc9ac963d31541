"""A hundred thousand columns on an accelerator: twice, beside what the simulated design knows.

Needs JAX, NumPy and SciPy alone: neither Numba nor pandas nor scikit-learn is imported.
"""

import time

import numpy as np

from benchmarks.variable_selection.cases import EFFECTS, design, linear_problem, places

WANTED_ERROR, WANTED_SECONDS = 0.01, 300.0
TOP = 100
NEAR = 3  # columns: correlation .9 to the power of 4 is .66, and beyond a column does not stand in for another


def large(
    n: int = 1_000, p: int = 100_000, *, chains: int = 64, draws: int = 40_000, tune: int = 4_000
) -> list[dict[str, object]]:
    """Run the large case twice on JAX's device, with different seeds; seconds from data to answer."""
    import jax

    from tempering.models.variable_selection.accelerated import run_accelerated

    started = time.perf_counter()
    x, y = design(n, p)
    making = time.perf_counter() - started
    problem = linear_problem(x, y, max_size=None)
    runs = [run_accelerated(problem, chains=chains, draws=draws, tune=tune, slots=48, rng=seed) for seed in (1, 2)]
    first, second = (np.asarray(run.inclusion.value) for run in runs)
    top = np.argsort(-first)[:TOP]
    error = np.asarray(runs[0].inclusion.standard_error)[top]
    both = np.hypot(error, np.asarray(runs[1].inclusion.standard_error)[top])
    difference = np.abs(first - second)[top]
    return [
        {
            "device": jax.devices()[0].device_kind,
            "n": n,
            "p": p,
            "chains": chains,
            "jumps_of_a_chain": tune + draws,
            "seconds_to_simulate_the_data": making,
            "seconds_of_first_run": runs[0].seconds,
            "seconds_of_second_run": runs[1].seconds,
            "largest_standard_error_of_top_hundred": float(error.max()),
            "largest_difference_of_two_runs": float(difference.max()),
            "in_standard_errors": float((difference / np.maximum(both, 1e-6)).max()),
            "mean_size": runs[0].mean_size,
            "within_time": bool(runs[0].seconds < WANTED_SECONDS),
            "within_error": bool(error.max() <= WANTED_ERROR and runs[0].seconds < WANTED_SECONDS),
            **against_the_design(first, p),
        }
    ]


def against_the_design(inclusion: np.ndarray, p: int) -> dict[str, object]:
    """Say what was found of the effects: the expected number of columns near each, and of those near none."""
    near = np.zeros(p, dtype=bool)
    found = []
    for place in places(p):
        around = slice(max(place - NEAR, 0), place + NEAR + 1)
        near[around] = True
        found.append(round(float(inclusion[around].sum()), 3))
    return {
        "effects": ", ".join(f"{effect:g}" for effect in EFFECTS),
        "expected_columns_near_each_effect": ", ".join(f"{value:.3f}" for value in found),
        "expected_columns_elsewhere": float(inclusion[~near].sum()),
    }
