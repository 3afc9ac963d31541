"""Runs on disk: what is read is what was written, to the bit, and nothing of a user's is overwritten."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import tempering as tp
from exact_runs import exact_run
from tempering.errors import InputError
from tempering.io.records import write_twice
from tempering.runs import store as run_store
from tempering.runs.store import ARRAYS
from tempering.runs.stored import load, save
from tempering.target.layout import Layout

CONTAINERS = [np.zeros(2), {"b": 0.0, "a": 0.0}, (0.0, np.zeros(1)), {"outer": {"a": 0.0}, "b": [0.0]}]


@pytest.fixture(scope="module")
def sampled():
    target = tp.Target(lambda x: -0.5 * ((x["a"] - 1.0) ** 2 + x["b"] ** 2))
    return tp.sample(
        target, initial={"a": 0.0, "b": 0.0}, ladder=[1, 0.5], draws=100, tuning=tp.Tuning(320), chains=2, rng=1
    )


def assert_equal_runs(one, two):
    assert list(one.values) == list(two.values)
    for name in one.values:
        np.testing.assert_array_equal(one.values[name], two.values[name])
    for name in ("rung", "terms", "proposed", "acceptance", "log_pseudo_prior"):
        a, b = getattr(one, name), getattr(two, name)
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.ladder.inverse_temperatures, two.ladder.inverse_temperatures)
    for name in ("chains_per_ensemble", "layout", "is_powered"):
        assert getattr(one, name) == getattr(two, name)


@pytest.mark.parametrize("position", CONTAINERS)
def test_every_container_comes_back(tmp_path, position):
    run = exact_run("container", position=position, chains_per_ensemble=2, is_powered=False)
    save(run, tmp_path / "run.zarr")
    assert_equal_runs(run, load(tmp_path / "run.zarr"))


def test_a_sampled_run_comes_back_with_its_history(tmp_path, sampled):
    save(sampled, tmp_path / "run.zarr")
    back = load(tmp_path / "run.zarr")
    assert_equal_runs(sampled, back)
    for mine, read in zip(sampled.settings, back.settings, strict=True):
        for a, b in zip(mine, read, strict=True):
            np.testing.assert_array_equal(a, b)
    for field in fields(sampled.info):
        if field.name != "rounds":
            assert getattr(back.info, field.name) == getattr(sampled.info, field.name)
    assert len(back.info.rounds) == len(sampled.info.rounds) > 0
    for mine, read in zip(sampled.info.rounds, back.info.rounds, strict=True):
        for field in fields(mine):
            np.testing.assert_array_equal(getattr(mine, field.name), getattr(read, field.name))
    first, second = (run.expect(lambda a, b: a * b) for run in (sampled, back))
    assert (first.value, first.standard_error) == (second.value, second.standard_error)


def test_extreme_numbers_are_kept(tmp_path):
    run = exact_run("extreme", n_draws=3)
    terms = np.array(run.terms)
    terms[0, :, 0] = [-np.inf, 5e-324, 1e308]
    acceptance = np.full_like(run.acceptance, np.nan)
    fields_of = {f.name: getattr(run, f.name) for f in fields(run) if f.init}
    run = tp.TemperedDraws(**(fields_of | {"terms": terms, "acceptance": acceptance}))
    save(run, tmp_path / "run.zarr")
    assert_equal_runs(run, load(tmp_path / "run.zarr"))


def test_values_are_read_when_they_are_asked_for(tmp_path):
    save(exact_run("lazy", position={"a": 0.0, "b": 0.0}), tmp_path / "run.zarr")
    back = load(tmp_path / "run.zarr")
    assert len(back.values) == 2
    assert back.values._read == {}
    assert not back.values["b"].flags.writeable
    assert list(back.values._read) == ["b"]
    with pytest.raises(KeyError):
        back.values["c"]


def test_nothing_is_read_to_show_a_run(tmp_path):
    run = exact_run("shown", position={"a": 0.0, "b": np.zeros(1)})
    save(run, tmp_path / "run.zarr")
    back = load(tmp_path / "run.zarr")
    assert repr(back) == repr(run)
    assert (back.n_chains, back.n_draws) == run.rung.shape
    assert not {"rung", "terms", "proposed", "acceptance"} & set(vars(back))
    assert back.values._read == {}
    assert not back.terms.flags.writeable
    assert "terms" in vars(back)
    assert "rung" not in vars(back)


LAZILY = """
import sys
from pathlib import Path
import tempering as tp
import jax, zarr  # code does not count, only data
import tempering.runs.stored, tempering.sampling.sample

tempering.runs.store.CHUNK = 2**17
def peak():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024

