"""A NumPyro model as a target: its prior is the base, its likelihood is tempered.

Positions are unconstrained, one array a latent site under the site's own name; the Jacobians of the transforms belong
to the prior, so that k = 0 is the prior itself and the evidence is that of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tempering.doors.numpyro_enumeration import Enumeration, marked
from tempering.doors.numpyro_sites import (
    Sites,
    check_call,
    check_sites,
    dims_of,
    is_data,
    is_idle_discrete,
    is_latent,
    is_observed,
    log_prob,
    proper_priors,
)
from tempering.errors import SamplerError, TargetError, TemperingError
from tempering.requirements import require
from tempering.target import Target


def target_from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Target:
    """Temper the likelihood of a NumPyro model.

    Parameters
    ----------
    model : callable
        With continuous latent sites and proper priors. Observed sites and ``numpyro.factor`` are the likelihood. Values
        that ``obs_mask`` leaves open are drawn with the rest, discrete ones are summed out. So are discrete latent
        sites marked by ``infer={"enumerate": "parallel"}`` (or by ``config_enumerate``), which needs funsor.
    *args, **kwargs
        What the model is called with, the data among them.

    Returns
    -------
    Target
        Draws come back constrained, under the names of the model's sites, deterministic ones too. ``initial`` takes the
        model's own values.

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
    require("numpyro", what="A NumPyro model", install="tempering[numpyro]")
    _check_model(model)
    check_call(model, args, kwargs)
    return NumPyroModel(model, args, kwargs).target()


def _check_model(model: Any) -> None:
    if not callable(model):
        raise TargetError(f"A NumPyro model is a function, but got {type(model).__name__}. Pass the function itself.")


def _in_double(method: Callable[..., Any]) -> Callable[..., Any]:
    """Run a method in double precision: what JAX has compiled of a model for one precision does not fit the other."""

    @wraps(method)
    def in_double(*args: Any) -> Any:
        with jax.enable_x64(True):
            return method(*args)

    return in_double


