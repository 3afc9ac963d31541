"""Files from somebody else: reading them runs nothing that they bring, and writes nothing that they name."""

import json
import os
import pickle
import shutil
import signal
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import zarr
from damaged_kinds import KINDS
from damages import difference, files_of
from test_checkpoint import run, small_chunks, stop_with_draws  # noqa: F401

import tempering as tp
from tempering.errors import TemperingError
from tempering.execution import pickling
from tempering.io import encoding, records
from tempering.io.encoding import LENGTH, decode
from tempering.runs import store as run_store
from tempering.runs.stored_sums import from_kept


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def test_control_a_pickle_runs_code(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


def used(name, path):
    kind = KINDS[name]
    for use in (kind.read, kind.call):
        if use is not None:
            try:
                use(path)
            except TemperingError:
                pass


@pytest.mark.long
@pytest.mark.parametrize("name", ["python, unfinished", "sums"])
def test_no_file_of_a_checkpoint_is_unpickled(name, tmp_path, recwarn):
    KINDS[name].make(tmp_path / "intact")
    payload = pickle.dumps(Payload(tmp_path / "ran"))
    for file in files_of(tmp_path / "intact"):
        shutil.copytree(tmp_path / "intact", tmp_path / "copy")
        (tmp_path / "copy" / file.relative_to(tmp_path / "intact")).write_bytes(payload)
        used(name, tmp_path / "copy")
        assert not (tmp_path / "ran").exists(), file
        shutil.rmtree(tmp_path / "copy")


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_nothing_of_any_kind_is_unpickled(name, tmp_path, monkeypatch, recwarn):
    """With unpickling from outside closed, a run is read and gone on with to the draws that it would have had."""
    kind = KINDS[name]
    path = tmp_path / kind.name
    kind.make(path)
    known = {use: use(where) for use, where in ((kind.read, path), (kind.call, None)) if use is not None}

    own, loads = set(), pickle.loads  # states that this process has packed itself may be copied

    class Noted(pickling._Pickler):
        def __init__(self, buffer, **how):
            super().__init__(buffer, **how)
            self.buffer = buffer

        def dump(self, value):
            super().dump(value)
            own.add(self.buffer.getvalue())

    def refuse(data, *_, **__):
        if data in own:
            return loads(data)
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickling, "_Pickler", Noted)
    for module in (pickle, cloudpickle):
        for function in ("load", "loads"):
            monkeypatch.setattr(module, function, refuse)
    with pytest.raises(AssertionError, match="unpickled"):  # control: it is closed
        pickle.loads(pickle.dumps(1))
    for use, arrays in known.items():
        assert difference(use(path), arrays) == ""


NAMES = [
    "os:system",
    "builtins:eval",
    "subprocess:Popen",
    "tempering.io.checkpoint:shutil",
    "tempering.io.checkpoint:write_latest",
    "tempering.execution.pickling:cloudpickle.Pickler",
    "tempering.cli.commands:app",
    "tempering.experiments.demo:Path",
    "concurrent.futures.thread:ThreadPoolExecutor",
    "test_hostile_files:Payload",
]


def bytes_of(tree):
    text = json.dumps(tree).encode()
    return LENGTH.pack(len(text)) + text


@pytest.mark.parametrize("name", NAMES)
def test_a_record_may_name_only_classes_of_ours_or_of_the_given_model(name):
    with pytest.raises(ValueError, match="cannot be decoded"):
        decode(bytes_of(["record", name, {"args": ["list", "true"]}]))


@pytest.mark.parametrize(
    "tree",
    [
        ["array", 0, "|O8", [1], [0]],
        ["array", 0, "<f8", [10**12], [0]],
        ["array", -8, "<f8", [1], [0]],
        ["array", 0, "<f8", [2, 2], [0, 0]],
        ["generator", ["dict", ["bit_generator", "os"]]],
        ["record", "tempering.engines.scalar:Chain", {"__class__": 1}],
        ["spell"],
        ["list"] * 3 + [[["list"]] * 2],
    ],
)
def test_a_record_that_describes_itself_wrongly_is_refused(tree):
    with pytest.raises(ValueError, match="cannot be decoded"):
        decode(bytes_of(tree))


def test_deep_nesting_is_refused_like_any_other_nonsense():
    text = b'["list",' * 100_000 + b"1" + b"]" * 100_000
    with pytest.raises(ValueError, match="cannot be decoded"):
        decode(LENGTH.pack(len(text)) + text)


