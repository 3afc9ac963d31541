"""The type of a state in compiled code."""

from typing import Any, get_type_hints

import numpy as np
from numba import types
from numpy.typing import NDArray

from tempering.compiling.states import StateType
from tempering.models.treed_gp.layout import MATRICES, State


def _array_type(name: str, hint: Any) -> types.Array:
    number = types.int64 if hint == NDArray[np.int64] else types.float64
    return types.Array(number, 2 if name in MATRICES else 1, "C")


FIELDS = {name: _array_type(name, hint) for name, hint in get_type_hints(State).items()}
STATE = StateType(State, FIELDS, "TreedGPModel.allocate").register()
_state_of_row = STATE.of_row()


def state_of_row(tables: NDArray[np.int64], row: int) -> State:
    """Return the state of a row of `StateType.tables_of`, in compiled code."""
    found: State = _state_of_row(tables, row)
    return found
