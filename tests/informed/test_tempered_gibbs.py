"""Tempered Gibbs: finite coordinates by their exact transition matrix, normal ones from a stationary start."""

import numpy as np
import pytest
from scipy.special import logsumexp

from informed.graphs import branch, stationary_law, weighted
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.informed import TemperedGibbs, tempered_gibbs
from tempering.informed.sampling import RUNG_MOVES, Jumper, step_simulated

LADDER = np.array([1.0, 0.4])
LOG_PSEUDO_PRIOR = np.array([0.0, 0.9])


class Table:
    """A skewed law on 2 x 3 x 2 points given by its table; not every coordinate has every value."""

    shape = (2, 3, 2)

    def __init__(self, weighted_form=False):
        self.log_law = np.sin(np.arange(12.0) ** 1.5).reshape(self.shape) * 1.7
        if weighted_form:
            self.log_importance = self._log_importance

    def initial(self, rng):
        return np.zeros(3, dtype=np.intp)

    def energy(self, state):
        return float(self.log_law[tuple(state)])

    def log_conditionals(self, state, k):
        out = np.full((3, 3), -np.inf)
        for i, n in enumerate(self.shape):
            at = [*state]
            for value in range(n):
                at[i] = value
                out[i, value] = k * self.log_law[tuple(at)]
        return out - np.log(np.exp(out).sum(axis=1, keepdims=True))

    def _log_importance(self, state, k):
        """A function of the other coordinates: the probability that this one is 1, and the sum of the others."""
        others = np.sum(state) - np.asarray(state)
        return np.logaddexp(self.log_conditionals(state, k)[:, 1], np.log(0.1)) + 0.2 * others


class Leaking(Table):
    """Importance that looks at the coordinate itself."""

    def _log_importance(self, state, k):
        return 0.8 * np.asarray(state, dtype=float)


def error_of(model, power, share, k=LADDER):
    """Return how far the weighted joint law of (state, rung) is from p_i pi_i."""
    chain = TemperedGibbs(model, k, power, share)
    arrive = lambda state: chain.arrive(None, np.array(state))  # noqa: E731

    def step(decisions, name):
        walker = Jumper(arrive(name[0]), name[1], name[2])
        walker = step_simulated(decisions, chain, walker, k, LOG_PSEUDO_PRIOR[: len(k)], RUNG_MOVES["lifted"])
        return tuple(int(v) for v in walker.point.state), walker.rung, walker.direction

    law = stationary_law(((0, 0, 0), 0, 1), step)
    joint = weighted(law, lambda name: name[:2], lambda name: -arrive(name[0]).log_totals[name[1]])
    log_truth = {
        (x, i): k[i] * model.log_law[x] + LOG_PSEUDO_PRIOR[i] for x in np.ndindex(model.shape) for i in range(len(k))
    }
    total = logsumexp(list(log_truth.values()))
    return max(abs(joint[name] - np.exp(value - total)) for name, value in log_truth.items())


@pytest.mark.parametrize("weighted_form", [False, True])
@pytest.mark.parametrize(("power", "share"), [(0.0, 0.0), (0.0, 0.5), (0.4, 0.0), (0.4, 0.3), (1.0, 0.0)])
def test_finite_coordinates_are_exact(monkeypatch, power, share, weighted_form):
    branch(monkeypatch)
    assert error_of(Table(weighted_form), power, share) < 1e-12
    assert error_of(Table(weighted_form), power, share, LADDER[:1]) < 1e-12


def test_control_an_importance_that_looks_at_its_own_coordinate_is_seen(monkeypatch):
    branch(monkeypatch)
    assert error_of(Leaking(weighted_form=True), 0.4, 0.0) > 1e-3


