"""What a fit says: probabilities of models and structures, and values averaged over them, under any rule."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.estimators import DEFAULT_RULE, weighted_quantile
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.csv_files import write_arrays, write_counts
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.likelihood import PARAMETERS, free_cells
from tempering.models.recapture.mixing import Mixing, mixing_of
from tempering.models.recapture.predictive import PredictiveCheck, check_arrays
from tempering.models.recapture.reading import Data
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.spaces import ModelSpace
from tempering.runs.draws import TemperedDraws

OVERLAP_BINS = 40
AVERAGES = ["parameter", "age_class", "year", "mean", "standard_error", "sd", "lower", "upper", "overlap"]
N_ERRORS = 10  # rows of a table of probabilities whose standard errors are worked out
VALUES_AT_ONCE = 2**22  # 32 MiB
LITTLE_SAID = 0.7  # overlap of prior and posterior from which a cell is said to be poorly known


@dataclass(frozen=True, eq=False)
class RecaptureResult:
    """Draws over models, and the questions a study asks of them.

    Attributes
    ----------
    draws : TemperedDraws
        ``values["model"]`` holds the codes of the structures, ``values["phi"]`` and so on the cells (K, A).
    counts : Counts
        The sufficient statistics.
    space : ModelSpace
        The models searched.
    data : Histories, ReleaseArrays or Counts
        What was fitted.
    """

    draws: TemperedDraws
    counts: Counts
    space: ModelSpace
    data: Data
    _kept: dict[tuple[str, float], pd.DataFrame] = field(default_factory=dict, repr=False)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.space.present

    @cached_property
    def _models(self) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        """Distinct models (n, 3), and which of them each draw is."""
        codes = self.draws.values["model"]
        distinct, index = np.unique(codes.reshape(-1, 3), axis=0, return_inverse=True)
        return distinct, index.reshape(codes.shape[:2])

    def model_probabilities(self, rule: str = DEFAULT_RULE, top: int | None = None) -> pd.DataFrame:
        """Tabulate every model visited and its posterior probability, the most probable first."""
        distinct, index = self._models
        return self._probabilities(
            {name: distinct[:, PARAMETERS.index(name)] for name in self.parameters}, index, rule, top
        )

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
        """Return the standard errors of the means of columns (chain, draw), several at once: they share weights."""
        step = max(1, VALUES_AT_ONCE // self.draws.rung.size)
        stacks = (np.stack(columns[i : i + step], axis=-1).astype(float) for i in range(0, len(columns), step))
        errors = [np.ravel(self.draws.combination(stack, rule).standard_error) for stack in stacks]
        return np.concatenate(errors) if errors else np.zeros(0)

    def time_dependence(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Tabulate the probability that each class's group depends on time."""
        places = [(name, j) for name in self.parameters for j in range(self.space.n_classes)]
        flags = [self.draws.values["model"][..., PARAMETERS.index(name)] >> j & 1 for name, j in places]
        weights = self.draws.weights(rule)
        return pd.DataFrame(
            {
                "parameter": [name for name, _ in places],
                "age_class": [self.counts.class_names()[j] for _, j in places],
                "probability": [float((weights * flag).sum()) for flag in flags],
                "standard_error": self._errors(flags, rule),
            }
        )

    def mixing(self, rule: str = DEFAULT_RULE) -> Mixing:
        """Say whether the chains went everywhere; printed, it warns where they did not."""
        return mixing_of(self, rule)

    def averages(self, rule: str = DEFAULT_RULE, interval: float = 0.95) -> pd.DataFrame:
        """Tabulate each value by age and year, averaged over models.

        Returns
        -------
        DataFrame
            With mean, standard error of the mean, standard deviation, the central interval, and ``overlap``,
            the area under both prior and posterior density: near 1 where the data say little.
        """
        if (rule, interval) not in self._kept:
            self._kept[rule, interval] = self._averages(rule, interval)
        return self._kept[rule, interval].copy()

    def _averages(self, rule: str, interval: float) -> pd.DataFrame:
        weights = self.draws.weights(rule).ravel()
        used = np.flatnonzero(weights > 0)
        share = weights[used]
        tail = (1 - interval) / 2
        rows = []
        columns = [self._values(name)[..., t, j] for name, t, j in self._cells()]
        errors = self._errors(columns, rule)
        for (name, t, j), column, error in zip(self._cells(), columns, errors, strict=True):
            x = column.ravel()[used].astype(float)
            mean = float(share @ x)
            deviation = float(np.sqrt(max(share @ (x - mean) ** 2, 0.0)))
            low, high = np.ravel(weighted_quantile(x, share, [tail, 1 - tail]))
            overlap = self._overlap(name, x, share)
            place = (name, self.counts.class_names()[j], int(self.counts.years[t]))
            rows.append((*place, mean, float(error), deviation, float(low), float(high), overlap))
        return pd.DataFrame(rows, columns=AVERAGES)

    def poorly_known(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Return the cells whose posterior is much like their prior."""
        table = self.averages(rule)
        return table[table["overlap"] > LITTLE_SAID].reset_index(drop=True)

    def predictive_check(
        self, *, replicates: int = 200, rule: str = DEFAULT_RULE, rng: np.random.Generator | int | None = None
    ) -> PredictiveCheck:
        """Compare the m- and d-arrays with arrays simulated from the posterior."""
        if isinstance(self.data, Counts):
            raise InputError(
                "A predictive check needs the m- and d-arrays, but sufficient statistics were fitted, from "
                "which they cannot be had. Fit histories or arrays."
            )
        arrays = _arrays_of(self.data)
        generator = np.random.default_rng(rng)
        weights = self.draws.weights(rule).ravel()
        chosen = generator.choice(len(weights), size=replicates, p=weights / weights.sum())
        values = np.zeros((replicates, 3, self.counts.n_intervals, self.counts.n_age_classes))
        for name in self.parameters:
            table = self._values(name)
            values[:, PARAMETERS.index(name)] = table.reshape(-1, *table.shape[2:])[chosen]
        return check_arrays(generator, arrays, values)

    def write(self, folder: str | Path, rule: str = DEFAULT_RULE) -> list[Path]:
        """Write the tables as CSV into a folder, which is made if need be; beside them the data as they were used."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"models": self.model_probabilities(rule), "time_dependence": self.time_dependence(rule)}
        tables |= {f"structures_{name}": self.structure_probabilities(name, rule) for name in self.parameters}
        if self.parameters[0] in self.draws.values:
            tables["averages"] = self.averages(rule)
            if not isinstance(self.data, Counts):
                tables["predictive_check"] = self.predictive_check(rule=rule, rng=0).table()
        tables["rungs"] = self.draws.rungs().reset_index()
        paths = [folder / f"{name}.csv" for name in tables]
        for path, table in zip(paths, tables.values(), strict=True):
            table.to_csv(path, index=False)
        return [*paths, *self._write_data(folder)]

    def _write_data(self, folder: Path) -> list[Path]:
        """Write the sufficient statistics, and the m- and d-arrays where they are known."""
        paths = [folder / "data_counts.csv"]
        write_counts(self.counts, paths[0])
        if not isinstance(self.data, Counts):
            paths.append(folder / "data_arrays.csv")
            write_arrays(_arrays_of(self.data), paths[1])
        return paths

    def _cells(self) -> list[tuple[str, int, int]]:
        cells = free_cells(self.counts)
        return [
            (name, int(t), int(j)) for name in self.parameters for j, t in np.argwhere(cells[PARAMETERS.index(name)].T)
        ]

    def _values(self, name: str) -> Any:
        if name not in self.draws.values:
            raise InputError(
                f"The draws must hold the values of {name!r}, but only models were kept: keep_values=True."
            )
        return self.draws.values[name]

    def _overlap(self, name: str, x: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
        from scipy.stats import beta

        edges = np.linspace(0, 1, OVERLAP_BINS + 1)
        posterior = np.histogram(x, edges, weights=weights)[0]
        prior = np.diff(beta.cdf(edges, *self.space.shape(name)))
        return float(np.minimum(prior, posterior / posterior.sum()).sum())

    def _check(self, parameter: str) -> None:
        if parameter not in self.parameters:
            raise InputError(f"The parameter must be one of {self.parameters}, but is {parameter!r}.")


def _arrays_of(data: Histories | ReleaseArrays) -> ReleaseArrays:
    return data if isinstance(data, ReleaseArrays) else data.to_arrays()