Path("/proc/self/clear_refs").write_text("5")  # the peak of the process that started this one does not count
before = peak()
run = tp.load(sys.argv[1])
loaded = peak()
run.save(sys.argv[2])
copied = peak()
run.values["x"], run.terms
print(loaded - before, copied - before, peak() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_a_copy_of_a_long_run_is_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(run_store, "CHUNK", 2**17)  # 1 MB
    n_draws = 400_000  # 4 chains in 2 dimensions: 26 MB of values, 58 MB in all
    save(exact_run("large", n_draws=n_draws), tmp_path / "run.zarr")
    command = [sys.executable, "-c", LAZILY, str(tmp_path / "run.zarr"), str(tmp_path / "copy.zarr")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loading, copying, reading = map(float, done.stdout.split())  # MB
    assert loading < 8
    assert copying < 25  # a chunk of each array, a few times over, and Zarr itself
    assert reading > 36  # control: the values and energies themselves


def test_zeros_of_either_sign_are_kept(tmp_path):
    run = replace(exact_run("zeros"), terms=np.full((4, 600, 1), -0.0), proposed=np.zeros((4, 600), np.int32))
    save(run, tmp_path / "run.zarr")
    back = load(tmp_path / "run.zarr")
    assert np.signbit(back.terms).all()
    assert_equal_runs(run, back)


def test_what_was_loaded_can_be_changed_by_replace(tmp_path):
    run = exact_run("replaced")
    save(run, tmp_path / "run.zarr")
    arrays = {name: getattr(run, name)[:, :10] for name in ARRAYS}
    half = replace(load(tmp_path / "run.zarr"), values={"x": run.values["x"][:, :10]}, **arrays)
    assert half.n_draws == 10
    assert half.n_chains == 4
    assert repr(half).startswith("TemperedDraws(4 chains x 10 draws of x[2]")


def test_long_arrays_are_cut_along_the_draws(tmp_path, monkeypatch):
    import zarr

    monkeypatch.setattr("tempering.runs.store.CHUNK", 1000)
    run = exact_run("long")
    save(run, tmp_path / "run.zarr")
    assert zarr.open_group(tmp_path / "run.zarr")["terms"].chunks == (4, 125, 1)
    assert_equal_runs(run, load(tmp_path / "run.zarr"))


def test_xarray_opens_the_store(tmp_path):
    import xarray

    run = exact_run("xarray")
    save(run, tmp_path / "run.zarr")
    with xarray.open_zarr(tmp_path / "run.zarr", consolidated=False) as data:
        assert data["terms"].dims[:2] == ("chain", "draw")
        np.testing.assert_array_equal(data["terms"], run.terms)


def test_a_container_of_the_users_own_is_left_out(tmp_path):
    from collections import namedtuple

    run = exact_run("own", position=namedtuple("Pair", "a b")(0.0, 0.0))
    save(run, tmp_path / "run.zarr")
    back = load(tmp_path / "run.zarr")
    assert back.layout is None
    assert back.expect(lambda a, b: a).value == run.expect(lambda pair: pair.a).value
    assert isinstance(run.layout, Layout)


def test_a_run_is_replaced_but_nothing_else(tmp_path):
    path = tmp_path / "run.zarr"
    save(exact_run("old"), path)
    new = exact_run("new")
    save(new, path)
    assert_equal_runs(new, load(path))
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InputError, match="must be new or a run written before"):
        save(new, tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").exists()


def test_what_is_no_run_is_refused(tmp_path):
    import zarr

    with pytest.raises(InputError, match="must be a run written by save"):
        load(tmp_path / "nothing.zarr")
    zarr.open_group(tmp_path / "other.zarr", mode="w")
    with pytest.raises(InputError, match="must be a run written by save"):
        load(tmp_path / "other.zarr")
    save(exact_run("later"), tmp_path / "later.zarr")
    write_twice(tmp_path / "later.zarr" / "about/record", {"format": 99}, [])
    with pytest.raises(InputError, match="has format 99, but this version reads format 2"):
        load(tmp_path / "later.zarr")
    run = exact_run("object", n_draws=3)
    odd = {"x": np.array([[None] * 3] * 4)}
    bad = tp.TemperedDraws(odd, run.rung, run.terms, run.path, run.log_pseudo_prior, run.proposed, run.acceptance)
    with pytest.raises(InputError, match="must be numbers to be kept, but 'x' has type object"):
        save(bad, tmp_path / "object.zarr")


def test_values_too_large_for_memory_are_asked_piece_by_piece(tmp_path, monkeypatch):
    run = exact_run("pieces", position={"a": 0.0, "b": np.zeros(1)})
    monkeypatch.setattr("tempering.runs.store.CHUNK", 100)
    save(run, tmp_path / "run.zarr")
    known = load(tmp_path / "run.zarr").expect(lambda a, b: a + b.sum(axis=-1))
    monkeypatch.setattr("tempering.runs.stored.LARGE", 0)
    monkeypatch.setattr("tempering.runs.stored.PIECE", 1000)
    back, sizes = load(tmp_path / "run.zarr"), []

    def function(a, b):
        sizes.append(a.shape[1])
        return a + b.sum(axis=-1)

    assert back.expect(function) == known
    assert len(sizes) > 10
    assert sum(sizes) == run.n_draws
    assert back.values._read == {}
    with pytest.raises(tp.TemperingError, match="one value"):
        back.expect(lambda a, b: a.sum(axis=1))
