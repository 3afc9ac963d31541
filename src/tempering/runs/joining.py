"""Put runs of one target together, each with its own ladder.

Every rule needs of a rung its coefficients alone, so that rungs of several ladders are rungs of their union. Runs along
two legs have mixtures of their own: each is a term that is evaluated on the draws of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tempering.errors import EstimatorError
from tempering.learning.kernel_settings import carried_over
from tempering.path import Ladder, Path
from tempering.path.joined import JoinedPath
from tempering.runs.draws import TemperedDraws, check_draws
from tempering.runs.positions import Positions, positions_of

AXES = {"draws": 1, "chains": 0}


def join(runs: Sequence[TemperedDraws], along: str = "draws") -> TemperedDraws:
    """Return one run that holds the draws of several of the same target.

    For expectations, summaries, the evidence: whatever depends on draws, energies and rungs. Moves between the rungs
    of the union were never tried, so that exchange rates and round trips are to be asked of the runs themselves.

    Parameters
    ----------
    runs : sequence of TemperedDraws
        Of one target, along paths of one kind. Ladders and mixtures may differ.
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
    if all(run.path.has_two_legs for run in runs):
        return _of_two_legs(runs, axis)
    ladder = Ladder(np.unique(np.concatenate([run.ladder.inverse_temperatures for run in runs]))[::-1])
    last = runs[-1]

    def on_union(run: TemperedDraws) -> Any:
        """Return where the rungs of a run lie in the union, by rung."""
        return np.searchsorted(-ladder.inverse_temperatures, -run.ladder.inverse_temperatures).astype(np.int32)

    k = last.ladder.inverse_temperatures[::-1]
    leg = replace(last.path.legs[0], ladder=ladder)
    return _together(
        runs,
        axis,
        [on_union(run) for run in runs],
        [run.terms for run in runs],
        path=Path(last.path.target_coefficients, [leg], last.path.terms, last.path.references),
        log_pseudo_prior=np.interp(ladder.inverse_temperatures, k, last.log_pseudo_prior[::-1]),
        settings=carried_over(last.settings, last.ladder, ladder),
    )


def _of_two_legs(runs: Sequence[TemperedDraws], axis: int) -> TemperedDraws:
    """Join runs along two legs: every mixture is evaluated on all draws, and rungs stand side by side."""
    last, path = runs[-1], JoinedPath.of([run.path for run in runs])
    places = [_positions_of(run) for run in runs]
    terms = []
    for run, here in zip(runs, places, strict=True):
        columns = [run.terms[..., : path.n_own_terms]]
        for other, there in zip(runs, places, strict=True):
            n_own = other.path.n_own_terms
            known = [
                run.terms[..., n_own + i, np.newaxis]
                if other is run
                else reference.log_density(here.seen_from(there))[..., np.newaxis]
                for i, reference in enumerate(other.path.references)
            ]
            columns += known
        terms.append(np.concatenate(columns, axis=-1))
    return _together(
        runs,
        axis,
        [np.arange(len(run.path), dtype=np.int32) + first for run, first in zip(runs, path.first_rungs, strict=True)],
        terms,
        path=path,
        log_pseudo_prior=np.concatenate([run.log_pseudo_prior for run in runs]),
        settings=(),
        info=last.info and replace(last.info, method="joined"),
        positions=Positions(
            np.concatenate([here.seen_from(places[-1]) for here in places], axis=axis), places[-1].coordinates
        ),
    )


def _positions_of(run: TemperedDraws) -> Positions:
    found = positions_of(run)
    if found is None:
        raise EstimatorError(
            "Runs along two legs are joined by evaluating each one's mixture on the draws of all, but one of these was "
            "read from a file that has values, not the positions they are functions of. Join runs first, then save."
        )
    return found


def _together(
    runs: Sequence[TemperedDraws], axis: int, rungs: Sequence[Any], terms: Sequence[Any], **fields: Any
) -> TemperedDraws:
    """Return one run of all draws: ``rungs`` has where those of each run lie, ``terms`` what its draws are made of."""

    def joined(parts: Iterable[Any]) -> Any:
        return np.concatenate([np.asarray(part) for part in parts], axis=axis)

    moved = list(zip(runs, rungs, strict=True))
    return replace(
        runs[-1],
        values={name: joined(run.values[name] for run in runs) for name in runs[-1].values},
        rung=joined(place[run.rung] for run, place in moved),
        proposed=joined(place[run.proposed] for run, place in moved),
        terms=joined(terms),
        acceptance=joined(run.acceptance for run in runs),
        **({"positions": None, "rounds": (), "go_on": None, "_kept": {}} | fields),
    )


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
        is_other = run.path.terms[: run.path.n_own_terms] != first.path.terms[: first.path.n_own_terms]
        if set(run.values) != set(first.values) or run.is_powered != first.is_powered or is_other:
            raise EstimatorError(
                f"Runs to be joined must be of one target, but one has {sorted(first.values)} and another "
                f"{sorted(run.values)}, or their paths differ. Join runs of the same Target."
            )
        lengths = [(r.n_chains if along == "draws" else r.n_draws) for r in (first, run)]
        if lengths[0] != lengths[1] or run.chains_per_ensemble != first.chains_per_ensemble:
            other = "chains" if along == "draws" else "draws"
            raise EstimatorError(
                f"Runs joined along {along} must have the same number of {other}, in equal ensembles, but they have "
                f"{lengths[0]} and {lengths[1]}. Join them along {other!r}, or run them alike."
            )
    return AXES[along]
