"""The designs, and the prior that every program gets."""

import numpy as np

CASES = {"p500": (200, 500), "p10000": (500, 10_000)}
SLAB_PRECISION, EXPECTED = 0.01, 5.0
EFFECTS = (2.0, -1.5, 1.0, 0.8, -0.6, 0.5, 0.4, -0.35, 0.3, 0.25)


def places(p: int) -> np.ndarray:
    """Return the columns that have an effect."""
    return np.linspace(0, p - 1, len(EFFECTS)).astype(int)


def design(n: int, p: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return columns with correlation .9 between neighbours and ten effects, some of them too small to be sure of."""
    rng = np.random.default_rng(seed)
    x = np.empty((n, p))
    x[:, 0] = rng.standard_normal(n)
    for j in range(1, p):
        x[:, j] = 0.9 * x[:, j - 1] + np.sqrt(1 - 0.81) * rng.standard_normal(n)
    y = x[:, places(p)] @ np.array(EFFECTS) + rng.standard_normal(n)
    x -= x.mean(axis=0)
    return x / x.std(axis=0), y - y.mean()


def tune_of(draws: int) -> int:
    """Return the jumps before those that are kept."""
    return max(draws // 4, 100)


def linear_problem(x: np.ndarray, y: np.ndarray, expected: float = EXPECTED, max_size: int | None = 100):
    """Return the posterior that both programs sample."""
    from tempering.models.variable_selection.priors import SizePrior, Slab
    from tempering.models.variable_selection.problem import LinearProblem

    slab = Slab("independent", SLAB_PRECISION)
    return LinearProblem(x, y, SizePrior(expected=expected), slab, shape=0.0, rate=0.0, max_size=max_size)


def inclusion_of(result, inverse_temperatures: np.ndarray | None = None) -> np.ndarray:
    """Return the inclusion probabilities of one chain, its rungs combined."""
    from tempering.models.variable_selection.posterior import posterior_of

    k = np.ones(1) if inverse_temperatures is None else inverse_temperatures
    return np.asarray(posterior_of([result], k, "screened").inclusion.value)
