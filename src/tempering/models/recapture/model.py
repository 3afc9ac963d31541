"""The model object that `tempering.sample` runs: one chain's start, step, energy and record, compiled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tempering.models.recapture import kernel
from tempering.models.recapture import layout as at
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.design import USUAL, Laws, Proposals, all_masks, check_columns, lay_out
from tempering.models.recapture.fits import fit_laws
from tempering.models.recapture.individuals import Individuals
from tempering.models.recapture.layout import PARAMETERS, Floats, Ints, State, empty_state
from tempering.models.recapture.slopes import fit_slopes
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.state_type import STATE, state_of_row
from tempering.models.recapture.times import TimeStructures, time_structures


@dataclass(frozen=True, eq=False)
class RecaptureModel:
    """Prior x likelihood^k over all structures of a mark-recapture-recovery study.

    Parameters
    ----------
    ints, floats : ndarray
        The study and its space, laid out by `recapture_model`.
    present : tuple of str
        The parameters of the study.
    keep_values : bool
        Whether a draw keeps the values of all cells, or only the model.
    starts : sequence of State
        Where chains start, one chosen at random; from the prior if there are none.

    Examples
    --------
    >>> counts = Counts(seen=[[9]], missed=[[0]], recovered=[[2]], vanished=[[9]], years=[1990])
    >>> model = recapture_model(counts, ModelSpace(1))
    >>> state = model.initial(np.random.default_rng(1))
    >>> bool(model.energy(model.step(np.random.default_rng(2), state, 0.5)) < 0)
    True
    """

    ints: Ints
    floats: Floats
    present: tuple[str, ...]
    keep_values: bool = True
    starts: Sequence[State] = field(default=(), repr=False)
    engine: str = "scalar"

    packed: ClassVar = (
        STATE.tables_of,
        state_of_row,
    )  # Numba's lists cannot hold a state, which lives as long as a call

    @property
    def step(self) -> Callable[..., State]:
        """The compiled move ``step(rng, state, k)``."""
        return kernel.step

    @property
    def energy(self) -> Callable[[State], float]:
        """The compiled ``energy(state)``, the log likelihood."""
        return kernel.energy

    @property
    def record(self) -> Callable[[State], Any]:
        """The compiled ``record(state)``: codes of the structures, and all values where they are kept."""
        return kernel.record_all if self.keep_values else kernel.record_models

    def initial(self, rng: np.random.Generator) -> State:
        """Return a state of its own arrays: a copy of one of the starts, or a draw from the prior."""
        if self.starts:
            return copied(self.starts[int(rng.integers(len(self.starts)))])
        state = empty_state(self.ints, self.floats)
        return kernel.step(rng, state, 0.0)  # at k = 0 a step is a draw from the prior

    def named(self, recorded: Any) -> dict[str, Any]:
        """Return what was recorded (..., width) by name: ``model``, the parameters (..., K, C), ``coefficients``."""
        recorded = np.asarray(recorded)
        found: dict[str, Any] = {"model": recorded[..., : at.N_PARAMETERS].astype(np.int64)}
        start, n_individual = at.N_PARAMETERS, int(self.ints[at.N_INDIVIDUAL])
        if n_individual:
            width = 2 * at.N_PARAMETERS * n_individual
            slopes = recorded[..., start : start + width]
            found["slopes"] = slopes.reshape(*recorded.shape[:-1], at.N_PARAMETERS, n_individual, 2)
            start += width
        if not self.keep_values:
            return found
        n_intervals, n_columns = int(self.ints[at.N_INTERVALS]), int(self.ints[at.N_COLUMNS])
        n_parameters = int(kernel.n_recorded(self.ints))
        size = n_intervals * n_columns
        lead = recorded.shape[:-1]
        for q, name in enumerate(PARAMETERS[:n_parameters]):
            if name in self.present:
                table = recorded[..., start + q * size : start + (q + 1) * size].astype(np.float32)
                found[name] = table.reshape(*lead, n_intervals, n_columns)
        if self.ints[at.N_TIMES] > 2:
            rest = recorded[..., start + n_parameters * size :].astype(np.float32)
            found["coefficients"] = rest.reshape(*lead, n_parameters, n_columns, 2)
        return found


def copied(state: State) -> State:
    """Return a state with arrays of its own for all that moves change."""
    parts: Any = (part.copy() for part in state[2:])
    return State(state.ints, state.floats, *parts)


def recapture_model(
    counts: Counts,
    space: ModelSpace,
    times: TimeStructures | None = None,
    *,
    keep_values: bool = True,
    proposals: Proposals = USUAL,
    individuals: Individuals | None = None,
) -> RecaptureModel:
    """Fit the proposals to the data and build the model.

    Parameters
    ----------
    counts : Counts
        Sufficient statistics, with the space's age classes and groups.
    space : ModelSpace
        Its ``present`` parameters must be those of the study.
    times : TimeStructures, optional
        The ways to vary in time that the space names; constant and by year by default.
    keep_values : bool
        See `RecaptureModel`.
    proposals : Proposals
        How jumps between models are made, and what k = 0 is.
    individuals : Individuals, optional
        Strata of birds by individual covariates.
    """
    times = times or time_structures(counts.years)
    check_columns(counts, space)
    laws = Laws.none(space, times)
    scratch = empty_state(*lay_out(counts, space, times, laws, proposals))
    laws = Laws(laws.set_row, *fit_laws(scratch, all_masks(space), laws.pseudo.shape[2]))
    if individuals is not None:
        slopes = np.zeros((at.N_PARAMETERS, len(individuals.names), 2))
        unfitted = lay_out(counts, space, times, laws._replace(slopes=slopes), proposals, individuals)
        fit_slopes(empty_state(*unfitted)._replace(values=scratch.values), slopes)
        laws = laws._replace(slopes=slopes)
    return RecaptureModel(*lay_out(counts, space, times, laws, proposals, individuals), space.present, keep_values)
