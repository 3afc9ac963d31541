"""Data sets that come with the package.

The shag-like set is synthetic: it was simulated, 500 chicks in each of nine cohorts, from parameter values
that are partly published and partly invented. It is not the data of King & Brooks (2002). The European
dipper holds the published figures of Lebreton et al. (1992), 1981-1987: an array of both sexes together, and
encounter histories by sex, females first.
"""

from importlib.resources import files
from pathlib import Path

SYNTHETIC_HISTORIES = "synthetic_shaglike_histories.csv"
SYNTHETIC_ARRAYS = "synthetic_shaglike_marray_darray.csv"
SYNTHETIC_COUNTS = "synthetic_shaglike_suffstats.csv"
SYNTHETIC_TRUTH = "synthetic_shaglike_truth.csv"
DIPPER_ARRAY = "dipper_marray.csv"
DIPPER_HISTORIES = "dipper_histories.inp"
MOTORCYCLE = "mcycle.csv"  # published figures: head acceleration after a motorcycle accident (Silverman 1985)


def path_of(name: str) -> Path:
    """Return where a data set is installed.

    Examples
    --------
    >>> path_of(DIPPER_ARRAY).exists()
    True
    """
    return Path(str(files("tempering.data") / name))
