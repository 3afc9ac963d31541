"""A few dozen stored draws with the values of the target and the quantities there: others show, whatever hides them.

Points near the start, which every checkpoint is compared at, may be far from where two targets differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tempering.engines.trace import Trace
from tempering.errors import CheckpointError, DamageError
from tempering.io.checkpoint import PROBES, Folder, read_part
from tempering.io.encoding import decode, encode
from tempering.io.records import readable

MOST = 32

ValuesAt = Callable[[Any], list[str]]


def write_probes(folder: Folder, trace: Trace) -> None:
    """Write some of a trace's draws with the values there, once for each run."""
    values_at, values = folder.values_at, trace.values
    if values_at is None or not isinstance(values, np.ndarray) or (folder.path / PROBES).is_file():
        return
    flat = values.reshape(-1, values.shape[-1])
    if not len(flat):  # all of them are in the store: the next record will do
        return
    points = flat[np.unique(np.linspace(0, len(flat) - 1, MOST).astype(int))]
    folder.write_record(PROBES, {"values": values_at(points)}, [encode(points)])


def check_probes(folder: Folder, agree: Callable[[str, str], bool]) -> None:
    """Refuse a target, or quantities, with other values at draws that were stored."""
    if folder.values_at is None or not (folder.path / PROBES).is_file():
        return
    try:
        with readable(folder.path / PROBES):
            header, (section,) = read_part(folder.path / PROBES, PROBES, folder.id)
            known, points = list(header["values"]), decode(section)
    except DamageError as error:
        warnings.warn(f"{error} The values of the target at stored draws are not compared.", stacklevel=4)
        return
    for there, here in zip(known, folder.values_at(points), strict=False):
        if not agree(there, here):
            raise CheckpointError(
                f"The checkpoint {folder.path} belongs to another run: the log density, or a quantity, is {there} "
                f"at one of its draws there and {here} here. Repeat the call it was made by, or choose another name."
            )
