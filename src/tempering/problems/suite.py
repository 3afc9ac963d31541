"""The suite: hard targets of the literature and our own, by name, each with its answers.

    >>> from tempering import problems
    >>> suite = problems.suite()
    >>> target = suite["funnel-10"]
    >>> target.dimension, target.evidence.log_value
    (10, 0.0)

The same makers take other dimensions: ``problems.funnel(30)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from tempering.errors import TargetError
from tempering.problems.cox_process import cox_process
from tempering.problems.data_posteriors import eight_schools, galaxies, sinusoid
from tempering.problems.from_problems import (
    banana,
    five_hidden,
    labels,
    paper_mixture,
    regression,
    ring_of_modes,
    sensor_network,
    skewed_body,
    small_logistic,
    two_hidden,
    unequal_posterior,
)
from tempering.problems.known import KnownTarget
from tempering.problems.mixture_toys import (
    cauchy_modes,
    challenging,
    eight_gaussians,
    four_modes,
    gmm9,
    gmm40,
    grid25,
    plain_normal,
    student_modes,
    twin_modes,
    two_in_cube,
)
from tempering.problems.nested_toys import eggbox, log_gamma, rosenbrock, shells, spike_and_slab
from tempering.problems.physics_toys import many_well, phi4_chain, phi4_lattice
from tempering.problems.shape_toys import funnel, rings, walled_modes
from tempering.problems.ultranest_toys import correlated, pyramid, thin_shell, unequal_scales

if TYPE_CHECKING:
    import pandas as pd

MAKERS: dict[str, Callable[[], KnownTarget]] = {
    # mixtures
    "paper-mixture": paper_mixture,
    "four-modes": four_modes,
    "gmm-9": gmm9,
    "grid-25": grid25,
    "gmm-40": gmm40,
    "gmm-40-bare": lambda: gmm40(with_prior=False),
    "ring": ring_of_modes,
    "eight-gaussians": eight_gaussians,
    "challenging": challenging,
    "unequal-modes-5": unequal_posterior,
    "unequal-modes-20": lambda: unequal_posterior(20),
    "five-modes": five_hidden,
    "two-modes-25": two_hidden,
    "twin-modes-8": lambda: twin_modes(8),
    "twin-modes-32": lambda: twin_modes(32),
    "twin-modes-128": twin_modes,
    "twin-modes-1000": lambda: twin_modes(1000),
    "two-in-cube-2": two_in_cube,
    "two-in-cube-10": lambda: two_in_cube(10),
    # heavy tails
    "cauchy-modes": cauchy_modes,
    "student-modes-4": student_modes,
    # shapes
    "normal-1": lambda: plain_normal(1),
    "normal-10": plain_normal,
    "normal-50": lambda: plain_normal(50),
    "skewed-5": skewed_body,
    "banana": banana,
    "funnel-10": funnel,
    "funnel-30": lambda: funnel(30),
    "funnel-3-careless": lambda: funnel(3, careless=True),
    "rings-4": rings,
    "walled-modes": walled_modes,
    # of nested samplers
    "eggbox": eggbox,
    "shells-2": lambda: shells(2),
    "shells-5": shells,
    "shells-30": lambda: shells(30),
    "log-gamma-2": lambda: log_gamma(2),
    "log-gamma-4": log_gamma,
    "log-gamma-10": lambda: log_gamma(10),
    "spike-and-slab-5": lambda: spike_and_slab(5),
    "spike-and-slab-20": spike_and_slab,
    "rosenbrock-2": rosenbrock,
    "rosenbrock-pairs-10": lambda: rosenbrock(5, 10.0, 10.0),
    "rosenbrock-pairs-30": lambda: rosenbrock(15, 10.0, 10.0),
    "unequal-scales-10": unequal_scales,
    "correlated-10": correlated,
    "pyramid-4": pyramid,
    "thin-shell-4": thin_shell,
    # of physics
    "many-well-8": lambda: many_well(8),
    "many-well-32": many_well,
    "many-well-64": lambda: many_well(64),
    "phi4-chain-16": lambda: phi4_chain(16),
    "phi4-chain-100": phi4_chain,
    "phi4-chain-400": lambda: phi4_chain(400),
    "phi4-lattice-196": phi4_lattice,
    # posteriors
    "regression-3": regression,
    "logistic-4": small_logistic,
    "eight-schools": eight_schools,
    "sinusoid": sinusoid,
    "galaxies": galaxies,
    "labels": labels,
    "sensors": sensor_network,
    "cox-8x8": lambda: cox_process(8),
    "cox-16x16": lambda: cox_process(16),
    "cox-32x32": cox_process,
}


class Suite(Mapping[str, KnownTarget]):
    """The targets by name, made when they are asked for."""

    def __getitem__(self, name: str) -> KnownTarget:
        """Return a target."""
        if name not in MAKERS:
            near = ", ".join(known for known in MAKERS if known.split("-")[0] == name.split("-")[0])
            raise TargetError(
                f"There is no target {name!r} in the suite. " + (f"Near it are {near}." if near else "See list(suite).")
            )
        return _made(name)

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(MAKERS)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(MAKERS)

    def table(self) -> pd.DataFrame:
        """Return what there is: dimension, modes, prior, log evidence with its accuracy and provenance, and source."""
        import pandas as pd

        return pd.DataFrame([_row(target) for target in self.values()]).set_index("name")

    def __repr__(self) -> str:
        return f"Suite({len(self)} targets: {', '.join(MAKERS)})"


@cache
def _made(name: str) -> KnownTarget:
    return MAKERS[name]()


def _row(target: KnownTarget) -> dict[str, object]:
    evidence = target.evidence
    return {
        "name": target.name,
        "title": target.title,
        "dimension": target.dimension,
        "modes": None if target.modes is None else len(target.modes.masses),
        "prior": type(target.prior).__name__.removesuffix("Prior").strip("_").lower() if target.has_prior else "",
        "exact_draws": target.exact is not None,
        "log_evidence": None if evidence is None else evidence.log_value,
        "accuracy": None if evidence is None else evidence.accuracy,
        "provenance": "" if evidence is None else evidence.provenance,
        "source": target.source,
    }


def suite() -> Suite:
    """Return all targets whose answers are known.

    Examples
    --------
    >>> targets = suite()
    >>> len(targets) > 50, targets["eggbox"].title
    (True, 'the eggbox, 18 modes, d = 2')
    """
    return Suite()
