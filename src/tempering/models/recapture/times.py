"""Ways to vary in time: constant, year by year, by named groups of years, along a covariate, or at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.layout import BLOCKS, PARALLEL, TREND, Floats, Ints
from tempering.models.recapture.layout import RANDOM as RANDOM_KIND
from tempering.models.recapture.structures import CONSTANT, RANDOM, YEARLY

SLOPE_SD = 1.0  # prior deviation of a slope, on the logit scale per deviation of the covariate
SIGMA_SCALE = 1.0  # of the half-normal prior of the deviation of year effects, on the logit scale


@dataclass(frozen=True, eq=False)
class TimeStructures:
    """All ways in which a set of columns may vary over K intervals.

    ``names`` (n,); ``labels`` (n, K), the block of each interval; ``n_blocks`` (n,); ``kinds`` (n,); ``offsets`` (n,),
    where the laws of a structure's blocks begin; ``covariates`` (n, K), standardised; ``bases`` (n,), the structure
    whose blocks an additive one (``"t+sex"``) has, or itself.
    """

    names: tuple[str, ...]
    labels: Ints
    kinds: Ints
    covariates: Floats
    slope_sd: float = SLOPE_SD
    sigma_scale: float = SIGMA_SCALE

    @property
    def bases(self) -> Ints:
        """The structure that each takes its blocks from."""
        return np.array([self.names.index(name.partition("+")[0]) for name in self.names])

    @property
    def n_blocks(self) -> Ints:
        """Number of blocks of each structure."""
        return np.asarray(self.labels.max(axis=1) + 1)

    @property
    def offsets(self) -> Ints:
        """Where the laws of each structure begin."""
        return np.concatenate([[0], np.cumsum(self.n_blocks)[:-1]])


def time_structures(
    years: Sequence[int] | Ints,
    year_groups: Mapping[str, Sequence[int]] | None = None,
    covariates: Mapping[str, Mapping[int, float] | Sequence[float]] | None = None,
    *,
    random: bool = False,
    additive: Sequence[str] = (),
    slope_sd: float = SLOPE_SD,
    sigma_scale: float = SIGMA_SCALE,
) -> TimeStructures:
    """Build the structures of a study whose intervals start in ``years``.

    Parameters
    ----------
    years : sequence of int
        The year in which each interval starts.
    year_groups : mapping of str to sequence
        A name, and the years (first years of intervals) that form one group against all others; or a label for
        each interval.
    covariates : mapping of str to mapping or sequence
        A name, and a value for each year; they are standardised over the intervals.
    random : bool
        Whether sets may have year effects from a common normal law on the logit scale.
    additive : sequence of str
        Structures such as ``"t+sex"``: the blocks of the first, and for each level of the second a constant distance
        on the logit scale.

    Examples
    --------
    >>> time_structures([1981, 1982, 1983], {"flood": [1982]}).labels[2]
    array([0, 1, 0])
    """
    years = [int(y) for y in years]
    names, labels = [CONSTANT, YEARLY], [[0] * len(years), list(range(len(years)))]
    kinds, x = [BLOCKS, BLOCKS], [[0.0] * len(years)] * 2
    for name, chosen in (year_groups or {}).items():
        names.append(_checked(name, names))
        labels.append(_grouping(name, list(chosen), years))
        kinds.append(BLOCKS)
        x.append([0.0] * len(years))
    for name, given in (covariates or {}).items():
        names.append(_checked(name, names))
        labels.append([0] * len(years))
        kinds.append(TREND)
        x.append(list(_standardised(name, given, years)))
    if random:
        names.append(RANDOM)
        labels.append(list(range(len(years))))
        kinds.append(RANDOM_KIND)
        x.append([0.0] * len(years))
    for name in additive:
        base = names.index(name.partition("+")[0])
        names.append(name)
        labels.append(labels[base])
        kinds.append(PARALLEL)
        x.append([0.0] * len(years))
    return TimeStructures(tuple(names), np.array(labels), np.array(kinds), np.array(x), slope_sd, sigma_scale)


def _checked(name: str, names: list[str]) -> str:
    if name in (*names, "age", "time", RANDOM, "") or not name.isidentifier():
        raise InputError(
            f"A grouping or covariate of years must have a plain name of its own, but got {name!r}. Rename it."
        )
    return name


def _grouping(name: str, chosen: list[int], years: list[int]) -> list[int]:
    if set(chosen) <= set(years):
        flags = [int(y in chosen) for y in years]
        if len(set(flags)) == 2:
            return flags if flags[0] == 0 else [1 - flag for flag in flags]
    elif len(chosen) == len(years):
        order = list(dict.fromkeys(chosen))
        if 1 < len(order):
            return [order.index(value) for value in chosen]
    raise InputError(
        f"The grouping {name!r} must name some but not all of the intervals, which start in {years[0]} to {years[-1]}, "
        f"or give a label to each; but it is {chosen}. Name the first years of the intervals that belong together."
    )


def _standardised(name: str, given: Mapping[int, float] | Sequence[float], years: list[int]) -> Floats:
    if isinstance(given, Mapping):
        missing = [y for y in years if y not in given]
        if missing:
            raise InputError(
                f"The covariate {name!r} must have a value for each interval, but lacks {missing}. Add the years, or "
                "fill them in yourself with a mean or a neighbour: nothing is imputed here."
            )
        given = [given[y] for y in years]
    x = np.asarray(given, float)
    if x.shape != (len(years),) or not np.isfinite(x).all() or np.ptp(x) == 0:
        raise InputError(
            f"The covariate {name!r} must have {len(years)} numbers that are not all equal, but is {x}. Correct it."
        )
    return np.asarray((x - x.mean()) / x.std())
