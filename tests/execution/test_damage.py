"""Damaged checkpoints and saved runs: never read as if nothing had happened, never a raw traceback."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from damaged_kinds import KINDS, arrays_of, load
from damages import CHANGES, PLACES, Bench, counted, damage, files_of, outcome, put, sweep
from test_checkpoint import assert_same, run, small_chunks, stop_with_draws  # noqa: F401

import tempering as tp
from statistical import seeded_rng
from tempering.errors import DamageError
from tempering.io import checkpoint as checkpoints
from tempering.io.records import read_record
from tempering.runs import store as run_store
from tempering.runs import stored

QUICK = ("python, unfinished", "saved run", "saved sums")
EVERY = 100  # damages of each kind in the long test
STORED = Path(__file__).with_name("damages.json")  # counts of a whole run of the long tests


def check(name, tmp_path, n):
    results = list(sweep(name, tmp_path, range(n)))
    bad = [f"{what}: {came}" for what, came in results if came not in ("right", "told")]
    assert not bad, "\n".join(bad)
    return counted(results)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_thirty_damages_are_told_or_do_no_harm(name, tmp_path):
    assert check(name, tmp_path, 30)["told"] > 3


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_damages_of_every_kind_are_told_or_do_no_harm(name, tmp_path):
    counts = check(name, tmp_path, EVERY)
    if os.environ.get("TEMPERING_STORE_DAMAGES"):
        known = json.loads(STORED.read_text()) if STORED.exists() else {}
        STORED.write_text(json.dumps(known | {name: {"damages": EVERY} | counts}, indent=1, sort_keys=True) + "\n")


def test_the_stored_counts_are_of_a_thousand_damages():
    """What a run of the long tests has left: none was silent, none a raw traceback."""
    known = json.loads(STORED.read_text())
    assert sum(counts["damages"] for counts in known.values()) >= 1_000
    assert set(known) == set(KINDS)
    assert all(set(counts) <= {"damages", "told", "right"} for counts in known.values())


def test_control_other_draws_are_seen(tmp_path, monkeypatch):
    """Where chunks carry no checksums, a flipped bit goes unseen, and the sweep says so."""
    monkeypatch.setattr("zarr.codecs.Crc32cCodec", lambda: __import__("zarr").codecs.ZstdCodec())
    whole = run()
    whole.save(tmp_path / "run.zarr")
    file = next((tmp_path / "run.zarr/terms").rglob("c/0/0/0"))
    good = arrays_of(whole)
    wrong = good | {"terms": np.nextafter(good["terms"], 0.0)}
    assert outcome(load, tmp_path / "run.zarr", wrong) == "silent: terms differs"
    assert file.stat().st_size


def test_a_flipped_bit_in_a_chunk_is_told_with_the_draws_before_it(tmp_path, monkeypatch, small_chunks):  # noqa: F811
    whole = run()
    whole.save(tmp_path / "run.zarr")
    file = tmp_path / "run.zarr" / "terms" / "c" / "0" / "3" / "0"
    data = bytearray(file.read_bytes())
    data[17] ^= 4
    file.write_bytes(data)
    with pytest.raises(DamageError, match=r"terms/c/0/3/0 is damaged: .* The 150 draws of each chain") as told:
        tp.load(tmp_path / "run.zarr").expect(lambda x: x[..., 0])
    assert told.value.file == file
    np.testing.assert_array_equal(told.value.draws.terms, whole.terms[:, :150])


def test_a_lost_chunk_is_not_a_chunk_of_zeros(tmp_path, small_chunks):  # noqa: F811
    run().save(tmp_path / "run.zarr")
    (tmp_path / "run.zarr/values/0/c/0/1/0").unlink()
    with pytest.raises(DamageError, match=r"values/0/c/0/1/0 is damaged: it is missing\. The 50 draws"):
        tp.load(tmp_path / "run.zarr")


def test_a_lost_file_of_zarrs_removes_no_draws_and_is_written_again(tmp_path, monkeypatch, small_chunks):  # noqa: F811
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 150)
        with pytest.raises(BaseException):  # noqa: B017, PT011 - stands for a kill
            run(kept)
    for name in ("zarr.json", "terms/zarr.json"):
        (tmp_path / "run/draws.zarr" / name).unlink()
    with pytest.raises(DamageError, match=r"zarr\.json is damaged: it is missing\. No draw is lost"):
        tp.load(tmp_path / "run")
    chunks = sorted((tmp_path / "run/draws.zarr/terms/c").rglob("*"))
    with pytest.warns(UserWarning, match="restored from about/record; no draw is lost"):
        resumed = run(kept)
    assert set(chunks) <= set((tmp_path / "run/draws.zarr/terms/c").rglob("*"))
    assert_same(run(), resumed)


def test_a_run_whose_last_record_is_damaged_goes_on_from_the_one_before(tmp_path, monkeypatch, small_chunks):  # noqa: F811
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 150)
        with pytest.raises(BaseException):  # noqa: B017, PT011 - stands for a kill
            run(kept)
    latest = tmp_path / "run/latest"
    latest.write_bytes(latest.read_bytes()[:-100])
    with pytest.warns(UserWarning, match=r"latest is damaged: it ends too early\. The run goes on from the record"):
        assert_same(run(), run(kept))


def test_a_store_is_never_made_over_another(tmp_path):
    whole = run()
    whole.save(tmp_path / "run.zarr")
    with pytest.raises(tp.TemperingError, match="never made anew"):
        run_store.RunStore.create(tmp_path / "run.zarr", whole, 10)


@pytest.mark.parametrize("how", ["swap two files", "from another run"])
def test_control_chunks_that_change_places_are_seen_by_the_list_of_them_alone(how, tmp_path, monkeypatch):
    """Each has a checksum of its own, and that is right wherever it lies."""
    bench = Bench.of(KINDS["saved run"], tmp_path)
    whole = load(bench.intact)
    put(bench.intact, bench.copy)
    one, two = (bench.copy / "terms/c/0" / number / "0" for number in "01")
    if how == "from another run":
        put(bench.other / one.relative_to(bench.copy), one)
    else:
        one.rename(tmp_path / "aside")
        two.rename(one)
        (tmp_path / "aside").rename(two)
    assert outcome(load, bench.copy, whole) == "told"
    monkeypatch.setattr(run_store.RunStore, "_check_chunk", lambda *_: None)
    assert outcome(load, bench.copy, whole) == "silent: terms differs"


def test_control_a_record_of_another_run_is_seen_by_its_mark_alone(tmp_path, monkeypatch):
    bench = Bench.of(KINDS["python, unfinished"], tmp_path)
    whole = KINDS["python, unfinished"].call(None)
    for name in ("latest", "latest.before"):
        put(bench.intact, bench.copy)
        put(bench.other / name, bench.copy / name)
        for use in (load, KINDS["python, unfinished"].call):
            assert outcome(use, bench.copy, whole) in ("told", "right")
    put(bench.intact, bench.copy)
    for file in files_of(bench.other):
        if file.name != "run.json":
            put(file, bench.copy / file.relative_to(bench.other))
    assert outcome(load, bench.copy, whole) == "told"
    for module in (checkpoints, stored):
        monkeypatch.setattr(module, "id_of", lambda path: read_record(path / "latest")[0]["run"])
    assert outcome(load, bench.copy, whole) == "silent: rung differs"


@pytest.mark.parametrize("how", [*CHANGES, *PLACES])
def test_control_every_way_of_damaging_does_damage(how, tmp_path):
    paths = {}
    for place in ("intact", "other", "older", "copy"):
        paths[place] = tmp_path / place / "run"
        paths[place].mkdir(parents=True)
        for name in ("one", "two"):
            (paths[place] / name).write_bytes(f"{place} {name} 0123456789".encode() + bytes(range(200)))
    bench, file = Bench(**paths), paths["copy"] / "one"
    before = file.read_bytes()
    rng = seeded_rng(f"damage {how}")
    for _ in range(10):
        if how in CHANGES:
            file.write_bytes(CHANGES[how](rng, before))
        else:
            PLACES[how](rng, file, bench)
        assert not file.is_file() or file.read_bytes() != before
        put(paths["intact"] / "one", file)
        file.write_bytes(before)
        put(paths["intact"] / "two", paths["copy"] / "two")


def test_damage_says_what_was_done(tmp_path):
    bench = Bench.of(KINDS["saved sums"], tmp_path)
    put(bench.intact, bench.copy)
    assert damage(seeded_rng("said"), bench).endswith(": run.sums")
