"""Functions that JAX calls back from compiled code: found in what it traces, and kept like others that take long.

JAX runs them in threads of its own, outside of ``jax.enable_x64``, now and then in the caller's. There it rounds what
passes to single precision, or refuses it: numbers of double precision pass as their bits, both ways.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxprs_in_params

from tempering.engines.answers import Kept
from tempering.errors import FunctionError
from tempering.target import Target, batched
from tempering.target.gradients import gradient_of
from tempering.target.layout import Layout


@lru_cache(maxsize=64)
def calls_back(target: Target, layout: Layout) -> bool:
    """Whether JAX calls a function of the user's back."""
    functions = [function for function in (target.energy, target.base) if function is not None]
    with jax.enable_x64(True):
        return any(_calls(jax.make_jaxpr(layout.on_flat(f))(np.zeros(layout.size)).jaxpr) for f in functions)


@lru_cache(maxsize=16)
def with_kept_calls(target: Target, run: str) -> Target:
    """Return a target whose answers to JAX are kept as those of a run."""
    found = copy(target)
    for name in ("energy", "base"):
        function = getattr(target, name)
        if function is not None and gradient_of(function) is None:
            object.__setattr__(found, name, _Rewritten(function, run, name))
    return found


@dataclass(frozen=True, eq=False)
class _Rewritten:
    """A function of a position with other callbacks."""

    function: Callable[[Any], Any]
    run: str
    name: str

    def __call__(self, position: Any) -> Any:
        """Trace the function, and do what it does, but for the callbacks; where nothing is traced, call it."""
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(position)):
            return self.function(position)
        traced, shape = jax.make_jaxpr(self.function, return_shape=True)(position)
        jaxpr = self._other(traced.jaxpr, self.name)
        outputs = jax.core.eval_jaxpr(jaxpr, traced.consts, *jax.tree.leaves(position))
        return jax.tree.unflatten(jax.tree.structure(shape), outputs)

    def _other(self, part: Any, place: str) -> Any:
        """Return the same with other callbacks: a program, or what may hold programs."""
        if type(part) is tuple:
            return tuple(self._other(inner, f"{place}.{i}") for i, inner in enumerate(part))
        if isinstance(part, ClosedJaxpr):
            return part.replace(jaxpr=self._other(part.jaxpr, place))  # type: ignore[no-untyped-call]
        if not isinstance(part, Jaxpr) or not _calls(part):
            return part
        equations = [other for i, e in enumerate(part.eqns) for other in self._other_equations(e, f"{place}.{i}")]
        return part.replace(eqns=equations)  # type: ignore[no-untyped-call]

    def _other_equations(self, equation: JaxprEqn, place: str) -> list[Any]:
        inner = {name: self._other(part, f"{place}.{name}") for name, part in equation.params.items()}
        if not _is_callback(equation):
            return [equation.replace(params=inner)]
        before = [_as_bits(variable) for variable in equation.invars]
        after = [_from_bits(variable) for variable in equation.outvars]
        given, found = (tuple(part is not None for part in parts) for parts in (before, after))
        inner["callback"] = Kept(InDoublePrecision(equation.params["callback"], given, found), self.run, place)
        avals = zip(inner["result_avals"], after, strict=True)
        inner["result_avals"] = tuple(aval if part is None else part.invars[0].aval for aval, part in avals)
        other = equation.replace(
            params=inner,
            invars=[v if p is None else p.outvars[0] for v, p in zip(equation.invars, before, strict=True)],
            outvars=[v if p is None else p.invars[0] for v, p in zip(equation.outvars, after, strict=True)],
        )
        return [*filter(None, before), other, *filter(None, after)]


def _as_bits(variable: Any) -> Any:
    """Return the equation that turns a variable of double precision into its bits; None for others."""
    if variable.aval.dtype != np.float64:
        return None
    return _converting(variable.aval.shape, np.float64, np.uint32).replace(invars=[variable])


