"""What a fit says: values averaged over models, and probabilities of models and structures, under any rule."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.estimators.rules import DEFAULT_RULE
from tempering.models.recapture.aic import aic_table
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.design import free_cells
from tempering.models.recapture.figures import (
    FIGURES,
    Averaging,
    abundance_table,
    coefficient_table,
    effect_flags,
    growth_table,
    time_flags,
)
from tempering.models.recapture.goodness import GoodnessOfFit, assumptions_of, goodness_of_fit
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.individuals import Individuals
from tempering.models.recapture.layout import PARAMETERS
from tempering.models.recapture.mixing import Mixing, mixing_of
from tempering.models.recapture.movement import check_moves, transition_table
from tempering.models.recapture.predictive import PredictiveCheck, check_arrays
from tempering.models.recapture.reading import Data
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.stages import Stages, split_name, terms_of
from tempering.models.recapture.times import TimeStructures
from tempering.runs.draws import TemperedDraws

OVERLAP_BINS = 40
N_ERRORS = 10  # rows of a table of probabilities whose standard errors are worked out
LITTLE_SAID = 0.7  # overlap of prior and posterior from which a cell is said to be poorly known


@dataclass(frozen=True, eq=False)
class RecaptureResult:
    """Draws over models, and the questions a study asks of them.

    Attributes
    ----------
    draws : TemperedDraws
        ``values["model"]`` holds the codes of the structures, ``values["phi"]`` and so on the cells (K, C).
    counts : Counts
        The sufficient statistics.
    space : ModelSpace
        The models searched.
    data : Histories, ReleaseArrays or Counts
        What was fitted.
    times : TimeStructures
        The ways to vary in time that the space names.
    individuals : Individuals or None
        Strata of birds by individual covariates; values in tables are those of a bird with average ones.
    """

    draws: TemperedDraws
    counts: Counts
    space: ModelSpace
    data: Data
    times: TimeStructures
    individuals: Individuals | None = None
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.space.present

    @property
    def can_be_checked(self) -> bool:
        """Whether a predictive check is possible: of histories or arrays, without individual covariates."""
        return not isinstance(self.data, Counts) and self.individuals is None

    @property
    def can_be_tested(self) -> bool:
        """Whether TEST 2 and 3 are possible: of encounter histories without states."""
        return isinstance(self.data, Histories) and not self.has_states

    @property
    def has_states(self) -> bool:
        """Whether birds move between states."""
        return self.counts.moves is not None

    @property
    def has_groups(self) -> bool:
        """Whether groups of birds are told apart."""
        return len(self.counts.groups) > 1

    # --- values -----------------------------------------------------------------------------------------------

    def averages(self, rule: str = DEFAULT_RULE, interval: float = 0.95) -> pd.DataFrame:
        """Tabulate each value by age and year, averaged over models.

        Survival, recovery and fidelity are labelled by the year in which the interval starts, recapture by the year of
        the occasion, as in MARK: recapture of age class 1 is that of birds in class 1 in the interval before.

        Returns
        -------
        DataFrame
            With mean, standard error of the mean, standard deviation, the central interval, and ``overlap``,
            the area under both prior and posterior density: near 1 where the data say little.
        """
        if ("averages", rule, interval) not in self._kept:
            places = [(name, c, self.year_of(name, t)) for name, t, c in self._cells()]
            columns = [self._values(name)[..., t, c] for name, t, c in self._cells()]
            table = self._summarised(places, columns, rule, interval)
            weights = self.draws.weights(rule).ravel()
            table["overlap"] = [
                self._overlap(name, column.ravel(), weights)
                for (name, _, _), column in zip(places, columns, strict=True)
            ]
            self._kept["averages", rule, interval] = table
        found: pd.DataFrame = self._kept["averages", rule, interval]
        return found.copy()

    def means(self, rule: str = DEFAULT_RULE, interval: float = 0.95) -> pd.DataFrame:
        """Tabulate each parameter by age class (and group): its mean over the years, averaged over models."""
        if ("means", rule, interval) not in self._kept:
            places = [(name, c) for name in self.parameters for c in self.columns_of(name)]
            columns = [self._mean_over_years(name, c) for name, c in places]
            self._kept["means", rule, interval] = self._summarised(places, columns, rule, interval)
        found: pd.DataFrame = self._kept["means", rule, interval]
        return found.copy()

    def differences(self, rule: str = DEFAULT_RULE, interval: float = 0.95) -> pd.DataFrame:
        """Tabulate differences of the means over years: between groups of the same age, and between successive ages.

        ``above`` is the probability that the difference is positive.
        """
        rows, columns = [], []
        for parameter in self.parameters:
            for one, two in self._pairs(parameter):
                rows.append((parameter, _title(self.label(parameter, one)), _title(self.label(parameter, two))))
                columns.append(self._mean_over_years(parameter, one) - self._mean_over_years(parameter, two))
        figures = self.averaging.figures(columns, rule, interval)
        weights = self.draws.weights(rule)
        table = pd.DataFrame(rows, columns=["parameter", "first", "second"])
        for name, column in zip(FIGURES, figures.T, strict=True):
            table[name] = column
        table["above"] = [float((weights * (column > 0)).sum()) for column in columns]
        return table

    def _pairs(self, name: str) -> list[tuple[int, int]]:
        space, shown = self.space.space(name), self.columns_of(name)
        ages = [(a, b) for a, b in space.pairs("age") if b == a + 1]
        pairs = [pair for term in space.factors if term != "age" for pair in space.pairs(term)] + ages
        is_parallel = any("+" in time for time in space.options)
        return [
            (a, b) for a, b in pairs
            if a in shown and b in shown and (is_parallel or any(row[a] != row[b] for row in space.partitions))
        ]  # fmt: skip

    def columns_of(self, name: str) -> list[int]:
        """Return the columns that birds are in; of stages that a parameter never tells apart, the busiest one."""
        used = [c for c in range(self.counts.n_columns) if c not in self.space.idle]
        if self._tells_stages_apart(name):
            return used
        n_active, place = self.counts.active.sum(axis=1), self.space.space(name).place
        busiest: dict[Any, int] = {}
        for c in used:
            key = place(c)[::2]
            if key not in busiest or n_active[c] > n_active[busiest[key]]:
                busiest[key] = c
        return sorted(busiest.values())

    def label(self, name: str, c: int) -> tuple[str, str]:
        """Return group and age class of a column, the stage only where a parameter may depend on it."""
        group, age = self.counts.column_names()[c]
        return (group, age) if self._tells_stages_apart(name) else (split_name(group, self.counts.stages)[0], age)

    def _tells_stages_apart(self, name: str) -> bool:
        space = self.space.space(name)
        terms = terms_of(self.counts.stages)
        return (
            not terms or self.has_states or any(space.differs(row, term) for term in terms for row in space.partitions)
        )

    def transitions(self, rule: str = DEFAULT_RULE, interval: float = 0.95) -> pd.DataFrame:
        """Tabulate the probability that a survivor moves from one state to another, averaged over years and models."""
        return transition_table(self, rule, interval)

    def growth(self, rule: str = DEFAULT_RULE, interval: float = 0.95) -> pd.DataFrame:
        """Tabulate the growth of the population by interval, and its geometric mean; needs a fit with ``entry``."""
        return growth_table(self, rule, interval)

    def abundance(
        self, rule: str = DEFAULT_RULE, interval: float = 0.95, rng: np.random.Generator | int | None = 0
    ) -> pd.DataFrame:
        """Tabulate the number of birds at each occasion, and of all that ever were there; needs ``entry``."""
        return abundance_table(self, rule, interval, rng)

    def coefficients(self, rule: str = DEFAULT_RULE, interval: float = 0.95) -> pd.DataFrame:
        """Tabulate slopes of covariates, deviations of random years and additive effects, given that a set has them.

        All are on the logit scale; ``probability`` is that of having it. A slope is per standard deviation of the
        covariate; an additive effect is the distance from the first class of its set, in every year.
        """
        return coefficient_table(self, rule, interval)

    @cached_property
    def averaging(self) -> Averaging:
        """What the draws say of columns of values."""
        return Averaging(self.draws)

    def _mean_over_years(self, name: str, c: int) -> NDArray[Any]:
        where = free_cells(self.counts, self.space.present)[PARAMETERS.index(name), :, c]
        mean: NDArray[Any] = self._values(name)[..., where, c].mean(axis=-1, dtype=float)
        return mean

    def _summarised(
        self, places: Sequence[tuple[Any, ...]], columns: Sequence[NDArray[Any]], rule: str, interval: float
    ) -> pd.DataFrame:
        labels = [self.label(place[0], place[1]) for place in places]
        table = pd.DataFrame({"parameter": [place[0] for place in places]})
        if self.has_groups:
            table["group"] = [group for group, _ in labels]
        table["age_class"] = [age for _, age in labels]
        if places and len(places[0]) > 2:
            table["year"] = [place[2] for place in places]
        for name, column in zip(FIGURES, self.averaging.figures(columns, rule, interval).T, strict=True):
            table[name] = column
        return table

    def year_of(self, parameter: str, interval: int) -> int:
        """Return the year a cell is labelled by: the occasion for p, the start of the interval for the others."""
        years = self.counts.years
        if parameter != "p":
            return int(years[interval])
        if interval + 1 < len(years):
            return int(years[interval + 1])
        return int(years[interval] + max(1, round(self.counts.lengths[interval])))

    def poorly_known(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Return the cells whose posterior is much like their prior."""
        table = self.averages(rule)
        return table[table["overlap"] > LITTLE_SAID].reset_index(drop=True)

    # --- models -----------------------------------------------------------------------------------------------

    @cached_property
    def _models(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Distinct models (n, Q), and which of them each draw is."""
        codes = self.draws.values["model"]
        distinct, index = np.unique(codes.reshape(-1, codes.shape[-1]), axis=0, return_inverse=True)
        return distinct, index.reshape(codes.shape[:2])

    def model_probabilities(self, rule: str = DEFAULT_RULE, top: int | None = None) -> pd.DataFrame:
        """Tabulate every model visited and its posterior probability, the most probable first."""
        distinct, index = self._models
        return self._probabilities(
            {name: distinct[:, PARAMETERS.index(name)] for name in self.parameters}, index, rule, top
        )

    def aic_table(self, rule: str = DEFAULT_RULE, top: int = 10) -> pd.DataFrame:
        """Tabulate AICc of the most probable models, each fitted by maximum likelihood, for comparison with MARK."""
        if self.individuals is not None:
            raise InputError("AICc is not worked out for models with individual covariates. Leave it out.")
        return aic_table(self, rule, top)

    def structure_probabilities(self, parameter: str, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Tabulate the structures of one parameter and their posterior probabilities."""
        self._check(parameter)
        codes = self.draws.values["model"][..., PARAMETERS.index(parameter)]
        distinct, index = np.unique(codes, return_inverse=True)
        return self._probabilities({parameter: distinct}, index.reshape(codes.shape), rule, None)

    def _probabilities(
        self, columns: dict[str, Any], index: NDArray[np.intp], rule: str, top: int | None
    ) -> pd.DataFrame:
        total = np.bincount(index.ravel(), self.draws.weights(rule).ravel())
        order = np.argsort(-total, kind="stable")
        order = order[total[order] > 0][:top]
        named = {name: [str(self.space.structure(c)) for c in codes[order]] for name, codes in columns.items()}
        errors = np.full(len(order), np.nan)
        errors[:N_ERRORS] = self._errors([index == i for i in order[:N_ERRORS]], rule)
        return pd.DataFrame({**named, "probability": total[order], "standard_error": errors})

    def _errors(self, columns: Sequence[NDArray[Any]], rule: str) -> NDArray[np.float64]:
        """Return the standard errors of probabilities, of columns (chain, draw) that say where something holds.

        None is below 1 / n if some indicator has n effective draws only: what so many draws have missed may weigh as
        much.
        """
        fewest = min((doubt.effective for doubt in self.mixing(rule).indicators.values()), default=np.inf)
        return np.hypot(self.averaging.errors(columns, rule), 1 / fewest)

    def effects(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Tabulate the probability of each effect in each parameter: ages or groups differ, sets vary in time."""
        flags = [(name, effect, flag) for name in self.parameters for effect, flag in self.effect_flags(name)]
        weights = self.draws.weights(rule)
        return pd.DataFrame(
            {
                "parameter": [name for name, _, _ in flags],
                "effect": [effect for _, effect, _ in flags],
                "probability": [float((weights * flag).sum()) for _, _, flag in flags],
                "standard_error": self._errors([flag for _, _, flag in flags], rule),
            }
        )

    def effect_flags(self, name: str) -> list[tuple[str, NDArray[np.bool_]]]:
        """Return each effect that a parameter may have, and in which draws it is there."""
        return effect_flags(self, name)

    def time_flags(self) -> list[tuple[str, int, NDArray[np.bool_]]]:
        """Return parameter, column, and in which draws it varies in time."""
        return time_flags(self)

    def time_dependence(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Tabulate the probability that each class's set varies in time, in any way."""
        flags = self.time_flags()
        weights = self.draws.weights(rule)
        labels = [self.label(name, c) for name, c, _ in flags]
        table = pd.DataFrame({"parameter": [name for name, _, _ in flags]})
        if self.has_groups:
            table["group"] = [group for group, _ in labels]
        table["age_class"] = [age for _, age in labels]
        table["probability"] = [float((weights * flag).sum()) for _, _, flag in flags]
        table["standard_error"] = self._errors([flag for _, _, flag in flags], rule)
        return table

    # --- can it be trusted ------------------------------------------------------------------------------------

    def mixing(self, rule: str = DEFAULT_RULE) -> Mixing:
        """Say whether the chains went everywhere; printed, it warns where they did not."""
        if ("mixing", rule) not in self._kept:
            self._kept["mixing", rule] = mixing_of(self, rule)
        found: Mixing = self._kept["mixing", rule]
        return found

    def assumptions(self) -> list[str]:
        """Say what is taken for granted, in sentences."""
        return assumptions_of(self.counts, self.space)

    def goodness_of_fit(self) -> GoodnessOfFit:
        """Test the Cormack-Jolly-Seber model by TEST 2 and 3, group by group; needs encounter histories."""
        if not isinstance(self.data, Histories):
            raise InputError(
                "TEST 2 and 3 need encounter histories, but arrays or counts were fitted, which do not say what "
                "happened before a release. Fit histories."
            )
        if self.has_states:
            raise InputError("TEST 2 and 3 do not know states. Test the birds of one state by themselves.")
        return goodness_of_fit(self.data)

    def predictive_check(
        self, *, replicates: int = 200, rule: str = DEFAULT_RULE, rng: np.random.Generator | int | None = None
    ) -> PredictiveCheck:
        """Compare the m- and d-arrays with arrays simulated from the posterior."""
        if isinstance(self.data, Counts):
            raise InputError(
                "A predictive check needs the m- and d-arrays, but sufficient statistics were fitted, from "
                "which they cannot be obtained. Fit histories or arrays."
            )
        if self.individuals is not None:
            raise InputError(
                "The predictive check does not know individual covariates yet. Check a fit without them first."
            )
        generator = np.random.default_rng(rng)
        weights = self.draws.weights(rule).ravel()
        chosen = generator.choice(len(weights), size=replicates, p=weights / weights.sum())
        values = np.zeros((replicates, len(PARAMETERS), self.counts.n_intervals, self.counts.n_columns))
        values[:, PARAMETERS.index("F")] = 1.0
        for name in self.parameters:
            table = self._values(name)
            values[:, PARAMETERS.index(name)] = table.reshape(-1, *table.shape[2:])[chosen]
        values[:, 0] = values[:, 0] ** self.counts.lengths[:, None]
        if self.has_states:
            return check_moves(generator, self.counts, values)
        arrays = arrays_of(self.data, self.counts.stages)
        return check_arrays(generator, arrays, values[:, :, self.counts.n_intervals - arrays.n_intervals :])

    def plot_averages(self, parameter: str = "phi", *, ax: Any = None) -> Any:
        """Draw a parameter by year and age class; see `tempering.models.recapture.plots`."""
        from tempering.models.recapture.plots import plot_averages

        return plot_averages(self, parameter, ax=ax)

    def write(self, folder: str | Path, rule: str = DEFAULT_RULE) -> list[Path]:
        """Write all tables as CSV and JSON into a folder, and beside them the data as they were used."""
        from tempering.models.recapture.output import write

        return write(self, folder, rule)

    # --- pieces -----------------------------------------------------------------------------------------------

    def _cells(self) -> list[tuple[str, int, int]]:
        cells = free_cells(self.counts, self.space.present)
        shown = {name: self.columns_of(name) for name in self.parameters}
        return [
            (name, int(t), int(c))
            for name in self.parameters
            for c, t in np.argwhere(cells[PARAMETERS.index(name)].T)
            if c in shown[name]
        ]

    def _values(self, name: str) -> Any:
        if name not in self.draws.values:
            raise InputError(
                f"The draws must hold the values of {name!r}, but only models were kept: keep_values=True."
            )
        return self.draws.values[name]

    def _overlap(self, name: str, x: NDArray[Any], weights: NDArray[np.float64]) -> float:
        from scipy.stats import beta

        edges = np.linspace(0, 1, OVERLAP_BINS + 1)
        bins = np.minimum((x * OVERLAP_BINS).astype(np.intp), OVERLAP_BINS - 1)
        posterior = np.bincount(bins, weights, OVERLAP_BINS)
        prior = np.diff(beta.cdf(edges, *self.space.shape(name)))
        return float(np.minimum(prior, posterior / posterior.sum()).sum())

    def _check(self, parameter: str) -> None:
        if parameter not in self.parameters:
            raise InputError(f"The parameter must be one of {self.parameters}, but is {parameter!r}.")


def arrays_of(data: Histories | ReleaseArrays, stages: Stages = ()) -> ReleaseArrays:
    """Return m- and d-arrays, by stages if there are any."""
    return data.staged(stages)


def _title(name: tuple[str, str]) -> str:
    return " ".join(filter(None, name))
