"""A fitted treed GP in one file: NumPy arrays and JSON, nothing that runs when it is read."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import DamageError, InputError
from tempering.estimators.rung_sums import RungSums
from tempering.io.durable_files import write_atomically
from tempering.io.records import readable
from tempering.models.treed_gp.categories import Categories
from tempering.models.treed_gp.combining import Posterior
from tempering.models.treed_gp.fitting import Remembered
from tempering.models.treed_gp.parameters import GROUPS, settings_of
from tempering.path.ladder import Ladder

if TYPE_CHECKING:
    from tempering.models.treed_gp.estimator import TreedGP

FORMAT = "tempering treed GP 5"


def save(model: TreedGP, path: str | Path) -> None:
    """Write a fitted model."""
    facts = np.frombuffer(json.dumps(_facts(model)).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, facts=facts, **_arrays(model))
    try:
        write_atomically(Path(path), buffer.getvalue())
    except OSError as error:
        raise InputError(
            f"The model file must be writable, but {path} is not: {error.strerror}. Name another file."
        ) from error


def _facts(model: TreedGP) -> dict[str, Any]:
    """Return what is written as text: settings and numbers."""
    posterior = model.posterior_
    names = getattr(model, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "settings": _plain_settings(model),
        "rule": posterior.rule,
        "combined_ess": posterior.combined_ess,
        "linear_share": posterior.linear_share,
        "n_round_trips": posterior.n_round_trips,
        "seconds": posterior.seconds,
        "prediction_r_hat": posterior.prediction_r_hat,
        "feature_names": None if names is None else [str(name) for name in names],
        "response": getattr(model, "response_name_", None),
        "categories": None if model._categories is None else asdict(model._categories),
    }


def _plain_settings(model: TreedGP) -> dict[str, Any]:
    """Return the arguments of the model without objects: groups as dictionaries, a generator as none."""
    settings = model.get_params(deep=False)
    for name, kind in GROUPS.items():
        settings[name] = None if settings[name] is None else asdict(settings_of(kind, settings[name], name))
    group = settings["tempering"]
    if group is not None and group["ladder"] is not None and not isinstance(group["ladder"], str):
        group["ladder"] = [float(k) for k in group["ladder"]]
    if not isinstance(settings["random_state"], int | None):
        settings["random_state"] = None
    return settings


def _arrays(model: TreedGP) -> dict[str, Any]:
    """Return all arrays, by the names they have in the file."""
    posterior = model.posterior_
    arrays: dict[str, Any] = {
        "inputs": model._training[0],
        "responses": model._training[1],
        "inverse_temperatures": posterior.ladder.inverse_temperatures,
        "log_pseudo_prior": posterior.log_pseudo_prior,
        "n_draws": posterior.sums.n_draws,
        "log_sum": posterior.sums.log_sum,
        "log_sum_of_squares": posterior.sums.log_sum_of_squares,
        "shares": posterior.shares,
        "rows": posterior.rows,
        "best_rows": posterior.best_rows,
        "best_values": posterior.best_values,
        "map_rows": posterior.map_rows,
        "leaf_probabilities": posterior.leaf_probabilities,
        "leaf_probabilities_by_rung": posterior.leaf_probabilities_by_rung,
        "splits_per_tree": posterior.splits_per_tree,
    }
    arrays |= {f"cut_{i}": value for i, value in enumerate(posterior.cut_probabilities)}
    arrays |= {f"acceptance_{name}": value for name, value in posterior.acceptance.items()}
    if posterior.predictions is not None:
        arrays["predictions"] = posterior.predictions
    for i, trace in enumerate(posterior.trace):
        arrays |= {
            f"energy_{i}": trace.energy,
            f"log_weight_{i}": trace.log_weight,
            f"rung_{i}": trace.rung,
            f"leaves_{i}": trace.n_leaves,
        }
        arrays[f"trace_{i}"] = np.array([trace.every, trace.n_round_trips])
    return arrays


def load(cls: type[TreedGP], path: str | Path) -> TreedGP:
    """Read a fitted model."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts = dict(json.loads(arrays["facts"].tobytes()))
    except Exception as error:  # zip files may be broken in ways of their own
        if not zipfile.is_zipfile(path):
            raise InputError(f"{path} was not written by the save of a treed GP. Check the path.") from error
        raise DamageError(path, str(error).rstrip("."), "Fit again, or take it from a backup.") from error
    if facts.get("format") != FORMAT:
        raise InputError(
            f"The file must have the format {FORMAT!r}, but {path} has {facts.get('format')!r}. "
            "Read it with the version that wrote it, or fit again."
        )
    with readable(Path(path)):
        return _restored(cls, facts, arrays)


def _restored(cls: type[TreedGP], facts: dict[str, Any], arrays: dict[str, Any]) -> TreedGP:
    settings = facts["settings"]
    for name, kind in GROUPS.items():
        settings[name] = None if settings[name] is None else kind(**_tuples(settings[name]))
    model = cls(**settings)
    known = facts["categories"]
    if known is not None:
        levels = {name: tuple(values) for name, values in known["levels"].items()}
        model._categories = Categories(tuple(known["numbers"]), levels)
    model._training = arrays["inputs"], arrays["responses"]
    model.model_ = model._build(*model._training)
    model.n_features_in_ = arrays["inputs"].shape[1]
    if facts["feature_names"] is not None:
        model.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    if facts["response"] is not None:
        model.response_name_ = facts["response"]
    model.posterior_ = _posterior(facts, arrays)
    return model


def _tuples(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _posterior(facts: dict[str, Any], arrays: dict[str, Any]) -> Posterior:
    n_traces = sum(name.startswith("energy_") for name in arrays)
    traces = tuple(
        Remembered(
            energy=arrays[f"energy_{i}"],
            log_weight=arrays[f"log_weight_{i}"],
            rung=arrays[f"rung_{i}"],
            n_leaves=arrays[f"leaves_{i}"],
            every=int(arrays[f"trace_{i}"][0]),
            n_round_trips=int(arrays[f"trace_{i}"][1]),
        )
        for i in range(n_traces)
    )
    n_columns = sum(name.startswith("cut_") for name in arrays)
    return Posterior(
        ladder=Ladder(arrays["inverse_temperatures"]),
        log_pseudo_prior=arrays["log_pseudo_prior"],
        rule=facts["rule"],
        sums=RungSums(arrays["n_draws"], arrays["log_sum"], arrays["log_sum_of_squares"]),
        shares=arrays["shares"],
        combined_ess=facts["combined_ess"],
        rows=arrays["rows"],
        best_rows=arrays["best_rows"],
        best_values=arrays["best_values"],
        map_rows=arrays["map_rows"],
        leaf_probabilities=arrays["leaf_probabilities"],
        leaf_probabilities_by_rung=arrays["leaf_probabilities_by_rung"],
        splits_per_tree=arrays["splits_per_tree"],
        linear_share=facts["linear_share"],
        cut_probabilities=tuple(arrays[f"cut_{i}"] for i in range(n_columns)),
        predictions=arrays.get("predictions"),
        acceptance={name[11:]: value for name, value in arrays.items() if name.startswith("acceptance_")},
        trace=traces,
        n_round_trips=facts["n_round_trips"],
        seconds=facts["seconds"],
        prediction_r_hat=facts["prediction_r_hat"],
    )
