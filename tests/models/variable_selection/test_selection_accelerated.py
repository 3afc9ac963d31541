"""The lockstep chains of JAX: the same rank-one changes, the same inclusion probabilities."""

import subprocess
import sys

import numpy as np
import pytest

from models.variable_selection.selection_cases import data, exact_inclusion, problems
from tempering.errors import InputError
from tempering.models.variable_selection import LinearProblem, SizePrior, Slab
from tempering.models.variable_selection.accelerated import run_accelerated


@pytest.mark.long  # ten seconds to compile
def test_inclusion_probabilities_are_those_of_all_models():
    x, y = data()
    problem = LinearProblem(x, y, SizePrior(expected=2.0), Slab("independent", 0.5))
    found = run_accelerated(problem, chains=32, draws=600, tune=100, slots=8, rng=1)
    truth = exact_inclusion(problem)
    z = (np.asarray(found.inclusion.value) - truth) / np.asarray(found.inclusion.standard_error)
    assert np.abs(z).max() < 6.5  # Student, 31 degrees of freedom, 8 columns: 1e-6
    assert found.mean_size == pytest.approx(truth.sum(), abs=0.1)
    off = (np.asarray(found.inclusion.value) + 0.05 - truth) / np.asarray(found.inclusion.standard_error)
    assert np.abs(off).max() > 1.3 * 6.5


def test_what_it_cannot_do_is_refused():
    with pytest.raises(InputError, match="g-prior"):
        run_accelerated(problems()["g-prior"])


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "pandas", "sklearn"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize(("module", "is_there"), [("accelerated", True), ("problem", True), ("estimator", False)])
def test_an_accelerator_needs_neither_numba_nor_pandas_nor_scikit_learn(module, is_there):
    code = BLOCKED + f"import tempering.models.variable_selection.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == is_there, done.stderr[-500:]
