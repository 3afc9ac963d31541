"""Three mixtures of posteriordb, written in JAX with unconstrained positions, and their priors."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Form:
    """What distinguishes the three: number of components, priors, and the names of posteriordb."""

    name: str
    n_components: int
    mean_sd: float
    sds: str  # "one" (known), "half-normal" (of deviation 2) or "uniform" (on 0 to 10)
    concentration: float  # of the symmetric Dirichlet (for two components: beta) prior of the weights
    recipe: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]  # weights, means, sds of made-up data

    @property
    def names(self) -> list[str]:
        """The parameters in posteriordb's order and spelling."""
        k = range(1, self.n_components + 1)
        means, sds = [f"mu[{i}]" for i in k], [f"sigma[{i}]" for i in k]
        weights = ["theta"] if self.n_components == 2 else [f"theta[{i}]" for i in k]
        if self.name == "low_dim_gauss_mix_collapse-low_dim_gauss_mix_collapse":
            return [*means, *sds, *weights]
        return [*weights, *means] if self.sds == "one" else [*weights, *means, *sds]


FORMS = {
    "low_dim_gauss_mix_collapse": Form(
        "low_dim_gauss_mix_collapse-low_dim_gauss_mix_collapse", 2, 2.0, "half-normal", 5.0,
        ((0.4, 0.6), (-0.75, 0.75), (1.0, 1.0)),  # one hump: the two overlap
    ),
    "normal_2": Form("normal_2-normal_mixture", 2, 10.0, "one", 1.0, ((0.2, 0.8), (-10.0, 10.0), (1.0, 1.0))),
    "normal_5": Form(
        "normal_5-normal_mixture_k", 5, 10.0, "uniform", 1.0,
        ((0.3, 0.25, 0.2, 0.15, 0.1), (-12.0, -5.0, 0.0, 6.0, 13.0), (1.0, 1.5, 0.7, 1.2, 1.0)),
    ),
}  # fmt: skip


def read_data(path: Path) -> Any:
    """Return y of one of posteriordb's data files, JSON or zipped JSON."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            text = archive.read(archive.namelist()[0]).decode()
    else:
        text = path.read_text()
    return np.asarray(json.loads(text)["y"], float)


def simulated(form: Form, n: int, rng: np.random.Generator) -> Any:
    """Return data made up from the form's recipe."""
    weights, means, sds = map(np.asarray, form.recipe)
    which = rng.choice(len(weights), size=n, p=weights)
    return means[which] + sds[which] * rng.standard_normal(n)


