"""Say where a user's function raised an error: in which chain, at which position."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tempering.errors import FunctionError
from tempering.target.batched import Batched

PACKAGE = str(Path(__file__).parents[1])


def function_error(
    error: BaseException, first_row: int, state: object, positions: Callable[[Any], Any], functions: Sequence[Any] = ()
) -> FunctionError:
    """Return an error that tells where another one was raised, by a function that the package has called.

    Parameters
    ----------
    error : BaseException
    first_row : int
        The chain, or the first of the ensemble, that was run.
    state : Chain or Ensemble
    positions : callable
        Names the coordinates of a flat position.
    functions : sequence of callable
        Compiled ones of flat positions, which are asked which of an ensemble's proposals it was.
    """
    frames = list(_frames(error))
    replica = next((frame.f_locals.get("r") for frame in frames if frame.f_code.co_name == "couple"), None)
    if replica is None and functions and hasattr(state, "particles"):
        replica = _at_fault(state.particles[1], functions)
    chain = first_row + (replica if isinstance(replica, int) else 0)
    position = _argument(frames)
    if position is None:
        position = _proposal(state, replica, positions)
    return FunctionError(_last_words(error), chain, position)


def _at_fault(proposals: Sequence[Any], functions: Sequence[Any]) -> int | None:
    """Return the replica whose proposal raises an error."""
    for replica, proposal in enumerate(proposals):
        for function in functions:
            try:
                function(proposal)
            except (Exception, SystemExit):
                return replica
    return None


def _last_words(error: BaseException) -> str:
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
    """Return what the first function outside this package and JAX was called with, last: a position, or a state."""
    for before, frame in pairwise(frames):
        code = frame.f_code
        if before.f_code.co_filename.startswith(PACKAGE) and not code.co_filename.startswith((PACKAGE, _jax())):
            given = [_plain(frame.f_locals.get(name)) for name in code.co_varnames[: code.co_argcount]]
            plain = [value for value in given if isinstance(value, np.ndarray | float | dict | tuple | list)]
            if plain:
                return plain[0]
    return _argument_of_callback(frames)


def _argument_of_callback(frames: list[FrameType]) -> Any:
    """Return what the first function was called with that JAX has called, with numbers."""
    for before, frame in pairwise(frames):
        code = frame.f_code
        if before.f_code.co_filename.startswith(_jax()) and not code.co_filename.startswith((PACKAGE, _jax())):
            given = [_plain(frame.f_locals.get(name)) for name in code.co_varnames[: code.co_argcount]]
            plain = [value for value in given if isinstance(value, np.ndarray)]
            if plain:
                return plain[0]
    many = [_plain(frame.f_locals["position"]) for frame in frames if frame.f_code is Batched.__call__.__code__]
    return many[-1] if many else None


def _jax() -> str:
    """Return where JAX is, which calls functions back on the way."""
    found = getattr(sys.modules.get("jax"), "__file__", None)
    return PACKAGE if found is None else str(Path(found).parent)


def _plain(value: object) -> Any:
    """Return arrays of JAX as those of NumPy; None for what is being traced, which has no value yet."""
    jax = sys.modules.get("jax")
    if jax is None:
        return value
    leaves = jax.tree.leaves(value)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    is_ours = any(isinstance(leaf, jax.Array) for leaf in leaves)
    return jax.tree.map(np.asarray, value) if is_ours else value


def _proposal(state: object, replica: int | None, positions: Callable[[Any], Any]) -> Any:
    """Return where a chain was about to go: compiled functions leave no trace of what they were called with."""
    particle: Any = getattr(state, "particle", None)
    if particle is None:
        particle = getattr(state, "particles", None)
    try:
        proposal = np.asarray(particle[1], dtype=np.float64)
        return positions(proposal if replica is None else proposal[replica])
    except (TypeError, ValueError, IndexError):  # a model's own state
        return particle
