"""Where each number of a treed Gaussian process lives: the columns of its flat arrays.

A state is a handful of NumPy arrays that compiled functions change in place. One signature serves every
number of inputs, so that the compiled code is cached once for all data sets.
"""

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

# Columns of ``tree``, one row a node.
LEFT, RIGHT, PARENT, VARIABLE, CUT, DEPTH, START, END, USED = range(9)
TREE_WIDTH = 9

# Columns of ``leaf``, one row a node; then range[n_ranges], active[n_ranges], used[m], beta[m], centre[m],
# gram[(m + 1)^2],
# shift[m]: the plane taken off the responses before the Gram matrix is computed.
# ``active`` is 0 or 1; in a single index it is the sign of an input, and 0 where it is switched off.
NUGGET, SIGMA2, TAU2, LOG_DET, N_ROWS, EXPONENT, RANGES = range(7)
PLACE = 0  # of an internal node: where its cut lies between two neighbouring inputs, 0 to 1; read for predictions alone

# Columns of ``y``, one row a distinct input; the last two of classes alone.
# Measured: replicates, mean, squares about it, replicates. Classes: rows, what stands for the mean (kappa / omega), 0,
# omega, kappa = rows of the second class less half of all, log-odds.
COUNT, MEAN, SQUARES, WEIGHT, KAPPA, LOG_ODDS = range(6)

# Entries of ``meta``.
ROOT, N_LEAVES, N_INTERNAL, KEEP = range(4)

# Entries of ``shared``; then beta0[m], W^{-1}[m * m].
A_SIGMA, Q_SIGMA, A_TAU, Q_TAU, LOG_DET_PRECISION, BETA0 = range(6)
Q_FLOOR = 1e-10  # of q_sigma and q_tau, responses on (0, 1): without noise their posterior would have no end at 0

# Entries of ``integer``, the settings that are whole numbers.
(
    N_BASE,
    N_MEAN,
    N_RANGES,
    CORRELATION,
    LINEAR,
    MIN_LEAF,
    MAX_LEAVES,
    CHECK_LEAF,
    SAMPLE_RANGE,
    SAMPLE_NUGGET,
    SAMPLE_TAU2,
    SAMPLE_BETA0,
    TEMPER_TREE,
    CHANGE_REACH,
    FIRST_SPLIT,
    COEFFICIENTS,
    SWAP_REACH,
    MAX_ROWS,  # distinct inputs of the largest leaf
    SAMPLE_SLOPES,
    SAMPLE_EXPONENT,
    RESPONSE,
) = range(21)
INTEGER_LENGTH = 21

# Values of ``integer[CORRELATION]``, ``integer[LINEAR]``, ``integer[COEFFICIENTS]`` and ``integer[RESPONSE]``.
SEPARABLE, ISOTROPIC, MATERN_12, MATERN_32, MATERN_52, POWER, SINGLE_INDEX = range(7)
NEVER_LINEAR, JUMPS_TO_LINEAR, ALWAYS_LINEAR = range(3)
AROUND_BETA0, AROUND_LEAST_SQUARES, FLAT = range(3)
MEASURED, CLASSES = range(2)

# Entries of ``real``, the settings that are real numbers.
(
    ALPHA,
    BETA,
    GAMMA1,
    GAMMA2,
    GAMMA3,
    RANGE_PRIOR,  # shape, rate, shape, rate
    NUGGET_PRIOR,
    RATE_A_SIGMA,
    RATE_Q_SIGMA,
    RATE_A_TAU,
    RATE_Q_TAU,
    START_A_SIGMA,
    START_Q_SIGMA,
    START_A_TAU,
    START_Q_TAU,
    START_TAU2,
    START_RANGE,
    START_NUGGET,
    BETA0_VARIANCE,
    WISHART_DOF,
    WISHART_SCALE,
    WINDOW,
    P_TREE,
    P_GROW,
    P_PRUNE,
    P_CHANGE,
    P_NUGGET,
    P_JOINT,
    P_FAR,
    LOG_FAR,
    P_SHIFT,
    RANGE_CONSTANTS,  # log of the constant of each gamma density
    NUGGET_CONSTANTS,
    P_RANGE,
    P_ALIKE,
    P_SWITCH,
    SLOPE,  # prior probability that an input has a slope
    START_EXPONENT,
    NUGGET_FLOOR,  # by which the prior of the nugget is shifted, so that the correlation matrix has a factor
) = (0, 1, 2, 3, 4, 5, 9, *range(13, 37), 37, 39, 41, 42, 43, 44, 45, 46)
REAL_LENGTH = 47

