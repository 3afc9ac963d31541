"""The posterior of a normal mixture on data: every relabelling of its components is a mode of equal mass."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tempering.problems.posterior import Posterior, Truth
from tempering.problems.priors import NormalPrior
from tempering.problems.problem import Array, FloatArray, frozen_array, log_sum_exp, namespace_of

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
_WEIGHTS, _MEANS, _SDS = (0.5, 0.3, 0.2), (-1.5, 1.2, 4.5), (0.9, 0.7, 1.1)  # what made the data


@dataclass(frozen=True, eq=False)
class LabelSwitching(Posterior):
    r"""Means, log deviations and logits of the weights of a mixture of three normals.

    .. math:: y_i \sim \sum_j p_j N(\mu_j, e^{2 s_j}), \quad p = \mathrm{softmax}(z), \quad
        \mu_j \sim N(0, 5^2),\; s_j \sim N(0, 1),\; z_j \sim N(0, 1)

    A position is :math:`(\mu, s, z)`, nine numbers. Prior and likelihood do not know the components apart, so the
    six orders of the means have mass 1/6 each, exactly.

    Parameters
    ----------
    data : array_like, shape (n_data,)

    Examples
    --------
    >>> problem = label_switching()
    >>> int(problem.mode_of(np.array([0.0, 5.0, -2.0, *np.zeros(6)])))  # the third mean is the least: order (2, 0, 1)
    4
    """

    data: FloatArray
    n_components = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", frozen_array(self.data, "data", 1))

    @cached_property
    def prior(self) -> NormalPrior:
        """Independent normals, wide for the means."""
        return NormalPrior(np.zeros(9), np.repeat([5.0, 1.0, 1.0], self.n_components))

    @property
    def n_modes(self) -> int:
        """The number of orders of the components."""
        return 6

    @property
    def initial(self) -> FloatArray:
        """A point in the bulk of one mode."""
        return np.array([*_MEANS, *np.log(_SDS), *(np.log(_WEIGHTS) - np.mean(np.log(_WEIGHTS)))])

    @cached_property
    def truth(self) -> Truth:
        """Evidence and summaries, computed once."""
        return Truth.stored("label_switching")

    def log_likelihood(self, x: Array) -> Any:
        """Return the log likelihood, shape (..., 9)."""
        xp = namespace_of(x)
        means, log_sds, logits = xp.moveaxis(xp.reshape(xp.asarray(x), (*x.shape[:-1], 3, 3)), -2, 0)
        log_heights = logits - xp.expand_dims(log_sum_exp(logits), -1) - log_sds - _LOG_SQRT_2PI
        z = (self.data[:, None] - xp.expand_dims(means, -2)) * xp.expand_dims(xp.exp(-log_sds), -2)
        return xp.sum(log_sum_exp(xp.expand_dims(log_heights, -2) - 0.5 * z * z), axis=-1)

    def mode_of(self, x: Array) -> Any:
        """Return which order the means are in: the number of their permutation."""
        return order_of_means(x)

    def summaries(self, x: Array) -> Any:
        """Return means, log deviations and weights of the components, sorted by their means."""
        xp = namespace_of(x)
        means, log_sds, logits = xp.moveaxis(xp.reshape(xp.asarray(x), (*x.shape[:-1], 3, 3)), -2, 0)
        order = xp.argsort(means, axis=-1)
        weights = xp.exp(logits - log_sum_exp(logits)[..., None])
        return xp.concat([xp.take_along_axis(v, order, axis=-1) for v in (means, log_sds, weights)], axis=-1)


def order_of_means(x: Array) -> Any:
    """Return the number, among the six orders, of the one that the first three coordinates are in."""
    xp = namespace_of(x)
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    smallest = xp.where((a < b) & (a < c), 0, xp.where(b < c, 1, 2))
    left, right = xp.where(smallest == 0, b, a), xp.where(smallest == 2, b, c)
    return 2 * smallest + xp.where(left < right, 0, 1)


def label_switching(n_data: int = 200) -> LabelSwitching:
    """Return the mixture of three normals on 200 data made from one."""
    rng = np.random.default_rng(200)  # the data, part of the problem
    which = rng.choice(3, size=n_data, p=_WEIGHTS)
    return LabelSwitching(np.array(_MEANS)[which] + np.array(_SDS)[which] * rng.standard_normal(n_data))
