"""The sites of a NumPyro model: latent, observed, idle; their log densities and dimensions; which are refused."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import jax.numpy as jnp
import numpy as np

from tempering.errors import TargetError

Sites = dict[str, dict[str, Any]]
UNOBSERVED = "_unobserved"  # how NumPyro names what obs_mask leaves open


def proper_priors() -> Any:
    """Return a handler that refuses a site whose prior cannot be drawn from, by its name."""
    from numpyro.distributions import ImproperUniform
    from numpyro.primitives import Messenger

    class ProperPriors(Messenger):  # type: ignore[misc]
        def process_message(self, msg: Any) -> None:
            if msg["type"] != "sample" or msg["value"] is not None:
                return
            fn = msg["fn"]
            while hasattr(fn, "base_dist"):
                fn = fn.base_dist
            if isinstance(fn, ImproperUniform):
                raise TargetError(
                    f"Every latent site must have a proper prior, but {msg['name']!r} has a flat one, so that k = 0 is "
                    "no distribution. Give it a proper prior, however wide."
                )

    return ProperPriors


def is_latent(site: dict[str, Any]) -> bool:
    """Whether a site is drawn, and not given."""
    return site["type"] == "sample" and not site["is_observed"]


def is_observed(site: dict[str, Any]) -> bool:
    """Whether a site is given: data, or a factor."""
    return site["type"] == "sample" and bool(site["is_observed"])


def is_data(site: dict[str, Any]) -> bool:
    """Whether a site holds data: an observed one that is no factor."""
    return is_observed(site) and type(_unwrapped(site["fn"])).__name__ not in ("Unit", "Delta")


def _unwrapped(fn: Any) -> Any:
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return fn


def is_idle_discrete(name: str, site: dict[str, Any]) -> bool:
    """Whether a site is a missing count: nothing else depends on it, and its probabilities sum to one."""
    return is_latent(site) and name.endswith(UNOBSERVED) and bool(site["fn"].support.is_discrete)


def log_prob(name: str, site: dict[str, Any], *, whole: bool = True) -> Any:
    """Return the log density of a site; in whole, or one for each observation.

    Of what obs_mask leaves open NumPyro masks the entries that are observed, and their numbers would have no law at
    all: they keep the one of the others, which integrates to one and touches nothing else.
    """
    fn = site["fn"]
    if name.endswith(UNOBSERVED) and not site["is_observed"] and hasattr(fn, "base_dist") and hasattr(fn, "_mask"):
        fn = fn.base_dist
    log_prob = fn.log_prob(site["value"])
    scaled = log_prob if site["scale"] is None else site["scale"] * log_prob
    return jnp.sum(scaled) if whole else scaled


def dims_of(site: dict[str, Any]) -> tuple[str, ...]:
    """Name the dimensions of a site by its plates; none where they do not fill its shape from the left."""
    if site["type"] not in ("sample", "deterministic"):
        return ()
    frames = sorted(site.get("cond_indep_stack", ()), key=lambda frame: frame.dim)
    shape = np.shape(site["value"])
    if not frames or any(-f.dim > len(shape) for f in frames):
        return ()
    n_event = len(shape) - len(frames)
    if n_event < 0 or shape[: len(frames)] != tuple(f.size for f in frames):
        return ()
    return (*(f.name for f in frames), *(f"{site['name']}_dim_{i}" for i in range(n_event)))


def check_call(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse arguments that a model cannot be called with; name the place of those that are ours."""
    try:
        taken = signature(model)
        taken.bind(*args, **kwargs)
    except ValueError:  # of a function without a signature
        return
    except TypeError as error:
        from tempering.sampling.options import MOVED
        from tempering.sampling.sample import sample

        named = [p.name for p in taken.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        ours = sorted((set(kwargs) - set(named)) & {*signature(sample).parameters, *MOVED})
        what = f"Options of tempering.sample are passed as options={{{ours[0]!r}: ...}}." if ours else "Pass its data."
        raise TargetError(f"A model must be called with its own arguments, {named}, but: {error}. {what}") from None


def check_sites(sites: Sites, latent: tuple[str, ...]) -> None:
    """Refuse what cannot be tempered."""
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
                f"Latent sites must be continuous, but {name!r} is discrete. Have it summed out: mark it by "
                "infer={'enumerate': 'parallel'}, or use MixtureSameFamily. Rows whose outcome is missing can be "
                "masked (numpyro.handlers.mask)."
            )
        if sites[name]["scale"] is not None:
            raise TargetError(
                f"Priors must not be scaled, but {name!r} is, by a subsampled plate or by handlers.scale: k = 0 would "
                "not be the prior. Use the whole data."
            )
        if hasattr(sites[name]["fn"], "_mask") and not name.endswith(UNOBSERVED):
            raise TargetError(
                f"Every latent site must have a proper prior, but that of {name!r} is masked, so that k = 0 is no "
                "distribution. Leave latent sites out of the mask."
            )
