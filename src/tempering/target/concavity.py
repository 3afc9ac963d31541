"""Whether a log density is concave, by a proof from its operations: then it has one summit, and no other can be missed.

Every number that JAX has traced is affine in the position, convex, concave, or unknown, by the rules of disciplined
convex programming (Grant, Boyd and Ye 2006); and numbers above 0 may have a convex or a concave logarithm, as sums of
exponentials have. Linear predictors with normal priors and a logistic, Poisson or normal likelihood of known variance
are proven so. What no rule speaks of is unknown, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tempering.target.layout import Layout
from tempering.target.target import Target

CONSTANT, AFFINE, CONVEX, CONCAVE, UNKNOWN = "constant", "affine", "convex", "concave", "unknown"
LOG_CONVEX, LOG_CONCAVE = "log convex", "log concave"  # of numbers above 0: so are their logarithms
OPPOSITE = {CONVEX: CONCAVE, CONCAVE: CONVEX, CONSTANT: CONSTANT, AFFINE: AFFINE}


@dataclass(frozen=True)
class Shape:
    """What is known of all numbers of an array, as functions of the position: how they bend, and their sign."""

    bend: str
    sign: int = 0  # 1: none is below 0; -1: none above

    @property
    def plain(self) -> str:
        """How the numbers themselves bend; a number whose logarithm is convex is convex."""
        return {LOG_CONVEX: CONVEX, LOG_CONCAVE: UNKNOWN}.get(self.bend, self.bend)


NOTHING = Shape(UNKNOWN)
CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint")
Rule = Callable[..., Shape]


@lru_cache(maxsize=64)
def is_log_concave(target: Target, layout: Layout) -> bool:
    """Whether the log density of a target is proven to be concave."""
    import jax

    parts = [function for function in (target.energy, target.base) if function is not None]
    with jax.enable_x64(True):
        try:
            bends = [bend_of(jax.make_jaxpr(layout.on_flat(part))(np.zeros(layout.size))) for part in parts]
        except Exception:  # JAX cannot trace it, or traces it in a way that is not known here: nothing is proven
            return False
    return all(bend in (CONCAVE, AFFINE, CONSTANT) for bend in bends)


def bend_of(traced: Any) -> str:
    """Return how the one number bends that a traced function of one vector returns."""
    (found,) = _followed(traced.jaxpr, [_of_value(value) for value in traced.consts], [Shape(AFFINE)])
    return found.plain


def _followed(jaxpr: Any, consts: Sequence[Shape], arguments: Sequence[Shape]) -> list[Shape]:
    """Return what is known of the results of a program, operation by operation."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

    def of(variable: Any) -> Shape:
        return _of_value(variable.val) if hasattr(variable, "val") else known[variable]

    for equation in jaxpr.eqns:
        found = _of_operation(equation, [of(variable) for variable in equation.invars])
        known.update(zip(equation.outvars, found, strict=True))
    return [of(variable) for variable in jaxpr.outvars]


def _of_value(value: Any) -> Shape:
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError):
        return NOTHING
    return Shape(CONSTANT, 1 if np.all(numbers >= 0) else -1 if np.all(numbers <= 0) else 0)


def _of_operation(equation: Any, given: list[Shape]) -> list[Shape]:
    """Return what is known of the results of one operation."""
    name, n = equation.primitive.name, len(equation.outvars)
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    known = None if inner is None else OF_JAX.get(_source(inner).partition(" at ")[0])
    if known is not None:
        return [known(*given)] if n == 1 else [NOTHING] * n
    if name in CALLS and inner is not None:
        consts = [_of_value(value) for value in getattr(inner, "consts", ())]
        return _followed(getattr(inner, "jaxpr", inner), consts, given)
    if name == "integer_pow":
        return [_power(given[0], equation.params["y"])]
    if name == "convert_element_type" and not np.issubdtype(equation.params["new_dtype"], np.floating):
        return [Shape(CONSTANT) if given[0].bend == CONSTANT else NOTHING]  # rounding bends
    if name in ("mul", "dot_general") and equation.invars[0] is equation.invars[1] and _is_by_place(equation):
        square = _power(given[0], 2)
        return [square if name == "mul" else _sum(square)]
    if name in RULES:
        return [RULES[name](*given)]
    is_constant = all(shape.bend == CONSTANT for shape in given)
    return [Shape(CONSTANT) if is_constant else NOTHING] * n


def _is_by_place(equation: Any) -> bool:
    """Whether numbers are multiplied by those in the same place: of arrays, or of two vectors to one number."""
    of_vectors = equation.invars[0].aval.ndim == 1 and equation.outvars[0].aval.ndim == 0
    return bool(equation.primitive.name == "mul" or of_vectors)


def _source(inner: Any) -> str:
    """Return the name of a function and the file of JAX's that it is from; an empty text for anyone else's."""
    source = str(getattr(getattr(inner, "jaxpr", inner).debug_info, "func_src_info", ""))
    return source if "/jax/_src/" in source.replace("\\", "/") else ""


def _joined(*parts: Shape) -> Shape:
    """Return what holds of arrays put together."""
    bends = {part.bend for part in parts}
    sign = parts[0].sign if len({part.sign for part in parts}) == 1 else 0
    if len(bends) == 1:
        return Shape(bends.pop(), sign)
    plain = {part.plain for part in parts} - {CONSTANT, AFFINE}
    return Shape(plain.pop() if len(plain) == 1 else UNKNOWN if plain else AFFINE, sign)


