"""One iteration at a fixed inverse temperature: every free value once, one jump for each parameter."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, ndtri, xlogy

from tempering.models.recapture.fits import Fits, shapes_of
from tempering.models.recapture.groups import Groups, groups
from tempering.models.recapture.jumps import Shapes, fitted_values, gaussian_values
from tempering.models.recapture.likelihood import PARAMETERS, Statistics, chi_part, direct_part
from tempering.models.recapture.partitions import PartitionTable
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.structure_moves import FLIP, Change, propose_change
from tempering.models.recapture.sweep import propose, sources, sweep_constant, sweep_timed

Array = Any

WIDTH = 4.2  # half-width of the uniform step in deviations: sd 2.4, the optimum of a random walk in one dimension
LARGEST_STEP = 0.5


class State(NamedTuple):
    """A model, its values and its log likelihood; the next step needs no more.

    ``partition`` (3,) indexes the age structures, ``timed`` (3, A) is kept by class, ``values`` (3, K, A).
    """

    partition: Array
    timed: Array
    values: Array
    log_likelihood: Array


class Info(NamedTuple):
    """What each jump did: its kind, whether its values came from the fitted laws, whether it was accepted."""

    kind: Array
    fitted: Array
    accepted: Array


class Parameter(NamedTuple):
    """All that concerns one parameter; with a leading axis, all that concerns several."""

    index: Array
    table: PartitionTable
    cells: Array
    held: Array
    shape: Array
    fits: Fits


@dataclass(frozen=True, eq=False)
class Kernel:
    """Moves over a model space; the data come with each call.

    Parameters
    ----------
    space : ModelSpace
        Structures and priors.
    cells, held : (3, K, A) booleans
        The cells whose values exist, and those held at 0 because the study cannot see the event.
    fits : Fits
        Laws of the values, for step sizes and fitted jumps.
    fitted_flips, fitted_splits : float
        How often a flip, and a split or merge, takes its values from the fitted laws rather than from Gaussian
        auxiliaries. On the synthetic set at k = 1 fitted flips are accepted 2 to 12 times as often as Gaussian
        ones, Gaussian splits up to 3 times as often as fitted ones.
    sigma : float
        Deviation of the Gaussian auxiliaries at k = 1; it grows as k^(-1/2) up to 1/2.
    """

    space: ModelSpace
    cells: Any
    held: Any
    fits: Fits
    fitted_flips: float = 0.9
    fitted_splits: float = 0.3
    sigma: float = 0.06

    @cached_property
    def shapes(self) -> Any:
        """(a, b) of the Beta priors, (3, 2)."""
        return np.array([self.space.shape(name) for name in PARAMETERS], float)

    @cached_property
    def is_flat(self) -> bool:
        """Whether every value has the uniform prior, so that its density need not be computed."""
        return bool((self.shapes == 1.0).all())

    def parameter(self, q: int) -> Parameter:
        """Return what concerns parameter ``q``."""
        fits = Fits(self.fits.timed[:, q], self.fits.constant[:, q])
        table = self.space.table(PARAMETERS[q])
        return Parameter(np.asarray(q), table, self.cells[q], self.held[q], self.shapes[q], fits)

    def groups(self, q: int, partition: Array, timed: Array) -> Groups:
        """Return the groups of parameter ``q``."""
        return groups(self.space.table(PARAMETERS[q]), partition, timed, jnp.asarray(self.cells[q]))

    def step(self, key: Array, data: Statistics, state: State, k: Array) -> tuple[State, Info]:
        """Move once, leaving prior x likelihood^k invariant."""
        data = Statistics(*map(jnp.asarray, data))
        size = state.values.size
        jumping = [q for q in range(3) if self.space.space(PARAMETERS[q]).count > 1]
        jump_size = 4 + self.cells.shape[1] * (1 + self.cells.shape[2])
        # one flat draw: generators compile slowly, and are fused into each of their users if not barred
        uniform = jax.random.uniform(key, (2 * size + len(jumping) * jump_size,), state.values.dtype)
        uniform = jax.lax.optimization_barrier(uniform)  # type: ignore[no-untyped-call]
        values = self._sweep(uniform[: 2 * size].reshape(2, *state.values.shape), data, state, k)
        parts = jnp.append(direct_part(data, values), chi_part(data, values))
        start = (state._replace(values=values), parts)
        (now, parts), info = self._jumps(uniform[2 * size :].reshape(-1, jump_size), data, start, k, jumping)
        return now._replace(log_likelihood=parts.sum()), info

    def _jumps(
        self, uniform: Array, data: Statistics, start: tuple[State, Array], k: Array, jumping: list[int]
    ) -> tuple[tuple[State, Array], Info]:
        """Try one jump for each of the parameters ``jumping``, in turn; ``uniform`` has a row for each."""
        if not jumping:
            return start, Info(*(jnp.zeros(0, bool),) * 3)
        parameters = jax.tree.map(lambda *x: jnp.stack(x), *(self.parameter(q) for q in jumping))
        done: tuple[tuple[State, Array], Info] = jax.lax.scan(
            lambda carry, x: self.jump(x[0], data, x[1], carry, k), start, (uniform, parameters)
        )
        return done

    def _sweep(self, uniform: Array, data: Statistics, state: State, k: Array) -> Array:
        all_groups = [self.groups(q, state.partition[q], state.timed[q]) for q in range(3)]
        widths = jnp.stack([self._width(q, k, group) for q, group in enumerate(all_groups)])
        walk = propose(uniform, state.values, widths, all_groups)
        shapes = None if self.is_flat else jnp.asarray(self.shapes)
        src = sources(self.cells.any(axis=0))
        values = sweep_timed(data, src, shapes, k, state.values, walk, all_groups)
        return sweep_constant(data, self.held, shapes, k, values, walk, all_groups)

    def _width(self, q: int, k: Array, group: Groups) -> Array:
        fits = jax.tree.map(jnp.asarray, self.parameter(q).fits)
        a, b = shapes_of(fits, self.shapes[q], k, group)
        deviation = jnp.sqrt(a * b / (a + b + 1)) / (a + b)
        return jnp.minimum(WIDTH * deviation, LARGEST_STEP)

    def jump(
        self, uniform: Array, data: Statistics, parameter: Parameter, carry: tuple[State, Array], k: Array
    ) -> tuple[tuple[State, Array], Info]:
        """Try to change the structure of one parameter.

        ``carry`` is the state and the parts of its log likelihood: three direct ones, and that of chi.
        """
        state, parts = carry
        q, held = parameter.index, parameter.held
        change = propose_change(parameter.table, uniform[:2], state.partition[q], state.timed[q])
        fitted = uniform[2] < jnp.where(change.kind == FLIP, self.fitted_flips, self.fitted_splits)
        new, log_ratio = self._values(uniform[4:], parameter, k, state, change, fitted)
        allowed = change.possible & jnp.all(held | ((new > 0) & (new < 1)))
        new = jnp.where(held, 0.0, jnp.where(allowed, new, state.values[q]))
        values = state.values.at[q].set(new)
        new_part = jnp.sum(xlogy(data.ones[q], new) + xlogy(data.zeros[q], 1 - new))
        new_parts = parts.at[q].set(new_part).at[3].set(chi_part(data, values))
        gain = (new_parts[q] - parts[q]) + (new_parts[3] - parts[3])
        accepted = allowed & (jnp.log(uniform[3]) < k * gain + log_ratio)
        partition = state.partition.at[q].set(change.partition)
        proposal = State(partition, state.timed.at[q].set(change.timed), values, state.log_likelihood)
        carry = jax.tree.map(lambda x, y: jnp.where(accepted, x, y), (proposal, new_parts), carry)
        return carry, Info(change.kind, fitted, accepted)

    def _values(
        self, uniform: Array, parameter: Parameter, k: Array, state: State, change: Change, fitted: Array
    ) -> tuple[Array, Array]:
        """Return new values and all of the log ratio but the likelihood."""
        q, old = parameter.index, state.values[parameter.index]
        before = groups(parameter.table, state.partition[q], state.timed[q], parameter.cells)
        after = groups(parameter.table, change.partition, change.timed, parameter.cells)
        sigma = jnp.minimum(self.sigma / jnp.sqrt(k), LARGEST_STEP)
        noise = ndtri(uniform[: len(old)])
        gaussian = gaussian_values(noise, sigma, old, change, before, parameter.cells)
        shapes = [Shapes(*shapes_of(parameter.fits, parameter.shape, k, g)) for g in (before, after)]
        draws = uniform[len(old) :].reshape(old.shape)
        drawn = fitted_values(draws, old, change, before, after, *shapes)
        new, log_ratio = (jnp.where(fitted, x, y) for x, y in zip(drawn, gaussian, strict=True))
        extra = self.space.log_prior_per_group * (after.is_youngest.sum() - before.is_youngest.sum())
        if not self.is_flat:
            extra = extra + _log_prior(parameter.shape, new, after) - _log_prior(parameter.shape, old, before)
        return new, log_ratio + change.log_choice + extra


def _log_prior(shape: Array, values: Array, group: Groups) -> Array:
    """Return the log Beta density of the free values of one parameter."""
    a, b = shape
    inside = jnp.where((values > 0) & (values < 1), values, 0.5)
    density = (a - 1) * jnp.log(inside) + (b - 1) * jnp.log1p(-inside) - betaln(a, b)
    return jnp.sum(jnp.where(group.free, density, 0.0))
