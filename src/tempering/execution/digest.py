"""Digests that are the same in another process: of functions with all they refer to, of arrays, of plain values.

A function of the user's is known by its byte code, its constants, and what it closes over or names, all the way
down; a module of the user's by its source. Anything that comes from an installed package is known by its name: versions
are compared elsewhere. Lists, dicts and sets that functions or objects refer to may be data, or counters and caches
which change as a run goes on: `contents` tells of each of them by itself.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def digest(*values: Any) -> str:
    """Return a short digest of values.

    Examples
    --------
    >>> digest(lambda x: x + 1) == digest(lambda x: x + 1), digest(lambda x: x + 1) == digest(lambda x: x + 2)
    (True, False)
    """
    walker = _Walker()
    walker.add(values)
    return walker.hash.hexdigest()[:16]


def contents(*values: Any) -> dict[str, str]:
    """Return digests of the lists, sets and entries of dicts that functions and objects refer to, by place."""
    walker = _Walker()
    walker.add(values)
    return walker.contents


class _Walker:
    """Feeds a hash with what a value is made of; a value seen before counts by its turn."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.contents: dict[str, str] = {}  # of what may change, by place
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no number of _seen is given away again
        self._n_above = 0  # functions and objects that the present value is part of
        self._place: list[str] = []
        self._opened: set[int] = set()

    def add(self, value: Any) -> None:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
            self._feed(type(value).__name__, repr(value))
        elif isinstance(value, np.ndarray):
            self._feed("array", value.dtype.str, value.shape)
            self.hash.update(np.ascontiguousarray(value).tobytes() if value.dtype != object else b"objects")
        elif id(value) in self._seen:
            self._feed("seen", self._seen[id(value)])
        else:
            self._seen[id(value)] = len(self._seen)
            self._alive.append(value)
            self._add_compound(value)

    def _add_compound(self, value: Any) -> None:
        if self._n_above and isinstance(value, list | dict | set):
            self._feed("may change")
            self._add_contents(value)
        elif isinstance(value, Mapping):
            self._feed("mapping", len(value))
            self._add_all(part for item in value.items() for part in item)
        elif isinstance(value, Set):
            self._feed("set", sorted(digest(part) for part in value))
        elif isinstance(value, list | tuple):
            self._feed(type(value).__name__, len(value))
            self._add_all(value)
        elif isinstance(value, types.CodeType):
            self._feed(value.co_code, value.co_names, value.co_varnames[: value.co_argcount], value.co_freevars)
            self._add_all(value.co_consts)
        elif isinstance(value, functools.partial):
            self._feed("partial")
            self._add_all((value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self._feed("method")
            self._add_all((value.__func__, value.__self__))
        else:
            self._n_above += 1
            if isinstance(value, types.FunctionType):
                self._add_function(value)
            elif isinstance(value, type):
                self._add_class(value)
            else:
                self._add_object(value)
            self._n_above -= 1

    def _add_contents(self, value: Any) -> None:
        """Tell of each entry of a dict, or of a whole list or set, apart from the rest."""
        if id(value) in self._opened:
            return
        self._opened.add(id(value))
        if isinstance(value, dict):
            for key, part in value.items():
                with self._at(f"[{key!r}]"):
                    self._add_content(value, part)
        else:
            self._add_content(value, tuple(value) if isinstance(value, list) else frozenset(value))

    def _add_content(self, holder: Any, part: Any) -> None:
        inner = _Walker()
        inner._place, inner._opened = self._place, self._opened
        inner._seen, inner._alive = {id(holder): 0}, [holder]  # a value may hold itself
        inner.add(part)
        self.contents |= inner.contents
        first = max((i for i, place in enumerate(self._place) if not place.startswith("[")), default=0)
        name = "".join(self._place[first:])
        while name in self.contents:
            name += "'"
        self.contents[name] = inner.hash.hexdigest()[:16]

    @contextmanager
    def _at(self, place: str) -> Iterator[None]:
        self._place.append(place)
        yield
        self._place.pop()

    def _add_named(self, names: Any, scope: Mapping[str, Any], before: str = "") -> None:
        for name in names:
            with self._at(f"{before}{name}"):
                self.add(scope[name])

    def _add_all(self, values: Any) -> None:
        for value in values:
            self.add(value)

    def _add_function(self, function: types.FunctionType) -> None:
        if _is_installed(function.__module__) and "<" not in function.__qualname__:
            return self._feed("installed", function.__module__, function.__qualname__)
        self._feed("function")
        if _is_installed(function.__module__):  # made within a package's function: what it closes over may be anything
            self._feed(function.__module__, function.__qualname__)
            self.add(function.__code__)
        else:
            self.add(function.__code__)
            scope = function.__globals__
            self._add_named(_names(function.__code__, scope), scope, f"{function.__name__}: ")
        self._add_all((function.__defaults__, function.__kwdefaults__))
        cells = dict(zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=False))
        self._add_named(cells, cells, f"{function.__name__}: ")
        return None

    def _add_class(self, kind: type) -> None:
        self._feed("class", kind.__module__, kind.__qualname__)
        if not _is_installed(kind.__module__):
            members = [item for item in vars(kind).items() if _is_told_of(*item)]
            self._add_all(part for item in members for part in item)

    def _add_object(self, value: Any) -> None:
        """Follow what is the user's, and the frozen values of this package; know the rest by its type."""
        wrapped = getattr(value, "py_func", getattr(value, "__wrapped__", None))  # Numba's and JAX's compiled functions
        if isinstance(wrapped, types.FunctionType):
            self._feed("compiled")
            return self.add(wrapped)
        if _is_array(value):
            self._feed("device array")
            return self.add(_as_numpy(value))
        kind = type(value)
        self._feed("object", kind.__module__, kind.__qualname__)
        if isinstance(value, types.ModuleType):
            return self._add_module(value)
        if isinstance(value, types.BuiltinFunctionType | np.ufunc):
            return self._feed(getattr(value, "__name__", ""))
        if is_dataclass(value):
            found = {f.name: getattr(value, f.name, None) for f in fields(value) if f.compare}
            return self._add_named(found, found, f"{kind.__name__}.")
        if not _is_installed(kind.__module__) or kind.__module__.startswith("tempering."):
            self.add(kind)
            found = {name: part for name, part in getattr(value, "__dict__", {}).items() if _is_told_of(name, part)}
            self._feed(sorted(map(str, found)))
            return self._add_named(sorted(found, key=str), found, f"{kind.__name__}.")
        if hasattr(value, "__array__"):  # a table of pandas, say
            self._add_table(value)
        return None

    def _add_module(self, module: types.ModuleType) -> None:
        """Know a module of the user's by its source, and by those of the modules that it uses."""
        self._feed(module.__name__)
        file = getattr(module, "__file__", None)
        if _is_installed(module.__name__) or file is None:
            return
        try:
            self._feed(hashlib.sha256(Path(file).read_bytes()).hexdigest())
        except OSError:
            self._feed("no source")
        used = [part for part in vars(module).values() if isinstance(part, types.ModuleType)]
        self._add_all(sorted(used, key=lambda part: part.__name__))

    def _add_table(self, value: Any) -> None:
        try:
            array = np.asarray(value)
        except Exception:  # whatever the object thinks of being an array
            return
        self.add(array if array.dtype != object else tuple(array.ravel().tolist()))

    def _feed(self, *parts: Any) -> None:
        self.hash.update(repr(parts).encode())


def _names(code: types.CodeType, scope: Mapping[str, Any]) -> list[str]:
    """Return the globals that a function and the functions within it name."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    found = {name for name in code.co_names if name in scope} | {n for part in inner for n in _names(part, scope)}
    return sorted(found)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _is_told_of(name: str, value: Any) -> bool:
    """Leave out what Python itself or a cache puts into a class or an object."""
    if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"):
        return False
    return not type(value).__name__.endswith(("lru_cache_wrapper", "member_descriptor"))


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether a module comes with Python, an installed package or this one."""
    top = (module or "").split(".")[0]
    if top in ("tempering", "builtins") or top in sys.stdlib_module_names:
        return True
    path = getattr(sys.modules.get(module or ""), "__file__", None)
    return path is not None and path.startswith(_LIBRARIES)


def _is_array(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _as_numpy(value: Any) -> Any:
    import jax

    if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(value))
    return np.asarray(value)
