"""Every prior and proposal constant of the treed GP, by name, and how a fit is tempered and what it keeps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError, check_count
from tempering.estimators.rules import DEFAULT_RULE, check_rule
from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.training import TrainingData
from tempering.path.ladder import Ladder

LEAVES = ("constant", "linear", "gp", "gp_linear")
MEANS = ("linear", "constant")
COEFFICIENTS = ("hierarchical", "least_squares", "zero_mean", "fixed", "flat")
CORRELATIONS = {
    "separable": at.SEPARABLE,
    "isotropic": at.ISOTROPIC,
    "matern12": at.MATERN_12,
    "matern32": at.MATERN_32,
    "matern52": at.MATERN_52,
    "power": at.POWER,
    "single_index": at.SINGLE_INDEX,
}

GammaMixture = tuple[float, float, float, float]

LARGE = 800  # distinct inputs beyond which leaves are kept small: one factor of all would take 5 ms and more
MAX_ROWS = 256  # distinct inputs of a leaf then
MOST_RUNGS = 16
STEP_DOWN = 0.23  # from rung to rung, of log k: 8 rungs down to 0.2 make twice the round trips of 16 (24 data sets)


@dataclass(frozen=True)
class Prior:
    """Prior of a treed Gaussian process, for the response scaled to mean 0 and range 1, inputs to [0, 1].

    Parameters
    ----------
    tree
        Whether the input space is partitioned; without a tree there is one leaf.
    mean
        Mean function of Gaussian-process leaves: ``"linear"`` or ``"constant"``.
    correlation
        Of Gaussian-process leaves: ``"separable"``, ``"isotropic"``, ``"matern12"``, ``"matern32"``, ``"matern52"``,
        ``"power"`` (power exponential: exp(-sum_j |x_j - y_j|^p / d_j)) or ``"single_index"`` (Gaussian in one
        projection, exp(-(sum_j s_j (x_j - y_j) / sqrt(d_j))^2), of ranges d_j and signs s_j).
    exponent
        p of ``"power"``, between 1 and 2. None learns one for each leaf, uniform before the data.
    split_probability, split_decay
        A node at depth eta is split with probability ``split_probability * (1 + eta) ** -split_decay``.
    min_leaf
        Fewest rows of a leaf; None is ``max(10, n_base_columns + 2) + 1``.
    max_leaves
        Most leaves of a tree; None is as many as the rows allow, at most 128, or three times as many as ``max_rows``
        asks for.
    max_rows
        Most distinct inputs of a leaf; larger leaves have prior probability 0. None sets no limit up to 800 distinct
        inputs, and 256 beyond, where a leaf of all inputs would be too slow. Linear and constant leaves have no limit.
    coefficients
        ``"hierarchical"`` (b0: beta0, W and tau^2 sampled), ``"least_squares"`` (bmle: the same around each
        leaf's least squares), ``"zero_mean"`` (bmzt: beta0 and W fixed, tau^2 sampled), ``"fixed"`` (b0not,
        bmznot: tau^2 fixed too) or ``"flat"`` (bflat: improper, so that the number of leaves has no posterior of
        its own, and a ladder may not go far down).
    beta0, scale
        beta0 and W where they are fixed; 0 and the identity by default.
    beta0_variance, wishart_dof, wishart_scale
        beta0 ~ N(0, beta0_variance I); W^{-1} ~ Wishart((dof scale I)^{-1}, dof), where dof None is m + 1.
    sigma2, tau2
        Starting (a, q) of the inverse gammas IG(a / 2, q / 2).
    sigma2_rates, tau2_rates
        Rates of the exponential priors of (a, q), a above 2; a rate of 0 keeps the starting value.
    tau2_start
        Value of tau^2 where it is fixed.
    range_, nugget
        (shape, rate, shape, rate) of an equal mixture of two gammas. The default of the ranges has means 0.05 and 5:
        surfaces that are nearly plane in an input need ranges that tgp's default, (1, 20, 10, 10), with means 0.05 and
        1, does not reach; and a leaf is a part of the box, so that what is smooth in it has a short range there. With a
        mean of 0.2 for 0.05 leaves of 15 to 20 rows take a bump for noise. The prior of the nugget gives values near 0
        a tenth of its mass: with tgp's, (1, 1, 1, 1), chains hardly come from the noise of hot rungs to data without
        any.
    range_fixed, nugget_fixed
        A value instead of a prior.
    base_columns, first_split
        Only the first so many columns enter mean and correlation (basemax); splits are on columns from this one
        on, counted from 0 (splitmin).
    slope
        Prior probability that an input has a slope in the mean of a leaf ``"gp_linear"``, each by itself: an input may
        act through the plane, through the correlation, through both, or not at all. 1 is tgp's plane of all inputs.
    linear
        gamma of P(b = 0 | d) = gamma2 + gamma3 / (1 + exp(-gamma1 (d - 1/2))), for leaves ``"gp_linear"``.

    Examples
    --------
    >>> Prior(min_leaf=5).split_probability
    0.5
    """

    split_probability: float = 0.5
    split_decay: float = 2.0
    min_leaf: int | None = None
    max_leaves: int | None = None
    max_rows: int | None = None
    coefficients: str = "hierarchical"
    beta0: tuple[float, ...] | None = None
    scale: tuple[tuple[float, ...], ...] | None = None
    beta0_variance: float = 1.0
    wishart_dof: float | None = None
    wishart_scale: float = 2.0
    sigma2: tuple[float, float] = (5.0, 10.0)
    sigma2_rates: tuple[float, float] = (0.2, 0.1)
    tau2: tuple[float, float] = (5.0, 10.0)
    tau2_rates: tuple[float, float] = (0.2, 0.1)
    tau2_start: float = 1.0
    range_: GammaMixture = (1.0, 20.0, 1.0, 0.2)
    nugget: GammaMixture = (1.0, 1.0, 0.2, 1.0)
    range_fixed: float | None = None
    nugget_fixed: float | None = None
    slope: float = 0.5
    linear: tuple[float, float, float] = (10.0, 0.2, 0.7)
    base_columns: int | None = None
    first_split: int = 0
    tree: bool = True
    mean: str = "linear"
    correlation: str = "separable"
    exponent: float | None = None

    def __post_init__(self) -> None:
        one_of("mean", self.mean, MEANS)
        one_of("correlation", self.correlation, tuple(CORRELATIONS))
        _require(
            0.0 <= self.split_probability < 1.0,
            "split_probability must lie in [0, 1)",
            self.split_probability,
        )
        is_power = self.exponent is None or 1.0 <= self.exponent <= 2.0
        _require(is_power, "exponent must lie in [1, 2], or be None", self.exponent)
        _require(0.0 < self.slope <= 1.0, "slope must lie in (0, 1]", self.slope)
        _require(self.split_decay >= 0.0, "split_decay must not be negative", self.split_decay)
        _require(
            self.coefficients in COEFFICIENTS,
            f"coefficients must be one of {COEFFICIENTS}",
            self.coefficients,
        )
        for name in ("sigma2", "tau2", "range_", "nugget"):
            _require(min(getattr(self, name)) > 0.0, f"{name} must hold positive numbers", getattr(self, name))
        for name in ("sigma2_rates", "tau2_rates"):
            _require(min(getattr(self, name)) >= 0.0, f"{name} must not be negative", getattr(self, name))
        for name in ("beta0_variance", "wishart_scale", "tau2_start"):
            _require(getattr(self, name) > 0.0, f"{name} must be positive", getattr(self, name))
        for name in (
            "min_leaf",
            "max_leaves",
            "max_rows",
            "range_fixed",
            "nugget_fixed",
            "wishart_dof",
            "base_columns",
        ):
            value = getattr(self, name)
            _require(value is None or value > 0, f"{name} must be positive or None", value)
        _require(self.first_split >= 0, "first_split must not be negative", self.first_split)
        _, low, height = self.linear
        _require(
            low >= 0.0 and height >= 0.0 and low + height <= 1.0,
            "linear must give probabilities",
            self.linear,
        )


@dataclass(frozen=True)
class Proposals:
    """How the moves propose.

    Parameters
    ----------
    window
        Positive parameters x are proposed from U[x / window, window x].
    tree_moves
        Expected number of tree moves in a round; the specification has one in four rounds, 0.25. Three cost more than
        the rest of a round, and their fits predicted no better than those of 1.5 in half of the time (24 data sets).
    grow, prune, change
        Probabilities of the tree moves; swap or rotate has the rest.
    change_reach
        The cut moves by 1 to this many candidates.
    range_move
        Probability that a leaf's ranges are updated in a round. None is 1 for one range and 2/3 for several: the
        specification's rounds leave them alone a third of the time where no dimension is switched off.
    nugget_move
        Probability that a leaf's nugget is updated in a round.
    joint_range_move
        Probability that all ranges that act in a leaf are multiplied by one factor, rather than one of them.
    switch_move
        Probability that an input of a leaf ``"gp_linear"`` is switched on or off in a round, its range drawn anew.
    far_move, far_reach
        Probability that a range or nugget is proposed up to a factor of ``far_reach`` away rather than within the
        window, small factors more often: a uniform number's cube times log ``far_reach``. The specification has 0.
    alike
        Probability that grow proposes ranges and nugget of the second child near those of the first (a factor of two or
        so), and nine inputs of ten switched on or off as there, rather than from the prior; the specification has 0.
    swap_shift, swap_reach
        Probability that swap also moves both cuts, by up to ``swap_reach`` candidates each: with the smallest leaf as
        it is, an exchange alone can be impossible. The specification has 0.
    """

    window: float = 4.0 / 3.0
    tree_moves: float = 1.5
    grow: float = 0.3
    prune: float = 0.3
    change: float = 0.25
    change_reach: int = 1
    range_move: float | None = None
    nugget_move: float = 0.5
    joint_range_move: float = 1.0 / 3.0
    switch_move: float = 0.5
    far_move: float = 0.5
    far_reach: float = 30.0
    alike: float = 0.5
    swap_shift: float = 0.5
    swap_reach: int = 2

    def __post_init__(self) -> None:
        _require(self.window > 1.0, "window must be above 1", self.window)
        _require(self.far_reach > 1.0, "far_reach must be above 1", self.far_reach)
        _require(self.change_reach >= 1, "change_reach must be at least 1", self.change_reach)
        _require(self.swap_reach >= 1, "swap_reach must be at least 1", self.swap_reach)
        _require(self.tree_moves >= 0.0, "tree_moves must not be negative", self.tree_moves)
        for field in fields(self):
            if field.name not in ("window", "change_reach", "tree_moves", "far_reach", "swap_reach"):
                value = getattr(self, field.name)
                _require(value is None or 0.0 <= value <= 1.0, f"{field.name} must lie in [0, 1]", value)
        _require(self.grow == self.prune, "grow and prune must have one probability", (self.grow, self.prune))
        _require(self.grow + self.prune + self.change <= 1.0, "grow + prune + change must be at most 1", self)

    def chance_of_range_move(self, n_ranges: int) -> float:
        """Return the probability that a leaf's ranges are updated in a round."""
        if self.range_move is not None:
            return self.range_move
        return 1.0 if n_ranges == 1 else 2.0 / 3.0


