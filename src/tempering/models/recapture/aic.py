"""A table by AICc of the models that a fit found most probable, for those who compare with MARK.

Each is fitted by maximum likelihood, from the best of its draws. AICc counts every value of a structure, also those
that the data cannot tell apart, and takes the releases for the sample size, as MARK does.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize

from tempering.arrays import Floats
from tempering.models.recapture.design import Laws, free_cells, lay_out
from tempering.models.recapture.layout import BLOCKS, FIDELITY, PARALLEL, PARAMETERS, TREND, State, empty_state
from tempering.models.recapture.likelihood import evaluate
from tempering.models.recapture.structures import Structure, sets_of

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult

LARGEST = 15.0  # logit


class Piece(NamedTuple):
    """Some coordinates of a model: how many, their start, and how they are written into a table (K, C)."""

    parameter: int
    start: Floats
    write: Callable[[Floats, Floats], None]


def aic_table(result: "RecaptureResult", rule: str, top: int = 10) -> pd.DataFrame:
    """Tabulate AICc, its difference from the least, and the posterior probability beside it."""
    distinct, index = result._models
    total = np.bincount(index.ravel(), result.draws.weights(rule).ravel())
    order = np.argsort(-total, kind="stable")[:top]
    state, n = _study(result), _sample_size(result)
    rows = []
    for i in order[total[order] > 0]:
        structures = {name: result.space.structure(distinct[i, PARAMETERS.index(name)]) for name in result.parameters}
        if any("random" in s.times for s in structures.values()):
            continue
        deviance, k = _maximum(result, state, structures, index == i)
        correction = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf
        named = {name: str(s) for name, s in structures.items()}
        rows.append({**named, "n_parameters": k, "deviance": deviance, "AICc": deviance + 2 * k + correction,
                     "probability": float(total[i])})  # fmt: skip
    table = pd.DataFrame(rows)
    if len(table):
        table = table.sort_values("AICc", ignore_index=True)
        table["delta"] = table["AICc"] - table["AICc"].min()
    return table


def _study(result: "RecaptureResult") -> State:
    laws = Laws.none(result.space, result.times)
    return empty_state(*lay_out(result.counts, result.space, result.times, laws))


def _sample_size(result: "RecaptureResult") -> int:
    counts = result.counts
    started = counts.vanished + counts.seen + counts.recovered  # each release ends in one of the three
    return int(started.sum()) or int(counts.moves.sum())


def _maximum(
    result: "RecaptureResult", state: State, structures: dict[str, Structure], is_it: NDArray[np.bool_]
) -> tuple[float, int]:
    """Return the least deviance of a model and its number of parameters."""
    best = np.unravel_index(np.argmax(np.where(is_it, result.draws.energy, -np.inf)), is_it.shape)
    state.values[:], state.values[FIDELITY] = 0.0, 1.0
    pieces = [p for name, s in structures.items() for p in _pieces(result, name, s, best)]
    start = np.concatenate([piece.start for piece in pieces])

    def deviance(x: Floats) -> float:
        place = 0
        for piece in pieces:
            piece.write(x[place : place + piece.start.size], state.values[piece.parameter])
            place += piece.start.size
        found = -2 * evaluate(state)
        return found if np.isfinite(found) else 1e12

    bounds = [(-LARGEST, LARGEST)] * start.size
    options: Any = {"ftol": 1e-12, "maxiter": 300, "maxfun": 100_000}
    found = minimize(deviance, start, method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun), start.size


def _pieces(result: "RecaptureResult", name: str, structure: Structure, best: Any) -> list[Piece]:
    q, times = PARAMETERS.index(name), result.times
    cells = free_cells(result.counts, result.space.present)[q]
    drawn = result.draws.values[name][best].astype(float) if name in result.draws.values else np.full(cells.shape, 0.5)
    out = []
    for columns in sets_of(structure.labels):
        time = times.names.index(structure.times[columns[0]])
        where = np.zeros(cells.shape, bool)
        where[:, columns] = cells[:, columns]
        if times.kinds[time] == TREND:
            out.append(
                Piece(q, _logit(drawn[where].mean()) * np.array([1.0, 0.0]), _trend(times.covariates[time], where))
            )
            continue
        blocks = [where & (times.labels[time] == block)[:, None] for block in range(int(times.n_blocks[time]))]
        blocks = [mine for mine in blocks if mine.any()]
        if times.kinds[time] == PARALLEL:
            levels = np.array(
                [result.space.space(name).level(c, structure.times[c].partition("+")[2]) for c in columns]
            )
            start = np.concatenate([[_logit(drawn[mine].mean()) for mine in blocks], np.zeros(len(set(levels)) - 1)])
            out.append(Piece(q, start, _parallel(blocks, columns, levels)))
            continue
        assert times.kinds[time] == BLOCKS
        out += [Piece(q, np.array([_logit(drawn[mine][0])]), _constant(mine)) for mine in blocks]
    return out


def _constant(where: NDArray[np.bool_]) -> Callable[[Floats, Floats], None]:
    def write(x: Floats, table: Floats) -> None:
        table[where] = 1 / (1 + np.exp(-x[0]))

    return write


def _trend(covariate: Floats, where: NDArray[np.bool_]) -> Callable[[Floats, Floats], None]:
    def write(x: Floats, table: Floats) -> None:
        values = 1 / (1 + np.exp(-(x[0] + x[1] * covariate)))
        table[where] = np.broadcast_to(values[:, None], where.shape)[where]

    return write


def _parallel(blocks: list[NDArray[np.bool_]], columns: list[int], levels: Any) -> Callable[[Floats, Floats], None]:
    """Write blocks at the first level, and the distances of the others behind them."""
    order = list(dict.fromkeys(levels.tolist()))

    def write(x: Floats, table: Floats) -> None:
        distance = np.zeros(table.shape[1])
        for c, level in zip(columns, levels.tolist(), strict=True):
            which = order.index(level)
            distance[c] = x[len(blocks) + which - 1] if which else 0.0
        for mine, start in zip(blocks, x, strict=False):
            values = 1 / (1 + np.exp(-(start + distance)))
            table[mine] = np.broadcast_to(values, table.shape)[mine]

    return write


def _logit(v: float) -> float:
    v = min(max(float(v), 1e-4), 1 - 1e-4)
    return float(np.log(v / (1 - v)))
