"""Find how many round trips between the data and the prior honest intervals need.

The answers are known: every structure of recovery (94 models) on the synthetic shag-like set, the other parameters'
structures fixed, has its evidence by importance sampling around its mode. Many short fits are then scored: z is the
error of a probability over the standard error that the fit states. Fits are put in classes by their round
trips; honest errors have a mean of z^2 near 1, and 95 % intervals hold the truth in about 95 of 100.

    python -m benchmarks.recapture_round_trips [--seeds N] [--first N] [--draws N [N ...]] [--json FILE]
"""

import argparse
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_t

from tempering.data import SYNTHETIC_HISTORIES, path_of
from tempering.models.recapture import MarkRecapture, read
from tempering.models.recapture.design import free_cells
from tempering.models.recapture.layout import PARAMETERS, State, empty_state
from tempering.models.recapture.likelihood import evaluate
from tempering.models.recapture.model import recapture_model
from tempering.models.recapture.structures import Structure, sets_of

STUDY = MarkRecapture(4, "{1}(t) {2,3} {4+}", "{1} {2}(t) {3} {4+}(t)", "free", keep_values=False)
N_IMPORTANCE = 20_000
FREEDOM = 5
CLASSES = (0, 1, 2, 5, 10, 20, 50, np.inf)  # round trips of all four ensembles


def cells_of(structure: Structure, cells: Any) -> list[Any]:
    """List the places (K, C) of each value of a structure."""
    found = []
    for columns in sets_of(structure.labels):
        where = np.zeros(cells.shape, bool)
        where[:, columns] = cells[:, columns]
        if structure.times[columns[0]] == "t":
            years = (where & (np.arange(len(cells)) == t)[:, None] for t in range(len(cells)))
            found += [year for year in years if year.any()]
        else:
            found.append(where)
    return found


def log_evidence(rng: np.random.Generator, state: State, blocks: list[tuple[int, Any]]) -> tuple[float, float]:
    """Return the log evidence of a model under uniform priors, and its relative standard error."""

    def log_posterior(x: Any) -> float:
        for (q, where), v in zip(blocks, expit(x), strict=True):
            state.values[q][where] = v
        return float(evaluate(state) + np.sum(-np.logaddexp(0, x) - np.logaddexp(0, -x)))

    n = len(blocks)
    found: Any = minimize(lambda x: -log_posterior(x), np.zeros(n), method="L-BFGS-B", bounds=[(-8, 8)] * n)
    mode, h = found.x, 1e-3
    steps = np.eye(n) * h
    curvature = np.zeros((n, n))
    for a in range(n):
        for b in range(a + 1):
            signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
            total = sum(s * u * log_posterior(mode + s * steps[a] + u * steps[b]) for s, u in signs)
            curvature[a, b] = curvature[b, a] = -total / (4 * h * h)
    law = multivariate_t(mode, np.linalg.inv(curvature), df=FREEDOM, seed=rng)
    x = law.rvs(N_IMPORTANCE)
    log_w = np.array([log_posterior(row) for row in x]) - law.logpdf(x)
    w = np.exp(log_w - log_w.max())
    return float(logsumexp(log_w) - np.log(len(x))), float(w.std() / w.mean() / np.sqrt(len(x)))


def exact(data: Any) -> dict[int, float]:
    """Return the posterior probability of every structure of recovery by its code."""
    _, counts, space = STUDY.prepared(data)
    model = recapture_model(counts, space)
    state, rng = empty_state(model.ints, model.floats), np.random.default_rng(5)
    state.values[3] = 1.0
    cells = free_cells(counts, space.present)
    fixed = [
        (q, where)
        for q, name in enumerate(PARAMETERS[:2])
        for where in cells_of(space.space(name).structures()[0], cells[q])
    ]
    structures = space.space("lambda").structures()
    answers = [log_evidence(rng, state, fixed + [(2, w) for w in cells_of(s, cells[2])]) for s in structures]
    logs = np.array([a for a, _ in answers])
    shares = np.exp(logs - logsumexp(logs))
    matter = [error for (_, error), p in zip(answers, shares, strict=True) if p > 0.01]
    Console().print(f"relative error of an evidence that matters: at most {max(matter):.3f}")
    return {space.code(s): float(p) for s, p in zip(structures, shares, strict=True)}


def score(data: Any, truth: dict[int, float], draws: int, seed: int) -> dict[str, Any]:
    """Fit once; return round trips, warnings, and z of every structure that matters."""
    result = replace(STUDY, draws=draws).fit(data, rng=seed, progress=False)
    codes = result.draws.values["model"][..., 2]
    likely = [code for code, p in truth.items() if p > 0.01]
    flags = [codes == code for code in likely]
    weights = result.draws.weights()
    value = np.array([(weights * flag).sum() for flag in flags])
    error = np.maximum(result._errors(flags, "mbar"), 1e-12)  # as the tables state them
    z = (value - [truth[c] for c in likely]) / error
    mixing = result.mixing()
    return {
        "draws": draws, "seed": seed, "round_trips": mixing.n_round_trips,
        "warnings": len(mixing.warnings), "z": [round(float(v), 3) for v in z],
        "rungs": mixing.n_rungs,
    }  # fmt: skip


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("round trips", "fits", "mean of z^2", "within 1.96", "with a warning")
    for low, high in pairwise(CLASSES):
        mine = [row for row in rows if low <= row["round_trips"] < high]
        if mine:
            z = np.concatenate([row["z"] for row in mine])
            table.add_row(
                f"{low:g} to {high:g}", str(len(mine)), f"{np.mean(z**2):.2f}", f"{np.mean(np.abs(z) < 1.96):.2f}",
                f"{np.mean([row['warnings'] > 0 for row in mine]):.2f}",
            )  # fmt: skip
    Console(width=120).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--draws", type=int, nargs="+", default=[100, 400, 1500])
    parser.add_argument("--json", type=Path, help="where results are added up over several calls")
    options = parser.parse_args()
    data = read(path_of(SYNTHETIC_HISTORIES))
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    truth = {int(c): p for c, p in kept["truth"].items()} if "truth" in kept else exact(data)
    rows = kept.get("fits", [])
    for seed in range(options.first, options.first + options.seeds):
        rows += [score(data, truth, draws, seed) for draws in options.draws]
        if options.json:
            options.json.write_text(json.dumps({"truth": truth, "fits": rows}) + "\n")
    show(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
