"""A reference as arrays of one shape, for code that is compiled once and run with any.

Components lie in groups. Arrays have room for as many groups as a fit may have; how many there are is a number among
them, and only so many are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tempering.kernels.vector import Draw, Leap
from tempering.path import factored, subspace
from tempering.path.factored import AnyReference, Factored
from tempering.path.reference import Reference

# Components that are evaluated together, up to so many dimensions: padding costs the more the larger they are. One
# core, 32 chains, two components: 128 dimensions 37 us in eights and 5 in pairs, 32 dimensions 2.4 and 1.0 in fours.
GROUPS = ((16, 8), (64, 4), (np.inf, 2))
ROOM, MOST_ENTRIES = (
    64,
    1 << 18,
)  # components there is room for, as long as their factors have no more entries than that
DIRECTIONS = 32  # of a subspace that there is room for
IN_COMMON = 1e-3  # of the longest part of a way between two summits: shorter parts are those of climbs that end nearby
# Pairs of degrees of freedom, from so many dimensions: a fit has up to 16 of these, or 64 and 256 where it has as many
# dimensions.
PAIRS = ((256, 128), (64, 32), (1, 8))


class Across(NamedTuple):
    """The subspace of a reference (`path.subspace.Subspace`); directions that there is only room for are zero."""

    centre: Any  # (d,)
    deviations: Any
    directions: Any  # (d, room)


class ReferenceArrays(NamedTuple):
    """What `Reference` computes with, the group in the leading axis of what its density takes.

    With a subspace d is not the dimension, but the number of its directions and one.
    """

    n_groups: Any  # with a component in them
    origin: Any  # (d,)
    whitening: Any  # (group, d, component x d): inverse factors side by side
    shift: Any  # (group, component x d)
    log_scales: Any  # (group, component): log of w_c t_c less its power of (freedom + distance); -inf for the padding
    freedom: Any  # likewise
    cumulative: Any  # (component,): weights summed; the last, and those of the padding, infinite
    means: Any  # (component, d)
    factors: Any
    pairs: Any  # (pair,): counts pairs of degrees of freedom
    across: Across | None = None
    summits: Any = None  # (summit, coordinate); none where a reference is not fitted
    n_summits: Any = None

    @property
    def dimension(self) -> int:
        """Number of coordinates of a vector."""
        return int((self.origin if self.across is None else self.across.centre).shape[0])


class FactoredArrays(NamedTuple):
    """What `Factored` computes with."""

    bends: factored.Bends
    follow: Any  # (d, d)
    log_heights: Any  # (d, component): minus infinity where there is only room
    cumulative: Any  # weights summed; the last is infinite
    means: Any
    deviations: Any
    centre: Any  # (d,)
    summits: Any
    n_summits: Any


Arrays = ReferenceArrays | FactoredArrays


def group_for(dimension: int) -> int:
    """Return how many components are evaluated together.

    Examples
    --------
    >>> [group_for(d) for d in (2, 16, 17, 100)]
    [8, 8, 4, 2]
    """
    return next(size for most, size in GROUPS if dimension <= most)


def room_for(n_components: int, dimension: int) -> int:
    """Return how many components arrays have room for: as many as a fit may have, unless they are large.

    Examples
    --------
    >>> [room_for(n, d) for n, d in ((3, 1), (40, 8), (80, 2), (3, 100), (20, 1000))]
    [64, 64, 128, 26, 32]
    """
    group = group_for(dimension)
    least = max(group, min(ROOM, MOST_ENTRIES // dimension**2 // group * group))
    return max(least, 1 << (n_components - 1).bit_length())


@lru_cache(maxsize=16)
def arrays_of(reference: AnyReference, *, is_fitted: bool = False) -> Arrays:
    """Return the arrays of a reference; one component alone has room for more only if fits of more are to come."""
    if isinstance(reference, Factored):
        return _factored(reference)
    across, means, factors, inverse = _with_room(reference)
    n, d = means.shape
    group = 1 if n == 1 and not is_fitted else group_for(d)
    more = 0 if group == 1 else room_for(n, d) - n

    def filled(rows: NDArray[np.floating[Any]], value: float) -> Any:
        return np.concatenate([rows, np.full((more, *rows.shape[1:]), value)])

    def grouped(rows: NDArray[np.floating[Any]], value: float) -> Any:
        return filled(rows, value).reshape(-1, group, *rows.shape[1:])

    inverse = grouped(inverse, 0.0)
    offset = grouped(means - means[0], 0.0)
    freedom = reference.degrees_of_freedom.astype(float)
    n_pairs = next(pairs for least, pairs in PAIRS if reference.dimension >= least)
    return ReferenceArrays(
        n_groups=np.int32(-(-n // group)),
        origin=means[0],
        whitening=inverse.reshape(len(inverse), -1, d).transpose(0, 2, 1),
        shift=np.einsum("gcij,gcj->gci", inverse, offset).reshape(len(inverse), -1),
        log_scales=grouped(reference.log_heights + 0.5 * (freedom + reference.dimension) * np.log(freedom), -np.inf),
        freedom=grouped(freedom, 1.0),
        cumulative=filled(np.append(np.cumsum(reference.weights)[:-1], np.inf), np.inf),
        means=filled(means, 0.0),
        factors=filled(factors, 0.0),
        pairs=np.arange(max(n_pairs, int(reference.degrees_of_freedom.max()) // 2), dtype=float),
        across=across,
        **(_summits_of(reference) if is_fitted else {}),
    )


def _factored(reference: Factored) -> FactoredArrays:
    cumulative = np.cumsum(reference.weights, axis=1)
    cumulative[:, -1] = np.inf
    return FactoredArrays(
        reference.bends,
        reference.follow,
        reference.log_heights,
        cumulative,
        reference.means,
        reference.deviations,
        reference.mixture.means[-1],
        **_summits_of(reference),
    )


def _summits_of(reference: AnyReference) -> dict[str, Any]:
    """Return the summits with room for as many as a search may find."""
    found = reference.summits[:ROOM]
    return {
        "summits": np.pad(found, ((0, ROOM - len(found)), (0, 0))),
        "n_summits": np.int32(len(found)),
    }


def _with_room(reference: Reference) -> tuple[Across | None, Any, Any, Any]:
    """Return the subspace with room for directions, and means, factors and their inverses in its coordinates."""
    spanned, means = reference.subspace, reference.means
    factors, inverse = reference.factors, reference.inverse_factors
    if spanned is None:
        return None, means, factors, inverse
    r = spanned.n_directions
    more = max(DIRECTIONS, r) - r
    directions = np.pad(spanned.directions, ((0, 0), (0, more)))
    own = np.append(np.arange(r), r + more)  # the distance is the last

    def widened(rows: NDArray[np.float64]) -> Any:
        wide = np.zeros((len(rows), *(r + more + 1,) * (rows.ndim - 1)))
        where: Any = (slice(None), *np.ix_(*(own,) * (rows.ndim - 1)))
        wide[where] = rows
        return wide

    across = Across(spanned.centre, spanned.deviations, directions)
    return across, widened(means), widened(factors), widened(inverse)


def log_density(arrays: Arrays, x: jax.Array) -> Any:
    """Return log q of one flat vector."""
    if isinstance(arrays, FactoredArrays):
        return _log_product(arrays, x)
    return _log_density(arrays, x if arrays.across is None else subspace.reduced(*arrays.across, x))


def _log_product(arrays: FactoredArrays, x: jax.Array) -> Any:
    z, log_volume = factored.straightened(arrays.bends, arrays.follow, x)
    log_parts = arrays.log_heights - 0.5 * ((z[:, None] - arrays.means) / arrays.deviations) ** 2
    return jnp.sum(jax.nn.logsumexp(log_parts, axis=-1)) + log_volume


@jax.custom_jvp
def _log_density(arrays: ReferenceArrays, x: jax.Array) -> Any:
    def add(i: int | jax.Array, found: tuple[jax.Array, ...]) -> Any:
        largest, total = found
        log_parts, _, _ = _group(arrays, i, x)
        top = jnp.maximum(largest, jnp.max(log_parts))
        return top, total * jnp.exp(largest - top) + jnp.sum(jnp.exp(log_parts - top))

    largest, total = _over_groups(arrays, add, (-jnp.inf, 0.0))
    return jnp.log(total) + largest


@_log_density.defjvp
def _log_density_and_slope(
    primals: tuple[ReferenceArrays, jax.Array], tangents: tuple[ReferenceArrays, jax.Array]
) -> tuple[Any, Any]:
    """Return log q and its change along a direction: a loop of unknown length has no derivative of its own."""
    arrays, x = primals

    def add(i: int | jax.Array, found: tuple[jax.Array, ...]) -> Any:
        largest, total, slope = found
        log_parts, z, pull = _group(arrays, i, x)
        top = jnp.maximum(largest, jnp.max(log_parts))
        parts, less = jnp.exp(log_parts - top), jnp.exp(largest - top)
        pulled = jnp.ravel((parts * pull)[:, None] * z)
        return top, total * less + jnp.sum(parts), slope * less - arrays.whitening[i] @ pulled

    largest, total, slope = _over_groups(arrays, add, (-jnp.inf, 0.0, jnp.zeros_like(x)))
    return jnp.log(total) + largest, slope / total @ tangents[1]


def _over_groups(arrays: ReferenceArrays, add: Callable[[Any, Any], Any], start: tuple[Any, ...]) -> Any:
    """Add up over the groups that have a component; one alone needs no loop."""
    if arrays.log_scales.shape[0] == 1:
        return add(0, start)
    return jax.lax.fori_loop(0, arrays.n_groups, add, start)


def _group(arrays: ReferenceArrays, i: int | jax.Array, x: jax.Array) -> tuple[Any, Any, Any]:
    """Return log of w_c t_c(x) of a group's components, the whitened vector, and how strongly each component pulls."""
    z = jnp.reshape((x - arrays.origin) @ arrays.whitening[i] - arrays.shift[i], (-1, x.size))
    power, base = arrays.freedom[i] + arrays.dimension, arrays.freedom[i] + jnp.sum(z**2, axis=-1)
    return arrays.log_scales[i] - 0.5 * power * jnp.log(base), z, power / base


