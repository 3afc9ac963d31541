"""A sampler for Optuna: each trial where a treed GP, fitted to the trials before, expects the most improvement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tempering.errors import InputError
from tempering.models.scikit_learn import generator_of
from tempering.models.treed_gp.estimator import TreedGP
from tempering.models.treed_gp.optimise import Minimiser
from tempering.requirements import imported


def optuna_sampler(*, model: TreedGP | None = None, n_initial: int | None = None, random_state: Any = None) -> Any:
    """Return a sampler to hand to ``optuna.create_study(sampler=...)``; one objective, with or without noise.

    Numbers that all trials have are chosen together. Categories, and numbers that only some trials have, are drawn at
    random.

    Parameters
    ----------
    model : TreedGP, optional
        What is fitted to the trials; by default a short run, 4000 rounds.
    n_initial : int, optional
        Trials at random before the first fit; None is 4 d + 4, at least 10.
    random_state : int, Generator or None
        Equal seeds give equal trials if they are run one after another.
    """
    optuna = imported("optuna", what="A sampler for Optuna", install="optuna")
    rng = generator_of(random_state)

    class TreedGPSampler(optuna.samplers.BaseSampler):  # type: ignore[misc, name-defined]
        """Choose trials by expected improvement under a treed GP."""

        def __init__(self) -> None:
            self._at_random = optuna.samplers.RandomSampler(seed=int(rng.integers(2**31 - 1)))
            self._common = optuna.search_space.IntersectionSearchSpace()

        def reseed_rng(self) -> None:
            """Start other random numbers, for workers that share a study."""
            self._at_random.reseed_rng()
            rng.bit_generator.state = np.random.default_rng().bit_generator.state

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            """Return the numbers that all trials have."""
            if len(study.directions) != 1:
                raise InputError(
                    f"This sampler needs a study of one objective, but it has {len(study.directions)}. Take another "
                    "sampler, or one objective."
                )
            return {
                name: d for name, d in self._common.calculate(study).items() if hasattr(d, "log") and not d.single()
            }

        def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
            """Choose the next trial; nothing at all while there are too few."""
            if not search_space:
                return {}
            sign = -1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else 1.0
            done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
            d = len(search_space)
            if len(done) < (max(10, 4 * d + 4) if n_initial is None else n_initial):
                return {}
            search = Minimiser([(0.0, 1.0)] * d, model=model, n_initial=0, random_state=rng)
            search.tell(
                [[to_unit(kind, one.params[name]) for name, kind in search_space.items()] for one in done],
                [sign * one.value for one in done],
            )
            point = search.ask()[0]
            return {name: from_unit(kind, u) for (name, kind), u in zip(search_space.items(), point, strict=True)}

        def sample_independent(self, study: Any, trial: Any, name: str, kind: Any) -> Any:
            """Draw a value at random."""
            return self._at_random.sample_independent(study, trial, name, kind)

    return TreedGPSampler()


def to_unit(kind: Any, value: float) -> float:
    """Map a value of one of Optuna's distributions of numbers to [0, 1]."""
    if kind.log:
        return (math.log(value) - math.log(kind.low)) / (math.log(kind.high) - math.log(kind.low))
    return float((value - kind.low) / (kind.high - kind.low))


def from_unit(kind: Any, u: float) -> float:
    """Map back, to the nearest value that the distribution allows."""
    if kind.log:
        value = math.exp(math.log(kind.low) + u * (math.log(kind.high) - math.log(kind.low)))
    else:
        value = kind.low + u * (kind.high - kind.low)
    if kind.step is not None:
        value = kind.low + kind.step * round((value - kind.low) / kind.step)
    value = min(max(value, kind.low), kind.high)
    return round(value) if isinstance(kind.low, int) else float(value)
