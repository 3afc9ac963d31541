"""The space of models: for each parameter, its age structures and time dependence, and a prior over them."""

from dataclasses import dataclass, field
from functools import cached_property
from math import comb, log

from tempering.errors import InputError
from tempering.models.recapture.counts import MAX_AGE_CLASSES
from tempering.models.recapture.likelihood import PARAMETERS
from tempering.models.recapture.partitions import (
    Labels,
    PartitionTable,
    all_partitions,
    most_splits,
    partition_table,
)
from tempering.models.recapture.structures import Structure


@dataclass(frozen=True)
class ParameterSpace:
    """Structures of one parameter.

    Parameters
    ----------
    n_classes : int
        Age classes, 1 to 8.
    ages : str
        ``"contiguous"`` groups, ``"free"`` groups, or one structure in the short notation, which is then
        fixed.

    Examples
    --------
    >>> ParameterSpace(4, "contiguous").count, ParameterSpace(4, "free").count
    (54, 94)
    >>> ParameterSpace(4, "{1}(t) {2,3} {4+}").count
    1
    """

    n_classes: int
    ages: str

    def __post_init__(self) -> None:
        if not 1 <= self.n_classes <= MAX_AGE_CLASSES:
            raise InputError(
                f"There must be 1 to {MAX_AGE_CLASSES} age classes, but got {self.n_classes}. "
                "Ask for fewer: the last class takes all older birds."
            )
        if self.ages not in ("contiguous", "free"):
            Structure.parse(self.ages, self.n_classes)

    @property
    def fixed(self) -> Structure | None:
        """The only structure, if the notation names it."""
        return None if self.ages in ("contiguous", "free") else Structure.parse(self.ages, self.n_classes)

    @cached_property
    def partitions(self) -> tuple[Labels, ...]:
        """Age structures, as rows of labels."""
        return (self.fixed.labels,) if self.fixed else all_partitions(self.n_classes, self.ages == "contiguous")

    @property
    def count(self) -> int:
        """Number of sub-models by formula: 2 * 3^(A-1) if contiguous, sum_g S(A, g) 2^g if free."""
        if self.fixed:
            return 1
        if self.ages == "contiguous":
            return 2 * int(3 ** (self.n_classes - 1))
        return sum(_stirling(self.n_classes, g) << g for g in range(1, self.n_classes + 1))

    def structures(self) -> list[Structure]:
        """List all sub-models."""
        if self.fixed:
            return [self.fixed]
        return [
            Structure(labels, tuple(bool(flags >> g & 1) for g in labels))
            for labels in self.partitions
            for flags in range(2 ** (max(labels) + 1))
        ]


@dataclass(frozen=True)
class ModelSpace:
    """Product of the spaces of phi, p and lambda, with priors.

    Parameters
    ----------
    n_classes : int
        Age classes.
    phi, p, lambda_ : str
        As ``ages`` in `ParameterSpace`; the defaults give the 477 144 models of King & Brooks (2002).
    model_prior : str
        ``"models"``: uniform over models. ``"structures"``: uniform over age structures, then over time
        dependence.
    beta : dict
        (a, b) of the Beta prior on the values of each parameter; (1, 1), uniform, if not named.
    present : tuple of str
        The parameters that the study can speak of.

    Examples
    --------
    >>> ModelSpace(4).count
    477144
    >>> ModelSpace(4, p="contiguous", present=("phi", "p")).count
    2916
    """

    n_classes: int = 4
    phi: str = "contiguous"
    p: str = "free"
    lambda_: str = "free"
    model_prior: str = "models"
    beta: dict[str, tuple[float, float]] = field(default_factory=dict)
    present: tuple[str, ...] = PARAMETERS

    def __post_init__(self) -> None:
        if self.model_prior not in ("models", "structures"):
            raise InputError(f"The model prior must be 'models' or 'structures', but is {self.model_prior!r}.")
        for name, shape in self.beta.items():
            if name not in PARAMETERS or len(shape) != 2 or min(shape) <= 0:
                raise InputError(
                    f"A Beta prior must be two positive numbers for one of {PARAMETERS}: {name} {shape}. "
                    "Write for example priors={'phi': (1, 1)}."
                )
        for name in PARAMETERS:
            self.space(name)

    def space(self, name: str) -> ParameterSpace:
        """Return the space of one parameter; one that the study cannot speak of has a single structure."""
        if name not in self.present:
            return ParameterSpace(self.n_classes, "{" + ",".join(map(str, range(1, self.n_classes + 1))) + "}")
        return ParameterSpace(self.n_classes, getattr(self, "lambda_" if name == "lambda" else name))

    def shape(self, name: str) -> tuple[float, float]:
        """Return (a, b) of the Beta prior."""
        return self.beta.get(name, (1.0, 1.0))

    @property
    def count(self) -> int:
        """Number of models."""
        product = 1
        for name in self.present:
            product *= self.space(name).count
        return product

    @cached_property
    def partitions(self) -> tuple[Labels, ...]:
        """Age structures of all parameters together, which a chain indexes."""
        found = {row for name in PARAMETERS for row in self.space(name).partitions}
        return tuple(sorted(found))

    def table(self, name: str) -> PartitionTable:
        """Moves between the age structures of one parameter, as indices into `partitions`."""
        space = self.space(name)
        any_free = any(self.space(n).ages == "free" for n in PARAMETERS)
        width = most_splits(self.n_classes, not any_free)
        return partition_table(self.partitions, space.partitions, space.ages == "contiguous", width)

    def structure(self, code: int) -> Structure:
        """Decode ``partition * 2^A + bits``, where bit j says whether class j depends on time."""
        partition, bits = divmod(int(code), 1 << self.n_classes)
        timed = tuple(bool(bits >> j & 1) for j in range(self.n_classes))
        return Structure(self.partitions[partition], timed)

    def code(self, structure: Structure) -> int:
        """Encode a structure as `structure` decodes it."""
        bits = sum(1 << j for j, timed in enumerate(structure.timed) if timed)
        return (self.partitions.index(structure.labels) << self.n_classes) + bits

    @property
    def log_prior_per_group(self) -> float:
        """By how much a further age group changes the log prior of a model."""
        return -log(2.0) if self.model_prior == "structures" else 0.0


def _stirling(n: int, k: int) -> int:
    """Number of partitions of n things into k groups."""
    total = sum((-1 if i % 2 else 1) * comb(k, i) * int((k - i) ** n) for i in range(k + 1))
    factorial = 1
    for i in range(2, k + 1):
        factorial *= i
    return total // factorial
