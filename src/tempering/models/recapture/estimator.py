"""`MarkRecapture`: from a study's data to answers averaged over all structures.

A fit starts from the prior: a population that can be drawn at k = 0 is cooled step by step. Its last states are where
the chains begin, so that none begins in a model that only a draw from the prior would choose; its energies tell how
many temperatures the data need, and which.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tempering.errors import InputError
from tempering.estimators import mbar
from tempering.estimators.resampling import next_inverse_temperature, systematic
from tempering.io.checkpoint import Checkpoint, within
from tempering.learning.density_of_states import Energies
from tempering.learning.ladder_choice import choose_ladder
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.design import FITTED_BASE, PRIOR_BASE, Proposals
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.individuals import Individuals, strata_of
from tempering.models.recapture.kernel import advance
from tempering.models.recapture.layout import BLOCKS, PARAMETERS, State
from tempering.models.recapture.model import RecaptureModel, copied, recapture_model
from tempering.models.recapture.reading import Data, as_counts, grouped
from tempering.models.recapture.results import RecaptureResult
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.stages import STATE, Stages, stages_of, terms_of
from tempering.models.recapture.structures import RANDOM, YEARLY
from tempering.models.recapture.times import TimeStructures, time_structures
from tempering.path.ladder import Ladder
from tempering.randomness import seed_of
from tempering.runs.draws import TemperedDraws
from tempering.runs.stored import rows_of
from tempering.sampling.options import Execution, Tuning
from tempering.sampling.sample import sample

ANNEALING_STREAM = 7
N_PARTICLES = 96
SHARE_KEPT = 0.5  # effective share of the population after a step in k (Del Moral et al. 2012: 1/2 and above)
MOVES = 12  # iterations of every particle at every temperature
MOVES_AT_END = 60
MOST_STEPS = 1000


@dataclass(frozen=True)
class MarkRecapture:
    """Search the age, group and time structures of survival, recapture and recovery by tempered reversible jump.

    Parameters
    ----------
    age_classes : int
        Years of life told apart, 1 to 8; the last class is open.
    phi, p, lambda_ : str
        Structures to search for survival, recapture and recovery: ``"contiguous"`` age groups, ``"free"`` ones, a
        formula that names what may vary, such as ``"~ age + time + sex"``, or a single structure in short notation,
        such as ``"{1}(t) {2,3} {4+}"``.
    fidelity : str, optional
        The same for the probability to stay in the study area (Burnham's F); by default nobody leaves, F = 1.
    entry : str, optional
        The same for seniority gamma, the probability that a bird was there an interval before (Pradel 1996): asks for
        growth and abundance as well, which need encounter histories and ``age_classes=1``.
    movement : str
        The same for the probability psi to leave a state, where histories have states (Arnason-Schwarz); the term of
        formulas that tells them apart is ``state``.
    groups : str, optional
        The column that tells groups of birds apart, such as ``"sex"``; ``"group"`` for the groups of MARK's files.
        Without it all birds are pooled.
    year_groups : mapping of str to sequence
        Groupings of years that a formula may name: a name, and the first years of the intervals that belong together.
    yearly_covariates : mapping of str to mapping or sequence
        Covariates by year that a formula may name: logit-linear, standardised.
    missing : mapping of str to "mean" or number
        What birds get that lack an individual covariate; without it they are refused. A column of the histories is an
        individual covariate if a formula names it: logit-linear, standardised, in or out by reversible jump.
    model_prior : str
        ``"models"`` (uniform over models) or ``"structures"`` (over age structures, then time dependence).
    beta : mapping
        (a, b) of the Beta prior of the values of ``"phi"``, ``"p"``, ``"lambda"``, ``"F"``; uniform if not named.
    ladder : Ladder or sequence of float, optional
        Powers of the likelihood, such as the paper's ``Ladder.geometric(40, 0.1)``. By default as many temperatures as
        the data need, from k = 1 to k = 0, where every chain draws afresh: a model from the prior, its values from wide
        laws that were fitted to the data, or from their prior if trends, random or additive years may be in the model.
    method : {"parallel", "simulated"}
        Coupled chains, which need no pseudo-prior; or single chains, whose pseudo-prior a short run of
        coupled chains learns first.
    draws, tune, chains : int
        Iterations kept of each chain, iterations before, and the number of ensembles (of chains, for
        ``"simulated"``).
    keep_values : bool
        Whether draws keep the values of all cells, which averages need, or only the model.

    Examples
    --------
    >>> from tempering.models.recapture import read
    >>> from tempering.data import DIPPER_ARRAY, path_of
    >>> dipper = read(path_of(DIPPER_ARRAY))
    >>> study = MarkRecapture(1, phi="~ 1", p="~ 1", draws=400, tune=64)
    >>> result = study.fit(dipper, rng=1, progress=False)
    >>> survival = result.averages().query("parameter == 'phi'")["mean"]
    >>> bool(abs(survival.iloc[0] - 0.56) < 0.02)
    True
    """

    age_classes: int = 4
    phi: str = "contiguous"
    p: str = "free"
    lambda_: str = "free"
    fidelity: str | None = None
    entry: str | None = None
    movement: str = "~ state"
    groups: str | None = None
    year_groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    yearly_covariates: Mapping[str, Mapping[int, float] | Sequence[float]] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)
    model_prior: str = "models"
    beta: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    ladder: Ladder | Sequence[float] | None = None
    method: str = "parallel"
    draws: int = 2500
    tune: int = 400
    chains: int = 4
    keep_values: bool = True

    def space(
        self, present: tuple[str, ...] = ("phi", "p", "lambda"), groups: tuple[str, ...] = ("",), factor: str = "group",
        stages: Stages = (), idle: tuple[int, ...] = (), individual: tuple[str, ...] = (),
    ) -> ModelSpace:  # fmt: skip
        """Return the space of models that is searched; its ``count`` says how many there are."""
        has_fidelity = self.fidelity is not None
        additive = self._additive((factor,) if len(groups) > (len(stages) or 1) else (), stages)
        return ModelSpace(
            self.age_classes, self.phi, self.p, self.lambda_, self.model_prior, dict(self.beta),
            (*present, "F") if has_fidelity else present, self.fidelity if has_fidelity else "~ 1",  # type: ignore[arg-type]
            groups, factor,
            (*self.year_groups, *self.yearly_covariates, *([RANDOM] if self._has_random else []), *additive),
            stages, idle, individual, self.entry or "~ 1", self.movement if STATE in terms_of(stages) else "~ 1",
            self._destination(stages),
        )  # fmt: skip

    def _destination(self, stages: Stages) -> str:
        """Return where birds go of three states: by state alone."""
        ages = ",".join(str(age + 1) for age in range(self.age_classes))
        return " ".join(f"{{{ages} {name}}}" for name in stages) if STATE in terms_of(stages) else "~ 1"

    def _additive(self, factors: tuple[str, ...], stages: Stages) -> list[str]:
        """Name the additive effects that formulas and structures ask for: ``"t+sex"`` for years and sexes."""
        found: dict[str, None] = {}
        factors = (*(("age",) if self.age_classes > 1 else ()), *factors, *terms_of(stages))
        for text in self._texts:
            words = set(re.findall(r"\w+", text or ""))
            is_formula = (text or "").lstrip().startswith("~")
            for base in (YEARLY, *self.year_groups):
                for factor in factors:
                    if is_formula:
                        is_named = {"time" if base == YEARLY else base, factor} <= words and "free" not in words
                    else:
                        is_named = f"({base}+{factor})" in (text or "").replace(" ", "")
                    if is_named:
                        found[f"{base}+{factor}"] = None
        return list(found)

    @property
    def _texts(self) -> tuple[str | None, ...]:
        return self.phi, self.p, self.lambda_, self.fidelity, self.entry, self.movement

    @property
    def _has_random(self) -> bool:
        return any(RANDOM in (text or "") for text in self._texts)

    def times(self, counts: Counts, space: ModelSpace) -> TimeStructures:
        """Return the ways to vary in time."""
        additive = [name for name in space.times if "+" in name]
        return time_structures(
            counts.years, self.year_groups, self.yearly_covariates, random=self._has_random, additive=additive
        )

    def prepared(self, data: Data) -> tuple[Data, Counts, ModelSpace]:
        """Return the data in their groups, their counts, and the space of models."""
        data, factor = grouped(data, self.groups)
        counts = as_counts(data, self.age_classes, stages_of(self._texts, data.groups))
        individual = self._individual(data, factor)
        if counts.moves is not None:
            self._check_states(data.groups, individual)
        if self.fidelity is not None and not (counts.live and counts.dead):
            raise InputError(
                "Fidelity can be told from survival only where birds are both seen alive and found dead, but this "
                f"study has no {'recoveries' if counts.live else 'recaptures'}. Leave fidelity out."
            )
        if individual and self.fidelity is not None:
            raise InputError(
                f"Fidelity and individual covariates ({', '.join(individual)}) cannot be fitted together yet. Leave "
                "one of them out."
            )
        if self.entry is not None:
            counts = self._with_entry(data, counts, individual)
        space = self.space(counts.parameters, counts.groups, factor, counts.stages, counts.idle, individual)
        return data, counts, space

    def _check_states(self, groups: tuple[str, ...], individual: tuple[str, ...]) -> None:
        refused = {
            "fidelity": self.fidelity is not None,
            "growth and abundance (entry)": self.entry is not None,
            "trap dependence and transients": bool(stages_of(self._texts, groups)),
            "individual covariates": bool(individual),
        }
        _refuse(refused, "States", "terms of state, age, groups and time")

    def _with_entry(self, data: Data, counts: Counts, individual: tuple[str, ...]) -> Counts:
        refused = {
            "fidelity": self.fidelity is not None,
            "individual covariates": bool(individual),
            "trap dependence and transients": bool(counts.stages),
            f"{self.age_classes} age classes": self.age_classes > 1,
            "arrays or counts, which do not say when birds were first caught,": not isinstance(data, Histories),
            "a study without recaptures": not counts.live,
        }
        _refuse(
            refused, "Growth and abundance (entry)", "encounter histories, age_classes=1, and terms of time and groups"
        )
        assert isinstance(data, Histories)
        return counts.with_entry(data.first_captures())

    def _individual(self, data: Data, factor: str) -> tuple[str, ...]:
        """Name the columns that formulas use as individual covariates."""
        texts = [text for text in (self.phi, self.p, self.lambda_) if text.lstrip().startswith("~")]
        words = {word for text in texts for word in re.findall(r"\w+", text)} - {factor, *self.year_groups}
        columns = data.columns if isinstance(data, Histories) else {}
        return tuple(name for name in columns if name in words - set(self.yearly_covariates))

    def _strata(self, data: Data, counts: Counts, space: ModelSpace) -> Individuals | None:
        if not space.individual:
            return None
        may = [[name in space.space(q).slopes and q in space.present for name in space.individual] for q in PARAMETERS]
        assert isinstance(data, Histories)
        return strata_of(data, space.individual, may, self.missing, self.age_classes, counts.stages)

    def fit(
        self,
        data: Data,
        *,
        rng: np.random.Generator | int | None = None,
        executor: Executor | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
        progress: bool = True,
    ) -> RecaptureResult:
        """Sample the models and their values.

        A population cooled from k = 0 tells which temperatures the data need, and is where the chains start.

        Parameters
        ----------
        data : Histories, ReleaseArrays or Counts
            As `read` returns them.
        rng : int, Generator or None
            The seed: equal seeds give equal results.
        executor : concurrent.futures.Executor, optional
            Where the chains run, as for `tempering.sample`; the result is the same to the bit wherever.
        checkpoint : path or Checkpoint, optional
            A folder where the run is kept, as for `tempering.sample`: after a kill the same call resumes it.
        progress : bool
            Show a bar when the output is a terminal.
        """
        if self.method not in ("parallel", "simulated"):
            raise InputError(f"The method must be 'parallel' or 'simulated', but is {self.method!r}.")
        data, counts, space = self.prepared(data)
        times = self.times(counts, space)
        individuals = self._strata(data, counts, space)
        # no law is fitted to trends, random and additive years: of these alone fitted ones would make traps
        is_fitted = self.ladder is None and bool((times.kinds == BLOCKS).all())
        model = recapture_model(
            counts, space, times, keep_values=self.keep_values, individuals=individuals,
            proposals=Proposals(base=FITTED_BASE if is_fitted else PRIOR_BASE),
        )  # fmt: skip
        seed = None if rng is None else seed_of(rng)
        start = anneal(model, np.random.default_rng([ANNEALING_STREAM, seed or 0]))
        model = replace(model, starts=start.states)
        ladder = self._ladder() or start.ladder(self.method)
        draws = self._sample(model, ladder, executor, checkpoint, rng=seed, progress=progress)
        named = replace(draws, values=model.named(draws.values["x"]), _kept={})
        return RecaptureResult(named, counts, space, data, times, individuals)

    def _ladder(self) -> Ladder | None:
        if self.ladder is None:
            return None
        return self.ladder if isinstance(self.ladder, Ladder) else Ladder(self.ladder)

    def _sample(
        self, model: RecaptureModel, ladder: Ladder, executor: Executor | None, checkpoint: Any, **how: Any
    ) -> TemperedDraws:
        execution = Execution(executor=executor, checkpoint=within(checkpoint, "draws"))
        common: dict[str, Any] = {"ladder": ladder, "chains": self.chains, "execution": execution, **how}
        if self.method == "parallel":
            coupled: TemperedDraws = sample(
                model, method="parallel", draws=self.draws, tuning=Tuning(self.tune), **common
            )
            return coupled
        kept = within(checkpoint, "pilot")
        log_p = learn_pseudo_prior(model, ladder, draws=self.tune, executor=executor, checkpoint=kept, **how)
        tuning = Tuning(0, pseudo_prior=log_p)
        burnt: TemperedDraws = sample(model, draws=self.draws + self.tune, tuning=tuning, **common)
        return rows_of(burnt, self.tune, burnt.n_draws)


def _refuse(refused: Mapping[str, bool], what: str, needs: str) -> None:
    for name, is_there in refused.items():
        if is_there:
            raise InputError(f"{what} cannot be fitted together with {name} yet. Fit them with {needs} alone.")


def learn_pseudo_prior(
    model: RecaptureModel,
    ladder: Ladder,
    *,
    draws: int = 1000,
    rng: Any = None,
    executor: Executor | None = None,
    checkpoint: Checkpoint | None = None,
    progress: bool = True,
) -> Any:
    """Return log p(k_i) = -log Z(k_i), estimated by MBAR from a short run of coupled chains.

    On these models log Z spans thousands of nats; coupled chains need none of it.
    """
    pilot = sample(
        model, ladder=ladder, method="parallel", draws=draws, tuning=Tuning(draws), chains=1, rng=rng,
        execution=Execution(executor=executor, checkpoint=checkpoint), progress=progress,
    )  # fmt: skip
    return -mbar(pilot.energy, ladder.inverse_temperatures, pilot.rung).log_normalisers


@dataclass(frozen=True, eq=False)
class Annealed:
    """What a cooled population leaves behind: its last states, and energies with the k each was drawn at."""

    states: tuple[State, ...]
    energies: Energies

    def ladder(self, method: str) -> Ladder:
        """Return the ladder from k = 1 to the prior that these energies ask for."""
        return choose_ladder(self.energies.density_of_states(), 0.0, "hybrid", method)


def anneal(model: RecaptureModel, rng: np.random.Generator, n_particles: int = N_PARTICLES) -> Annealed:
    """Cool a population from the prior to k = 1, resampling it at every step (Neal 2001; Del Moral et al. 2006)."""
    states = [model.initial(rng) for _ in range(n_particles)]
    k, seen = 0.0, [(0.0, _energies(model, states))]
    while k < 1.0 and len(seen) < MOST_STEPS:
        energy = seen[-1][1]
        before, k = k, next_inverse_temperature(energy, k, SHARE_KEPT)
        states = [copied(states[j]) for j in systematic(rng, (k - before) * energy, n_particles)]
        for state in states:
            advance(rng, state, k, MOVES if k < 1.0 else MOVES_AT_END)
        seen.append((k, _energies(model, states)))
    energies = Energies(np.repeat([k for k, _ in seen], n_particles), np.concatenate([e for _, e in seen]))
    return Annealed(tuple(states), energies)


def _energies(model: RecaptureModel, states: list[State]) -> Any:
    return np.array([model.energy(state) for state in states])
