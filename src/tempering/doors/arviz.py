"""An ArviZ view of a run: draws of equal weight, and beside them all rungs with their weights.

ArviZ takes no weights, so that its posterior is resampled by ours. Needs xarray; ArviZ itself only to give the older
``InferenceData``, which is returned where the installed ArviZ knows nothing newer.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import SamplerError, check_count
from tempering.estimators import resample
from tempering.estimators.rules import DEFAULT_RULE
from tempering.requirements import imported

if TYPE_CHECKING:
    import xarray as xr

    from tempering.runs.draws import TemperedDraws


def to_arviz(
    draws: TemperedDraws,
    *,
    rule: str = DEFAULT_RULE,
    n_draws: int | None = None,
    rng: np.random.Generator | int | None = 0,
    model: Any = None,
    predictive: bool = False,
) -> Any:
    """Return a run as the installed ArviZ takes it.

    Parameters
    ----------
    draws : TemperedDraws
    rule : str
        How the rungs are combined.
    n_draws : int, optional
        Draws of equal weight, in all; by default as many as the weighted ones are worth, ESS(w^lambda), Eq. 3.
    rng : int, Generator or None
        The one uniform number that resampling takes; the default gives the same tree every time.
    model : optional
        The model of another package that the run was made from: names of dimensions, coordinates, and the log
        likelihood of every observation come from it. By default the one that the run knows of.
    predictive : bool
        Draw from the prior, and new data for the resampled draws; needs a model.

    Returns
    -------
    arviz.InferenceData where ArviZ before 1.0 is installed, xarray.DataTree otherwise
        ``posterior``: draws of equal weight, in time order, as many chains as the run had ensembles.
        ``sample_stats``: their rung, energy and acceptance.
        ``tempered``: every draw of every rung, with ``log_weight``, ``rung``, ``inverse_temperature``, ``energy``.
        With a model: ``log_likelihood``, ``observed_data``, and if wanted ``posterior_predictive``, ``prior`` and
        ``prior_predictive``.
        Attributes: the log evidence with its error, the rule, the sampler.
    """
    from tempering.runs.draws import check_draws

    xarray = imported("xarray", what="An ArviZ container", install="tempering[arviz]")
    check_draws(draws)
    if n_draws is not None:
        check_count("n_draws", n_draws, error=SamplerError)
    known = model if model is not None else getattr(draws, "model", None)
    dims, coords = getattr(known, "dims", {}), getattr(known, "coords", {})
    chosen = _equal_weight(draws, rule, n_draws, rng)
    posterior = {name: _picked(a, chosen) for name, a in draws.values.items()}
    arrays = {
        "posterior": posterior,
        "sample_stats": {name: _picked(a, chosen) for name, a in _statistics(draws).items()},
        "tempered": {**draws.values, **_statistics(draws), **_weights(draws, rule)},
    }
    if known is not None:
        arrays |= _of_model(known, posterior, predictive)
    groups = {name: _dataset(xarray, found, dims, coords) for name, found in arrays.items() if found}
    if known is not None:
        groups["observed_data"] = _dataset(xarray, known.data, dims, coords, n_lead=0)
    attributes = _attributes(draws, rule)
    if _only_knows_inference_data():
        return _inference_data(groups, attributes)
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs.update(attributes)
    return tree


def _of_model(model: Any, posterior: dict[str, NDArray[Any]], predictive: bool) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the groups that only a model can make."""
    found: dict[str, Any] = {"log_likelihood": model.pointwise(posterior)}
    if predictive:
        found["posterior_predictive"] = model.predicted(posterior, 1)
        found["prior"] = prior = prior_of_model(model)
        found["prior_predictive"] = model.predicted(prior, 2)
    return found


