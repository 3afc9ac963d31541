"""Compiled programs are kept between processes, and keeping them never changes or breaks anything."""

import os
import subprocess
import sys
import threading
import zlib
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.compiling import keeping, programs
from tempering.compiling.executables import Executables, cache_folder
from tempering.compiling.programs import jitted

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TEMPERING_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept" / "executables"


@pytest.fixture
def counts(monkeypatch):
    fresh = keeping.Counts()
    monkeypatch.setattr(keeping, "counts", fresh)
    return fresh


def walk(scale=2.0):
    """Return a new function of the same text each time: JAX knows nothing of the last one."""

    def steps(key, x, path, n):
        def body(x, i):
            z = jax.random.normal(jax.random.fold_in(key, i), x.shape)
            return jnp.sin(x) + scale * z * path["width"], x

        return jax.lax.scan(body, x, jnp.arange(n))

    return jitted(steps, static_argnums=3)


ARGUMENTS = (jax.random.key(3), np.linspace(0, 1, 5), {"width": 0.5}, 7)


def entries(folder):
    return sorted(folder.glob("*.xla")) if folder.is_dir() else []


def test_a_program_compiled_before_is_loaded_and_gives_the_same_numbers(folder, counts):
    first = walk()(*ARGUMENTS)
    assert (counts.compiled, counts.loaded, len(entries(folder))) == (1, 0, 1)
    second = walk()(*ARGUMENTS)
    assert (counts.compiled, counts.loaded) == (1, 1)
    jax.tree.map(np.testing.assert_array_equal, first, second)
    other = walk(2.5)(*ARGUMENTS)  # the control: another number in the program is another program
    assert (counts.compiled, counts.loaded, len(entries(folder))) == (2, 1, 2)
    assert not np.array_equal(other[0], first[0])


def test_shapes_precision_and_static_arguments_are_programs_of_their_own(folder, counts, monkeypatch):
    key, x, path, _ = ARGUMENTS
    program = walk()
    program(key, x, path, 7)
    program(key, x + 1, {"width": 0.7}, 7)
    assert counts.compiled == 1
    with monkeypatch.context() as patch:  # arguments of a kind known already are not looked at again
        patch.setattr(Executables, "of_user", lambda: pytest.fail("looked for"))
        program(key, x - 1, {"width": 0.9}, 7)
    program(key, x, path, 8)
    program(key, np.zeros(6), path, 7)
    with jax.enable_x64(True):
        assert program(key, x, path, 7)[0].dtype == np.float64
    assert (counts.compiled, counts.loaded) == (4, 0)


