"""How compiled code sees a state of many arrays: by one pointer to the table of them.

As a plain tuple its addresses, shapes and strides, some ten numbers for each array, would be arguments of every
compiled function, to be compiled with each, and pushed at each call. Python's side is a named tuple; the table lives
as long as the call from there. A loop over many states is given their tables, one row of an array each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, box, intrinsic, models, register_model, typeof_impl, unbox
from numpy.typing import NDArray

_WORD, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_OF_NUMBA = 5  # words of an array before its shape and strides: whose it is, twice; numbers, bytes of each, address
# where NumPy has the address, dimensions, shape and strides of an array: its oldest promise to compiled code
_ADDRESS, _DIMENSIONS, _SHAPE, _STRIDES = (object.__basicsize__ + 8 * i for i in range(4))


class StateType(types.Type):  # type: ignore[misc]
    """The type of a named tuple of contiguous arrays of int64 and float64 in compiled code.

    Its name carries a digest of the fields: an engine's loop is kept on disk by the types it was compiled for, and has
    what opens a state inside.

    Parameters
    ----------
    kind : type
        The named tuple.
    fields : dict
        The type of each array.
    source : str
        What a state is to be taken from, for the message to whoever passes another.
    """

    def __init__(self, kind: Any, fields: dict[str, types.Array], source: str) -> None:
        self.kind, self.fields, self.source = kind, fields, source
        ends = 8 * np.cumsum([_OF_NUMBA + 2 * array.ndim for array in fields.values()])
        self.begins = {name: int(end) for name, end in zip(fields, [0, *ends], strict=False)}
        """Where each array begins in the table, in bytes."""
        self.length = int(ends[-1]) // 8 + 1
        """Words of the table: those of the arrays, and the address of the named tuple."""
        super().__init__(name=f"{kind.__module__}.{kind.__name__}_{crc32(str(fields).encode()):08x}")

    def register(self) -> StateType:
        """Tell Numba that this is the type of the named tuple, and return it."""
        typeof_impl.register(self.kind)(self._checked)
        return self

    def _checked(self, state: Any, context: Any = None) -> StateType:
        for (name, kind), array in zip(self.fields.items(), state, strict=True):
            fits = array.ndim == kind.ndim and array.dtype == np.dtype(str(kind.dtype)) and array.flags.c_contiguous
            if not fits:
                raise TypeError(
                    f"The array {name} of a state must be a contiguous {kind.ndim}-d array of {kind.dtype}, but is a "
                    f"{array.ndim}-d array of {array.dtype}. Take states from {self.source}."
                )
        return self

    def tables_of(self, states: Sequence[Any]) -> NDArray[np.int64]:
        """Return the tables of states, one row each: good for as long as the states live."""
        return np.array([self._table(state) for state in states], np.int64)

    def _table(self, state: Any) -> list[int]:
        self._checked(state)
        words: list[int] = []
        for array in state:
            words += [0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]
        return [*words, id(state)]

    def of_row(self) -> Any:
        """Return a function of tables and a row, for compiled code, that returns the state of that row."""
        kind = self

        @intrinsic
        def state_of_row(typing_context, tables, row):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                found = context.make_array(signature.args[0])(context, builder, arguments[0])
                first = builder.mul(arguments[1], _WORD(kind.length))
                return builder.bitcast(builder.gep(found.data, [first]), cgutils.voidptr_t)

            return kind(types.int64[:, ::1], types.int64), generate

        return state_of_row


register_model(StateType)(models.OpaqueModel)


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = StateType

    def generic_resolve(self, kind: StateType, name: str) -> Any:
        return kind.fields.get(name)


@lower_getattr_generic(StateType)  # type: ignore[untyped-decorator]
def _attribute(context: Any, builder: Any, kind: Any, pointer: Any, name: str) -> Any:
    array = context.get_data_type(kind.fields[name])
    place = cgutils.gep_inbounds(builder, pointer, kind.begins[name])
    value = builder.load(builder.bitcast(place, array.as_pointer()))
    return impl_ret_borrowed(context, builder, kind.fields[name], value)


def _number(builder: Any, array: Any, offset: int, kind: Any = _WORD) -> Any:
    return builder.load(builder.bitcast(cgutils.gep_inbounds(builder, array, offset), kind.as_pointer()))


@unbox(StateType)  # type: ignore[untyped-decorator]
def _unbox(kind: Any, state: Any, c: Any) -> NativeValue:
    """Fill the table from NumPy's own words, in a loop; Numba's way takes a microsecond for ten arrays.

    The arrays are what they should be: Numba looks at the types of all that a tuple holds at every call.
    """
    b = c.builder
    table = cgutils.alloca_once(b, _WORD, size=_WORD(kind.length))
    at = cgutils.alloca_once_value(b, table)
    item_of = cgutils.get_or_insert_function(
        b.module, ir.FunctionType(_BYTES, [_BYTES, c.pyapi.py_ssize_t]), "PyTuple_GetItem"
    )

    def write(word: Any) -> None:
        place = b.load(at)
        b.store(word, place)
        b.store(b.gep(place, [_WORD(1)]), at)

    with cgutils.for_range(b, _WORD(len(kind.fields))) as field:
        array = b.call(item_of, [state, field.index])
        n_dimensions = b.sext(_number(b, array, _DIMENSIONS, ir.IntType(32)), _WORD)
        size = cgutils.alloca_once_value(b, _WORD(1))
        shape = _number(b, array, _SHAPE, _WORD.as_pointer())
        with cgutils.for_range(b, n_dimensions) as axis:
            b.store(b.mul(b.load(size), b.load(b.gep(shape, [axis.index]))), size)
        for word in (_WORD(0), _WORD(0), b.load(size), _WORD(8), _number(b, array, _ADDRESS)):
            write(word)
        for lengths in (shape, _number(b, array, _STRIDES, _WORD.as_pointer())):
            with cgutils.for_range(b, n_dimensions) as axis:
                write(b.load(b.gep(lengths, [axis.index])))
    write(b.ptrtoint(state, _WORD))
    return NativeValue(b.bitcast(table, cgutils.voidptr_t))


@box(StateType)  # type: ignore[untyped-decorator]
def _box(kind: Any, pointer: Any, c: Any) -> Any:
    state = _number(c.builder, pointer, 8 * (kind.length - 1), _BYTES)
    c.pyapi.incref(state)
    return state