def _from_bits(variable: Any) -> Any:
    """Return the equation that makes a variable of double precision from its bits; None for others."""
    if variable.aval.dtype != np.float64:
        return None
    return _converting((*variable.aval.shape, 2), np.uint32, np.float64).replace(outvars=[variable])


def _converting(shape: tuple[int, ...], one: type[np.generic], two: type[np.generic]) -> Any:
    like = jax.ShapeDtypeStruct(shape, one)  # type: ignore[no-untyped-call]
    return jax.make_jaxpr(lambda x: jax.lax.bitcast_convert_type(x, two))(like).jaxpr.eqns[0]


@dataclass(frozen=True)
class InDoublePrecision:
    """A callback that is called in double precision, and whose answers are plain arrays.

    Parameters
    ----------
    callback : callable
        As JAX has it.
    given, found : tuple of bool
        Which arguments and which answers pass as bits.
    """

    callback: Callable[..., Any]
    given: tuple[bool, ...]
    found: tuple[bool, ...]

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Call back."""
        with jax.enable_x64(True):
            whole = [
                jax.numpy.asarray(np.asarray(argument).view(np.float64)[..., 0]) if is_bits else argument
                for argument, is_bits in zip(arguments, self.given, strict=True)
            ]
            _watched.n_calls += 1
            try:
                answers = [np.asarray(part) for part in self.callback(*whole)]
            except (Exception, SystemExit) as error:
                lane, position = self._at_fault(whole)
                _watched.failure = Failure(error, position, _watched.n_calls - 1 if lane is None else lane)
                raise
        return tuple(
            np.asarray(answer, np.float64, order="C")[..., None].view(np.uint32) if is_bits else answer
            for answer, is_bits in zip(answers, self.found, strict=True)
        )

    def _at_fault(self, arguments: Sequence[Any]) -> tuple[int | None, Any]:
        """Return the position of a call; where there were many, that of the first which fails by itself, and which."""
        arrays = [np.asarray(argument) for argument in arguments]
        if getattr(self.callback, "callback_func", None).__module__ != batched.__name__:
            return None, arrays[0]
        for i in range(len(arrays[0])):
            try:
                self.callback(*(array[i : i + 1] for array in arrays))
            except (Exception, SystemExit):
                return i, batched.in_double(arrays[0][i])
        return 0, None


class Failure(NamedTuple):
    """A call back that has failed: JAX makes an error of its own of it, without the position."""

    error: BaseException
    position: Any
    place: int  # among the calls since they were counted, or among the positions of one call

    def lane(self, n: int) -> int:
        """Return which of ``n`` chains in lockstep it was: they call one after the other, each time all of them."""
        return self.place % n


@dataclass
class _Watched:
    """How many calls back there were since they were counted, and the last that has failed."""

    n_calls: int = 0
    failure: Failure | None = None


_watched = _Watched()


def count_calls() -> None:
    """Count calls back from here on."""
    _watched.n_calls, _watched.failure = 0, None


def failure() -> Failure | None:
    """Return the last call back that failed since they were counted."""
    return _watched.failure


@contextmanager
def telling_where() -> Iterator[None]:
    """Turn JAX's error about a function that it called back into one that says what was raised, and where."""
    count_calls()
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        failed = failure()
        if failed is None or "allback" not in str(error):
            raise
        what = f"{type(failed.error).__name__}: {failed.error}"
        raise FunctionError(what, None, failed.position) from failed.error


def _is_error(record: logging.LogRecord) -> bool:
    """Whether what JAX logs is one: that a callback was interrupted, or its block abandoned, is none."""
    return not record.exc_info or isinstance(record.exc_info[1], Exception)


logging.getLogger("jax._src.callback").addFilter(_is_error)  # in workers, too, to which functions come ready-made


def _is_callback(equation: JaxprEqn) -> bool:
    return bool(equation.primitive.name == "pure_callback")


def _calls(jaxpr: Jaxpr) -> bool:
    return any(_is_callback(e) or any(map(_calls, jaxprs_in_params(e.params))) for e in jaxpr.eqns)
