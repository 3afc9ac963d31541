"""Densities that take many positions in one call: emulators, simulators, functions on another framework's GPU.

The chains of the vector engine move in lockstep; what JAX cannot trace it calls back, once for all chains. Extra
outputs (blobs) are kept by the position they belong to, and come back beside the values.
"""

from __future__ import annotations

import logging
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import TargetError

BYTES_KEPT = 2**28  # of blobs; what was thrown away is computed again when it is wanted
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Batched:
    """A function of many positions, as one of a position that JAX can trace and map over chains.

    Parameters
    ----------
    function : callable
        Gets positions with one leading axis (arrays, or dictionaries of arrays) and returns one number for each; with
        blobs a tuple, the numbers first.
    blobs : tuple of str
        Names of the extra outputs.
    prepare : callable, optional
        Turns free numbers with one leading axis into what the function gets.
    name : str
        How messages call it.
    """

    function: Callable[[Any], Any]
    blobs: tuple[str, ...] = ()
    prepare: Callable[[Any], Any] | None = None
    name: str = "log_density"
    _kept: _Kept = field(default_factory=lambda: _Kept())

    def __call__(self, position: Any) -> Any:
        """Return the log density at one position; under JAX's vmap, of all positions in one call."""
        import jax

        leaves, treedef = jax.tree_util.tree_flatten(position)
        shapes = tuple(np.shape(leaf) for leaf in leaves)

        def of_arrays(*arrays: Any) -> NDArray[np.float64]:
            whole = [in_double(a) for a in arrays]
            lead = whole[0].shape[: whole[0].ndim - len(shapes[0])]
            rows = [np.broadcast_to(a, (*lead, *s)).reshape(-1, *s) for a, s in zip(whole, shapes, strict=True)]
            return self._evaluate(rows, treedef, shapes)[0].reshape(lead)

        if not any(isinstance(leaf, jax.Array) for leaf in leaves):
            return float(of_arrays(*leaves))
        density = jax.custom_jvp(lambda *leaves: called_back(of_arrays, (), *leaves))
        density.defjvp(_no_gradient)
        return density(*leaves)

    def extras(self, positions: Any) -> dict[str, NDArray[Any]]:
        """Return the blobs of positions with leading axes (chain, draw), by name."""
        import jax

        leaves, treedef = jax.tree_util.tree_flatten(positions)
        lead = np.shape(leaves[0])[:2]
        shapes = tuple(np.shape(leaf)[2:] for leaf in leaves)
        n = lead[0] * lead[1]
        rows = [np.asarray(leaf, dtype=float).reshape(n, *s) for leaf, s in zip(leaves, shapes, strict=True)]
        if n == 0:
            empty = self._evaluate([np.ones((1, *s)) for s in shapes], treedef, shapes)[1]
            return {name: np.empty((*lead, *column.shape[1:]), column.dtype) for name, column in empty.items()}
        found = self._kept.of(_keys(rows), lambda new: self._evaluate([r[new] for r in rows], treedef, shapes)[1])
        return {name: np.stack(list(column)).reshape(*lead, *np.shape(column[0])) for name, column in found.items()}

    def _evaluate(self, rows: list[Any], treedef: Any, shapes: Shapes) -> tuple[NDArray[np.float64], Any]:
        import jax

        positions = jax.tree_util.tree_unflatten(treedef, rows)
        given = positions if self.prepare is None else self.prepare(positions)
        with np.errstate(all="ignore"):
            output = self.function(given)
        values, blobs = (output[0], output[1:]) if self.blobs else (output, ())
        found = self._checked(values, len(rows[0]))
        if len(blobs) != len(self.blobs):
            raise TargetError(
                f"{self.name} must return its value and {len(self.blobs)} blobs ({', '.join(self.blobs)}), but it "
                f"returned {len(blobs)} blobs. Return one output for each name in blobs=."
            )
        columns = {name: np.asarray(b) for name, b in zip(self.blobs, blobs, strict=True)}
        for name, column in columns.items():
            if column.shape[:1] != found.shape:
                raise TargetError(
                    f"The blob {name!r} must have one entry for each of {len(found)} positions, but it has shape "
                    f"{column.shape}. Its first axis must be that of the positions."
                )
        if columns:
            self._kept.add(_keys(rows), columns)
        return found, columns

    def _checked(self, values: Any, n: int) -> NDArray[np.float64]:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise TargetError(
                f"{self.name} must return real numbers, but it returned {array.dtype}. Take the real part."
            )
        if array.shape != (n,):
            raise TargetError(
                f"A batched {self.name} must return one number for each of {n} positions, shape ({n},), but it "
                f"returned shape {array.shape}. Sum over all axes but the first."
            )
        return np.asarray(array, dtype=float)