def prior_of_model(model: Any, n: int = 500) -> dict[str, NDArray[Any]]:
    """Draw values of a model's variables from the prior, one chain."""
    import jax

    with jax.enable_x64(True):
        try:
            drawn = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(3), n))
        except Exception:  # one that takes NumPy generators
            rng = np.random.default_rng(3)
            rows = [model.sample_prior(rng) for _ in range(n)]
            drawn = {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
    return dict(model.constrain({name: np.asarray(a)[None] for name, a in drawn.items()}))


def _equal_weight(
    draws: TemperedDraws, rule: str, n_draws: int | None, rng: np.random.Generator | int | None
) -> NDArray[np.intp]:
    """Choose draws by their weights: indices into the flattened (chain, draw), one row per ensemble, in time order."""
    size, n = draws.chains_per_ensemble, draws.n_chains // draws.chains_per_ensemble
    flat = np.arange(draws.rung.size).reshape(n, size, draws.n_draws)
    in_time = flat.transpose(0, 2, 1).ravel()  # replicas of one ensemble side by side at each time
    wanted = int(np.ceil(draws.ess(rule))) if n_draws is None else n_draws
    each = max(1, wanted // n)
    picked = resample(draws.weights(rule).ravel()[in_time], each * n, rng=rng)
    return np.asarray(in_time[picked].reshape(n, each))


def _picked(array: NDArray[Any], chosen: NDArray[np.intp]) -> NDArray[Any]:
    whole = np.asarray(array)
    return np.asarray(whole.reshape(whole.shape[0] * whole.shape[1], *whole.shape[2:])[chosen])


def _statistics(draws: TemperedDraws) -> dict[str, NDArray[Any]]:
    known = ~np.isnan(draws.acceptance)
    total = np.where(known, draws.acceptance, 0.0).sum(axis=-1)
    n = known.sum(axis=-1)
    acceptance = np.where(n > 0, total / np.maximum(n, 1), np.nan)
    return {"rung": draws.rung, "energy": draws.energy, "acceptance": acceptance}


def _weights(draws: TemperedDraws, rule: str) -> dict[str, NDArray[Any]]:
    with np.errstate(divide="ignore"):  # rungs without a share have weight zero
        log_weight = np.log(draws.weights(rule))
    return {"log_weight": log_weight, "inverse_temperature": draws.path.inverse_temperatures[draws.rung]}


def _dataset(
    xarray: Any,
    arrays: Mapping[str, NDArray[Any]],
    dims: Mapping[str, tuple[str, ...]],
    coords: Mapping[str, Any],
    n_lead: int = 2,
) -> xr.Dataset:
    """Make a dataset of arrays with leading axes (chain, draw), or without; a model names the rest."""
    lead = ("chain", "draw")[:n_lead]
    variables: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name, a in arrays.items():
        shape = np.shape(a)[n_lead:]
        own = dims.get(name, ())
        if len(own) != len(shape) or any(d in coords and len(coords[d]) != n for d, n in zip(own, shape, strict=True)):
            own = tuple(f"{name}_dim_{i}" for i in range(len(shape)))
        variables[name] = ([*lead, *own], np.asarray(a))
        sizes |= dict(zip([*lead, *own], np.shape(a), strict=True))
    coordinates = {name: np.asarray(coords[name]) if name in coords else np.arange(n) for name, n in sizes.items()}
    return xarray.Dataset(variables, coordinates)  # type: ignore[no-any-return]


def _attributes(draws: TemperedDraws, rule: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "inference_library": "tempering",
        "inference_library_version": version("tempering"),
        "rule": rule,
        "inverse_temperatures": draws.path.inverse_temperatures.tolist(),
    }
    if draws.info is not None:
        found |= {"method": draws.info.method, "engine": draws.info.engine, "sampling_time": draws.info.seconds}
    if len(draws.path) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a disagreement goes into the attributes
            evidence = draws.log_evidence()
        found |= {
            "log_evidence": evidence.value,
            "log_evidence_standard_error": evidence.standard_error,
            "log_evidence_is_absolute": int(evidence.is_absolute),
            "log_evidence_disagreement": evidence.disagreement,
        }
    return found


def _only_knows_inference_data() -> bool:
    """Whether the ArviZ that draws the pictures here is from before data trees, whatever else is installed."""
    found = _version("arviz")
    return found is not None and int(found.split(".")[0]) < 1


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _inference_data(groups: dict[str, xr.Dataset], attributes: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its successor on import
        warnings.simplefilter("ignore", UserWarning)  # a group of our own; no argument says so in all versions
        arviz = imported("arviz", what="An ArviZ container", install="tempering[arviz]")

        return arviz.InferenceData(attrs=attributes, **groups)