@pytest.mark.slow
def test_another_process_loads_what_this_one_compiled(folder):
    def run():
        script = str(HERE / "compiling_script.py")
        return subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout.splitlines()

    (first, first_draws), (second, second_draws) = run(), run()
    assert first == "compiled 2 loaded 0"
    assert second == "compiled 0 loaded 2"
    assert first_draws == second_draws


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "garbled", "not an executable"])
def test_a_damaged_entry_is_replaced(folder, counts, damage):
    right = walk()(*ARGUMENTS)
    (entry,) = entries(folder)
    content = entry.read_bytes()
    if damage == "not an executable":  # with a checksum that is right
        Executables(folder).put(entry.stem, b"nonsense")
    else:
        entry.write_bytes(content[: len(content) // 2] if damage == "cut" else content[:-9] + b"123456789")
    again = walk()(*ARGUMENTS)
    jax.tree.map(np.testing.assert_array_equal, right, again)
    assert (counts.compiled, counts.loaded) == (2, 0)
    walk()(*ARGUMENTS)
    assert counts.loaded == 1


def test_nothing_is_kept_if_it_is_switched_off(folder, counts, monkeypatch):
    monkeypatch.setenv("TEMPERING_CACHE", "off")
    right = walk()(*ARGUMENTS)
    assert (counts.compiled, entries(folder)) == (0, [])  # JAX compiled it, as ever
    assert np.isfinite(right[0]).all()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_a_folder_that_others_can_write_to_is_not_used(folder, counts):
    folder.parent.mkdir()
    assert cache_folder() == folder.parent
    folder.parent.chmod(0o777)
    assert cache_folder() is None
    walk()(*ARGUMENTS)
    assert (counts.compiled, entries(folder)) == (0, [])


def test_the_folder_is_that_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("TEMPERING_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "tempering"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the standard says is to be ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "tempering"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "tempering"


@pytest.mark.slow
def test_whatever_fails_the_function_is_compiled_as_usual(folder, counts, monkeypatch):
    right = walk()(*ARGUMENTS)

    def broken(*_, **__):
        raise RuntimeError("JAX has changed")

    for name in ("_key", "_can_be_kept", "_kind"):
        with monkeypatch.context() as patch:
            patch.setattr(keeping, name, broken)
            jax.tree.map(np.testing.assert_array_equal, right, walk()(*ARGUMENTS))
    with monkeypatch.context() as patch:
        patch.setattr(Executables, "put", broken)
        jax.tree.map(np.testing.assert_array_equal, walk(3.0)(*ARGUMENTS), walk(3.0)(*ARGUMENTS))


def test_errors_of_the_function_are_the_callers(folder):
    with pytest.raises(ZeroDivisionError):
        jitted(lambda x: x / (1 // 0))(1.0)


def test_a_program_that_calls_python_is_not_kept(folder, counts):
    seen = []

    def calls_back(x):
        def host(x):
            seen.append(1)
            return np.asarray(x) + 1

        return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    for _ in range(2):
        np.testing.assert_array_equal(jitted(calls_back)(np.ones(3, np.float32)), 2.0)
    assert (len(seen), counts.compiled, entries(folder)) == (2, 0, [])


def test_a_program_can_be_part_of_another(folder):
    inner = jitted(lambda x: 2 * x)
    outer = jitted(lambda x: jax.vmap(inner)(x).sum() + jax.grad(inner)(1.0))
    assert outer(np.ones(3, np.float32)) == 8.0


def test_what_runs_briefly_is_compiled_with_options_that_this_version_has(folder, monkeypatch):
    brief = jitted(lambda x: jnp.cumsum(jnp.sin(x)), is_brief=True)
    x = np.linspace(0, 1, 50)
    with jax.enable_x64(True):
        np.testing.assert_allclose(brief(x), np.cumsum(np.sin(x)), rtol=1e-12)
    assert programs._are_known(("xla_backend_optimization_level", 0))
    assert programs._options("cpu", 1, is_brief=False, is_light=True) == {
        "xla_backend_optimization_level": 1,
        "xla_cpu_use_fusion_emitters": False,
    }
    assert programs._options("cpu", 1, is_brief=False, is_light=False) == {"xla_backend_optimization_level": 1}
    assert programs._options("gpu", 1, is_brief=True, is_light=True) == {"xla_backend_optimization_level": 1}
    assert programs._options("tpu", 1, is_brief=True, is_light=True) is None
    assert not programs._are_known(("xla_backend_optimization_level", 0), ("xla_no_such_option", True))


def test_an_entry_of_other_bytes_is_not_read(tmp_path):
    """They decompress as well as the right ones: only the checksum tells."""
    kept, other = Executables(tmp_path), Executables(tmp_path / "other")
    kept.put("a", b"machine code")
    other.put("a", b"other machine code")
    (right,), (wrong,) = ([path for path, _, _ in one.files()] for one in (kept, other))
    start = len(wrong.read_bytes()) - len(zlib.compress(b"other machine code", level=1))
    right.write_bytes(right.read_bytes()[:start] + wrong.read_bytes()[start:])
    assert kept.get("a") is None
    assert other.get("a") == b"other machine code"


def test_the_least_recently_used_go_first(tmp_path):
    kept = Executables(tmp_path, most_bytes=5000)
    rng = np.random.default_rng(0)
    content = [rng.bytes(1000) for _ in range(6)]
    for i in range(4):
        kept.put(str(i), content[i])
        os.utime(tmp_path / f"{i}.xla", (i, i))
    assert kept.get("0") == content[0]  # used now
    kept.put("4", content[4])
    assert [name for name in "01234" if kept.get(name) is None] == ["1", "2"]
    assert sum(size for _, size, _ in kept.files()) <= 5000
    assert kept.clear() == 3
    assert list(kept.files()) == []


def test_writers_and_readers_at_once_see_whole_entries(tmp_path):
    kept = Executables(tmp_path, most_bytes=40_000)
    content = {str(i): bytes([i]) * 10 + np.random.default_rng(i).bytes(5000) for i in range(12)}
    wrong = []

    def work(order):
        for name in order:
            kept.put(name, content[name])
            for other in content:
                if (found := kept.get(other)) is not None and found != content[other]:
                    wrong.append(other)

    names = list(content)
    threads = [threading.Thread(target=partial(work, names[i:] + names[:i])) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(size for _, size, _ in kept.files()) <= 40_000
    assert not list(tmp_path.glob("*.tmp"))


def test_the_users_configuration_of_jax_is_not_touched(folder):
    before = dict(jax.config.values)
    walk()(*ARGUMENTS)
    assert dict(jax.config.values) == before
