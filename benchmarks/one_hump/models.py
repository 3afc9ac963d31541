"""Posteriors with one hump in free coordinates, with data made up by code: normal priors, or flat ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

HALVES = ("tuning", "judging")


@dataclass(frozen=True, eq=False)
class Posterior:
    """A log likelihood of a flat vector, and the normal prior of each coordinate; flat where there is none."""

    name: str
    what: str
    log_likelihood: Callable[[Any], Any]
    dimension: int
    prior: tuple[Any, Any] | None  # means and deviations

    def log_prior(self, x: Any) -> Any:
        """Return the log prior of one position, normalised."""
        import jax.numpy as jnp

        assert self.prior is not None
        mean, deviation = (jnp.broadcast_to(jnp.asarray(part, float), (self.dimension,)) for part in self.prior)
        return jnp.sum(-0.5 * ((x - mean) / deviation) ** 2 - jnp.log(deviation) - 0.5 * np.log(2 * np.pi))

    def sample_prior(self, key: Any) -> Any:
        """Draw one position from the prior with a JAX key."""
        import jax

        assert self.prior is not None
        return self.prior[0] + self.prior[1] * jax.random.normal(key, (self.dimension,))

    def log_density(self, x: Any) -> Any:
        """Return the log of the posterior's density, up to a constant."""
        return self.log_likelihood(x) + (0.0 if self.prior is None else self.log_prior(x))


