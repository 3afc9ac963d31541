"""Importing the package is quick, and brings in nothing that only some use."""

import subprocess
import sys

HEAVY = (
    "numpy",
    "scipy",
    "scipy.stats",
    "jax",
    "numba",
    "matplotlib",
    "arviz",
    "blackjax",
    "pandas",
    "pymc",
    "dask",
    "sklearn",
    "rich",
)
PROGRAM = """
import sys, time
started = time.process_time()
{statement}
print(time.process_time() - started)
print(*[name for name in {heavy!r} if name in sys.modules])
"""


def imported_by(statement):
    """Return seconds of processor time, which others at work change little, and the heavy packages brought in."""
    program = PROGRAM.format(statement=statement, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    *_, seconds, names = done.stdout.split("\n")[:-1]
    return float(seconds), set(names.split())


def test_importing_the_package_is_quick_and_light():
    seconds, heavy = min(imported_by("import tempering") for _ in range(3))
    assert heavy == set()
    assert seconds < 0.4


def test_the_names_of_the_package_are_imported_when_they_are_used():
    _, heavy = imported_by("import tempering; tempering.sample; tempering.Target; tempering.Ladder")
    assert "numpy" in heavy  # the control: heavy packages are seen
    assert not heavy & {"matplotlib", "arviz", "blackjax", "pandas", "pymc", "dask", "sklearn", "scipy.stats"}


def test_every_name_of_the_package_can_be_had():
    import tempering

    assert all(getattr(tempering, name) is not None for name in tempering.__all__)
    assert set(tempering.__all__) <= set(dir(tempering))


def test_help_is_quick():
    """Half a second from the start of the process."""
    program = (
        "sys.argv = ['tempering', '--help']\nfrom tempering.cli import main\ntry:\n main()\nexcept SystemExit: pass\n"
    )
    seconds, heavy = min(imported_by(program) for _ in range(3))
    assert heavy <= {"rich"}
    assert seconds < 0.5


def test_a_density_compiled_by_numba_is_sampled_without_jax():
    """JAX takes a third of a second to import."""
    program = (
        "import numpy as np, tempering as tp\n"
        "from numba import njit\n"
        "target = tp.Target(njit(lambda x: -0.5 * (x[0] - 3.0) ** 2))\n"
        "options = {'ladder': [1, 0.5], 'draws': 300, 'tuning': tp.Tuning(320), 'rng': 1, 'progress': False}\n"
        "run = tp.sample(target, initial=np.zeros(1), **options)\n"
        "assert abs(run.expect(lambda x: x[..., 0]).value - 3.0) < 0.5\n"
    )
    _, heavy = imported_by(program)
    assert "numba" in heavy
    assert "jax" not in heavy
