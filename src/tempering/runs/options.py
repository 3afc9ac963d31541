"""The arguments of `tempering.sample`, for those who check types."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from tempering.execution.checkpoint import Checkpoint
from tempering.path.ladder import Ladder
from tempering.runs.until import Until


class Options(TypedDict, total=False):
    """The arguments of `sample` that what it returns does not depend on."""

    initial: Any
    ladder: Ladder | Sequence[float] | None
    method: str
    kernel: Any
    draws: int
    until: Until | None
    tune: int
    chains: int | None
    rng: np.random.Generator | int | None
    engine: str
    rung_moves: str | None
    pseudo_prior: str | NDArray[np.float64]
    objective: str
    path: Any
    executor: Executor | None
    checkpoint: str | Path | Checkpoint | None
    sum_every: int | None
    devices: Sequence[Any] | None
    progress: bool