@dataclass(frozen=True)
class Tempering:
    """How a fit is tempered.

    Parameters
    ----------
    method
        ``"simulated"``: each chain moves between the rungs; or ``"parallel"``: one chain per rung, and they swap.
        None is parallel for up to 400 distinct inputs where ``draws`` and ``ladder`` are left out too, else simulated:
        few rounds of coupled chains take as long as many of one, and are caught less often.
    ladder
        Inverse temperatures. None is a geometric ladder down to ``hottest``, 8 rungs to 0.2, but [1] where leaves are
        limited in size (``max_rows`` of the prior, above 800 distinct inputs): through dozens of leaves no chain comes
        round. "tuned" chooses rungs and their number while tuning; [1] does not temper.
    hottest
        The smallest inverse temperature where ``ladder`` is None or "tuned". Trees of the data we know melt above 0.2;
        down to 0.1 chains come round a sixth to three quarters as often, and predict no better. Down to 0.4, 5 rungs,
        coupled chains take 0.7 of the time and come round eight times as often, but not to where trees melt: RMSE is 1
        to 2 % larger.
    target
        What is raised to the power k: ``"likelihood"``, or ``"likelihood_and_tree"``, the prior of the tree too.
    rule
        How the rungs are combined: "mbar", "screened", "ess_optimal", "pooled", "equal", "cold_only" or
        "autocorrelation_adjusted".

    Examples
    --------
    >>> Tempering(ladder=[1, 0.5, 0.1]).rule
    'mbar'
    """

    ladder: Ladder | Sequence[float] | str | None = None
    hottest: float = 0.2
    target: str = "likelihood"
    rule: str = DEFAULT_RULE
    method: str | None = None

    def __post_init__(self) -> None:
        if self.method is not None:
            one_of("method", self.method, ("simulated", "parallel"))
        check_rule(self.rule)
        if not 0.0 <= self.hottest <= 1.0:
            raise InputError(f"hottest must lie in [0, 1], but got {self.hottest!r}. It is 1 / temperature.")
        if isinstance(self.ladder, str) and self.ladder != "tuned":
            raise InputError(f"ladder must be numbers or 'tuned', but got {self.ladder!r}. Pass [1, 0.5, 0.1].")
        one_of("target", self.target, ("likelihood", "likelihood_and_tree"))

    def fixed_ladder(self, *, is_large: bool) -> Ladder | None:
        """Return the ladder asked for; None where it is to be tuned."""
        if self.ladder is None:
            return first_ladder(1.0 if is_large else self.hottest)
        if isinstance(self.ladder, str):
            return None
        return self.ladder if isinstance(self.ladder, Ladder) else Ladder(self.ladder)


