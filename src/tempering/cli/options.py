"""The options of ``tempering sample`` in groups: the chains, their tuning, where they run, where results go."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tempering.models.option_groups import option

if TYPE_CHECKING:
    from tempering.sampling.options import Execution, Tuning

CHAINS, TUNING, WHERE, RESULTS = "Options", "Tuning", "Where it runs", "Results"


@dataclass(frozen=True)
class ChainOptions:
    """What the run is: what people change from call to call."""

    initial: Annotated[str | None, option(CHAINS, 'Where chains start, as JSON: 0, [0, 1] or {"a": 0}.')] = None
    ladder: Annotated[str | None, option(CHAINS, "Inverse temperatures, 1,0.5,0.1; tuned by default.")] = None
    method: Annotated[str, option(CHAINS, "simulated, parallel or sequential.")] = "simulated"
    kernel: Annotated[
        str | None, option(CHAINS, "random_walk, slice, hamiltonian, nuts, ... or MODULE:NAME of your own.")
    ] = None
    draws: Annotated[int | None, option(CHAINS, "Iterations kept of each chain; some 10,000 by default.")] = None
    chains: Annotated[int | None, option(CHAINS, "Number of chains, or of ensembles.")] = None
    seed: Annotated[int | None, option(CHAINS, "Equal seeds give equal draws.")] = None
    rung_moves: Annotated[str | None, option(CHAINS, "How chains move between rungs.")] = None
    path: Annotated[
        str | None, option(CHAINS, "two_legs, powers, prior, reference, or MODULE:NAME of your own reference.")
    ] = None

    def given(self) -> dict[str, Any]:
        """Return them as `tempering.sample` takes them."""
        from tempering.cli.user_files import parse_kernel, parse_path, parse_position
        from tempering.path.ladder import parse_ladder
        from tempering.sampling.options import Method

        return {
            "initial": parse_position(self.initial),
            "ladder": parse_ladder(self.ladder),
            "method": Method(self.method, self.rung_moves or ""),
            "kernel": parse_kernel(self.kernel),
            "draws": self.draws,
            "chains": self.chains,
            "rng": self.seed,
            "path": parse_path(self.path),
        }


@dataclass(frozen=True)
class TuningOptions:
    """What happens before draws are kept."""

    tune: Annotated[int | None, option(TUNING, "Iterations of tuning before; by default 5,000 at the most.")] = None
    pseudo_prior: Annotated[
        str | None, option(TUNING, "With a ladder: how the rungs' weights are learnt, or their logs.")
    ] = None
    objective: Annotated[
        str | None, option(TUNING, "What to optimise when the ladder is tuned: hybrid, barrier or ess.")
    ] = None

    def tuning(self) -> "Tuning":
        """Return how the run is tuned."""
        from tempering.cli.user_files import parse_pseudo_prior
        from tempering.sampling.options import Tuning

        return Tuning(self.tune, self.objective, parse_pseudo_prior(self.pseudo_prior))


@dataclass(frozen=True)
class PlaceOptions:
    """Where the chains run."""

    engine: Annotated[str, option(WHERE, "auto, vector or scalar.")] = "auto"
    workers: Annotated[int | None, option(WHERE, "Processes that share the chains.")] = None
    checkpoint: Annotated[Path | None, option(WHERE, "A folder to resume from after a kill.")] = None

    def execution(self) -> "Execution":
        """Return the engine and the checkpoint."""
        from tempering.sampling.options import Execution

        return Execution(engine=self.engine, checkpoint=self.checkpoint)


@dataclass(frozen=True)
class ResultOptions:
    """Where the results go."""

    output: Annotated[Path, option(RESULTS, "Where the run goes.", "--output", "-o")] = Path("run.zarr")
    report: Annotated[Path | None, option(RESULTS, "Where the page goes; by default beside the run.")] = None

    def page(self) -> Path:
        """Refuse places that cannot be written to, before anything is sampled; return that of the page."""
        from tempering.cli.user_files import check_places

        return check_places(self.output, self.report)