def test_a_store_that_names_files_elsewhere_writes_none_of_them(tmp_path):
    run().save(tmp_path / "run.zarr")
    about = tmp_path / "run.zarr" / "about" / "record"
    header, sections = records.read_record(about)
    for name in ("../zarr.json", "/tmp/zarr.json", "values/../../zarr.json", "notes.txt"):
        texts = json.loads(sections[1]) | {name: "mine"}
        records.write_twice(about, header, [sections[0], json.dumps(texts).encode()])
        for use in (tp.load, tp.execution.repair):
            with pytest.raises(TemperingError, match="no part of a store"):
                use(tmp_path / "run.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.zarr"]


def test_a_store_with_codecs_of_another_kind_is_refused(tmp_path, monkeypatch):
    """Older versions of Zarr, and of its codecs, unpickle."""
    import numcodecs.pickles

    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    run().save(tmp_path / "run.zarr")
    about = tmp_path / "run.zarr" / "about" / "record"
    header, sections = records.read_record(about)
    records.write_twice(about, header, [sections[0], b"{}", *sections[2:]])
    for file in (tmp_path / "run.zarr").rglob("zarr.json"):
        file.unlink()
    (tmp_path / "run.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "run.zarr" / ".zattrs").write_text('{"names": []}')
    array = {"zarr_format": 2, "shape": [2, 320], "chunks": [2, 320], "dtype": "|O", "compressor": None, "order": "C"}
    array |= {"fill_value": "", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]}
    for name in run_store.ARRAYS:
        (tmp_path / "run.zarr" / name / ".zarray").write_text(json.dumps(array))
        (tmp_path / "run.zarr" / name / "0.0").write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    with pytest.raises(TemperingError, match=r"zarr\.json is damaged"):
        tp.load(tmp_path / "run.zarr").rung.sum()
    assert not (tmp_path / "ran").exists()
    with pytest.raises(Exception, match=r".*"):
        zarr.open_group(tmp_path / "run.zarr", mode="r")["rung"][:]
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("codec", [{"name": "gzip", "configuration": {"level": 1}}, {"name": "numcodecs.lzma"}])
def test_an_array_of_another_kind_is_refused(codec, tmp_path):
    run().save(tmp_path / "run.zarr")
    path = tmp_path / "run.zarr"
    text = json.loads((path / "rung/zarr.json").read_text())
    text["codecs"].insert(1, codec)
    (path / "rung/zarr.json").write_text(json.dumps(text))
    header, sections = records.read_record(path / "about/record")
    texts = json.loads(sections[1]) | {"rung/zarr.json": (path / "rung/zarr.json").read_text()}
    records.write_twice(path / "about/record", header, [sections[0], json.dumps(texts).encode(), *sections[2:]])
    with pytest.raises(TemperingError, match=r"zarr\.json is damaged"):
        tp.load(path)


def test_a_link_in_the_place_of_a_file_to_be_written_is_not_followed(tmp_path, monkeypatch, small_chunks):  # noqa: F811
    """A folder that somebody else has prepared names files of the user's."""
    mine = tmp_path / "mine"
    (mine / "folder").mkdir(parents=True)
    for name in ("file", "folder/letter"):
        (mine / name).write_text("mine")
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 150)
        with pytest.raises(BaseException):  # noqa: B017, PT011 - stands for a kill
            run(tp.Checkpoint(tmp_path / "run", seconds=0.0))
    for name in ("run.json", "latest", "probes", "answers", "tuning/00000.record", "draws.zarr/about/record"):
        (tmp_path / "run" / f"{name}.partial").symlink_to(mine / "file")
    shutil.rmtree(tmp_path / "run/draws.zarr")
    (tmp_path / "run/draws.zarr.partial").symlink_to(mine / "folder")
    for name in ("latest", "latest.before", "probes"):
        (tmp_path / "run" / name).unlink(missing_ok=True)
    run(tmp_path / "run")
    (tmp_path / "saved.zarr.partial").symlink_to(mine / "folder")
    (tmp_path / "saved.zarr.before").symlink_to(mine / "folder")
    for _ in range(2):
        run().save(tmp_path / "saved.zarr")
    assert [(mine / name).read_text() for name in ("file", "folder/letter")] == ["mine", "mine"]
    assert len(list(mine.rglob("*"))) == 3
    (tmp_path / "run/lock").unlink()
    (tmp_path / "run/lock").symlink_to(mine / "made")
    with pytest.raises(TemperingError, match="cannot be written"):
        run(tmp_path / "run")
    assert not (mine / "made").exists()


