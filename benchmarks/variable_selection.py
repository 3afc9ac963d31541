"""Variable selection beside millipede, in one run: ``python -m benchmarks.variable_selection --peer PYTHON``.

PYTHON is the interpreter of an environment with torch and millipede-regression; without it only our side runs. Both
sample one posterior (independent slab, unknown noise, expected size 5, no intercept) with one thread each. Effective
draws are counted the same way for both: p (1 - p) over the variance of an inclusion probability between independent
runs, by processor time without start-up. ``--gpu`` runs the large case on an accelerator by JAX.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402  after the number of threads is set

CASES = {"p500": (200, 500), "p10000": (500, 10_000)}
DRAWS = {"p500": (20_000, 600), "p10000": (4_000, 100)}  # ours, millipede's: seconds of processor time each
ABOUT = {"machine": "two shared cores of an AMD EPYC", "threads": 1, "time": "of the processor, without start-up"}
SLAB_PRECISION, EXPECTED = 0.01, 5.0

PEER = """
import sys, json, time
import numpy as np, pandas as pd, torch
torch.set_num_threads(1)
from millipede import NormalLikelihoodVariableSelector
folder, draws, burn, runs = sys.argv[1], *map(int, sys.argv[2:5])
x, y = np.load(folder + "/x.npy"), np.load(folder + "/y.npy")
frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])]); frame = frame.assign(y=y)
small = x.shape[1] <= 2000
def build():
    return NormalLikelihoodVariableSelector(frame, "y", S=5.0, tau=0.01, include_intercept=False, precompute_XX=small)
selector = build(); selector.run(T=20, T_burnin=20, verbosity=None, seed=0)
for run in range(runs):
    selector = build()
    start = time.process_time()
    selector.run(T=draws, T_burnin=burn, verbosity=None, seed=run + 1)
    spent = time.process_time() - start
    print(json.dumps({"seconds": spent, "pip": selector.summary["PIP"].to_numpy()[: x.shape[1]].tolist()}), flush=True)
"""


def design(n: int, p: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return columns with correlation .9 between neighbours and ten effects, some of them too small to be sure of."""
    rng = np.random.default_rng(seed)
    x = np.empty((n, p))
    x[:, 0] = rng.standard_normal(n)
    for j in range(1, p):
        x[:, j] = 0.9 * x[:, j - 1] + np.sqrt(1 - 0.81) * rng.standard_normal(n)
    effects = np.zeros(p)
    effects[np.linspace(0, p - 1, 10).astype(int)] = [2.0, -1.5, 1.0, 0.8, -0.6, 0.5, 0.4, -0.35, 0.3, 0.25]
    y = x @ effects + rng.standard_normal(n)
    x -= x.mean(axis=0)
    return x / x.std(axis=0), y - y.mean()


