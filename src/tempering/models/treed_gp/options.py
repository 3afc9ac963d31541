"""The options of ``tempering treed-gp fit`` in groups: the model, and how it is sampled."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tempering.models.option_groups import option

if TYPE_CHECKING:
    from tempering.models.treed_gp.estimator import TreedGP

MODEL, SAMPLING = "Model", "Sampling"


@dataclass(frozen=True)
class Model:
    """What is fitted."""

    leaf: Annotated[str, option(MODEL, "gp_linear, gp, linear or constant.")] = "gp_linear"
    tree: Annotated[bool, option(MODEL, "Partition the input space.")] = True
    correlation: Annotated[str, option(MODEL, "separable, isotropic, matern12, matern32 or matern52.")] = "separable"

    def estimator(self, **sampling: Any) -> "TreedGP":
        """Return the regressor."""
        from tempering.models.treed_gp.estimator import TreedGP
        from tempering.models.treed_gp.settings import Prior

        return TreedGP(leaf=self.leaf, prior=Prior(tree=self.tree, correlation=self.correlation), **sampling)


@dataclass(frozen=True)
class Sampling:
    """How long, by whom, and at which temperatures."""

    draws: Annotated[int | None, option(SAMPLING, "Rounds kept of each chain; by default until chains agree.")] = None
    tune: Annotated[int | None, option(SAMPLING, "Rounds before that; 500, or as many; 2000 above 400 rows.")] = None
    chains: Annotated[int, option(SAMPLING, "Number of chains.")] = 2
    hottest: Annotated[float, option(SAMPLING, "Smallest inverse temperature; 1 does not temper.")] = 0.2
    rule: Annotated[str, option(SAMPLING, "How the temperatures are combined.")] = "mbar"
    seed: Annotated[int | None, option(SAMPLING, "Equal seeds give equal fits.")] = None
    workers: Annotated[int | None, option(SAMPLING, "Share the chains out to so many processes.")] = None
    checkpoint: Annotated[Path | None, option(SAMPLING, "A folder to go on from after a kill.")] = None

    @property
    def settings(self) -> dict[str, Any]:
        """The regressor's settings."""
        from tempering.models.treed_gp.settings import Tempering

        tempering = Tempering(hottest=self.hottest, rule=self.rule)
        lengths = {"draws": self.draws, "tune": self.tune, "chains": self.chains}
        return lengths | {"tempering": tempering, "random_state": self.seed}

    def executor(self) -> AbstractContextManager[Any]:
        """Return the processes asked for, or None."""
        from tempering.execution.workers import processes_or_none

        return processes_or_none(self.workers)
