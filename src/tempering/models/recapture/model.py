"""The model object that `tempering.sample` runs: one chain's start, step, energy and record, all in JAX."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.fits import fit_values, shapes_of
from tempering.models.recapture.kernel import Kernel, State
from tempering.models.recapture.likelihood import (
    PARAMETERS,
    Statistics,
    free_cells,
    log_likelihood,
    statistics,
)
from tempering.models.recapture.prior_draws import sample_prior
from tempering.models.recapture.spaces import ModelSpace

Array = Any


@dataclass(frozen=True, eq=False)
class RecaptureModel:
    """Prior x likelihood^k over all structures of a mark-recapture-recovery study.

    Parameters
    ----------
    data : Statistics
        The study's counts.
    kernel : Kernel
        The moves.
    keep_values : bool
        Whether a draw keeps the values of all cells, in single precision, or only the model.

    Examples
    --------
    >>> counts = Counts(seen=[[9]], missed=[[0]], recovered=[[2]], vanished=[[9]], years=[1990])
    >>> model = recapture_model(counts, ModelSpace(1))
    >>> model.kernel.space.count
    8
    """

    data: Statistics
    kernel: Kernel
    keep_values: bool = True
    engine: str = "vector"

    def initial(self, key: Array) -> State:
        """Start from a model of the prior, its values at their fitted means."""
        start = sample_prior(self.kernel, key, self.data)
        values = [self._fitted_means(q, start) for q in range(3)]
        table = jnp.where(self.kernel.held, 0.0, jnp.stack(values))
        return start._replace(values=table, log_likelihood=log_likelihood(self.data, table))

    def _fitted_means(self, q: int, state: State) -> Array:
        parameter = self.kernel.parameter(q)
        group = self.kernel.groups(q, state.partition[q], state.timed[q])
        fits = type(parameter.fits)(*map(jnp.asarray, parameter.fits))
        a, b = shapes_of(fits, parameter.shape, 1.0, group)
        return a / (a + b)

    def step(self, key: Array, state: State, k: Array) -> State:
        """Update every free value and try one jump for each parameter, at inverse temperature ``k``."""
        return self.kernel.step(key, self.data, state, k)[0]

    def energy(self, state: State) -> Array:
        """Return the log likelihood."""
        return state.log_likelihood

    def record(self, state: State) -> dict[str, Array]:
        """Return the codes of the structures ``(3,)``, and the values ``(K, A)`` if they are kept."""
        n_classes = state.timed.shape[1]
        bits = jnp.sum(state.timed << jnp.arange(n_classes), axis=1)
        model = ((state.partition << n_classes) + bits).astype(jnp.int32)
        if not self.keep_values:
            return {"model": model}
        tables = {name: state.values[q].astype(jnp.float32) for q, name in enumerate(PARAMETERS)}
        return {"model": model, **{name: tables[name] for name in self.kernel.space.present}}


@dataclass(frozen=True, eq=False)
class RegeneratingModel(RecaptureModel):
    """The same for ladders that end at k = 0, where a chain draws from the prior afresh."""

    def sample_reference(self, key: Array) -> State:
        """Draw from the prior."""
        return sample_prior(self.kernel, key, self.data)


def recapture_model(
    counts: Counts,
    space: ModelSpace,
    *,
    keep_values: bool = True,
    regenerate: bool = False,
    fitted_flips: float = 0.9,
    fitted_splits: float = 0.3,
    sigma: float = 0.06,
) -> RecaptureModel:
    """Fit the proposals to the data and build the model.

    Parameters
    ----------
    counts : Counts
        Sufficient statistics, with the space's number of age classes.
    space : ModelSpace
        Its ``present`` parameters must be those of the study.
    keep_values, fitted_flips, fitted_splits, sigma
        See `RecaptureModel` and `Kernel`.
    regenerate : bool
        Whether the ladder ends at k = 0.
    """
    cells = free_cells(counts)
    for name in space.present:
        idle = np.flatnonzero(~cells[PARAMETERS.index(name)].any(axis=0))
        if len(idle):
            raise InputError(
                f"Every age class must have an interval in which {name} matters, but class {idle[0] + 1} of "
                f"{space.n_classes} has none in these data. Ask for fewer age classes."
            )
    held = _held(counts, space)
    data = statistics(counts)
    kernel = Kernel(space, cells, held, fit_values(data, cells, held), fitted_flips, fitted_splits, sigma)
    return (RegeneratingModel if regenerate else RecaptureModel)(data, kernel, keep_values)


def _held(counts: Counts, space: ModelSpace) -> Array:
    """Mark the cells held at 0: parameters that are absent, and p where no occasion follows."""
    held = np.zeros((3, counts.n_intervals, counts.n_age_classes), bool)
    for q, name in enumerate(PARAMETERS):
        held[q] = name not in space.present
    if counts.tail:
        held[1, -1] = True
    return held
