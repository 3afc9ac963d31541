"""R by reticulate: lists that every version converts, and the page's code, run by R where R and reticulate are."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from exact_runs import exact_run
from tempering.doors import r
from tempering.errors import InputError, TargetError

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "r.md"
BLOCK = re.compile(r"^```r\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def reticulate():
    """Skip where R or reticulate is missing: asked when a test needs it, since starting R takes seconds."""
    asked = ["Rscript", "-e", "library(reticulate)"]
    if shutil.which("Rscript") is None or subprocess.run(asked, capture_output=True, timeout=60).returncode != 0:
        pytest.skip("needs R with reticulate")


def run_by_r(code, folder):
    script = folder / "page.R"
    script.write_text(code)
    environment = {**os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        ["Rscript", str(script)], capture_output=True, text=True, timeout=900, env=environment, cwd=folder
    )


def test_a_function_gets_a_plain_list_and_returns_a_number():
    seen = []
    density = r.density(lambda x: seen.append(x) or -sum(x))
    assert density(np.array([1.0, 2.0])) == -3.0
    assert density(np.float64(4.0)) == -4.0
    assert seen == [[1.0, 2.0], [4.0]]
    with pytest.raises(TargetError, match=r"one number, but it returned \[1.0, 2.0\]"):
        r.density(lambda x: x)([1.0, 2.0])
    with pytest.raises(TargetError, match="must be a function, but got str"):
        r.density("dnorm")


def test_tables_become_columns_of_plain_values():
    frame = pd.DataFrame({"n": np.array([1, 2]), "ok": [True, False], "what": ["a", None]}, index=[3, 5])
    found = r.table(frame)
    assert found == {"index": [3, 5], "n": [1, 2], "ok": [True, False], "what": ["a", None]}
    assert [type(value) for value in found["n"] + found["ok"]] == [int, int, bool, bool]
    assert r.table(np.array([[1.0, 2.0], [3.0, 4.0]])) == {"x1": [1.0, 3.0], "x2": [2.0, 4.0]}
    assert r.table(pd.Series([0.5], name="p")) == {"p": [0.5]}
    with pytest.raises(InputError, match="rows and columns, but got dict"):
        r.table({"a": 1})


def test_a_run_becomes_all_its_draws_with_their_weights():
    run = exact_run("a run for R")
    found = r.table(run)
    assert len(found["weight"]) == run.rung.size
    assert sum(found["weight"]) == pytest.approx(1.0)
    mean = np.average(found["x[0]"], weights=found["weight"])
    assert mean == pytest.approx(run.expect(lambda x: x[..., 0]).value)


def test_a_vector_is_one_position():
    assert r.position([1.0, 2.0]).shape == (2,)
    assert r.position(3.0).shape == (1,)


def test_data_frames_come_in_by_their_columns():
    frame = r.data({"x": [1.0, 2.0], "name": ["a", "b"]})
    assert list(frame.columns) == ["x", "name"]
    assert r.data({"x": 3.0})["x"].tolist() == [3.0]  # reticulate makes one number of a vector of one
    with pytest.raises(InputError, match=r"Pass as\.list"):
        r.data([1.0])


@pytest.mark.long
@pytest.mark.usefixtures("reticulate")
def test_the_code_of_the_page_runs_in_r(tmp_path):
    done = run_by_r("\n".join(BLOCK.findall(PAGE.read_text())), tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
@pytest.mark.usefixtures("reticulate")
def test_control_code_that_fails_in_r_is_seen(tmp_path):
    done = run_by_r("library(reticulate)\nstopifnot(import('math')$pi < 3)", tmp_path)
    assert done.returncode != 0
    assert "is not TRUE" in done.stderr