@dataclass(frozen=True)
class Keeping:
    """What a fit keeps of its draws.

    Parameters
    ----------
    trees
        Number of trees kept for prediction: a weighted resample of all draws.
    thin
        Rounds from one draw that is kept to the next. None is 1, or as many as keep the trees of all draws within a
        gigabyte while the chains run.
    predict_every
        Rounds from one draw that predicts at ``X_predict`` to the next.
    """

    trees: int = 200
    thin: int | None = None
    predict_every: int = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "thin" or self.thin is not None:
                check_count(field.name, getattr(self, field.name))


def check_column(column: Any, n_columns: int) -> None:
    """Refuse what is no number of an input column."""
    if not (isinstance(column, int | np.integer) and 0 <= column < n_columns):
        raise InputError(f"column must be a number from 0 to {n_columns - 1}, but got {column!r}. Pass one.")


def first_ladder(hottest: float) -> Ladder:
    """Return the default ladder, from which tuning starts too."""
    if hottest >= 1.0:
        return Ladder([1.0])
    if hottest > 0.0:
        return Ladder.geometric(min(MOST_RUNGS, 1 + math.ceil(-math.log(hottest) / STEP_DOWN)), hottest)
    return Ladder([*Ladder.geometric(MOST_RUNGS - 1, 1e-3), 0.0])


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a name that is none of the choices."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, but got {value!r}. Choose one of them.")


