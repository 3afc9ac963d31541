"""Predictions of the treed GP beside tgp, a plain GP and BART: 24 data sets, and six functions without noise.

RMSE, CRPS, the score of 90 % intervals (Gneiting & Raftery 2007, section 6.2), their coverage, and seconds of the
processor, every method with its defaults. tgp: btgpllm; where btgp was run too, the better of the two by RMSE on the
test rows, so that it is flattered. GP: scikit-learn's, a range for each input and noise, by maximum likelihood from
three starts. BART: bartz, run by the Python named in TEMPERING_BARTZ_PYTHON where it is installed.

    python -m benchmarks.treed_gp_accuracy --results FILE [--only ours] [--sets NAME ...] [--splits 1 2] [--json FILE]
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks._treed_gp_data import NAMES, WITHOUT_NOISE, Split, load

LEVELS = np.arange(1, 40) / 40  # of the predictive distribution; 0.05 and 0.95 are the second from either end

TGP = r"""
suppressMessages(library(tgp))
task <- commandArgs(TRUE)
X <- as.matrix(read.csv(task[1])); Z <- scan(task[2], quiet=TRUE); XX <- as.matrix(read.csv(task[3]))
set.seed(as.integer(task[5]))
before <- proc.time()
fit <- get(task[6])(X=X, Z=Z, XX=XX, pred.n=FALSE, verb=0)
spent <- proc.time() - before
cat(spent[["user.self"]] + spent[["sys.self"]], "\n")
write.table(rbind(fit$ZZ.km, fit$ZZ.q1, fit$ZZ.med, fit$ZZ.q2), task[4], row.names=FALSE, col.names=FALSE)
"""

BART = r"""
import sys, time, numpy as np
folder, seed = sys.argv[1], int(sys.argv[2])
files = (("x.csv", 2), ("y.csv", 1), ("new.csv", 2))
x, y, new = (np.loadtxt(f"{folder}/{f}", delimiter=",", skiprows=1, ndmin=d) for f, d in files)
import jax, bartz
before = time.process_time()
fit = bartz.BART.gbart(x, y, x_test=new, ndpost=1000, nskip=500, seed=seed, printevery=None)
mean = np.asarray(fit.yhat_test_mean); draws = np.asarray(fit.yhat_test).reshape(-1, len(new))
sigma = np.asarray(fit.sigma).reshape(-1)[-len(draws):]
rng = np.random.default_rng(seed)
noisy = draws + np.resize(sigma, len(draws))[:, None] * rng.standard_normal(draws.shape)
spent = time.process_time() - before
np.savetxt(f"{folder}/out.txt", np.vstack([mean, np.quantile(noisy, np.arange(1, 40) / 40, axis=0)]))
print(spent)
"""


def ours(split: Split, seed: int, **settings: Any) -> tuple[Any, Any, float]:
    """Return mean, quantiles and seconds of our fit."""
    from tempering.models.treed_gp import TreedGP

    before = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TreedGP(random_state=seed, **settings).fit(split.x, split.y)
        mean, quantiles = model.predict(split.x_test, quantiles=list(LEVELS))
    return mean, quantiles.T, time.process_time() - before


def gaussian_process(split: Split, seed: int) -> tuple[Any, Any, float]:
    """Return the same of scikit-learn's Gaussian process."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    d = split.x.shape[1]
    before = time.process_time()
    low, width = split.x.min(axis=0), np.ptp(split.x, axis=0)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.full(d, 0.5), (1e-2, 1e2)) + WhiteKernel(0.1, (1e-10, 10))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, sd = model.fit((split.x - low) / width, split.y).predict((split.x_test - low) / width, return_std=True)
    return mean, mean + sd * norm.ppf(LEVELS)[:, None], time.process_time() - before


