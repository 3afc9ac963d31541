"""How a position, any pytree of arrays, lies in one flat vector.

Kernels see flat vectors; users see their own arrays, dicts or nested containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import TargetError
from tempering.target.gradients import WithGradient, gradient_of


@dataclass(frozen=True)
class Layout:
    """Map between a position and its flat vector; hashable, so that compiled code can be kept by it."""

    treedef: Any  # of JAX; None where a position is one array, for which nobody need import it
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    keyword: bool = field(default=False)  # positions are dicts with string keys

    @classmethod
    def of(cls, position: Any) -> Layout:
        """Read the layout of an example position."""
        paths, treedef = _with_paths(position)
        if not paths:
            raise TargetError("A position must hold at least one number, but it is empty. Pass initial=...")
        keyword = isinstance(position, dict) and all(isinstance(name, str) for name in position)
        names = tuple(_name(path) for path, _ in paths)
        shapes = []
        for name, (_, leaf) in zip(names, paths, strict=True):
            array = np.asarray(leaf)
            if array.dtype.kind not in "fiu":
                raise TargetError(
                    f"A position must hold real numbers, but '{name}' has type {array.dtype}. For any other state "
                    "bring a model object with its own step (see 'reversible jump' in the documentation)."
                )
            shapes.append(array.shape)
        if not any(int(np.prod(shape)) for shape in shapes):
            raise TargetError("A position must hold at least one number, but its arrays are empty. Pass initial=...")
        return cls(treedef, tuple(shapes), names, keyword)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        return [int(np.prod(shape)) for shape in self.shapes]

    def flatten(self, position: Any) -> NDArray[np.float64]:
        """Return the flat vector of one position."""
        leaves, treedef = _flattened(position)
        found = tuple(np.shape(leaf) for leaf in leaves)
        if treedef != self.treedef or found != self.shapes:
            raise TargetError(
                f"Every position must have the same shape, but got {found} where {self.shapes} was expected. "
                "Give all starting points one shape."
            )
        return np.concatenate([np.asarray(leaf, dtype=np.float64).ravel() for leaf in leaves])

    def unflatten(self, flat: Any) -> Any:
        """Rebuild positions from vectors in the last axis; leading axes are kept. NumPy or JAX arrays."""
        lead = flat.shape[:-1]
        leaves, start = [], 0
        for shape, size in zip(self.shapes, self._sizes, strict=True):
            leaves.append(flat[..., start : start + size].reshape(lead + shape))
            start += size
        return self.built(leaves)

    def built(self, leaves: Iterable[Any]) -> Any:
        """Put something into the place of every array of a position."""
        if self.treedef is None:
            (leaf,) = leaves
            return leaf
        import jax

        return jax.tree_util.tree_unflatten(self.treedef, leaves)

    def flat(self, positions: Any) -> Any:
        """Return positions with leading axes as vectors in the last axis: the way back from `unflatten`."""
        if self.is_vector:
            return positions
        leaves = [
            leaf.reshape((*leaf.shape[: leaf.ndim - len(shape)], -1))
            for leaf, shape in zip(_flattened(positions)[0], self.shapes, strict=True)
        ]
        return leaves[0].__array_namespace__().concatenate(leaves, axis=-1)

    def named(self, flat: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, leading axes kept."""
        return self.by_name(self.unflatten(flat))

    def by_name(self, positions: Any) -> dict[str, Any]:
        """Return the arrays of positions by name."""
        return dict(zip(self.names, _flattened(positions)[0], strict=True))

    def on_flat(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Turn a function of a position into one of its flat vector."""
        if self.is_vector:
            return function

        def of_flat(flat: Any) -> Any:
            return function(self.unflatten(flat))

        with_gradient = gradient_of(function)
        if with_gradient is None:
            return of_flat

        def gradient_of_flat(flat: Any) -> tuple[Any, Any]:
            value, gradient = with_gradient(self.unflatten(flat))
            return value, self.flatten(gradient)

        return WithGradient(of_flat, gradient_of_flat)

    @property
    def is_vector(self) -> bool:
        """Whether a position is its own flat vector."""
        return self.treedef is None and len(self.shapes[0]) == 1


def _flattened(position: Any) -> tuple[list[Any], Any]:
    """Return the arrays of a position, and how it holds them: None where it is one array."""
    if isinstance(position, np.ndarray | np.generic | int | float) or hasattr(position, "__array_namespace__"):
        return [position], None
    import jax

    leaves, treedef = jax.tree_util.tree_flatten(position)
    return leaves, None if jax.tree_util.treedef_is_leaf(treedef) else treedef


def _with_paths(position: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the arrays of a position with where each is, too."""
    leaves, treedef = _flattened(position)
    if treedef is None:
        return [((), leaf) for leaf in leaves], None
    import jax

    return jax.tree_util.tree_flatten_with_path(position)[0], treedef


def _name(path: tuple[Any, ...]) -> str:
    """Name a leaf by where it sits; a position that is one array is called x."""
    parts = [str(getattr(entry, "key", getattr(entry, "name", getattr(entry, "idx", entry)))) for entry in path]
    return ".".join(parts) if parts else "x"