def draws_of(references: Sequence[Arrays], first: int) -> list[Draw]:
    """Return the exact draws of references, terms from the first on: by one program, if all are in all coordinates."""
    mixtures = [arrays for arrays in references if isinstance(arrays, ReferenceArrays)]
    if len(mixtures) == len(references) and all(arrays.across is None for arrays in mixtures):
        return [draw_of(mixtures, first)] if mixtures else []
    return [
        _draw_of_product(arrays, first + i) if isinstance(arrays, FactoredArrays) else draw_of([arrays], first + i)
        for i, arrays in enumerate(references)
    ]


def _draw_of_product(arrays: FactoredArrays, first: int) -> Draw:
    """Return the exact draw of a product: a uniform number of each coordinate chooses its component."""
    d, most = arrays.means.shape

    def position(_: jax.Array, source: jax.Array, normals: jax.Array, uniforms: jax.Array) -> Any:
        chosen = jnp.sum(uniforms[:d, None] >= arrays.cumulative, axis=-1)
        is_own = chosen[:, None] == jnp.arange(most)
        mean, deviation = (jnp.sum(jnp.where(is_own, part, 0.0), axis=-1) for part in (arrays.means, arrays.deviations))
        return factored.bent(arrays.bends, arrays.follow, mean + deviation * normals[:d])

    return Draw(position, first, d, d, leap_of(arrays), centre=arrays.centre)


