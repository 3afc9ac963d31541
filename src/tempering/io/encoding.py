"""Values as bytes that are data and nothing else: arrays and JSON. Reading them back runs no code that they name.

What can be encoded: numbers, strings, arrays of NumPy and JAX, JAX's keys, NumPy's generators, tuples, lists, dicts,
sets, and NamedTuples and dataclasses of these. Classes are written by name, and found again among those of this package
and those that the caller passes: those around the model that a user has given.
"""

from __future__ import annotations

import importlib
import json
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tempering.errors import SamplerError

LENGTH = struct.Struct("<Q")
ALIGNED_TO = 16  # bytes
OWN_PARTS = (
    "target", "path", "kernels", "rungs", "engines", "recorders", "learning", "estimators", "populations", "runs",
    "execution", "models", "problems",
)  # fmt: skip
BIT_GENERATORS = ("SFC64", "PCG64", "PCG64DXSM", "Philox", "MT19937")
NUMBERS = re.compile(r"[<>|=][biufcSU][1-9]\d{0,8}")

Classes = Mapping[str, type]


def encode(value: Any, classes: Classes | None = None) -> bytes:
    """Return the bytes of a value; ``classes`` are a user's own that will be there when it is read."""
    encoder = _Encoder(classes or {})
    tree = json.dumps(encoder.encoded(value)).encode()
    start = tree + b" " * (-(LENGTH.size + len(tree)) % ALIGNED_TO)
    return b"".join([LENGTH.pack(len(start)), start, *encoder.buffers])


def decode(data: bytes, classes: Classes | None = None) -> Any:
    """Return the value again; raise ValueError where the bytes are none of `encode`'s."""
    try:
        (length,) = LENGTH.unpack_from(data)
        tree = json.loads(data[LENGTH.size : LENGTH.size + length])
        return _Decoder(memoryview(data)[LENGTH.size + length :], classes or {}).decoded(tree)
    except Exception as error:  # bytes from elsewhere may be wrong in any way
        raise ValueError(f"what it holds cannot be decoded ({type(error).__name__}: {error})") from error


def classes_around(*examples: Any) -> dict[str, type]:
    """Return the NamedTuples and dataclasses in values, and those defined beside their classes.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Pair(NamedTuple):
    ...     left: float
    >>> [kind.__name__ for kind in classes_around([Pair(1.0)]).values()]
    ['Pair']
    """
    found: dict[str, type] = {}
    for example in examples:
        _collect(example, found)
    homes = {kind.__module__ for kind in found.values()} | {type(example).__module__ for example in examples}
    for home in homes & set(sys.modules) - {"builtins", "numpy"}:
        for kind in list(vars(sys.modules[home]).values()):
            if isinstance(kind, type) and kind.__module__ == home and _is_record(kind):
                found.setdefault(_name(kind), kind)
    return found


def _collect(value: Any, found: dict[str, type]) -> None:
    if _is_record(type(value)):
        found[_name(type(value))] = type(value)
        for part in _parts(value).values():
            _collect(part, found)
    elif isinstance(value, dict):
        for part in value.values():
            _collect(part, found)
    elif isinstance(value, list | tuple):
        for part in value:
            _collect(part, found)


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or _is_named_tuple(kind)


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _parts(value: Any) -> dict[str, Any]:
    """Return the fields of a NamedTuple or a dataclass, or all attributes of an object."""
    if _is_named_tuple(type(value)):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value) if hasattr(value, f.name)}
    return dict(vars(value))