def _sum(*parts: Shape) -> Shape:
    sign = _joined(*parts).sign
    is_above = all(part.bend == LOG_CONVEX or (part.bend == CONSTANT and part.sign > 0) for part in parts)
    if is_above and any(part.bend == LOG_CONVEX for part in parts):
        return Shape(LOG_CONVEX, 1)
    return replace(_joined(*(replace(part, bend=part.plain) for part in parts)), sign=sign)


def _negated(part: Shape) -> Shape:
    return Shape(OPPOSITE.get(part.plain, UNKNOWN), -part.sign)


def _product(one: Shape, other: Shape) -> Shape:
    if one.bend != CONSTANT:
        one, other = other, one
    sign = one.sign * other.sign
    if one.bend == CONSTANT:
        if other.bend in (CONSTANT, AFFINE):
            return Shape(other.bend, sign)
        if one.sign == 0:
            return NOTHING
        return replace(other, sign=sign) if one.sign > 0 else _negated(other)
    is_same = one.bend == other.bend and one.bend in (LOG_CONVEX, LOG_CONCAVE)
    return Shape(one.bend, 1) if is_same else Shape(UNKNOWN, sign)


def _product_of_matrices(one: Shape, other: Shape) -> Shape:
    """Return what is known of sums of products: of numbers whose logarithms are concave these need not be."""
    found = _product(one, other)
    return Shape(UNKNOWN, found.sign) if found.bend == LOG_CONCAVE else found


def _quotient(one: Shape, other: Shape) -> Shape:
    return _product(one, other) if other.bend == CONSTANT else NOTHING


def _exponential(part: Shape) -> Shape:
    return Shape(
        {CONSTANT: CONSTANT, AFFINE: LOG_CONVEX, CONVEX: LOG_CONVEX, CONCAVE: LOG_CONCAVE}.get(part.plain, UNKNOWN), 1
    )


def _logistic(part: Shape) -> Shape:
    bends = {CONSTANT: CONSTANT, AFFINE: LOG_CONCAVE, CONCAVE: LOG_CONCAVE}
    return Shape(bends.get(part.plain, UNKNOWN), 1)


def _logarithm(part: Shape) -> Shape:
    bends = {CONSTANT: CONSTANT, LOG_CONVEX: CONVEX, LOG_CONCAVE: CONCAVE, AFFINE: CONCAVE, CONCAVE: CONCAVE}
    return Shape(bends.get(part.bend, UNKNOWN))


def _logarithm_of_one_more(part: Shape) -> Shape:
    return _logarithm(_sum(part, Shape(CONSTANT, 1)))


def _rising_convex(*parts: Shape) -> Shape:
    """Return what is known of the larger of some numbers, or of the logarithm of the sum of their exponentials."""
    bends = {part.plain for part in parts}
    if bends == {CONSTANT}:
        return Shape(CONSTANT)
    return Shape(CONVEX if bends <= {CONSTANT, AFFINE, CONVEX} else UNKNOWN)


def _log_share(part: Shape, *others: Shape) -> Shape:
    """Return what is known of numbers less the logarithm of the sum of their exponentials."""
    return Shape({CONSTANT: CONSTANT, AFFINE: CONCAVE}.get(part.plain, UNKNOWN) if not others else UNKNOWN, -1)


def _log_probability(part: Shape) -> Shape:
    """Return what is known of the logarithm of a normal distribution function, which is concave and rises."""
    return Shape({CONSTANT: CONSTANT, AFFINE: CONCAVE, CONCAVE: CONCAVE}.get(part.plain, UNKNOWN), -1)


def _smaller(*parts: Shape) -> Shape:
    return _negated(_rising_convex(*map(_negated, parts)))


def _power(part: Shape, power: int) -> Shape:
    if part.bend in (CONSTANT, LOG_CONVEX, LOG_CONCAVE) and power > 0:
        return Shape(part.bend, 1 if power % 2 == 0 else part.sign)
    if power == 1:
        return part
    is_bowl = (
        part.plain == AFFINE or (part.plain == CONVEX and part.sign > 0) or (part.plain == CONCAVE and part.sign < 0)
    )
    return Shape(CONVEX if is_bowl else UNKNOWN, 1) if power > 0 and power % 2 == 0 else NOTHING


def _absolute(part: Shape) -> Shape:
    return Shape(_power(part, 2).plain, 1)


def _chosen(which: Shape, *cases: Shape) -> Shape:
    return _joined(*cases) if which.bend == CONSTANT else NOTHING


def _first(part: Shape, *others: Shape) -> Shape:
    """Return what holds of numbers that are moved about, by others that are constant."""
    return part if all(other.bend == CONSTANT for other in others) else NOTHING


OF_JAX: dict[str, Rule] = {"logaddexp": _rising_convex, "log_softmax": _log_share, "log_ndtr": _log_probability}
RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "add_any", "reduce_sum", "cumsum"), _sum),
    "sub": lambda one, other: _sum(one, _negated(other)),
    "neg": _negated,
    "mul": _product,
    "dot_general": _product_of_matrices,
    "div": _quotient,
    "exp": _exponential,
    "exp2": _exponential,
    "logistic": _logistic,
    "log": _logarithm,
    "log1p": _logarithm_of_one_more,
    **dict.fromkeys(("max", "reduce_max"), _rising_convex),
    **dict.fromkeys(("min", "reduce_min"), _smaller),
    "square": lambda part: _power(part, 2),
    "abs": _absolute,
    "select_n": _chosen,
    "concatenate": _joined,
    **dict.fromkeys(
        ("broadcast_in_dim", "reshape", "squeeze", "transpose", "slice", "rev", "copy", "copy_p", "expand_dims",
         "convert_element_type", "gather", "dynamic_slice"),
        _first,
    ),
}  # fmt: skip