def draw_of(references: Sequence[ReferenceArrays], first: int) -> Draw:
    """Return the exact draw of whichever reference is the source: a uniform number for the component comes first."""
    d, across = references[0].dimension, references[0].across
    n_pairs = max(arrays.pairs.shape[0] for arrays in references)

    def position(_: jax.Array, source: jax.Array, normals: jax.Array, uniforms: jax.Array) -> Any:
        mean, factor, freedom = _component(references[0], uniforms[0])
        for i, arrays in enumerate(references[1:], first + 1):
            parts = zip(_component(arrays, uniforms[0]), (mean, factor, freedom), strict=True)
            mean, factor, freedom = (jnp.where(source == i, new, old) for new, old in parts)
        # a chi-square number: minus twice the log of a uniform one for each pair of degrees of freedom; one log for all
        pairs = jnp.where(jnp.arange(n_pairs) < jnp.floor(freedom / 2), 1.0 - uniforms[1 : 1 + n_pairs], 1.0)
        chi_square = -2.0 * jnp.log(jnp.prod(pairs)) + jnp.where(freedom % 2 == 1, normals[d] ** 2, 0.0)
        stretch = jnp.sqrt(freedom / chi_square)
        if across is None:
            return mean + stretch * (factor @ normals[:d])
        return subspace.placed(*across, mean, factor[:-1, :-1], factor[-1, -1], stretch * normals[:d])

    leaps = [leap_of(arrays) for arrays in references if arrays.summits is not None]
    centre = references[0].origin if across is None else across.centre
    return Draw(position, first, d + 1, 1 + n_pairs, leaps[0] if leaps else None, centre=centre)


def _component(arrays: ReferenceArrays, uniform: jax.Array) -> tuple[Any, Any, Any]:
    """Return mean, factor and degrees of freedom of the component that a uniform number chooses."""
    chosen = jnp.sum(uniform >= arrays.cumulative)
    return arrays.means[chosen], arrays.factors[chosen], jnp.ravel(arrays.freedom)[chosen]


def leap_of(arrays: Arrays) -> Leap:
    """Return leaps between two summits, each as likely as its opposite.

    All coordinates go the way from one to the other; or, as often, about a half of those in which the two differ,
    a quarter, ... or about one, whichever: where coordinates are independent, few modes lead to all. Of such a part
    each goes the way that leads over the middle between its two summits, or stays if neither does: its opposite then is
    what the same summits and coordinates lead to from there.
    """

    def place(x: jax.Array, chosen: jax.Array, numbers: jax.Array) -> Any:
        ends = jnp.minimum((chosen[:2] * arrays.n_summits).astype(jnp.int32), arrays.n_summits - 1)
        first, last = arrays.summits[ends[0]], arrays.summits[ends[1]]
        way, length = last - first, jnp.abs(last - first)
        differs = length > IN_COMMON * jnp.max(length)
        halvings = 1.0 + jnp.ceil(jnp.log2(jnp.maximum(jnp.sum(differs), 1)))
        share = jnp.exp2(-jnp.floor(halvings * chosen[2]))
        numbers = jnp.where(differs, numbers[: way.size], 2.0)
        leaps = (numbers < share) | (numbers == jnp.min(numbers))  # one at the least
        beyond = (x - 0.5 * (first + last)) * way  # above 0 on the last one's side
        there = x - jnp.sign(beyond) * way
        crosses = leaps & ((there - 0.5 * (first + last)) * way * beyond < 0.0)
        return jnp.where(share == 1.0, x + way, jnp.where(crosses, there, x))

    return Leap(place, arrays.n_summits > 1)
