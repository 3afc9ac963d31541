"""Say where a user's function raised an error: in which chain, at which position."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tempering.errors import FunctionError

PACKAGE = str(Path(__file__).parents[1])


def function_error(error: Exception, first_row: int, state: Any, positions: Callable[[Any], Any]) -> FunctionError:
    """Return an error that tells where another one was raised, by a function that the package has called.

    Parameters
    ----------
    error : Exception
    first_row : int
        The chain, or the first of the ensemble, that was run.
    state : Chain or Ensemble
    positions : callable
        Names the coordinates of a flat position.
    """
    frames = list(_frames(error))
    replica = next((frame.f_locals.get("r") for frame in frames if frame.f_code.co_name == "couple"), None)
    chain = first_row + (replica if isinstance(replica, int) else 0)
    position = _argument(frames)
    if position is None:
        position = _proposal(state, replica, positions)
    return FunctionError(_last_words(error), chain, position)


def _last_words(error: Exception) -> str:
    """Return what was raised; of an error in a call back from JAX, which carries a whole traceback, its last line."""
    text = str(error)
    if "allback" in text and "\n" in text:
        return text.split("\n----------", 1)[0].strip().splitlines()[-1]
    return f"{type(error).__name__}: {text}"


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _argument(frames: list[FrameType]) -> Any:
    """Return what the first function outside this package was called with, last: a position, or a state."""
    for before, frame in pairwise(frames):
        if before.f_code.co_filename.startswith(PACKAGE) and not frame.f_code.co_filename.startswith(PACKAGE):
            code = frame.f_code
            given = [_plain(frame.f_locals.get(name)) for name in code.co_varnames[: code.co_argcount]]
            plain = [value for value in given if isinstance(value, np.ndarray | float | dict | tuple | list)]
            return plain[0] if plain else None
    return None


def _plain(value: Any) -> Any:
    """Return arrays of JAX as those of NumPy; None for what is being traced, which has no value yet."""
    jax = sys.modules.get("jax")
    if jax is None:
        return value
    leaves = jax.tree.leaves(value)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    is_ours = any(isinstance(leaf, jax.Array) for leaf in leaves)
    return jax.tree.map(np.asarray, value) if is_ours else value


def _proposal(state: Any, replica: Any, positions: Callable[[Any], Any]) -> Any:
    """Return where a chain was about to go: compiled functions leave no trace of what they were called with."""
    particle: Any = getattr(state, "particle", None)
    if particle is None:
        particle = getattr(state, "particles", None)
    try:
        proposal = np.asarray(particle[1], dtype=np.float64)
        return positions(proposal if replica is None else proposal[replica])
    except (TypeError, ValueError, IndexError):  # a model's own state
        return particle
