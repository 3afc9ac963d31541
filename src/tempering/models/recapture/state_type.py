"""The type of a state in compiled code."""

from numba import types

from tempering.compiling.states import StateType
from tempering.models.recapture.layout import Ints, State

_DIMENSIONS = {
    "ints": 1, "floats": 1, "structure": 2, "hyper": 3, "values": 3, "chi": 3, "energy": 1, "slopes": 3, "laws": 3,
}  # fmt: skip
FIELDS = {
    name: types.Array(types.int64 if name in ("ints", "structure") else types.float64, n, "C")
    for name, n in _DIMENSIONS.items()
}
STATE = StateType(State, FIELDS, "empty_state").register()
_state_of_row = STATE.of_row()


def state_of_row(tables: Ints, row: int) -> State:
    """Return the state of a row of `StateType.tables_of`, in compiled code."""
    found: State = _state_of_row(tables, row)
    return found
