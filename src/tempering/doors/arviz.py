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

from tempering.errors import InputError
from tempering.estimators import resample
from tempering.runs.draws import DEFAULT_RULE

if TYPE_CHECKING:
    import xarray as xr

    from tempering.runs.draws import TemperedDraws


def to_arviz(
    draws: TemperedDraws,
    *,
    rule: str = DEFAULT_RULE,
    n_draws: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> Any:
    """Return an ArviZ data tree of a run.

    Parameters
    ----------
    draws : TemperedDraws
    rule : str
        How the rungs are combined.
    n_draws : int, optional
        Draws of equal weight, in all; by default as many as the weighted ones are worth, ESS(w^lambda), Eq. 3.
    rng : int, Generator or None
        The one uniform number that resampling takes; the default gives the same tree every time.

    Returns
    -------
    xarray.DataTree, or arviz.InferenceData for ArviZ before 1.0
        ``posterior``: draws of equal weight, in time order, as many chains as the run had ensembles.
        ``sample_stats``: their rung, energy and acceptance.
        ``tempered``: every draw of every rung, with ``log_weight``, ``rung``, ``inverse_temperature``, ``energy``.
        Attributes: the log evidence with its error, the rule, the sampler.
    """
    try:
        import xarray
    except ImportError as error:
        raise InputError(
            "An ArviZ data tree needs xarray, but it is not installed. Run: pip install 'tempering[arviz]'."
        ) from error
    chosen = _equal_weight(draws, rule, n_draws, rng)
    groups = {
        "posterior": _dataset(xarray, {name: _picked(a, chosen) for name, a in draws.values.items()}),
        "sample_stats": _dataset(xarray, {name: _picked(a, chosen) for name, a in _statistics(draws).items()}),
        "tempered": _dataset(xarray, {**draws.values, **_statistics(draws), **_weights(draws, rule)}),
    }
    attributes = _attributes(draws, rule)
    if _only_knows_inference_data():
        return _inference_data(groups, attributes)
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs.update(attributes)
    return tree


def _equal_weight(
    draws: TemperedDraws, rule: str, n_draws: int | None, rng: np.random.Generator | int | None
) -> NDArray[np.intp]:
    """Choose draws by their weights: indices into the flattened (chain, draw), one row an ensemble, in time order."""
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


def _dataset(xarray: Any, arrays: Mapping[str, NDArray[Any]]) -> xr.Dataset:
    variables = {
        name: (["chain", "draw", *(f"{name}_dim_{i}" for i in range(np.ndim(a) - 2))], np.asarray(a))
        for name, a in arrays.items()
    }
    n_chains, n_draws = next(iter(variables.values()))[1].shape[:2]
    sizes = {d: s for dims, a in variables.values() for d, s in zip(dims[2:], a.shape[2:], strict=True)}
    coordinates = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    coordinates |= {dimension: np.arange(size) for dimension, size in sizes.items()}
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
    """Whether the ArviZ that is installed is from before data trees."""
    if _version("arviz-base") is not None:
        return False
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
        import arviz

        return arviz.InferenceData(attrs=attributes, **groups)