def _write(folder: Path, split: Split) -> None:
    names = ",".join(f"x{j}" for j in range(split.x.shape[1]))
    np.savetxt(folder / "x.csv", split.x, delimiter=",", header=names, comments="")
    np.savetxt(folder / "y.csv", split.y, header="y", comments="")
    np.savetxt(folder / "y.txt", split.y)
    np.savetxt(folder / "new.csv", split.x_test, delimiter=",", header=names, comments="")


def _run(command: list[str], folder: Path) -> tuple[Any, Any, float]:
    environment = os.environ | {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=folder)
    out = np.loadtxt(folder / "out.txt", ndmin=2)
    return out[0], out[1:], float(done.stdout.split()[-1])


def tgp(split: Split, seed: int, *, family: str) -> tuple[Any, Any, float]:
    """Return the same of one of tgp's families."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, split)
        (folder / "run.R").write_text(TGP)
        files = [str(folder / file) for file in ("run.R", "x.csv", "y.txt", "new.csv", "out.txt")]
        mean, known, seconds = _run(["Rscript", *files, str(seed), family], folder)
    # tgp returns three quantiles: between and beyond them a normal for each half
    low, middle, high = known
    z = norm.ppf(LEVELS)[:, None] / norm.ppf(0.95)
    return mean, middle + np.where(z > 0, (high - middle) * z, (middle - low) * z), seconds


def bart(split: Split, seed: int) -> tuple[Any, Any, float]:
    """Return the same of bartz."""
    python = os.environ.get("TEMPERING_BARTZ_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, split)
        (folder / "run.py").write_text(BART)
        return _run([python, str(folder / "run.py"), name, str(seed)], folder)


PEERS = ("tgp", "GP", "BART")
METHODS = {
    "ours": ours,
    "tgp btgpllm": lambda split, seed: tgp(split, seed, family="btgpllm"),
    "tgp btgp": lambda split, seed: tgp(split, seed, family="btgp"),
    "GP": gaussian_process,
    "BART": bart,
}


def scores(split: Split, mean: Any, quantiles: Any, seconds: float) -> dict[str, float]:
    """Return RMSE, CRPS, interval score, coverage and seconds; lengths relative to the deviation of the test rows."""
    scale = float(np.std(split.truth)) or 1.0
    above = split.y_test - quantiles
    pinball = np.where(above >= 0, LEVELS[:, None] * above, (LEVELS[:, None] - 1) * above)
    low, high = quantiles[1], quantiles[-2]
    miss = np.maximum(low - split.y_test, 0) + np.maximum(split.y_test - high, 0)
    return {
        "rmse": float(np.sqrt(np.mean((mean - split.truth) ** 2))) / scale,
        "crps": 2 * float(pinball.mean()) / scale,
        "interval": float(np.mean(high - low + 20.0 * miss)) / scale,
        "coverage": float(np.mean((low <= split.y_test) & (split.y_test <= high))),
        "seconds": seconds,
    }


def measure(path: Path, methods: list[str], names: list[str], splits: list[int]) -> None:
    """Run what the file of results does not have yet; write after each."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for seed in splits:
        for name in names:
            for method in methods:
                key = f"{method}|{name}|{seed}"
                if key in known:
                    continue
                split = load(name, seed)
                try:
                    known[key] = scores(split, *METHODS[method](split, seed))
                except (subprocess.CalledProcessError, OSError) as error:
                    known[key] = None
                    print(f"{key}: {str(getattr(error, 'stderr', error))[-300:]}", file=sys.stderr)
                path.write_text(json.dumps(known, indent=0) + "\n")


def by_set(paths: list[Path]) -> dict[str, dict[str, dict[int, Any]]]:
    """Return scores by data set, method and split; tgp is the better of its families that were run."""
    known = {key: value for path in paths for key, value in json.loads(path.read_text()).items() if value is not None}
    found: dict[str, dict[str, dict[int, Any]]] = {}
    for key, value in known.items():
        method, name, seed = key.split("|")
        found.setdefault(name, {}).setdefault(method, {})[int(seed)] = value
    for methods in found.values():
        families = [methods[m] for m in ("tgp btgpllm", "tgp btgp") if m in methods]
        if families:
            shared = set.intersection(*(set(family) for family in families))
            methods["tgp"] = {s: min((f[s] for f in families), key=lambda v: float(v["rmse"])) for s in shared}
    return found