def half_of(name: str) -> str:
    """Return "tuning" or "judging": the last bit of a digest of the name."""
    return HALVES[hashlib.sha256(name.encode()).digest()[-1] % 2]


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def _normal(residual: Any, log_sd: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(-0.5 * (residual * jnp.exp(-log_sd)) ** 2 - log_sd)


def regression(name: str, what: str, rows: int, columns: int, prior: Any, correlated: float = 0.0) -> Posterior:
    """Return a linear regression with an intercept, and a log standard deviation last."""
    import jax.numpy as jnp

    rng = _rng(name)
    x = rng.standard_normal((rows, columns)) + correlated * rng.standard_normal((rows, 1))
    y = 1.0 + x @ rng.normal(0, 0.5, columns) + rng.standard_normal(rows)

    def log_likelihood(theta: Any) -> Any:
        return _normal(jnp.asarray(y) - theta[0] - jnp.asarray(x) @ theta[1:-1], theta[-1])

    return Posterior(name, what, log_likelihood, columns + 2, prior)


def kilpisjarvi() -> Posterior:
    """Return a line through 62 years that are not centred: intercept and slope are all but one."""
    import jax.numpy as jnp

    rng = _rng("kilpisjarvi")
    year = np.arange(1952.0, 2014.0)
    y = 9.3 + 0.02 * (year - year.mean()) + 1.1 * rng.standard_normal(62)

    def log_likelihood(theta: Any) -> Any:
        return _normal(jnp.asarray(y) - theta[0] - theta[1] * jnp.asarray(year), theta[2])

    prior = (np.array([-30.0, 0.02, 0.0]), np.array([30.0, 0.02, 1.0]))
    return Posterior("kilpisjarvi", "line through 62 uncentred years, d = 3", log_likelihood, 3, prior)


def logistic(name: str, what: str, rows: int, columns: int, prior: Any) -> Posterior:
    """Return a logistic regression, an intercept among its columns."""
    import jax
    import jax.numpy as jnp

    rng = _rng(name)
    x = np.column_stack([np.ones(rows), rng.standard_normal((rows, columns - 1))])
    y = rng.random(rows) < 1.0 / (1.0 + np.exp(-(x @ rng.normal(0, 0.7, columns))))
    signs = np.where(y, 1.0, -1.0)

    def log_likelihood(theta: Any) -> Any:
        return jnp.sum(jax.nn.log_sigmoid(jnp.asarray(signs) * (jnp.asarray(x) @ theta)))

    return Posterior(name, what, log_likelihood, columns, prior)


def eight_schools() -> Posterior:
    """Return the eight schools with effects in units of their scale, whose prior is half-Cauchy."""
    import jax.numpy as jnp

    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def log_density(theta: Any) -> Any:
        mu, log_tau, effects = theta[0], theta[1], theta[2:]
        tau = jnp.exp(log_tau)
        fit = jnp.sum(-0.5 * ((jnp.asarray(y) - mu - tau * effects) / sigma) ** 2)
        return fit - 0.5 * (mu / 5.0) ** 2 + log_tau - jnp.log1p((tau / 5.0) ** 2) - 0.5 * jnp.sum(effects**2)

    return Posterior("eight-schools", "eight schools, not centred, d = 10", log_density, 10, None)


def autoregression() -> Posterior:
    """Return an autoregression of order five of 200 times."""
    import jax.numpy as jnp

    rng, order = _rng("ark"), 5
    y = list(rng.standard_normal(order))
    for _ in range(200):
        y.append(0.1 + float(np.dot([0.5, -0.2, 0.1, 0.1, -0.1], y[: -order - 1 : -1])) + 0.3 * rng.standard_normal())
    series = np.array(y)
    past = np.column_stack([series[order - 1 - i : len(series) - 1 - i] for i in range(order)])

    def log_likelihood(theta: Any) -> Any:
        return _normal(jnp.asarray(series[order:]) - theta[0] - jnp.asarray(past) @ theta[1:-1], theta[-1])

    return Posterior("ark", "autoregression of order 5, 200 times, d = 7", log_likelihood, 7, (0.0, 2.0))


def garch() -> Posterior:
    """Return GARCH(1, 1) of 200 times: a mean, a log level, and two shares of the variance before as logits."""
    import jax
    import jax.numpy as jnp

    rng = _rng("garch")
    y, variance = [], 1.0
    for _ in range(200):
        y.append(0.5 + np.sqrt(variance) * rng.standard_normal())
        variance = 0.3 + 0.4 * (y[-1] - 0.5) ** 2 + 0.4 * variance
    series = np.array(y)

    def log_likelihood(theta: Any) -> Any:
        level, shock = jnp.exp(theta[1]), jax.nn.sigmoid(theta[2])
        memory = (1.0 - shock) * jax.nn.sigmoid(theta[3])

        def step(variance: Any, now: Any) -> Any:
            residual = now - theta[0]
            term = -0.5 * residual**2 / variance - 0.5 * jnp.log(variance)
            return level + shock * residual**2 + memory * variance, term

        return jnp.sum(jax.lax.scan(step, jnp.var(jnp.asarray(series)), jnp.asarray(series))[1])

    return Posterior("garch", "GARCH(1, 1), 200 times, d = 4", log_likelihood, 4, (0.0, 1.5))


def poisson() -> Posterior:
    """Return a Poisson regression of 20,000 rows."""
    import jax.numpy as jnp

    rng, rows, columns = _rng("poisson"), 20_000, 8
    x = np.column_stack([np.ones(rows), rng.standard_normal((rows, columns - 1))])
    y = rng.poisson(np.exp(x @ np.append(0.5, rng.normal(0, 0.2, columns - 1)))).astype(float)

    def log_likelihood(theta: Any) -> Any:
        rate = jnp.asarray(x) @ theta
        return jnp.sum(jnp.asarray(y) * rate - jnp.exp(rate))

    return Posterior("poisson", "Poisson regression, 20,000 rows, d = 8", log_likelihood, columns, (0.0, 1.0))


def robust() -> Posterior:
    """Return a regression of 10,000 rows with Student errors of four degrees of freedom."""
    import jax.numpy as jnp

    rng, rows, columns = _rng("robust"), 10_000, 8
    x = np.column_stack([np.ones(rows), rng.standard_normal((rows, columns - 1))])
    y = x @ rng.normal(0, 0.5, columns) + 0.7 * rng.standard_t(4, rows)

    def log_likelihood(theta: Any) -> Any:
        z = (jnp.asarray(y) - jnp.asarray(x) @ theta[:-1]) * jnp.exp(-theta[-1])
        return jnp.sum(-2.5 * jnp.log1p(0.25 * z * z)) - rows * theta[-1]

    return Posterior("robust", "Student regression, 10,000 rows, d = 9", log_likelihood, columns + 1, (0.0, 2.0))


def gaussian_process() -> Posterior:
    """Return the logs of a Gaussian process's range, scale and noise, at 100 places."""
    import jax
    import jax.numpy as jnp

    rng, n = _rng("gaussian-process"), 100
    places = np.sort(rng.uniform(0.0, 10.0, n))
    squares = (places[:, None] - places) ** 2
    covariance = 1.5 * np.exp(-0.5 * squares) + 0.1 * np.eye(n)
    y = np.linalg.cholesky(covariance) @ rng.standard_normal(n)

    def log_likelihood(theta: Any) -> Any:
        k = jnp.exp(2 * theta[1] - 0.5 * jnp.asarray(squares) * jnp.exp(-2 * theta[0]))
        factor = jnp.linalg.cholesky(k + jnp.exp(2 * theta[2]) * jnp.eye(n))
        z = jax.scipy.linalg.solve_triangular(factor, jnp.asarray(y), lower=True)
        return -0.5 * z @ z - jnp.sum(jnp.log(jnp.diagonal(factor)))

    prior = (np.array([0.0, 0.0, -1.0]), np.array([0.7, 0.7, 1.0]))
    return Posterior("gaussian-process", "Gaussian process, 100 places, d = 3", log_likelihood, 3, prior)


def radon() -> Posterior:
    """Return a hierarchy of 919 houses in 85 counties: effects in units of their scale, and a slope."""
    import jax.numpy as jnp

    rng, n, counties = _rng("radon"), 919, 85
    county, floor = rng.integers(counties, size=n), (rng.random(n) < 0.2).astype(float)
    effects = 0.3 * rng.standard_normal(counties)
    y = 1.5 + effects[county] - 0.6 * floor + 0.75 * rng.standard_normal(n)

    def log_likelihood(theta: Any) -> Any:
        mean = theta[0] + jnp.exp(theta[2]) * theta[4:][jnp.asarray(county)] + theta[1] * jnp.asarray(floor)
        return _normal(jnp.asarray(y) - mean, theta[3])

    prior = (np.zeros(counties + 4), np.append([10.0, 10.0, 1.0, 1.0], np.ones(counties)))
    return Posterior("radon", "85 counties, 919 rows, not centred, d = 89", log_likelihood, counties + 4, prior)


MAKERS: dict[str, Callable[[], Posterior]] = {
    "kilpisjarvi": kilpisjarvi,
    "mesquite": lambda: regression("mesquite", "regression, 46 rows, flat prior, d = 8", 46, 6, None, 1.0),
    "nes": lambda: logistic("nes", "logistic, 1,179 rows, flat prior, d = 9", 1_179, 9, None),
    "eight-schools": eight_schools,
    "ark": autoregression,
    "garch": garch,
    "earnings": lambda: regression("earnings", "regression, 1,192 rows, d = 5", 1_192, 3, (0.0, 5.0)),
    "radon": radon,
    "gaussian-process": gaussian_process,
    "diamonds": lambda: regression("diamonds", "regression, 5,000 rows, d = 26", 5_000, 24, (0.0, 2.0), 0.5),
    "logistic": lambda: logistic("logistic", "logistic, 10,000 rows, d = 10", 10_000, 10, (0.0, 2.0)),
    "poisson": poisson,
    "robust": robust,
    "wide-logistic": lambda: logistic("wide-logistic", "logistic, 2,000 rows, d = 40", 2_000, 40, (0.0, 1.0)),
}


def posterior(name: str) -> Posterior:
    """Return a posterior by its name."""
    return MAKERS[name]()