class _Encoder:
    """Turns values into a tree for JSON, in which arrays stand by where they lie in the buffers."""

    def __init__(self, classes: Classes) -> None:
        self.buffers: list[bytes] = []
        self._classes = classes
        self._offset = 0

    def encoded(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if isinstance(value, np.ndarray) and kind is np.ndarray:
            return ["array", *self._array(value)]
        if isinstance(value, np.generic):
            return ["number", *self._array(np.asarray(value))]
        if kind in (tuple, list, set, frozenset):
            return [kind.__name__, *map(self.encoded, value)]
        if kind is dict:
            return ["dict", *([self.encoded(key), self.encoded(part)] for key, part in value.items())]
        if kind is bytes:
            return ["bytes", *self._array(np.frombuffer(value, np.uint8))]
        if kind is complex:
            return ["complex", value.real, value.imag]
        if isinstance(value, np.random.Generator):
            return ["generator", self.encoded(value.bit_generator.state)]
        return self._encoded_jax(value) or self._encoded_typed_list(value) or self._encoded_record(value)

    def _encoded_jax(self, value: Any) -> Any:
        jax = sys.modules.get("jax")
        if jax is None or not isinstance(value, jax.Array):
            return None
        if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
            return ["key", str(jax.random.key_impl(value)), *self._array(np.asarray(jax.random.key_data(value)))]
        return ["device", *self._array(np.asarray(value))]

    def _encoded_typed_list(self, value: Any) -> Any:
        typed = sys.modules.get("numba.typed")
        if typed is None or not isinstance(value, typed.List):
            return None
        return ["typed list", *map(self.encoded, value)]

    def _encoded_record(self, value: Any) -> Any:
        kind = type(value)
        name = _name(kind)
        if not (_is_own(name) or (name in self._classes and self._classes[name] is kind)):
            raise SamplerError(
                f"A checkpoint keeps numbers, strings, arrays, tuples, lists, dicts, and NamedTuples and dataclasses "
                f"that are defined beside the model, but a state holds an object of type {name.replace(':', '.')}. "
                "Make its class a dataclass or a NamedTuple in the model's module, or run without checkpoint=."
            )
        return ["record", name, {field: self.encoded(part) for field, part in _parts(value).items()}]

    def _array(self, array: np.ndarray[Any, Any]) -> list[Any]:
        """Return where an array lies, its type, its shape, the order of its axes, and whether it may be written to."""
        if not NUMBERS.fullmatch(array.dtype.str):
            raise SamplerError(
                f"A checkpoint keeps arrays of numbers or strings, but an array has type {array.dtype}. Record numbers."
            )
        order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        data = np.ascontiguousarray(array.transpose(order)).tobytes()  # axes as they lie: sums round by their order
        start = self._offset
        padding = -len(data) % ALIGNED_TO
        self.buffers += [data, bytes(padding)]
        self._offset += len(data) + padding
        return [start, array.dtype.str, [array.shape[axis] for axis in order], order, array.flags.writeable]


class _Decoder:
    """Turns trees and buffers into values."""

    def __init__(self, data: memoryview, classes: Classes) -> None:
        self._data, self._classes = data, classes
        self._left = len(data)  # bytes of arrays to come: each was written once

    def decoded(self, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        tag, *parts = tree
        match tag:
            case "array":
                return self._array(*parts)
            case "number":
                return self._array(*parts)[()]
            case "tuple":
                return tuple(map(self.decoded, parts))
            case "list":
                return [self.decoded(part) for part in parts]
            case "set" | "frozenset":
                return (set if tag == "set" else frozenset)(map(self.decoded, parts))
            case "dict":
                return {self.decoded(key): self.decoded(part) for key, part in parts}
            case "bytes":
                return self._array(*parts).tobytes()
            case "complex":
                return complex(*parts)
            case "generator":
                return self._generator(self.decoded(parts[0]))
            case "device" | "key":
                return self._on_device(tag, parts)
            case "typed list":
                from numba.typed import List

                return List([self.decoded(part) for part in parts])
            case "record":
                return self._record(parts[0], {name: self.decoded(part) for name, part in parts[1].items()})
        raise ValueError(f"unknown kind {tag!r}")

    def _array(self, start: int, kind: str, lengths: list[int], order: list[int], may_write: bool = True) -> Any:
        if (
            not NUMBERS.fullmatch(kind)
            or min([start, *lengths], default=0) < 0
            or sorted(order) != [*range(len(order))]
        ):
            raise ValueError("an array is described wrongly")
        dtype = np.dtype(kind)
        size = int(np.prod(lengths, dtype=object)) * dtype.itemsize
        self._left -= size
        if start + size > len(self._data) or self._left < 0:
            raise ValueError("arrays hold more than there is")
        flat = np.frombuffer(self._data[start : start + size], np.uint8).copy()
        lying = flat.view(dtype).reshape(lengths) if size else np.zeros(lengths, dtype)
        array = lying.transpose(np.argsort(order)) if order else lying
        array.setflags(write=bool(may_write))
        return array

    def _generator(self, state: dict[str, Any]) -> np.random.Generator:
        if state["bit_generator"] not in BIT_GENERATORS:
            raise ValueError("an unknown bit generator")
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.Generator(bits)

    def _on_device(self, tag: str, parts: list[Any]) -> Any:
        import jax

        with jax.enable_x64(True):
            if tag == "device":
                return jax.numpy.asarray(self._array(*parts))
            return jax.random.wrap_key_data(jax.numpy.asarray(self._array(*parts[1:])), impl=parts[0])

    def _record(self, name: str, found: dict[str, Any]) -> Any:
        """Build a value of a class without calling anything of the class: fields are set as they were."""
        kind = self._classes[name] if name in self._classes else _own_class(name)
        if _is_named_tuple(kind):
            defaults: dict[str, Any] = getattr(kind, "_field_defaults", {})
            return tuple.__new__(kind, [found[f] if f in found else defaults[f] for f in kind._fields])  # type: ignore[attr-defined]
        value: Any = object.__new__(kind)
        for field, part in found.items():
            if field.startswith("__"):
                raise ValueError(f"{field} is no field")
            object.__setattr__(value, field, part)
        return value


def _is_own(name: str) -> bool:
    module = name.split(":")[0].split(".")
    return len(module) > 1 and module[0] == "tempering" and module[1] in OWN_PARTS


def _own_class(name: str) -> type:
    """Return a class of this package by its name."""
    if not _is_own(name):
        raise ValueError(f"{name} is no class of this package, nor of the model that was given")
    module, path = name.split(":")
    kind: Any = importlib.import_module(module)
    for part in path.split("."):
        kind = vars(kind)[part]
    if not isinstance(kind, type) or kind.__module__ != module:
        raise ValueError(f"{name} is no class")
    return kind
