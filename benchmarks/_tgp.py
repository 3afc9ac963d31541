"""Run R's tgp, where it is installed (Debian: r-cran-tgp)."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

TGP = r"""
suppressMessages(library(tgp))
task <- commandArgs(TRUE)
X <- as.matrix(read.csv(task[1])); Z <- scan(task[2], quiet=TRUE)
total <- as.integer(task[3]); burn <- as.integer(task[4]); seed <- as.integer(task[5])
set.seed(seed)
XX <- if (file.exists(task[6])) as.matrix(read.csv(task[6])) else NULL
ladder <- if (task[7] == "tempered") default.itemps(m=40, k.min=0.1) else NULL
prior <- if (task[7] == "tempered") "b0" else "bflat" # its default, which tempering does not allow
every <- if (is.null(XX)) 1 else 10 # predictions at many inputs are dear
before <- proc.time()
fit <- btgp(X=X, Z=Z, XX=XX, BTE=c(burn, burn + total, every), R=1, bprior=prior, itemps=ladder,
            pred.n=FALSE, krige=TRUE, zcov=FALSE, Ds2x=FALSE, improv=FALSE, trace=TRUE, verb=0)
spent <- proc.time() - before
leaves <- fit$trace$post$leaves
cat("seconds", spent[["user.self"]] + spent[["sys.self"]], "\n")
# Before a tempered run tgp learns its pseudo-prior for burn + total rounds, in place of the burn-in.
cat("rounds", if (task[7] == "tempered") burn + 2 * total else burn + total, "\n")
cat("leaves", leaves, "\n")
if (!is.null(XX)) { cat("mean", fit$ZZ.km, "\n"); cat("low", fit$ZZ.q1, "\n"); cat("high", fit$ZZ.q2, "\n") }
"""


# Debian's files of BLAS and LAPACK: loaded before R starts, for its own script looks for libraries elsewhere.
LIBRARIES = {
    "reference BLAS": ("blas/libblas.so.3", "lapack/liblapack.so.3"),
    "OpenBLAS": ("openblas-pthread/libblas.so.3", "openblas-pthread/liblapack.so.3"),
}


def blas_found() -> dict[str, str]:
    """Return the linear algebra that R can be run with: files to load, by name."""
    system = Path("/usr/lib/x86_64-linux-gnu")
    files = {name: [system / file for file in names] for name, names in LIBRARIES.items()}
    return {name: ":".join(map(str, found)) for name, found in files.items() if all(p.is_file() for p in found)}


def has_tgp() -> bool:
    if shutil.which("Rscript") is None:
        return False
    check = subprocess.run(["Rscript", "-e", "library(tgp)"], capture_output=True, check=False)
    return check.returncode == 0


def run_tgp(
    x: Any,
    y: Any,
    total: int,
    burn: int,
    *,
    tempered: bool,
    new: Any = None,
    seed: int = 1,
    blas: str | None = None,
) -> dict[str, Any]:
    """Run tgp's btgp; return seconds of the processor, rounds, leaves and predictions.

    ``blas`` are the files of BLAS and LAPACK it loads; the system's own by default.
    """
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        names = ",".join(f"x{j}" for j in range(x.shape[1]))
        np.savetxt(at / "x.csv", x, delimiter=",", header=names, comments="")
        np.savetxt(at / "z.txt", y)
        if new is not None:
            np.savetxt(at / "new.csv", new, delimiter=",", header=names, comments="")
        (at / "run.R").write_text(TGP)
        mode = "tempered" if tempered else "plain"
        task = [at / "x.csv", at / "z.txt", total, burn, seed, at / "new.csv", mode]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if blas is not None:
            environment["LD_PRELOAD"] = blas
        command = ["Rscript", str(at / "run.R"), *map(str, task)]
        # in that folder, since tgp leaves files where it runs
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=at)
    out: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        name, *values = line.split()
        out[name] = np.array([float(v) for v in values])
    return out