# The floor is so many units of rounding for each input of the largest leaf: it limits how well smooth responses without
# noise are predicted. Long ranges have no factor below 0.1 (30 to 1000 inputs); at 2 log |K| is wrong by 0.03 at most.
ROUNDING_OF_NUGGET = 2.0
NUGGET_LEAST = 1e-20  # above the floor, where the prior ends: less would be lost in rounding

# Rows of ``counters``: proposals tried and accepted.
# NumPy's numbers: for each of Python's own Numba would compile what takes it anew.
GROW, PRUNE, CHANGE, SWAP, ROTATE, RANGE_MOVE, NUGGET_MOVE, SWITCH_MOVE, SLOPE_MOVE = cast(
    "list[int]", list(np.arange(9))
)
MOVES = ("grow", "prune", "change", "swap", "rotate", "range", "nugget", "switch", "slope")


# Which arrays of a state have two dimensions; the others have one.
MATRICES = ("tree", "leaf", "lists", "x", "y", "rank", "cuts", "small", "keys", "marks", "counters")


class State(NamedTuple):
    """A treed Gaussian process and its data; only the first six arrays and the work space change."""

    tree: NDArray[np.int64]
    """Nodes: children, parent, rule, depth, and the stretch of ``order`` below them."""
    leaf: NDArray[np.float64]
    """Parameters of each leaf, and the Gram matrix of its whitened regressors and responses."""
    order: NDArray[np.int64]
    """The distinct inputs, those of one leaf next to each other."""
    lists: NDArray[np.int64]
    """Ids of the leaves (row 0) and of the internal nodes (row 1); two more rows are work space."""
    meta: NDArray[np.int64]
    """Root, number of leaves and internal nodes; whether correlations are to be kept when they are computed."""
    shared: NDArray[np.float64]
    """Hyper-parameters common to all leaves; then, for classes, the omega of each input at k = 1."""
    x: NDArray[np.float64]
    """Distinct inputs, scaled to [0, 1], shape (n_distinct, n_columns); the first enter mean and correlation."""
    y: NDArray[np.float64]
    """Replicates, mean response, sum of squares about it and weight, shape (n_distinct, 4); 6 columns for classes."""
    rank: NDArray[np.int64]
    """Rank of each input among its column's distinct values, shape (n_distinct, n_columns)."""
    cuts: NDArray[np.float64]
    """Split candidates, one row a column, shape (n_columns, most candidates)."""
    n_cuts: NDArray[np.int64]
    """How many candidates each column has."""
    real: NDArray[np.float64]
    """Settings that are real numbers."""
    integer: NDArray[np.int64]
    """Settings that are whole numbers."""
    square: NDArray[np.float64]
    """Work space for one correlation matrix and its right-hand sides, laid out by `factor`."""
    panel: NDArray[np.float64]
    """Work space: the leaf's inputs, one row a column; or chances of cuts."""
    residual: NDArray[np.float64]
    """Work space: the mean response at each distinct input, less the plane of its leaf."""
    small: NDArray[np.float64]
    """Work space: rows of the size of the mean function."""
    keep: NDArray[np.float64]
    """Work space: what a rejected proposal restores."""
    kept: NDArray[np.float64]
    """Work space: correlations of the leaves as they were when their nuggets moved last, laid out by `system`."""
    keys: NDArray[np.float64]
    """Work space: the ranges and Booleans of these."""
    marks: NDArray[np.int64]
    """Work space: the inputs of these, shape (n_distinct, 3)."""
    keep_int: NDArray[np.int64]
    """Work space: the tree and order that a rejected proposal restores."""
    counters: NDArray[np.int64]
    """Proposals tried and accepted in the last round, shape (n_moves, 2)."""
    log_ratio: NDArray[np.float64]
    """Log acceptance ratio of the last tree move, whether it was accepted, and k of the last round."""
