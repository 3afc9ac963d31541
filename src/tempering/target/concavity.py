"""Whether a log density is concave, by a proof from its operations: then it has one summit, and no other can be missed.

Every number that JAX has traced is affine in the position, convex, concave, or unknown, by the rules of disciplined
convex programming (Grant, Boyd and Ye 2006); and numbers above 0 may have a convex or a concave logarithm, as sums of
exponentials have. Linear predictors with normal priors and a logistic, Poisson or normal likelihood of known variance
are proven so. What no rule speaks of is unknown, and nothing is said of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

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
    value: float | None = None  # of a constant that is one number everywhere; 1 and 0 for true and false
    made: Made | None = field(default=None, compare=False, repr=False)

    @property
    def plain(self) -> str:
        """How the numbers themselves bend; a number whose logarithm is convex is convex."""
        return {LOG_CONVEX: CONVEX, LOG_CONCAVE: UNKNOWN}.get(self.bend, self.bend)


class Made(NamedTuple):
    """The operation that some numbers are results of, place by place, and what it was given."""

    by: str
    of: tuple[Shape, ...]


NOTHING = Shape(UNKNOWN)
BY_PLACE = ("exp", "log1p", "neg", "abs", "max", "add", "lt", "select_n", "logistic")  # that are remembered
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
# Where the pieces of a soft plus may end, so that each is it to rounding: e^x, log(1 + e^x), x + e^-x.
MUCH_BELOW = (-np.inf, -30.0)
BEYOND = {("exp",): (15.0, 700.0), ("log1p", "exp"): (30.0, np.inf)}
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
        name, given = equation.primitive.name, [of(variable) for variable in equation.invars]
        found = _of_operation(equation, given)
        if name not in CALLS:  # which return numbers that were made within
            made = Made(name, tuple(given)) if name in BY_PLACE else None
            found = [replace(shape, made=made) for shape in found]
        known.update(zip(equation.outvars, found, strict=True))
    return [of(variable) for variable in jaxpr.outvars]


def _of_value(value: Any) -> Shape:
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError):
        return NOTHING
    one = float(numbers.flat[0]) if numbers.size and np.all(numbers == numbers.flat[0]) else None
    return Shape(CONSTANT, 1 if np.all(numbers >= 0) else -1 if np.all(numbers <= 0) else 0, one)


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
        value = given[0].value if given[0].value in (0.0, 1.0) else None
        return [Shape(CONSTANT, 0, value) if given[0].bend == CONSTANT else NOTHING]  # rounding bends
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
        return Shape(bends.pop(), sign, parts[0].value if len({part.value for part in parts}) == 1 else None)
    plain = {part.plain for part in parts} - {CONSTANT, AFFINE}
    return Shape(plain.pop() if len(plain) == 1 else UNKNOWN if plain else AFFINE, sign)


def _sum(*parts: Shape) -> Shape:
    sign = _joined(*parts).sign
    is_above = all(part.bend == LOG_CONVEX or (part.bend == CONSTANT and part.sign > 0) for part in parts)
    if is_above and any(part.bend == LOG_CONVEX for part in parts):
        return Shape(LOG_CONVEX, 1)
    return replace(_joined(*(replace(part, bend=part.plain) for part in parts)), sign=sign, value=None)


def _added(one: Shape, other: Shape) -> Shape:
    """Return what is known of a sum; log(1 + e^x) is often written as max(x, 0) + log(1 + e^-|x|)."""
    for tail, part in ((one, other), (other, one)):
        inner = _within(tail, "log1p", "exp", "neg", "abs")
        if inner is not None and part.made is not None and part.made.by == "max":
            at, least = sorted(part.made.of, key=lambda shape: shape is not inner)
            if at is inner and least.value == 0.0:
                return _soft_plus(inner)
    return _sum(one, other)


def _within(part: Shape, *names: str) -> Shape | None:
    """Return what operations of these names, the last first, have made some numbers of."""
    for name in names:
        if part.made is None or part.made.by != name:
            return None
        part = part.made.of[0]
    return part


def _soft_plus(part: Shape) -> Shape:
    return Shape({CONSTANT: CONSTANT, AFFINE: CONVEX, CONVEX: CONVEX}.get(part.plain, UNKNOWN), 1)


def _negated(part: Shape) -> Shape:
    return Shape(OPPOSITE.get(part.plain, UNKNOWN), -part.sign)


def _product(one: Shape, other: Shape) -> Shape:
    if one.bend != CONSTANT:
        one, other = other, one
    sign = one.sign * other.sign
    if one.bend == CONSTANT:
        if other.bend == CONSTANT and 0.0 in (one.value, other.value):
            return Shape(CONSTANT, 0, 0.0)
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
    inner = _within(part, "exp")
    if inner is not None:
        return inner
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
    if which.value is not None:
        return cases[int(which.value)]
    return _joined(*cases) if which.bend == CONSTANT else _soft_plus_by_pieces(which, *cases)


def _soft_plus_by_pieces(which: Shape, *cases: Shape) -> Shape:
    """Return what is known of log(1 + e^x) as PyTensor writes it: e^x, log(1 + e^x), x + e^-x, x, for x that rises.

    Where one piece follows on another they differ by rounding: the ends of each are looked at.
    """
    at, otherwise = _below(which, MUCH_BELOW), cases
    for pieces in (("exp",), ("log1p", "exp")):
        if at is None or len(otherwise) != 2 or _within(otherwise[1], *pieces) is not at:
            return NOTHING
        made = otherwise[0].made
        if made is None or made.by != "select_n":
            return NOTHING
        which, *rest = made.of
        otherwise = tuple(rest)
        if _below(which, BEYOND[pieces]) is not at:
            return NOTHING
    sums = otherwise[1].made
    is_sum = sums is not None and sums.by == "add" and sums.of[0] is at and _within(sums.of[1], "exp", "neg") is at
    return _soft_plus(at) if is_sum and otherwise[0] is at and at is not None else NOTHING


def _below(which: Shape, range_: tuple[float, float]) -> Shape | None:
    """Return what numbers are compared with a constant in some range, which they are below."""
    if which.made is None or which.made.by != "lt":
        return None
    part, end = which.made.of
    return part if end.value is not None and range_[0] <= end.value <= range_[1] else None


def _comparison(name: str) -> Rule:
    """Return the rule of a comparison: true or false where it is so whatever the position."""

    def rule(one: Shape, other: Shape) -> Shape:
        if one.bend == CONSTANT and other.bend == CONSTANT:
            known = one.value is not None and other.value is not None
            return Shape(CONSTANT, 0, float(COMPARED[name](one.value, other.value)) if known else None)
        if one is other and one.bend in (AFFINE, LOG_CONVEX, LOG_CONCAVE) and name in ("eq", "ne"):  # no NaN
            return Shape(CONSTANT, 0, float(name == "eq"))
        if other.value is None:
            return NOTHING
        found = {bool(COMPARED[name](x, other.value)) for x in _extremes(one, other.value)}
        return Shape(CONSTANT, 0, float(found.pop())) if len(found) == 1 else NOTHING

    return rule


def _extremes(part: Shape, end: float) -> tuple[float, ...]:
    """Return numbers that stand for all that these may be, to be compared with an ``end``; below, at, and above it."""
    least, most = -np.inf, np.inf
    if part.sign > 0:
        least = np.nextafter(0.0, 1.0) if part.bend in (LOG_CONVEX, LOG_CONCAVE) else 0.0
    if part.sign < 0:
        most = 0.0
    if _within(part, "logistic") is not None:
        most = 1.0
    if np.isinf(end):  # an affine function has no infinite value; of others nothing is said
        return (0.0,) if part.bend == AFFINE else (-np.inf, 0.0, np.inf)
    return tuple(float(np.clip(x, least, most)) for x in (np.nextafter(end, -np.inf), end, np.nextafter(end, np.inf)))


def _is_finite(part: Shape) -> Shape:
    if part.bend == AFFINE:
        return Shape(CONSTANT, 0, 1.0)
    value = None if part.value is None else float(np.isfinite(part.value))
    return Shape(CONSTANT, 0, value) if part.bend == CONSTANT else NOTHING


def _all(*parts: Shape) -> Shape:
    """Return what is known of whether all are true."""
    if any(part.bend != CONSTANT for part in parts):
        return NOTHING
    values = {part.value for part in parts}
    return Shape(CONSTANT, 0, 0.0 if 0.0 in values else 1.0 if values == {1.0} else None)


def _first(part: Shape, *others: Shape) -> Shape:
    """Return what holds of numbers that are moved about, by others that are constant."""
    return part if all(other.bend == CONSTANT for other in others) else NOTHING


OF_JAX: dict[str, Rule] = {
    "logaddexp": _rising_convex,
    "log_softmax": _log_share,
    "log_ndtr": _log_probability,
    "xlogy": lambda one, other: _product(one, _logarithm(other)),
}
RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "add_any"), _added),
    **dict.fromkeys(("reduce_sum", "cumsum"), _sum),
    **{name: _comparison(name) for name in COMPARED},
    **dict.fromkeys(("and", "reduce_and"), _all),
    "is_finite": _is_finite,
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