@dataclass(eq=False)
class _Kept:
    """Blobs by the bytes of the position they belong to, the latest ones."""

    rows: OrderedDict[bytes, tuple[Any, ...]] = field(default_factory=OrderedDict)
    names: tuple[str, ...] = ()
    lock: Any = field(default_factory=Lock)
    most: int = 1

    def __reduce__(self) -> Any:
        return (_Kept, ())  # a lock cannot be sent to another process, and the blobs of one are its own

    def add(self, keys: Sequence[bytes], columns: dict[str, NDArray[Any]]) -> None:
        size = sum(c[0].nbytes for c in columns.values()) + len(keys[0]) + 200
        with self.lock:
            self.names, self.most = tuple(columns), max(1000, BYTES_KEPT // size)
            for i, key in enumerate(keys):
                self.rows[key] = tuple(column[i] for column in columns.values())
            while len(self.rows) > self.most:
                self.rows.popitem(last=False)

    def of(self, keys: Sequence[bytes], compute: Callable[[NDArray[np.intp]], Any]) -> dict[str, list[Any]]:
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        new = np.array([i for key, i in first.items() if key not in self.rows], dtype=np.intp)
        found = {key: self.rows[key] for key in first if key in self.rows}
        for start in range(0, len(new), 4096):
            part = new[start : start + 4096]
            columns = compute(part)
            self.names = tuple(columns)
            found |= {keys[i]: tuple(c[j] for c in columns.values()) for j, i in enumerate(part)}
        return {name: [found[key][i] for key in keys] for i, name in enumerate(self.names)}


def _no_gradient(primals: Any, tangents: Any) -> Any:
    """Refuse to differentiate: by its bits a function would seem to be flat."""
    raise TypeError("A function that JAX calls back has no gradient.")


def called_back(function: Callable[..., Any], shape: tuple[int, ...], *leaves: Any) -> Any:
    """Call a NumPy function from JAX, with all that vmap adds in leading axes, in double precision both ways.

    Callbacks run outside of ``jax.enable_x64``, and JAX would round what passes to single precision there: numbers pass
    as their bits.
    """
    import jax
    import jax.numpy as jnp

    wide = [jnp.asarray(leaf, jnp.result_type(float)) for leaf in leaves]
    sent = [jax.lax.bitcast_convert_type(a, jnp.uint32) if a.dtype == jnp.float64 else a for a in wide]
    return called_back_with_bits(function, shape, *sent)


def called_back_with_bits(function: Callable[..., Any], shape: tuple[int, ...], *sent: Any) -> Any:
    """Call a NumPy function of whole numbers from JAX; what it returns comes back in double precision."""
    import jax
    import jax.numpy as jnp

    _quieten()

    def of_bits(*arrays: Any) -> Any:
        found = np.asarray(function(*arrays), dtype=float, order="C")
        return found.reshape(*found.shape, 1).view(np.uint32)

    bits = jax.pure_callback(
        of_bits, jax.eval_shape(lambda: jnp.zeros((*shape, 2), jnp.uint32)), *sent, vmap_method="broadcast_all"
    )
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        with jax.enable_x64(True):
            return jax.lax.bitcast_convert_type(bits, jnp.float64).astype(jnp.float32)
    return jax.lax.bitcast_convert_type(bits, jnp.float64)


@cache
def _quieten() -> None:
    """Keep JAX from logging errors of our callbacks: they are raised again, with the place, by whoever called."""
    logging.getLogger("jax._src.callback").addFilter(lambda record: not _is_ours(record.exc_info))


def _is_ours(raised: Any) -> bool:
    frames = traceback.walk_tb(raised[2]) if raised else ()
    return any(frame.f_code.co_filename == __file__ for frame, _ in frames)


def in_double(array: Any) -> NDArray[np.float64]:
    """Return numbers that JAX has handed over as their bits."""
    found = np.asarray(array)
    return found.view(np.float64)[..., 0] if found.dtype == np.uint32 else np.asarray(found, dtype=float)


def _keys(rows: list[NDArray[np.float64]]) -> list[bytes]:
    flat = np.concatenate([row.reshape(len(row), -1) for row in rows], axis=1)
    return [row.tobytes() for row in np.ascontiguousarray(flat)]


def one_by_one(function: Callable[[Any], Any], mapping: Callable[..., Any] = map) -> Callable[[Any], Any]:
    """Return a function of many positions that calls one of a position for each, by a pool's ``map`` if given."""

    def of_many(positions: Any) -> Any:
        import jax

        leaves, treedef = jax.tree_util.tree_flatten(positions)
        rows = [jax.tree_util.tree_unflatten(treedef, list(parts)) for parts in zip(*leaves, strict=True)]
        outputs = list(mapping(function, rows))
        if outputs and isinstance(outputs[0], tuple):
            return tuple(np.asarray(column) for column in zip(*outputs, strict=True))
        return np.asarray(outputs)

    return of_many


def draw_by_generator(sample: Callable[[np.random.Generator], Any]) -> Callable[[Any], Any]:
    """Return a prior's sampler that takes JAX keys, from one that takes NumPy generators."""
    import jax

    example = jax.tree_util.tree_map(lambda leaf: np.asarray(leaf, dtype=float), sample(np.random.default_rng(0)))

    def from_any(rng: Any) -> Any:
        if isinstance(rng, np.random.Generator):
            return sample(rng)

        def draw(bits: Any) -> Any:
            many = np.asarray(bits, dtype=np.uint32).reshape(-1, 4)
            flat = [
                np.concatenate([np.ravel(p) for p in jax.tree_util.tree_leaves(sample(np.random.default_rng(row)))])
                for row in many
            ]
            return np.asarray(flat, dtype=float).reshape(*np.shape(bits)[:-1], -1)

        leaves, treedef = jax.tree_util.tree_flatten(example)
        size = sum(leaf.size for leaf in leaves)
        flat = called_back_with_bits(draw, (size,), jax.random.bits(rng, (4,), np.uint32))
        starts = np.cumsum([0, *(leaf.size for leaf in leaves)])
        parts = [flat[i : i + leaf.size].reshape(leaf.shape) for i, leaf in zip(starts, leaves, strict=False)]
        return jax.tree_util.tree_unflatten(treedef, parts)

    return from_any
