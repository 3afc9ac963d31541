"""A NumPyro model as a target: its prior is the base, its likelihood is tempered.

Positions are unconstrained, one array a latent site under the site's own name; the Jacobians of the transforms belong
to the prior, so that k = 0 is the prior itself and the evidence is that of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError, TargetError
from tempering.target import Target

Sites = dict[str, dict[str, Any]]


def target_from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Target:
    """Temper the likelihood of a NumPyro model.

    Parameters
    ----------
    model : callable
        With continuous latent sites and proper priors. Observed sites and ``numpyro.factor`` are the likelihood.
    *args, **kwargs
        What the model is called with, the data among them.

    Returns
    -------
    Target
        Draws come back constrained, under the names of the model's sites, deterministic ones too.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> def model(y):
    ...     scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    ...     numpyro.sample("y", dist.Normal(0.0, scale), obs=y)
    >>> target = target_from_numpyro(model, 1.5)
    >>> float(target.energy({"scale": 0.0})), float(target.constrain({"scale": np.zeros((1, 1))})["scale"][0, 0])
    (-2.0439..., 1.0)
    """
    try:
        import numpyro  # noqa: F401
    except ImportError as error:
        raise InputError(
            "A NumPyro model needs NumPyro, but it is not installed. Run: pip install 'tempering[numpyro]'."
        ) from error
    return _NumPyroModel(model, args, kwargs).target()


class _NumPyroModel:
    """A model with its data, and the functions of an unconstrained position made from it."""

    def __init__(self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import jax

        self.model, self.args, self.kwargs = model, args, kwargs
        sites = self._drawn(jax.random.key(0))
        self.latent = tuple(name for name, site in sites.items() if _is_latent(site))
        _check(sites, self.latent)

    def target(self) -> Target:
        return Target.from_likelihood(self.log_likelihood, self.log_prior, self.sample_prior, constrain=self.constrain)

    def log_prior(self, position: dict[str, Any]) -> Any:
        sites, log_jacobian = self._at(position)
        return log_jacobian + sum(_log_prob(sites[name]) for name in self.latent)

    def log_likelihood(self, position: dict[str, Any]) -> Any:
        import jax.numpy as jnp

        sites, _ = self._at(position)
        observed = [_log_prob(site) for site in sites.values() if _is_observed(site)]
        return sum(observed, start=jnp.zeros(()))

    def sample_prior(self, key: Any) -> dict[str, Any]:
        """Draw one unconstrained position; a NumPy generator is turned into a key."""
        from numpyro.distributions import biject_to

        sites = self._drawn(_key(key))
        return {name: biject_to(sites[name]["fn"].support).inv(sites[name]["value"]) for name in self.latent}

    def constrain(self, positions: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Return latent and deterministic sites, leading axes (chain, draw) kept."""
        import jax

        lead = next(iter(positions.values())).shape[:2]
        flat = {name: np.reshape(a, (lead[0] * lead[1], *np.shape(a)[2:])) for name, a in positions.items()}
        with jax.enable_x64(True):
            values = jax.jit(jax.vmap(self._named))(flat)
        return {name: np.asarray(a).reshape(*lead, *a.shape[1:]) for name, a in values.items()}

    def _named(self, position: dict[str, Any]) -> dict[str, Any]:
        sites, _ = self._at(position)
        shown = [name for name, site in sites.items() if name in self.latent or site["type"] == "deterministic"]
        return {name: sites[name]["value"] for name in shown}

    def _at(self, position: dict[str, Any]) -> tuple[Sites, Any]:
        """Run the model at a position; return its sites and the log Jacobian of the transforms."""
        import jax
        import jax.numpy as jnp
        from numpyro import handlers
        from numpyro.distributions import biject_to

        log_jacobians = []

        def constrained(site: dict[str, Any]) -> Any:
            if site["type"] != "sample" or site["is_observed"] or site["name"] not in position:
                return None
            # Where a support depends on other sites, this is the place at which they are known
            transform = biject_to(site["fn"].support)
            free = position[site["name"]]
            value = transform(free)
            log_jacobians.append(jnp.sum(transform.log_abs_det_jacobian(free, value)))
            return value

        # Every latent site is substituted; the key serves plates and distributions that ask for one
        seeded = handlers.seed(handlers.substitute(self.model, substitute_fn=constrained), jax.random.key(0))
        sites = handlers.trace(seeded).get_trace(*self.args, **self.kwargs)
        return sites, sum(log_jacobians)

    def _drawn(self, key: Any) -> Sites:
        from numpyro import handlers

        try:
            return handlers.trace(handlers.seed(self.model, key)).get_trace(*self.args, **self.kwargs)  # type: ignore[no-any-return]
        except NotImplementedError as error:
            raise TargetError(
                "Every latent site must have a proper prior that can be drawn from, but one has not "
                f"({error}). Give it a proper prior, however wide."
            ) from error


def _key(rng: Any) -> Any:
    import jax

    return jax.random.key(int(rng.integers(2**31))) if isinstance(rng, np.random.Generator) else rng


def _is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_observed(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and bool(site["is_observed"])


def _log_prob(site: dict[str, Any]) -> Any:
    import jax.numpy as jnp

    log_prob = jnp.sum(site["fn"].log_prob(site["value"]))
    return log_prob if site["scale"] is None else site["scale"] * log_prob


def _check(sites: Sites, latent: tuple[str, ...]) -> None:
    if not latent:
        raise TargetError(
            "A model must have at least one latent site, but all of its sites are observed. Leave one without obs=."
        )
    for name, site in sites.items():
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            whole, taken = site["args"]
            raise TargetError(
                f"A likelihood must take in all data, but the plate {name!r} takes {taken} of {whole}. Leave "
                "subsample_size out."
            )
    for name in latent:
        if sites[name]["fn"].support.is_discrete:
            raise TargetError(
                f"Latent sites must be continuous, but {name!r} is discrete. Sum it out (MixtureSameFamily does for "
                "mixtures), or mask rows whose outcome is missing: numpyro.handlers.mask."
            )
        if sites[name]["scale"] is not None:
            raise TargetError(
                f"Priors must not be scaled, but {name!r} is, by a subsampled plate or by handlers.scale: k = 0 would "
                "not be the prior. Use the whole data."
            )