def tune_of(draws: int) -> int:
    return max(draws // 4, 100)


def ours(x: np.ndarray, y: np.ndarray, draws: int, runs: int) -> list[dict[str, object]]:
    from tempering.models.variable_selection.chains import ChainPlan, run_one
    from tempering.models.variable_selection.priors import SizePrior, Slab
    from tempering.models.variable_selection.problem import LinearProblem

    prior, slab = SizePrior(expected=EXPECTED), Slab("independent", SLAB_PRECISION)
    problem = LinearProblem(x, y, prior, slab, shape=0.0, rate=0.0, max_size=100)
    run_one(problem, ChainPlan(np.ones(1), 50, 50), 0, 0)  # compiles
    out = []
    for run in range(runs):
        start = time.process_time()
        result = run_one(problem, ChainPlan(np.ones(1), draws, tune_of(draws)), run + 1, 0)
        spent = time.process_time() - start
        inside = result.sums.inside[0].sum(axis=0) / result.sums.weight[0].sum()
        out.append({"seconds": spent, "pip": inside.tolist()})
    return out


def theirs(python: str, x: np.ndarray, y: np.ndarray, draws: int, runs: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x)
        np.save(f"{folder}/y.npy", y)
        command = [python, "-c", PEER, folder, str(draws), str(tune_of(draws)), str(runs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return [json.loads(line) for line in done.stdout.splitlines()]


def summary(rows: list[dict[str, object]], truth: np.ndarray, draws: int) -> dict[str, float]:
    """Return seconds and effective draws per second over the columns that are neither in nor out for sure."""
    pip = np.array([row["pip"] for row in rows])
    seconds = float(np.mean([row["seconds"] for row in rows]))
    open_ = (truth > 0.02) & (truth < 0.98)
    # squared distance from the long answer, so that a biased run is not called precise
    ess = truth[open_] * (1 - truth[open_]) / np.mean((pip[:, open_] - truth[open_]) ** 2, axis=0)
    return {
        "seconds": seconds,
        "microseconds_per_jump": 1e6 * seconds / (draws + tune_of(draws)),
        "open_columns": int(open_.sum()),
        "effective_draws_per_second": float(np.median(ess) / seconds),
    }


def compare(case: str, peer: str | None, runs: int) -> list[dict[str, object]]:
    n, p = CASES[case]
    x, y = design(n, p)
    mine, his = DRAWS[case]
    long = ours(x, y, 10 * mine, 2)
    truth = np.mean([row["pip"] for row in long], axis=0)
    own = ours(x, y, mine, runs)
    rows: list[dict[str, object]] = [{"program": "tempering", "n": n, "p": p, **summary(own, truth, mine)}]
    if peer is not None:
        other = theirs(peer, x, y, his, runs)
        rows.append({"program": "millipede", "n": n, "p": p, **summary(other, truth, his), **agreement(own, other)})
    print(json.dumps(rows, indent=1), flush=True)
    return rows


def agreement(own: list[dict[str, object]], other: list[dict[str, object]]) -> dict[str, float]:
    """Return the largest difference of inclusion probabilities, plain and in standard errors between runs."""
    a, b = (np.array([row["pip"] for row in rows]) for rows in (own, other))
    difference = np.abs(a.mean(axis=0) - b.mean(axis=0))
    error = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
    return {"largest_difference": float(difference.max()), "in_errors": float((difference / (error + 1e-4)).max())}


def large(n: int = 1_000, p: int = 100_000, seconds: float = 300.0) -> dict[str, object]:
    """Run the large case twice on JAX's device; report time, errors of the top hundred, and how far two runs differ."""
    import jax

    from tempering.models.variable_selection.accelerated import run_accelerated
    from tempering.models.variable_selection.priors import SizePrior, Slab
    from tempering.models.variable_selection.problem import LinearProblem

    x, y = design(n, p)
    slab = Slab("independent", SLAB_PRECISION)
    problem = LinearProblem(x, y, SizePrior(expected=EXPECTED), slab, shape=0.0, rate=0.0)
    runs = [run_accelerated(problem, chains=64, draws=4_000, tune=1_000, slots=48, rng=seed) for seed in (1, 2)]
    top = np.argsort(-np.asarray(runs[0].inclusion.value))[:100]
    error = np.asarray(runs[0].inclusion.standard_error)[top]
    difference = np.abs(np.asarray(runs[0].inclusion.value) - np.asarray(runs[1].inclusion.value))[top]
    return {
        "device": str(jax.devices()[0]),
        "seconds_with_compilation": runs[0].seconds,
        "seconds": runs[1].seconds,
        "within_time": runs[0].seconds < seconds,
        "largest_error_of_top_hundred": float(error.max()),
        "largest_difference_of_two_runs": float(difference.max()),
        "mean_size": runs[0].mean_size,
    }


def prediction(splits: int = 6) -> list[dict[str, object]]:
    """Return R^2 on held-out rows, mean and deviation over random splits, beside scikit-learn's linear models."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import ARDRegression, LassoCV, RidgeCV
    from sklearn.model_selection import ShuffleSplit, cross_validate
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    from tempering.models import VariableSelection

    diabetes = load_diabetes(return_X_y=True)
    expand = PolynomialFeatures(2, include_bias=False)
    products = expand.fit_transform(diabetes[0]), diabetes[1]
    sparse = design(200, 500)
    models = {
        "VariableSelection": VariableSelection(draws=4_000, chains=2, random_state=1),
        "LassoCV": LassoCV(max_iter=20_000),
        "ARDRegression": ARDRegression(),
        "RidgeCV": RidgeCV(np.logspace(-3, 4, 30)),
    }
    cases = {"diabetes, p = 10": diabetes, "diabetes with products, p = 65": products, "simulated, p = 500": sparse}
    rows: list[dict[str, object]] = []
    for case, (x, y) in cases.items():
        for name, model in models.items():
            folds = ShuffleSplit(splits, test_size=0.25, random_state=0)
            done = cross_validate(make_pipeline(StandardScaler(), model), x, y, cv=folds)
            score, seconds = done["test_score"], float(np.mean(done["fit_time"]))
            row = {"data": case, "model": name, "r2": float(score.mean()), "deviation": float(score.std())}
            rows.append({**row, "fit_seconds": seconds})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="Python of an environment with millipede-regression")
    parser.add_argument("--case", choices=[*CASES], action="append")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--gpu", action="store_true", help="the large case, on JAX's default device")
    parser.add_argument("--prediction", action="store_true", help="held-out rows, beside scikit-learn")
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--columns", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="a file of results to add to")
    options = parser.parse_args()
    is_there = options.json is not None and options.json.exists()
    report = json.loads(options.json.read_text()) if is_there else {"about": ABOUT}
    if options.prediction:
        report["prediction"] = prediction()
    elif options.gpu:
        report["large"] = [large(options.rows, options.columns)]
        print(json.dumps(report["large"], indent=1))
    else:
        report["speed"] = [row for case in options.case or CASES for row in compare(case, options.peer, options.runs)]
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
