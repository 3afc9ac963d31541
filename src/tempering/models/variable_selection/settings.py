"""What a user sets, in four groups: the response, the priors, the columns to choose from, and the sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempering.errors import InputError, check_count
from tempering.models.variable_selection.arrays import HEREDITY
from tempering.path.ladder import Ladder


def is_positive(value: object) -> bool:
    """Say whether a value is one positive and finite number."""
    return isinstance(value, int | float | np.number) and bool(0 < value < np.inf)


@dataclass(frozen=True, eq=False)
class Family:
    """The distribution of the response.

    Parameters
    ----------
    name : {"gaussian", "logistic", "probit", "binomial", "poisson", "negative_binomial"}
        All but the first use Laplace's approximation to a model's marginal likelihood.
    noise : float, optional
        Known standard deviation of a normal response; None: unknown.
    noise_prior : (float, float)
        Shape and rate of the inverse gamma prior of an unknown noise variance; (0, 0) is the usual improper one.
    trials : int or array_like, optional
        Of a binomial response: one number, or one for each row.
    dispersion : float
        Of a negative binomial response: variance mean + mean^2 / dispersion.
    """

    name: str = "gaussian"
    noise: float | None = None
    noise_prior: tuple[float, float] = (0.0, 0.0)
    trials: Any = None
    dispersion: float = 1.0

    def __post_init__(self) -> None:
        if self.noise is not None and not is_positive(self.noise):
            raise InputError(f"noise must be a positive number, but got {self.noise!r}. None: it is unknown.")
        if not is_positive(self.dispersion):
            raise InputError(
                f"dispersion must be a positive number, but got {self.dispersion!r}. 1 is a geometric response."
            )
        if np.shape(self.noise_prior) != (2,) or min(self.noise_prior) < 0:
            raise InputError(f"noise_prior needs a shape and a rate of at least 0, but got {self.noise_prior!r}.")


@dataclass(frozen=True, eq=False)
class SelectionPrior:
    """Priors of the number of columns and of their coefficients.

    Parameters
    ----------
    size : float, (float, float) or None
        Expected number of columns, or a and b of a beta distribution of the share that is in; None is (1, 1).
    slab : float, array, "g", matrix or Slab
        Prior precision of a coefficient of a standardised column, in units of the noise, or one for each column; "g":
        the g-prior with g = n; a matrix: a dense precision.
    max_size : int
        Largest number of columns in a model.
    """

    size: float | tuple[float, float] | None = None
    slab: Any = 1.0
    max_size: int = 200

    def __post_init__(self) -> None:
        check_count("max_size", self.max_size)
        size = self.size
        is_pair = isinstance(size, Sequence) and len(size) == 2 and all(map(is_positive, size))
        if not (size is None or is_positive(size) or is_pair):
            raise InputError(
                f"size must be a positive number of columns, or a and b of a beta distribution, but got {size!r}. "
                "Pass for example 5, or (1, 100)."
            )


@dataclass(frozen=True, eq=False)
class Design:
    """The columns to choose from.

    Parameters
    ----------
    forced : sequence of int or str
        Columns that are always in.
    groups : sequence of labels, optional
        One for each column; columns with the same label enter and leave together.
    interactions : {None, "pairs", "quadratic"}
        Add products of two columns, and squares.
    heredity : {"strong", "weak", "none"}
        A product needs both its columns in the model, or one of them.
    standardise : bool
        Divide every column by its standard deviation.
    """

    forced: Sequence[int | str] = ()
    groups: Sequence[Any] | None = None
    interactions: str | None = None
    heredity: str = "strong"
    standardise: bool = True

    def __post_init__(self) -> None:
        for name in ("forced", "groups"):
            value = getattr(self, name)
            if isinstance(value, str) or (value is not None and np.ndim(value) != 1):
                raise InputError(f"{name} must be a list, but got {value!r}. Write [{value!r}] for one.")
        if self.heredity not in HEREDITY:
            raise InputError(f"heredity must be one of {', '.join(HEREDITY)}, but got {self.heredity!r}.")


@dataclass(frozen=True, eq=False)
class Sampling:
    """How long and by which moves.

    Parameters
    ----------
    draws, tune, chains : int
        Jumps kept and jumps of tuning, of each chain, and the number of chains.
    moves : {"weighted", "sum", "square_root", "min", "max", "barker"}
        Rates of the flips: weighted tempered Gibbs, tempered Gibbs, or a balancing function.
    ladder : Ladder, sequence of float, "tuned" or None
        Inverse temperatures of the marginal likelihood; None does not temper, "tuned" (normal responses) chooses them
        down to 0.1. See the tutorial on when it pays.
    rule : str
        How the rungs are combined.
    tries : int, optional
        Flips looked at in a jump (multiple try), for groups and responses that are not normal: each flip there is a
        model to fit, and with thousands of columns all of them are too many. None looks at all.
    """

    draws: int = 5_000
    tune: int = 1_000
    chains: int = 4
    moves: str = "weighted"
    ladder: Ladder | Sequence[float] | str | None = None
    rule: str = "screened"
    tries: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("tune", 0), ("chains", 1)):
            check_count(name, getattr(self, name), least=least)
        if self.tries is not None:
            check_count("tries", self.tries)
        if self.draws < 100:
            raise InputError(
                f"Standard errors need 100 draws, but got {self.draws}. Raise draws; thousands take seconds."
            )

    @property
    def inverse_temperatures(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Those of the ladder; the target's alone if there is none, or if it is yet to be tuned."""
        if self.ladder is None or isinstance(self.ladder, str):
            return np.ones(1)
        ladder = self.ladder if isinstance(self.ladder, Ladder) else Ladder(self.ladder)
        return np.asarray(ladder.inverse_temperatures)
