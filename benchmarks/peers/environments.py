"""The environments that the peers run in: made on the first run, a package at a time where all at once fails."""

import importlib.metadata
import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parents[1]
VARIABLE = "TEMPERING_PEERS"  # a folder for the environments, where they should not lie beside this code
_PLACE = Path(os.environ.get(VARIABLE, FOLDER / ".venv"))
PLACES = {
    "peers": (_PLACE / "peers", FOLDER / "requirements.txt"),
    "tfp": (_PLACE / "tfp", FOLDER / "requirements-tfp.txt"),
    "nested": (_PLACE / "nested", FOLDER / "requirements-nested.txt"),
}
STAMP = ".peers-installed"
SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def variables() -> dict[str, str]:
    """Return the environment variables of a run: one thread, and this checkout's own code."""
    root = FOLDER.parent
    return os.environ | SINGLE_THREADED | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}


def python_of(environment: str) -> str:
    """Return the interpreter that a sampler runs with."""
    return sys.executable if environment == "own" else str(PLACES[environment][0] / "bin" / "python")


def make(environment: str) -> None:
    """Make an environment, unless it stands already; what cannot be installed is left out and said."""
    place, requirements = PLACES[environment]
    if (place / STAMP).exists() and (place / STAMP).read_text() == requirements.read_text():
        return
    print(f"Installing {requirements.name} into {place.name} (some minutes, once)", flush=True)
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*install, "-r", str(requirements)], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (line.split("#")[0].strip() for line in requirements.read_text().splitlines())
        wanted = [line for line in lines if line]
        constraints = ["-c", str(requirements)]
        failed = [line for line in wanted if subprocess.run([*install, *constraints, line], check=False).returncode]
        print(f"Not installed: {', '.join(failed) or 'nothing'}", flush=True)
    (place / STAMP).write_text(requirements.read_text())
    print(f"Installed in {time.monotonic() - begun:.0f} s", flush=True)


def version_of(environment: str, package: str) -> str | None:
    """Return the installed version of a package; None where there is none."""
    if environment == "own":
        return importlib.metadata.version(package)
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    try:
        done = subprocess.run([python_of(environment), "-c", code], capture_output=True, text=True, check=False)
    except FileNotFoundError:  # the environment was not made yet
        return None
    return done.stdout.strip() if done.returncode == 0 else None
