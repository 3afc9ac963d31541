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
from tempering.problems import (
    data_posteriors,
    from_problems,
    mixture_toys,
    nested_toys,
    physics_toys,
    shape_toys,
    ultranest_toys,
)
from tempering.problems.cox_process import cox_process
from tempering.problems.known import KnownTarget

if TYPE_CHECKING:
    import pandas as pd

MAKERS: dict[str, Callable[[], KnownTarget]] = {
    # mixtures
    "paper-mixture": from_problems.paper_mixture,
    "four-modes": mixture_toys.four_modes,
    "gmm-9": mixture_toys.gmm9,
    "grid-25": mixture_toys.grid25,
    "gmm-40": mixture_toys.gmm40,
    "gmm-40-bare": lambda: mixture_toys.gmm40(with_prior=False),
    "ring": from_problems.ring_of_modes,
    "eight-gaussians": mixture_toys.eight_gaussians,
    "challenging": mixture_toys.challenging,
    "unequal-modes-5": from_problems.unequal_posterior,
    "unequal-modes-20": lambda: from_problems.unequal_posterior(20),
    "five-modes": from_problems.five_hidden,
    "two-modes-25": from_problems.two_hidden,
    "twin-modes-8": lambda: mixture_toys.twin_modes(8),
    "twin-modes-32": lambda: mixture_toys.twin_modes(32),
    "twin-modes-128": mixture_toys.twin_modes,
    "twin-modes-1000": lambda: mixture_toys.twin_modes(1000),
    "two-in-cube-2": mixture_toys.two_in_cube,
    "two-in-cube-10": lambda: mixture_toys.two_in_cube(10),
    # heavy tails
    "cauchy-modes": mixture_toys.cauchy_modes,
    "student-modes-4": mixture_toys.student_modes,
    # shapes
    "normal-1": lambda: mixture_toys.plain_normal(1),
    "normal-10": mixture_toys.plain_normal,
    "normal-50": lambda: mixture_toys.plain_normal(50),
    "skewed-5": from_problems.skewed_body,
    "banana": from_problems.banana,
    "funnel-10": shape_toys.funnel,
    "funnel-30": lambda: shape_toys.funnel(30),
    "funnel-3-careless": lambda: shape_toys.funnel(3, careless=True),
    "rings-4": shape_toys.rings,
    "walled-modes": shape_toys.walled_modes,
    # of nested samplers
    "eggbox": nested_toys.eggbox,
    "shells-2": lambda: nested_toys.shells(2),
    "shells-5": nested_toys.shells,
    "shells-30": lambda: nested_toys.shells(30),
    "log-gamma-2": lambda: nested_toys.log_gamma(2),
    "log-gamma-4": nested_toys.log_gamma,
    "log-gamma-10": lambda: nested_toys.log_gamma(10),
    "spike-and-slab-5": lambda: nested_toys.spike_and_slab(5),
    "spike-and-slab-20": nested_toys.spike_and_slab,
    "rosenbrock-2": nested_toys.rosenbrock,
    "rosenbrock-pairs-10": lambda: nested_toys.rosenbrock(5, 10.0, 10.0),
    "rosenbrock-pairs-30": lambda: nested_toys.rosenbrock(15, 10.0, 10.0),
    "unequal-scales-10": ultranest_toys.unequal_scales,
    "correlated-10": ultranest_toys.correlated,
    "pyramid-4": ultranest_toys.pyramid,
    "thin-shell-4": ultranest_toys.thin_shell,
    # of physics
    "many-well-8": lambda: physics_toys.many_well(8),
    "many-well-32": physics_toys.many_well,
    "many-well-64": lambda: physics_toys.many_well(64),
    "phi4-chain-16": lambda: physics_toys.phi4_chain(16),
    "phi4-chain-100": physics_toys.phi4_chain,
    "phi4-chain-400": lambda: physics_toys.phi4_chain(400),
    "phi4-lattice-196": physics_toys.phi4_lattice,
    # posteriors
    "regression-3": from_problems.regression,
    "logistic-4": from_problems.small_logistic,
    "eight-schools": data_posteriors.eight_schools,
    "sinusoid": data_posteriors.sinusoid,
    "galaxies": data_posteriors.galaxies,
    "labels": from_problems.labels,
    "sensors": from_problems.sensor_network,
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
                f"There is no target {name!r} in the suite. "
                + (f"Similar names: {near}." if near else "See list(suite).")
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
