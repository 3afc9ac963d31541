"""Files from somebody else: reading them runs nothing that they bring, and writes nothing that they name."""

import json
import os
import pickle
import shutil

import cloudpickle
import numpy as np
import pytest
from damages import KINDS, files_of
from test_checkpoint import run, small_chunks, stop_with_draws  # noqa: F401

import tempering as tp
from tempering.errors import TemperingError
from tempering.io import encoding, records
from tempering.io.encoding import LENGTH, decode


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
    """Every way of unpickling is closed while a run is read, gone on with and reported."""
    path = tmp_path / ("run.npz" if name == "treed GP, saved" else "run")
    kind = KINDS[name]
    kind.make(path)

    def refuse(*_, **__):
        raise AssertionError("unpickled")

    for module in (pickle, cloudpickle):
        for function in ("load", "loads"):
            monkeypatch.setattr(module, function, refuse)
    for use in (kind.read, kind.call):
        if use is not None:
            use(path)


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
