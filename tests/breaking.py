"""Break the package on purpose, one line at a time, and see whether `make test` would fail.

    python tests/breaking.py [NAME ...]

Each break is made in a copy of the package. The tests of its folder are run, those alone that `make test` runs, up to
the first failure: if one fails, so does `make test`. Prints what failed; ends with status 1 if a break was not seen.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Break(NamedTuple):
    """A line, what it becomes, and where tests are that should see it."""

    file: str
    right: str
    wrong: str
    tests: str


BREAKS = {
    "a walk at the wrong temperature": Break(
        "kernels/random_walk.py",
        "tempered(there, coefficients) - tempered(here, coefficients)",
        "0.5 * (tempered(there, coefficients) - tempered(here, coefficients))",
        "kernels",
    ),
    "an exchange with a sign wrong": Break(
        "rungs/parallel.py", "log_ratio += log_ratio_of", "log_ratio -= log_ratio_of", "rungs"
    ),
    "recorded before the exchange": Break(
        "engines/loops.py",
        "            rungs[r, t] = rung[r]\n            proposals[r, t] = proposed[r]",
        "            rungs[r, t] = proposed[r]\n            proposals[r, t] = rung[r]",
        "engines",
    ),
    "too good an effective sample size": Break(
        "estimators/weights.py", "(1.0 + cv2(log_weights))", "(1.0 + 0.5 * cv2(log_weights))", "estimators"
    ),
    "a pseudo-prior that runs away": Break(
        "learning/pseudo_prior.py", "-log_conditional_occupancy(", "log_conditional_occupancy(", "learning"
    ),
    "a leg that misses its end": Break(
        "path/path.py", "k * target + (1.0 - k) * self.end", "k * target + (0.99 - k) * self.end", "path"
    ),
    "half of a Jacobian": Break(
        "prior/bijections.py", "+ log_sigmoid(free) + log_sigmoid(-free)", "+ log_sigmoid(free)", "prior"
    ),
    "a soft plus by the tail of other numbers": Break(
        "target/concavity.py", "if at is inner and least.value == 0.0:", "if least.value == 0.0:", "target"
    ),
    "a prior without its constant": Break(
        "sampling/prior_constant.py",
        "            return abs(mean - 1.0)",
        "            return True or abs(mean - 1.0)",
        "sampling",
    ),
    "an integral of nothing that is precise": Break(
        "sampling/prior_constant.py", "if error < PRECISE * mean:", "if error < PRECISE:", "sampling"
    ),
    "a mixture judged by what it has seen": Break(
        "learning/reference/spanned.py", "first, second = self.of_halves", "second, first = self.of_halves", "path"
    ),
    "tails by the mixture alone": Break("runs/tours.py", "- np.logaddexp.reduce(fresh)", "- fresh[-1]", "runs"),
    "round trips to an end that is not there": Break(
        "path/path.py",
        "return len(self) - 1 if len(self.legs[0].ladder) > 1 or not self.has_two_legs else 0",
        "return len(self) - 1",
        "sampling",
    ),
    "a safe leg where none is needed": Break(
        "learning/loop.py", "has_safe_leg=belief.has_safe_leg,", "has_safe_leg=True,", "sampling"
    ),
    "every exchange accepted": Break(
        "recorders/index_sums.py",
        "np.bincount(lower[accepted], minlength=m)",
        "np.bincount(lower, minlength=m)",
        "recorders",
    ),
    "a journey counted at its far end": Break(
        "estimators/regeneration.py", "np.sum(is_cold & was_hot)", "np.sum(is_cold | was_hot)", "estimators"
    ),
    "tours that lose their first draw": Break("runs/tours.py", "(completed >= 1)", "(completed >= 2)", "runs"),
    "a checksum that is not looked at": Break(
        "io/records.py", "if zlib.crc32(data) != checksum", "if zlib.crc32(data) is None", "io"
    ),
    "dictionaries that may change unseen": Break(
        "execution/digest.py", "for key, part in value.items()", "for key, part in ()", "execution"
    ),
    "Barker's function upside down": Break(
        "informed/balancing.py", "-np.logaddexp(0.0, -log_ratio)", "-np.logaddexp(0.0, log_ratio)", "informed"
    ),
    "a comb that starts at nought": Break(
        "estimators/resampling.py",
        "(np.arange(n) + rng.random())",
        "(np.arange(n) + 0.0 * rng.random())",
        "populations",
    ),
    "an evidence of all replicates together": Break(
        "populations/sequential.py",
        "logsumexp(self.log_evidences) - np.log(n)",
        "logsumexp(self.log_evidences)",
        "populations",
    ),
    "temperatures in the wrong order": Break(
        "doors/ptemcee.py", "return self._betas.copy()", "return self._betas[::-1].copy()", "doors"
    ),
    "birds never seen again that have no ring": Break(
        "models/recapture/likelihood.py",
        "+ phi * (1 - state.values[P_, t, c]) * later",
        "+ phi * later",
        "models/recapture",
    ),
    "a tree prior that forgets a child": Break(
        "models/treed_gp/grow_prune.py",
        "2.0 * log_no_split(state, depth + 1)",
        "log_no_split(state, depth + 1)",
        "models/treed_gp",
    ),
    "a column's own variance forgotten": Break(
        "models/variable_selection/engine.py",
        "gain -= 0.5 * (np.log(schur) - noise.log_slab[j])",
        "gain -= 0.5 * np.log(schur)",
        "models/variable_selection",
    ),
    "coordinates that shift the wrong way": Break(
        "target/whitened.py", "(x - self.centre) @", "(x + self.centre) @", "target"
    ),
    "machine code that was damaged on disk": Break(
        "compiling/executables.py",
        "hashlib.sha256(compressed).digest() != checksum",
        "hashlib.sha256(compressed).digest() is None",
        "compiling",
    ),
    "a banana whose truth is too narrow": Break(
        "problems/banana.py", "(2 * variance**2 + 4 *", "(variance**2 + 4 *", "problems"
    ),
    "a spread over runs that is too small": Break(
        "experiments/__init__.py", "/ (len(values) - 1)", "/ len(values)", "experiments"
    ),
    "a density that does not integrate to one": Break(
        "plots/values.py", "ax.stairs(height / np.diff(edges), edges", "ax.stairs(height, edges", "plots"
    ),
    "poor runs called sound": Break("report/page.py", "if found.is_good:", "if not found.is_good:", "report"),
    "chains saved, and draws as well": Break(
        "sampling/effort.py", "max(1.0, too_dear * fewer / chains)", "max(1.0, too_dear)", "sampling"
    ),
    "another kernel than was asked for": Break(
        "cli/user_files.py", '"slice": "Slice"', '"slice": "HitAndRunSlice"', "cli"
    ),
}


def seen(name: str, folder: Path) -> str:
    """Break the package, run tests until one fails; return its name, or nothing."""
    broken = BREAKS[name]
    copied = folder / "src"
    shutil.copytree(ROOT / "src", copied, ignore=shutil.ignore_patterns("__pycache__"))
    file = copied / "tempering" / broken.file
    text = file.read_text()
    if text.count(broken.right) != 1:
        raise SystemExit(
            f"{name}: the line must be in {broken.file} once, but is there {text.count(broken.right)} times."
        )
    file.write_text(text.replace(broken.right, broken.wrong))
    here = os.environ | {
        "PYTHONPATH": str(copied),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(ROOT / "tests" / broken.tests)]
    done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False)
    failed = [line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if done.returncode == 1 and failed else ""


def main(names: list[str]) -> int:
    """Make the breaks named, or all; return the exit status."""
    status = 0
    for name in names or BREAKS:
        with tempfile.TemporaryDirectory(prefix="tempering-break-") as folder:
            found = seen(name, Path(folder))
        print(f"{'seen' if found else 'NOT SEEN':8s} {name}: {found}", flush=True)  # noqa: T201
        status |= not found
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
