"""millipede in an environment of its own: runs, and its log odds at given models.

A mended run has the probability of a column's present state as a sigmoid of its log odds, of either sign, where
millipede subtracts from 1; nothing else differs.
"""

import json
import subprocess
import tempfile

import numpy as np

from benchmarks.variable_selection.cases import EXPECTED, SLAB_PRECISION

FIRST_SEED = 101
RUNS = """
import sys, json, time
import numpy as np, pandas as pd, torch
torch.set_num_threads(1)
from millipede import NormalLikelihoodVariableSelector
from millipede.normal import NormalLikelihoodSampler
folder, draws, burn, runs, seed, mended = sys.argv[1], *map(int, sys.argv[2:7])
expected, precision = map(float, sys.argv[7:9])
def probabilities_by_odds(self, state):
    log_odds = self._compute_add_prob(state)
    state._add_prob = state.pip = torch.sigmoid(log_odds)
    here = torch.sigmoid(torch.where(state.gamma, log_odds, -log_odds))
    state._i_prob = torch.cat([self.xi, 0.5 * (state._add_prob + self.explore) / (here + self.epsilon)])
    return state
if mended:
    NormalLikelihoodSampler._compute_probs = probabilities_by_odds
x, y = np.load(folder + "/x.npy"), np.load(folder + "/y.npy")
frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])]); frame = frame.assign(y=y)
small = x.shape[1] <= 2000
def build():
    return NormalLikelihoodVariableSelector(
        frame, "y", S=expected, tau=precision, include_intercept=False, precompute_XX=small
    )
selector = build(); selector.run(T=20, T_burnin=20, verbosity=None, seed=0)
for run in range(runs):
    selector = build()
    start = time.process_time()
    selector.run(T=draws, T_burnin=burn, verbosity=None, seed=seed + run)
    spent = time.process_time() - start
    print(json.dumps({"seconds": spent, "pip": selector.summary["PIP"].to_numpy()[: x.shape[1]].tolist()}), flush=True)
"""
LOG_ODDS = """
import sys, json
from types import SimpleNamespace
import numpy as np, torch
torch.set_num_threads(1)
from millipede.normal import NormalLikelihoodSampler
folder, expected, precision = sys.argv[1], *map(float, sys.argv[2:4])
x, y = (torch.from_numpy(np.load(f"{folder}/{name}.npy")).double() for name in "xy")
sampler = NormalLikelihoodSampler(
    x, y, S=expected, tau=precision, include_intercept=False, verbose_constructor=False
)
out = []
for model in json.load(open(folder + "/models.json")):
    gamma = torch.zeros(x.shape[1]).bool()
    gamma[torch.tensor(model, dtype=torch.int64)] = True
    active = torch.nonzero(gamma).squeeze(-1)
    state = SimpleNamespace(gamma=gamma, _active=active, _log_h_ratio=sampler.log_h_ratio)
    out.append(sampler._compute_add_prob(state))
np.save(folder + "/log_odds.npy", torch.stack(out).numpy())
"""


def runs_of_millipede(
    python: str,
    x: np.ndarray,
    y: np.ndarray,
    draws: int,
    tune: int,
    runs: int,
    expected: float = EXPECTED,
    mended: bool = False,
) -> list[dict[str, object]]:
    """Return seconds and inclusion probabilities of independent runs."""
    with tempfile.TemporaryDirectory() as folder:
        settings = (draws, tune, runs, FIRST_SEED, int(mended), expected, SLAB_PRECISION)
        done = _call(python, RUNS, folder, x, y, settings)
        return [json.loads(line) for line in done.splitlines()]


def log_odds_of_millipede(python: str, x: np.ndarray, y: np.ndarray, models: list[tuple[int, ...]]) -> np.ndarray:
    """Return its log odds of every column at given models."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/models.json", "w") as file:
            json.dump(models, file)
        _call(python, LOG_ODDS, folder, x, y, (EXPECTED, SLAB_PRECISION))
        return np.asarray(np.load(f"{folder}/log_odds.npy"))


def _call(python: str, code: str, folder: str, x: np.ndarray, y: np.ndarray, settings: tuple[object, ...]) -> str:
    np.save(f"{folder}/x.npy", x)
    np.save(f"{folder}/y.npy", y)
    command = [python, "-c", code, folder, *map(str, settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return done.stdout
