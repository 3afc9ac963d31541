"""A user's file: what is taken for a target, and how mistakes are told."""

import numpy as np
import pytest

import tempering as tp
from tempering.cli.user_files import (
    find_target,
    parse_kernel,
    parse_path,
    parse_position,
    parse_pseudo_prior,
    sample_file,
)
from tempering.errors import InputError, SamplerError
from tempering.path.ladder import parse_ladder
from tempering.runs.stored import load

FILE = """
import beside
import tempering as tp

SHIFT = beside.SHIFT

def log_density(x):
    return -0.5 * (x - SHIFT) ** 2

def with_default(x, shift=SHIFT):
    return -0.5 * (x - shift) ** 2

def build(shift=SHIFT):
    return tp.Target(lambda x: -0.5 * (x - shift) ** 2)

def number():
    return 7

TARGET = tp.Target(log_density)

class Gradient:
    def log_density(self, x):
        return log_density(x)

def from_stan():
    return Gradient()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "user_model.py").write_text(FILE)
    (tmp_path / "beside.py").write_text("SHIFT = 3.0\n")
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    monkeypatch.delitem(__import__("sys").modules, "beside", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", ["log_density", "with_default", "build", "TARGET", "from_stan"])
def test_every_kind_of_target_is_found(folder, name):
    target = find_target(f"{folder}/user_model.py:{name}")
    assert isinstance(target, tp.Target)
    assert target.energy(np.array(5.0)) == -2.0


def test_modules_are_found_by_their_dotted_name():
    assert find_target("math:lgamma").energy(1.0) == 0.0


def test_a_pymc_model_is_taken_as_one(folder):
    (folder / "pymc_model.py").write_text(
        "import warnings\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')\n"
        "    import pymc as pm\n"
        "def build():\n"
        "    with pm.Model() as model:\n"
        "        pm.Normal('y', pm.Normal('mu', 0, 2), 1, observed=1.5)\n"
        "    return model\n"
    )
    target = find_target(f"{folder}/pymc_model.py:build")
    assert not target.is_powered
    assert float(target.energy({"mu": np.array(1.5)})) == pytest.approx(-0.5 * np.log(2 * np.pi))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("user_model.py", "must be given as MODULE:FUNCTION"),
        ("user_model.py:missing", "has no 'missing'; it has Gradient, build, from_stan"),
        ("nothing.py:f", "There is no file nothing.py"),
        ("user_model.py:number", "but it gave int. Return tempering.Target"),
        ("user_model.py:SHIFT", "but it gave float"),
    ],
)
def test_mistakes_are_named(folder, monkeypatch, name, message):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=message):
        find_target(name)


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(InputError, match="The module 'no_such_thing' cannot be imported"):
        find_target("no_such_thing:f")


def test_an_error_inside_the_file_is_one_sentence_with_its_line(folder):
    (folder / "broken.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=r"broken.py, line 1, in <module>: ZeroDivisionError"):
        find_target(f"{folder}/broken.py:f")


def test_positions_and_ladders_are_read():
    assert parse_position(None) is None
    assert parse_position("2") == 2.0
    np.testing.assert_array_equal(parse_position("[1, 2]"), [1.0, 2.0])
    np.testing.assert_array_equal(parse_position('{"a": [1]}')["a"], [1.0])
    assert parse_ladder("1, 0.5,0") == [1.0, 0.5, 0.0]
    assert parse_ladder(None) is None
    several = parse_position("[[1, 2], [3, 4]]")
    assert [part.tolist() for part in several] == [[1.0, 2.0], [3.0, 4.0]]
    assert [float(part["a"]) for part in parse_position('[{"a": 1}, {"a": 2}]')] == [1.0, 2.0]
    with pytest.raises(InputError, match="in JSON, but got 'zero'"):
        parse_position("zero")
    with pytest.raises(InputError, match="in JSON, but got"):
        parse_position('["a"]')
    with pytest.raises(InputError, match="separated by commas, but got '1;2'"):
        parse_ladder("1;2")


def test_kernels_and_references_are_read_by_name_or_from_a_file(folder):
    (folder / "kernels_of_mine.py").write_text(
        "import tempering as tp\nSLICE = tp.kernels.Slice(2.0)\ndef walk(): return tp.kernels.RandomWalk(0.5)\n"
    )
    mine = f"{folder}/kernels_of_mine.py"
    assert parse_kernel(None) is None
    kinds = ("RandomWalk", "Slice", "HitAndRunSlice", "Independence", "Hamiltonian")
    names = ("random_walk", "slice", "hit-and-run", "independence", "hamiltonian")
    assert [parse_kernel(name) for name in names] == [getattr(tp.kernels, kind)() for kind in kinds]
    assert repr(parse_kernel("nuts")) == "BlackJAX(nuts)"
    assert parse_kernel(f"{mine}:SLICE") == tp.kernels.Slice(2.0)
    assert parse_kernel(f"{mine}:walk") == tp.kernels.RandomWalk(0.5)
    assert [parse_path(text) for text in ("two_legs", "reference", None)] == ["two_legs", "reference", None]
    assert parse_path(f"{mine}:SLICE") == tp.kernels.Slice(2.0)
    assert parse_pseudo_prior("mbar") == "mbar"
    assert parse_pseudo_prior("0,-1.5") == [0.0, -1.5]
    assert parse_pseudo_prior(None) is None
    with pytest.raises(InputError, match=r"one of random_walk, .*nuts, or MODULE:NAME of your own, but got 'best'"):
        parse_kernel("best")
    with pytest.raises(InputError, match="prior, reference or MODULE:NAME of your own, but got 'best'"):
        parse_path("best")


SHORT = {"initial": np.array(0.0), "ladder": [1, 0.5], "draws": 64, "tuning": tp.Tuning(64), "chains": 2, "rng": 4}


@pytest.mark.slow
def test_workers_make_the_same_draws(folder, tmp_path):
    where = f"{folder}/user_model.py:log_density"
    alone = sample_file(where, tmp_path / "a.zarr", progress=False, **SHORT)
    shared = sample_file(where, tmp_path / "b.zarr", progress=False, workers=1, **SHORT)
    np.testing.assert_array_equal(alone.values["x"], shared.values["x"])
    with pytest.raises(SamplerError, match="at least 1 worker, but got 0"):
        sample_file(where, tmp_path / "c.zarr", workers=0, **SHORT)


def test_the_run_is_the_one_that_sample_gives(folder, tmp_path):
    where = f"{folder}/user_model.py:log_density"
    sample_file(where, tmp_path / "run.zarr", progress=False, **SHORT)
    own = tp.sample(tp.Target(lambda x: -0.5 * (x - 3.0) ** 2), progress=False, **SHORT)
    np.testing.assert_array_equal(load(tmp_path / "run.zarr").values["x"], own.values["x"])
    assert not list(tmp_path.glob("*.html"))
