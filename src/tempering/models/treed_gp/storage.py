"""A fitted treed GP in one file: numbers, strings and arrays with checksums, nothing that runs when it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import DamageError, InputError
from tempering.io.encoding import decode, encode
from tempering.io.records import FIRST_LINE, read_record, readable, write_record
from tempering.models.treed_gp.parameters import GROUPS, settings_of

if TYPE_CHECKING:
    from tempering.models.treed_gp.estimator import TreedGP

FORMAT = "tempering treed GP 7"
ATTRIBUTES = ("_categories", "_training", "posterior_", "n_features_in_", "feature_names_in_", "response_name_")


def save(model: TreedGP, path: str | Path) -> None:
    """Write a fitted model."""
    settings = model.get_params(deep=False)
    settings |= {name: settings_of(kind, settings[name], name) for name, kind in GROUPS.items()}
    if not isinstance(settings["random_state"], int | None):  # a generator has moved on
        settings["random_state"] = None
    known = {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}
    posterior = model.posterior_
    known["posterior_"] = replace(posterior, draws=replace(posterior.draws, _kept={}))  # weights are found again
    if "feature_names_in_" in known:
        known["feature_names_in_"] = [str(name) for name in known["feature_names_in_"]]
    try:
        write_record(Path(path), {"format": FORMAT}, [encode(settings), encode(known)])
    except OSError as error:
        raise InputError(
            f"The model file must be writable, but {path} is not: {error.strerror}. Name another file."
        ) from error


def load(cls: type[TreedGP], path: str | Path) -> TreedGP:
    """Read a fitted model."""
    file = Path(path)
    try:
        header, sections = read_record(file)
    except DamageError as error:
        if file.is_file() and not file.read_bytes().startswith(FIRST_LINE[:9]):
            raise InputError(f"{path} was not written by the save of a treed GP. Check the path.") from error
        raise DamageError(path, error.why, "Fit again, or take it from a backup.") from error
    if header.get("format") != FORMAT:
        raise InputError(
            f"The file must have the format {FORMAT!r}, but {path} has {header.get('format')!r}. "
            "Read it with the version that wrote it, or fit again."
        )
    with readable(file):
        settings, known = map(decode, sections)
        return _restored(cls, settings, known)


def _restored(cls: type[TreedGP], settings: dict[str, Any], known: dict[str, Any]) -> TreedGP:
    model = cls(**settings)
    for name, value in known.items():
        setattr(model, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
    model.model_ = model._build(*model._training)
    return model
