"""The space of models: for each parameter, its sets of ages and groups and how they vary in time, with a prior."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from math import log, prod
from typing import Any

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.counts import MAX_AGE_CLASSES
from tempering.models.recapture.layout import PARAMETERS
from tempering.models.recapture.stages import STATE, Stages, level_of, terms_of, told_apart
from tempering.models.recapture.structures import (
    CONSTANT,
    YEARLY,
    Labels,
    PartitionTable,
    Structure,
    partition_table,
    rectangles,
    sets_of,
    without_doubles,
)

MAX_COLUMNS = 8


@dataclass(frozen=True)
class ParameterSpace:
    """Structures of one parameter.

    Parameters
    ----------
    n_classes : int
        Age classes, 1 to 8.
    ages : str
        ``"contiguous"`` age groups, ``"free"`` ones; a formula that names what may vary, such as ``"~ age + time +
        sex"``; or one structure in the short notation, which is then fixed.
    groups : tuple of str
        Names of the groups of birds.
    factor : str
        What the groups are called in a formula, such as ``"sex"``.
    times : tuple of str
        Names of year groupings and covariates that a formula may use.
    stages : tuple of str
        Stages after a capture, or states, that are told apart; ``groups`` are then those of each group in turn.
    idle : tuple of int
        Columns that no bird is ever in.
    individual : tuple of str
        Names of individual covariates that a formula may use.

    Examples
    --------
    >>> ParameterSpace(4, "contiguous").count, ParameterSpace(4, "free").count
    (54, 94)
    >>> [ParameterSpace(4, text).count for text in ("{1}(t) {2,3} {4+}", "~ age", "~ time")]
    [1, 8, 2]
    """

    n_classes: int
    ages: str
    groups: tuple[str, ...] = ("",)
    factor: str = "group"
    times: tuple[str, ...] = ()
    stages: Stages = ()
    idle: tuple[int, ...] = ()
    individual: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.n_classes <= MAX_AGE_CLASSES:
            raise InputError(
                f"There must be 1 to {MAX_AGE_CLASSES} age classes, but got {self.n_classes}. "
                "Ask for fewer: the last class takes all older birds."
            )
        if self.n_columns > MAX_COLUMNS:
            raise InputError(
                f"Age classes times groups (and states) must be {MAX_COLUMNS} at most, but {self.n_classes} x "
                f"{len(self.groups)} is {self.n_columns}. Ask for fewer age classes, or join some groups."
            )
        for time in self.options if self.fixed is None else set(self.fixed.times):
            if time not in (CONSTANT, YEARLY, *self.times):
                raise InputError(
                    f"{self.ages!r} names {time!r}, which is neither t nor one of {', '.join(self.times) or 'none'}. "
                    "Give it in year_groups or yearly_covariates."
                )

    @property
    def n_columns(self) -> int:
        """Age classes of all groups."""
        return self.n_classes * len(self.groups)

    @cached_property
    def terms(self) -> frozenset[str]:
        """What may vary, in the words of a formula."""
        factors = {self.factor} if len(self.groups) > (len(self.stages) or 1) else set()
        everything = {"time", *factors, *({STATE} & set(terms_of(self.stages)))}
        if self.ages in ("contiguous", "free"):
            return frozenset({*everything, "age" if self.ages == "contiguous" else "free(age)"})
        if not self.ages.lstrip().startswith("~"):
            return frozenset()
        named = {term.strip() for term in self.ages.lstrip()[1:].split("+")} - {"1", ""}
        known = {"age", "free(age)", "time", *self.times, *factors, *terms_of(self.stages), *self.individual}
        known = {name for name in known if "+" not in name}
        if named - known:
            raise InputError(
                f"{sorted(named - known)[0]!r} in {self.ages!r} is not one of {', '.join(sorted(known))}. A formula "
                "names what may be in or out of a model, joined by plus signs; interactions are always looked at."
            )
        return frozenset(named)

    @cached_property
    def fixed(self) -> Structure | None:
        """The only structure, if the notation names it."""
        if self.ages in ("contiguous", "free") or self.ages.lstrip().startswith("~"):
            return None
        return Structure.parse(self.ages, self.n_classes, self.groups, self.stages)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Ways in which a set may vary in time."""
        if self.fixed:
            return tuple(dict.fromkeys(self.fixed.times))
        yearly = (YEARLY,) if "time" in self.terms else ()
        return (CONSTANT, *yearly, *(name for name in self.times if self._is_named(name)))

    def _is_named(self, time: str) -> bool:
        base, plus, factor = time.partition("+")
        base = "time" if base == YEARLY else base
        return base in self.terms and (not plus or factor in self.terms)

    def options_of(self, columns: Sequence[int]) -> tuple[str, ...]:
        """Ways in which one set may vary: additive effects need two levels that they tell apart."""
        if self.fixed:
            return (self.fixed.times[columns[0]],)
        factors = {time: time.partition("+")[2] for time in self.options}
        return tuple(
            time for time, factor in factors.items()
            if not factor or any(a in columns and b in columns for a, b in self.pairs(factor))
        )  # fmt: skip

    def level(self, column: int, factor: str) -> int:
        """Return the level of a column in a factor."""
        if factor in terms_of(self.stages):
            return level_of(self.stages, factor, self.place(column)[1])
        return self.place(column)[2 if factor == "age" else 0]

    @cached_property
    def partitions(self) -> tuple[Labels, ...]:
        """Ways to make sets of the columns, as rows of labels."""
        if self.fixed:
            return (self.fixed.labels,)
        n_stages = len(self.stages) or 1
        rows = rectangles(self.n_classes, len(self.groups) // n_stages, "free(age)" not in self.terms, n_stages)
        absent = [term for term in self.factors if term not in self.terms]
        if "free(age)" in self.terms:
            absent.remove("age")
        rows = tuple(row for row in rows if not any(self.differs(row, term) for term in absent))
        return without_doubles(rows, self.idle)

    @property
    def factors(self) -> tuple[str, ...]:
        """What may tell columns apart: ages, groups, stages after a capture."""
        return ("age", self.factor, *terms_of(self.stages))

    def differs(self, row: Labels, term: str) -> bool:
        """Whether a partition tells two columns apart that differ in one factor alone."""
        return any(row[a] != row[b] for a, b in self.pairs(term))

    def place(self, column: int) -> tuple[int, int, int]:
        """Return group, stage and age of a column."""
        group, age = divmod(column, self.n_classes)
        return (*divmod(group, len(self.stages) or 1), age)

    def pairs(self, term: str) -> list[tuple[int, int]]:
        """List the columns that differ in one factor alone; those that no bird is ever in are left out."""
        return self._pairs[term]

    @cached_property
    def _pairs(self) -> dict[str, list[tuple[int, int]]]:
        return {term: self._pairs_of(term) for term in self.factors}

    def _pairs_of(self, term: str) -> list[tuple[int, int]]:
        axis = {self.factor: 0, "age": 2}.get(term, 1)
        used = [c for c in range(self.n_columns) if c not in self.idle]
        found = []
        for a, b in combinations(used, 2):
            one, two = self.place(a), self.place(b)
            if [x for x in range(3) if one[x] != two[x]] == [axis]:
                is_stage = axis == 1
                if not is_stage or {self.stages[one[1]], self.stages[two[1]]} <= set(told_apart(self.stages, term)):
                    found.append((a, b))
        return found

    @property
    def count(self) -> int:
        """Number of sub-models."""
        if self.fixed:
            return 1
        n = sum(prod(len(self.options_of(columns)) for columns in sets_of(row)) for row in self.partitions)
        return int(n * 2 ** len(self.slopes))

    @property
    def slopes(self) -> tuple[str, ...]:
        """Individual covariates that may be in."""
        return tuple(name for name in self.individual if name in self.terms)

    def structures(self) -> list[Structure]:
        """List all sub-models."""
        if self.fixed:
            return [self.fixed]
        return [
            Structure(labels, tuple(times[s] for s in labels), self.groups, self.stages)
            for labels in self.partitions
            for times in product(*(self.options_of(columns) for columns in sets_of(labels)))
        ]


@dataclass(frozen=True)
class ModelSpace:
    """Product of the spaces of all parameters, with priors.

    Parameters
    ----------
    n_classes : int
        Age classes.
    phi, p, lambda_, fidelity, seniority, movement, destination : str
        As ``ages`` in `ParameterSpace`; the defaults give the 477 144 models of King & Brooks (2002).
    model_prior : str
        ``"models"``: uniform over models. ``"structures"``: uniform over age structures, then over time
        dependence.
    beta : dict
        (a, b) of the Beta prior on the values of each parameter; (1, 1), uniform, if not named.
    present : tuple of str
        The parameters that the study can speak of.
    groups, factor, times, stages, idle, individual
        As in `ParameterSpace`.

    Examples
    --------
    >>> ModelSpace(4).count
    477144
    >>> ModelSpace(4, p="contiguous", present=("phi", "p")).count
    2916
    >>> ModelSpace(1, "~ sex", "~ 1", present=("phi", "p"), groups=("female", "male"), factor="sex").count
    2
    """

    n_classes: int = 4
    phi: str = "contiguous"
    p: str = "free"
    lambda_: str = "free"
    model_prior: str = "models"
    beta: dict[str, tuple[float, float]] = field(default_factory=dict)
    present: tuple[str, ...] = ("phi", "p", "lambda")
    fidelity: str = "~ 1"
    groups: tuple[str, ...] = ("",)
    factor: str = "group"
    times: tuple[str, ...] = ()
    stages: Stages = ()
    idle: tuple[int, ...] = ()
    individual: tuple[str, ...] = ()
    seniority: str = "~ 1"
    movement: str = "~ 1"
    destination: str = "~ 1"

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

    @property
    def n_columns(self) -> int:
        """Age classes of all groups."""
        return self.n_classes * len(self.groups)

    def space(self, name: str) -> ParameterSpace:
        """Return the space of one parameter; one that the study cannot speak of has a single structure."""
        return self._spaces[name]

    @cached_property
    def _spaces(self) -> dict[str, ParameterSpace]:
        given = (self.phi, self.p, self.lambda_, self.fidelity, self.seniority, self.movement, self.destination)
        texts = dict(zip(PARAMETERS, given, strict=True))
        absent = Structure((0,) * self.n_columns, (CONSTANT,) * self.n_columns, self.groups, self.stages)
        return {
            name: ParameterSpace(
                self.n_classes,
                text if name in self.present else str(absent),
                self.groups,
                self.factor,
                self.times,
                self.stages,
                self.idle,
                self.individual,
            )
            for name, text in texts.items()
        }

    @cached_property
    def all_times(self) -> tuple[str, ...]:
        """Every way to vary in time, in the numbering of a chain."""
        return (CONSTANT, YEARLY, *self.times)

    def shape(self, name: str) -> tuple[float, float]:
        """Return (a, b) of the Beta prior."""
        return self.beta.get(name, (1.0, 1.0))

    @property
    def count(self) -> int:
        """Number of models."""
        return prod(self.space(name).count for name in self.present)

    @cached_property
    def partitions(self) -> tuple[Labels, ...]:
        """Partitions of all parameters together, which a chain indexes."""
        found = {row for name in PARAMETERS for row in self.space(name).partitions}
        return tuple(sorted(found))

    @cached_property
    def _index(self) -> dict[Labels, int]:
        return {row: i for i, row in enumerate(self.partitions)}

    def table(self, name: str) -> PartitionTable:
        """Moves between the partitions of one parameter, as indices into `partitions`."""
        return partition_table(self.partitions, self.space(name).partitions)

    def structure(self, code: int) -> Structure:
        """Decode a partition and, as digits, the time structure of each column."""
        base = len(self.all_times)
        partition, digits = divmod(int(code), base**self.n_columns)
        times = tuple(self.all_times[digits // base**c % base] for c in range(self.n_columns))
        return Structure(self.partitions[partition], times, self.groups, self.stages)

    def times_of(self, codes: Any) -> Any:
        """Return the numbers of the time structures (..., column) of an array of codes."""
        base = len(self.all_times)
        return np.asarray(codes)[..., None] // base ** np.arange(self.n_columns) % base

    def code(self, structure: Structure) -> int:
        """Encode a structure as `structure` decodes it."""
        base = len(self.all_times)
        digits = sum(self.all_times.index(time) * base**c for c, time in enumerate(structure.times))
        return int(self._index[structure.labels] * base**self.n_columns + digits)

    def log_prior_of_set(self, name: str, columns: Sequence[int]) -> float:
        """Return what a set adds to the log prior of a model."""
        return -log(len(self.space(name).options_of(columns))) if self.model_prior == "structures" else 0.0
