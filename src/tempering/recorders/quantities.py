"""Functions of a position: how users' functions are called, and checked before a long run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tempering.errors import EstimatorError, SamplerError, TemperingError
from tempering.target.layout import Layout

Functions = Mapping[str, Callable[..., Any]]


def apply(function: Callable[..., Any], values: Mapping[str, Any], layout: Layout | None) -> Any:
    """Call a function of the position with arrays by name: by keyword where positions are named."""
    if layout is None or set(layout.names) != set(values):  # not as they were sampled: by name
        return function(**values) if tuple(values) != ("x",) else function(values["x"])
    if layout.keyword:
        return function(**values)
    if layout.names == ("x",):
        return function(values["x"])
    return function(layout.built(values[name] for name in layout.names))


def evaluated(function: Any, values: Mapping[str, Any], layout: Layout | None) -> Any:
    """Call a user's function of the position with draws, leading axes (chain, draw); refuse all but real numbers."""
    takes = f"by the names {', '.join(values)}" if tuple(values) != ("x",) else "of draws"
    if not callable(function):
        raise EstimatorError(
            f"A function of the position is needed, but got {type(function).__name__}. Pass one, as lambda x: x**2."
        )
    try:
        found = np.asarray(apply(function, values, layout))
    except TemperingError:
        raise
    except Exception as error:
        raise EstimatorError(
            f"The function is called once, with arrays {takes} that have leading axes (chain, draw), but it raised "
            f"{type(error).__name__}: {str(error)[:200]}. Write it for such arrays, with an argument for every name."
        ) from error
    if found.dtype.kind not in "fiub":
        raise EstimatorError(f"The function must return real numbers, but it returned {found.dtype}. Take a real part.")
    return found.astype(float)


def check_functions(quantities: Any) -> dict[str, Callable[..., Any]]:
    """Refuse anything but functions by name."""
    if not isinstance(quantities, Mapping) or not quantities:
        raise SamplerError(
            f"Sums needs the functions of a position whose expectations are wanted, by name, but got {quantities!r}. "
            "Draws are not kept: name all that you will ask for, as in Sums({'x': lambda x: x})."
        )
    for name, function in quantities.items():
        if not isinstance(name, str) or not callable(function):
            raise SamplerError(
                f"quantities must map names to functions of a position, but {name!r} is mapped to "
                f"{type(function).__name__}. Pass the function itself, as in Sums({{'x': lambda x: x}})."
            )
    return dict(quantities)


def check_value(name: str, value: Any, lead: tuple[int, ...]) -> None:
    """Refuse a value that is not one number, or array of numbers, a draw."""
    shape = np.shape(value)
    if shape[: len(lead)] != lead:
        raise SamplerError(
            f"A quantity must be one value (or array) per draw, leading axes {lead}, but {name!r} returned shape "
            f"{shape}. Write it for arrays with leading axes (chain, draw); sum over axis=-1."
        )


def failed(name: str, error: Exception, engine: str) -> SamplerError:
    """Say that a quantity could not be computed, and what to do."""
    how = "It is compiled by JAX: write it with jax.numpy, without if on values. " if engine == "vector" else ""
    return SamplerError(
        f"The quantity {name!r} must be a function of positions with leading axes (chain, draw), but it raised "
        f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}. {how}Try it on one draw first."
    )


@dataclass(frozen=True, eq=False)
class Summands:
    """Functions of a position by name, and how recorded values become positions.

    Attributes
    ----------
    functions : tuple of (str, callable)
    layout : Layout or None
        None for model objects, which record what they like.
    constrain : callable or None
        From positions as they are sampled to the user's.
    """

    functions: tuple[tuple[str, Callable[..., Any]], ...]
    layout: Layout | None
    constrain: Callable[..., Any] | None

    def on_host(self, positions: Callable[[Any], Any], values: Any) -> dict[str, Any]:
        """Evaluate all functions on recorded values with leading axes (chain, draw)."""
        import jax

        with jax.enable_x64(True):  # for functions written with JAX
            named = positions(values) if self.constrain is None else self.constrain(self.layout.unflatten(values))  # type: ignore[union-attr]
            return {name: np.asarray(apply(function, named, self.layout), float) for name, function in self.functions}

    def on_device(self, positions: Callable[[Any], Any], n_leading: int) -> Callable[[Any], Any]:
        """Return a JAX function of recorded values, with leading axes of chains, that gives all components."""
        named = positions if self.layout is None else None  # a layout's own are new every run: none would be found
        return _on_device(self.functions, self.layout, self.constrain, named, n_leading)


@lru_cache(maxsize=32)
def _on_device(functions: Any, layout: Any, constrain: Any, positions: Any, n_leading: int) -> Callable[[Any], Any]:
    import jax
    import jax.numpy as jnp

    def evaluate(recorded: Any) -> Any:
        rows = jax.tree.map(lambda a: a.reshape((-1, 1, *a.shape[n_leading:])), recorded)
        if constrain is None:
            values = positions(rows) if layout is None else layout.named(rows)
        else:
            values = constrain(layout.unflatten(rows))
        columns = []
        for name, function in functions:
            value = apply(function, values, layout)
            lead = jax.tree.leaves(rows)[0].shape[:2]
            check_value(name, value, lead)
            columns.append(jnp.asarray(value, jnp.float64).reshape(lead[0], -1))
        return jnp.concatenate(columns, axis=-1)

    return evaluate
