"""A log density that brings its gradient, as BridgeStan's models do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WithGradient:
    """A function of a position that also knows its gradient.

    ``log_density(position)`` is the value; ``log_density_gradient(position)`` the value and the gradient, which has the
    shape of the position.
    """

    log_density: Callable[[Any], Any]
    log_density_gradient: Callable[[Any], tuple[Any, Any]]

    def __call__(self, position: Any) -> Any:
        """Return the value alone."""
        return self.log_density(position)


def gradient_of(function: Any) -> Callable[[Any], tuple[Any, Any]] | None:
    """Return the function that gives value and gradient; None where there is none."""
    found = getattr(function, "log_density_gradient", None)
    return found if callable(found) else None
