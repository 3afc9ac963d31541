"""What a round teaches about the quick leg's mixture: refit it, or begin anew, and never lose a known mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tempering.errors import EstimatorError
from tempering.learning.limits import DRAWS_OF_A_FIT, DRAWS_PER_COORDINATE
from tempering.learning.reference.covariances import best_rank, with_rank
from tempering.learning.reference.fitted import MISSED
from tempering.learning.reference.from_draws import SIZES, Split, best_of_clusters
from tempering.learning.reference.modes import Mode
from tempering.learning.reference.product import best_product
from tempering.learning.reference.refit import LEAST_WEIGHT, assemble, factors_of, refit_reference
from tempering.learning.reference.search import WORTH, assembled
from tempering.learning.reference.spanned import Spanned, in_a_subspace
from tempering.path.factored import AnyReference, Factored
from tempering.path.reference import Reference

Floats = NDArray[np.float64]

BETTER = 0.25  # nats that the first product must be worth: it is another program to compile
LEAST_OF_A_PRODUCT = 3  # dimensions: in fewer a mixture has components enough for any shape


def learnt_reference(
    values: Floats,
    log_weights: Floats,
    old: AnyReference,
    modes: Sequence[Mode],
    log_normaliser: float,
    rng: np.random.Generator,
    *,
    may_be_product: bool = False,
) -> AnyReference:
    """Return the mixture, or the product, under which draws that were not fitted to are most likely.

    Parameters
    ----------
    values : ndarray, shape (draw, d)
        Ordered so that the first half of them comes from other chains than the second.
    log_weights : ndarray, shape (draw,)
        Log weight of every draw towards what is to be described.
    old : Reference
        The last one, to be refitted.
    modes : sequence of Mode
        Summits that were climbed to. Those that a mixture misses get a component of their own.
    log_normaliser : float
        Log of the integral of the density that the modes' heights are of.
    rng : Generator
    may_be_product : bool
        Whether a product is tried, too.
    """

    def complete(reference: Reference) -> Reference:
        return with_missed(reference, modes, log_normaliser)

    d = values.shape[1]
    split = Split.thinned(values, log_weights, max(DRAWS_OF_A_FIT, DRAWS_PER_COORDINATE * d), rng)
    mixture = replace(_likeliest(split, complete(old.mixture), modes, complete, rng), summits=_summits(modes))
    if not may_be_product or d < LEAST_OF_A_PRODUCT or len(split.values) < 2 * d + 2:
        return mixture
    try:
        better = 0.0 if isinstance(old, Factored) else BETTER
        product = best_product(split, mixture, split.log_likelihood(mixture) + better)
    except np.linalg.LinAlgError:  # draws that hardly differ
        return mixture
    return mixture if product is None or _missed(product, modes, log_normaliser).size else product


def learnt_in_a_subspace(
    values: Floats,
    log_weights: Floats,
    old: Reference,
    modes: Sequence[Mode],
    log_normaliser: float,
    rng: np.random.Generator,
) -> tuple[Reference, Spanned | None]:
    """Return the mixture in more than `DENSE_UP_TO` dimensions, as `learnt_reference` does in fewer.

    Beside it, if it is of these draws alone, how it describes others.
    """
    spanned = in_a_subspace(values, log_weights, modes, rng)
    fitted = old if spanned is None else spanned.mixture
    complete = with_missed(fitted, modes, log_normaliser)
    return replace(complete, summits=_summits(modes)), spanned if complete is fitted else None


def _summits(modes: Sequence[Mode]) -> Floats:
    return np.array([mode.position for mode in modes])


def _likeliest(
    split: Split,
    begun: Reference,
    modes: Sequence[Mode],
    complete: Callable[[Reference], Reference],
    rng: np.random.Generator,
) -> Reference:
    """Return the likeliest of some mixtures: the last one, that one refitted, a new one, and the modes alone."""
    if len(split.values) < 2 * split.values.shape[1] + 2:
        return begun
    climbed = [assembled(modes[: SIZES[-1]])] if modes else []  # few draws may know less of a mode than its curvature
    try:
        candidates = [begun, refit_reference(begun, *split.fitting), best_of_clusters(split, rng), *climbed]
    except (EstimatorError, np.linalg.LinAlgError):  # draws that hardly differ: what is known stays
        return begun
    best = max(candidates, key=split.log_likelihood)
    if best in climbed:
        return best
    rank = best_rank(best, split)
    return complete(with_rank(refit_reference(best, split.values, split.log_weights), rank))


def with_missed(reference: Reference, modes: Sequence[Mode], log_normaliser: float) -> Reference:
    """Add components for the modes whose summits a reference misses, with their Laplace masses."""
    missing = _missed(reference, modes, log_normaliser)
    if missing.size == 0:
        return reference
    log_masses = np.array([mode.log_mass for mode in modes]) - log_normaliser
    order = missing[np.argsort(-log_masses[missing])][: SIZES[-1]]
    masses = np.clip(np.exp(np.minimum(log_masses[order], 0.0)), LEAST_WEIGHT, 1.0)
    room = max(SIZES[-1] - order.size, 0)
    kept = np.sort(np.argsort(-reference.weights[:-1], kind="stable")[:room])  # the lightest make way
    means, factors = _components([modes[i] for i in order], reference)
    more = assemble(
        np.log(np.append(reference.weights[kept], masses)),
        np.concatenate([reference.means[kept], means]),
        np.concatenate([reference.factors[kept], factors]),
        int(reference.degrees_of_freedom[0]),
        reference.n_across,
    )
    return replace(more, subspace=reference.subspace)


def _missed(reference: AnyReference, modes: Sequence[Mode], log_normaliser: float) -> NDArray[np.intp]:
    """Return which modes with mass have a summit that a reference misses."""
    if not modes:
        return np.empty(0, dtype=np.intp)
    summits = np.array([mode.position for mode in modes])
    log_ratio = np.array([mode.log_height for mode in modes]) - reference.log_density(summits) - log_normaliser
    log_masses = np.array([mode.log_mass for mode in modes]) - log_normaliser
    return np.flatnonzero((log_ratio > np.log(MISSED)) & (log_masses > -WORTH))


def _components(modes: Sequence[Mode], reference: Reference) -> tuple[Floats, Floats]:
    """Return means and factors of modes as a reference has them."""
    pairs = [(mode.position, mode.factor) for mode in modes]
    if reference.subspace is None:
        means, factors = zip(*pairs, strict=True)
        return np.array(means), np.array(factors)
    means, covariances = zip(*(reference.subspace.projected(*pair) for pair in pairs), strict=True)
    return np.array(means), factors_of(np.array(covariances), reference.n_across)
