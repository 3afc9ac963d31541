"""Give JAX an executable from disk in place of compiling, for one program at a time.

JAX traces and lowers a function as ever; only the call of XLA's compiler is answered from disk if the same program
was compiled before by the same versions, for the same machine, with the same options. Nothing of JAX's
configuration is changed, and a persistent cache that the user has set up has precedence.

This relies on attributes of JAX that are not public. If one is missing, or anything else fails, nothing is prepared
and the function is compiled as usual: the price of a failure is the time to compile.
"""

from __future__ import annotations

import copy
import hashlib
import os
import platform
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from tempering.compiling.executables import Executables

_FORMAT = "1"


@dataclass
class Counts:
    """How many programs this process has compiled and loaded, and the seconds of each."""

    compiled: int = 0
    loaded: int = 0
    seconds_compiling: float = 0.0
    seconds_loading: float = 0.0


counts = Counts()


def prepare(program: Any, arguments: tuple[Any, ...], static: tuple[int, ...], seen: set[int]) -> None:
    """Have ``program``, made by `jax.jit`, find its executable on disk if these arguments are of new shapes.

    ``seen`` has a number for each kind of arguments known already. Two kinds of one number would mean that the
    second is compiled as usual. ``static`` says which arguments are part of the program.
    """
    try:
        kind = _kind(arguments, static)
        if kind in seen:
            return
        seen.add(kind)
        if (kept := Executables.of_user()) is None:
            return
        lowering: Any = program.lower(*arguments)._lowering
        if lowering._executable is None and _can_be_kept(lowering):
            mine = copy.copy(lowering)  # other threads may compile the same lowering
            mine.compile_args = {
                **lowering.compile_args,
                "backend": _Backend(lowering.compile_args["backend"], kept),
            }
            lowering._executable = mine.compile()
    except Exception:  # keeping programs is never a reason to fail: the call that follows compiles as usual
        return


def is_traced(arguments: tuple[Any, ...]) -> bool:
    """Whether a function is being called within another that JAX is tracing."""
    import jax

    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))


def _kind(arguments: tuple[Any, ...], static: tuple[int, ...]) -> int:
    """Return a number of what a compiled program depends on: shapes, types, devices, and the static arguments."""
    import jax

    leaves, tree = jax.tree.flatten([argument for i, argument in enumerate(arguments) if i not in static])
    values = tuple(arguments[i] for i in static)
    where = jax.config.jax_enable_x64, jax.config.jax_default_device  # type: ignore[attr-defined]
    return hash((tree, values, where, *map(_kind_of_leaf, leaves)))


def _kind_of_leaf(leaf: Any) -> Any:
    if hasattr(leaf, "shape"):
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False), getattr(leaf, "sharding", None)
    return type(leaf)


def _can_be_kept(lowering: Any) -> bool:
    """Whether a program is nothing but its text: no calls back to Python, no other hosts."""
    import jax

    wanted = lowering.compile_args
    calls_back = wanted["host_callbacks"] or wanted["keepalive"] or wanted["ordered_effects"]
    return not (calls_back or wanted["unordered_effects"] or lowering.const_args) and jax.process_count() == 1


class _Backend:
    """A backend of JAX, but for the one call that compiles."""

    def __init__(self, backend: Any, kept: Executables) -> None:
        self._backend = backend
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def compile_and_load(self, module: Any, executable_devices: Any, compile_options: Any) -> Any:
        key = _key(module, executable_devices, compile_options, self._backend)
        return self._loaded(key, executable_devices) or self._compiled(key, module, executable_devices, compile_options)

    def _loaded(self, key: str, devices: Any) -> Any:
        start = time.perf_counter()
        content = self._kept.get(key)
        if content is None:
            return None
        try:
            executable = self._backend.deserialize_executable(content, executable_devices=devices)
        except Exception:  # of whatever kind: the entry is of no use
            self._kept.remove(key)
            return None
        counts.loaded += 1
        counts.seconds_loading += time.perf_counter() - start
        return executable

    def _compiled(self, key: str, module: Any, devices: Any, options: Any) -> Any:
        start = time.perf_counter()
        executable = self._backend.compile_and_load(module, executable_devices=devices, compile_options=options)
        counts.compiled += 1
        counts.seconds_compiling += time.perf_counter() - start
        try:
            self._kept.put(key, executable.serialize())
        except Exception:  # a full disk, a folder that went away, a backend that cannot serialise
            return executable
        return executable


def _key(module: Any, devices: Any, options: Any, backend: Any) -> str:
    """Return a digest of all that an executable depends on."""
    digest = hashlib.sha256()
    kinds = [(device.platform, device.device_kind, device.id) for device in devices]
    for part in (*_surroundings(), backend.platform, backend.platform_version, repr(kinds)):
        digest.update(part.encode() + b"\0")
    digest.update(options.SerializeAsString() + b"\0")
    digest.update(module.operation.get_asm(enable_debug_info=False).encode())
    return digest.hexdigest()


@cache
def _surroundings() -> tuple[str, ...]:
    """Return versions, flags of the compiler, and the processor with all it can do."""
    import jax
    from jaxlib.version import __version__ as of_jaxlib

    flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    versions = [_FORMAT, jax.__version__, of_jaxlib, platform.python_implementation()]
    machine = [platform.system(), platform.machine(), platform.processor(), _processor(), str(_n_processors())]
    return (*versions, *flags, *machine)


def _n_processors() -> int:
    """Return on how many processors this process may run: XLA divides loops among them when it compiles."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """Return the processor's name and features, where the system tells them."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read().split("\n\n", 1)[0].splitlines()
    except OSError:
        return platform.version()
    told = ("model name", "flags", "Features", "CPU part", "isa")
    return "\n".join(line for line in lines if line.startswith(told))
