"""Square roots by one instruction: `math.sqrt` becomes a call of a function elsewhere."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tempering.models.treed_gp.compiled import compiled


def square_root(builder: Any, x: Any) -> Any:
    """Write LLVM's own square root of a number or a vector."""
    suffix = f"v{x.type.count}f64" if isinstance(x.type, ir.VectorType) else "f64"
    kind = ir.FunctionType(x.type, [x.type])
    name = f"llvm.sqrt.{suffix}"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, [x])


@intrinsic
def _root(typing_context, x):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return square_root(builder, arguments[0])

    return types.float64(types.float64), generate


@compiled
def root(x: float) -> float:
    """Return the square root."""
    return float(_root(x))
