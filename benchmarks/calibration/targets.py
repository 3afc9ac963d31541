"""The targets of the judging set, and the rule that splits them."""

import hashlib
from collections.abc import Callable
from functools import cache

from tempering.problems import (
    data_posteriors,
    from_problems,
    mixture_toys,
    nested_toys,
    physics_toys,
    shape_toys,
)
from tempering.problems.known import KnownTarget

MAKERS: dict[str, Callable[[], KnownTarget]] = {
    "banana": from_problems.banana,
    "cauchy-modes": mixture_toys.cauchy_modes,
    "challenging": mixture_toys.challenging,
    "eggbox": nested_toys.eggbox,
    "eight-gaussians": mixture_toys.eight_gaussians,
    "eight-schools": data_posteriors.eight_schools,
    "five-modes": from_problems.five_hidden,
    "four-modes": mixture_toys.four_modes,
    "funnel-10": shape_toys.funnel,
    "funnel-3-careless": lambda: shape_toys.funnel(3, careless=True),
    "galaxies": data_posteriors.galaxies,
    "gmm-40": mixture_toys.gmm40,
    "gmm-40-bare": lambda: mixture_toys.gmm40(with_prior=False),
    "gmm-9": mixture_toys.gmm9,
    "labels": from_problems.labels,
    "log-gamma-10": lambda: nested_toys.log_gamma(10),
    "log-gamma-4": nested_toys.log_gamma,
    "logistic-4": from_problems.small_logistic,
    "many-well-8": lambda: physics_toys.many_well(8),
    "normal-1": lambda: mixture_toys.plain_normal(1),
    "normal-10": mixture_toys.plain_normal,
    "normal-50": lambda: mixture_toys.plain_normal(50),
    "paper-mixture": from_problems.paper_mixture,
    "phi4-chain-100": physics_toys.phi4_chain,
    "phi4-chain-16": lambda: physics_toys.phi4_chain(16),
    "regression-3": from_problems.regression,
    "ring": from_problems.ring_of_modes,
    "rings-4": shape_toys.rings,
    "rosenbrock-2": nested_toys.rosenbrock,
    "rosenbrock-pairs-10": lambda: nested_toys.rosenbrock(5, 10.0, 10.0),
    "sensors": from_problems.sensor_network,
    "shells-2": lambda: nested_toys.shells(2),
    "shells-5": nested_toys.shells,
    "sinusoid": data_posteriors.sinusoid,
    "skewed-5": from_problems.skewed_body,
    "spike-and-slab-20": nested_toys.spike_and_slab,
    "spike-and-slab-5": lambda: nested_toys.spike_and_slab(5),
    "student-modes-4": mixture_toys.student_modes,
    "twin-modes-128": mixture_toys.twin_modes,
    "twin-modes-32": lambda: mixture_toys.twin_modes(32),
    "twin-modes-8": lambda: mixture_toys.twin_modes(8),
    "two-in-cube-10": lambda: mixture_toys.two_in_cube(10),
    "two-in-cube-2": mixture_toys.two_in_cube,
    "two-modes-25": from_problems.two_hidden,
    "unequal-modes-5": from_problems.unequal_posterior,
    "walled-modes": shape_toys.walled_modes,
}
HALVES = ("tuning", "judging")


def half_of(name: str) -> str:
    """Return "tuning" or "judging": the last bit of a digest of the name."""
    return HALVES[hashlib.sha256(name.encode()).digest()[-1] % 2]


def names_of(half: str) -> list[str]:
    """Return the targets of one half, or of "both"."""
    return [name for name in MAKERS if half in ("both", half_of(name))]


@cache
def target_of(name: str) -> KnownTarget:
    """Return a target by its name."""
    return MAKERS[name]()
