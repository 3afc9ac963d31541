"""Turn states and recipes into bytes: a user's lambdas and classes too, and Numba's typed lists."""

from __future__ import annotations

import io
import sys
from typing import Any

import cloudpickle

from tempering.errors import SamplerError


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        typed = sys.modules.get("numba.typed")
        if typed is not None and isinstance(obj, typed.List):
            return _typed_list, (list(obj),)
        return super().reducer_override(obj)


def pack(value: Any, what: str = "A state") -> bytes:
    """Return the bytes of a value."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=5).dump(value)
    except Exception as error:  # objects may refuse in any way of their own
        raise SamplerError(
            f"{what} must be something that can be pickled, to be sent to workers or kept in a checkpoint, but: "
            f"{error}. Build files, locks and connections inside the functions that use them, or run without "
            "executor= (threads need no pickled target) and without checkpoint=."
        ) from error
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    """Return the value again; JAX arrays keep their precision."""
    import pickle

    import jax

    with jax.enable_x64(True):
        return pickle.loads(data)


def _typed_list(items: list[Any]) -> Any:
    from numba.typed import List

    return List(items)
