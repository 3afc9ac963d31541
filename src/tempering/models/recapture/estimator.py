"""`MarkRecapture`: from a study's data to answers averaged over all structures."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tempering.errors import InputError
from tempering.estimators import mbar
from tempering.execution.checkpoint import Checkpoint, within
from tempering.models.recapture.model import RecaptureModel, recapture_model
from tempering.models.recapture.reading import Data, as_counts
from tempering.models.recapture.results import RecaptureResult
from tempering.models.recapture.spaces import ModelSpace
from tempering.path.ladder import Ladder
from tempering.runs.draws import TemperedDraws
from tempering.runs.sampling import sample

# Jumps need no hotter rungs: twice the effective draws a second of the paper's 40 down to k = 0.1,
# measured on the synthetic set (benchmarks/recapture.py)
DEFAULT_LADDER = Ladder.geometric(rungs=10, hottest=0.5)


@dataclass(frozen=True)
class MarkRecapture:
    """Search the age and time structures of survival, recapture and recovery by tempered reversible jump.

    Parameters
    ----------
    age_classes : int
        Years of life told apart, 1 to 8; the last class is open.
    phi, p, lambda_ : str
        Structures to search for survival, recapture and recovery: ``"contiguous"`` age groups, ``"free"``
        ones, or a single structure in short notation, such as ``"{1}(t) {2,3} {4+}"``.
    model_prior : str
        ``"models"`` (uniform over models) or ``"structures"`` (over age structures, then time dependence).
    beta : mapping
        (a, b) of the Beta prior of the values of ``"phi"``, ``"p"``, ``"lambda"``; uniform if not named.
    ladder : Ladder or sequence of float, optional
        Inverse temperatures; ten rungs from 1 to 0.5 by default. The paper's are ``Ladder.geometric(40, 0.1)``.
        A ladder may end at 0, the prior.
    method : {"parallel", "simulated"}
        Coupled chains, which need no pseudo-prior; or single chains, whose pseudo-prior a short run of
        coupled chains learns first.
    draws, tune, chains : int
        Iterations kept of each chain, iterations before, and the number of ensembles (of chains, for
        ``"simulated"``).
    keep_values : bool
        Whether draws keep the values of all cells, which averages need, or only the model: 12 bytes a draw
        instead of about 400.

    Examples
    --------
    >>> from tempering.models.recapture import read
    >>> from tempering.data import DIPPER_ARRAY, path_of
    >>> dipper = read(path_of(DIPPER_ARRAY), "arrays")
    >>> study = MarkRecapture(1, phi="{1}", p="{1}", ladder=[1, 0.5], draws=400, tune=64, chains=16)
    >>> result = study.fit(dipper, rng=1, progress=False)
    >>> survival = result.averages().query("parameter == 'phi'")["mean"]
    >>> bool(abs(survival.iloc[0] - 0.56) < 0.02)
    True
    """

    age_classes: int = 4
    phi: str = "contiguous"
    p: str = "free"
    lambda_: str = "free"
    model_prior: str = "models"
    beta: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    ladder: Ladder | Sequence[float] | None = None
    method: str = "parallel"
    draws: int = 3000
    tune: int = 1000
    chains: int = 8
    keep_values: bool = True

    def space(self, present: tuple[str, ...] = ("phi", "p", "lambda")) -> ModelSpace:
        """Return the space of models that is searched; its ``count`` says how many there are."""
        return ModelSpace(self.age_classes, self.phi, self.p, self.lambda_, self.model_prior, dict(self.beta), present)

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

        Parameters
        ----------
        data : Histories, ReleaseArrays or Counts
            As `read` returns them.
        rng : int, Generator or None
            The seed: equal seeds give equal results.
        executor : concurrent.futures.Executor, optional
            Who runs the chains, as for `tempering.sample`; the result is the same to the bit whoever does.
        checkpoint : path or Checkpoint, optional
            A folder where the run is kept while it goes on, as for `tempering.sample`: after a kill the same call
            goes on from there.
        progress : bool
            Show a bar when the output is a terminal.
        """
        if self.method not in ("parallel", "simulated"):
            raise InputError(f"The method must be 'parallel' or 'simulated', but is {self.method!r}.")
        counts = as_counts(data, self.age_classes)
        ladder = self._ladder()
        space = self.space(counts.parameters)
        model = recapture_model(
            counts,
            space,
            keep_values=self.keep_values,
            regenerate=bool(ladder.inverse_temperatures[-1] == 0.0),
        )
        draws = self._sample(model, ladder, checkpoint, rng=rng, executor=executor, progress=progress)
        return RecaptureResult(draws, counts, space, data)

    def _ladder(self) -> Ladder:
        if self.ladder is None:
            return DEFAULT_LADDER
        return self.ladder if isinstance(self.ladder, Ladder) else Ladder(self.ladder)

    def _sample(self, model: RecaptureModel, ladder: Ladder, checkpoint: Any, **how: Any) -> TemperedDraws:
        common: dict[str, Any] = {"ladder": ladder, "checkpoint": within(checkpoint, "draws"), **how}
        if self.method == "parallel":
            coupled: TemperedDraws = sample(
                model, method="parallel", draws=self.draws, tune=self.tune, chains=self.chains, **common
            )
            return coupled
        log_p = learn_pseudo_prior(model, ladder, draws=self.tune, checkpoint=within(checkpoint, "pilot"), **how)
        burnt: TemperedDraws = sample(
            model, draws=self.draws + self.tune, tune=0, chains=self.chains, pseudo_prior=log_p, **common
        )
        return without_first(burnt, self.tune)


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
        model, ladder=ladder, method="parallel", draws=draws, tune=draws, chains=1, rng=rng, executor=executor,
        checkpoint=checkpoint, progress=progress,
    )  # fmt: skip
    return -mbar(pilot.energy, ladder.inverse_temperatures, pilot.rung).log_normalisers


def without_first(draws: TemperedDraws, n: int) -> TemperedDraws:
    """Discard the first ``n`` draws of every chain."""
    from dataclasses import replace

    return replace(
        draws,
        values={name: array[:, n:] for name, array in draws.values.items()},
        rung=draws.rung[:, n:],
        terms=draws.terms[:, n:],
        proposed=draws.proposed[:, n:],
        acceptance=draws.acceptance[:, n:],
        _kept={},
    )
