"""Every error of the package, under one base.

Each message says what must hold, what came instead, and what to do.
"""

from numbers import Integral
from typing import Any


class TemperingError(Exception):
    """Base of all errors raised by the package on purpose."""


class LadderError(TemperingError, ValueError):
    """A ladder that breaks 1 = k_1 > k_2 > ... > k_m >= 0."""


class TargetError(TemperingError, ValueError):
    """A target that cannot be sampled as it stands."""


class NotANumberError(TargetError):
    """A log density that returned NaN; ``position`` says where."""

    def __init__(self, message: str, position: object = None) -> None:
        super().__init__(message)
        self.position = position


class EstimatorError(TemperingError, ValueError):
    """Draws or weights that no estimator can use."""


class SamplerError(TemperingError, RuntimeError):
    """A run that cannot go on; ``draws`` are those it had made, if there were any."""

    draws: object = None


class CheckpointError(SamplerError):
    """A checkpoint of another run, or one that cannot be read or written."""


class DamageError(CheckpointError):
    """A file that is not what was written: bits have changed, or it is cut short, or missing.

    ``file`` is its path; ``draws`` are those that can still be read, if there are any. Nothing was changed on disk.
    """

    def __init__(self, file: object, why: str = "", what_is_left: str = "") -> None:
        super().__init__(file, why, what_is_left)
        self.file, self.why, self.what_is_left = file, why, what_is_left

    def __str__(self) -> str:
        """Say which file it is, what is wrong with it, and what can still be read."""
        return " ".join(part for part in (f"{self.file} is damaged: {self.why}.", self.what_is_left) if part)


class FunctionError(SamplerError):
    """A user's function that raised an error.

    ``chain`` and ``position`` say where, ``draws`` are those made before; the cause is the error itself.
    """

    def __init__(self, what: str, chain: int | None = None, position: object = None) -> None:
        super().__init__(what, chain, position)
        self.what, self.chain, self.position = what, chain, position
        self.block = 0  # of chains, on workers

    def __str__(self) -> str:
        """Say what was raised, and where."""
        where = "" if self.chain is None else f", in chain {self.chain}"
        where += "" if self.position is None else f" at {self.position}"
        return (
            f"A function of the target raised {self.what}{where}. The draws made before, if there are any, are the "
            "error's `draws`; with a checkpoint they are kept, and tempering.load opens them."
        )


class InputError(TemperingError, ValueError):
    """Bad input from a file or a command line: one line, with the place."""


def check_count(name: str, count: Any, *, least: int = 1, error: type[TemperingError] = InputError) -> None:
    """Refuse a number of draws, chains or rounds that is not a whole number, or too small.

    Examples
    --------
    >>> check_count("draws", 1e3)
    Traceback (most recent call last):
    tempering.errors.InputError: draws must be a whole number of at least 1, but got 1000.0. Write 1_000.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < least:
        hint = f" Write {int(count):_}." if isinstance(count, float) and count.is_integer() and count >= least else ""
        raise error(f"{name} must be a whole number of at least {least}, but got {count!r}.{hint}")