def tables(paths: list[Path]) -> dict[str, Any]:
    """Return RMSE by data set, geometric means of the ratios to each peer, and coverage of 90 % intervals.

    Each peer is compared on the splits that it and we were run on; "worst" is the largest of the ratios of RMSE.
    """
    found = by_set(paths)
    rows, ratios, coverage = compared(found, NAMES)
    smooth, ratios_of_smooth, _ = compared(found, tuple(WITHOUT_NOISE))
    parts = {"rmse_over_the_deviation_of_y": rows, "ratios": ratios, "coverage": coverage}
    return parts | ({"without_noise": smooth, "ratios_without_noise": ratios_of_smooth} if smooth else {})


def compared(found: dict[str, dict[str, dict[int, Any]]], names: tuple[str, ...]) -> tuple[list[Any], ...]:
    """Return rows by data set, ratios and coverage."""
    rows, logs = [], {}
    coverage: dict[str, list[float]] = {}
    for name in names:
        methods = found.get(name, {})
        mine = methods.get("ours", {})
        shared = {m: sorted(set(mine) & set(methods.get(m, {}))) for m in PEERS}
        if not any(shared.values()):
            continue
        row: dict[str, Any] = {"data": name, "ours": float(np.mean([one["rmse"] for one in mine.values()]))}
        for m, seeds in shared.items():
            for q in ("rmse", "crps", "interval", "seconds") if seeds else ():
                each = [np.log(mine[s][q] / methods[m][s][q]) for s in seeds]
                logs.setdefault((m, q), []).append(float(np.mean(each)))
            if seeds:
                row[f"ours / {m}"] = float(np.exp(logs[m, "rmse"][-1]))
                row[f"splits of {m}"] = len(seeds)
                coverage.setdefault(m, []).extend(methods[m][s]["coverage"] for s in seeds)
        coverage.setdefault("ours", []).extend(one["coverage"] for one in mine.values())
        rows.append(row | {"worst": max(value for key, value in row.items() if key.startswith("ours / "))})
    ratios = [
        {
            "ours over": m,
            "score": q,
            "geometric mean": float(np.exp(np.mean(each))),
            "standard error": float(np.exp(np.mean(each)) * np.std(each, ddof=1) / np.sqrt(len(each))),
            "sets": len(each),
        }
        for (m, q), each in logs.items()
    ]
    covered = [{"method": m, "coverage of 90 % intervals": float(np.mean(each))} for m, each in coverage.items()]
    return rows, ratios, covered


def about() -> dict[str, str]:
    """Say on what it was measured; tgp's time is that of R's BLAS."""
    told = {"python": platform.python_version(), "processor": platform.machine()}
    if shutil.which("Rscript"):
        done = subprocess.run(["Rscript", "-e", "cat(La_library())"], capture_output=True, text=True, check=True)
        told["BLAS of R"] = f"{Path(done.stdout.strip()).name}, one thread"
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--results", type=Path, nargs="+", required=True, metavar="FILE", help="the first is written to"
    )
    parser.add_argument("--only", nargs="*", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    parser.add_argument("--sets", nargs="*", default=[*NAMES, *WITHOUT_NOISE], metavar="NAME")
    parser.add_argument("--splits", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the summary goes")
    options = parser.parse_args()
    measure(options.results[0], options.only, options.sets, options.splits)
    found = tables(options.results)
    for rows in found.values():
        for row in rows:
            print(*(f"{value:.4g}" if isinstance(value, float) else value for value in row.values()), sep="  ")
    if options.json:
        options.json.write_text(json.dumps({"about": about()} | found, indent=2) + "\n")


if __name__ == "__main__":
    main()