def test_control_drawing_from_another_conditional_than_the_weights_say_is_seen(monkeypatch):
    branch(monkeypatch)
    draw = TemperedGibbs._draw

    def narrow(self, rng, state, i, k):
        return draw(TemperedGibbs(self.model, self.inverse_temperatures, 0.8), rng, state, i, k)

    monkeypatch.setattr(TemperedGibbs, "_draw", narrow)
    assert error_of(Table(), 0.2, 0.0) > 1e-3


class Normal:
    """Three correlated normal coordinates with unequal scales and means, tempered as pi^k."""

    mean = np.array([1.0, -2.0, 0.5])
    covariance = np.array([[1.0, 0.8, 0.1], [0.8, 2.0, -0.3], [0.1, -0.3, 0.5]])

    def __init__(self):
        self.precision = np.linalg.inv(self.covariance)

    def initial(self, rng):
        return self.mean.copy()

    def energy(self, x):
        return float(-0.5 * (x - self.mean) @ self.precision @ (x - self.mean))

    def normal_conditionals(self, x, k):
        diagonal = np.diag(self.precision)
        away = self.precision @ (x - self.mean) - diagonal * (x - self.mean)
        return self.mean - away / diagonal, 1.0 / (k * diagonal)


K, POWER, SHARE = 0.7, 0.2, 0.2


def stationary_draw(rng, model):
    """Draw from pi_k Z exactly: all but one coordinate from pi_k, that one from the wider conditional."""
    x = rng.multivariate_normal(model.mean, model.covariance / K)
    i = rng.integers(3)
    mean, variance = model.normal_conditionals(x, K)
    wide = 1.0 if rng.random() < SHARE else POWER
    x[i] = mean[i] + np.sqrt(variance[i] / wide) * rng.standard_normal()
    return x


def replicates(chain, rng, n=6000):
    """Return changes of bounded statistics over one step from a stationary start, and weighted moments."""
    rows = []
    for _ in range(n):
        x = stationary_draw(rng, chain.model)
        point = chain.arrive(rng, x)
        after = chain.leave(rng, point, 0)[0]
        z, z_after = (np.tanh(v - chain.model.mean - 0.3) for v in (x, after))
        rows.append([*(z_after - z), *(z_after**2 - z**2), z_after[0] * z_after[1] - z[0] * z[1]])
    return rows


def test_normal_coordinates_keep_their_stationary_law():
    rng = seeded_rng("test_normal_coordinates_keep_their_stationary_law")
    assert_mean_is(0.0, replicates(TemperedGibbs(Normal(), np.array([K]), POWER, SHARE), rng))


def test_control_drawing_from_the_narrow_conditional_is_seen(monkeypatch):
    rng = seeded_rng("test_control_drawing_from_the_narrow_conditional_is_seen")
    chain = TemperedGibbs(Normal(), np.array([K]), POWER, SHARE)
    plain = TemperedGibbs(Normal(), np.array([K]), 1.0, SHARE)
    monkeypatch.setattr(TemperedGibbs, "_draw", lambda self, *a, draw=TemperedGibbs._draw: draw(plain, *a))
    assert_mean_is_not(0.0, replicates(chain, rng))


def test_weights_of_normal_coordinates_give_back_the_target():
    """Under pi_k Z the mean of w (h - E h) is 0 for every h."""
    rng = seeded_rng("test_weights_of_normal_coordinates_give_back_the_target")
    model = Normal()
    chain = TemperedGibbs(model, np.array([K]), POWER, SHARE)
    rows = []
    for _ in range(6000):
        x = stationary_draw(rng, model)
        w = np.exp(-chain.arrive(rng, x).log_totals[0])
        z = x - model.mean
        rows.append([*(w * z), *(w * (z**2 - np.diag(model.covariance) / K))])
    assert_mean_is(0.0, rows)
    assert_mean_is_not(0.0, np.array(rows) + 0.1)


def test_a_power_of_zero_needs_finite_values():
    with pytest.raises(tempered_gibbs.SamplerError, match="power"):
        TemperedGibbs(Normal(), np.ones(1), 0.0)
