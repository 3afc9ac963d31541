"""Compile ahead of need: what models and the scalar engine compile on first use, with small runs of each.

Their compiled code does not depend on data or densities, so that it serves every later run of this installation.
Programs of the vector engine do depend on the density, and are kept when it is first sampled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tempering.compiling.executables import Executables


@dataclass(frozen=True)
class Warmed:
    """One part of the package, and the seconds its small run took."""

    name: str
    seconds: float


def warm_up(starting: Callable[[str], None] = lambda name: None) -> Iterator[Warmed]:
    """Run each part once, so that all it needs is compiled and kept; parts that are not installed are left out.

    ``starting`` is told the name of each part before it runs.
    """
    for name, run in PARTS.items():
        starting(name)
        start = time.perf_counter()
        try:
            run()
        except ModuleNotFoundError:  # an extra that was not installed
            continue
        yield Warmed(name, time.perf_counter() - start)


def kept_programs() -> Executables | None:
    """Return the programs of the vector engine that are kept on disk; None if none are to be kept."""
    return Executables.of_user()


def _treed_gp() -> None:
    from tempering.models import TreedGP

    x = np.linspace(0.0, 1.0, 24)[:, None]
    model = TreedGP(draws=40, tune=20, chains=1, keep={"trees": 4}, random_state=1, progress=False)
    model.fit(x, np.sin(8.0 * x[:, 0])).predict(x, return_std=True)


def _recapture() -> None:
    from tempering.data import DIPPER_ARRAY, path_of
    from tempering.models import MarkRecapture
    from tempering.models.recapture import read

    study = MarkRecapture(2, ladder=[1, 0.7], draws=64, tune=64, chains=2)
    study.fit(read(path_of(DIPPER_ARRAY), "arrays"), rng=1, progress=False).averages()


def _variable_selection() -> None:
    from tempering.models import VariableSelection

    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 4))
    for family, y in (("gaussian", x[:, 0] + rng.standard_normal(30)), ("logistic", (x[:, 0] > 0).astype(float))):
        model = VariableSelection(family, sampling={"draws": 100, "tune": 20, "chains": 2}, random_state=1)
        model.fit(x, y).predict(x)


def _scalar_engine() -> None:
    import numba

    import tempering as tp

    target = tp.Target(numba.njit(lambda x: -0.5 * np.sum(x * x)))
    for method in ("simulated", "parallel"):
        tp.sample(
            target, initial=np.zeros(2), ladder=[1, 0.5], method=method, draws=64, tuning=tp.Tuning(64),
            execution=tp.Execution(engine="scalar"), chains=2, rng=1, progress=False,
        )  # fmt: skip


PARTS = {
    "treed Gaussian process": _treed_gp,
    "mark-recapture": _recapture,
    "variable selection": _variable_selection,
    "scalar engine": _scalar_engine,
}
