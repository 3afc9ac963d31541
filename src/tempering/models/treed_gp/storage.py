"""A fitted treed GP in one file: numbers, strings and arrays with checksums, nothing that runs when it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tempering.errors import DamageError, InputError
from tempering.io.encoding import decode, encode
from tempering.io.records import FIRST_LINE, read_record, readable, write_record
from tempering.models.scikit_learn import group_of

if TYPE_CHECKING:
    from tempering.models.treed_gp.estimator import TreedEstimator
    from tempering.models.treed_gp.posterior import Posterior

ATTRIBUTES = ("_categories", "_training", "n_features_in_", "feature_names_in_", "classes_", "response_name_")
LISTS: dict[str, Any] = {"feature_names_in_": object, "classes_": None}  # arrays, of text perhaps, and their types

Model = TypeVar("Model", bound="TreedEstimator")


def save(model: TreedEstimator, path: str | Path) -> None:
    """Write a fitted model."""
    settings = model.get_params(deep=False)
    settings |= {name: group_of(kind, settings[name], name) for name, kind in model.GROUPS.items()}
    if not isinstance(settings["random_state"], int | None):  # a generator has moved on
        settings["random_state"] = None
    known = {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}
    known |= {name: known[name].tolist() for name in LISTS if name in known}
    posteriors = list(map(_without_weights, model._posteriors()))
    try:
        write_record(Path(path), {"format": model.FILE_FORMAT}, [encode(settings), encode(known), encode(posteriors)])
    except OSError as error:
        raise InputError(
            f"The model file must be writable, but {path} is not: {error.strerror}. Name another file."
        ) from error


def _without_weights(posterior: Posterior) -> Posterior:
    return replace(posterior, draws=replace(posterior.draws, _kept={}))  # they are found again


def load(cls: type[Model], path: str | Path) -> Model:
    """Read a fitted model."""
    file = Path(path)
    if not file.exists():
        raise InputError(f"There is no file {path}. Check the path: the model is the file that save wrote.")
    try:
        header, sections = read_record(file)
    except DamageError as error:
        if file.is_file() and not file.read_bytes().startswith(FIRST_LINE[:9]):
            raise InputError(f"{path} was not written by the save of a treed GP. Check the path.") from error
        raise DamageError(path, error.why, "Fit again, or take it from a backup.") from error
    if header.get("format") != cls.FILE_FORMAT:
        raise InputError(
            f"The file must have the format {cls.FILE_FORMAT!r}, but {path} has {header.get('format')!r}. "
            "Read it with the version that wrote it, or fit again."
        )
    with readable(file):
        settings, known, posteriors = map(decode, sections)
        return _restored(cls, settings, known, posteriors)


def _restored(cls: type[Model], settings: dict[str, Any], known: dict[str, Any], posteriors: list[Posterior]) -> Model:
    model = cls(**settings)
    for name, value in known.items():
        setattr(model, name, np.array(value, dtype=LISTS[name]) if name in LISTS else value)
    model._restore(posteriors)
    return model