@dataclass(frozen=True, eq=False)
class Mixture:
    """The posterior of a mixture: positions are means, free deviations, and log ratios of weights to the last.

    One that is sorted has the least mean and the logs of the gaps between means in their place: one labelling of k!.
    """

    form: Form
    y: Any
    is_sorted: bool = False

    @property
    def dimension(self) -> int:
        """Means, deviations where they are unknown, and one log ratio less than components."""
        k = self.form.n_components
        return (2 if self.form.sds == "one" else 3) * k - 1

    def parts(self, x: Any) -> tuple[Any, Any, Any]:
        """Return means, log deviations and log weights of one position."""
        import jax
        import jax.numpy as jnp

        k = self.form.n_components
        log_weights = jax.nn.log_softmax(jnp.concatenate([x[-(k - 1) :], jnp.zeros(1)]))
        means = jnp.cumsum(jnp.concatenate([x[:1], jnp.exp(x[1:k])])) if self.is_sorted else x[:k]
        if self.form.sds == "one":
            return means, jnp.zeros(k), log_weights
        free = x[k : 2 * k]
        return means, free if self.form.sds == "half-normal" else np.log(10.0) + jax.nn.log_sigmoid(free), log_weights

    def log_likelihood(self, x: Any) -> Any:
        """Return the log likelihood of one position."""
        import jax
        import jax.numpy as jnp

        means, log_sds, log_weights = self.parts(x)
        z = (jnp.asarray(self.y)[:, None] - means) * jnp.exp(-log_sds)
        return jnp.sum(jax.nn.logsumexp(log_weights - log_sds - 0.5 * z * z - 0.5 * LOG_2PI, axis=-1))

    def log_prior(self, x: Any) -> Any:
        """Return the log prior of one unconstrained position, normalised, Jacobians included."""
        import jax
        import jax.numpy as jnp

        means, log_sds, log_weights = self.parts(x)
        total = -0.5 * jnp.sum((means / self.form.mean_sd) ** 2) + self.form.concentration * jnp.sum(log_weights)
        total += self._log_height
        if self.is_sorted:
            total += jnp.sum(x[1 : self.form.n_components])  # of the gaps by their logs
        if self.form.sds == "half-normal":
            total += jnp.sum(-0.5 * jnp.exp(2 * log_sds) / 4.0 + log_sds)
        elif self.form.sds == "uniform":
            free = x[self.form.n_components : 2 * self.form.n_components]
            total += jnp.sum(jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free))
        return total

    @cached_property
    def _log_height(self) -> float:
        """The log of what the prior's factors lack to be densities."""
        k, concentration = self.form.n_components, self.form.concentration
        height = gammaln(k * concentration) - k * gammaln(concentration)
        height -= k * (np.log(self.form.mean_sd) + 0.5 * LOG_2PI)
        height -= k * 0.5 * LOG_2PI if self.form.sds == "half-normal" else 0.0
        return float(height + gammaln(k + 1) if self.is_sorted else height)

    def sample_prior(self, key: Any) -> Any:
        """Draw one unconstrained position from the prior with a JAX key."""
        import jax
        import jax.numpy as jnp

        k, keys = self.form.n_components, jax.random.split(key, 3)
        means = self.form.mean_sd * jax.random.normal(keys[0], (k,))
        if self.is_sorted:
            means = jnp.sort(means)
            means = jnp.concatenate([means[:1], jnp.log(jnp.diff(means))])
        pieces = [means]
        if self.form.sds == "half-normal":
            pieces.append(jnp.log(2.0 * jnp.abs(jax.random.normal(keys[1], (k,)))))
        elif self.form.sds == "uniform":
            pieces.append(jax.random.logistic(keys[1], (k,)))
        log_gamma = jax.random.loggamma(keys[2], self.form.concentration, (k,))
        return jnp.concatenate([*pieces, log_gamma[:-1] - log_gamma[-1]])

    def constrained(self, x: Any) -> dict[str, Any]:
        """Return posteriordb's parameters by name, from positions of shape (n, dimension)."""
        return named(self.form, *self.components(x))

    def relabelled(self, x: Any, rng: np.random.Generator) -> dict[str, Any]:
        """Return the same with components in a random order, each position in its own."""
        order = rng.permuted(np.tile(np.arange(self.form.n_components), (len(x), 1)), axis=1)
        parts = (None if part is None else np.take_along_axis(part, order, axis=1) for part in self.components(x))
        return named(self.form, *parts)

    def components(self, x: Any) -> tuple[Any, Any | None, Any]:
        """Return means, deviations (None where they are known) and weights, each of shape (n, components)."""
        k = self.form.n_components
        logits = np.concatenate([x[:, -(k - 1) :], np.zeros((len(x), 1))], axis=1)
        weights = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        free = x[:, k : 2 * k]
        sds = np.exp(free) if self.form.sds == "half-normal" else 10.0 / (1 + np.exp(-free))
        means = np.cumsum(np.hstack([x[:, :1], np.exp(x[:, 1:k])]), axis=1) if self.is_sorted else x[:, :k]
        return means, None if self.form.sds == "one" else sds, weights


def named(form: Form, means: Any, sds: Any | None, weights: Any) -> dict[str, Any]:
    """Return arrays of components, shape (n, k), as parameters by posteriordb's names and in its order."""
    k = range(form.n_components)
    out = {f"mu[{i + 1}]": means[:, i] for i in k}
    if sds is not None:
        out |= {f"sigma[{i + 1}]": sds[:, i] for i in k}
    out |= {"theta": weights[:, 0]} if form.n_components == 2 else {f"theta[{i + 1}]": weights[:, i] for i in k}
    return {name: out[name] for name in form.names}
