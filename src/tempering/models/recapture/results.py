"""What a fit says: probabilities of models and structures, and values averaged over them, under any rule."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.draws import TemperedDraws
from tempering.errors import InputError
from tempering.estimators import DEFAULT_RULE, weighted_quantile
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.likelihood import PARAMETERS, free_cells
from tempering.models.recapture.predictive import PredictiveCheck, check_arrays
from tempering.models.recapture.reading import Data
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.spaces import ModelSpace

OVERLAP_BINS = 40
AVERAGES = ["parameter", "age_class", "year", "mean", "standard_error", "sd", "lower", "upper", "overlap"]
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
        errors = [self._error_of(index == i, rule) for i in order[:10]]
        errors += [np.nan] * (len(order) - len(errors))
        return pd.DataFrame({**named, "probability": total[order], "standard_error": errors})

    def _error_of(self, event: NDArray[np.bool_], rule: str) -> float:
        return float(self.draws.combination(event.astype(float), rule).standard_error)

    def time_dependence(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Tabulate the probability that each class's group depends on time."""
        rows = []
        for name in self.parameters:
            codes = self.draws.values["model"][..., PARAMETERS.index(name)]
            for j, label in enumerate(self.counts.class_names()):
                combined = self.draws.combination((codes >> j & 1).astype(float), rule)
                rows.append((name, label, float(combined.estimate), float(combined.standard_error)))
        return pd.DataFrame(rows, columns=["parameter", "age_class", "probability", "standard_error"])

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
        for name, t, j in self._cells():
            column = self._values(name)[..., t, j]
            error = float(self.draws.combination(column.astype(float), rule).standard_error)
            x = column.ravel()[used].astype(float)
            mean = float(share @ x)
            deviation = float(np.sqrt(max(share @ (x - mean) ** 2, 0.0)))
            low, high = np.ravel(weighted_quantile(x, share, [tail, 1 - tail]))
            overlap = self._overlap(name, x, share)
            place = (name, self.counts.class_names()[j], int(self.counts.years[t]))
            rows.append((*place, mean, error, deviation, float(low), float(high), overlap))
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
        arrays = self.data if isinstance(self.data, ReleaseArrays) else self.data.to_arrays()
        generator = np.random.default_rng(rng)
        weights = self.draws.weights(rule).ravel()
        chosen = generator.choice(len(weights), size=replicates, p=weights / weights.sum())
        values = np.zeros((replicates, 3, self.counts.n_intervals, self.counts.n_age_classes))
        for name in self.parameters:
            table = self._values(name)
            values[:, PARAMETERS.index(name)] = table.reshape(-1, *table.shape[2:])[chosen]
        return check_arrays(generator, arrays, values)

    def write(self, folder: str | Path, rule: str = DEFAULT_RULE) -> list[Path]:
        """Write the tables as CSV into a folder, which is made if need be."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"models": self.model_probabilities(rule), "time_dependence": self.time_dependence(rule)}
        tables |= {f"structures_{name}": self.structure_probabilities(name, rule) for name in self.parameters}
        if self.parameters[0] in self.draws.values:
            tables["averages"] = self.averages(rule)
        tables["rungs"] = self.draws.rungs().reset_index()
        paths = [folder / f"{name}.csv" for name in tables]
        for path, table in zip(paths, tables.values(), strict=True):
            table.to_csv(path, index=False)
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
