"""The targets of the judging set, and the rule that splits them."""

import hashlib

from tempering import problems
from tempering.problems import KnownTarget

NAMES = (
    "banana",
    "cauchy-modes",
    "challenging",
    "eggbox",
    "eight-gaussians",
    "eight-schools",
    "five-modes",
    "four-modes",
    "funnel-10",
    "funnel-3-careless",
    "galaxies",
    "gmm-40",
    "gmm-40-bare",
    "gmm-9",
    "labels",
    "log-gamma-10",
    "log-gamma-4",
    "logistic-4",
    "many-well-8",
    "normal-1",
    "normal-10",
    "normal-50",
    "paper-mixture",
    "phi4-chain-100",
    "phi4-chain-16",
    "regression-3",
    "ring",
    "rings-4",
    "rosenbrock-2",
    "rosenbrock-pairs-10",
    "sensors",
    "shells-2",
    "shells-5",
    "sinusoid",
    "skewed-5",
    "spike-and-slab-20",
    "spike-and-slab-5",
    "student-modes-4",
    "twin-modes-128",
    "twin-modes-32",
    "twin-modes-8",
    "two-in-cube-10",
    "two-in-cube-2",
    "two-modes-25",
    "unequal-modes-5",
    "walled-modes",
)
HALVES = ("tuning", "judging")


def half_of(name: str) -> str:
    """Return "tuning" or "judging": the last bit of a digest of the name."""
    return HALVES[hashlib.sha256(name.encode()).digest()[-1] % 2]


def names_of(half: str) -> list[str]:
    """Return the targets of one half, or of "both"."""
    return [name for name in NAMES if half in ("both", half_of(name))]


def target_of(name: str) -> KnownTarget:
    """Return a target by its name."""
    return problems.suite()[name]