def _require(holds: bool, what: str, came: Any) -> None:
    if not holds:
        raise InputError(f"The setting {what}, but got {came!r}. Change it, or leave it out for the default.")


def pack_integers(
    prior: Prior,
    proposals: Proposals,
    data: TrainingData,
    *,
    n_base: int,
    leaf: str,
    temper_tree: bool,
    has_classes: bool,
) -> NDArray[np.int64]:
    """Lay out the whole-number settings for the compiled code."""
    constant_mean = leaf == "constant" or prior.mean == "constant"
    n_distinct = len(data.x)
    smallest, largest = smallest_leaf(prior, n_base), largest_leaf(prior, n_distinct, leaf)
    most = max(1, min(data.n_rows // smallest, max(128, 3 * n_distinct // largest)))
    out = np.zeros(at.INTEGER_LENGTH, np.int64)
    out[at.N_BASE] = n_base
    out[at.N_MEAN] = 1 if constant_mean else n_base + 1
    out[at.N_RANGES] = n_base if prior.correlation in ("separable", "power", "single_index") else 1
    out[at.CORRELATION] = CORRELATIONS[prior.correlation]
    out[at.LINEAR] = {"gp": at.NEVER_LINEAR, "gp_linear": at.JUMPS_TO_LINEAR}.get(leaf, at.ALWAYS_LINEAR)
    out[at.MIN_LEAF] = smallest
    out[at.MAX_ROWS] = largest
    out[at.MAX_LEAVES] = most if prior.max_leaves is None else min(prior.max_leaves, most)
    out[at.CHECK_LEAF] = leaf != "constant"
    out[at.SAMPLE_RANGE] = prior.range_fixed is None and leaf in ("gp", "gp_linear")
    out[at.SAMPLE_NUGGET] = prior.nugget_fixed is None and leaf in ("gp", "gp_linear")
    out[at.SAMPLE_EXPONENT] = prior.correlation == "power" and prior.exponent is None
    out[at.RESPONSE] = at.CLASSES if has_classes else at.MEASURED
    out[at.SAMPLE_SLOPES] = leaf == "gp_linear" and prior.slope < 1.0 and prior.coefficients != "flat"
    out[at.SAMPLE_TAU2] = prior.coefficients not in ("fixed", "flat")
    out[at.SAMPLE_BETA0] = prior.coefficients == "hierarchical"
    out[at.COEFFICIENTS] = {"least_squares": at.AROUND_LEAST_SQUARES, "flat": at.FLAT}.get(
        prior.coefficients, at.AROUND_BETA0
    )
    out[at.FIRST_SPLIT] = np.sum(data.columns < prior.first_split)
    out[at.TEMPER_TREE] = temper_tree
    out[at.CHANGE_REACH] = proposals.change_reach
    out[at.SWAP_REACH] = proposals.swap_reach
    return out


def _log_constants(mixture: GammaMixture) -> tuple[float, float]:
    """Return log of half of rate^shape / Gamma(shape), for both gammas."""
    parts = [shape * math.log(rate) - math.lgamma(shape) for shape, rate in (mixture[:2], mixture[2:])]
    return parts[0] - math.log(2.0), parts[1] - math.log(2.0)


def _fixed_coefficients(prior: Prior, n_mean: int) -> NDArray[np.float64]:
    """Return beta0, W^{-1} and log |W^{-1}| as they are where nobody samples them."""
    beta0 = np.zeros(n_mean) if prior.beta0 is None else np.asarray(prior.beta0, np.float64)
    scale = np.eye(n_mean) if prior.scale is None else np.asarray(prior.scale, np.float64)
    _require(beta0.shape == (n_mean,), f"beta0 must have {n_mean} entries", prior.beta0)
    is_covariance = scale.shape == (n_mean, n_mean) and np.array_equal(scale, scale.T)
    _require(
        is_covariance and np.linalg.eigvalsh(scale)[0] > 0, f"scale must be a {n_mean} x {n_mean} covariance", scale
    )
    if prior.coefficients == "flat":
        return np.zeros(n_mean + n_mean**2 + 1)
    return np.concatenate([beta0, np.linalg.inv(scale).ravel(), [-np.linalg.slogdet(scale)[1]]])


def smallest_leaf(prior: Prior, n_base: int) -> int:
    """Return the fewest rows of a leaf."""
    return prior.min_leaf if prior.min_leaf is not None else max(10, n_base + 2) + 1


def largest_leaf(prior: Prior, n_distinct: int, leaf: str) -> int:
    """Return the most distinct inputs of a leaf; without a tree there is one leaf for all."""
    if not prior.tree:
        return max(n_distinct, 1)
    if prior.max_rows is not None:
        return prior.max_rows
    is_process = leaf in ("gp", "gp_linear")
    return MAX_ROWS if is_process and n_distinct > LARGE else max(n_distinct, 1)


def pack_reals(
    prior: Prior, proposals: Proposals, *, n_mean: int, n_ranges: int, most: int, has_nugget: bool, has_classes: bool
) -> NDArray[np.float64]:
    """Lay out the real-valued settings for the compiled code; a leaf has ``most`` responses at the most."""
    out = np.concatenate([np.zeros(at.REAL_LENGTH), _fixed_coefficients(prior, n_mean)])
    has_tree = prior.tree and prior.split_probability > 0
    out[at.ALPHA] = prior.split_probability if has_tree else 0.0
    out[at.BETA] = prior.split_decay
    out[at.GAMMA1 : at.GAMMA3 + 1] = prior.linear
    out[at.SLOPE] = prior.slope
    out[at.RANGE_PRIOR : at.RANGE_PRIOR + 4] = prior.range_
    out[at.NUGGET_PRIOR : at.NUGGET_PRIOR + 4] = prior.nugget
    out[at.RANGE_CONSTANTS : at.RANGE_CONSTANTS + 2] = _log_constants(prior.range_)
    out[at.NUGGET_CONSTANTS : at.NUGGET_CONSTANTS + 2] = _log_constants(prior.nugget)
    out[at.RATE_A_SIGMA : at.RATE_Q_SIGMA + 1] = prior.sigma2_rates
    out[at.RATE_A_TAU : at.RATE_Q_TAU + 1] = prior.tau2_rates
    out[at.START_A_SIGMA : at.START_Q_SIGMA + 1] = prior.sigma2
    out[at.START_A_TAU : at.START_Q_TAU + 1] = prior.tau2
    out[at.START_TAU2] = 1.0 if prior.coefficients == "flat" else prior.tau2_start
    out[at.START_EXPONENT] = 2.0 if prior.exponent is None else prior.exponent
    out[at.START_RANGE] = 0.5 if prior.range_fixed is None else prior.range_fixed
    fixed = 0.1 if has_nugget else float(has_classes)  # a linear leaf without a nugget is ordinary regression
    out[at.START_NUGGET] = fixed if prior.nugget_fixed is None else prior.nugget_fixed
    out[at.NUGGET_FLOOR] = at.ROUNDING_OF_NUGGET * np.finfo(float).eps * most
    out[at.BETA0_VARIANCE] = prior.beta0_variance
    out[at.WISHART_DOF] = n_mean + 1 if prior.wishart_dof is None else prior.wishart_dof
    out[at.WISHART_SCALE] = prior.wishart_scale
    out[at.WINDOW] = proposals.window
    out[at.P_TREE] = proposals.tree_moves if has_tree else 0.0
    out[at.P_GROW] = proposals.grow
    out[at.P_PRUNE] = proposals.prune
    out[at.P_CHANGE] = proposals.change
    out[at.P_NUGGET] = proposals.nugget_move
    out[at.P_JOINT] = proposals.joint_range_move
    out[at.P_RANGE] = proposals.chance_of_range_move(n_ranges)
    out[at.P_FAR] = proposals.far_move
    out[at.LOG_FAR] = np.log(proposals.far_reach)
    out[at.P_SHIFT] = proposals.swap_shift
    out[at.P_ALIKE] = proposals.alike
    out[at.P_SWITCH] = proposals.switch_move
    return out
