"""How compiled code sees a state: by one pointer to the table of its arrays.

As a plain tuple its two hundred numbers (addresses, shapes and strides) would be arguments of every compiled
function, to be compiled with each, and pushed at each call. Python's side is the `State` itself; the table lives as
long as the call from there. A loop over many states is given their tables, one row of an array each.
"""

from collections.abc import Sequence
from typing import Any, get_type_hints
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, box, intrinsic, models, register_model, typeof_impl, unbox
from numpy.typing import NDArray

from tempering.models.treed_gp.layout import MATRICES, State


def _array_type(name: str, hint: Any) -> types.Array:
    number = types.int64 if hint == NDArray[np.int64] else types.float64
    return types.Array(number, 2 if name in MATRICES else 1, "C")


FIELDS = {name: _array_type(name, hint) for name, hint in get_type_hints(State).items()}


class StateType(types.Type):  # type: ignore[misc]
    """The type of a `State` in compiled code.

    Its name carries a digest of the fields: an engine's loop is kept on disk by the types it was compiled for, and has
    what opens a state inside.
    """

    def __init__(self) -> None:
        super().__init__(name=f"TreedGPState_{crc32(str(FIELDS).encode()):08x}")


STATE = StateType()
# Where each array begins in the table, in bytes: five words of Numba's about it, its shape and its strides.
_ENDS = 8 * np.cumsum([5 + 2 * kind.ndim for kind in FIELDS.values()])
_BEGINS = {name: int(end) for name, end in zip(FIELDS, [0, *_ENDS], strict=False)}
register_model(StateType)(models.OpaqueModel)


@typeof_impl.register(State)  # type: ignore[untyped-decorator]
def _typeof(state: State, context: Any) -> StateType:
    for name, array in zip(State._fields, state, strict=True):
        kind = FIELDS[name]
        fits = array.ndim == kind.ndim and array.dtype == np.dtype(str(kind.dtype)) and array.flags.c_contiguous
        if not fits:
            raise TypeError(
                f"The array {name} of a state must be a contiguous {kind.ndim}-d array of {kind.dtype}, but is a "
                f"{array.ndim}-d array of {array.dtype}. Take states from TreedGPModel.allocate."
            )
    return STATE


def _table(context: Any) -> ir.Type:
    """Return the layout of the table: the arrays, and the Python object they came from."""
    return ir.LiteralStructType([*(context.get_data_type(kind) for kind in FIELDS.values()), cgutils.voidptr_t])


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = StateType

    def generic_resolve(self, kind: StateType, name: str) -> Any:
        return FIELDS.get(name)


@lower_getattr_generic(StateType)  # type: ignore[untyped-decorator]
def _attribute(context: Any, builder: Any, kind: Any, pointer: Any, name: str) -> Any:
    array = context.get_data_type(FIELDS[name])
    place = cgutils.gep_inbounds(builder, pointer, _BEGINS[name])
    value = builder.load(builder.bitcast(place, array.as_pointer()))
    return impl_ret_borrowed(context, builder, FIELDS[name], value)


@unbox(StateType)  # type: ignore[untyped-decorator]
def _unbox(kind: Any, state: Any, c: Any) -> NativeValue:
    table = cgutils.alloca_once(c.builder, _table(c.context))
    natives = []
    for index, array in enumerate(FIELDS.values()):
        item = c.pyapi.tuple_getitem(state, index)
        native = c.unbox(array, item)
        c.context.pack_value(c.builder, array, native.value, cgutils.gep_inbounds(c.builder, table, 0, index))
        natives.append((array, native))
    c.builder.store(state, cgutils.gep_inbounds(c.builder, table, 0, len(FIELDS)))
    failed = natives[0][1].is_error
    for _, native in natives[1:]:
        failed = c.builder.or_(failed, native.is_error)

    def cleanup() -> None:
        for array, native in natives:
            c.context.nrt.decref(c.builder, array, native.value)

    return NativeValue(c.builder.bitcast(table, cgutils.voidptr_t), is_error=failed, cleanup=cleanup)


@box(StateType)  # type: ignore[untyped-decorator]
def _box(kind: Any, pointer: Any, c: Any) -> Any:
    table = c.builder.bitcast(pointer, _table(c.context).as_pointer())
    state = c.builder.load(cgutils.gep_inbounds(c.builder, table, 0, len(FIELDS)))
    c.pyapi.incref(state)
    return state


def tables_of(states: Sequence[State]) -> NDArray[np.int64]:
    """Return the tables of states, one row each: good for as long as the states live."""
    return np.array([_row(state) for state in states], np.int64)


def _row(state: State) -> list[int]:
    _typeof(state, None)
    words: list[int] = []
    for array in state:
        words += [0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]
    return [*words, id(state)]


@intrinsic
def _state_of_row(typing_context, tables, row):  # type: ignore[no-untyped-def]
    """Return the state of a row."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        found = context.make_array(signature.args[0])(context, builder, arguments[0])
        first = builder.mul(arguments[1], context.get_constant(types.int64, _ENDS[-1] // 8 + 1))
        return builder.bitcast(builder.gep(found.data, [first]), cgutils.voidptr_t)

    return STATE(types.int64[:, ::1], types.int64), generate


def state_of_row(tables: NDArray[np.int64], row: int) -> State:
    """Return the state of a row, in compiled code."""
    found: State = _state_of_row(tables, row)
    return found