class NumPyroModel:
    """A model with its data, and the functions of an unconstrained position made from it."""

    def __init__(self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.model, self.args, self.kwargs = model, args, kwargs
        try:
            with jax.enable_x64(True):
                sites = self._drawn(jax.random.key(0))
        except TemperingError:
            raise
        except Exception as error:  # of the user's model
            said = f"{type(error).__name__}: {str(error)[:200]}"
            raise TargetError(f"A model must run with its data, but it raised {said}. Fix that error first.") from error
        self.idle = {name: site["value"] for name, site in sites.items() if is_idle_discrete(name, site)}
        latent = [name for name, site in sites.items() if is_latent(site) and name not in self.idle]
        summed = marked(sites, [name for name in latent if sites[name]["fn"].support.is_discrete])
        self.latent = tuple(name for name in latent if name not in summed)
        check_sites(sites, self.latent)
        self.enumeration: Enumeration | None = None
        if summed:
            with jax.enable_x64(True):
                self.enumeration = Enumeration(model, args, kwargs, sites, self.latent, summed)
        self.observed = tuple(name for name, site in sites.items() if is_data(site))
        self.dims = {name: dims for name, site in sites.items() if (dims := dims_of(site))}
        self.coords: dict[str, Any] = {}
        self.shapes = {name: np.shape(sites[name]["value"]) for name in self.latent}

    def target(self) -> Target:
        """Return the target, which knows this model."""
        made = Target.from_likelihood(self.log_likelihood, self.log_prior, self.sample_prior, constrain=self.constrain)
        return made.with_model(self, self.unconstrain)

    @_in_double
    def log_prior(self, position: dict[str, Any]) -> Any:
        """Return the log density of the latent sites, and the log Jacobians of their transforms."""
        sites = self._at(position)
        terms = [log_prob(name, sites[name]) for name in self.latent]
        terms += [log_prob(name, site) for name, site in sites.items() if self._is_jacobian(name)]
        return sum(terms, start=jnp.zeros(()))

    @_in_double
    def log_likelihood(self, position: dict[str, Any]) -> Any:
        """Return the log density of the observed sites, and the factors."""
        sites = self._at(position)
        if self.enumeration is not None:
            values = {name: sites[name]["value"] for name in self.latent}
            prior = [log_prob(name, sites[name]) for name in self.latent]
            return self.enumeration.log_joint(values) - sum(prior, start=jnp.zeros(()))
        observed = [log_prob(n, site) for n, site in sites.items() if is_observed(site) and not self._is_jacobian(n)]
        return sum(observed, start=jnp.zeros(()))

    def _is_jacobian(self, name: str) -> bool:
        return any(name == f"_{latent}_log_det" for latent in self.latent)

    @_in_double
    def sample_prior(self, key: Any) -> dict[str, Any]:
        """Draw one unconstrained position; a NumPy generator is turned into a key."""
        return self._freed(self._drawn(_key(key)))

    def _freed(self, sites: Sites) -> dict[str, Any]:
        from numpyro.distributions import biject_to

        return {name: biject_to(sites[name]["fn"].support).inv(sites[name]["value"]) for name in self.latent}

    def unconstrain(self, values: Any) -> dict[str, Any]:
        """Turn values by the model's own names into a position; those left out are drawn from the prior."""
        from numpyro import handlers

        if not isinstance(values, dict) or not set(values) <= set(self.latent):
            came = sorted(map(str, values)) if isinstance(values, dict) else type(values).__name__
            raise TargetError(
                f"A position of this model has the names {list(self.latent)}, but got {came}. Pass a dictionary with "
                "the model's own values under some or all of these names."
            )
        for name, value in values.items():
            if np.shape(value) != self.shapes[name]:
                raise TargetError(
                    f"A start must have the shape of its site, but {name!r} has shape {self.shapes[name]} and the "
                    f"value {np.shape(value)}. Pass a value of the same shape."
                )
        with jax.enable_x64(True):
            given = {name: jax.numpy.asarray(value, float) for name, value in values.items()}
            model = handlers.substitute(self.model, data=given)
            found = self._freed(self._traced(model, jax.random.key(0)))
        position = {name: np.asarray(a) for name, a in found.items()}
        for name, free in position.items():
            if not np.all(np.isfinite(free)):
                raise TargetError(
                    f"A chain must start inside the support, but {name!r} is {values.get(name)}. Pass another value."
                )
        return position

    def constrain(self, positions: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Return latent and deterministic sites, leading axes (chain, draw) kept."""
        return self._mapped(self._named, positions)

    def _mapped(self, function: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Map a function over (chain, draw), by JAX."""
        lead = next(iter(values.values())).shape[:2]
        flat = {name: np.reshape(a, (lead[0] * lead[1], *np.shape(a)[2:])) for name, a in values.items()}
        with jax.enable_x64(True):
            found = jax.jit(jax.vmap(function))(flat)
        return {name: np.asarray(a).reshape(*lead, *a.shape[1:]) for name, a in found.items()}

    def _named(self, position: dict[str, Any]) -> dict[str, Any]:
        sites = self._at(position)
        hidden = frozenset() if self.enumeration is None else self.enumeration.varying
        shown = [name for name, site in sites.items() if name in self.latent or site["type"] == "deterministic"]
        shown = [name for name in shown if name not in hidden]
        return {name: sites[name]["value"] for name in shown}

    def _at(self, position: dict[str, Any]) -> Sites:
        """Run the model at a position; the log Jacobians of the transforms are factors of their own."""
        from numpyro import handlers
        from numpyro.infer.util import _unconstrain_reparam

        with jax.enable_x64(True):  # one precision always: compiled pieces of a model are kept for both
            free = {name: jax.numpy.asarray(a) for name, a in position.items()}
            placed = handlers.substitute(self.model, substitute_fn=partial(_unconstrain_reparam, free))
            idle = handlers.substitute(placed, data=self.idle) if self.idle else placed
            # Every latent site is substituted; the key serves plates and distributions that ask for one
            seeded = handlers.seed(idle, jax.random.key(0))
            return handlers.trace(seeded).get_trace(*self.args, **self.kwargs)  # type: ignore[no-any-return]

    def pointwise(self, values: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Return the log likelihood of every observation, leading axes (chain, draw), by the names of the data.

        None where discrete sites are summed out: observations that share one have no likelihoods of their own.
        """
        from numpyro import handlers

        if self.enumeration is not None:
            return {}

        def of_one(given: dict[str, Any]) -> dict[str, Any]:
            model = handlers.seed(handlers.substitute(self.model, data=given | self.idle), jax.random.key(0))
            sites = handlers.trace(model).get_trace(*self.args, **self.kwargs)
            return {name: log_prob(name, sites[name], whole=False) for name in self.observed}

        return self._mapped(of_one, {name: values[name] for name in self.latent})

    def predicted(self, values: dict[str, Any], rng: int) -> dict[str, NDArray[Any]]:
        """Draw new data for every draw, leading axes (chain, draw)."""
        from numpyro import handlers

        free = handlers.uncondition(self.model)

        def of_one(given: dict[str, Any]) -> dict[str, Any]:
            key = given.pop("__key__")
            model = handlers.seed(handlers.substitute(free, data=given), jax.random.wrap_key_data(key))
            sites = handlers.trace(model).get_trace(*self.args, **self.kwargs)
            return {name: sites[name]["value"] for name in self.observed}

        latent = {name: values[name] for name in self.latent}
        lead = next(iter(latent.values())).shape[:2]
        keys = jax.random.key_data(jax.random.split(jax.random.key(rng), lead))
        return self._mapped(of_one, {**latent, "__key__": np.asarray(keys)})

    @property
    def data(self) -> dict[str, NDArray[Any]]:
        """The data, by name."""
        sites = self._drawn(jax.random.key(0))
        return {name: np.asarray(sites[name]["value"]) for name in self.observed}

    def _drawn(self, key: Any) -> Sites:
        return self._traced(self.model, key)

    def _traced(self, model: Any, key: Any) -> Sites:
        from numpyro import handlers

        with jax.enable_x64(True):
            proper = proper_priors()(handlers.seed(model, key))
            return handlers.trace(proper).get_trace(*self.args, **self.kwargs)  # type: ignore[no-any-return]


def _key(rng: Any) -> Any:
    return jax.random.key(int(rng.integers(2**31))) if isinstance(rng, np.random.Generator) else rng


class TemperedSampler:
    """Sample a NumPyro model, with the methods of NumPyro's nested sampler.

    Parameters
    ----------
    model : callable
    **options
        Those of `tempering.sample`.

    Examples
    --------
    ``sampler = TemperedSampler(model, draws=2000); sampler.run(key, data)``, then ``sampler.get_samples(key, 1000)``,
    ``sampler.get_weighted_samples()``, ``sampler.print_summary()``; all else is in ``sampler.result``.
    """

    def __init__(self, model: Callable[..., Any], **options: Any) -> None:
        _check_model(model)
        self.model, self.options = model, options
        self._result: Any = None

    def run(self, rng_key: Any, *args: Any, **kwargs: Any) -> None:
        """Sample the posterior, given a key (or a whole number) and what the model is called with."""
        from tempering.sampling.sample import sample

        target = target_from_numpyro(self.model, *args, **kwargs)
        self._result = sample(target, **{"rng": _seed(rng_key), **self.options})

    @property
    def result(self) -> Any:
        """The run: `tempering.TemperedDraws`."""
        if self._result is None:
            raise SamplerError("There are no draws, since the sampler has not run. Call run(rng_key, ...) first.")
        return self._result

    def get_samples(self, rng_key: Any, num_samples: int) -> dict[str, NDArray[Any]]:
        """Return draws of equal weight by name, resampled from the weighted ones; some may occur twice."""
        from tempering.estimators import resample

        values, log_weights = self.get_weighted_samples()
        chosen = resample(np.exp(log_weights), num_samples, rng=np.random.default_rng(_seed(rng_key)))
        return {name: a[chosen] for name, a in values.items()}

    def get_weighted_samples(self) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64]]:
        """Return all draws of all rungs by name, one after another, and their log weights, which sum to one."""
        run = self.result
        with np.errstate(divide="ignore"):
            log_weights = np.log(run.weights().ravel())
        values = {name: np.reshape(a, (log_weights.size, *np.shape(a)[2:])) for name, a in run.values.items()}
        return values, log_weights

    def print_summary(self) -> None:
        """Print the estimates, the evidence and the verdict."""
        from rich.console import Console

        console = Console()
        console.print(self.result.summary().to_string(), highlight=False)
        evidence = self.result.log_evidence()
        console.print(f"log evidence {evidence.value:.3f} +- {evidence.standard_error:.3f}", highlight=False)
        console.print(str(self.result.diagnose()), highlight=False)


def sample(model: Callable[..., Any], *args: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    """Sample a NumPyro model and return what ArviZ takes; see `tempering.doors.pymc.sample` for its groups.

    Parameters
    ----------
    model : callable
    *args, **kwargs
        What the model is called with.
    options : dict, optional
        Those of `tempering.sample`.
    """
    from tempering.doors.arviz import to_arviz
    from tempering.sampling.sample import sample as sample_target

    if not isinstance(options or {}, dict):
        raise SamplerError(f"options must be a dictionary, but got {options!r}. Write options={{'draws': 1000}}.")
    target = target_from_numpyro(model, *args, **kwargs)
    return to_arviz(sample_target(target, **(options or {})), model=target.model, predictive=True)


def _seed(rng_key: Any) -> int:
    if isinstance(rng_key, int | np.integer):
        return int(rng_key)
    try:
        return int(jax.random.randint(rng_key, (), 0, 2**31 - 1))
    except TypeError:
        raise SamplerError(f"rng_key must be a key of JAX or a whole number, but got {rng_key!r}. Pass 1.") from None
