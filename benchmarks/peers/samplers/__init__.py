"""One file a sampler: its settings with their source, and ``run(case, seed, effort) -> Answer``."""

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a sampler says about the posterior."""

    draws: Any  # (n, dimension)
    weights: Any | None = None  # None: all alike
    log_evidence: float | None = None  # None: it has none
    n_calls: int | None = None  # of the log likelihood, a gradient being one more; None: not counted


def marginals(prior: Any) -> list[Any]:
    """Return the distributions of the coordinates for samplers that take them one by one, as SciPy's frozen ones."""
    from scipy import stats

    from tempering.problems import CauchyPrior, NormalPrior, UniformPrior

    if isinstance(prior, NormalPrior):
        return [stats.norm(m, s) for m, s in zip(prior.mean, prior.sd, strict=True)]
    if isinstance(prior, UniformPrior):
        return [stats.uniform(a, b - a) for a, b in zip(prior.lower, prior.upper, strict=True)]
    if isinstance(prior, CauchyPrior):
        return [stats.cauchy(m, s) for m, s in zip(prior.location, prior.scale, strict=True)]
    raise NotImplementedError(f"takes independent coordinates only, and the prior is {type(prior).__name__}")


class Counted:
    """A log likelihood in NumPy that counts the points it was asked for."""

    def __init__(self, function: Any) -> None:
        self.function, self.n_calls = function, 0

    def __call__(self, x: Any) -> Any:
        """Return the log likelihood of a point, or of many."""
        self.n_calls += 1 if x.ndim == 1 else len(x)
        return self.function(x)
