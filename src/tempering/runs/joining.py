"""Put runs of one target together, each with its own ladder.

Every rule needs of a rung its k alone, so that rungs of several ladders are rungs of their union.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tempering.errors import EstimatorError
from tempering.learning.kernel_settings import carried_over
from tempering.path import Ladder, Path
from tempering.runs.draws import TemperedDraws, check_draws

AXES = {"draws": 1, "chains": 0}


def join(runs: Sequence[TemperedDraws], along: str = "draws") -> TemperedDraws:
    """Return one run that holds the draws of several of the same target.

    For expectations, summaries, the evidence: whatever depends on draws, energies and rungs. Moves between the rungs
    of the union were never tried, so that exchange rates and round trips are to be asked of the runs themselves.

    Parameters
    ----------
    runs : sequence of TemperedDraws
        Of one target, along one path. The ladders may differ.
    along : {"draws", "chains"}
        "draws" joins runs that follow one another in time, such as ``[*run.rounds, run]``; "chains" runs beside one
        another, such as those of several seeds.

    Examples
    --------
    >>> import tempering as tp
    >>> target = tp.Target(lambda x: -0.5 * (x - 3.0) ** 2)
    >>> run = tp.sample(target, initial=0.0, ladder=[1, 0.5], draws=200,
    ...                 tuning=tp.Tuning(320), rng=1, keep="rounds", progress=False)
    >>> whole = tp.join([*run.rounds, run])
    >>> whole.n_draws > run.n_draws
    True
    """
    axis = _checked(runs, along)
    if any(run.path.has_two_legs for run in runs):
        raise EstimatorError(
            "Runs along two legs each have references of their own, and cannot be joined as they are. Combine their "
            "estimates, or run with a ladder of your own."
        )
    ladder = Ladder(np.unique(np.concatenate([run.ladder.inverse_temperatures for run in runs]))[::-1])
    last = runs[-1]

    def joined(part: Callable[[TemperedDraws], Any]) -> Any:
        return np.concatenate([np.asarray(part(run)) for run in runs], axis=axis)

    def on_union(run: TemperedDraws) -> Any:
        """Return where the rungs of a run lie in the union, by rung."""
        return np.searchsorted(-ladder.inverse_temperatures, -run.ladder.inverse_temperatures).astype(np.int32)

    k = last.ladder.inverse_temperatures[::-1]
    leg = replace(last.path.legs[0], ladder=ladder)
    return replace(
        last,
        values={name: joined(partial(_value, name)) for name in last.values},
        rung=joined(lambda run: on_union(run)[run.rung]),
        proposed=joined(lambda run: on_union(run)[run.proposed]),
        terms=joined(lambda run: run.terms),
        acceptance=joined(lambda run: run.acceptance),
        path=Path(last.path.target_coefficients, [leg], last.path.terms, last.path.references),
        log_pseudo_prior=np.interp(ladder.inverse_temperatures, k, last.log_pseudo_prior[::-1]),
        settings=carried_over(last.settings, last.ladder, ladder),
        rounds=(),
        _kept={},
    )


def _value(name: str, run: TemperedDraws) -> Any:
    return run.values[name]


def _checked(runs: Sequence[TemperedDraws], along: str) -> int:
    """Return the axis to join along, if the runs can be joined."""
    if along not in AXES:
        raise EstimatorError(f"along must be one of {tuple(AXES)}, but got {along!r}.")
    if isinstance(runs, TemperedDraws):
        raise EstimatorError("join takes several runs in a list, but got one. Pass [*run.rounds, run].")
    if not runs:
        raise EstimatorError("join needs at least one run, but got none. Pass [*run.rounds, run].")
    for run in runs:
        check_draws(run)
    first = runs[0]
    for run in runs[1:]:
        if set(run.values) != set(first.values) or run.is_powered != first.is_powered:
            raise EstimatorError(
                f"Runs to be joined must be of one target, but one has {sorted(first.values)} and another "
                f"{sorted(run.values)}, or their paths differ. Join runs of the same Target."
            )
        lengths = [(r.n_chains if along == "draws" else r.n_draws) for r in (first, run)]
        if lengths[0] != lengths[1] or run.chains_per_ensemble != first.chains_per_ensemble:
            other = "chains" if along == "draws" else "draws"
            raise EstimatorError(
                f"Runs joined along {along} must have as many {other} each, in ensembles of one size, but they have "
                f"{lengths[0]} and {lengths[1]}. Join them along {other!r}, or run them alike."
            )
    return AXES[along]
