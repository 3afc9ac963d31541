"""Data and priors as arrays, the same for the compiled loop and for the accelerator; nothing here needs a compiler."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats

NO, STRONG, WEAK = 0, 1, 2
HEREDITY = {"none": NO, "strong": STRONG, "weak": WEAK}


class Columns(NamedTuple):
    """The data, fixed for a run; ``columns[j]`` is column j of the design."""

    columns: Floats  # (p, n)
    squares: Floats  # (p,), x_j'x_j
    cross: Floats  # (p,), x_j'y
    total: float  # y'y
    scale: float  # of the Gram matrix in A
    ridge: Floats  # (p,), added to the diagonal of A
    dense: Floats  # (p, p), added to A; (0, 0) where the slab is not dense


class Noise(NamedTuple):
    """What is known of the noise, and how the slab's determinant enters."""

    is_known: bool
    variance: float
    kappa: float  # a + n / 2
    twice_rate: float  # 2 b
    log_slab: Floats  # (p,), log omega_j; empty for a g-prior or a dense slab
    log_one_plus_g: float  # of a g-prior, else 0


class ModelPrior(NamedTuple):
    """Log prior odds of a column given how many others are in, and what may be flipped."""

    log_odds: Floats  # (p + 1,)
    offset: Floats  # (p,)
    locked: NDArray[np.int8]  # (p,), 1: always in
    parents: NDArray[np.int64]  # (p, 2), -1: none
    heredity: int
    max_size: int
