"""One file a sampler: its settings with their source, and ``run(case, seed, effort) -> Answer``."""

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a sampler says about the posterior."""

    draws: Any  # (n, dimension)
    weights: Any | None = None  # None: all alike
    log_evidence: float | None = None  # None: it has none
    n_calls: int | None = None  # of the log likelihood, a gradient being one more; None: not counted


class Counted:
    """A log likelihood in NumPy that counts the points it was asked for."""

    def __init__(self, function: Any) -> None:
        self.function, self.n_calls = function, 0

    def __call__(self, x: Any) -> Any:
        """Return the log likelihood of a point, or of many."""
        self.n_calls += 1 if x.ndim == 1 else len(x)
        return self.function(x)
