"""Damaged checkpoints and saved runs: never read as if nothing had happened, never a raw traceback."""

import warnings

import numpy as np
import pytest
from damages import KINDS, arrays_of, damage, load, outcome, sweep
from test_checkpoint import assert_same, run, small_chunks, stop_with_draws  # noqa: F401

import tempering as tp
from statistical import seeded_rng
from tempering.errors import DamageError
from tempering.runs import store as run_store

QUICK = ("python, unfinished", "saved run")
EVERY = 100  # damages of each of eleven kinds in the long test


def check(name, tmp_path, n):
    results = sweep(name, tmp_path, n, seeded_rng(f"damage {name}"))
    bad = [f"{what}: {came}" for what, came in results if came not in ("right", "told")]
    assert not bad, "\n".join(bad)
    assert any(came == "told" for _, came in results) or n < 20
    return len(results)


@pytest.mark.parametrize("name", QUICK)
def test_thirty_damages_are_told_or_do_no_harm(name, tmp_path):
    check(name, tmp_path, 30)


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_damages_of_every_kind_are_told_or_do_no_harm(name, tmp_path):
    assert check(name, tmp_path, EVERY) >= EVERY


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


def test_damage_does_damage(tmp_path):
    """A control of the sweep itself."""
    file = tmp_path / "file"
    file.write_bytes(bytes(range(200)))
    rng = seeded_rng("damage")
    for _ in range(50):
        with warnings.catch_warnings():
            damage(rng, file)
        assert not file.exists() or file.read_bytes() != bytes(range(200))
        file.write_bytes(bytes(range(200)))