@pytest.mark.parametrize("name", ["run.json", "latest", "draws.zarr/about/record", "draws.zarr/terms/c/0/0/0"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(name, tmp_path, monkeypatch, small_chunks, recwarn):  # noqa: F811
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 150)
        with pytest.raises(BaseException):  # noqa: B017, PT011 - stands for a kill
            run(tp.Checkpoint(tmp_path / "run", seconds=0.0))
    file = tmp_path / "run" / name
    file.unlink()
    os.mkfifo(file)
    signal.alarm(20)  # which ends the test run: a pipe that is waited for is waited for for ever
    try:
        tp.load(tmp_path / "run")
    except TemperingError as error:
        assert name in str(error)  # noqa: PT017 - a copy may have been taken instead
    finally:
        signal.alarm(0)


def test_arrays_that_lie_in_the_same_place_are_not_multiplied():
    """Ten bytes of JSON could stand for a gigabyte each."""
    array = ["array", 0, "|u1", [1000], [0]]
    assert len(decode(bytes_of(["list", array]) + bytes(1000))[0]) == 1000
    with pytest.raises(ValueError, match="more than there is"):
        decode(bytes_of(["list"] + [array] * 2) + bytes(1000))


@pytest.mark.parametrize("lengths", [[1 << 62], [1 << 40, 1 << 40], [-1], ["a"], None])
def test_a_record_of_impossible_lengths_is_told(lengths, tmp_path):
    line = json.dumps({records.LENGTHS: lengths, records.CHECKSUMS: [0]}).encode() + b"\n"
    (tmp_path / "record").write_bytes(records.FIRST_LINE + line + b"%08x\n" % zlib.crc32(line) + b"some bytes")
    with pytest.raises(TemperingError, match="record is damaged"):
        records.read_record(tmp_path / "record")


def test_a_part_that_unfolds_without_end_is_told():
    bomb = LENGTH.pack(1 << 62) + zlib.compress(bytes(1 << 20))
    with pytest.raises(ValueError, match="cannot be de"):
        from_kept(bomb)


@pytest.mark.parametrize("name", [".", "draws.zarr", "draws.zarr/about", "latest", "run.json", "draws.zarr/zarr.json"])
def test_what_may_not_be_read_is_told(name, small_chunks, recwarn):  # noqa: F811
    folder = Path(tempfile.mkdtemp())
    try:
        run(folder / "run")
        (folder / "run/draws.zarr/about/record.copy").unlink()
        (folder / "run/run.json.copy").unlink()
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (folder / "run" / name).chmod(0)
        with as_nobody():
            for use in (tp.load, run):
                try:
                    use(folder / "run")
                except TemperingError as error:
                    assert str(folder) in str(error)  # noqa: PT017
                else:
                    assert name == "latest"  # which a run that is done does without
    finally:
        shutil.rmtree(folder)


@contextmanager
def as_nobody():
    """Lay down the rights of the system's administrator, where the tests have them."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_states_that_are_no_data_are_refused_with_what_to_do(tmp_path):
    class Opaque:
        def __init__(self, x):
            self.x = x

    class Model:
        names = ("x",)

        def initial(self, rng):
            return Opaque(rng.normal())

        def step(self, rng, state, k):
            return Opaque(state.x + rng.normal())

        def energy(self, state):
            return -0.5 * state.x**2

        def record(self, state):
            return np.array([state.x])

    options = {"ladder": [1.0, 0.5], "draws": 64, "tuning": tp.Tuning(32), "chains": 2, "rng": 1, "progress": False}
    assert tp.sample(Model(), **options).n_draws == 64
    with pytest.raises(TemperingError, match=r"Opaque\. Make its class a dataclass or a NamedTuple"):
        tp.sample(Model(), execution=tp.Execution(checkpoint=tmp_path / "run"), **options)


def test_what_is_encoded_comes_back():
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(3)
    order = np.moveaxis(rng.normal(size=(4, 3, 2)), 0, 1)
    with jax.enable_x64(True):
        value = {
            "order": order, 3: (None, True, 2**80, -0.0, float("inf"), "text", b"bytes", 1 + 2j), "set": {1, 2},
            "number": np.float32(1.5), "device": jnp.arange(3.0), "key": jax.random.key(5), "empty": np.zeros((0, 3)),
            "names": np.array(["a", "bc"]), "nested": [tp.Ladder([1, 0.5]), {"deep": [np.int8(3)]}],
        }  # fmt: skip
        back = decode(encoding.encode(value))
    assert back["order"].strides == order.strides
    np.testing.assert_array_equal(back["order"], order, strict=True)
    assert back[3] == value[3]
    assert np.signbit(back[3][3])
    assert (back["number"], back["number"].dtype) == (1.5, np.float32)
    assert back["device"].dtype == np.float64
    assert jax.random.uniform(back["key"]) == jax.random.uniform(value["key"])
    assert back["empty"].shape == (0, 3)
    assert repr(back["nested"]) == repr(value["nested"])
    assert not back["nested"][0].inverse_temperatures.flags.writeable
    for kind in encoding.BIT_GENERATORS:
        stream = np.random.Generator(getattr(np.random, kind)(1))
        again = decode(encoding.encode(stream))
        np.testing.assert_array_equal(again.random(5), stream.random(5))
